//! The database as its scrub sees it: nothing here waits.

use super::{Database, Inner, State};
use crate::scrub::{Ended, ScrubSource, Stores};
use crate::stats::ScrubStats;
use crate::{Error, Result};
use quire_collection::Partition;
use quire_wide::WidePartition;
use std::sync::Weak;

/// A database for its scrub, which does not keep it open.
pub(super) struct Scrubbed(pub(super) Weak<Inner>);

impl Scrubbed {
    fn database(&self) -> std::result::Result<Database, Ended> {
        let inner = self.0.upgrade().ok_or(Ended::Gone)?;
        Ok(Database { inner })
    }
}

impl ScrubSource for Scrubbed {
    fn collections(&self) -> std::result::Result<Vec<String>, Ended> {
        self.database()?.try_collections().ok_or(Ended::Busy)
    }

    fn partitions(&self, name: &str) -> std::result::Result<Result<Stores>, Ended> {
        self.database()?.try_stores(name).ok_or(Ended::Busy)
    }
}

impl Database {
    /// What scrubbing has done and found; none if it is off.
    pub fn scrub_stats(&self) -> Option<ScrubStats> {
        self.inner
            .scrubber
            .as_ref()
            .map(|scrubber| scrubber.stats())
    }

    /// As [`collections`](Database::collections), for background work, which never waits:
    /// `None` if it would have to, or the database is closed.
    pub(crate) fn try_collections(&self) -> Option<Vec<String>> {
        let state = self.inner.state.try_lock()?;
        if state.closed {
            return None;
        }
        let mut names = state.catalog.names(false);
        names.extend(state.catalog.names(true));
        names.sort_unstable();
        Some(names)
    }

    /// The stores of a collection's partitions, for background work.
    pub(crate) fn try_stores(&self, name: &str) -> Option<Result<Stores>> {
        let mut state = self.inner.state.try_lock()?;
        Some(self.stores(&mut state, name))
    }

    pub(super) fn stores(&self, state: &mut State, name: &str) -> Result<Stores> {
        if state.closed {
            return Err(Error::Closed);
        }
        let entry = self.entry(state, name)?;
        if entry.settings.wide.is_some() {
            let collection = self.open_wide_locked(state, &entry)?;
            let partitions = collection.partitions();
            return Ok(partitions.iter().map(WidePartition::any_store).collect());
        }
        let collection = self.open_locked(state, &entry)?;
        let partitions = collection.partitions();
        Ok(partitions.iter().map(Partition::any_store).collect())
    }
}
