//! What a partition knows of its log that is kept for those who tail it.

use crate::record::Tailed;
use parking_lot::Mutex;
use quire_model::Position;
use quire_store::{LogHold, LogOptions};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The log of a partition, kept for those who tail it.
#[derive(Debug)]
pub(crate) struct KeptLog {
    /// As the log was opened.
    pub(crate) options: LogOptions,
    is_tailed: AtomicBool,
    pub(crate) state: Mutex<Kept>,
}

/// What is kept.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// How long; not at all if there is none.
    pub(crate) retention: Option<Duration>,
    /// Keeps a flush from dropping what is to stay.
    pub(crate) hold: Option<LogHold>,
    /// When the last change of each sealed segment was written, by the segment's base: microseconds
    /// since 1970 UTC.
    pub(crate) ended: BTreeMap<Position, i64>,
}

impl KeptLog {
    pub(crate) fn new(options: LogOptions, is_tailed: bool, hold: Option<LogHold>) -> KeptLog {
        KeptLog {
            options,
            is_tailed: AtomicBool::new(is_tailed),
            state: Mutex::new(Kept {
                hold,
                ..Kept::default()
            }),
        }
    }

    /// Whether records are to have what those who tail the log need.
    pub(crate) fn is_tailed(&self) -> bool {
        self.is_tailed.load(Ordering::Acquire)
    }

    pub(crate) fn set_tailed(&self, is_tailed: bool) {
        self.is_tailed.store(is_tailed, Ordering::Release);
    }

    /// What a record has that is of no row.
    pub(crate) fn tailed(&self) -> Tailed {
        match self.is_tailed() {
            true => Tailed::Key,
            false => Tailed::No,
        }
    }
}
