//! Copying what a snapshot needs and the backup does not have.

use super::directory::BackupDir;
use super::snapshot::{FileKind, PartitionFiles, Piece, Snapshot, StoredFile, partition_path};
use crate::rate_limiter::RateLimiter;
use quire_database::{Error, Result};
use quire_env::{ErrorKind as EnvErrorKind, ReadFile};
use quire_store::{Capture, FileCopy};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Ends the name of a piece that is not whole yet.
const TEMPORARY_SUFFIX: &str = ".tmp";

/// A piece is synced each time this much of it was written: one large sync at its end would delay
/// the syncs of writers.
const SYNC_BYTES: u64 = 4 << 20;

/// The last piece of a log that has grown is copied again with what came after it if it is smaller:
/// pieces stay few.
const PIECE_BYTES_MIN: u64 = 4 << 20;

/// Partition, kind and number of a file.
type FileKey = (u32, u32, FileKind, u64);

/// Copies the files of captures.
pub(crate) struct Copier<'a> {
    dir: &'a BackupDir,
    /// The pieces that snapshots name.
    known: BTreeMap<FileKey, BTreeSet<Piece>>,
    limiter: RateLimiter,
    plan: Vec<PartitionPlan<'a>>,
    total_bytes: u64,
    copied_bytes: u64,
}

/// What is to be done for a partition.
struct PartitionPlan<'a> {
    files: PartitionFiles,
    /// Of each file that is not there whole: which one of `files`, and where its last piece, still
    /// to be copied, begins.
    missing: Vec<(usize, &'a FileCopy, u64)>,
}

