//! Files in the system's page cache, and out of it.

use crate::Result;
use rustix::fs::Advice;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

/// Makes every file below `dir` durable.
pub(crate) fn sync_files(dir: &Path) -> Result<()> {
    each_file(dir, &mut |file| Ok(file.sync_all()?))
}

/// Takes every file below `dir` out of the system's page cache. They must be durable, and no
/// process may map them.
pub(crate) fn evict_files(dir: &Path) -> Result<()> {
    each_file(dir, &mut |file| {
        file.sync_all()?;
        Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)
    })
}

/// Opens every file below `dir` in turn. An engine may delete some meanwhile.
fn each_file(dir: &Path, work: &mut dyn FnMut(&File) -> Result<()>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            each_file(&path, work)?;
            continue;
        }
        match File::open(&path) {
            Ok(file) => work(&file)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
