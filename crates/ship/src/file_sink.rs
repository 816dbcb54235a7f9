//! Files as a sink: the changes, as lines that `quire tail` prints or as Parquet.
//!
//! # Invariants
//! 1. Changes are appended to a file of lines. The mark is the number of the file and its length
//!    after the last bulk. At the start the file is cut to that length and later files are removed,
//!    so each change is there once.
//! 2. A file is synced before its mark is stored, and before the next file is begun.
//! 3. A Parquet file is made of a whole file of lines, which is then kept until a mark of a later
//!    file is stored. So a Parquet file that has its name is whole, and one with changes past the
//!    mark is made anew.

use crate::change::Change;
use crate::change_line;
use crate::sink::{Failure, Sink, Verdict};
use parking_lot::Mutex;
use quire_env::{AppendFile, Env};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Makes a file of another form from one of lines, durably but for its name.
type Convert = fn(&dyn Env, lines: &Path, to: &Path) -> Result<(), Failure>;

/// A folder of files `changes-00000001.ndjson` and so on, or `.parquet`.
#[derive(Debug)]
pub struct FileSink {
    env: Arc<dyn Env>,
    dir: PathBuf,
    file_bytes: u64,
    /// How files of lines become Parquet, if they do.
    to_parquet: Option<Convert>,
    open: Mutex<Option<OpenFile>>,
}

#[derive(Debug)]
struct OpenFile {
    number: u64,
    file: Box<dyn AppendFile>,
    /// The first file of lines that may still be there.
    oldest: u64,
}

impl OpenFile {
    fn new(number: u64, file: Box<dyn AppendFile>) -> OpenFile {
        OpenFile {
            number,
            file,
            oldest: number,
        }
    }
}

impl FileSink {
    /// Files of lines in a folder, which is made; a new one begins after `file_bytes`.
    pub fn lines(env: Arc<dyn Env>, dir: PathBuf, file_bytes: u64) -> FileSink {
        FileSink {
            env,
            dir,
            file_bytes,
            to_parquet: None,
            open: Mutex::new(None),
        }
    }

    /// Files of Parquet in a folder, which is made: one for each `file_bytes` of lines, and one of
    /// what is left at the end of a run. Until then the lines are in a file whose name begins with
    /// a dot.
    #[cfg(feature = "parquet")]
    pub fn parquet(env: Arc<dyn Env>, dir: PathBuf, file_bytes: u64) -> FileSink {
        FileSink {
            to_parquet: Some(crate::parquet_file::make),
            ..FileSink::lines(env, dir, file_bytes)
        }
    }

    /// The file of lines.
    fn path(&self, number: u64) -> PathBuf {
        let dot = if self.to_parquet.is_some() { "." } else { "" };
        self.dir.join(format!("{dot}changes-{number:08}.ndjson"))
    }

