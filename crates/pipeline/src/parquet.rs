//! Parquet: columns, whose rows are documents.

use crate::csv_types::ColumnTypes;
use crate::source::Source;
use std::fs::File;
use std::io;

/// How a Parquet file begins.
pub(crate) const MAGIC: &[u8] = b"PAR1";

/// How a Parquet input is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParquetOptions {
    /// The types of columns that have a single value, which are else those of the file.
    pub types: ColumnTypes,
    /// Fields that all documents have, each with its JSON: those in the names of the file's
    /// folders. A column of the same name is taken in place of one.
    pub fields: Vec<(String, String)>,
}

/// The documents of a file.
///
/// # Errors
/// If the file is none of Parquet, is cut or damaged, or does not have a column that a type is
/// given for.
#[cfg(feature = "parquet")]
pub(crate) fn open(file: File, options: &ParquetOptions) -> io::Result<Box<dyn Source>> {
    rows::open(file, options)
}

/// Says that this program can't read them.
///
/// # Errors
/// Always.
#[cfg(not(feature = "parquet"))]
pub(crate) fn open(_: File, _: &ParquetOptions) -> io::Result<Box<dyn Source>> {
    let what = "this program was built without the feature `parquet`";
    Err(io::Error::other(what))
}

#[cfg(feature = "parquet")]
mod rows {
    use super::ParquetOptions;
    use crate::batch::{SourceBatch, SourceItem};
    use crate::source::{Source, TEXT_BYTES_MAX};
    use quire_parquet::{Cast, Error, Rows};
    use std::fs::File;
    use std::io;

    /// Turns rows into JSON objects.
    struct ParquetSource {
        rows: Rows<File>,
        /// The fields that each document begins with: `"name":value,`.
        fields: String,
        /// The bytes of the file.
        bytes: u64,
    }

    pub(super) fn open(file: File, options: &ParquetOptions) -> io::Result<Box<dyn Source>> {
        let bytes = file.metadata()?.len();
        let types = &options.types;
        let cast = |name: &str, is_scalar: bool| match types.of(name) {
            Some(of) if is_scalar => {
                let cast: Cast = Box::new(move |text, out| of.write(text, out));
                Ok(Some(cast))
            }
            Some(_) if types.by_name.contains_key(name) => Err(format!(
                "a type is given for the column `{name}`, which has more than one value"
            )),
            _ => Ok(None),
        };
        let rows = Rows::open(file, cast).map_err(io::Error::other)?;
        let has = |name: &str| rows.names().any(|column| column == name);
        if let Some(absent) = types.by_name.keys().find(|name| !has(name)) {
            return Err(io::Error::other(format!(
                "a type is given for the column `{absent}`, which the file does not have"
            )));
        }
        let mut fields = String::new();
        for (name, json) in options.fields.iter().filter(|(name, _)| !has(name)) {
            fields += &format!("{}:{json},", serde_json::to_string(name)?);
        }
        Ok(Box::new(ParquetSource {
            rows,
            fields,
            bytes,
        }))
    }

    impl ParquetSource {
        /// The place in the file that as many rows have, were they of one size.
        fn byte(&self) -> u64 {
            let (read, total) = self.rows.progress();
            let byte = u128::from(self.bytes) * u128::from(read) / u128::from(total.max(1));
            u64::try_from(byte).map_or(self.bytes, |byte| byte.min(self.bytes))
        }
    }

    impl Source for ParquetSource {
        fn read_into(&mut self, batch: &mut SourceBatch) -> io::Result<bool> {
            let (start, before) = (batch.text.len(), self.byte());
            batch.text.push(b'{');
            batch.text.extend_from_slice(self.fields.as_bytes());
            let json = match self.rows.next(&mut batch.text) {
                Ok(true) => Ok(()),
                Err(Error::Row(why)) => Err(why),
                Ok(false) => {
                    batch.text.truncate(start);
                    batch.end.byte = self.bytes;
                    return Ok(false);
                }
                Err(error) => {
                    batch.text.truncate(start);
                    return Err(io::Error::other(error));
                }
            };
            if batch.text.ends_with(b",") {
                // The file has no columns.
                batch.text.pop();
            }
            batch.text.push(b'}');
            let is_long = batch.text.len() - start > TEXT_BYTES_MAX;
            let json = json.and_then(|()| match is_long {
                true => Err(format!(
                    "the row is longer than {} MiB",
                    TEXT_BYTES_MAX >> 20
                )),
                false => Ok(start..batch.text.len()),
            });
            if json.is_err() {
                batch.text.truncate(start);
            }
            batch.push(SourceItem {
                line: self.rows.progress().0,
                bytes: before..self.byte(),
                json,
            });
            Ok(true)
        }

        fn is_buffered(&self) -> bool {
            true
        }
    }
}
