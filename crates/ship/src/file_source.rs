//! Files as a topic of one partition: JSON lines, CSV, Parquet; those of a list, or of a folder.
//!
//! # Invariants
//! 1. A position is the number of a file, from 0, in its upper bits, and in its lower 40 the offset
//!    after a line, or after a row as `file_rows` has it. So positions grow from line to line, and
//!    from file to file.
//! 2. Only whole lines are read. The last file of lines may grow; the others are complete. A last
//!    line without an end is whole if it is a whole JSON object: nothing that follows would change
//!    it. CSV and Parquet are complete.

use crate::change::{Change, Cursor};
use crate::change_line;
use crate::error::{Error, Result};
use crate::file_rows::FileRows;
use crate::folder::Folder;
use crate::topic::{Source, Topic};
use quire_env::{Env, ErrorKind, ReadFile};
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

/// Files of documents, one JSON object a line, or of changes as `quire tail` prints them; or of
/// rows, by the end of their names (`.csv`, `.parquet`).
#[derive(Debug)]
pub struct FileSource {
    env: Arc<dyn Env>,
    place: FilesPlace,
    key_field: String,
}

#[derive(Debug)]
enum FilesPlace {
    Listed(Vec<PathBuf>),
    Folder(PathBuf),
}

impl FileSource {
    /// These files, one after another. A document has its key in the field `key_field`.
    pub fn new(env: Arc<dyn Env>, paths: Vec<PathBuf>, key_field: impl Into<String>) -> FileSource {
        FileSource {
            env,
            place: FilesPlace::Listed(paths),
            key_field: key_field.into(),
        }
    }

    /// The files of a folder, in the order of their names, and those that come into it after them.
    pub fn of_folder(
        env: Arc<dyn Env>,
        folder: PathBuf,
        key_field: impl Into<String>,
    ) -> FileSource {
        FileSource {
            env,
            place: FilesPlace::Folder(folder),
            key_field: key_field.into(),
        }
    }
}

impl Source for FileSource {
    fn identity(&self) -> String {
        match &self.place {
            FilesPlace::Listed(paths) => {
                let names = paths.iter().map(|path| path.display().to_string());
                format!("files {}", names.collect::<Vec<_>>().join(", "))
            }
            FilesPlace::Folder(path) => format!("folder {}", path.display()),
        }
    }

    fn grows(&self) -> bool {
        true
    }

    fn has_dense_positions(&self) -> bool {
        false
    }

    fn open(&self, place: Option<&Value>) -> Result<Box<dyn Topic>> {
        let files = match &self.place {
            FilesPlace::Listed(paths) => Files::Listed(paths.clone()),
            FilesPlace::Folder(path) => Files::Folder(Folder::open(&*self.env, path, place)?),
        };
        Ok(Box::new(FileTopic {
            env: Arc::clone(&self.env),
            files,
            key_field: self.key_field.clone(),
            file: None,
            rows: None,
        }))
    }
}

/// The position after a line of a file.
fn position(number: usize, after: u64) -> u64 {
    (number as u64) << OFFSET_BITS | after
}

/// Files by their numbers.
enum Files {
    Listed(Vec<PathBuf>),
    Folder(Folder),
}

impl Files {
    /// The number after that of the last file that may be read.
    fn readable(&self) -> usize {
        match self {
            Files::Listed(paths) => paths.len(),
            Files::Folder(folder) => folder.readable(),
        }
    }

    fn path(&self, number: usize) -> Option<PathBuf> {
        match self {
            Files::Listed(paths) => paths.get(number).cloned(),
            Files::Folder(folder) => folder.path(number),
        }
    }
}

struct FileTopic {
    env: Arc<dyn Env>,
    files: Files,
    key_field: String,
    /// The file that was read last, and its number.
    file: Option<(usize, Arc<dyn ReadFile>)>,
    /// Its rows, and its number, if it is a file of rows.
    rows: Option<(usize, FileRows)>,
}

/// What a file has after an offset.
enum Found {
    Changes(Vec<Change>),
    /// Nothing that is read, up to this offset.
    Nothing(u64),
    /// Its end, or a part of a line before the end: the length of the file.
    End(Option<u64>),
}

