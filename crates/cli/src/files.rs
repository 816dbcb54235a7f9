//! The user's files: inputs to load, tokens, sources for the demonstration. Only this module reads
//! files without `Env`, which is for the files of the engine.
#![allow(
    clippy::disallowed_methods,
    reason = "reads the user's files, which belong to the command, not the engine"
)]

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Opens a file for reading.
///
/// # Errors
/// Of the system.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Opens a file to append to it; creates it if there is none.
///
/// # Errors
/// Of the system.
pub(crate) fn append(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).open(path)
}

/// Makes a directory and those above it, where there are none.
///
/// # Errors
/// Of the system.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Writes a whole file; replaces what was in it.
///
/// # Errors
/// Of the system.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::write(path, bytes)
}

/// The length of a file in bytes; none for a pipe and the like.
///
/// # Errors
/// Of the system, and if it is a directory.
pub(crate) fn length(path: &Path) -> io::Result<Option<u64>> {
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::Error::other("it is a directory; name the files in it"));
    }
    Ok(metadata.is_file().then_some(metadata.len()))
}

/// A whole text file of at most `bytes_max`.
///
/// # Errors
/// Of the system; if it is larger or not in UTF-8.
pub(crate) fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(bytes_max.saturating_add(1))
        .read_to_string(&mut text)?;
    if text.len() as u64 > bytes_max {
        return Err(io::Error::other(format!(
            "it is larger than {bytes_max} bytes"
        )));
    }
    Ok(text)
}

/// Whether there is a directory at a path.
pub(crate) fn is_directory(path: &Path) -> bool {
    path.is_dir()
}

/// Whether there is a file at a path.
pub(crate) fn is_file(path: &Path) -> bool {
    path.is_file()
}

/// What is in a directory, by name.
///
/// # Errors
/// Of the system.
pub(crate) fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?.map(|entry| Ok(entry?.path()));
    let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    Ok(entries)
}

/// Whether a file begins with these bytes; false if it can't be read.
pub(crate) fn begins_with(path: &Path, bytes: &[u8]) -> bool {
    let mut first = vec![0; bytes.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut first));
    read.is_ok() && first == bytes
}

/// The subdirectories and the files of a directory, each sorted; empty if it can't be read.
pub(crate) fn list(directory: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut directories, mut files) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => directories.push(entry.path()),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    directories.sort();
    files.sort();
    (directories, files)
}

/// Every file under a directory, with its length and the time of its last change: two states
/// differ if a file has changed. A file that can't be read counts as absent.
pub(crate) fn state(directory: &Path) -> Vec<(PathBuf, u64, Option<SystemTime>)> {
    let mut state = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        let (mut below, files) = list(&directory);
        directories.append(&mut below);
        for file in files {
            if let Ok(metadata) = fs::metadata(&file) {
                state.push((file, metadata.len(), metadata.modified().ok()));
            }
        }
    }
    state
}

/// The peak memory of this process in bytes, if the system reports it.
pub(crate) fn peak_memory_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}
