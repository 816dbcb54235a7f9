//! Rules that the sources of Quire keep, as far as a program can check them.
//!
//! - [`modules`]: inside a crate, source files know each other in one direction.
//! - [`text`]: no line is too wide, and no word is one that the field does not use.

#![allow(
    clippy::disallowed_methods,
    reason = "this reads source files, as tests do"
)]

pub mod modules;
pub mod text;
mod tokens;

use std::io;
use std::path::{Path, PathBuf};

/// The folder that holds the workspace.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files below a folder whose names have this extension, in order. Folders that hold what a
/// build made or git's own files are left out.
///
/// # Errors
/// A folder cannot be read.
pub fn files(dir: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir()? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let skipped = name.starts_with('.') || name.starts_with("target");
            if path.is_dir() && !skipped {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