    fn parquet_path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("changes-{number:08}.parquet"))
    }

    /// A Parquet file that is being made.
    fn unnamed_path(&self, number: u64) -> PathBuf {
        self.dir.join(format!(".changes-{number:08}.parquet.tmp"))
    }

    fn create(&self, number: u64) -> quire_env::Result<OpenFile> {
        let file = self.env.create(&self.path(number))?;
        self.env.sync_dir(&self.dir)?;
        Ok(OpenFile::new(number, file))
    }

    /// Removes files from this number on: what is in them is past the mark.
    fn remove_from(&self, first: u64) -> quire_env::Result<()> {
        for name in self.env.list(&self.dir)? {
            let Some(number) = number_of(&name).filter(|number| *number >= first) else {
                continue;
            };
            let path = self.dir.join(&name);
            let is_lines = path == self.path(number);
            if is_lines || self.to_parquet.is_some() && self.is_parquet(&path, number) {
                self.env.remove(&path)?;
            }
        }
        self.env.sync_dir(&self.dir)
    }

    /// Whether it is the Parquet file of this number, or the beginning of one.
    fn is_parquet(&self, path: &Path, number: u64) -> bool {
        path == self.parquet_path(number) || path == self.unnamed_path(number)
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
        if self.to_parquet.is_none() {
            file.truncate(bytes)?;
            self.remove_from(number + 1)?;
            return Ok(Ok(OpenFile::new(number, file)));
        }
        let (parquet, next) = (self.parquet_path(number), self.path(number + 1));
        let is_parquet_there = self.env.exists(&parquet)?;
        // A Parquet file that is whole may have been moved away since.
        let is_made = is_parquet_there || self.env.exists(&next)?;
        let mut open = if is_made && file.len() == bytes {
            self.remove_from(number + 2)?;
            self.open_empty(number + 1)?
        } else {
            // What has changes past the mark is gone before the lines look as if it had not.
            if is_parquet_there {
                self.env.remove(&parquet)?;
            }
            self.remove_from(number + 1)?;
            file.truncate(bytes)?;
            OpenFile::new(number, file)
        };
        while open.oldest > 1 && self.env.exists(&self.path(open.oldest - 1))? {
            open.oldest -= 1;
        }
        Ok(Ok(open))
    }

    /// Opens the lines after a Parquet file, of which nothing is stored yet.
    fn open_empty(&self, number: u64) -> quire_env::Result<OpenFile> {
        let path = self.path(number);
        if !self.env.exists(&path)? {
            return self.create(number);
        }
        let parquet = self.parquet_path(number);
        if self.env.exists(&parquet)? {
            self.env.remove(&parquet)?;
            self.env.sync_dir(&self.dir)?;
        }
        let mut file = self.env.open_append(&path)?;
        file.truncate(0)?;
        Ok(OpenFile::new(number, file))
    }

    fn append(&self, open: &mut OpenFile, lines: &[u8]) -> quire_env::Result<()> {
        let appended = open.file.append(lines);
        if appended.is_err() {
            // What was written of it.
            open.file.truncate(open.file.len())?;
        }
        appended
    }

    /// Makes the Parquet file of a whole file of lines, if there are to be such files.
    fn convert(&self, number: u64) -> Result<(), Failure> {
        let Some(convert) = self.to_parquet else {
            return Ok(());
        };
        let made = self.unnamed_path(number);
        convert(&*self.env, &self.path(number), &made)?;
        let named = self.env.rename(&made, &self.parquet_path(number));
        named
            .and_then(|()| self.env.sync_dir(&self.dir))
            .map_err(Failure::of_machine)
    }

    /// Ends the open file, and begins the next one.
    fn begin_next(&self, open: &mut Option<OpenFile>) -> Result<(), Failure> {
        sync(open)?;
        let Some(full) = &*open else {
            return Err(not_begun());
        };
        let (number, oldest) = (full.number, full.oldest);
        self.convert(number)?;
        let next = self.create(number + 1).map_err(Failure::of_machine)?;
        *open = Some(OpenFile { oldest, ..next });
        Ok(())
    }

    /// Removes files of lines before the one of the stored mark: they became Parquet files.
    fn remove_converted(&self, open: &mut OpenFile, before: u64) -> quire_env::Result<()> {
        while open.oldest < before {
            let path = self.path(open.oldest);
            if self.env.exists(&path)? {
                self.env.remove(&path)?;
            }
            open.oldest += 1;
        }
        Ok(())
    }
}

/// The number in the name of a file of this sink, if it is one.
fn number_of(name: &str) -> Option<u64> {
    let rest = name.trim_start_matches('.').strip_prefix("changes-")?;
    rest.split('.').next()?.parse().ok()
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

fn not_begun() -> Failure {
    Failure::Final("the files were not opened".to_owned())
}

impl Sink for FileSink {
    fn send(&self, bulk: &[&Change]) -> Result<Vec<Verdict>, Failure> {
        let mut lines = Vec::new();
        for change in bulk {
            change_line::write(change, &mut lines);
        }
        let mut open = self.open.lock();
        if let Some(full) = &*open
            && full.file.len() >= self.file_bytes
        {
            self.begin_next(&mut open)?;
        }
        self.append(open.as_mut().ok_or_else(not_begun)?, &lines)
            .map_err(Failure::of_machine)?;
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

    fn stored(&self, mark: Option<&Value>) -> Result<(), Failure> {
        let file = mark.and_then(|mark| mark["file"].as_u64());
        match (&self.to_parquet, file, &mut *self.open.lock()) {
            (Some(_), Some(file), Some(open)) => self
                .remove_converted(open, file)
                .map_err(Failure::of_machine),
            _ => Ok(()),
        }
    }

    fn finish(&self) -> Result<(), Failure> {
        let mut open = self.open.lock();
        let is_left = open.as_ref().is_some_and(|open| !open.file.is_empty());
        match self.to_parquet {
            Some(_) if is_left => self.begin_next(&mut open),
            _ => Ok(()),
        }
    }
}
