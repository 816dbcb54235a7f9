//! A follower's directory: its copies. The newest whole one is the current one.
//!
//! # Layout
//! ```text
//! LOCK                     held by the process that follows
//! copy-<number, 8 digits>  a database, or a copy that is not whole yet (see copy.rs)
//! ```
//! A copy is a database like any other: it can be served, backed up and verified on its own while
//! no process follows into it.

use super::copy::{self, IncomingCopy};
use quire_database::directory::LOCK_NAME;
use quire_database::{Error, Result};
use quire_env::{Env, ErrorKind as EnvErrorKind, FileLock};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const COPY_PREFIX: &str = "copy-";

/// A follower's directory. One process has it open at a time.
#[derive(Debug)]
pub struct FollowerDir {
    env: Arc<dyn Env>,
    root: PathBuf,
    /// The number of the current copy; 0 if there is none yet.
    current: u64,
    _lock: Box<dyn FileLock>,
}

impl FollowerDir {
    /// Opens it; creates it if it is absent or empty. Finishes a copy whose files had all arrived,
    /// and removes older ones.
    ///
    /// # Errors
    /// `Invalid` if the directory holds something else; `Locked` if another process has it; `Full`
    /// or `Io`.
    pub fn open(env: Arc<dyn Env>, root: &Path) -> Result<FollowerDir> {
        check(&*env, root)?;
        env.create_dir_all(root)?;
        let lock = env.lock_dir(root)?;
        check(&*env, root)?;
        let mut dir = FollowerDir {
            env,
            root: root.to_path_buf(),
            current: 0,
            _lock: lock,
        };
        for number in dir.numbers()? {
            let path = dir.path(number);
            if let Some(left) = IncomingCopy::left(Arc::clone(&dir.env), &path)? {
                match copy::is_whole(&*dir.env, &path)? {
                    true => copy::tidy(&*dir.env, &path)?,
                    false => left.finish()?,
                }
            }
            if copy::is_whole(&*dir.env, &path)? {
                dir.current = number;
            }
        }
        dir.remove_older()?;
        Ok(dir)
    }

    /// The directory of the current copy, a database, if there is one.
    pub fn current(&self) -> Option<PathBuf> {
        (self.current > 0).then(|| self.path(self.current))
    }

    /// Begins to take a copy of the leader, beside the current one, or continues one that was
    /// interrupted. `plan` is what [`LeaderCopy::plan`](super::LeaderCopy::plan) returned there.
    ///
    /// # Errors
    /// `Leader` if that can't be used; `Full` or `Io`.
    pub fn begin_copy(&self, plan: &[u8]) -> Result<IncomingCopy> {
        let path = self.path(self.current + 1);
        IncomingCopy::begin(Arc::clone(&self.env), &path, plan)
    }

    /// Makes a database of a copy whose files have all arrived: it is the current one from now on.
    /// [`remove_older`](FollowerDir::remove_older) removes the one before.
    ///
    /// # Errors
    /// `Corrupt` if a file is missing; `Full` or `Io`.
    pub fn finish_copy(&mut self, copy: &IncomingCopy) -> Result<PathBuf> {
        copy.finish()?;
        self.current += 1;
        Ok(self.path(self.current))
    }

    /// Removes the copies before the current one. No process may have them open.
    ///
    /// # Errors
    /// Those of the machine.
    pub fn remove_older(&self) -> Result<()> {
        for number in self.numbers()? {
            if number < self.current {
                self.env.remove_dir_all(&self.path(number))?;
            }
        }
        Ok(self.env.sync_dir(&self.root)?)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.root.join(format!("{COPY_PREFIX}{number:08}"))
    }

    /// The numbers of the copies there are, ascending.
    fn numbers(&self) -> Result<Vec<u64>> {
        let names = self.env.list(&self.root)?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| number(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }
}

/// Refuses a directory that holds anything else than copies.
fn check(env: &dyn Env, root: &Path) -> Result<()> {
    let names = match env.list(root) {
        Err(error) if error.kind() == EnvErrorKind::NotFound => return Ok(()),
        listed => listed?,
    };
    match names
        .iter()
        .all(|name| name == LOCK_NAME || number(name).is_some())
    {
        true => Ok(()),
        false => Err(Error::ForeignFollower {
            path: root.to_path_buf(),
            what: "it has other files than a follower's",
        }),
    }
}

fn number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(COPY_PREFIX)?;
    let number = digits.parse().ok()?;
    (number > 0 && format!("{number:08}") == digits).then_some(number)
}
