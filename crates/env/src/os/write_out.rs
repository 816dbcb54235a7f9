//! Writing bytes of a file to the disk without making them durable.
//!
//! An fdatasync of a file that grows commits the journal of the file system, and with it waits for
//! what others write there. This waits for the bytes alone. Measured: `docs/lab/wide.md`.

use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Writes the bytes between two offsets to the disk, and waits for that.
#[allow(
    unsafe_code,
    reason = "sync_file_range has no safe face in the libraries that are used here"
)]
pub(super) fn write_out(file: &File, from: u64, to: u64) -> io::Result<()> {
    const FLAGS: u32 = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let offset = |at: u64| i64::try_from(at).map_err(|_| io::Error::from(Errno::FBIG));
    // A length of 0 would be all of the file.
    if to <= from {
        return Ok(());
    }
    let (from, length) = (offset(from)?, offset(to - from)?);
    let write = || {
        // SAFETY: the call takes no pointers, and the borrowed file keeps the descriptor open.
        match unsafe { libc::sync_file_range(file.as_raw_fd(), from, length, FLAGS) } {
            0 => Ok(()),
            _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
        }
    };
    match rustix::io::retry_on_intr(write) {
        // What a file system does not know of, it does at the sync.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::SPIPE) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Env, OsEnv, Result};

    #[test]
    fn bytes_are_written_out_once_and_those_after_them_too() -> Result<()> {
        let (env, dir) = (OsEnv::new()?, tempfile::tempdir().unwrap());
        let path = dir.path().join("file");
        let mut file = env.create(&path)?;
        file.write_out()?;
        file.append(&[1; 10_000])?;
        file.write_out()?;
        file.write_out()?;
        file.truncate(5_000)?;
        file.append(&[2; 10])?;
        file.write_out()?;
        file.sync()?;
        let bytes = env.read(&path, 1 << 20)?;
        assert_eq!((bytes.len(), bytes[4_999], bytes[5_000]), (5_010, 1, 2));
        Ok(())
    }
}
