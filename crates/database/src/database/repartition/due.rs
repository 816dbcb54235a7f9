//! Splits and merges that are due by the settings
//! [`split_bytes`](crate::CollectionSettings::split_bytes) and
//! [`split_rate`](crate::CollectionSettings::split_rate).

use crate::Result;
use crate::catalog::Entry;
use crate::database::Database;
use crate::settings::CollectionSettings;
use crate::write_rates::WriteRates;
use quire_collection::Partition;
use quire_model::Position;
use quire_wide::WidePartition;
use std::sync::Arc;

/// Partitions are merged if together they take less than this part of the size at which one is
/// split, and are written at less than this part of the rate: it is not split again soon.
const SMALL_PART: u64 = 4;

/// Bytes of a partition's log on disk, without those that a compaction would remove, about. A
/// partition that is large by what was overwritten is not made smaller by a split.
fn needed_bytes(partition: &Partition) -> u64 {
    let stats = partition.stats();
    let records = u128::from(stats.log.record_bytes).max(1);
    let needed = records.saturating_sub(stats.log_dead_bytes.into());
    let bytes = u128::from(stats.log.disk_bytes) * needed / records;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// What is known of the partitions of a collection.
struct Known {
    settings: Arc<CollectionSettings>,
    /// Bytes of each on disk.
    bytes: Vec<u64>,
    /// How many there were at first, if there were others.
    first: Option<u32>,
    /// Where each ends.
    positions: Vec<Position>,
}

impl Known {
    /// Twice as many partitions, if there can be.
    fn twice(&self) -> Option<u32> {
        let twice = CollectionSettings {
            partitions: self.settings.partitions.saturating_mul(2),
            ..CollectionSettings::clone(&self.settings)
        };
        twice.check().is_ok().then_some(twice.partitions)
    }

    /// The number that is due, with these writes a second of each partition, if they are known.
    fn due(&self, rates: Option<&[u64]>) -> Option<u32> {
        let settings = &*self.settings;
        let (split_bytes, split_rate) = (settings.split_bytes, settings.split_rate);
        if split_bytes > 0 && self.bytes.iter().max() > Some(&split_bytes) {
            return self.twice();
        }
        let fastest = rates.and_then(|rates| rates.iter().max());
        if split_rate > 0 && fastest > Some(&split_rate) {
            // More partitions than that do not make writes faster.
            let most = 2 * CollectionSettings::default().partitions;
            return self.twice().filter(|twice| *twice <= most);
        }
        let first = self.first.filter(|_| split_bytes > 0)?;
        let fewer = |times: &u32| {
            let parts = *times as usize;
            let are_small = |of_one: &[u64]| of_one.iter().sum::<u64>() <= split_bytes / SMALL_PART;
            let are_slow = |of_one: &[u64]| of_one.iter().sum::<u64>() <= split_rate / SMALL_PART;
            let have_slow = |rates: &[u64]| rates.chunks(parts).all(are_slow);
            settings.partitions.is_multiple_of(*times)
                && settings.partitions / times >= first
                && self.bytes.chunks(parts).all(are_small)
                && (split_rate == 0 || rates.is_some_and(have_slow))
        };
        let times = (2..=settings.partitions).find(fewer);
        times.map(|times| settings.partitions / times)
    }
}

impl Database {
    /// How many partitions a collection is to have by its setting
    /// [`split_bytes`](CollectionSettings::split_bytes); `None` if it is to keep those that it has.
    /// They are merged again if they were split and are small, and never into fewer than there were
    /// at first; with [`split_rate`](CollectionSettings::split_rate), which is not looked at, they
    /// are not.
    ///
    /// # Errors
    /// As of [`collection_named`](Database::collection_named).
    pub fn partitions_due(&self, name: &str) -> Result<Option<u32>> {
        Ok(self.known(name)?.due(None))
    }

    /// The collections that are to have another number of partitions by their settings, and which.
    /// Call it now and then, with the same `rates`. A collection that can't be opened is left out:
    /// it says so wherever it is used.
    pub fn all_partitions_due(&self, rates: &mut WriteRates) -> Vec<(String, u32)> {
        let names: Vec<String> = {
            let state = self.inner.state.lock();
            let entries = state.catalog.collections.iter();
            let is_set = |entry: &&Entry| {
                let settings = &entry.settings;
                settings.split_bytes > 0 || settings.split_rate > 0
            };
            let entries = entries.filter(is_set);
            entries.map(|entry| entry.name.clone()).collect()
        };
        let now = self.env().monotonic();
        let mut due = |name: String| {
            let known = self.known(&name).ok()?;
            let rates = rates.see(&name, now, &known.positions);
            let count = known.due(rates)?;
            Some((name, count))
        };
        names.into_iter().filter_map(&mut due).collect()
    }

    fn known(&self, name: &str) -> Result<Known> {
        if self.is_wide(name) {
            let collection = self.open_wide(name)?;
            let partitions = collection.partitions();
            return Ok(Known {
                settings: collection.settings(),
                bytes: partitions.iter().map(WidePartition::tree_bytes).collect(),
                first: collection.first_partitions(),
                positions: collection.positions(),
            });
        }
        let collection = self.collection_named(name)?;
        Ok(Known {
            settings: collection.settings(),
            bytes: collection.partitions().iter().map(needed_bytes).collect(),
            first: collection.first_partitions(),
            positions: collection.positions(),
        })
    }
}
