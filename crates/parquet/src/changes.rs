//! Changes of documents as a Parquet file.

use bytes::Bytes;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::io::{self, Write};
use std::sync::Arc;

/// Bytes of keys and documents in a row group, about: they are in memory until it is written.
const GROUP_BYTES: usize = 16 << 20;

/// Rows of a row group at most.
const GROUP_ROWS: usize = 1 << 20;

/// The columns. A deletion has no document.
const SCHEMA: &str = "message changes {
    required int32 partition;
    required int64 position;
    optional int64 time (timestamp(micros,true));
    required binary key (string);
    required boolean deleted;
    optional binary document (json);
}";

/// One change of one document.
#[derive(Debug, Clone, Copy)]
pub struct ChangeRow<'a> {
    /// The partition of the topic.
    pub partition: u32,
    /// Its place in the partition.
    pub position: u64,
    /// When it was committed: microseconds since 1970 UTC; 0 if that is unknown.
    pub time_micros: i64,
    /// The document's key.
    pub key: &'a str,
    /// The document as JSON; none if it was deleted.
    pub document: Option<&'a str>,
}

/// Writes changes to a file: the columns `partition`, `position`, `time`, `key`, `deleted` and
/// `document`, compressed with zstd. The file is none until [`finish`](Self::finish).
pub struct ChangesWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    group: Group,
}

/// The rows of a row group, by column.
#[derive(Default)]
struct Group {
    bytes: usize,
    partitions: Vec<i32>,
    positions: Vec<i64>,
    /// Of those that are known, and which these are.
    times: Vec<i64>,
    are_timed: Vec<i16>,
    keys: Vec<ByteArray>,
    are_deleted: Vec<bool>,
    documents: Vec<ByteArray>,
    have_documents: Vec<i16>,
}

impl<W: Write + Send> ChangesWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// If nothing can be written to it.
    pub fn new(to: W) -> io::Result<ChangesWriter<W>> {
        let begin = || {
            let level = ZstdLevel::try_new(3)?;
            let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level));
            let schema = Arc::new(parse_message_type(SCHEMA)?);
            SerializedFileWriter::new(to, schema, Arc::new(properties.build()))
        };
        Ok(ChangesWriter {
            file: begin().map_err(failed)?,
            group: Group::default(),
        })
    }

    /// Writes a change.
    ///
    /// # Errors
    /// Of the file, and if a number is too large for the format.
    pub fn push(&mut self, change: ChangeRow<'_>) -> io::Result<()> {
        self.group.push(change)?;
        let is_full = self.group.bytes >= GROUP_BYTES || self.group.keys.len() >= GROUP_ROWS;
        match is_full {
            true => self.end_group(),
            false => Ok(()),
        }
    }

    /// Ends the file, and gives back what it was written to.
    ///
    /// # Errors
    /// Of the file.
    pub fn finish(mut self) -> io::Result<W> {
        self.end_group()?;
        self.file.into_inner().map_err(failed)
    }

    fn end_group(&mut self) -> io::Result<()> {
        let group = std::mem::take(&mut self.group);
        if group.keys.is_empty() {
            return Ok(());
        }
        let mut write = || {
            let mut to = self.file.next_row_group()?;
            group.write(&mut to)?;
            to.close().map(drop)
        };
        write().map_err(failed)
    }
}

impl Group {
    fn push(&mut self, change: ChangeRow<'_>) -> io::Result<()> {
        let too_large = |_| io::Error::other("a partition or a position is too large for Parquet");
        let partition = change.partition.try_into().map_err(too_large)?;
        let position = change.position.try_into().map_err(too_large)?;
        self.partitions.push(partition);
        self.positions.push(position);
        let is_timed = change.time_micros != 0;
        self.times.extend(is_timed.then_some(change.time_micros));
        self.are_timed.push(is_timed.into());
        self.keys.push(text(change.key));
        self.are_deleted.push(change.document.is_none());
        self.documents.extend(change.document.map(text));
        self.have_documents.push(change.document.is_some().into());
        self.bytes += change.key.len() + change.document.map_or(0, str::len);
        Ok(())
    }

    /// Writes the columns, in the order of [`SCHEMA`].
    fn write<W: Write + Send>(&self, to: &mut SerializedRowGroupWriter<'_, W>) -> Result<()> {
        column::<Int32Type, W>(to, &self.partitions, None)?;
        column::<Int64Type, W>(to, &self.positions, None)?;
        column::<Int64Type, W>(to, &self.times, Some(&self.are_timed))?;
        column::<ByteArrayType, W>(to, &self.keys, None)?;
        column::<BoolType, W>(to, &self.are_deleted, None)?;
        column::<ByteArrayType, W>(to, &self.documents, Some(&self.have_documents))
    }
}

/// Writes the next column: its values, and for an optional one 1 or 0 for each row.
fn column<T: DataType, W: Write + Send>(
    to: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    are_there: Option<&[i16]>,
) -> Result<()> {
    let next = to.next_column()?;
    let mut next = next.ok_or_else(|| ParquetError::General("a column too many".to_owned()))?;
    next.typed::<T>().write_batch(values, are_there, None)?;
    next.close()
}

fn text(text: &str) -> ByteArray {
    Bytes::copy_from_slice(text.as_bytes()).into()
}

fn failed(error: ParquetError) -> io::Error {
    match error {
        // Of the file itself.
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Positioned, Rows};

    #[test]
    fn changes_are_read_as_rows_over_several_row_groups() {
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(GROUP_BYTES / 3));
        let documents = [None, Some("{\"a\":1}"), Some(&*long)];
        let mut writer = ChangesWriter::new(Vec::new()).unwrap();
        for number in 0..20_u32 {
            let change = ChangeRow {
                partition: number % 2,
                position: u64::from(number) << 33,
                time_micros: i64::from(number) * 1_000_000,
                key: &format!("k\"{number}"),
                document: documents[number as usize % 3],
            };
            writer.push(change).unwrap();
        }
        let bytes = writer.finish().unwrap();
        let length = bytes.len() as u64;
        let file = Positioned::new(length, move |at, buffer| {
            let from = at as usize;
            buffer.copy_from_slice(&bytes[from..from + buffer.len()]);
            Ok(())
        });
        let mut rows = Rows::open(file, |_, _| Ok(None)).unwrap();
        for number in 0..20_u64 {
            let mut members = Vec::new();
            assert!(rows.next(&mut members).unwrap());
            let row = [b"{", &members[..], b"}"].concat();
            let row: serde_json::Value = serde_json::from_slice(&row).unwrap();
            assert_eq!(row["key"], format!("k\"{number}"));
            assert_eq!(row["position"], number << 33);
            assert_eq!(row["deleted"], number % 3 == 0);
            let document = documents[number as usize % 3].unwrap_or("null");
            let document: serde_json::Value = serde_json::from_str(document).unwrap();
            assert_eq!(row["document"], document, "{number}");
            assert_eq!(row["time"].is_null(), number == 0);
        }
        assert!(!rows.next(&mut Vec::new()).unwrap());
    }

    #[test]
    fn a_position_that_parquet_has_no_number_for_is_an_error() {
        let mut writer = ChangesWriter::new(Vec::new()).unwrap();
        let change = ChangeRow {
            partition: 0,
            position: u64::MAX,
            time_micros: 0,
            key: "k",
            document: None,
        };
        assert!(writer.push(change).is_err());
    }
}
