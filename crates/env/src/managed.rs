//! The machine, with an I/O manager between it and the files of volumes.

use crate::clock::Clock;
use crate::io::{class_of_read, class_of_write};
use crate::{
    AppendFile, Env, FileLock, FileMap, FileStamp, Gate, IoClass, IoLimits, Job, JobClass, Medium,
    ReadFile, Result, VolumeIo, Volumes,
};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A compaction writes out what it has appended after this many bytes: the disk gets it in pieces.
/// Each of them waits for its turn.
const PIECE_BYTES: u64 = 4 << 20;

/// A machine whose files below the directories of volumes are read and written as their disks
/// admit. All else is as the machine does it.
#[derive(Debug)]
pub struct ManagedEnv {
    env: Arc<dyn Env>,
    disks: Vec<Disk>,
}

/// What manages the disk of a volume.
#[derive(Debug)]
struct Disk {
    dir: PathBuf,
    medium: Medium,
    io: Arc<VolumeIo>,
}

/// The disks of the process, by the number that the system gives them.
static DISKS: Mutex<BTreeMap<u64, Weak<VolumeIo>>> = Mutex::new(BTreeMap::new());

/// The clock of a machine.
#[derive(Debug)]
pub(crate) struct EnvClock(pub(crate) Arc<dyn Env>);

impl Clock for EnvClock {
    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn sleep(&self, duration: Duration) {
        self.0.sleep(duration);
    }
}

impl ManagedEnv {
    /// What admits I/O of the disk at `dir`: the same for all databases of the process, where the
    /// system tells disks apart; the limits are those of the first that calls.
    pub fn disk_of(env: &Arc<dyn Env>, dir: &Path, limits: IoLimits) -> Arc<VolumeIo> {
        let new = || {
            let clock = Box::new(EnvClock(Arc::clone(env)));
            Arc::new(VolumeIo::new(env.gate(), clock, limits))
        };
        let Some(device) = env.device(dir) else {
            return new();
        };
        let mut disks = DISKS.lock();
        disks.retain(|_, disk| disk.strong_count() > 0);
        if let Some(disk) = disks.get(&device).and_then(Weak::upgrade) {
            return disk;
        }
        let disk = new();
        disks.insert(device, Arc::downgrade(&disk));
        disk
    }

    /// The machine with a manager of each volume, in their order.
    pub fn new(
        env: Arc<dyn Env>,
        volumes: &Volumes,
        disk: impl Fn(&crate::Volume) -> Arc<VolumeIo>,
    ) -> ManagedEnv {
        let disks = volumes.iter().map(|volume| Disk {
            dir: volume.path.clone(),
            medium: volume.medium,
            io: disk(volume),
        });
        ManagedEnv {
            disks: disks.collect(),
            env,
        }
    }

    fn disk(&self, path: &Path) -> Option<&Arc<VolumeIo>> {
        let below = self.disks.iter().filter(|disk| path.starts_with(&disk.dir));
        let nearest = below.max_by_key(|disk| disk.dir.components().count());
        nearest.map(|disk| &disk.io)
    }

    fn appending(&self, path: &Path, file: Box<dyn AppendFile>) -> Box<dyn AppendFile> {
        match self.disk(path) {
            Some(disk) => {
                disk.appending.fetch_add(1, Ordering::Relaxed);
                Box::new(ManagedAppend {
                    file,
                    disk: Arc::clone(disk),
                    owed: 0,
                })
            }
            None => file,
        }
    }
}

impl Env for ManagedEnv {
    fn create(&self, path: &Path) -> Result<Box<dyn AppendFile>> {
        Ok(self.appending(path, self.env.create(path)?))
    }

