//! The journal: a file of JSON lines, each durable before what it announces is done.
//!
//! # Invariants
//! 1. A line is synced before [`append`](Journal::append) returns. So whatever was done to the
//!    cluster is announced in the file, after a kill at any moment.
//! 2. A last line without an end was never acted on, and is cut off.

use super::history::History;
use super::record::Record;
use crate::error::{Error, Result};
use jiff::Timestamp;
use quire_env::{AppendFile, Env, ErrorKind};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const BYTES_MAX: u64 = 64 << 20;

#[derive(Serialize, Deserialize)]
struct Line {
    /// RFC 3339, UTC.
    at: String,
    says: String,
    #[serde(flatten)]
    record: Record,
}

/// A line for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Said {
    /// When: RFC 3339, UTC.
    pub at: String,
    /// What.
    pub says: String,
}

/// The file, and what it amounts to.
#[derive(Debug)]
pub(crate) struct Journal {
    file: Box<dyn AppendFile>,
    history: History,
}

impl Journal {
    /// The file's path in the folder of a reindex.
    pub(crate) fn path(folder: &Path) -> PathBuf {
        folder.join("journal.ndjson")
    }

    /// Opens the file, or makes it. The caller is the only one that has it.
    ///
    /// # Errors
    /// Of the file, and if a line but the last can't be understood.
    pub(crate) fn open(env: &dyn Env, folder: &Path) -> Result<Journal> {
        let path = Journal::path(folder);
        if !env.exists(&path)? {
            let file = env.create(&path)?;
            env.sync_dir(folder)?;
            let history = History::default();
            return Ok(Journal { file, history });
        }
        let (whole_bytes, lines) = read(env, &path)?;
        let mut file = env.open_append(&path)?;
        file.truncate(whole_bytes)?;
        file.sync()?;
        let history = history_of(&lines);
        Ok(Journal { file, history })
    }

    /// What the file amounts to, without opening it for writing, and its last `count` lines.
    ///
    /// # Errors
    /// Of the file, and if a line but the last can't be understood.
    pub(crate) fn look(env: &dyn Env, folder: &Path, count: usize) -> Result<(History, Vec<Said>)> {
        let path = Journal::path(folder);
        let lines = match env.exists(&path)? {
            true => read(env, &path)?.1,
            false => Vec::new(),
        };
        let last = lines.len().saturating_sub(count);
        let said = lines[last..].iter().map(|line| Said {
            at: line.at.clone(),
            says: line.says.clone(),
        });
        Ok((history_of(&lines), said.collect()))
    }

    /// Bytes of the file; 0 if there is none. It grows with each record.
    pub(crate) fn bytes(env: &dyn Env, folder: &Path) -> u64 {
        let file = env.open_read(&Journal::path(folder));
        file.and_then(|file| file.len()).unwrap_or(0)
    }

    /// Adds a record. Durable when it returns.
    ///
    /// # Errors
    /// Of the file. What it announces must not be done then.
    pub(crate) fn append(&mut self, env: &dyn Env, record: Record) -> Result<Said> {
        let at = Timestamp::from_microsecond(env.now_micros()).unwrap_or_default();
        let line = Line {
            at: format!("{at:.3}"),
            says: record.says(),
            record,
        };
        let json = serde_json::to_string(&line);
        let json = json.map_err(|error| Error::Config(error.to_string()))?;
        self.file.append(format!("{json}\n").as_bytes())?;
        self.file.sync()?;
        self.history.apply(&line.record);
        let Line { at, says, .. } = line;
        Ok(Said { at, says })
    }

    pub(crate) fn history(&self) -> &History {
        &self.history
    }
}

fn history_of(lines: &[Line]) -> History {
    let mut history = History::default();
    for line in lines {
        history.apply(&line.record);
    }
    history
}

/// The bytes of whole lines, and these.
fn read(env: &dyn Env, path: &Path) -> Result<(u64, Vec<Line>)> {
    let bytes = match env.read(path, BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::TooLarge => {
            return Err(Error::Config(format!(
                "{} is larger than a journal gets; move it away",
                path.display()
            )));
        }
        Err(error) => return Err(error.into()),
    };
    let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1);
    let mut lines = Vec::new();
    for (index, line) in bytes[..whole]
        .split_inclusive(|byte| *byte == b'\n')
        .enumerate()
    {
        let line = serde_json::from_slice(line).map_err(|error| {
            Error::Config(format!(
                "{}, line {}: {error}. The journal says which settings are to be put back, so \
                 nothing is done before it is mended by hand",
                path.display(),
                index + 1
            ))
        })?;
        lines.push(line);
    }
    Ok((whole as u64, lines))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reindex::record::{Place, Step};
    use quire_env::SimEnv;

    #[test]
    fn a_last_line_that_was_cut_is_as_if_it_had_not_been_written() {
        let env = SimEnv::new(1);
        let folder = Path::new("/state");
        env.create_dir_all(folder).unwrap();
        let mut journal = Journal::open(&*env, folder).unwrap();
        let create = Record::Create {
            index: "tracks-000002".to_owned(),
        };
        journal.append(&*env, create).unwrap();
        let before = (Journal::bytes(&*env, folder), journal.history().clone());
        let step = Step::Created;
        journal.append(&*env, Record::Done { step }).unwrap();
        drop(journal);
        let bytes = env.read(&Journal::path(folder), BYTES_MAX).unwrap();
        for cut in before.0 as usize..bytes.len() {
            env.replace(&Journal::path(folder), &bytes[..cut]).unwrap();
            let mut journal = Journal::open(&*env, folder).unwrap();
            assert_eq!(*journal.history(), before.1, "cut at {cut}");
            journal.append(&*env, Record::Done { step }).unwrap();
            let (history, said) = Journal::look(&*env, folder, 1).unwrap();
            assert!(history.is_done(step));
            assert_eq!(said[0].says, "The new index is created.");
        }
    }

    #[test]
    fn a_damaged_line_in_the_middle_stops_everything() {
        let env = SimEnv::new(1);
        let folder = Path::new("/state");
        env.create_dir_all(folder).unwrap();
        env.replace(&Journal::path(folder), b"{\"at\n{}\n").unwrap();
        let error = Journal::open(&*env, folder).unwrap_err().to_string();
        assert!(
            error.contains("line 1") && error.contains("by hand"),
            "{error}"
        );
    }

    #[test]
    fn every_record_is_read_as_it_was_written() {
        let env = SimEnv::new(1);
        let folder = Path::new("/state");
        env.create_dir_all(folder).unwrap();
        let mut journal = Journal::open(&*env, folder).unwrap();
        for place in [Place::Persistent, Place::Index("a".to_owned())] {
            let record = Record::PutBack {
                place,
                settings: vec!["b".to_owned()],
                left: vec![],
            };
            journal.append(&*env, record).unwrap();
        }
        journal.append(&*env, Record::End).unwrap();
        let history = journal.history().clone();
        assert_eq!(Journal::look(&*env, folder, 0).unwrap().0, history);
    }
}
