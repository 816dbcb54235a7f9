//! Figures about a database.

use crate::damage::Damage;
use quire_collection::IndexFigures;
use quire_env::{AdmissionFigures, VolumeId, VolumeIo, Volumes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Figures about a database. Events are counted since it was opened.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct DatabaseStats {
    /// Its first volume's directory.
    pub path: String,
    /// The memory budget in bytes.
    pub memory_bytes: u64,
    /// Bytes that memtables, caches, and work in progress hold now.
    pub memory_used_bytes: u64,
    /// Bytes of the whole process that are in memory, its code included; 0 if the system does not
    /// tell.
    pub resident_bytes: u64,
    /// Bytes of these that are no pages of files: what the system can't take back. 0 if it does not
    /// tell.
    pub anonymous_bytes: u64,
    /// Bytes reserved for requests, answers, and background work with large documents.
    pub work_bytes: u64,
    /// The most that were ever reserved.
    pub work_peak_bytes: u64,
    /// The most that can be.
    pub work_bytes_max: u64,
    /// Bytes that queries share of what they read of search indexes, and of documents that indexes
    /// are behind.
    pub index_bytes: u64,
    /// Bytes held by memtables.
    pub memtable_bytes: u64,
    /// The most that memtables ever held.
    pub memtable_peak_bytes: u64,
    /// Bytes in the block cache.
    pub cache_bytes: u64,
    /// Block reads that the cache answered.
    pub cache_hits: u64,
    /// Block reads that went to disk.
    pub cache_misses: u64,
    /// Which filter pages of tables are in memory, and what that is worth.
    pub filters: FilterStats,
    /// What scrubbing has done and found; none if it is off.
    pub scrub: Option<ScrubStats>,
    /// The volumes, in their order.
    pub volumes: Vec<VolumeStats>,
    /// Each collection, by name.
    pub collections: Vec<CollectionStats>,
}

/// A volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct VolumeStats {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub path: String,
    /// `ssd` or `hdd`.
    pub medium: String,
    /// Whether it was not there when the database was opened.
    pub lost: bool,
    /// Free bytes of its file system; none if that is unknown.
    pub free_bytes: Option<u64>,
    /// What its I/O manager has seen; none if it has none.
    pub io: Option<IoStats>,
}

/// What the I/O manager of a disk has seen, for all databases of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct IoStats {
    /// Its queue.
    #[serde(flatten)]
    pub queue: AdmissionFigures,
    /// Compactions that write to it.
    pub merges: u64,
    /// Bytes per second that compactions may write; none if that is not limited.
    pub merge_rate_bytes: Option<u64>,
}

impl IoStats {
    pub(crate) fn of(disk: &VolumeIo) -> IoStats {
        let (merges, merge_rate_bytes) = disk.merges();
        IoStats {
            queue: disk.figures(),
            merges,
            merge_rate_bytes,
        }
    }
}

/// A column group of a wide collection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct GroupStats {
    /// Its name.
    pub name: String,
    /// The medium of its tier; none if it has that of the first volume, or two tiers.
    pub tier: Option<String>,
    /// Its two tiers, if it has two, or has cold rows from when it had.
    pub tiers: Option<TierStats>,
    /// Bytes of its table files, by the name of the volume.
    pub volumes: BTreeMap<String, u64>,
}

/// A column that moves from one group to another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ColumnMoveStats {
    /// Its name.
    pub column: String,
    /// The group that its cells leave.
    pub from: String,
    /// The group that they go to.
    pub to: String,
    /// The rows that were passed until now.
    pub rows_passed: u64,
    /// All rows that were ever made: as many are to be passed.
    pub rows: u64,
    /// Times that a step waited for disks or memory, of all columns together.
    pub pauses: u64,
    /// Whether it is done.
    #[serde(skip)]
    pub(crate) is_done: bool,
}

/// The two tiers of a column group. Events are counted since the collection was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct TierStats {
    /// The medium of the hot tier.
    pub hot: String,
    /// The medium of the cold tier.
    pub cold: String,
    /// The age at which cells become cold, in microseconds.
    pub after_micros: u64,
    /// Rows whose cells are not in the cold tier.
    pub rows_hot: u64,
    /// Rows whose cells are in the cold tier.
    pub rows_cold: u64,
    /// Bytes of the cold tier's table files, by the name of the volume.
    pub cold_volumes: BTreeMap<String, u64>,
    /// Rows whose cells have moved to the cold tier.
    pub moved_cold: u64,
    /// Rows whose cells have come back.
    pub moved_hot: u64,
    /// Bytes of cells that have moved.
    pub bytes_moved: u64,
    /// Rows that the last pass left where they were, as they have too many bytes of cells.
    pub too_large: u64,
    /// By how long the row that was due first was overdue in the last pass, in microseconds.
    pub lag_micros: u64,
    /// Times that a step waited for disks or memory, of all groups together.
    pub pauses: u64,
    /// Why cells do not move, if they do not.
    pub stopped: Option<String>,
}

