//! Files of rows: CSV and Parquet. Each row is a document.

use csv::{ByteRecord, ReaderBuilder};
use quire_env::ReadFile;
use std::io::{self, Read};
use std::sync::Arc;

use crate::object_fields::write_string;

/// The longest row.
const ROW_BYTES_MAX: u64 = 64 << 20;

/// What the csv crate reads ahead.
const BUFFER_BYTES: usize = 64 << 10;

/// Rows of a file, from one on. An offset says where the next row is: a byte of CSV, a number of
/// rows of Parquet.
pub(crate) enum FileRows {
    Csv(Box<CsvRows>),
    #[cfg(feature = "parquet")]
    Parquet(Box<ParquetRows>),
}

impl FileRows {
    /// The rows after an offset; none if the name is of another kind of file.
    ///
    /// # Errors
    /// If the file can't be read: a part of a sentence.
    pub(crate) fn open(
        name: &str,
        file: &Arc<dyn ReadFile>,
        offset: u64,
    ) -> Result<Option<FileRows>, String> {
        if name.ends_with(".csv") {
            let rows = CsvRows::open(file, offset)?;
            return Ok(Some(FileRows::Csv(Box::new(rows))));
        }
        if name.ends_with(".parquet") {
            #[cfg(feature = "parquet")]
            {
                let rows = ParquetRows::open(file, offset)?;
                return Ok(Some(FileRows::Parquet(Box::new(rows))));
            }
            #[cfg(not(feature = "parquet"))]
            return Err("this program was built without the feature `parquet`".to_owned());
        }
        Ok(None)
    }

    /// Where the next row is.
    pub(crate) fn offset(&self) -> u64 {
        match self {
            FileRows::Csv(rows) => rows.offset(),
            #[cfg(feature = "parquet")]
            FileRows::Parquet(rows) => rows.rows.progress().0,
        }
    }

    /// Appends the next row as a JSON object; false if there is none.
    ///
    /// # Errors
    /// If it can't be read: a part of a sentence.
    pub(crate) fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, String> {
        match self {
            FileRows::Csv(rows) => rows.next(out),
            #[cfg(feature = "parquet")]
            FileRows::Parquet(rows) => rows.next(out),
        }
    }
}

/// What the csv crate reads after the file: a row of its own, unless a quote is open, which has it
/// in its cell. The crate itself takes the end of the file for the end of the quote.
const END: &[u8] = b"\nx";

/// A file from an offset on, and [`END`] after it. A row has no more bytes than may be read for it.
struct From {
    file: Arc<dyn ReadFile>,
    at: u64,
    length: u64,
    left: u64,
    /// What is left of [`END`].
    end: &'static [u8],
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.length.saturating_sub(self.at);
        if rest == 0 {
            return self.end.read(buffer);
        }
        if self.left == 0 {
            return Err(io::Error::other("the row is longer than 64 MiB"));
        }
        let count = rest.min(self.left).min(buffer.len() as u64);
        let buffer = &mut buffer[..usize::try_from(count).unwrap_or(0)];
        self.file
            .read_exact_at(self.at, buffer)
            .map_err(io::Error::other)?;
        self.at += count;
        self.left -= count;
        Ok(buffer.len())
    }
}

/// CSV: a header row names the fields. Values are text, and null where a cell is empty.
pub(crate) struct CsvRows {
    reader: csv::Reader<From>,
    /// Each name as JSON.
    names: Vec<Vec<u8>>,
    record: ByteRecord,
    /// The byte where the reader began.
    start: u64,
}

