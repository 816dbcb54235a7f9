//! `quire put`: writes or patches one document.

use super::wide::{self, Opened};
use crate::Context;
use crate::error::{Error, Result, causes};
use crate::place::Place;
use quiredb::{Document, Key, Position, Write};
use std::io::{self, Read};

/// The longest input: the largest document, 16 MiB, and 1 MiB for white space.
const INPUT_BYTES_MAX: u64 = 17 << 20;

/// Write or patch one document
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quire put ./db papers '{\"_id\":\"a1\",\"title\":\"On logs\"}'     with the key in it
  quire put ./db papers a1 '{\"title\":\"On logs\"}'               the key is given beside it
  quire put ./db papers a1 '{\"year\":1999}' --patch             change some fields
  generate | quire put ./db papers a1 -                        read it from standard input

Exit code 1 if a condition does not hold.")]
pub(crate) struct Put {
    #[command(flatten)]
    place: Place,
    /// The collection
    collection: String,
    /// The key [default: the one in the key field of the document]
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    key: Option<String>,
    /// The document; `-` or none is standard input
    #[arg(value_name = "JSON")]
    json_text: Option<String>,
    /// Write only if this is the version of the document
    #[arg(long, value_name = "VERSION", conflicts_with = "if_absent")]
    if_version: Option<u64>,
    /// Write only if there is no document of this key
    #[arg(long, conflicts_with = "patch")]
    if_absent: bool,
    /// Change the document by a JSON merge patch (RFC 7396) instead of replacing it
    #[arg(long)]
    patch: bool,
}

impl Put {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let (key, text) = key_and_text(self.key, self.json_text);
        let key = key
            .map(|key| Key::parse(&key))
            .transpose()
            .map_err(|error| Error::Usage(error.to_string()))?;
        let json = match text {
            Some(text) => text.into_bytes(),
            None => read_stdin()?,
        };
        let document = Document::from_json(&json)
            .map_err(|error| Error::Failed(format!("the document: {}", causes(&error))))?;
        let documents = match wide::open(context, &self.place, &self.collection)? {
            Opened::Wide(_database, wide) => {
                let condition = wide::condition(self.if_version, self.if_absent);
                return wide::put(context, &wide, key, &document, self.patch, condition);
            }
            Opened::Plain(documents) => documents,
        };
        let key = match key {
            Some(key) => key,
            None => documents
                .settings()
                .key_of(&document)
                .map_err(Error::engine("the document has no key"))?,
        };
        let mut write = match self.patch {
            true => Write::patch(key.clone(), document),
            false => Write::put(key.clone(), document),
        };
        if let Some(version) = self.if_version {
            write = write.if_version(Position(version));
        } else if self.if_absent {
            write = write.if_absent();
        }
        let written = documents
            .write(write)
            .map_err(Error::engine(format!("cannot write {key}")))?;
        documents
            .sync()
            .map_err(Error::engine("cannot make the document durable"))?;
        context.out.written(&key, &written)
    }
}

/// Which argument is which: a lone one that looks like a document is one. No text means standard
/// input.
fn key_and_text(first: Option<String>, second: Option<String>) -> (Option<String>, Option<String>) {
    let (key, text) = match (first, second) {
        (Some(first), None) if first == "-" || first.trim_start().starts_with('{') => {
            (None, Some(first))
        }
        other => other,
    };
    (key, text.filter(|text| text != "-"))
}

fn read_stdin() -> Result<Vec<u8>> {
    let mut json = Vec::new();
    io::stdin()
        .lock()
        .take(INPUT_BYTES_MAX)
        .read_to_end(&mut json)
        .map_err(|error| Error::Failed(format!("cannot read standard input: {error}")))?;
    Ok(json)
}
