//! The metrics of the database and of each collection.

use quiredb::{CollectionStats, DatabaseStats, IndexStats};

use super::exposition::{Exposition, Metric, counter, gauge, histogram};

/// A metric and how its value is taken from statistics.
type Column<S, V> = (Metric, fn(&S) -> V);

const MEMORY: [Column<DatabaseStats, u64>; 10] = [
    (
        gauge(
            "quire_memory_limit_bytes",
            "Memory that memtables and caches may hold",
        ),
        |stats| stats.memory_bytes,
    ),
    (
        gauge(
            "quire_memory_used_bytes",
            "Memory that memtables and caches hold now",
        ),
        |stats| stats.memory_used_bytes,
    ),
    (
        gauge(
            "process_resident_memory_bytes",
            "Memory of the whole process, its code included",
        ),
        |stats| stats.resident_bytes,
    ),
    (
        gauge(
            "process_anonymous_memory_bytes",
            "Memory of the process that is no pages of files",
        ),
        |stats| stats.anonymous_bytes,
    ),
    (
        gauge(
            "quire_work_bytes",
            "Memory reserved for requests, answers and background work",
        ),
        |stats| stats.work_bytes,
    ),
    (
        gauge("quire_work_bytes_max", "What of it can be reserved"),
        |stats| stats.work_bytes_max,
    ),
    (
        gauge(
            "quire_index_reads_bytes",
            "Memory that queries share of what they read of indexes",
        ),
        |stats| stats.index_bytes,
    ),
    (
        gauge("quire_memtable_bytes", "Bytes in memtables"),
        |stats| stats.memtable_bytes,
    ),
    (
        gauge(
            "quire_memtable_peak_bytes",
            "The most that memtables ever held",
        ),
        |stats| stats.memtable_peak_bytes,
    ),
    (
        gauge("quire_cache_bytes", "Bytes in the block cache"),
        |stats| stats.cache_bytes,
    ),
];

const FILTERS: [Column<DatabaseStats, u64>; 9] = [
    (
        gauge(
            "quire_filter_budget_bytes",
            "Bytes that filter pages in memory may take",
        ),
        |stats| stats.filters.budget_bytes,
    ),
    (
        gauge("quire_filter_bytes", "Bytes of filter pages in memory"),
        |stats| stats.filters.resident_bytes,
    ),
    (
        gauge("quire_filter_pages", "Filter pages of all open tables"),
        |stats| stats.filters.pages,
    ),
    (
        gauge("quire_filter_resident_pages", "Filter pages in memory"),
        |stats| stats.filters.resident_pages,
    ),
    (
        counter(
            "quire_filter_checks_total",
            "Lookups that filter pages in memory answered",
        ),
        |stats| stats.filters.checks,
    ),
    (
        counter(
            "quire_filter_negatives_total",
            "Lookups that filter pages answered with no: searches of tables saved",
        ),
        |stats| stats.filters.negatives,
    ),
    (
        counter("quire_filter_loads_total", "Filter pages loaded"),
        |stats| stats.filters.loaded,
    ),
    (
        counter("quire_filter_evictions_total", "Filter pages evicted"),
        |stats| stats.filters.evicted,
    ),
    (
        counter(
            "quire_filter_failures_total",
            "Filter pages that could not be read",
        ),
        |stats| stats.filters.failed,
    ),
];

const CACHE: [Column<DatabaseStats, u64>; 2] = [
    (
        counter("quire_cache_hits_total", "Blocks found in the cache"),
        |stats| stats.cache_hits,
    ),
    (
        counter("quire_cache_misses_total", "Blocks read from disk"),
        |stats| stats.cache_misses,
    ),
];

const VISIBLE: Metric = histogram(
    "quire_visible_seconds",
    "Time from when a write was appended and applied until readers see it",
);