impl GroupStats {
    pub(crate) fn of(group: &quire_wide::Group) -> GroupStats {
        GroupStats {
            name: group.name.clone(),
            tier: group.tier.map(|tier| tier.to_string()),
            tiers: group.tiers.map(|tiers| TierStats {
                hot: tiers.hot.to_string(),
                cold: tiers.cold.to_string(),
                after_micros: u64::try_from(tiers.after.as_micros()).unwrap_or(u64::MAX),
                ..TierStats::default()
            }),
            volumes: BTreeMap::new(),
        }
    }

    /// Adds what a partition says of the tiers, and has in the cold one by volume.
    pub(crate) fn add_tiers(
        &mut self,
        figures: &quire_wide::TierFigures,
        cold: &BTreeMap<VolumeId, u64>,
        volumes: &Volumes,
    ) {
        if figures.rows_cold > 0 {
            self.tiers.get_or_insert_default();
        }
        let Some(tiers) = &mut self.tiers else { return };
        tiers.rows_cold += figures.rows_cold;
        tiers.moved_cold += figures.moved_cold;
        tiers.moved_hot += figures.moved_hot;
        tiers.bytes_moved += figures.bytes_moved;
        tiers.too_large += figures.too_large;
        tiers.lag_micros = tiers.lag_micros.max(figures.lag_micros);
        add_volumes(&mut tiers.cold_volumes, cold, volumes);
    }

    /// Adds what a partition has of the group, by volume.
    pub(crate) fn add(&mut self, bytes: &BTreeMap<VolumeId, u64>, volumes: &Volumes) {
        add_volumes(&mut self.volumes, bytes, volumes);
    }
}

/// Adds bytes by volume to those by the name of the volume.
fn add_volumes(
    named: &mut BTreeMap<String, u64>,
    bytes: &BTreeMap<VolumeId, u64>,
    volumes: &Volumes,
) {
    for (id, bytes) in bytes {
        let volume = volumes.get(*id);
        let name = volume.map_or_else(|_| id.0.to_string(), |volume| volume.name.clone());
        *named.entry(name).or_default() += bytes;
    }
}

/// Figures about the filters of all tables. A filter says of keys that a table does not have them,
/// which saves a search. It is cut into pages; the pages that save most, as measured, are in
/// memory.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct FilterStats {
    /// Bytes that pages in memory may take.
    pub budget_bytes: u64,
    /// Bytes that they take.
    pub resident_bytes: u64,
    /// Pages of all open tables.
    pub pages: u64,
    /// Those in memory.
    pub resident_pages: u64,
    /// Pages loaded.
    pub loaded: u64,
    /// Pages evicted.
    pub evicted: u64,
    /// Pages that could not be read.
    pub failed: u64,
    /// Questions that a page in memory answered.
    pub checks: u64,
    /// Answers "no" among them.
    pub negatives: u64,
    /// Of the questions of late, to pages in memory or not, the part to which the answer is "no".
    pub usefulness: f64,
    /// The part of those "no" that comes from pages in memory.
    pub resident_usefulness: f64,
}

impl FilterStats {
    /// What the pager says, and trees have counted.
    pub(crate) fn new(
        shared: &quire_store::Shared,
        collections: &[CollectionStats],
    ) -> FilterStats {
        let pager = shared.filters().stats();
        FilterStats {
            budget_bytes: pager.budget_bytes,
            resident_bytes: pager.resident_bytes,
            pages: pager.pages,
            resident_pages: pager.resident_pages,
            loaded: pager.loaded,
            evicted: pager.evicted,
            failed: pager.failed,
            checks: collections.iter().map(|each| each.filter_checks).sum(),
            negatives: collections.iter().map(|each| each.filter_negatives).sum(),
            usefulness: pager.usefulness,
            resident_usefulness: pager.resident_usefulness,
        }
    }
}

