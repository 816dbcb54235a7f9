//! Shipping: what a follower of a store is sent of its log.
//!
//! # Invariants
//! 1. Only durable records go out. A crash takes none of them back, so their positions are never
//!    used for others.
//! 2. Records go out without a gap. Where compaction or retention took one away, a follower needs a
//!    copy of the store.

use crate::{Error, Machine, Result, Store};
use bytes::Bytes;
use quire_log::{ErrorKind as LogErrorKind, GROUP_BYTES_MAX, GROUP_RECORDS_MAX};
use quire_model::Position;
use xxhash_rust::xxh3::xxh3_64;

/// How far the log of a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogExtent {
    /// The last record accepted.
    pub last: Position,
    /// The last record that is durable.
    pub durable: Position,
}

/// What a follower is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shipped {
    /// These records follow, the first of them right after what it has seen. If `whole`, no group
    /// that was appended together goes on after the last: a state that ends here is one that
    /// readers of this store could have seen.
    Records {
        /// One or more.
        records: Vec<Bytes>,
        /// Whether readers may see a state that ends with the last.
        whole: bool,
    },
    /// It has all that is durable.
    Nothing,
    /// The record after what it has seen is gone.
    Gap,
}

impl<M: Machine> Store<M> {
    /// How far the log is.
    pub fn extent(&self) -> LogExtent {
        let log = &self.inner.log;
        // In this order: what is durable was accepted.
        let durable = log.durable();
        LogExtent {
            last: log.last(),
            durable,
        }
    }

    /// The durable records after `seen`: whole groups of about `bytes_max` bytes, or one group that
    /// is larger.
    ///
    /// # Errors
    /// `Corrupt` for damage in the log; `Closed`; those of the machine.
    pub fn ship(&self, seen: Position, bytes_max: usize) -> Result<Shipped> {
        let inner = &*self.inner;
        inner.check_open()?;
        let durable = inner.log.durable();
        if seen >= durable {
            return Ok(Shipped::Nothing);
        }
        let mut scan = inner.log.view().scan(seen.next()).until(durable);
        let (mut records, mut bytes) = (Vec::new(), 0);
        // How many of them end with a group.
        let mut whole = 0;
        let mut next = seen.next();
        while let Some(item) = scan.next() {
            let (position, record) = match item {
                Err(error) if is_gone(&error) => return Ok(Shipped::Gap),
                item => item?,
            };
            if position != next {
                // What came before the gap can be used all the same.
                break;
            }
            // Of records that were compacted it is not known where groups end; no group has this
            // number of records.
            let is_full =
                bytes + record.len() > GROUP_BYTES_MAX || records.len() == GROUP_RECORDS_MAX;
            if is_full {
                break;
            }
            bytes += record.len();
            records.push(record);
            next = next.next();
            if scan.at_group_end() || position == durable {
                whole = records.len();
            }
            if bytes >= bytes_max && whole > 0 {
                break;
            }
        }
        if whole > 0 {
            records.truncate(whole);
        }
        Ok(match records.is_empty() {
            true => Shipped::Gap,
            false => Shipped::Records {
                records,
                whole: whole > 0,
            },
        })
    }

    /// A checksum of the record at a position: two logs that agree on it have the same record
    /// there. `None` if it is gone.
    ///
    /// # Errors
    /// `NotFound` past the last; `Corrupt`.
    pub fn fingerprint(&self, position: Position) -> Result<Option<u64>> {
        match self.inner.log.read(position) {
            Ok(record) => Ok(Some(xxh3_64(&record))),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes all records accepted so far durable, and nothing visible that was not.
    ///
    /// # Errors
    /// As of [`sync`](Store::sync).
    pub fn sync_log(&self) -> Result<()> {
        self.inner.check_open()?;
        let log = &self.inner.log;
        log.sync_aside(log.last()).map_err(Error::Log)?;
        Ok(())
    }
}

fn is_gone(error: &quire_log::Error) -> bool {
    matches!(
        error.kind(),
        LogErrorKind::Dropped | LogErrorKind::Superseded
    )
}
