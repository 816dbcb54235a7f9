//! Inputs of `quire load`: files and standard input, and their formats.

use crate::files;
use quire_pipeline::Input;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// How documents are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// One JSON object a line
    Ndjson,
    /// A header row that names the fields, then one document a row; every value is a string
    Csv,
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
            (None, _) => {
                return Err(format!(
                    "cannot tell the format of {shown} by its name; \
                     say --format ndjson or --format csv"
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

    /// What the pipeline reads.
    pub(crate) fn into_input(self) -> Input {
        let format = match self.format {
            Format::Ndjson => quire_pipeline::Format::Ndjson,
            Format::Csv => quire_pipeline::Format::Csv,
        };
        let file = self.file.clone();
        Input::new(self.name(), format, move || match file {
            Some(path) => Ok(Box::new(files::open(&path)?)),
            None => Ok(Box::new(io::stdin())),
        })
    }
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
        assert!(format("a.txt").is_err_and(|message| message.contains("--format")));
        assert!(format("a").is_err_and(|message| message.contains("--format")));
        assert!(
            format("x/a.ndjson.zst")
                .is_err_and(|message| message.contains("zstd -dc x/a.ndjson.zst |"))
        );
        assert!(format("a.csv.gz").is_err_and(|message| message.contains("gunzip -c a.csv.gz |")));
    }
}
