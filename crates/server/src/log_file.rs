//! Logs of lines of JSON in files that are rotated: of the audit, and of slow requests.
//!
//! # Invariants
//! 1. No request waits for the disk: a line that finds the queue full is lost, and counted.
//! 2. The files are bounded: [`LogFileOptions::bytes_max`] each, [`LogFileOptions::files_max`] of
//!    them.

mod queue;
mod rotated;

pub(crate) use queue::LogFile;
pub use queue::LogFileError;
pub use rotated::LogFileOptions;
