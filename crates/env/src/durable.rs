//! Operations that are durable when they return: replacing a small file, and making directories.
//! They are written once over the single operations of [`Env`], so the code that runs on the real
//! machine is the code that the simulator crashes at every step.
//!
//! # Invariants
//! 1. At any moment, and after any crash, a replaced path holds all of the old bytes or all of the
//!    new ones. The new bytes are durable under another name before one atomic step, the rename,
//!    gives them this name.
//! 2. When `create_dir_all` returns, every name it made has been synced.

use crate::{Env, Error, ErrorKind, Result};
use quire_seeded::{Bug, seeded};
use std::path::{Path, PathBuf};

/// The end of the name of a replacement that is not in place yet. One found at start was left by a
/// crash.
const TEMPORARY_SUFFIX: &str = ".tmp";

/// [`Env::replace`], for any machine.
pub(crate) fn replace(env: &dyn Env, path: &Path, contents: &[u8]) -> Result<()> {
    let temporary = temporary_beside(path)?;
    let placed =
        write_durably(env, &temporary, contents).and_then(|()| env.rename(&temporary, path));
    if let Err(error) = placed {
        // Nothing reads it, and the next replacement overwrites it. If it can't be removed, the
        // first error says why.
        let _ = env.remove(&temporary);
        return Err(error);
    }
    if seeded(Bug::ReplacementNameUnsynced) {
        return Ok(());
    }
    env.sync_dir(parent_of(path))
}

/// [`Env::create_dir_all`], for any machine. `make_dir` makes one directory, unless it exists.
pub(crate) fn create_dir_all(
    env: &dyn Env,
    make_dir: &dyn Fn(&Path) -> Result<()>,
    path: &Path,
) -> Result<()> {
    let parent = parent_of(path);
    if env.exists(path)? || parent == path {
        make_dir(path)?;
        return sync_name_of_found(env, path);
    }
    // First sync its own name: a caller that finds a directory in it assumes that the names above
    // are durable.
    create_dir_all(env, make_dir, parent)?;
    create_dir(env, make_dir, path)
}

/// [`Env::create_dir`], likewise.
pub(crate) fn create_dir(
    env: &dyn Env,
    make_dir: &dyn Fn(&Path) -> Result<()>,
    path: &Path,
) -> Result<()> {
    make_dir(path)?;
    match seeded(Bug::DirectoryNameUnsynced) {
        true => Ok(()),
        false => sync_name_of_found(env, path),
    }
}

/// Syncs the name of a directory that existed already: the process that made it may have died
/// before it did so. No directory is made inside one whose name is not synced, so no name above it
/// can be in that state. If this process may not sync it, another owner is responsible.
fn sync_name_of_found(env: &dyn Env, dir: &Path) -> Result<()> {
    match env.sync_dir(parent_of(dir)) {
        Err(error) if error.kind() == ErrorKind::Denied => Ok(()),
        synced => synced,
    }
}

/// The directory that holds the name `path`: what to sync for the name to be durable.
///
/// ```
/// use quire_env::parent_of;
/// use std::path::Path;
///
/// assert_eq!(parent_of(Path::new("data/a.quire")), Path::new("data"));
/// // A bare name is in the working directory.
/// assert_eq!(parent_of(Path::new("a.quire")), Path::new("."));
/// ```
pub fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}

fn temporary_beside(path: &Path) -> Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(Error::invalid_argument(format!(
            "{} names no file",
            path.display()
        )));
    };
    let mut name = name.to_os_string();
    name.push(TEMPORARY_SUFFIX);
    let temporary = path.with_file_name(name);
    assert_eq!(
        temporary.parent(),
        path.parent(),
        "a rename within one directory is atomic"
    );
    Ok(temporary)
}

fn write_durably(env: &dyn Env, path: &Path, contents: &[u8]) -> Result<()> {
    let mut file = match env.create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            env.remove(path)?;
            env.create(path)?
        }
        created => created?,
    };
    file.append(contents)?;
    if seeded(Bug::ReplacementUnsynced) {
        return Ok(());
    }
    file.sync()
}
