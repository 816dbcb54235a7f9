//! Syncer: makes the written bytes of a segment durable, while more may be written to it.
//!
//! # Invariants
//! 1. One sync of a segment file at a time, and none after one that failed: the system may have
//!    dropped pages that it could not write, and would report success for the next sync.
//! 2. Bytes count as durable only after a sync that began when they were already written.

use crate::{Error, Result};
use parking_lot::Mutex;
use quire_env::AppendFile;
use quire_seeded::{Bug, seeded};
use std::sync::atomic::{AtomicU64, Ordering};

/// Syncs the file of a segment, through a handle of its own.
#[derive(Debug)]
pub(crate) struct Syncer {
    /// `None` once a sync failed.
    file: Mutex<Option<Box<dyn AppendFile>>>,
    /// Bytes of the file known durable.
    durable: AtomicU64,
}

impl Syncer {
    /// For a file of which `durable` bytes are durable.
    pub(crate) fn new(file: Box<dyn AppendFile>, durable: u64) -> Syncer {
        Syncer {
            file: Mutex::new(Some(file)),
            durable: AtomicU64::new(durable),
        }
    }

    /// Bytes of the file known durable.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Makes the first `bytes` of the file durable; they are written. Waits for a sync that is
    /// under way.
    ///
    /// # Errors
    /// The error of the machine the first time, then [`Error::Poisoned`].
    pub(crate) fn sync(&self, bytes: u64) -> Result<()> {
        let mut held = self.file.lock();
        if self.durable() >= bytes {
            return Ok(());
        }
        let Some(mut file) = held.take() else {
            return Err(Error::Poisoned);
        };
        let synced = match seeded(Bug::LogUnsynced) {
            true => Ok(()),
            false => file.sync(),
        };
        if synced.is_ok() || seeded(Bug::FailedSyncForgotten) {
            *held = Some(file);
        }
        synced?;
        self.durable.store(bytes, Ordering::Release);
        Ok(())
    }
}
