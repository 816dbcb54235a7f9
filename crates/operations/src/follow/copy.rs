//! The copy that a follower begins with: the files of all partitions as of one moment, as a backup
//! has them.
//!
//! # Invariants
//! 1. A received file is named for its bytes: partition, file, length and digest. Files of the same
//!    name have the same bytes, whatever the leader did meanwhile. So a file that is there already,
//!    from a copy that was interrupted at either side, is not sent again.
//! 2. A file gets its name when all of it has arrived, its CRC-32C was compared, and it is durable.
//! 3. The files are moved to their places when all of them are there. The plan of the moves is made
//!    durable first, so that an interrupted move can continue. The catalog comes last: until then
//!    this is no database.
//!
//! # Layout of a copy that is not whole
//! ```text
//! RESTORING                                           what this is
//! files/c<collection>/p<partition>/<kind>-<number>-0-<bytes>-<digest>
//!                                                     a received file; `.tmp`: not yet all of it
//! PLAN                                                what is moved, once all is there: a
//!                                                     snapshot, as of a backup
//! ```

use super::wire::Frame;
use crate::backup::{PartitionFiles, Piece, Snapshot, StoredFile, partition_path};
use crate::file_source::{FileSource, MANIFEST_BYTES_MAX, place_partition, spread};
use quire_database::catalog::CATALOG_NAME;
use quire_database::directory::{RESTORING_NAME, partition_place};
use quire_database::{Database, Error, Result, engine};
use quire_env::{Env, ErrorKind as EnvErrorKind, IoClass, IoScope, Volumes};
use quire_store::{Capture, LogHold};
use std::collections::BTreeSet;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FILES: &str = "files";
const PLAN: &str = "PLAN";
const PLAN_BYTES_MAX: u64 = 256 << 20;
const TEMPORARY_SUFFIX: &str = ".tmp";

/// A file that comes is synced each time so much of it was written.
const SYNC_BYTES: u64 = 16 << 20;

/// A leader's files as of one moment. Held for a follower that copies them: they stay as long as
/// this does.
#[derive(Debug)]
pub struct LeaderCopy {
    snapshot: Snapshot,
    captures: Vec<Capture>,
    holds: Vec<LogHold>,
}

/// All files as of now, for a follower to copy. Writers wait for an instant, and for no disk.
///
/// # Errors
/// As of [`backup`](crate::backup()).
pub fn copy_for_follower(database: &Database) -> Result<LeaderCopy> {
    let _io = IoScope::enter(IoClass::Background);
    let holds = hold_logs(database)?;
    let (catalog, captures) = engine::capture(database)?;
    let mut partitions = Vec::new();
    for ((collection, partition), capture) in catalog.partitions().zip(&captures) {
        let mut files = PartitionFiles {
            collection,
            partition,
            position: capture.position.0,
            files: Vec::new(),
        };
        for source in &capture.files {
            let mut file = StoredFile::of(source.name());
            let end = source.bytes();
            let digest = source.digest(0, end)?;
            file.pieces.push(Piece {
                start: 0,
                end,
                digest: digest.unwrap_or_default(),
                // Not known before the file is read: it is sent at the file's end.
                crc32c: 0,
            });
            files.files.push(file);
        }
        partitions.push(files);
    }
    let snapshot = Snapshot {
        number: 1,
        time_micros: database.env().now_micros(),
        catalog,
        partitions,
    };
    Ok(LeaderCopy {
        snapshot,
        captures,
        holds,
    })
}

/// Keeps the logs as they are from now on: what comes after a copy is there when it has arrived.
fn hold_logs(database: &Database) -> Result<Vec<LogHold>> {
    let mut holds = Vec::new();
    for entry in &engine::catalog(database)?.collections {
        match engine::stores(database, entry) {
            // Dropped since.
            Err(Error::NoCollection { .. }) => {}
            opened => {
                let stores = opened?;
                holds.extend(
                    stores
                        .iter()
                        .map(|store| store.hold_log(store.extent().last)),
                );
            }
        }
    }
    Ok(holds)
}

impl LeaderCopy {
    /// Takes what keeps the records that come after the copy. The follower needs them once it has
    /// the files, when the copy itself may go.
    pub fn take_log_holds(&mut self) -> Vec<LogHold> {
        std::mem::take(&mut self.holds)
    }

    /// What there is to copy, for [`FollowerDir::begin_copy`](super::FollowerDir::begin_copy).
    pub fn plan(&self) -> String {
        // Sealed text is UTF-8.
        String::from_utf8(self.snapshot.encode()).unwrap_or_default()
    }

