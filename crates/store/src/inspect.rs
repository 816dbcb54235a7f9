//! Inspecting a store that is open: every byte of its files, one file at a time, while writes go
//! on.
//!
//! # Invariants
//! 1. Reads past the block cache, and changes nothing.
//! 2. A table that a compaction took away meanwhile is no damage: there is nothing to inspect. Of a
//!    segment that was compacted into another, that other one is read. So a caller that inspects
//!    all files in their order, but none that comes at or before the last one read, reads every
//!    record in the file that it is in then.

use crate::damaged::DamageReport;
use crate::store::Store;
use crate::verify::{Again, Damage, damaged, log_damage, lost_entries, table_damage};
use crate::{Machine, Result, TreeId};
use quire_env::ErrorKind as EnvErrorKind;
use quire_log::{Finding, Inspection, SegmentInfo};
use quire_lsm::{ErrorKind as TreeErrorKind, TableMeta, TableVerify};
use std::path::PathBuf;

/// A file of a store: a segment of its log, or a table of one of its trees.
#[derive(Debug, Clone)]
pub struct StoreFile {
    /// Its length in bytes; of the newest segment, about that.
    pub bytes: u64,
    name: FileInfo,
}

#[derive(Debug, Clone)]
enum FileInfo {
    Segment(SegmentInfo),
    Table { tree: TreeId, meta: TableMeta },
}

impl StoreFile {
    /// Where it comes among the files of its store: segments by where they end, then tables as they
    /// were made.
    pub fn order(&self) -> (bool, u64) {
        match &self.name {
            FileInfo::Segment(segment) => segment_order(segment),
            FileInfo::Table { meta, .. } => table_order(meta),
        }
    }
}

/// A segment stands for no position that one before it in this order stands for; the newest has no
/// end yet.
fn segment_order(segment: &SegmentInfo) -> (bool, u64) {
    (
        false,
        match segment.sealed {
            true => segment.next.0,
            false => u64::MAX,
        },
    )
}

fn table_order(table: &TableMeta) -> (bool, u64) {
    (true, table.file.number)
}

/// What an inspection comes upon.
#[derive(Debug, Clone)]
pub enum Inspected {
    /// This number of further bytes was read.
    Read(u64),
    /// Something is wrong.
    Damage(Damage),
}

/// A file being inspected: an iterator that holds it open. Ends after damage to a table.
#[derive(Debug)]
pub struct FileInspection {
    order: (bool, u64),
    reading: Reading,
}

impl FileInspection {
    /// The [`order`](StoreFile::order) of the file that is read.
    pub fn order(&self) -> (bool, u64) {
        self.order
    }
}

#[derive(Debug)]
enum Reading {
    Segment(Box<Inspection>),
    Table {
        verify: Box<TableVerify>,
        path: PathBuf,
        lost: String,
        report: Option<DamageReport>,
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
                name: FileInfo::Segment(segment),
            })
            .collect();
        for slot in inner.trees.iter() {
            for meta in slot.tree.runs().into_iter().flat_map(|run| run.tables) {
                files.push(StoreFile {
                    bytes: meta.bytes,
                    name: FileInfo::Table {
                        tree: slot.id,
                        meta,
                    },
                });
            }
        }
        files.sort_by_key(StoreFile::order);
        files
    }

    /// Begins to read a file, or the one that a segment was compacted into; `None` if it is gone.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed), or those of the machine.
    pub fn inspect(&self, file: &StoreFile) -> Result<Option<FileInspection>> {
        let inner = &*self.inner;
        inner.check_open()?;
        let (tree, meta) = match &file.name {
            FileInfo::Segment(segment) => {
                let inspection = inner.log.inspect(segment.base);
                return Ok(inspection.map(|(segment, log)| FileInspection {
                    order: segment_order(&segment),
                    reading: Reading::Segment(Box::new(log)),
                }));
            }
            FileInfo::Table { tree, meta } => (tree, meta),
        };
        let path = inner.files().path(meta.file)?;
        let slot = inner.trees.find(*tree);
        let report = slot.and_then(|slot| inner.damage_report(slot));
        let name = slot.map_or("dropped", |slot| &slot.tree.spec().name);
        let lost = lost_entries(name, Again::of(report.is_some(), M::LOG_IS_KEPT), meta);
        let reading = match TableVerify::open(&**inner.shared.env(), &path, meta) {
            Ok(verify) => Reading::Table {
                verify: Box::new(verify),
                path,
                lost,
                report,
            },
            Err(error)
                if error.kind() == TreeErrorKind::Env(EnvErrorKind::NotFound)
                    && !self.is_current(meta) =>
            {
                return Ok(None);
            }
            Err(error) if damaged(&error) => {
                tell(report.as_ref(), &error);
                Reading::Damage(Some(Box::new(table_damage(error, path, lost))))
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Some(FileInspection {
            order: table_order(meta),
            reading,
        }))
    }

    /// Whether a table is one of the store's still.
    fn is_current(&self, meta: &TableMeta) -> bool {
        let runs = self.inner.trees.iter().flat_map(|slot| slot.tree.runs());
        runs.flat_map(|run| run.tables)
            .any(|table| table.file == meta.file)
    }
}

fn tell(report: Option<&DamageReport>, error: &quire_lsm::Error) {
    if let Some(report) = report {
        report.tell(&error.to_string());
    }
}

impl Iterator for FileInspection {
    type Item = Result<Inspected>;

    fn next(&mut self) -> Option<Result<Inspected>> {
        match &mut self.reading {
            Reading::Damage(damage) => damage.take().map(|damage| Ok(Inspected::Damage(*damage))),
            Reading::Segment(log) => loop {
                return Some(match log.next()? {
                    Ok(Finding::Read(bytes)) => Ok(Inspected::Read(bytes)),
                    Ok(Finding::Damage(damage)) => Ok(Inspected::Damage(log_damage(damage))),
                    Ok(_) => continue,
                    Err(error) => Err(error.into()),
                });
            },
            Reading::Table {
                verify,
                path,
                lost,
                report,
            } => match verify.step() {
                Ok(read) => read.map(|bytes| Ok(Inspected::Read(bytes))),
                Err(error) if damaged(&error) => {
                    tell(report.as_ref(), &error);
                    let damage = table_damage(error, path.clone(), std::mem::take(lost));
                    self.reading = Reading::Damage(None);
                    Some(Ok(Inspected::Damage(damage)))
                }
                Err(error) => {
                    self.reading = Reading::Damage(None);
                    Some(Err(error.into()))
                }
            },
        }
    }
}
