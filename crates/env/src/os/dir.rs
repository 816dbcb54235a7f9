//! Real directories: names made, removed, listed and made durable.

use crate::{Error, Result};
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Makes one directory, unless it exists.
pub(super) fn make_dir(path: &Path) -> Result<()> {
    match fs::create_dir(path) {
        Ok(()) => Ok(()),
        // On a read-only file system the error need not be that the name is taken.
        Err(_) if path.is_dir() => Ok(()),
        Err(e) => Err(Error::io("create directory", path, e)),
    }
}

/// How often a directory is emptied: another thread may make a file in it meanwhile.
const REMOVE_TRIES: usize = 16;

/// [`Env::remove_dir_all`](crate::Env::remove_dir_all).
pub(super) fn remove_dir_all(path: &Path) -> Result<()> {
    for _ in 0..REMOVE_TRIES {
        match fs::remove_dir_all(path) {
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove directory", path, e));
            }
            _ => return Ok(()),
        }
    }
    Err(Error::io(
        "remove directory",
        path,
        io::ErrorKind::DirectoryNotEmpty.into(),
    ))
}

/// [`Env::list`](crate::Env::list). A name that is not UTF-8 is not one of ours; it is listed with
/// replacement characters.
pub(super) fn list(dir: &Path) -> Result<Vec<String>> {
    let name =
        |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    let names = || fs::read_dir(dir)?.map(name).collect::<io::Result<Vec<_>>>();
    let mut names = names().map_err(|e| Error::io("list", dir, e))?;
    names.sort_unstable();
    Ok(names)
}

/// [`Env::exists`](crate::Env::exists).
pub(super) fn exists(path: &Path) -> Result<bool> {
    match path.try_exists() {
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => Ok(false),
        answer => answer.map_err(|e| Error::io("look for", path, e)),
    }
}

/// [`Env::sync_dir`](crate::Env::sync_dir).
pub(super) fn sync_dir(dir: &Path) -> Result<()> {
    let sync = || {
        let file = File::open(dir)?;
        // Syncing a file by this call is a mistake of the caller, which would go unnoticed.
        if !file.metadata()?.is_dir() {
            return Err(rustix::io::Errno::NOTDIR.into());
        }
        file.sync_all()
    };
    sync().map_err(|e| Error::io("sync directory", dir, e))
}

/// [`Env::free_bytes`](crate::Env::free_bytes).
pub(super) fn free_bytes(dir: &Path) -> Result<u64> {
    let stat =
        rustix::fs::statvfs(dir).map_err(|e| Error::io("get the free space of", dir, e.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}
