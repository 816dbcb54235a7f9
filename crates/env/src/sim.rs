//! A simulated machine: files in memory, a clock that moves when it is used, and background jobs that run when somebody
//! waits. One seed and the calls made decide all that happens, crashes included.
//!
//! # What counts as a step
//! Each single change of the disk: creating a file, making or removing a directory, appending, reserving, truncating,
//! syncing a file or a directory, renaming, removing. What is made of several (`replace`, `create_dir_all`,
//! `remove_dir_all`) counts each. Reads and looks do not count, and are never interrupted.
//!
//! # What a crash leaves
//! What was synced. Of what was not, what the seed decides: see `sim/file.rs` for bytes and `sim/tree.rs` for names.
//! The step at which the machine crashes may be carried out in part like all that was not synced.

mod faults;
mod file;
mod handles;
mod jobs;
mod machine;
mod rng;
mod tree;

pub use faults::Fault;

use crate::{AppendFile, Env, Error, FileLock, Gate, Job, JobClass, ReadFile, Result, durable};
use faults::Interruption;
use handles::{SimAppendFile, SimLock, SimReadFile};
use jobs::SimGate;
use machine::{EPOCH_MICROS, Machine};
use rng::Rng;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tree::{Node, Tree};

/// More jobs than this in one go are one that schedules itself for ever.
const JOBS_MAX: usize = 1_000_000;

/// A simulated machine. To be used from one thread: with more, nothing breaks, but the seed no longer decides the run.
///
/// Relative paths start at the root `/`, which always exists. On a machine that has crashed every call fails with
/// [`ErrorKind::Crashed`](crate::ErrorKind); jobs still run when waited for, so that whoever waits is told.
///
/// ```
/// use quire_env::{Env, ErrorKind, SimEnv};
/// use std::path::Path;
/// # fn main() -> quire_env::Result<()> {
/// let env = SimEnv::new(7);
/// env.crash_at(3); // steps count from 0
/// let mut file = env.create(Path::new("/log"))?;
/// file.append(b"kept")?;
/// file.sync()?;
/// let crashed = env.sync_dir(Path::new("/")).expect_err("the machine is gone");
/// assert_eq!(crashed.kind(), ErrorKind::Crashed);
///
/// // After a restart the bytes are there, if the name is: it was never synced.
/// let env = env.after_crash(1);
/// if env.exists(Path::new("/log"))? {
///     assert_eq!(env.read(Path::new("/log"), 100)?, b"kept");
/// }
/// # Ok(())
/// # }
/// ```
pub struct SimEnv {
    machine: Arc<Machine>,
}

impl fmt::Debug for SimEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (steps, crashed) = self.machine.with(|state| (state.steps, state.crashed()));
        f.debug_struct("SimEnv")
            .field("operations", &steps)
            .field("crashed", &crashed)
            .finish()
    }
}

/// The machine's life.
impl SimEnv {
    /// A new machine with an empty disk.
    pub fn new(seed: u64) -> Arc<SimEnv> {
        let machine = Arc::new(Machine::new(seed, Tree::new(), 0, None));
        Arc::new(SimEnv { machine })
    }

    /// Steps so far: also the number of the next one.
    pub fn operations(&self) -> u64 {
        self.machine.with(|state| state.steps)
    }

    /// Crashes the machine at step `step`: that call and every later one fail with
    /// [`ErrorKind::Crashed`](crate::ErrorKind).
    pub fn crash_at(&self, step: u64) {
        self.machine.with(|state| state.plan.crash_at = Some(step));
    }

    /// Whether the machine has crashed.
    pub fn crashed(&self) -> bool {
        self.machine.with(|state| state.crashed())
    }

    /// The machine after a restart, had it crashed here; `seed` decides what is left, and the new machine's life. This
    /// one stays as it is, so that one run can be continued in many ways. If it has crashed, its jobs are dropped.
    ///
    /// The disk keeps its size; faults are over; steps and the trace start anew; the clock goes on.
    pub fn after_crash(&self, seed: u64) -> Arc<SimEnv> {
        let mut rng = Rng::new(seed);
        let (machine, jobs) = self.machine.with(|state| {
            let tree = state.tree.after_crash(&mut rng);
            let clock_micros = state.clock_micros() + 1_000_000;
            let machine = Machine::new(rng.next(), tree, clock_micros, state.capacity_bytes);
            (
                machine,
                state.crashed().then(|| std::mem::take(&mut state.jobs)),
            )
        });
        drop(jobs);
        Arc::new(SimEnv {
            machine: Arc::new(machine),
        })
    }

    /// All that happened, a line for each call, in order: equal for equal seeds and equal calls. Grows with the run.
    pub fn trace(&self) -> Vec<String> {
        self.machine.with(|state| state.trace.clone())
    }

