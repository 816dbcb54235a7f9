//! Input: a named stream of bytes and the format of its documents.

use crate::csv::CsvSource;
use crate::csv_types::CsvOptions;
use crate::ndjson::NdjsonSource;
use crate::parquet::{self, ParquetOptions};
use crate::source::Source;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::time::Duration;

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 256 << 10;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How documents are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    Ndjson,
    /// A header row that names the fields, then one document a row.
    Csv(CsvOptions),
    /// Columns, of a file alone: its description is at its end.
    Parquet(ParquetOptions),
}

/// A stream of documents. The pipeline opens an input when the ones before it have been read.
pub struct Input {
    name: String,
    format: Format,
    open: Open,
    pub(crate) wait: Option<Box<Wait>>,
}

/// Opens the bytes of an input.
enum Open {
    Stream(Box<Opens<Box<dyn Read + Send>>>),
    File(Box<Opens<File>>),
}

type Opens<T> = dyn FnOnce() -> io::Result<T> + Send;

/// Waits until a read would not wait, this long at most; false if it still would.
pub(crate) type Wait = dyn Fn(Duration) -> bool + Send;

impl Input {
    /// The documents that `open` gives, in `format`. `name` stands in messages.
    pub fn new(
        name: impl Into<String>,
        format: Format,
        open: impl FnOnce() -> io::Result<Box<dyn Read + Send>> + Send + 'static,
    ) -> Input {
        Input {
            name: name.into(),
            format,
            open: Open::Stream(Box::new(open)),
            wait: None,
        }
    }

    /// The documents of a file, in any format.
    pub fn of_file(
        name: impl Into<String>,
        format: Format,
        open: impl FnOnce() -> io::Result<File> + Send + 'static,
    ) -> Input {
        Input {
            name: name.into(),
            format,
            open: Open::File(Box::new(open)),
            wait: None,
        }
    }

    /// An input that may fall silent, such as a pipe. `wait` waits until a read of it would not
    /// wait, or for the given time; it returns false if a read still would. Documents that were
    /// read are then written without waiting for the next one.
    #[must_use]
    pub fn waiting_with(self, wait: impl Fn(Duration) -> bool + Send + 'static) -> Input {
        Input {
            wait: Some(Box::new(wait)),
            ..self
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Opens it. Returns its source and the offset of its first document's bytes: after a
    /// byte-order mark, if there is one. The keys of documents are in the field `key_field`.
    ///
    /// # Errors
    /// Of the stream, of a CSV header row, of what a Parquet file says of itself, and if the bytes
    /// are compressed.
    pub(crate) fn open(self, key_field: &str) -> io::Result<(Box<dyn Source>, u64)> {
        let reader: Box<dyn Read + Send> = match (self.open, &self.format) {
            (Open::File(open), Format::Parquet(options)) => {
                return Ok((parquet::open(open()?, options)?, 0));
            }
            (Open::Stream(_), Format::Parquet(_)) => {
                let what = "Parquet is read from a file: its description is at its end";
                return Err(io::Error::other(what));
            }
            (Open::File(open), _) => Box::new(open()?),
            (Open::Stream(open), _) => open()?,
        };
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, reader);
        let first = reader.fill_buf()?;
        let tool = match first {
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("zstd -dc"),
            [0x1f, 0x8b, ..] => Some("gunzip -c"),
            _ => None,
        };
        if let Some(tool) = tool {
            let what = format!("it is compressed; decompress it first, with {tool}");
            return Err(io::Error::other(what));
        }
        if first.starts_with(parquet::MAGIC) {
            let what = "it is a Parquet file, which --format parquet reads";
            return Err(io::Error::other(what));
        }
        let mut start = 0;
        if first.starts_with(BYTE_ORDER_MARK) {
            start = BYTE_ORDER_MARK.len();
            reader.consume(start);
        }
        let start = start as u64;
        let source: Box<dyn Source> = match self.format {
            Format::Ndjson => Box::new(NdjsonSource::new(reader, start)),
            Format::Csv(options) => Box::new(CsvSource::new(reader, start, &options, key_field)?),
            Format::Parquet(_) => return Err(io::Error::other("Parquet is read above")),
        };
        Ok((source, start))
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("name", &self.name)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}
