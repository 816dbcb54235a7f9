//! Copying a log: a new store's log gets records from before the position at which the store
//! begins. No opening replays them; they are there for those who read the log.

use crate::{Error, Place, Result, Shared};
use quire_log::{Log, LogIdentity, LogOptions};
use quire_model::Position;
use std::sync::Arc;

/// Records are appended together until they have this many bytes, or there are this many.
const GROUP_BYTES: usize = 1 << 20;
const GROUP_RECORDS: usize = 4096;

/// The log of a store that was [made](crate::Store::create_at), and is not open yet.
#[derive(Debug)]
pub struct LogCopy {
    log: Log,
    group: Vec<Vec<u8>>,
    group_bytes: usize,
}

impl LogCopy {
    /// Begins the log of the store at this place with the record after `seen`.
    ///
    /// # Errors
    /// `Full` or `Io`; `Invalid` for options that a log can't have.
    pub fn begin(
        shared: &Shared,
        place: &Place,
        options: LogOptions,
        seen: Position,
    ) -> Result<LogCopy> {
        let identity = LogIdentity(place.identity);
        let (env, cache) = (Arc::clone(shared.env()), Arc::clone(shared.cache()));
        let opened = Log::open_after(env, &place.log_dir(), identity, cache, options, seen);
        let (log, _recovery) = opened?;
        assert_eq!(
            log.last(),
            seen,
            "a log is copied to a place where there is none"
        );
        Ok(LogCopy {
            log,
            group: Vec::new(),
            group_bytes: 0,
        })
    }

    /// Appends the next record.
    ///
    /// # Errors
    /// `Full` or `Io`; `TooLarge` for a record that no log can have.
    pub fn append(&mut self, record: Vec<u8>) -> Result<()> {
        self.group_bytes += record.len();
        self.group.push(record);
        match self.group_bytes >= GROUP_BYTES || self.group.len() >= GROUP_RECORDS {
            true => self.write(),
            false => Ok(()),
        }
    }

    fn write(&mut self) -> Result<()> {
        let records: Vec<&[u8]> = self.group.iter().map(Vec::as_slice).collect();
        if !records.is_empty() {
            self.log.append(&records)?;
        }
        self.group.clear();
        self.group_bytes = 0;
        Ok(())
    }

    /// Makes all durable, and closes the log.
    ///
    /// # Errors
    /// `Full` or `Io`.
    pub fn finish(mut self) -> Result<()> {
        self.write()?;
        self.log.close().map_err(Error::from)
    }
}