/// Figures about a collection. Events are counted since it was opened.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CollectionStats {
    /// Its name.
    pub name: String,
    /// Live documents.
    pub documents: u64,
    /// Partitions.
    pub partitions: u32,
    /// Bytes on disk in all.
    pub disk_bytes: u64,
    /// Bytes of log segments on disk.
    pub log_bytes: u64,
    /// Record bytes in the log before compression.
    pub log_raw_bytes: u64,
    /// Log segments.
    pub log_segments: u64,
    /// Bytes of the records in the log that documents need, before compression.
    pub log_live_bytes: u64,
    /// Bytes of the records in the log that later ones have superseded: compaction reclaims them.
    pub log_dead_bytes: u64,
    /// Bytes of log files that compaction replaced and that views hold still.
    pub log_held_bytes: u64,
    /// Log segments that compaction has rewritten or merged.
    pub log_segments_compacted: u64,
    /// Bytes of log files that this gave back.
    pub log_reclaimed_bytes: u64,
    /// Bytes of table files on disk.
    pub table_bytes: u64,
    /// Table files.
    pub tables: u64,
    /// Sorted runs.
    pub runs: u64,
    /// Questions that filter pages in memory answered.
    pub filter_checks: u64,
    /// Answers "no" among them: searches of tables saved.
    pub filter_negatives: u64,
    /// Bytes in memtables.
    pub memtable_bytes: u64,
    /// Writes done (a batch to one partition is one).
    pub writes: u64,
    /// Records written.
    pub records: u64,
    /// Log syncs done.
    pub syncs: u64,
    /// Flushes of memtables that had something in them, and all that were called for.
    pub flushes: u64,
    /// Visible records that no flush has written to tables yet: opening applies them again.
    pub unflushed_records: u64,
    /// The search index; none if no field is indexed.
    pub index: Option<IndexStats>,
    /// Documents that were deleted by retention, or since they had expired.
    pub retention_deleted: u64,
    /// Cells of a wide collection that have expired and were removed.
    pub cells_expired: u64,
    /// Cells that have moved with their columns to other groups.
    pub column_cells_moved: u64,
    /// Bytes of these cells.
    pub column_bytes_moved: u64,
    /// The columns that move to other groups now.
    pub column_moves: Vec<ColumnMoveStats>,
    /// Compactions done.
    pub compactions: u64,
    /// Writes that were slowed or waited because memtables were full.
    pub write_stalls: u64,
    /// How long they waited in all, in microseconds.
    pub write_stall_micros: u64,
    /// The longest that one waited, in microseconds.
    pub write_stall_micros_max: u64,
    /// How many writes (batches to one partition) were visible how long after they were applied, by
    /// the bounds of [`DELAY_BOUNDS_MICROS`](quire_store::DELAY_BOUNDS_MICROS).
    pub visible_delays: Vec<u64>,
    /// The sum of these times, in microseconds.
    pub visible_delay_micros: u64,
    /// The last visible position of each partition.
    pub positions: Vec<u64>,
    /// Why background work last failed, partition by partition, where it has not succeeded since.
    pub background_errors: Vec<String>,
    /// The column groups, if it is wide.
    pub groups: Vec<GroupStats>,
}

impl CollectionStats {
    /// Adds how far columns have moved in a partition.
    pub(crate) fn add_column_moves(&mut self, moves: Vec<quire_wide::ColumnProgress>) {
        for moved in moves {
            let mut there = self.column_moves.iter_mut();
            if let Some(there) = there.find(|one| one.column == moved.column) {
                there.rows_passed += moved.passed;
                there.rows += moved.of;
                there.is_done &= moved.is_done;
                continue;
            }
            let [from, to] = moved.groups;
            self.column_moves.push(ColumnMoveStats {
                column: moved.column,
                from,
                to,
                rows_passed: moved.passed,
                rows: moved.of,
                pauses: 0,
                is_done: moved.is_done,
            });
        }
    }

    /// Adds the figures of a partition's search index.
    pub(crate) fn add_index(&mut self, figures: Option<IndexFigures>) {
        let Some(figures) = figures else { return };
        let index = self.index.get_or_insert_with(|| IndexStats {
            complete: true,
            ..IndexStats::default()
        });
        index.complete &= figures.complete;
        index.documents += figures.documents;
        index.lag_records += figures.lag;
        index.lag_micros = index.lag_micros.max(figures.lag_micros);
        index.records += figures.records;
        index.busy_micros += figures.busy_micros;
        for (name, bytes) in figures.trees {
            index.bytes += bytes;
            *index.trees.entry(name).or_default() += bytes;
        }
        index.errors.extend(figures.error);
        index.refused_fields.extend(figures.refused_fields);
        index.refused_fields.sort();
        index.refused_fields.dedup();
        for (field, documents) in figures.documents_with_many {
            *index.documents_with_many.entry(field).or_default() += documents;
        }
        index.rebuilt += figures.rebuilt.count;
        if figures.rebuilt.count > 0 {
            index.rebuilt_why = Some(figures.rebuilt.why);
        }
    }

