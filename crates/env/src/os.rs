//! The real machine.

#![allow(clippy::disallowed_methods, reason = "this module is the real machine")]

mod busy_poll;
mod crew;
mod dir;
mod file;
mod gate;
mod lock;
mod map;
mod pool;
mod write_out;

use crate::durable;
use crate::{AppendFile, Env, Error, FileLock, FileStamp, Gate, Job, JobClass, ReadFile, Result};
use crew::Crew;
use file::{OsAppendFile, OsReadFile};
pub(crate) use map::OsMap;
use pool::Pool;
use rustix::io::Errno;
use rustix::rand::GetRandomFlags;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The real machine. When it is dropped, its background threads end: it waits for running jobs and
/// drops those that have not started.
///
/// ```
/// use quire_env::{Env, OsEnv};
/// # use std::path::Path;
/// # fn main() -> quire_env::Result<()> {
/// # let dir = tempfile::tempdir().expect("a temporary directory");
/// # let dir: &Path = dir.path();
/// let env = OsEnv::new()?;
/// let path = dir.join("greetings");
/// let mut file = env.create(&path)?;
/// file.append(b"hello")?;
/// file.sync()?;        // the bytes are durable,
/// env.sync_dir(dir)?;  // and so is the name
/// assert_eq!(env.read(&path, 1024)?, b"hello");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct OsEnv {
    start: Instant,
    pool: Pool,
    crew: Crew,
}

impl OsEnv {
    /// The machine, with its background threads started.
    ///
    /// # Errors
    /// `Io` if a thread can't be started.
    pub fn new() -> Result<Arc<OsEnv>> {
        Ok(Arc::new(OsEnv {
            start: Instant::now(),
            pool: Pool::start()?,
            crew: Crew::default(),
        }))
    }
}

impl Env for OsEnv {
    fn create(&self, path: &Path) -> Result<Box<dyn AppendFile>> {
        Ok(Box::new(OsAppendFile::create(path)?))
    }

    fn open_append(&self, path: &Path) -> Result<Box<dyn AppendFile>> {
        Ok(Box::new(OsAppendFile::open(path)?))
    }

    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(OsReadFile::open(path)?))
    }

    fn read(&self, path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
        file::read(path, bytes_max)
    }

    fn replace(&self, path: &Path, contents: &[u8]) -> Result<()> {
        durable::replace(self, path, contents)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        std::fs::rename(from, to).map_err(|e| Error::io("rename", from, e))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        std::fs::remove_file(path).map_err(|e| Error::io("remove", path, e))
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        durable::create_dir_all(self, &dir::make_dir, path)
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        durable::create_dir(self, &dir::make_dir, path)
    }

    fn remove_dir_all(&self, path: &Path) -> Result<()> {
        dir::remove_dir_all(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        dir::list(dir)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        dir::exists(path)
    }

    fn stamp(&self, path: &Path) -> Result<FileStamp> {
        file::stamp(path)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        dir::sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        Ok(Box::new(lock::lock(path)?))
    }

    fn lock_dir(&self, dir: &Path) -> Result<Box<dyn FileLock>> {
        Ok(Box::new(lock::lock_dir(dir)?))
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        dir::free_bytes(dir)
    }

    fn device(&self, dir: &Path) -> Option<u64> {
        let stamp = file::stamp(dir).ok()?;
        Some(stamp.identity[0])
    }

    fn now_micros(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            Err(before) => {
                i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros)
            }
        }
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn random(&self, bytes: &mut [u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            match rustix::rand::getrandom(&mut *rest, GetRandomFlags::empty()) {
                Ok(filled) => rest = rest.get_mut(filled..).unwrap_or_default(),
                // Every Linux since 3.17 has this call, and the hash maps of std need it too.
                Err(errno) => assert!(
                    errno == Errno::INTR,
                    "the system gives no randomness: {errno}"
                ),
            }
        }
    }

    fn resident_bytes(&self) -> Option<u64> {
        status_bytes("VmRSS:")
    }

    fn anonymous_bytes(&self) -> Option<u64> {
        status_bytes("RssAnon:")
    }

    fn schedule(&self, class: JobClass, after: Duration, job: Job) {
        self.pool.schedule(class, after, job);
    }

    fn cores(&self) -> usize {
        Crew::cores()
    }

    fn run_all(&self, count: usize, part: &(dyn Fn(usize) + Sync)) {
        self.crew.run_all(count, part);
    }

    fn reserve(&self, class: JobClass, count: usize) -> Result<()> {
        self.pool.grow(class, count)
    }

    fn gate(&self) -> Arc<dyn Gate> {
        Arc::new(gate::OsGate::default())
    }
}

/// What the system says of the process, in bytes.
fn status_bytes(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mut lines = status.lines();
    let found = lines.find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = found.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}