    /// Hands the messages that make up a file, by its place in the plan, to `send`, which may stop
    /// it; every checksum over the bytes is compared first. False if there is no such file.
    ///
    /// # Errors
    /// `Corrupt` for damage; those of the machine.
    pub fn send(
        &self,
        index: usize,
        send: &mut dyn FnMut(Vec<u8>) -> ControlFlow<()>,
    ) -> Result<bool> {
        let _io = IoScope::enter(IoClass::Background);
        let mut files = self.captures.iter().flat_map(|capture| &capture.files);
        let Some(file) = files.nth(index) else {
            return Ok(false);
        };
        let (mut bytes, mut crc32c) = (0, 0);
        for piece in file.pieces(0)? {
            let piece = piece?;
            bytes += piece.len() as u64;
            crc32c = crc32c::crc32c_append(crc32c, &piece);
            let mut out = Vec::with_capacity(piece.len() + 16);
            Frame::Data(piece).encode(&mut out);
            if send(out).is_break() {
                return Ok(true);
            }
        }
        let mut out = Vec::new();
        Frame::End { bytes, crc32c }.encode(&mut out);
        // It was the last.
        let _ = send(out);
        Ok(true)
    }
}

/// A copy that is coming to a follower. Any number of threads may receive files of it.
#[derive(Debug)]
pub struct IncomingCopy {
    env: Arc<dyn Env>,
    root: PathBuf,
    snapshot: Snapshot,
}

impl IncomingCopy {
    /// Begins to take the copy of this plan in `root`, or continues one: files that are there
    /// already are kept if the plan has them too.
    pub(super) fn begin(env: Arc<dyn Env>, root: &Path, plan: &[u8]) -> Result<IncomingCopy> {
        let snapshot = Snapshot::decode(plan).map_err(|what| {
            Error::Leader(format!("what the leader sends can't be used: {what}"))
        })?;
        env.create_dir_all(root)?;
        let text = b"A copy of a leader's files is coming here. `quire follow` goes on with it.\n";
        env.replace(&root.join(RESTORING_NAME), text)?;
        let copy = IncomingCopy {
            env,
            root: root.to_path_buf(),
            snapshot,
        };
        let mut wanted = BTreeSet::new();
        for (files, file) in copy.files() {
            wanted.insert(copy.staged(files, file));
        }
        let dirs: BTreeSet<PathBuf> = copy.staging_dirs().collect();
        copy.env.create_dir_all(&copy.root.join(FILES))?;
        for dir in below(&*copy.env, &copy.root.join(FILES))? {
            for dir in below(&*copy.env, &dir)? {
                if !dirs.contains(&dir) {
                    copy.env.remove_dir_all(&dir)?;
                    continue;
                }
                for path in below(&*copy.env, &dir)? {
                    if !wanted.contains(&path) {
                        copy.env.remove(&path)?;
                    }
                }
            }
        }
        for dir in dirs {
            copy.env.create_dir_all(&dir)?;
        }
        Ok(copy)
    }