impl<'a> Copier<'a> {
    pub(crate) fn new(
        dir: &'a BackupDir,
        snapshots: &[Snapshot],
        rate_bytes: Option<u64>,
    ) -> Copier<'a> {
        let mut known: BTreeMap<FileKey, BTreeSet<Piece>> = BTreeMap::new();
        for partition in snapshots.iter().flat_map(|snapshot| &snapshot.partitions) {
            for file in &partition.files {
                let key = key(partition, file);
                known.entry(key).or_default().extend(file.pieces.clone());
            }
        }
        Copier {
            dir,
            known,
            limiter: RateLimiter::resting(rate_bytes),
            plan: Vec::new(),
            total_bytes: 0,
            copied_bytes: 0,
        }
    }

    /// Finds what is there already, and what is missing.
    pub(crate) fn plan(
        &mut self,
        partitions: impl Iterator<Item = ((u32, u32), &'a Capture)>,
    ) -> Result<()> {
        for ((collection, partition), capture) in partitions {
            let mut plan = PartitionPlan {
                files: PartitionFiles {
                    collection,
                    partition,
                    position: capture.position.0,
                    files: Vec::new(),
                },
                missing: Vec::new(),
            };
            for (index, source) in capture.files.iter().enumerate() {
                let file = self.stored(&plan.files, source)?;
                if file.bytes() < source.bytes() {
                    self.total_bytes += source.bytes() - file.bytes();
                    plan.missing.push((index, source, file.bytes()));
                }
                plan.files.files.push(file);
            }
            self.plan.push(plan);
        }
        Ok(())
    }

    /// The pieces of a file that snapshots have, from its beginning.
    fn stored(&mut self, partition: &PartitionFiles, source: &FileCopy) -> Result<StoredFile> {
        let mut file = StoredFile::of(source.name());
        let Some(known) = self.known.remove(&key(partition, &file)) else {
            return Ok(file);
        };
        loop {
            let at = file.bytes();
            // The longest first.
            let from_here = known.iter().rev().filter(|piece| piece.start == at);
            let mut found = None;
            for piece in from_here {
                if piece.end > source.bytes() {
                    continue;
                }
                let digest = source.digest(at, piece.end)?;
                // It may have read the headers of many blocks.
                self.limiter.wait(&**self.dir.env(), 0, &mut || true);
                if digest == Some(piece.digest) && self.is_there(partition, &file, piece)? {
                    found = Some(piece.clone());
                    break;
                }
            }
            match found {
                Some(piece) => file.pieces.push(piece),
                None => break,
            }
        }
        if file.bytes() < source.bytes() {
            file.pieces.pop_if(|last| last.bytes() < PIECE_BYTES_MIN);
        }
        Ok(file)
    }

    /// Whether the piece that a snapshot names is there in its full length.
    fn is_there(
        &self,
        partition: &PartitionFiles,
        file: &StoredFile,
        piece: &Piece,
    ) -> Result<bool> {
        let path = self.piece_path(partition, file, piece);
        match self.dir.env().open_read(&path) {
            Ok(stored) => Ok(stored.len()? == piece.bytes()),
            Err(error) if error.kind() == EnvErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn piece_path(&self, partition: &PartitionFiles, file: &StoredFile, piece: &Piece) -> PathBuf {
        let dir = partition_path(partition.collection, partition.partition);
        self.dir.root().join(dir).join(file.piece_name(piece))
    }

    /// Bytes copied so far.
    pub(crate) fn copied_bytes(&self) -> u64 {
        self.copied_bytes
    }

    /// Copies what is missing; all pieces of all partitions are durable when it returns them.
    pub(crate) fn copy(
        &mut self,
        progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Vec<PartitionFiles>> {
        self.tell(progress)?;
        let mut done = Vec::new();
        for mut plan in std::mem::take(&mut self.plan) {
            if !plan.missing.is_empty() {
                let partition = partition_path(plan.files.collection, plan.files.partition);
                let dir = self.dir.root().join(partition);
                self.dir.env().create_dir_all(&dir)?;
                let there = self.dir.env().list(&dir)?;
                for (index, source, start) in plan.missing {
                    let Some(file) = plan.files.files.get_mut(index) else {
                        continue;
                    };
                    let piece = self.piece(&dir, &there, file, source, start, progress)?;
                    file.pieces.push(piece);
                }
                self.dir.env().sync_dir(&dir)?;
            }
            done.push(plan.files);
        }
        Ok(done)
    }

    fn tell(&self, progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>) -> Result<()> {
        match progress(self.copied_bytes, self.total_bytes) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Stopped),
        }
    }

    /// Copies the bytes of `source` from `start` on to a piece in `dir`, unless a backup that was
    /// interrupted has done so: `there` are the names in it.
    fn piece(
        &mut self,
        dir: &Path,
        there: &[String],
        file: &StoredFile,
        source: &FileCopy,
        start: u64,
        progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Piece> {
        let (end, range) = (source.bytes(), file.range_name(start, source.bytes()));
        let is_left = |name: &String| name.starts_with(&range) && !name.ends_with(TEMPORARY_SUFFIX);
        if there.iter().any(is_left)
            && let Some(digest) = source.digest(start, end)?
        {
            let mut piece = Piece {
                start,
                end,
                digest,
                crc32c: 0,
            };
            let name = file.piece_name(&piece);
            if there.contains(&name) {
                let left = self.dir.env().open_read(&dir.join(name))?;
                if let Some(crc32c) = self.compare(source, start, &*left, progress)? {
                    piece.crc32c = crc32c;
                    return Ok(piece);
                }
            }
        }
        let temporary = dir.join(format!("{range}{TEMPORARY_SUFFIX}"));
        let piece = self.write(source, start, &temporary, progress)?;
        let path = dir.join(file.piece_name(&piece));
        self.dir.env().rename(&temporary, &path)?;
        Ok(piece)
    }

    /// The CRC-32C of what an interrupted backup left, if that is the bytes of `source` from
    /// `start` on.
    fn compare(
        &mut self,
        source: &FileCopy,
        start: u64,
        left: &dyn ReadFile,
        progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Option<u32>> {
        if left.len()? != source.bytes() - start {
            return Ok(None);
        }
        let (mut crc32c, mut at) = (0, 0);
        for bytes in source.pieces(start)? {
            let bytes = bytes?;
            let (copied, total) = (self.copied_bytes, self.total_bytes);
            let mut goes_on = || progress(copied, total).is_continue();
            let env = Arc::clone(self.dir.env());
            self.limiter.wait(&*env, bytes.len() as u64, &mut goes_on);
            // Not counted as progress: if they differ, the bytes must still be copied.
            self.tell(progress)?;
            match left.read_at(at, bytes.len()) {
                Ok(there) if there == bytes => {}
                _ => return Ok(None),
            }
            crc32c = crc32c::crc32c_append(crc32c, &bytes);
            at += bytes.len() as u64;
        }
        self.total_bytes = self.total_bytes.saturating_sub(at);
        Ok(Some(crc32c))
    }

    /// Writes the bytes of `source` from `start` on to a new file, durably but for its name.
    fn write(
        &mut self,
        source: &FileCopy,
        start: u64,
        path: &Path,
        progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Piece> {
        let env = Arc::clone(self.dir.env());
        let mut file = match env.create(path) {
            Err(error) if error.kind() == EnvErrorKind::AlreadyExists => {
                env.remove(path)?;
                env.create(path)?
            }
            created => created?,
        };
        let (mut crc32c, mut unsynced) = (0, 0);
        let mut pieces = source.pieces(start)?;
        for bytes in &mut pieces {
            let bytes = bytes?;
            let (copied, total) = (self.copied_bytes, self.total_bytes);
            let mut goes_on = || progress(copied, total).is_continue();
            self.limiter.wait(&*env, bytes.len() as u64, &mut goes_on);
            crc32c = crc32c::crc32c_append(crc32c, &bytes);
            file.append(&bytes)?;
            unsynced += bytes.len() as u64;
            if unsynced >= SYNC_BYTES {
                file.sync()?;
                unsynced = 0;
            }
            self.copied_bytes += bytes.len() as u64;
            self.tell(progress)?;
        }
        if file.len() != source.bytes() - start {
            return Err(changed(source.path()));
        }
        file.sync()?;
        Ok(Piece {
            start,
            end: source.bytes(),
            digest: pieces.digest(),
            crc32c,
        })
    }
}

fn key(partition: &PartitionFiles, file: &StoredFile) -> FileKey {
    (
        partition.collection,
        partition.partition,
        file.kind,
        file.number,
    )
}

/// What never changes has changed.
fn changed(path: &Path) -> Error {
    Error::Backup {
        path: path.to_path_buf(),
        what: "the file changed while it was copied".into(),
    }
}