    fn open_append(&self, path: &Path) -> Result<Box<dyn AppendFile>> {
        Ok(self.appending(path, self.env.open_append(path)?))
    }

    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let file = self.env.open_read(path)?;
        Ok(match self.disk(path) {
            Some(disk) => Arc::new(ManagedRead {
                file,
                disk: Arc::clone(disk),
            }),
            None => file,
        })
    }

    fn read(&self, path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
        match self.disk(path) {
            Some(disk) => disk.read(0, || self.env.read(path, bytes_max)),
            None => self.env.read(path, bytes_max),
        }
    }

    fn replace(&self, path: &Path, contents: &[u8]) -> Result<()> {
        match self.disk(path) {
            Some(disk) => disk.write(contents.len() as u64, || self.env.replace(path, contents)),
            None => self.env.replace(path, contents),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.env.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.env.remove(path)
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.env.create_dir_all(path)
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        self.env.create_dir(path)
    }

    fn remove_dir_all(&self, path: &Path) -> Result<()> {
        self.env.remove_dir_all(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.env.list(dir)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.env.exists(path)
    }

    fn stamp(&self, path: &Path) -> Result<FileStamp> {
        self.env.stamp(path)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.env.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.env.lock(path)
    }

    fn lock_dir(&self, dir: &Path) -> Result<Box<dyn FileLock>> {
        self.env.lock_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.env.free_bytes(dir)
    }

    fn load_bytes(&self, dir: &Path) -> u64 {
        self.disk(dir).map_or(0, |disk| disk.load_bytes())
    }

    fn volume_io(&self, dir: &Path) -> Option<Arc<VolumeIo>> {
        self.disk(dir).cloned()
    }

    fn device(&self, dir: &Path) -> Option<u64> {
        self.env.device(dir)
    }

    fn now_micros(&self) -> i64 {
        self.env.now_micros()
    }

    fn monotonic(&self) -> Duration {
        self.env.monotonic()
    }

    fn sleep(&self, duration: Duration) {
        self.env.sleep(duration);
    }

    fn random(&self, bytes: &mut [u8]) {
        self.env.random(bytes);
    }

    fn resident_bytes(&self) -> Option<u64> {
        self.env.resident_bytes()
    }

    fn anonymous_bytes(&self) -> Option<u64> {
        self.env.anonymous_bytes()
    }

    fn schedule(&self, class: JobClass, after: Duration, job: Job) {
        self.env.schedule(class, after, job);
    }

    fn cores(&self) -> usize {
        self.env.cores()
    }

    fn run_all(&self, count: usize, part: &(dyn Fn(usize) + Sync)) {
        self.env.run_all(count, part);
    }

    fn reserve(&self, class: JobClass, count: usize) -> Result<()> {
        self.env.reserve(class, count)
    }

    fn managed_disks(&self, medium: Medium) -> usize {
        let of_medium = self.disks.iter().filter(|disk| disk.medium == medium);
        // Two volumes can lie on one disk.
        let disks: BTreeSet<_> = of_medium.map(|disk| Arc::as_ptr(&disk.io)).collect();
        disks.len()
    }

    fn gate(&self) -> Arc<dyn Gate> {
        self.env.gate()
    }
}

#[derive(Debug)]
struct ManagedAppend {
    file: Box<dyn AppendFile>,
    disk: Arc<VolumeIo>,
    /// Bytes that were appended, and that the disk may not have.
    owed: u64,
}

impl Drop for ManagedAppend {
    fn drop(&mut self) {
        self.disk.appending.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AppendFile for ManagedAppend {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let count = bytes.len() as u64;
        self.disk.write(count, || self.file.append(bytes))?;
        self.owed += count;
        match class_of_write() >= IoClass::Compaction && self.owed >= PIECE_BYTES {
            true => self.write_out(),
            false => Ok(()),
        }
    }

    fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let count = bytes.len() as u64;
        self.disk
            .write(count, || self.file.overwrite(offset, bytes))
    }

    fn reserve(&mut self, bytes: u64) -> Result<()> {
        self.file.reserve(bytes)
    }

    fn write_out(&mut self) -> Result<()> {
        // The rate of compactions was waited for when the bytes were appended.
        let _admitted = self.disk.admit(class_of_write(), self.owed);
        self.owed = 0;
        self.file.write_out()
    }

    fn sync(&mut self) -> Result<()> {
        let _admitted = self.disk.admit(class_of_write(), self.owed);
        self.owed = 0;
        self.file.sync()
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.file.truncate(len)
    }
}

#[derive(Debug)]
struct ManagedRead {
    file: Arc<dyn ReadFile>,
    disk: Arc<VolumeIo>,
}

impl ReadFile for ManagedRead {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let bytes = buffer.len() as u64;
        self.disk
            .read(bytes, || self.file.read_exact_at(offset, buffer))
    }

    fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        self.disk
            .read(length as u64, || self.file.read_at(offset, length))
    }

    fn map(&self) -> Result<Bytes> {
        self.file.map()
    }

    fn map_at_random(&self) -> Result<FileMap> {
        Ok(self.file.map_at_random()?.managed(&self.disk))
    }

    fn may_wait(&self) -> bool {
        self.file.may_wait()
    }

    fn will_need(&self, offset: u64, length: u64) {
        if class_of_read() != IoClass::Read {
            // Else it would have to read in small pieces, and a disk that is busy would seek more.
            self.disk
                .read(length, || self.file.will_need(offset, length));
        } else if self.disk.admission.has_room() {
            // No user waits for read-ahead, so it must not get past those that wait.
            self.file.will_need(offset, length);
        }
    }

    fn prefetch_bytes(&self) -> u64 {
        self.disk.prefetch_bytes
    }
}