impl CsvRows {
    fn open(file: &Arc<dyn ReadFile>, offset: u64) -> Result<CsvRows, String> {
        let length = file.len().map_err(|error| error.to_string())?;
        if offset > length {
            return Err("the file is shorter than it was".to_owned());
        }
        let from = |at: u64| {
            ReaderBuilder::new()
                .flexible(true)
                .has_headers(false)
                .buffer_capacity(BUFFER_BYTES)
                .from_reader(From {
                    file: Arc::clone(file),
                    at,
                    length,
                    left: ROW_BYTES_MAX,
                    end: END,
                })
        };
        let mut reader = from(0);
        let mut record = ByteRecord::new();
        if !read_row(&mut reader, length, &mut record)? {
            record.clear();
        }
        let mut names: Vec<Vec<u8>> = Vec::with_capacity(record.len());
        for (number, cell) in record.iter().enumerate() {
            let name = std::str::from_utf8(cell);
            let name = name.map_err(|_| "the header row is not UTF-8".to_owned())?;
            let name = match number {
                0 => name.trim_start_matches('\u{feff}'),
                _ => name,
            };
            let mut json = Vec::new();
            write_string(name, &mut json);
            if names.contains(&json) {
                return Err(format!("the header row names the field {name:?} twice"));
            }
            names.push(json);
        }
        let start = match offset > reader.position().byte().min(length) {
            true => offset,
            false => 0,
        };
        if start > 0 {
            reader = from(start);
        }
        Ok(CsvRows {
            reader,
            names,
            record,
            start,
        })
    }

    fn offset(&self) -> u64 {
        let read = self.start + self.reader.position().byte();
        read.min(self.reader.get_ref().length)
    }

    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, String> {
        let from = self.reader.get_mut();
        from.left = ROW_BYTES_MAX;
        let length = from.length - self.start;
        if !read_row(&mut self.reader, length, &mut self.record)? {
            return Ok(false);
        }
        if self.record.len() != self.names.len() {
            return Err(format!(
                "the row has {} cells, the header row {}",
                self.record.len(),
                self.names.len()
            ));
        }
        out.push(b'{');
        for (number, (name, cell)) in self.names.iter().zip(&self.record).enumerate() {
            if number > 0 {
                out.push(b',');
            }
            out.extend_from_slice(name);
            out.push(b':');
            match std::str::from_utf8(cell) {
                Ok("") => out.extend_from_slice(b"null"),
                Ok(text) => write_string(text, out),
                Err(_) => return Err("a cell is not UTF-8".to_owned()),
            }
        }
        out.push(b'}');
        Ok(true)
    }
}

/// Reads the next row of a reader that has `length` bytes of a file; false if there is none.
fn read_row(
    reader: &mut csv::Reader<From>,
    length: u64,
    record: &mut ByteRecord,
) -> Result<bool, String> {
    let more = reader.read_byte_record(record);
    if !more.map_err(|error| error.to_string())? {
        return Ok(false);
    }
    // The line end before the last byte of `END` may end a row of the file.
    if reader.position().byte() <= length + 1 {
        return Ok(true);
    }
    match record.len() == 1 && record.get(0) == Some(&END[1..]) {
        true => Ok(false),
        false => Err("a quote of this row is not closed".to_owned()),
    }
}

/// Parquet: columns are fields.
#[cfg(feature = "parquet")]
pub(crate) struct ParquetRows {
    rows: quire_parquet::Rows<quire_parquet::Positioned>,
}

#[cfg(feature = "parquet")]
impl ParquetRows {
    fn open(file: &Arc<dyn ReadFile>, offset: u64) -> Result<ParquetRows, String> {
        let length = file.len().map_err(|error| error.to_string())?;
        let file = Arc::clone(file);
        let file = quire_parquet::Positioned::new(length, move |at, buffer| {
            file.read_exact_at(at, buffer).map_err(io::Error::other)
        });
        let rows = quire_parquet::Rows::open(file, |_, _| Ok(None));
        let mut rows = rows.map_err(|error| error.to_string())?;
        if offset > rows.progress().1 {
            return Err("the file has fewer rows than it had".to_owned());
        }
        let mut skipped = Vec::new();
        while rows.progress().0 < offset {
            skipped.clear();
            // What is wrong with a row was said when it was read.
            if let Err(error @ quire_parquet::Error::File(_)) = rows.next(&mut skipped) {
                return Err(error.to_string());
            }
        }
        Ok(ParquetRows { rows })
    }

    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, String> {
        out.push(b'{');
        let more = self.rows.next(out).map_err(|error| error.to_string())?;
        out.push(b'}');
        Ok(more)
    }
}
