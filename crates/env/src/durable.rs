//! What is durable when it returns: a small file replaced, directories made. Written once over
//! [`Env`]'s single operations, so that the code that runs on the real machine is the code the
//! simulator crashes at every step.
//!
//! # Invariants
//! 1. At any moment, and after any crash, a path that is replaced holds the old bytes whole or the
//!    new bytes whole: the new ones are durable under another name before the one atomic step, the
//!    rename, gives them this one.
//! 2. When `create_dir_all` returns, every name it made has been synced.

use crate::{Env, Error, ErrorKind, Result};
use quire_seeded::{Bug, seeded};
use std::path::{Path, PathBuf};

/// Ends the name of a replacement that is not in place yet; one found at start was left by a crash.
const TEMPORARY_SUFFIX: &str = ".tmp";

/// [`Env::replace`], for any machine.
pub(crate) fn replace(env: &dyn Env, path: &Path, contents: &[u8]) -> Result<()> {
    let temporary = temporary_beside(path)?;
    let placed =
        write_durably(env, &temporary, contents).and_then(|()| env.rename(&temporary, path));
    if let Err(error) = placed {
        // Nobody reads it and the next replacement makes it anew: if it can't be removed, the first
        // error says why.
        let _ = env.remove(&temporary);
        return Err(error);
    }
    if seeded(Bug::ReplacementNameUnsynced) {
        return Ok(());
    }
    env.sync_dir(parent_of(path))
}

/// [`Env::create_dir_all`], for any machine. `make_dir` makes one directory, unless it is there
/// already.
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
    // First its own name: whoever finds a directory in it takes the names above for durable.
    create_dir_all(env, make_dir, parent)?;
    make_dir(path)?;
    match seeded(Bug::DirectoryNameUnsynced) {
        true => Ok(()),
        false => env.sync_dir(parent),
    }
}

/// Syncs the name of a directory that was there already: whoever made it may have died or failed
/// before doing so. As nobody makes another in it before that, no name above it can be in that
/// state. Where we may not, it is not ours to see to.
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
/// assert_eq!(parent_of(Path::new("a.quire")), Path::new("."), "a bare name is in the working directory");
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
    Ok(path.with_file_name(name))
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
