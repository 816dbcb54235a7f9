//! Inspecting a store that is open: every byte of its files, one file at a time, while writes go on.
//!
//! # Invariants
//! 1. Reads past the block cache, and changes nothing.
//! 2. A file that a compaction took away meanwhile is no damage: there is nothing to inspect.

use crate::store::Store;
use crate::verify::{Damage, damaged, log_damage, table_damage};
use crate::{Machine, Result};
use quire_env::ErrorKind as EnvErrorKind;
use quire_log::{Finding, Inspection};
use quire_lsm::{ErrorKind as TreeErrorKind, TableMeta, TableVerify};
use quire_model::Position;
use std::path::PathBuf;

/// A file of a store: a segment of its log, or a table of one of its trees.
#[derive(Debug, Clone)]
pub struct StoreFile {
    /// Its length in bytes; of the newest segment, about that.
    pub bytes: u64,
    name: FileName,
}

#[derive(Debug, Clone)]
enum FileName {
    Segment(Position),
    Table { tree: String, meta: TableMeta },
}

impl StoreFile {
    /// Where it comes among the files of its store: segments by position, then tables as they were made.
    pub fn order(&self) -> (bool, u64) {
        match &self.name {
            FileName::Segment(base) => (false, base.0),
            FileName::Table { meta, .. } => (true, meta.file.number),
        }
    }
}

/// What an inspection comes upon.
#[derive(Debug, Clone)]
pub enum Inspected {
    /// So many more bytes were read.
    Read(u64),
    /// Something is wrong.
    Damage(Damage),
}

/// A file being inspected: an iterator that holds it open. Ends after damage to a table.
#[derive(Debug)]
pub struct FileInspection(Reading);

#[derive(Debug)]
enum Reading {
    Segment(Box<Inspection>),
    Table {
        verify: Box<TableVerify>,
        path: PathBuf,
        lost: String,
    },
    /// Damage that showed at once.
    Damage(Option<Box<Damage>>),
}

impl<M: Machine> Store<M> {
    /// The files that make up the store now, in their order.
    pub fn files(&self) -> Vec<StoreFile> {
        let inner = &*self.inner;
        let segments = inner.log.segments();
        let mut files: Vec<StoreFile> = segments
            .into_iter()
            .map(|segment| StoreFile {
                bytes: segment.file_bytes,
                name: FileName::Segment(segment.base),
            })
            .collect();
        for tree in &inner.trees {
            for meta in tree.runs().into_iter().flat_map(|run| run.tables) {
                let tree = tree.spec().name.clone();
                files.push(StoreFile {
                    bytes: meta.bytes,
                    name: FileName::Table { tree, meta },
                });
            }
        }
        files.sort_by_key(StoreFile::order);
        files
    }

    /// Begins to read a file; `None` if it is gone.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed), or those of the machine.
    pub fn inspect(&self, file: &StoreFile) -> Result<Option<FileInspection>> {
        let inner = &*self.inner;
        inner.check_open()?;
        let (tree, meta) = match &file.name {
            FileName::Segment(base) => {
                let inspection = inner.log.inspect(*base);
                return Ok(inspection.map(|log| FileInspection(Reading::Segment(Box::new(log)))));
            }
            FileName::Table { tree, meta } => (tree, meta),
        };
        let path = inner.files.path(meta.file)?;
        let lost = format!(
            "{} entries of the {tree} tree; the log can give them again",
            meta.entries
        );
        let reading = match TableVerify::open(&**inner.shared.env(), &path, meta) {
            Ok(verify) => Reading::Table {
                verify: Box::new(verify),
                path,
                lost,
            },
            Err(error)
                if error.kind() == TreeErrorKind::Env(EnvErrorKind::NotFound)
                    && !self.is_current(meta) =>
            {
                return Ok(None);
            }
            Err(error) if damaged(&error) => {
                Reading::Damage(Some(Box::new(table_damage(error, path, lost))))
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Some(FileInspection(reading)))
    }

    /// Whether a table is one of the store's still.
    fn is_current(&self, meta: &TableMeta) -> bool {
        let runs = self.inner.trees.iter().flat_map(|tree| tree.runs());
        runs.flat_map(|run| run.tables)
            .any(|table| table.file == meta.file)
    }
}

impl Iterator for FileInspection {
    type Item = Result<Inspected>;

    fn next(&mut self) -> Option<Result<Inspected>> {
        match &mut self.0 {
            Reading::Damage(damage) => damage.take().map(|damage| Ok(Inspected::Damage(*damage))),
            Reading::Segment(log) => loop {
                return Some(match log.next()? {
                    Ok(Finding::Read(bytes)) => Ok(Inspected::Read(bytes)),
                    Ok(Finding::Damage(damage)) => Ok(Inspected::Damage(log_damage(damage))),
                    Ok(_) => continue,
                    Err(error) => Err(error.into()),
                });
            },
            Reading::Table { verify, path, lost } => match verify.step() {
                Ok(read) => read.map(|bytes| Ok(Inspected::Read(bytes))),
                Err(error) if damaged(&error) => {
                    let damage = table_damage(error, path.clone(), std::mem::take(lost));
                    self.0 = Reading::Damage(None);
                    Some(Ok(Inspected::Damage(damage)))
                }
                Err(error) => {
                    self.0 = Reading::Damage(None);
                    Some(Err(error.into()))
                }
            },
        }
    }
}
