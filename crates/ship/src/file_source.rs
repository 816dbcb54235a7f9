//! Files of JSON lines as a topic of one partition.
//!
//! # Invariants
//! 1. A position is the number of a file, from 0, in its upper bits, and the offset after a line in
//!    its lower 40. So positions grow from line to line, and from file to file.
//! 2. Only whole lines are read. The last file may grow; the others are complete. A last line
//!    without an end is whole if it is a whole JSON object: nothing that follows would change it.

use crate::change::{Change, Cursor};
use crate::change_line;
use crate::error::{Error, Result};
use crate::topic::{Source, Topic};
use quire_env::{Env, ReadFile};
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const OFFSET_BITS: u32 = 40;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;

/// Bytes that are read at once, and the longest line.
const CHUNK_BYTES: usize = 1 << 20;
const LINE_BYTES_MAX: usize = 64 << 20;

/// How often the end of the last file is checked.
const POLL: Duration = Duration::from_millis(100);

/// Files of documents, one JSON object a line, or of changes as `quire tail` prints them.
#[derive(Debug)]
pub struct FileSource {
    env: Arc<dyn Env>,
    paths: Vec<PathBuf>,
    key_field: String,
}

impl FileSource {
    /// These files, one after another. A document has its key in the field `key_field`.
    pub fn new(env: Arc<dyn Env>, paths: Vec<PathBuf>, key_field: impl Into<String>) -> FileSource {
        FileSource {
            env,
            paths,
            key_field: key_field.into(),
        }
    }
}

impl Source for FileSource {
    fn identity(&self) -> String {
        let names = self.paths.iter().map(|path| path.display().to_string());
        format!("files {}", names.collect::<Vec<_>>().join(", "))
    }

    fn grows(&self) -> bool {
        true
    }

    fn has_dense_positions(&self) -> bool {
        false
    }

    fn open(&self, _place: Option<&Value>) -> Result<Box<dyn Topic>> {
        Ok(Box::new(FileTopic {
            env: Arc::clone(&self.env),
            paths: self.paths.clone(),
            key_field: self.key_field.clone(),
            file: None,
        }))
    }
}

/// The position after a line of a file.
fn position(number: usize, after: u64) -> u64 {
    (number as u64) << OFFSET_BITS | after
}

struct FileTopic {
    env: Arc<dyn Env>,
    paths: Vec<PathBuf>,
    key_field: String,
    /// The file that was read last, and its number.
    file: Option<(usize, Arc<dyn ReadFile>)>,
}

impl Topic for FileTopic {
    fn read(&mut self, cursor: &Cursor, bytes_max: usize, wait: Duration) -> Result<Vec<Change>> {
        let position = cursor.position(0);
        let mut number = (position >> OFFSET_BITS) as usize;
        let mut offset = position & OFFSET_MASK;
        let mut waited = Duration::ZERO;
        if number >= self.paths.len() {
            return Err(Error::Source(
                "the stored position is past the files".into(),
            ));
        }
        loop {
            let (lines, length) = self.lines(number, offset, bytes_max)?;
            if !lines.is_empty() {
                let changes = self.changes(number, offset, &lines)?;
                if !changes.is_empty() {
                    return Ok(changes);
                }
                // Only empty lines.
                offset += lines.len() as u64;
                continue;
            }
            let is_last = number + 1 == self.paths.len();
            if is_last && waited < wait {
                self.env.sleep(POLL);
                waited += POLL;
                continue;
            }
            if let Some(change) = self.last_line(number, offset, length)? {
                return Ok(vec![change]);
            }
            if is_last {
                return Ok(Vec::new());
            }
            if offset < length {
                return Err(self.wrong(number, offset, "the last line has no end"));
            }
            (number, offset) = (number + 1, 0);
        }
    }

    fn end(&self) -> Option<Cursor> {
        // Positions of lines are not dense, so their distance says nothing.
        None
    }
}

