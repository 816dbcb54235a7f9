//! What can go wrong with the machine.

use std::io;
use std::path::{Path, PathBuf};

/// Result of a call into the machine.
pub type Result<T> = std::result::Result<T, Error>;

/// What a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No such file or directory.
    NotFound,
    /// The name is taken.
    AlreadyExists,
    /// Another holder has the lock.
    Locked,
    /// The disk or quota is full.
    NoSpace,
    /// Not allowed, or a read-only file system.
    Denied,
    /// The file ends before the requested bytes.
    UnexpectedEnd,
    /// More bytes than the caller's limit.
    TooLarge,
    /// The caller's mistake.
    InvalidArgument,
    /// The simulated machine has crashed: every later call fails so.
    Crashed,
    /// Anything else the operating system reports.
    Io,
}

/// An error of the machine: what was done, to which path, and what the system said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("cannot {op} {path}: {source}")]
    Io {
        /// The operation, as in "cannot {op} {path}".
        op: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The lock is held.
    #[error(
        "{path} is locked: another process, or this one, has it open already; \
         close that first, or use another directory"
    )]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// What was locked has lost its name.
    #[error(
        "{path} was removed or replaced while this process held its lock: another process may \
         have the directory open, so nothing more is written; stop all of them, then open it again"
    )]
    LockLost {
        /// The lock file or the directory.
        path: PathBuf,
    },
    /// A file larger than the caller's limit.
    #[error("{path} holds {found} bytes, more than the {limit} that such a file may")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
        /// Its length in bytes.
        found: u64,
    },
    /// The directory of a volume can't be read.
    #[error("volume {name} at {path} is lost ({source}); is its disk mounted?")]
    VolumeLost {
        /// Its id.
        volume: u16,
        /// Its name.
        name: String,
        /// Its directory.
        path: PathBuf,
        /// The error of reading it.
        source: Box<Error>,
    },
    /// A volume of the database that was not given when it was opened.
    #[error(
        "volume {volume} is not among the {given} directories given; \
         give all of the database's volumes, in their order"
    )]
    NoVolume {
        /// Its id.
        volume: u16,
        /// The number of volumes given.
        given: usize,
    },
    /// The caller's mistake.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// The simulated machine has crashed.
    #[error("the simulated machine has crashed (at: {op} {path})")]
    Crashed {
        /// The operation refused.
        op: &'static str,
        /// Its path.
        path: PathBuf,
    },
}

impl Error {
    /// A failed system call.
    pub fn io(op: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Io {
            op,
            path: path.to_path_buf(),
            source,
        }
    }

    /// The caller's mistake.
    pub fn invalid_argument(what: impl Into<String>) -> Error {
        Error::InvalidArgument(what.into())
    }

    /// A truncation to more bytes than the file has.
    pub(crate) fn cut_beyond_end(path: &Path, len: u64, found: u64) -> Error {
        let path = path.display();
        Error::InvalidArgument(format!(
            "{path} can't be cut to {len} bytes: it has {found}"
        ))
    }

    /// Bytes to be overwritten that the file does not have.
    pub(crate) fn written_beyond_end(path: &Path, offset: u64, found: u64) -> Error {
        let path = path.display();
        Error::InvalidArgument(format!(
            "{path} can't be overwritten from {offset} on: it has {found} bytes"
        ))
    }

    /// What a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Locked { .. } | Error::LockLost { .. } => ErrorKind::Locked,
            Error::TooLarge { .. } => ErrorKind::TooLarge,
            Error::InvalidArgument(_) => ErrorKind::InvalidArgument,
            Error::Crashed { .. } => ErrorKind::Crashed,
            // The kind of the volume error does not depend on what is found in its place.
            Error::VolumeLost { source, .. } if source.kind() != ErrorKind::Crashed => {
                ErrorKind::Io
            }
            Error::VolumeLost { .. } => ErrorKind::Crashed,
            Error::NoVolume { .. } => ErrorKind::NotFound,
            Error::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => ErrorKind::NotFound,
                io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    ErrorKind::Denied
                }
                io::ErrorKind::UnexpectedEof => ErrorKind::UnexpectedEnd,
                _ => ErrorKind::Io,
            },
        }
    }
}
