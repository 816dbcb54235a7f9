//! Inputs of `quire load`: files and standard input, and their formats.

use crate::files;
use quire_pipeline::{CellType, CsvOptions, Input};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// How documents are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// One JSON object a line
    Ndjson,
    /// A header row that names the fields, then one document a row
    Csv,
    /// The same with tabs in place of commas
    Tsv,
}

/// How tables are read.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Tables")]
pub(crate) struct TableArguments {
    /// The types of columns, as in price=decimal,sku=string: integer, decimal, boolean or string.
    /// A type alone is that of all others [default: inferred from the first rows]
    #[arg(long, value_name = "TYPES")]
    types: Option<ColumnTypes>,
    /// What is between two cells: a character, or `tab` [default: a comma; a tab in .tsv files]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    delimiter: Option<u8>,
}

impl TableArguments {
    fn options(&self, format: Format) -> CsvOptions {
        let types = self.types.clone().unwrap_or_default();
        let usual = if format == Format::Tsv { b'\t' } else { b',' };
        CsvOptions {
            delimiter: self.delimiter.unwrap_or(usual),
            types: types.by_name,
            other_types: types.others,
        }
    }

    /// Whether one is given.
    pub(crate) fn is_some(&self) -> bool {
        self.types.is_some() || self.delimiter.is_some()
    }
}

/// The value of `--types`.
#[derive(Debug, Clone, Default)]
struct ColumnTypes {
    by_name: BTreeMap<String, CellType>,
    others: Option<CellType>,
}

impl FromStr for ColumnTypes {
    type Err = String;

    fn from_str(text: &str) -> Result<ColumnTypes, String> {
        let mut types = ColumnTypes::default();
        for part in text.split(',') {
            // A column's name may have an equals sign.
            let is_new = match part.rsplit_once('=') {
                Some((name, of)) => {
                    let before = types.by_name.insert(name.to_owned(), cell_type(of)?);
                    before.is_none()
                }
                None => types.others.replace(cell_type(part)?).is_none(),
            };
            if !is_new {
                return Err(format!("{part:?}: its type is given twice"));
            }
        }
        Ok(types)
    }
}

fn cell_type(name: &str) -> Result<CellType, String> {
    match name.trim() {
        "integer" | "int" => Ok(CellType::Integer),
        "decimal" | "float" => Ok(CellType::Decimal),
        "boolean" | "bool" => Ok(CellType::Boolean),
        "string" | "text" => Ok(CellType::String),
        other => Err(format!(
            "there is no type {other:?}; there are integer, decimal, boolean and string"
        )),
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [b'"' | b'\r' | b'\n'] => Err("a quote and a line end have a meaning of their own".into()),
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("it is one ASCII character, or `tab`".into()),
    }
}

/// An input that a command line names.
#[derive(Debug)]
pub(crate) struct InputArgument {
    /// The file; none for standard input.
    file: Option<PathBuf>,
    format: Format,
}

impl InputArgument {
    /// `-` is standard input. If no format is given, the extension decides; standard input is
    /// NDJSON.
    ///
    /// # Errors
    /// A message for the user: the file is compressed, or its format is unknown.
    pub(crate) fn new(path: &Path, format: Option<Format>) -> Result<InputArgument, String> {
        if path == Path::new("-") {
            let format = format.unwrap_or(Format::Ndjson);
            return Ok(InputArgument { file: None, format });
        }
        let extension = path
            .extension()
            .and_then(OsStr::to_str)
            .unwrap_or("")
            .to_ascii_lowercase();
        let shown = path.display();
        if let Some(tool) = decompressor(&extension) {
            return Err(format!(
                "{shown} is compressed; pipe it in: {tool} {shown} | quire load DB COLLECTION -"
            ));
        }
        let format = match (format, extension.as_str()) {
            (Some(format), _) => format,
            (None, "ndjson" | "jsonl" | "json") => Format::Ndjson,
            (None, "csv") => Format::Csv,
            (None, "tsv" | "tab") => Format::Tsv,
            (None, _) => {
                return Err(format!(
                    "cannot tell the format of {shown} by its name; \
                     say --format ndjson, csv or tsv"
                ));
            }
        };
        let file = Some(path.to_owned());
        Ok(InputArgument { file, format })
    }

    /// Its name in messages.
    pub(crate) fn name(&self) -> String {
        match &self.file {
            Some(path) => path.display().to_string(),
            None => "standard input".to_owned(),
        }
    }

    /// Its length in bytes, where it is known.
    ///
    /// # Errors
    /// If the file is not there, or is a directory.
    pub(crate) fn size(&self) -> io::Result<Option<u64>> {
        match &self.file {
            Some(path) => files::length(path),
            None => Ok(None),
        }
    }

    /// Whether it is a table.
    pub(crate) fn is_table(&self) -> bool {
        self.format != Format::Ndjson
    }

    /// What the pipeline reads.
    pub(crate) fn into_input(self, tables: &TableArguments) -> Input {
        let format = match self.format {
            Format::Ndjson => quire_pipeline::Format::Ndjson,
            table => quire_pipeline::Format::Csv(tables.options(table)),
        };
        match self.file.clone() {
            Some(path) => Input::new(self.name(), format, move || {
                Ok(Box::new(files::open(&path)?))
            }),
            None => Input::new(self.name(), format, || Ok(Box::new(io::stdin())))
                .waiting_with(wait_for_stdin),
        }
    }
}

/// Waits until standard input can be read, or has ended, this long at most; false if it can't.
fn wait_for_stdin(time: Duration) -> bool {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let Ok(time) = Timespec::try_from(time) else {
        return true;
    };
    // An error, such as an interruption, says nothing.
    poll(&mut polled, Some(&time)).is_ok_and(|ready| ready > 0)
}

/// The command that decompresses files with this extension.
fn decompressor(extension: &str) -> Option<&'static str> {
    match extension {
        "zst" | "zstd" => Some("zstd -dc"),
        "gz" | "tgz" => Some("gunzip -c"),
        "bz2" => Some("bzip2 -dc"),
        "xz" => Some("xz -dc"),
        "lz4" => Some("lz4 -dc"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_goes_by_extension_and_compressed_files_are_refused() {
        let format =
            |name: &str| InputArgument::new(Path::new(name), None).map(|argument| argument.format);
        for name in ["a.ndjson", "b/a.JSONL", "a.json", "-"] {
            assert_eq!(format(name), Ok(Format::Ndjson), "{name}");
        }
        assert_eq!(format("a.b.csv"), Ok(Format::Csv));
        assert_eq!(format("a.b.tsv"), Ok(Format::Tsv));
        assert!(format("a.txt").is_err_and(|message| message.contains("--format")));
        assert!(format("a").is_err_and(|message| message.contains("--format")));
        assert!(
            format("x/a.ndjson.zst")
                .is_err_and(|message| message.contains("zstd -dc x/a.ndjson.zst |"))
        );
        assert!(format("a.csv.gz").is_err_and(|message| message.contains("gunzip -c a.csv.gz |")));
    }
}
