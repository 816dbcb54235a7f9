//! Atomic replacement of a small file, written once over [`Env`]'s own calls, so that the code that runs on the real
//! machine is the code the simulator crashes at every step.
//!
//! # Invariant
//! At any moment, and after any crash, `path` holds the old bytes whole or the new bytes whole: the new bytes are
//! durable under another name before the one atomic step, the rename, gives them this one.

use crate::{Env, Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Ends the name of a replacement that is not in place yet; one found at start was left by a crash.
const TEMPORARY_SUFFIX: &str = ".tmp";

/// [`Env::replace`], for any machine.
pub(crate) fn replace(env: &dyn Env, path: &Path, contents: &[u8]) -> Result<()> {
    let temporary = temporary_beside(path)?;
    let placed =
        write_durably(env, &temporary, contents).and_then(|()| env.rename(&temporary, path));
    if let Err(error) = placed {
        // Nobody reads it and the next replacement writes it anew: if it can't be removed, the first error says why.
        let _ = env.remove(&temporary);
        return Err(error);
    }
    env.sync_dir(parent_of(path))
}

/// The directory that holds the name `path`.
pub(crate) fn parent_of(path: &Path) -> &Path {
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
    file.sync()
}
