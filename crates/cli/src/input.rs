//! Inputs of `quire load`: files and standard input, and their formats.

use crate::files;
use crate::folder;
use quire_pipeline::{CellType, ColumnTypes, CsvOptions, Input, ParquetOptions};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a Parquet file begins.
const PARQUET_MAGIC: &[u8] = b"PAR1";

/// How documents are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// One JSON object a line
    Ndjson,
    /// A header row that names the fields, then one document a row
    Csv,
    /// The same with tabs in place of commas
    Tsv,
    /// Columns with types; files only
    Parquet,
}

/// How tables are read.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Tables")]
pub(crate) struct TableArguments {
    /// The types of columns, as in price=decimal,sku=string: integer, decimal, boolean or string.
    /// A type alone is that of all others [default: inferred from the first rows]
    #[arg(long, value_name = "TYPES", value_parser = column_types)]
    types: Option<ColumnTypes>,
    /// What is between two cells: a character, or `tab` [default: a comma; a tab in .tsv files]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    delimiter: Option<u8>,
}

impl TableArguments {
    fn csv(&self, format: Format) -> CsvOptions {
        let usual = if format == Format::Tsv { b'\t' } else { b',' };
        CsvOptions {
            delimiter: self.delimiter.unwrap_or(usual),
            types: self.types(),
        }
    }

    fn types(&self) -> ColumnTypes {
        self.types.clone().unwrap_or_default()
    }

    /// Checks that some input is one that the arguments are for.
    ///
    /// # Errors
    /// A message for the user.
    pub(crate) fn check(&self, inputs: &[InputArgument]) -> Result<(), String> {
        let is_any = |formats: &[Format]| inputs.iter().any(|one| formats.contains(&one.format));
        if self.delimiter.is_some() && !is_any(&[Format::Csv, Format::Tsv]) {
            return Err("--delimiter is for CSV and TSV; say --format csv".to_owned());
        }
        if self.types.is_some() && !is_any(&[Format::Csv, Format::Tsv, Format::Parquet]) {
            return Err("--types is for CSV, TSV and Parquet; say --format csv".to_owned());
        }
        Ok(())
    }
}

/// The value of `--types`.
fn column_types(text: &str) -> Result<ColumnTypes, String> {
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
    /// The fields in the names of its folders, each with its JSON.
    fields: Vec<(String, String)>,
}

impl InputArgument {
    /// The inputs at a path: a file, or the Parquet files of a folder.
    ///
    /// # Errors
    /// A message for the user: the folder can't be read or has no such file; as of
    /// [`new`](InputArgument::new).
    pub(crate) fn at(path: &Path, format: Option<Format>) -> Result<Vec<InputArgument>, String> {
        if !files::is_directory(path) || !matches!(format, None | Some(Format::Parquet)) {
            return Ok(vec![InputArgument::new(path, format)?]);
        }
        let shown = path.display();
        let parts = folder::parts(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
        if parts.is_empty() {
            return Err(format!(
                "{shown} is a directory without Parquet files; name files of other formats one \
                 by one"
            ));
        }
        let part = |part: folder::Part| InputArgument {
            file: Some(part.file),
            format: Format::Parquet,
            fields: part.fields,
        };
        Ok(parts.into_iter().map(part).collect())
    }

    /// `-` is standard input. If no format is given, the extension decides, or that the file
    /// begins as Parquet does; standard input is NDJSON.
    ///
    /// # Errors
    /// A message for the user: the file is compressed, its format is unknown, or it is Parquet on
    /// standard input.
    fn new(path: &Path, format: Option<Format>) -> Result<InputArgument, String> {
        let of = |file, format| InputArgument {
            file,
            format,
            fields: Vec::new(),
        };
        if path == Path::new("-") {
            return match format.unwrap_or(Format::Ndjson) {
                Format::Parquet => Err("Parquet is read from files, not from standard input: its \
                                        description is at its end"
                    .to_owned()),
                format => Ok(of(None, format)),
            };
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
            (None, "parquet" | "pq") => Format::Parquet,
            (None, _) if files::begins_with(path, PARQUET_MAGIC) => Format::Parquet,
            (None, _) => {
                return Err(format!(
                    "cannot tell the format of {shown} by its name; \
                     say --format ndjson, csv, tsv or parquet"
                ));
            }
        };
        Ok(of(Some(path.to_owned()), format))
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

    /// What the pipeline reads.
    pub(crate) fn into_input(self, tables: &TableArguments) -> Input {
        let format = match self.format {
            Format::Ndjson => quire_pipeline::Format::Ndjson,
            Format::Parquet => quire_pipeline::Format::Parquet(ParquetOptions {
                types: tables.types(),
                fields: self.fields.clone(),
            }),
            table => quire_pipeline::Format::Csv(tables.csv(table)),
        };
        match self.file.clone() {
            Some(path) => Input::of_file(self.name(), format, move || files::open(&path)),
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
        assert_eq!(format("a.snappy.parquet"), Ok(Format::Parquet));
        assert!(format("a.txt").is_err_and(|message| message.contains("--format")));
        assert!(format("a").is_err_and(|message| message.contains("--format")));
        assert!(
            format("x/a.ndjson.zst")
                .is_err_and(|message| message.contains("zstd -dc x/a.ndjson.zst |"))
        );
        assert!(format("a.csv.gz").is_err_and(|message| message.contains("gunzip -c a.csv.gz |")));
    }
}
