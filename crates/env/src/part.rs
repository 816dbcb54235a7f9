//! A part of a file: the bytes at an offset, or the error that they are not there.

use crate::Error;
use std::io;
use std::path::Path;

/// A part of a file's bytes.
pub(crate) fn part(bytes: &[u8], offset: u64, length: usize) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    bytes.get(start..start.checked_add(length)?)
}

/// The error for a file that is shorter than expected.
#[cold]
pub(crate) fn ends_early(path: &Path) -> Error {
    let end = io::Error::new(io::ErrorKind::UnexpectedEof, "failed to fill whole buffer");
    Error::io("read", path, end)
}