    /// The copy in `root` that was whole when it was left, if there is one.
    pub(super) fn left(env: Arc<dyn Env>, root: &Path) -> Result<Option<IncomingCopy>> {
        let plan = match env.read(&root.join(PLAN), PLAN_BYTES_MAX) {
            Err(error) if error.kind() == EnvErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        let snapshot = Snapshot::decode(&plan).map_err(|what| Error::Backup {
            path: root.join(PLAN),
            what,
        })?;
        Ok(Some(IncomingCopy {
            env,
            root: root.to_path_buf(),
            snapshot,
        }))
    }

    fn files(&self) -> impl Iterator<Item = (&PartitionFiles, &StoredFile)> {
        let partitions = self.snapshot.partitions.iter();
        partitions.flat_map(|files| files.files.iter().map(move |file| (files, file)))
    }

    fn staging_dirs(&self) -> impl Iterator<Item = PathBuf> {
        let partitions = self.snapshot.partitions.iter();
        partitions.map(|files| {
            self.root
                .join(partition_path(files.collection, files.partition))
        })
    }

    /// Where a file is when it has come.
    fn staged(&self, files: &PartitionFiles, file: &StoredFile) -> PathBuf {
        let dir = self
            .root
            .join(partition_path(files.collection, files.partition));
        let name = file.pieces.first().map(|piece| file.piece_name(piece));
        dir.join(name.unwrap_or_default())
    }

    /// Files, and bytes of them.
    pub fn size(&self) -> (u64, u64) {
        self.snapshot.size()
    }

    /// The files that have not come yet, by their places in the plan.
    ///
    /// # Errors
    /// Those of the machine.
    pub fn missing(&self) -> Result<Vec<usize>> {
        let mut missing = Vec::new();
        for (index, (files, file)) in self.files().enumerate() {
            if !is_there(&*self.env, &self.staged(files, file), file.bytes())? {
                missing.push(index);
            }
        }
        Ok(missing)
    }

    /// Takes a file from the messages that [`LeaderCopy::send`] made of it. `progress`
    /// receives the number of bytes as they arrive, and may stop it.
    ///
    /// # Errors
    /// `Leader` if they are cut, garbled, or not of this file: what was received of it is not used.
    /// `Full` or `Io`.
    pub fn receive(
        &self,
        index: usize,
        source: &mut dyn Read,
        progress: &dyn Fn(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let _io = IoScope::enter(IoClass::Background);
        let unusable =
            |what: &str| Error::Leader(format!("file {index} of the leader's copy: {what}"));
        let (files, file) = self
            .files()
            .nth(index)
            .ok_or_else(|| unusable("there is none"))?;
        let staged = self.staged(files, file);
        let mut temporary = staged.clone().into_os_string();
        temporary.push(TEMPORARY_SUFFIX);
        let temporary = PathBuf::from(temporary);
        let mut target = match self.env.create(&temporary) {
            Err(error) if error.kind() == EnvErrorKind::AlreadyExists => {
                self.env.remove(&temporary)?;
                self.env.create(&temporary)?
            }
            created => created?,
        };
        let (mut crc, mut unsynced) = (0, 0);
        loop {
            match Frame::read(source)? {
                Some(Frame::Data(bytes)) => {
                    if target.len() + bytes.len() as u64 > file.bytes() {
                        return Err(unusable("it is longer than it was said to be"));
                    }
                    crc = crc32c::crc32c_append(crc, &bytes);
                    target.append(&bytes)?;
                    unsynced += bytes.len() as u64;
                    if unsynced >= SYNC_BYTES {
                        target.sync()?;
                        unsynced = 0;
                    }
                    if progress(bytes.len() as u64).is_break() {
                        return Err(Error::Closed);
                    }
                }
                Some(Frame::End { bytes, crc32c }) => {
                    if bytes != file.bytes() || target.len() != bytes || crc != crc32c {
                        return Err(unusable("length or checksum does not match"));
                    }
                    break;
                }
                Some(_) => return Err(unusable("it is no file")),
                None => return Err(unusable("it is cut short")),
            }
        }
        target.sync()?;
        Ok(self.env.rename(&temporary, &staged)?)
    }

    /// Makes a database of the files, which have all arrived.
    ///
    /// # Errors
    /// `Corrupt` if one is not there; `Full` or `Io`. A later call continues.
    pub(super) fn finish(&self) -> Result<()> {
        let _io = IoScope::enter(IoClass::Background);
        let env = &self.env;
        let plan = self.root.join(PLAN);
        if !env.exists(&plan)? {
            for dir in self.staging_dirs() {
                env.sync_dir(&dir)?;
            }
            env.replace(&plan, &self.snapshot.encode())?;
        }
        let volumes = Volumes::single(&self.root);
        let mut catalog = self.snapshot.catalog.clone();
        catalog.set_volumes(&volumes)?;
        for files in &self.snapshot.partitions {
            let entry = catalog
                .collections
                .iter()
                .find(|e| e.id == files.collection);
            if let Some(entry) = entry {
                let place = partition_place(&volumes, &catalog, entry, files.partition);
                place_partition(env, &place, files, &spread(1), &mut Staged(self))?;
            }
        }
        catalog.write(&**env, &self.root)?;
        self.tidy()
    }

    /// Removes what is of the copying, once the catalog is there.
    fn tidy(&self) -> Result<()> {
        tidy(&*self.env, &self.root)
    }
}

/// Removes what a copy that became a database does not need.
pub(super) fn tidy(env: &dyn Env, root: &Path) -> Result<()> {
    env.remove_dir_all(&root.join(FILES))?;
    for name in [PLAN, RESTORING_NAME] {
        if env.exists(&root.join(name))? {
            env.remove(&root.join(name))?;
        }
    }
    Ok(env.sync_dir(root)?)
}

/// Whether the copy in `root` became a database.
pub(super) fn is_whole(env: &dyn Env, root: &Path) -> Result<bool> {
    Ok(env.exists(&root.join(CATALOG_NAME))?)
}

/// Files that have come, to be moved to their places.
struct Staged<'a>(&'a IncomingCopy);

impl FileSource for Staged<'_> {
    fn place(&mut self, files: &PartitionFiles, file: &StoredFile, to: &Path) -> Result<()> {
        let staged = self.0.staged(files, file);
        let env = &self.0.env;
        if is_there(&**env, &staged, file.bytes())? {
            return Ok(env.rename(&staged, to)?);
        }
        // Moved before an interruption.
        match is_there(&**env, to, file.bytes())? {
            true => Ok(()),
            false => Err(Error::Backup {
                path: staged,
                what: "a file of the leader's copy is gone".into(),
            }),
        }
    }

    fn manifest(&mut self, files: &PartitionFiles, file: &StoredFile) -> Result<Vec<u8>> {
        Ok(self
            .0
            .env
            .read(&self.0.staged(files, file), MANIFEST_BYTES_MAX)?)
    }
}

/// Whether a file is there in its full length.
fn is_there(env: &dyn Env, path: &Path, bytes: u64) -> Result<bool> {
    match env.open_read(path) {
        Ok(file) => Ok(file.len()? == bytes),
        Err(error) if error.kind() == EnvErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn below(env: &dyn Env, dir: &Path) -> Result<Vec<PathBuf>> {
    Ok(env.list(dir)?.iter().map(|name| dir.join(name)).collect())
}