const COLLECTIONS: [Column<CollectionStats, f64>; 19] = [
    (gauge("quire_documents", "Documents"), |stats| {
        stats.documents as f64
    }),
    (gauge("quire_disk_bytes", "Bytes of all files"), |stats| {
        stats.disk_bytes as f64
    }),
    (gauge("quire_log_bytes", "Bytes of log segments"), |stats| {
        stats.log_bytes as f64
    }),
    (
        gauge(
            "quire_log_live_bytes",
            "Bytes of log records that documents need, uncompressed",
        ),
        |stats| stats.log_live_bytes as f64,
    ),
    (
        gauge(
            "quire_log_dead_bytes",
            "Bytes of log records that later ones supersede, uncompressed",
        ),
        |stats| stats.log_dead_bytes as f64,
    ),
    (
        gauge(
            "quire_log_held_bytes",
            "Bytes of compacted log files that views still hold",
        ),
        |stats| stats.log_held_bytes as f64,
    ),
    (
        counter(
            "quire_log_segments_compacted_total",
            "Log segments rewritten or merged",
        ),
        |stats| stats.log_segments_compacted as f64,
    ),
    (
        counter(
            "quire_log_reclaimed_bytes_total",
            "Bytes of log files that compaction freed",
        ),
        |stats| stats.log_reclaimed_bytes as f64,
    ),
    (
        counter(
            "quire_retention_deleted_total",
            "Documents that retention has deleted",
        ),
        |stats| stats.retention_deleted as f64,
    ),
    (
        counter(
            "quire_cells_expired_total",
            "Cells of wide collections that have expired and were removed",
        ),
        |stats| stats.cells_expired as f64,
    ),
    (
        counter(
            "quire_column_bytes_moved_total",
            "Bytes of cells that have moved with their columns to other groups",
        ),
        |stats| stats.column_bytes_moved as f64,
    ),
    (
        gauge("quire_table_bytes", "Bytes of table files"),
        |stats| stats.table_bytes as f64,
    ),
    (counter("quire_records_total", "Records written"), |stats| {
        stats.records as f64
    }),
    (
        counter("quire_write_stalls_total", "Writes that waited for memory"),
        |stats| stats.write_stalls as f64,
    ),
    (
        counter(
            "quire_write_stall_seconds_total",
            "Time that writes waited for memory",
        ),
        |stats| stats.write_stall_micros as f64 / 1e6,
    ),
    (
        counter("quire_log_syncs_total", "Syncs of the log"),
        |stats| stats.syncs as f64,
    ),
    (
        counter(
            "quire_flushes_total",
            "Flushes of memtables to files, those that found nothing to write among them",
        ),
        |stats| stats.flushes as f64,
    ),
    (
        counter("quire_compactions_total", "Compactions done"),
        |stats| stats.compactions as f64,
    ),
    (
        gauge(
            "quire_background_errors",
            "Partitions whose background work fails",
        ),
        |stats| stats.background_errors.len() as f64,
    ),
];

/// Of collections with a search index.
const INDEXES: [Column<IndexStats, f64>; 7] = [
    (
        gauge("quire_index_complete", "1 if queries use the search index"),
        |index| f64::from(u8::from(index.complete)),
    ),
    (
        gauge(
            "quire_index_documents",
            "Documents that the search index was built of",
        ),
        |index| index.documents as f64,
    ),
    (
        gauge(
            "quire_index_lag_records",
            "Records that are not in the search index yet",
        ),
        |index| index.lag_records as f64,
    ),
    (
        gauge(
            "quire_index_lag_seconds",
            "How long ago the oldest of these records was written",
        ),
        |index| index.lag_micros as f64 / 1e6,
    ),
    (
        counter(
            "quire_index_records_total",
            "Records that the search index has followed",
        ),
        |index| index.records as f64,
    ),
    (
        counter(
            "quire_index_busy_seconds_total",
            "Time that building and following took",
        ),
        |index| index.busy_micros as f64 / 1e6,
    ),
    (
        gauge(
            "quire_index_errors",
            "Partitions whose search index can't be worked on",
        ),
        |index| index.errors.len() as f64,
    ),
];

const INDEX_BYTES: Metric = gauge("quire_index_bytes", "Bytes of a tree of the search index");

/// Appends the metrics of the database and of each collection.
pub(crate) fn render(stats: &DatabaseStats, text: &mut Exposition) {
    for (metric, value) in MEMORY.into_iter().chain(FILTERS) {
        text.one(metric, value(stats));
    }
    render_scrub(stats, text);
    super::volumes::render(stats, text);
    for (metric, value) in CACHE {
        text.one(metric, value(stats));
    }
    text.head(VISIBLE);
    for collection in &stats.collections {
        let (counts, micros) = (&collection.visible_delays, collection.visible_delay_micros);
        let labels = [("collection", collection.name.as_str())];
        text.delays(VISIBLE.name, &labels, counts, micros);
    }
    for (metric, value) in COLLECTIONS {
        text.head(metric);
        for collection in &stats.collections {
            let labels = [("collection", collection.name.as_str())];
            text.sample(metric.name, &labels, value(collection));
        }
    }
    super::tiers::render(stats, text);
    render_indexes(stats, text);
}

fn render_indexes(stats: &DatabaseStats, text: &mut Exposition) {
    let indexes = || {
        let collections = stats.collections.iter();
        collections.filter_map(|one| Some((one.name.as_str(), one.index.as_ref()?)))
    };
    for (metric, value) in INDEXES {
        text.head(metric);
        for (name, index) in indexes() {
            text.sample(metric.name, &[("collection", name)], value(index));
        }
    }
    text.head(INDEX_BYTES);
    for (name, index) in indexes() {
        for (tree, bytes) in &index.trees {
            let labels = [("collection", name), ("tree", tree.as_str())];
            text.sample(INDEX_BYTES.name, &labels, bytes);
        }
    }
}

fn render_scrub(stats: &DatabaseStats, text: &mut Exposition) {
    let Some(scrub) = &stats.scrub else {
        return;
    };
    let damages = gauge(
        "quire_scrub_damages",
        "Places where a scrub has found damage",
    );
    text.one(damages, scrub.damage.len());
    let bytes = gauge(
        "quire_scrub_pass_bytes",
        "Bytes that the present pass of the scrub has read",
    );
    text.one(bytes, scrub.pass_bytes);
    let last_pass = gauge(
        "quire_scrub_last_pass_timestamp_seconds",
        "When the last pass of the scrub ended; 0 if none did",
    );
    let seconds = scrub
        .last_pass_micros
        .and_then(|micros| u64::try_from(micros / 1_000_000).ok());
    text.one(last_pass, seconds.unwrap_or(0));
}