impl FileTopic {
    fn file(&mut self, number: usize) -> Result<Arc<dyn ReadFile>> {
        match &self.file {
            Some((open, file)) if *open == number => Ok(Arc::clone(file)),
            _ => {
                let file = self.env.open_read(&self.paths[number])?;
                self.file = Some((number, Arc::clone(&file)));
                Ok(file)
            }
        }
    }

    /// Whole lines from an offset on, about `bytes_max` bytes but one line at least if there is
    /// one, and the length of the file.
    fn lines(&mut self, number: usize, offset: u64, bytes_max: usize) -> Result<(Vec<u8>, u64)> {
        let file = self.file(number)?;
        let length = file.len()?;
        if offset > length {
            return Err(self.wrong(number, offset, "the file is shorter than it was"));
        }
        let left = usize::try_from(length - offset).unwrap_or(usize::MAX);
        let mut want = bytes_max.clamp(1, CHUNK_BYTES);
        loop {
            let mut bytes = vec![0; want.min(left)];
            file.read_exact_at(offset, &mut bytes)?;
            if let Some(end) = memchr::memrchr(b'\n', &bytes) {
                bytes.truncate(end + 1);
                return Ok((bytes, length));
            }
            if want >= left {
                return Ok((Vec::new(), length));
            }
            if want > LINE_BYTES_MAX {
                return Err(self.wrong(number, offset, "the line is longer than 64 MiB"));
            }
            want *= 2;
        }
    }

    /// The line without an end that the file ends with; none if it is not whole.
    fn last_line(&mut self, number: usize, offset: u64, length: u64) -> Result<Option<Change>> {
        let bytes = usize::try_from(length - offset).unwrap_or(usize::MAX);
        if bytes == 0 || bytes > LINE_BYTES_MAX {
            return Ok(None);
        }
        let mut line = vec![0; bytes];
        self.file(number)?.read_exact_at(offset, &mut line)?;
        let text = std::str::from_utf8(&line).unwrap_or_default();
        let text = text.trim_start_matches('\u{feff}').trim();
        if !text.starts_with('{') || serde_json::from_str::<IgnoredAny>(text).is_err() {
            return Ok(None);
        }
        let change = self.change(&line);
        let change = change.map_err(|why| self.wrong(number, offset, &why))?;
        Ok(Some(Change {
            partition: 0,
            position: position(number, length),
            ..change
        }))
    }

    fn changes(&self, number: usize, start: u64, lines: &[u8]) -> Result<Vec<Change>> {
        let (mut changes, mut begin) = (Vec::new(), 0);
        for end in memchr::memchr_iter(b'\n', lines) {
            let line = &lines[begin..end];
            let offset = start + begin as u64;
            begin = end + 1;
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let change = self
                .change(line)
                .map_err(|why| self.wrong(number, offset, &why))?;
            let after = start + begin as u64;
            changes.push(Change {
                partition: 0,
                position: position(number, after),
                ..change
            });
        }
        Ok(changes)
    }

    /// A line as a change without a place.
    fn change(&self, line: &[u8]) -> std::result::Result<Change, String> {
        let line = std::str::from_utf8(line).map_err(|error| error.to_string())?;
        let line = line.trim_start_matches('\u{feff}').trim();
        if line.starts_with("{\"partition\":")
            && let Ok(change) = change_line::read(line)
        {
            return Ok(change);
        }
        let fields: BTreeMap<String, &RawValue> =
            serde_json::from_str(line).map_err(|error| error.to_string())?;
        let key = fields
            .get(&self.key_field)
            .ok_or_else(|| format!("the document has no field {:?}, its key", self.key_field))?;
        Ok(Change {
            partition: 0,
            position: 0,
            time_micros: 0,
            key: change_line::key_text(key.get())?.into(),
            document: Some(line.into()),
        })
    }

    fn wrong(&self, number: usize, offset: u64, why: &str) -> Error {
        let path = self.paths[number].display();
        Error::Source(format!("{path}, line at byte {offset}: {why}"))
    }
}
