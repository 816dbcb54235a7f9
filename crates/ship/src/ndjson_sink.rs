//! Files of JSON lines as a sink: the changes, as `quire tail` prints them.
//!
//! # Invariants
//! 1. The mark is the number of the file and its length after the last bulk. At the start the file
//!    is cut to that length and later files are removed, so each change is there once.
//! 2. A file is synced before its mark is stored, and before the next file is begun.

use crate::change::Change;
use crate::change_line;
use crate::sink::{Failure, Sink, Verdict};
use parking_lot::Mutex;
use quire_env::{AppendFile, Env};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// A folder of files `changes-00000001.ndjson` and so on.
#[derive(Debug)]
pub struct NdjsonSink {
    env: Arc<dyn Env>,
    dir: PathBuf,
    file_bytes: u64,
    open: Mutex<Option<OpenFile>>,
}

#[derive(Debug)]
struct OpenFile {
    number: u64,
    file: Box<dyn AppendFile>,
}

impl NdjsonSink {
    /// Files in a folder, which is made; a new one begins after `file_bytes`.
    pub fn new(env: Arc<dyn Env>, dir: PathBuf, file_bytes: u64) -> NdjsonSink {
        NdjsonSink {
            env,
            dir,
            file_bytes,
            open: Mutex::new(None),
        }
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("changes-{number:08}.ndjson"))
    }

    fn create(&self, number: u64) -> quire_env::Result<OpenFile> {
        let file = self.env.create(&self.path(number))?;
        self.env.sync_dir(&self.dir)?;
        Ok(OpenFile { number, file })
    }

    /// Removes files from this number on: what is in them is past the mark.
    fn remove_from(&self, first: u64) -> quire_env::Result<()> {
        let mut number = first;
        while self.env.exists(&self.path(number))? {
            self.env.remove(&self.path(number))?;
            number += 1;
        }
        self.env.sync_dir(&self.dir)
    }

    fn resume(&self, mark: Option<&Value>) -> quire_env::Result<Result<OpenFile, Failure>> {
        self.env.create_dir_all(&self.dir)?;
        let Some(mark) = mark else {
            self.remove_from(1)?;
            return self.create(1).map(Ok);
        };
        let (number, bytes) = (mark["file"].as_u64(), mark["bytes"].as_u64());
        let (number, bytes) = (number.unwrap_or(1), bytes.unwrap_or(0));
        let mut file = self.env.open_append(&self.path(number))?;
        if file.len() < bytes {
            return Ok(Err(Failure::Final(format!(
                "{} has {} bytes, and had {bytes} when the position was stored",
                file.path().display(),
                file.len()
            ))));
        }
        file.truncate(bytes)?;
        self.remove_from(number + 1)?;
        Ok(Ok(OpenFile { number, file }))
    }

    fn append(&self, open: &mut OpenFile, lines: &[u8]) -> quire_env::Result<()> {
        let appended = open.file.append(lines);
        if appended.is_err() {
            // What was written of it.
            open.file.truncate(open.file.len())?;
        }
        appended
    }
}

/// Syncs the open file. After a failure nothing is known of what is in it, and no later sync would
/// say so: it is closed, and the run ends.
fn sync(open: &mut Option<OpenFile>) -> Result<(), Failure> {
    let synced = open.as_mut().ok_or_else(not_begun)?.file.sync();
    synced.map_err(|error| {
        *open = None;
        Failure::Final(error.to_string())
    })
}

fn away(error: quire_env::Error) -> Failure {
    Failure::NoAnswer(error.to_string())
}

fn not_begun() -> Failure {
    Failure::Final("the files were not opened".to_owned())
}

impl Sink for NdjsonSink {
    fn send(&self, bulk: &[&Change]) -> Result<Vec<Verdict>, Failure> {
        let mut lines = Vec::new();
        for change in bulk {
            change_line::write(change, &mut lines);
        }
        let mut open = self.open.lock();
        if let Some(full) = &*open
            && full.file.len() >= self.file_bytes
        {
            let next = full.number + 1;
            sync(&mut open)?;
            *open = Some(self.create(next).map_err(away)?);
        }
        self.append(open.as_mut().ok_or_else(not_begun)?, &lines)
            .map_err(away)?;
        Ok(vec![Verdict::Done; bulk.len()])
    }

    fn concurrency_max(&self) -> usize {
        1
    }

    fn begin(&self, mark: Option<&Value>) -> Result<(), Failure> {
        let opened = self.resume(mark);
        let opened = opened.map_err(|error| Failure::Final(error.to_string()))??;
        *self.open.lock() = Some(opened);
        Ok(())
    }

    fn mark(&self) -> Option<Value> {
        let open = self.open.lock();
        let open = open.as_ref()?;
        Some(json!({"file": open.number, "bytes": open.file.len()}))
    }

    fn sync(&self) -> Result<(), Failure> {
        sync(&mut self.open.lock())
    }
}
