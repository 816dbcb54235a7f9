//! Splits and merges that are due by the setting
//! [`split_bytes`](crate::CollectionSettings::split_bytes).

use crate::Result;
use crate::database::Database;
use crate::settings::CollectionSettings;
use quire_collection::Partition;
use quire_wide::WidePartition;

/// Partitions are merged if together they take less than this part of the size at which one is
/// split: it is not split again soon.
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

impl Database {
    /// How many partitions a collection is to have by its setting
    /// [`split_bytes`](CollectionSettings::split_bytes); `None` if it is to keep those that it has.
    /// They are merged again if they were split and are small, and never into fewer than there were
    /// at first.
    ///
    /// # Errors
    /// As of [`collection_named`](Database::collection_named).
    pub fn partitions_due(&self, name: &str) -> Result<Option<u32>> {
        let (settings, bytes, first) = match self.is_wide(name) {
            true => {
                let collection = self.open_wide(name)?;
                let partitions = collection.partitions();
                let bytes: Vec<u64> = partitions.iter().map(WidePartition::tree_bytes).collect();
                (collection.settings(), bytes, collection.first_partitions())
            }
            false => {
                let collection = self.collection_named(name)?;
                let bytes = collection.partitions().iter().map(needed_bytes).collect();
                (collection.settings(), bytes, collection.first_partitions())
            }
        };
        let split_bytes = settings.split_bytes;
        if split_bytes == 0 {
            return Ok(None);
        }
        if bytes.iter().max() > Some(&split_bytes) {
            let twice = CollectionSettings {
                partitions: settings.partitions.saturating_mul(2),
                ..CollectionSettings::clone(&settings)
            };
            return Ok(twice.check().is_ok().then_some(twice.partitions));
        }
        let fewer = |times: &u32| {
            let are_small = |of_one: &[u64]| of_one.iter().sum::<u64>() <= split_bytes / SMALL_PART;
            settings.partitions.is_multiple_of(*times)
                && first.is_some_and(|first| settings.partitions / times >= first)
                && bytes.chunks(*times as usize).all(are_small)
        };
        let times = (2..=settings.partitions).find(fewer);
        Ok(times.map(|times| settings.partitions / times))
    }

    /// The collections that are to have another number of partitions by their settings, and which.
    /// One that can't be opened is left out: it says so wherever it is used.
    pub fn all_partitions_due(&self) -> Vec<(String, u32)> {
        let names: Vec<String> = {
            let state = self.inner.state.lock();
            let entries = state.catalog.collections.iter();
            let entries = entries.filter(|entry| entry.settings.split_bytes > 0);
            entries.map(|entry| entry.name.clone()).collect()
        };
        let due = |name: String| {
            let count = self.partitions_due(&name).ok().flatten();
            count.map(|count| (name, count))
        };
        names.into_iter().filter_map(due).collect()
    }
}
