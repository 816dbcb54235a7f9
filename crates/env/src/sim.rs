//! A simulated machine: files in memory, a clock that moves with each call, and background jobs
//! that run when a caller waits. The seed and the calls decide everything that happens, crashes
//! included.
//!
//! # What counts as a step, and what as a read
//! A step is one change of the disk: creating a file, making or removing a directory, appending,
//! reserving, truncating, syncing a file or a directory, renaming, removing. A read is one query of
//! the disk: reading bytes, opening a file that exists, listing, getting a length, the free space,
//! or whether a name exists. Operations made of several (`replace`, `create_dir_all`,
//! `remove_dir_all`, `lock`) count each of them. The machine can crash at a step; a step or a read
//! can fail.
//!
//! # What a crash leaves
//! Everything that was synced. The seed decides what is left of the rest: see `sim/file.rs` for
//! bytes and `sim/tree.rs` for names. Each file and each directory is decided separately, so bytes
//! written first may be lost while bytes written later are kept. The step at which the machine
//! crashes may be carried out in part, like everything that was not synced.
//!
//! # What the seed decides
//! What a crash leaves, how much of a failing append is written, which class of job goes first when
//! both are due, how much longer than usual a call takes, and the random bytes that the program
//! gets. The same seed and the same calls give the same [`trace`](SimEnv::trace), byte for byte.

mod damage;
mod disks;
mod faults;
mod file;
mod gate;
mod handles;
mod jobs;
mod machine;
mod map;
mod open_file;
mod rng;
mod setup;
mod tree;

pub use disks::{Absence, Latency};
pub use faults::{Fault, ReadFault};

use crate::{
    AppendFile, Env, Error, FileLock, FileStamp, Gate, Job, JobClass, ReadFile, Result, durable,
};
use faults::Interruption;
use gate::SimGate;
use handles::{SimAppendFile, SimLock, SimReadFile};
use machine::{EPOCH_MICROS, SimMachine, State};
pub(crate) use map::SimMap;
use rng::Rng;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tree::Node;

/// The most jobs of one run: a job that schedules itself for ever exceeds it.
const JOBS_MAX: usize = 1_000_000;

/// A simulated machine, to be used from one thread. With more threads nothing breaks, but the seed
/// no longer decides the run.
///
/// Relative paths start at the root `/`, which always exists. On a machine that has crashed every
/// call fails with [`ErrorKind::Crashed`](crate::ErrorKind). Jobs still run when a caller waits for
/// them, so that it gets the error.
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
    machine: Arc<SimMachine>,
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

/// The life of a machine.
impl SimEnv {
    /// A new machine with an empty disk.
    pub fn new(seed: u64) -> Arc<SimEnv> {
        let machine = Arc::new(SimMachine::new(seed));
        Arc::new(SimEnv { machine })
    }

    /// The number of steps so far, which is also the number of the next one.
    pub fn operations(&self) -> u64 {
        self.machine.with(|state| state.steps)
    }

    /// The number of reads so far, which is also the number of the next one.
    pub fn reads(&self) -> u64 {
        self.machine.with(|state| state.reads)
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

    /// The machine after a restart, had it crashed now. `seed` decides what is left, and the life
    /// of the new machine. This machine does not change, so one run can be continued in many ways;
    /// but if it has crashed, its jobs are dropped.
    ///
    /// The disks keep their size and speed. Faults end, disks that had vanished are back, and
    /// steps, reads and the trace start again at zero. The clock continues.
    pub fn after_crash(&self, seed: u64) -> Arc<SimEnv> {
        let mut rng = Rng::new(seed);
        let (machine, jobs) = self.machine.with(|state| {
            let tree = state.tree.after_crash(&mut rng);
            let clock_micros = state.clock_micros() + 1_000_000;
            let (capacities, latency) = (state.capacities.clone(), state.latency);
            let machine =
                SimMachine::with_disks(rng.next(), tree, clock_micros, capacities, latency);
            let shift = state.wall_shift_micros;
            machine.with(|state| state.wall_shift_micros = shift);
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

    /// The calls so far, one line each, in order: equal for equal seeds and equal calls. Grows with
    /// the run.
    pub fn trace(&self) -> Vec<String> {
        self.machine.with(|state| state.trace.clone())
    }

    /// Moves the clock.
    pub fn advance(&self, by: Duration) {
        self.machine.with(|state| state.advance(by));
    }

    /// Shifts the wall clock forward, or back by a negative number, as an administrator might. The
    /// monotonic clock, and with it every job, does not change. The shift stays after a crash.
    pub fn shift_wall_clock(&self, micros: i64) {
        self.machine.with(|state| {
            state.wall_shift_micros = state.wall_shift_micros.saturating_add(micros);
        });
    }

    /// Runs the jobs that are due, and those that they schedule and that are due then. Returns the
    /// number of jobs run.
    ///
    /// # Panics
    /// If they never end.
    pub fn run_due(&self) -> usize {
        run_all(|| self.machine.run_due_job())
    }

    /// Runs jobs, moving the clock to the time of each, until none is left. Returns the number of
    /// jobs run.
    ///
    /// # Panics
    /// If they never end, as with a duty that schedules itself again: use
    /// [`run_due`](Self::run_due) for those.
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

impl SimEnv {
    fn make_dir(&self, path: &Path) -> Result<()> {
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

/// Whether an error says that the name does not exist.
fn is_absence(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
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
        let read = |state: &mut State| {
            let file = state.tree.file(path)?;
            let file = file.lock();
            let found = file.bytes().len() as u64;
            if found > bytes_max {
                return Ok(Err(found));
            }
            state.transfer(file.bytes().len());
            Ok(Ok(file.bytes().to_vec()))
        };
        let read = self.machine.read("read", path, "whole", true, read)?;
        read.map_err(|found| Error::TooLarge {
            path: path.to_path_buf(),
            limit: bytes_max,
            found,
        })
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

    fn create_dir(&self, path: &Path) -> Result<()> {
        durable::create_dir(self, &|path| self.make_dir(path), path)
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
        self.machine
            .look("look for", path, "", |state| match state.tree.find(path) {
                Ok(_) => Ok(true),
                Err(error) if is_absence(&error) => Ok(false),
                Err(error) => Err(error),
            })
    }

    fn stamp(&self, path: &Path) -> Result<FileStamp> {
        self.machine.look("look at", path, "", |state| {
            let file = state.tree.file(path)?;
            let stamp = file.lock().stamp();
            Ok(stamp)
        })
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let sync = |state: &mut State, interruption| match interruption {
            Some(Interruption::Fault(errno)) => Err(std::io::Error::from(errno)),
            // Any part of it may be done, and so it is: a crash keeps any part of the names that
            // are not synced.
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
        match SimLock::take(&self.machine, path, file) {
            Some(lock) => Ok(Box::new(lock)),
            None => Err(Error::Locked {
                path: path.to_path_buf(),
            }),
        }
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.machine
            .look("get the free space of", dir, "", |state| {
                state.tree.find(dir)?;
                Ok(state.free_bytes(dir))
            })
    }

    fn now_micros(&self) -> i64 {
        let micros = EPOCH_MICROS + self.machine.tick().as_micros() as u64;
        let shift = self.machine.with(|state| state.wall_shift_micros);
        i64::try_from(micros)
            .unwrap_or(i64::MAX)
            .saturating_add(shift)
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