    /// Adds a partition's figures.
    pub(crate) fn add(&mut self, store: &quire_store::StoreStats) {
        self.log_bytes += store.log.disk_bytes;
        self.log_raw_bytes += store.log.raw_bytes;
        self.log_segments += store.log.segments;
        self.log_live_bytes += store.log.record_bytes.saturating_sub(store.log_dead_bytes);
        self.log_dead_bytes += store.log_dead_bytes;
        self.log_held_bytes += store.log.held_bytes;
        self.log_segments_compacted += store.segments_compacted;
        self.log_reclaimed_bytes += store.log_bytes_reclaimed;
        self.syncs += store.log.syncs;
        for tree in store.trees.iter().map(|tree| &tree.figures) {
            self.table_bytes += tree.table_bytes;
            self.tables += tree.tables;
            self.runs += tree.runs;
            self.filter_checks += tree.filter_checks;
            self.filter_negatives += tree.filter_negatives;
            self.memtable_bytes += tree.memtable_bytes;
        }
        self.disk_bytes = self.log_bytes + self.table_bytes;
        self.writes += store.writes;
        self.records += store.records;
        self.flushes += store.flushes;
        self.unflushed_records += store.position.0.saturating_sub(store.applied.0);
        self.compactions += store.compactions;
        self.write_stalls += store.stalls;
        self.write_stall_micros += store.stall_micros;
        self.write_stall_micros_max = self.write_stall_micros_max.max(store.stall_micros_max);
        self.visible_delays.resize(store.visible_delays.len(), 0);
        for (sum, count) in self.visible_delays.iter_mut().zip(&store.visible_delays) {
            *sum += count;
        }
        self.visible_delay_micros += store.visible_delay_micros;
        self.positions.push(store.position.0);
        self.background_errors
            .extend(store.background_error.clone());
    }
}

/// Figures about the search index of a collection. Events are counted since it was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct IndexStats {
    /// Whether it is complete in every partition: queries use it only then.
    pub complete: bool,
    /// Documents that it was built of, about; all of them, once it is complete.
    pub documents: u64,
    /// Records that are not in it yet. Queries look at their documents one by one.
    pub lag_records: u64,
    /// How long ago the oldest of these records was written, in microseconds.
    pub lag_micros: u64,
    /// Records that were taken into it after they were written.
    pub records: u64,
    /// How long it took to build it and to take in records, in microseconds, of all partitions
    /// together.
    pub busy_micros: u64,
    /// Bytes of its table files and memtables.
    pub bytes: u64,
    /// The same by tree.
    pub trees: BTreeMap<String, u64>,
    /// Why the work on it last failed, partition by partition, where it has not succeeded since.
    pub errors: Vec<String>,
    /// How often it was built anew in a partition since the collection was opened, as its files
    /// were damaged.
    pub rebuilt: u64,
    /// What was damaged the last time.
    pub rebuilt_why: Option<String>,
    /// Fields that are not in it, by name, at most a hundred of each partition: in a partition
    /// 10,000 are. Queries about them read documents.
    pub refused_fields: Vec<String>,
    /// By field, at most a hundred of each partition: documents with more different values of it
    /// than are indexed, 8,192 of a field and 16,384 of a document. Queries about the field read
    /// them.
    pub documents_with_many: BTreeMap<String, u64>,
}

impl IndexStats {
    /// Records that are taken in a second of work; none if there was no work yet.
    #[must_use]
    pub fn records_per_second(&self) -> Option<f64> {
        let seconds = self.busy_micros as f64 / 1e6;
        (self.records > 0 && seconds > 0.0).then(|| self.records as f64 / seconds)
    }
}

/// What scrubbing has done and found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScrubStats {
    /// The time that a pass takes, in seconds.
    pub period_seconds: u64,
    /// Passes that have come to their end.
    pub passes: u64,
    /// When the last of them did: microseconds since 1970 UTC.
    pub last_pass_micros: Option<i64>,
    /// Bytes that it read.
    pub last_pass_bytes: u64,
    /// Bytes that the present pass has read.
    pub pass_bytes: u64,
    /// What is damaged: found by the present pass, or by the last one and not looked at again yet.
    pub damage: Vec<Damage>,
}