    /// Moves the clock.
    pub fn advance(&self, by: Duration) {
        self.machine.with(|state| state.advance(by));
    }

    /// Runs the jobs that are due, and those that they schedule and are due then. How many ran.
    ///
    /// # Panics
    /// If there is no end of them.
    pub fn run_due(&self) -> usize {
        run_all(|| self.machine.run_due_job())
    }

    /// Runs jobs, moving the clock to the time of each, until there is none left. How many ran.
    ///
    /// # Panics
    /// If there is no end of them, as with a duty that schedules itself again: [`run_due`](Self::run_due) is for those.
    pub fn run_until_idle(&self) -> usize {
        run_all(|| self.machine.run_next_job())
    }
}

fn run_all(mut run: impl FnMut() -> bool) -> usize {
    let mut count = 0;
    while run() {
        count += 1;
        assert!(count < JOBS_MAX, "a job schedules itself for ever");
    }
    count
}

/// Faults. A step that fails is not carried out, but for an append, of which a first part may be.
impl SimEnv {
    /// Makes step `step` fail.
    pub fn fail_at(&self, step: u64, fault: Fault) {
        self.machine
            .with(|state| state.plan.fail_at.insert(step, fault));
    }

    /// Makes step `step` and every later one fail.
    pub fn fail_from(&self, step: u64, fault: Fault) {
        self.machine
            .with(|state| state.plan.fail_from = Some((step, fault)));
    }

    /// Makes every sync of a file or a directory fail with EIO from now on, or no longer.
    ///
    /// A file whose sync failed never keeps anything again, although later syncs of it return success: the real machine
    /// forgets what it could not write, and says so once.
    pub fn fail_syncs(&self, fail: bool) {
        self.machine.with(|state| state.plan.fail_syncs = fail);
    }

    /// Forgets all faults and crashes that are planned.
    pub fn heal(&self) {
        self.machine
            .with(|state| state.plan = faults::FaultPlan::default());
    }

    /// Gives the disk a size. What would take it past that fails with ENOSPC: appends outside reserved room, reserves,
    /// and new names on a disk that is full. Names and directories take no room.
    pub fn set_capacity(&self, bytes: u64) {
        self.machine
            .with(|state| state.capacity_bytes = Some(bytes));
    }
}

/// The disk as its owner finds it, and damage to it. None of this is a call into the machine: it is not counted, and works
/// after a crash too.
impl SimEnv {
    /// All files, sorted by path.
    pub fn files(&self) -> Vec<PathBuf> {
        self.machine.with(|state| {
            state
                .tree
                .files()
                .into_iter()
                .map(|(path, _)| path)
                .collect()
        })
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// `NotFound`; `Io` for a directory.
    pub fn read_all(&self, path: &Path) -> Result<Vec<u8>> {
        let file = self.machine.with(|state| state.tree.file(path));
        let file = file.map_err(|e| Error::io("read", path, e))?;
        let bytes = file.lock().bytes().to_vec();
        Ok(bytes)
    }

    /// Flips a bit of a file: bit `bit_index % 8` of byte `bit_index / 8`. It counts as durable, as does the rest of the
    /// file from then on.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument` past the end.
    pub fn flip_bit(&self, path: &Path, bit_index: u64) -> Result<()> {
        self.damage(path, bit_index / 8, 1, |bytes, offset| {
            if let Some(byte) = bytes.get_mut(offset) {
                *byte ^= 1 << (bit_index % 8);
            }
        })
    }

    /// Cuts a file to `len` bytes behind everybody's back, durably.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument` past the end.
    pub fn truncate_file(&self, path: &Path, len: u64) -> Result<()> {
        self.damage(path, len, 0, |bytes, len| bytes.truncate(len))
    }

    /// Writes other bytes over those of a file, durably.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument` if they would go past the end.
    pub fn overwrite(&self, path: &Path, offset: u64, with: &[u8]) -> Result<()> {
        self.damage(path, offset, with.len() as u64, |bytes, offset| {
            file::overwrite(bytes, offset, with);
        })
    }

    fn damage(
        &self,
        path: &Path,
        offset: u64,
        length: u64,
        damage: impl FnOnce(&mut Vec<u8>, usize),
    ) -> Result<()> {
        let file = self.machine.with(|state| state.tree.file(path));
        let file = file.map_err(|e| Error::io("damage", path, e))?;
        let mut file = file.lock();
        let len = file.bytes().len();
        let end = offset
            .checked_add(length)
            .and_then(|end| usize::try_from(end).ok());
        match (end, usize::try_from(offset)) {
            (Some(end), Ok(offset)) if end <= len => {
                file.damage(|bytes| damage(bytes, offset));
                Ok(())
            }
            _ => Err(Error::invalid_argument(format!(
                "no {length} bytes at {offset} of {}, which has {len}",
                path.display()
            ))),
        }
    }
}

impl SimEnv {
    fn make_dir(&self, path: &Path) -> Result<bool> {
        self.machine.change("create directory", path, "", |state| {
            state.check_room_for(path)?;
            state.tree.make_dir(path)
        })
    }

