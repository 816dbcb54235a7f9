//! Inputs: files and standard input, and which format they are in.

use crate::files;
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How much is read at once.
const BUFFER_BYTES: usize = 256 << 10;

/// What documents are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// One JSON object a line
    Ndjson,
    /// A header row that names the fields, then one document a row; every value is a string
    Csv,
}

/// Where documents come from. Opened when its turn comes.
pub(crate) enum Input {
    /// A file, by path.
    File(PathBuf, Format),
    /// Standard input.
    Stdin(Format),
    /// Documents made in this process, as NDJSON, under a name for messages.
    Reader(String, Box<dyn Read + Send>),
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl Input {
    /// The input that a command-line argument means: `-` is standard input. The format goes by the
    /// extension where none is given, NDJSON for standard input.
    ///
    /// # Errors
    /// A message for the user: compressed, or of an unknown format.
    pub(crate) fn from_argument(path: &Path, format: Option<Format>) -> Result<Input, String> {
        if path == Path::new("-") {
            return Ok(Input::Stdin(format.unwrap_or(Format::Ndjson)));
        }
        let extension = path
            .extension()
            .and_then(OsStr::to_str)
            .unwrap_or("")
            .to_ascii_lowercase();
        if let Some(tool) = decompressor(&extension) {
            return Err(compressed(&path.display(), tool));
        }
        let format = match (format, extension.as_str()) {
            (Some(format), _) => format,
            (None, "ndjson" | "jsonl" | "json") => Format::Ndjson,
            (None, "csv") => Format::Csv,
            (None, _) => {
                return Err(format!(
                    "cannot tell the format of {} by its name; say --format ndjson or --format csv",
                    path.display()
                ));
            }
        };
        Ok(Input::File(path.to_owned(), format))
    }

    /// What it is called in messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Input::File(path, _) => path.display().to_string(),
            Input::Stdin(_) => "standard input".to_owned(),
            Input::Reader(name, _) => name.clone(),
        }
    }

    /// Its bytes, where that is known.
    ///
    /// # Errors
    /// If it is a file that is not there or can't be one.
    pub(crate) fn size(&self) -> io::Result<Option<u64>> {
        match self {
            Input::File(path, _) => files::length(path),
            Input::Stdin(_) | Input::Reader(..) => Ok(None),
        }
    }

    /// Opens it for reading.
    ///
    /// # Errors
    /// Of the system; also if what it holds is compressed.
    pub(super) fn open(self) -> io::Result<Opened> {
        let name: Arc<str> = self.name().into();
        let (reader, format): (Box<dyn Read + Send>, Format) = match self {
            Input::File(path, format) => (Box::new(files::open(&path)?), format),
            Input::Stdin(format) => (Box::new(io::stdin()), format),
            Input::Reader(_, reader) => (reader, Format::Ndjson),
        };
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, reader);
        let start = reader.fill_buf()?;
        let tool = match start {
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("zstd -dc"),
            [0x1f, 0x8b, ..] => Some("gunzip -c"),
            _ => None,
        };
        if let Some(tool) = tool {
            return Err(io::Error::other(compressed(&"it", tool)));
        }
        if start.starts_with(b"\xef\xbb\xbf") {
            reader.consume(3);
        }
        Ok(Opened {
            name,
            reader,
            format,
        })
    }
}

/// An input that is being read, past any byte-order mark.
pub(super) struct Opened {
    /// Its name.
    pub(super) name: Arc<str>,
    /// Its bytes.
    pub(super) reader: BufReader<Box<dyn Read + Send>>,
    /// What they are.
    pub(super) format: Format,
}

/// The command that decompresses files of this extension.
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

fn compressed(what: &dyn fmt::Display, tool: &str) -> String {
    let file = if what.to_string() == "it" {
        "FILE".to_owned()
    } else {
        what.to_string()
    };
    format!("{what} is compressed; pipe it in: {tool} {file} | quire load DB COLLECTION -")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_goes_by_extension_and_compressed_files_are_refused() {
        let format = |name: &str| match Input::from_argument(Path::new(name), None) {
            Ok(Input::File(_, format) | Input::Stdin(format)) => Ok(format),
            Ok(Input::Reader(name, _)) => Err(name),
            Err(message) => Err(message),
        };
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
