//! The documents of a run: a file of one compact JSON object a line, each with its key in `_id`.
//!
//! It is written once, before anything is measured, so that every engine reads the same bytes and
//! none pays for making them.

use crate::{Result, adverts};
use quiredb::{Document, Key};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// The field that holds a document's key.
pub(crate) const KEY_FIELD: &str = "_id";

/// What a corpus holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Documents.
    pub(crate) documents: u64,
    /// Bytes of their text, line ends not counted.
    pub(crate) bytes: u64,
}

/// Writes `count` generated adverts to `path`.
pub(crate) fn generate(count: u64, path: &Path) -> Result<Size> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let (mut line, mut bytes) = (String::new(), 0);
    for number in 0..count {
        line.clear();
        adverts::write(number, &mut line);
        bytes += line.len() as u64;
        line.push('\n');
        out.write_all(line.as_bytes())?;
    }
    out.flush()?;
    Ok(Size {
        documents: count,
        bytes,
    })
}

/// Copies at most `count` documents of the NDJSON file `from` to `path`, as Quire would give them
/// back: compact. So answers can be compared byte by byte. That this changes nothing but white
/// space and escapes is checked here, by another JSON library.
pub(crate) fn copy(from: &Path, count: u64, path: &Path) -> Result<Size> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut size = Size {
        documents: 0,
        bytes: 0,
    };
    for (number, line) in BufReader::with_capacity(1 << 20, File::open(from)?)
        .lines()
        .enumerate()
    {
        if size.documents == count {
            break;
        }
        let line = line?;
        let at = |what: &dyn std::fmt::Display| {
            format!("{} line {}: {what}", from.display(), number + 1)
        };
        let document = Document::from_json(line.as_bytes()).map_err(|error| at(&error))?;
        let value = document.get(KEY_FIELD).ok_or_else(|| at(&"no field _id"))?;
        Key::from_value(value).map_err(|error| at(&error))?;
        let text = document.to_json();
        let same: [serde_json::Value; 2] =
            [serde_json::from_str(&line)?, serde_json::from_str(&text)?];
        if same[0] != same[1] {
            return Err(at(&"comes back as another document").into());
        }
        size.documents += 1;
        size.bytes += text.len() as u64;
        writeln!(out, "{text}")?;
    }
    out.flush()?;
    Ok(size)
}

/// Some documents, one after another.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    text: String,
    ends: Vec<usize>,
}

impl Batch {
    /// Each document's text.
    pub(crate) fn documents(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, end)| &self.text[start..*end])
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// Reads a corpus from front to back.
pub(crate) struct Reader {
    lines: BufReader<File>,
    left: u64,
}

impl Reader {
    /// Reads the first `count` documents.
    pub(crate) fn open(path: &Path, count: u64) -> Result<Reader> {
        Ok(Reader {
            lines: BufReader::with_capacity(1 << 20, File::open(path)?),
            left: count,
        })
    }

    /// Fills `batch` with the next `documents` documents, fewer at the end. False if there are none
    /// left.
    pub(crate) fn next(&mut self, documents: usize, batch: &mut Batch) -> Result<bool> {
        batch.text.clear();
        batch.ends.clear();
        while batch.ends.len() < documents && self.left > 0 {
            if self.lines.read_line(&mut batch.text)? == 0 {
                break;
            }
            if batch.text.ends_with('\n') {
                batch.text.pop();
            }
            batch.ends.push(batch.text.len());
            self.left -= 1;
        }
        Ok(!batch.ends.is_empty())
    }
}

/// What every answer must be: keys, and hashes of their documents. Takes some 40 bytes a document.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    keys: String,
    entries: Vec<(usize, u64)>,
}

impl Expected {
    /// Reads the first `count` documents of a corpus.
    pub(crate) fn read(path: &Path, count: u64) -> Result<Expected> {
        let (mut expected, mut batch) = (Expected::default(), Batch::default());
        let mut reader = Reader::open(path, count)?;
        while reader.next(1000, &mut batch)? {
            for document in batch.documents() {
                expected.keys.push_str(&key_of(document)?);
                expected
                    .entries
                    .push((expected.keys.len(), xxh3_64(document.as_bytes())));
            }
        }
        Ok(expected)
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The key of a document, and the hash of its text.
    pub(crate) fn at(&self, index: usize) -> (&str, u64) {
        let start = index
            .checked_sub(1)
            .map_or(0, |before| self.entries[before].0);
        let (end, hash) = self.entries[index];
        (&self.keys[start..end], hash)
    }
}

/// A document's key. Reads the whole text, so what is not JSON is refused: what a peer that stores
/// plain text must do to be as safe as a document database.
pub(crate) fn key_of(document: &str) -> Result<String> {
    #[derive(serde::Deserialize)]
    struct Keyed<'a> {
        #[serde(borrow, rename = "_id")]
        key: KeyText<'a>,
    }
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum KeyText<'a> {
        Borrowed(&'a str),
        Owned(String),
        Integer(i64),
    }
    let keyed: Keyed<'_> = serde_json::from_str(document)?;
    Ok(match keyed.key {
        KeyText::Borrowed(text) => text.to_owned(),
        KeyText::Owned(text) => text,
        KeyText::Integer(number) => number.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_whatever_their_type() {
        for (json, key) in [
            (r#"{"_id":"a"}"#, "a"),
            (r#"{"x":[1],"_id":"\u0061"}"#, "a"),
            (r#"{"_id":7}"#, "7"),
        ] {
            assert_eq!(key_of(json).unwrap(), key);
        }
        assert!(key_of(r#"{"_id":"a","x":}"#).is_err());
    }
}
