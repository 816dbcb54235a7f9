//! Capture: the files of a store as it was at one moment, while it goes on being written.

use crate::damaged::{DamageReport, is_damage};
use crate::manifest::{self, Manifest, Progress};
use crate::store::Inner;
use crate::{Machine, Place, Result};
use bytes::Bytes;
use quire_env::{FileId, VolumeId};
use quire_log::{SegmentCopy, SegmentPieces};
use quire_lsm::{TableCopy, TableFiles, TablePieces};
use quire_model::Position;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// A store as it was at a position. Its files can be read as long as this is held, whatever becomes
/// of the store.
#[derive(Debug)]
pub struct Capture {
    /// The last record.
    pub position: Position,
    /// All files.
    pub files: Vec<FileCopy>,
}

/// Which file of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileName {
    /// The manifest of this sequence number.
    Manifest(u64),
    /// A table file.
    Table(FileId),
    /// The segment of the log that begins at this position.
    Segment(Position),
}

impl FileName {
    /// Where the file is in a store.
    ///
    /// # Errors
    /// If there is no such volume.
    pub fn path(self, place: &Place, env: &Arc<dyn quire_env::Env>) -> Result<PathBuf> {
        Ok(match self {
            FileName::Manifest(_) => manifest::path(&place.dir()),
            FileName::Segment(base) => quire_log::segment_path(&place.log_dir(), base),
            FileName::Table(file) => {
                let (env, volumes) = (Arc::clone(env), place.volumes.clone());
                TableFiles::new(env, volumes, place.tables_subdir(), 1).path(file)?
            }
        })
    }
}

/// A file to be copied, or the first bytes of one. It never changes.
#[derive(Debug)]
pub enum FileCopy {
    /// The manifest: its path, sequence number and bytes.
    Manifest(PathBuf, u64, Bytes),
    /// A table file.
    Table(TableCopy, Option<DamageReport>),
    /// A segment of the log.
    Segment(SegmentCopy),
}

/// The bytes of a file, checked, piece by piece.
#[derive(Debug)]
pub struct Pieces<'a>(Source<'a>);

#[derive(Debug)]
enum Source<'a> {
    /// The bytes until they are taken, and their digest.
    Manifest(Option<Bytes>, u64),
    /// Also the digest, and who is told of damage.
    Table(TablePieces<'a>, u64, Option<DamageReport>),
    Segment(SegmentPieces<'a>),
}

impl Pieces<'_> {
    /// Once all pieces were taken, what [`FileCopy::digest`] says of their range.
    pub fn digest(&self) -> u64 {
        match &self.0 {
            Source::Manifest(_, digest) | Source::Table(_, digest, _) => *digest,
            Source::Segment(pieces) => pieces.digest(),
        }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Result<Bytes>> {
        match &mut self.0 {
            Source::Manifest(bytes, _) => bytes.take().map(Ok),
            Source::Table(pieces, _, report) => {
                pieces.next().map(|piece| told(piece, report.as_ref()))
            }
            Source::Segment(pieces) => pieces.next().map(|piece| Ok(piece?)),
        }
    }
}

/// The same, after a report if the tree is damaged.
fn told<T>(result: quire_lsm::Result<T>, report: Option<&DamageReport>) -> Result<T> {
    if let (Err(error), Some(report)) = (&result, report)
        && is_damage(error)
    {
        report.tell(&error.to_string());
    }
    Ok(result?)
}

impl FileCopy {
    /// Which file it is.
    pub fn name(&self) -> FileName {
        match self {
            FileCopy::Manifest(_, sequence, _) => FileName::Manifest(*sequence),
            FileCopy::Table(table, _) => FileName::Table(table.meta().file),
            FileCopy::Segment(segment) => FileName::Segment(segment.base()),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        match self {
            FileCopy::Manifest(path, ..) => path,
            FileCopy::Table(table, _) => table.path(),
            FileCopy::Segment(segment) => segment.path(),
        }
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            FileCopy::Manifest(_, _, bytes) => bytes.len() as u64,
            FileCopy::Table(table, _) => table.meta().bytes,
            FileCopy::Segment(segment) => segment.bytes(),
        }
    }

    /// A digest of the bytes from `start` to `end`, found without reading them all; `None` if there
    /// is none of that range. Bytes of the same name, range and digest are the same bytes.
    ///
    /// # Errors
    /// `Corrupt`, or those of the machine.
    pub fn digest(&self, start: u64, end: u64) -> Result<Option<u64>> {
        let whole = start == 0 && end == self.bytes();
        Ok(match self {
            FileCopy::Manifest(_, _, bytes) => whole.then(|| xxh3_64(bytes)),
            FileCopy::Table(table, _) => whole.then_some(table.meta().digest),
            FileCopy::Segment(segment) => segment.digest(start, end)?,
        })
    }

    /// The bytes from `start` to the end, every checksum over them compared. `start` is 0 or where
    /// a range with a digest ends.
    ///
    /// # Errors
    /// `Corrupt`, naming file and offset, or those of the machine.
    pub fn pieces(&self, start: u64) -> Result<Pieces<'_>> {
        Ok(Pieces(match self {
            FileCopy::Manifest(_, _, bytes) => {
                Source::Manifest(Some(bytes.clone()), xxh3_64(bytes))
            }
            FileCopy::Table(table, report) => {
                let pieces = told(table.pieces(), report.as_ref())?;
                Source::Table(pieces, table.meta().digest, report.clone())
            }
            FileCopy::Segment(segment) => Source::Segment(segment.pieces(start, segment.bytes())),
        }))
    }
}

impl<M: Machine> Inner<M> {
    /// The manifest, and the table files that it names.
    pub(crate) fn files_now(&self) -> Vec<FileCopy> {
        let broken = self.broken_trees();
        // A flush or a compaction installs its files before it releases the manifest.
        let manifest = self.manifest.lock();
        let mut copied = manifest.clone();
        // Of trees that were not opened no file is held, so none can be copied.
        copied
            .trees
            .retain(|tree| self.trees.find(tree.id).is_some());
        // Of trees that are damaged nothing is copied: the copy builds them anew.
        let trees = copied.trees.iter_mut();
        for tree in trees.filter(|tree| broken.contains(&tree.id)) {
            tree.derived = Some(Progress::none());
            tree.runs.clear();
        }
        let bytes = Bytes::from(copied.encode());
        let path = manifest::path(&self.dir);
        let mut files = vec![FileCopy::Manifest(path, manifest.sequence, bytes)];
        let slots = self.trees.iter().filter(|slot| !broken.contains(&slot.id));
        files.extend(slots.flat_map(|slot| {
            let report = self.damage_report(slot);
            let tables = slot.tree.copies().into_iter();
            tables.map(move |table| FileCopy::Table(table, report.clone()))
        }));
        files
    }
}

/// The manifest of a store that is moved, table files and all, to other volumes: `to` says where
/// each volume's files go.
///
/// # Errors
/// `Corrupt` if `bytes` are no manifest, or that of another store than `place` says.
pub fn move_manifest(
    place: &Place,
    bytes: &[u8],
    to: &dyn Fn(VolumeId) -> VolumeId,
) -> Result<Vec<u8>> {
    let path = manifest::path(&place.dir());
    let mut manifest = Manifest::decode(&path, bytes)?.checked(place)?;
    for tree in &mut manifest.trees {
        for table in tree.runs.iter_mut().flat_map(|run| &mut run.tables) {
            table.file.volume = to(table.file.volume);
        }
    }
    Ok(manifest.encode())
}