    fn node(&self, op: &'static str, path: &Path) -> Result<Node> {
        self.machine
            .look(op, path, "", |state| state.tree.find(path))
    }
}

impl Env for SimEnv {
    fn create(&self, path: &Path) -> Result<Box<dyn AppendFile>> {
        let file = self.machine.change("create", path, "", |state| {
            state.check_room_for(path)?;
            state.tree.create_file(path)
        })?;
        Ok(Box::new(SimAppendFile::new(
            Arc::clone(&self.machine),
            path,
            file,
        )))
    }

    fn open_append(&self, path: &Path) -> Result<Box<dyn AppendFile>> {
        let file = self
            .machine
            .look("open", path, "to append", |state| state.tree.file(path))?;
        Ok(Box::new(SimAppendFile::new(
            Arc::clone(&self.machine),
            path,
            file,
        )))
    }

    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let file = self
            .machine
            .look("open", path, "to read", |state| state.tree.file(path))?;
        Ok(Arc::new(SimReadFile::new(
            Arc::clone(&self.machine),
            path,
            file,
        )))
    }

    fn read(&self, path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
        let file = self
            .machine
            .look("read", path, "whole", |state| state.tree.file(path))?;
        let file = file.lock();
        let found = file.bytes().len() as u64;
        if found > bytes_max {
            return Err(Error::TooLarge {
                path: path.to_path_buf(),
                limit: bytes_max,
                found,
            });
        }
        Ok(file.bytes().to_vec())
    }

    fn replace(&self, path: &Path, contents: &[u8]) -> Result<()> {
        durable::replace(self, path, contents)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let detail = format!("to {}", to.display());
        self.machine
            .change("rename", from, &detail, |state| state.tree.rename(from, to))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.machine
            .change("remove", path, "", |state| state.tree.remove_file(path))
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        durable::create_dir_all(self, &|path| self.make_dir(path), path)
    }

    fn remove_dir_all(&self, path: &Path) -> Result<()> {
        const OP: &str = "remove directory";
        let names = match self
            .machine
            .look(OP, path, "and all in it", |s| s.tree.list(path))
        {
            Err(error) if error.kind() == crate::ErrorKind::NotFound => return Ok(()),
            names => names?,
        };
        for name in names {
            let path = path.join(name);
            match self.node(OP, &path)? {
                Node::Dir(_) => self.remove_dir_all(&path)?,
                Node::File(_) => self.remove(&path)?,
            }
        }
        self.machine
            .change(OP, path, "", |state| state.tree.remove_dir(path))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.machine
            .look("list", dir, "", |state| state.tree.list(dir))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.machine.look("look for", path, "", |state| {
            Ok(state.tree.find(path).is_ok())
        })
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let sync = |state: &mut machine::State, interruption| match interruption {
            Some(Interruption::Fault(errno)) => Err(std::io::Error::from(errno)),
            // Any part of it may have been done, which is what a crash makes of the names that are not synced.
            Some(Interruption::Crash) => Ok(()),
            None => state.tree.sync_dir(dir),
        };
        self.machine.step("sync directory", dir, "", true, sync)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        if !self.exists(path)? {
            self.machine.change("open lock file", path, "", |state| {
                state.check_room_for(path)?;
                state.tree.create_file(path)
            })?;
        }
        let file = self
            .machine
            .look("open lock file", path, "", |state| state.tree.file(path))?;
        match SimLock::take(path, file) {
            Some(lock) => Ok(Box::new(lock)),
            None => Err(Error::Locked {
                path: path.to_path_buf(),
            }),
        }
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.machine.look("ask the free room of", dir, "", |state| {
            state.tree.find(dir)?;
            Ok(state.free_bytes())
        })
    }

    fn now_micros(&self) -> i64 {
        let micros = EPOCH_MICROS + self.machine.tick().as_micros() as u64;
        i64::try_from(micros).unwrap_or(i64::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.machine.tick()
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }

    fn random(&self, bytes: &mut [u8]) {
        self.machine.with(|state| {
            state.rng.fill(bytes);
            state.note(format_args!("random {bytes:?}"));
        });
    }

    fn schedule(&self, class: JobClass, after: Duration, job: Job) {
        self.machine.with(|state| {
            let due = state.clock().saturating_add(after);
            state.note(format_args!(
                "schedule {class:?} job for {}",
                due.as_micros()
            ));
            state.jobs.push(class, due, job);
        });
    }

    fn gate(&self) -> Arc<dyn Gate> {
        Arc::new(SimGate::new(Arc::clone(&self.machine)))
    }
}