impl Topic for FileTopic {
    fn read(&mut self, cursor: &Cursor, bytes_max: usize, wait: Duration) -> Result<Vec<Change>> {
        let position = cursor.position(0);
        let mut number = (position >> OFFSET_BITS) as usize;
        let mut offset = position & OFFSET_MASK;
        let mut waited = Duration::ZERO;
        loop {
            let readable = self.files.readable();
            let is_empty = number == 0 && readable == 0 && matches!(self.files, Files::Folder(_));
            if number >= readable && !is_empty {
                return Err(Error::Source(
                    "the stored position is past the files".into(),
                ));
            }
            let found = match is_empty {
                true => Found::End(None),
                false => self.find(number, offset, bytes_max)?,
            };
            let length = match found {
                Found::Changes(changes) => return Ok(changes),
                Found::Nothing(after) => {
                    offset = after;
                    continue;
                }
                Found::End(length) => length,
            };
            let is_last = is_empty || number + 1 == readable;
            if is_last && waited < wait {
                if waited.is_zero()
                    && let Files::Folder(folder) = &mut self.files
                {
                    folder.look(&*self.env, number)?;
                }
                self.env.sleep(POLL);
                waited += POLL;
                continue;
            }
            if let Some(length) = length {
                if let Some(change) = self.last_line(number, offset, length)? {
                    return Ok(vec![change]);
                }
                if !is_last && offset < length {
                    return Err(self.wrong(number, offset, "the last line has no end"));
                }
            }
            if is_last {
                return Ok(Vec::new());
            }
            (number, offset) = (number + 1, 0);
        }
    }

    fn place(&self) -> Option<Value> {
        match &self.files {
            Files::Listed(_) => None,
            Files::Folder(folder) => Some(folder.place()),
        }
    }

    fn stored(&mut self, place: &Value) {
        if let Files::Folder(folder) = &mut self.files {
            folder.set_stored(place);
        }
    }

    fn end(&self) -> Option<Cursor> {
        // Positions of lines are not dense, so their distance says nothing.
        None
    }
}

impl FileTopic {
    /// What a file has after an offset: about `bytes_max` bytes, but one line or row at least.
    fn find(&mut self, number: usize, offset: u64, bytes_max: usize) -> Result<Found> {
        let is_open = matches!(&self.rows, Some((open, rows))
            if *open == number && rows.offset() == offset);
        if !is_open {
            let file = self.file(number)?;
            let path = self.files.path(number).unwrap_or_default();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let rows = FileRows::open(&name, &file, offset);
            let rows = rows.map_err(|why| self.wrong(number, offset, &why))?;
            self.rows = rows.map(|rows| (number, rows));
        }
        if self.rows.is_some() {
            let changes = self.row_changes(number, bytes_max)?;
            return Ok(match changes.is_empty() {
                true => Found::End(None),
                false => Found::Changes(changes),
            });
        }
        let (lines, length) = self.lines(number, offset, bytes_max)?;
        if lines.is_empty() {
            return Ok(Found::End(Some(length)));
        }
        let changes = self.changes(number, offset, &lines)?;
        Ok(match changes.is_empty() {
            // Only empty lines.
            true => Found::Nothing(offset + lines.len() as u64),
            false => Found::Changes(changes),
        })
    }

    /// The next rows of the file that is open.
    fn row_changes(&mut self, number: usize, bytes_max: usize) -> Result<Vec<Change>> {
        let (mut changes, mut bytes, mut row) = (Vec::new(), 0, Vec::new());
        while bytes < bytes_max
            && let Some((_, rows)) = &mut self.rows
        {
            row.clear();
            let before = rows.offset();
            let more = rows.next(&mut row);
            let after = rows.offset();
            let change = match more {
                Ok(false) => break,
                Ok(true) => self.change(&row),
                Err(why) => Err(why),
            };
            let change = change.map_err(|why| self.wrong(number, before, &why))?;
            bytes += change.bytes();
            changes.push(Change {
                position: position(number, after),
                ..change
            });
        }
        Ok(changes)
    }

    fn file(&mut self, number: usize) -> Result<Arc<dyn ReadFile>> {
        match &self.file {
            Some((open, file)) if *open == number => Ok(Arc::clone(file)),
            _ => {
                let path = self.files.path(number).unwrap_or_default();
                let file = self.env.open_read(&path).map_err(|error| match error.kind() {
                    ErrorKind::NotFound => Error::Source(format!(
                        "{} is gone, and may not have been read to its end. Put it back, or empty \
                         the sinks and remove their positions, to begin anew",
                        path.display()
                    )),
                    _ => error.into(),
                })?;
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
        let path = self.files.path(number).unwrap_or_default();
        let what = match path.extension().is_some_and(|end| end == "parquet") {
            true => "after row",
            false => "line at byte",
        };
        Error::Source(format!("{}, {what} {offset}: {why}", path.display()))
    }
}
