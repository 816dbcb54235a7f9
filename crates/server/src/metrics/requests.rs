//! What the server counts, in the text format of Prometheus.
//!
//! Series are bounded: a route is the pattern that matched, a method one of a few, a status one
//! that the server sends.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use parking_lot::Mutex;
use quiredb::{CollectionStats, DatabaseStats};

use crate::memcached::Counters;
use crate::net::connections::Connections;

/// Upper bounds of the latency buckets, in seconds.
const BUCKETS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0,
];

/// What the server counts.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) connections: Arc<Connections>,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    bulk_items: AtomicU64,
    bulk_items_failed: AtomicU64,
    routes: Mutex<BTreeMap<&'static str, RouteMetrics>>,
}

#[derive(Debug, Default)]
struct RouteMetrics {
    /// By method and status.
    requests: BTreeMap<(&'static str, u16), u64>,
    /// How many took as long as the bucket's bound and longer than the one before.
    buckets: [u64; BUCKETS.len()],
    requests_all: u64,
    seconds_all: f64,
}

impl Metrics {
    pub(crate) fn received(&self, bytes: usize) {
        self.received_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn bulk_items(&self, done: u64, failed: u64) {
        self.bulk_items.fetch_add(done, Ordering::Relaxed);
        self.bulk_items_failed.fetch_add(failed, Ordering::Relaxed);
    }

    /// Counts a request that was answered.
    pub(crate) fn answered(
        &self,
        route: &'static str,
        method: &Method,
        status: StatusCode,
        took: Duration,
    ) {
        let seconds = took.as_secs_f64();
        let mut routes = self.routes.lock();
        let route = routes.entry(route).or_default();
        *route
            .requests
            .entry((known_method(method), status.as_u16()))
            .or_default() += 1;
        if let Some(bucket) = BUCKETS.iter().position(|bound| seconds <= *bound) {
            route.buckets[bucket] += 1;
        }
        route.requests_all += 1;
        route.seconds_all += seconds;
    }

    /// Everything as text; `buffer_bytes` are those that requests hold now, `memcached` the
    /// counters of that port if it is served.
    pub(crate) fn render(
        &self,
        stats: &DatabaseStats,
        buffer_bytes: u64,
        memcached: Option<&Counters>,
    ) -> Exposition {
        let mut text = Exposition::default();
        self.render_http(&mut text, buffer_bytes);
        if let Some(memcached) = memcached {
            memcached.render(&mut text);
        }
        render_database(&mut text, stats);
        text
    }

    fn render_http(&self, text: &mut Exposition, buffer_bytes: u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        text.one(
            "quire_http_connections",
            "gauge",
            "Connections open now",
            self.connections.open(),
        );
        let opened = self.connections.opened();
        text.one(
            "quire_http_connections_total",
            "counter",
            "Connections accepted",
            opened,
        );
        let received = load(&self.received_bytes);
        text.one(
            "quire_http_received_bytes_total",
            "counter",
            "Bytes read from clients",
            received,
        );
        text.one(
            "quire_http_sent_bytes_total",
            "counter",
            "Bytes written to clients",
            load(&self.sent_bytes),
        );
        text.one(
            "quire_http_buffer_bytes",
            "gauge",
            "Bytes of requests and answers held in memory",
            buffer_bytes,
        );
        text.one(
            "quire_bulk_items_total",
            "counter",
            "Items of bulk requests done or failed",
            load(&self.bulk_items),
        );
        let failed = load(&self.bulk_items_failed);
        text.one(
            "quire_bulk_items_failed_total",
            "counter",
            "Items of bulk requests that failed",
            failed,
        );

        let routes = self.routes.lock();
        text.head("quire_http_requests_total", "counter", "Requests answered");
        for (route, metrics) in routes.iter() {
            for ((method, status), count) in &metrics.requests {
                let labels = [
                    ("route", *route),
                    ("method", *method),
                    ("status", &status.to_string()),
                ];
                text.sample("quire_http_requests_total", &labels, count);
            }
        }
        text.head(
            "quire_http_request_seconds",
            "histogram",
            "Time from the head of a request to that of its answer",
        );
        for (route, metrics) in routes.iter() {
            let histogram = Histogram {
                bounds: &BUCKETS,
                counts: &metrics.buckets,
                all: metrics.requests_all,
                seconds: metrics.seconds_all,
            };
            text.histogram(
                "quire_http_request_seconds",
                &[("route", route)],
                &histogram,
            );
        }
    }
}

fn render_database(text: &mut Exposition, stats: &DatabaseStats) {
    let mut gauge = |name, help, value: u64| text.one(name, "gauge", help, value);
    gauge(
        "quire_memory_limit_bytes",
        "Memory that memtables and caches may hold",
        stats.memory_bytes,
    );
    gauge(
        "quire_memory_used_bytes",
        "Memory that memtables and caches hold now",
        stats.memory_used_bytes,
    );
    gauge(
        "quire_memtable_bytes",
        "Bytes in memtables",
        stats.memtable_bytes,
    );
    gauge(
        "quire_memtable_peak_bytes",
        "The most that memtables ever held",
        stats.memtable_peak_bytes,
    );
    gauge(
        "quire_cache_bytes",
        "Bytes in the block cache",
        stats.cache_bytes,
    );
    for (name, help, value) in [
        (
            "budget_bytes",
            "Bytes that filter pages in memory may take",
            stats.filters.budget_bytes,
        ),
        (
            "bytes",
            "Bytes of filter pages in memory",
            stats.filters.resident_bytes,
        ),
        (
            "pages",
            "Filter pages of all open tables",
            stats.filters.pages,
        ),
        (
            "resident_pages",
            "Filter pages in memory",
            stats.filters.resident_pages,
        ),
    ] {
        text.one(&format!("quire_filter_{name}"), "gauge", help, value);
    }
    for (name, help, value) in [
        (
            "checks",
            "Questions that filter pages in memory answered",
            stats.filters.checks,
        ),
        (
            "negatives",
            "Answers no of filter pages: searches of tables saved",
            stats.filters.negatives,
        ),
        ("loads", "Filter pages loaded", stats.filters.loaded),
        ("evictions", "Filter pages let go of", stats.filters.evicted),
        (
            "failures",
            "Filter pages that could not be read",
            stats.filters.failed,
        ),
    ] {
        text.one(
            &format!("quire_filter_{name}_total"),
            "counter",
            help,
            value,
        );
    }
    if let Some(scrub) = &stats.scrub {
        let mut gauge = |name, help, value: u64| text.one(name, "gauge", help, value);
        gauge(
            "quire_scrub_damages",
            "Places where a scrub has found damage",
            scrub.damage.len() as u64,
        );
        gauge(
            "quire_scrub_pass_bytes",
            "Bytes that the present pass of the scrub has read",
            scrub.pass_bytes,
        );
        gauge(
            "quire_scrub_last_pass_timestamp_seconds",
            "When the last pass of the scrub ended; 0 if none did",
            scrub
                .last_pass_micros
                .and_then(|micros| u64::try_from(micros / 1_000_000).ok())
                .unwrap_or(0),
        );
    }
    text.one(
        "quire_cache_hits_total",
        "counter",
        "Blocks found in the cache",
        stats.cache_hits,
    );
    text.one(
        "quire_cache_misses_total",
        "counter",
        "Blocks read from disk",
        stats.cache_misses,
    );

    let name = "quire_visible_seconds";
    let help = "Time from when a write was appended and applied until readers see it";
    text.head(name, "histogram", help);
    for collection in &stats.collections {
        let (counts, micros) = (&collection.visible_delays, collection.visible_delay_micros);
        text.delays(name, &[("collection", &collection.name)], counts, micros);
    }

    let mut each = |name: &str, kind: &str, help: &str, value: &dyn Fn(&CollectionStats) -> f64| {
        text.head(name, kind, help);
        for collection in &stats.collections {
            text.sample(name, &[("collection", &collection.name)], value(collection));
        }
    };
    each("quire_documents", "gauge", "Documents", &|stats| {
        stats.documents as f64
    });
    each(
        "quire_disk_bytes",
        "gauge",
        "Bytes of all files",
        &|stats| stats.disk_bytes as f64,
    );
    each(
        "quire_log_bytes",
        "gauge",
        "Bytes of log segments",
        &|stats| stats.log_bytes as f64,
    );
    each(
        "quire_log_live_bytes",
        "gauge",
        "Bytes of log records that documents need, uncompressed",
        &|stats| stats.log_live_bytes as f64,
    );
    each(
        "quire_log_dead_bytes",
        "gauge",
        "Bytes of log records that later ones supersede, uncompressed",
        &|stats| stats.log_dead_bytes as f64,
    );
    each(
        "quire_log_held_bytes",
        "gauge",
        "Bytes of compacted log files that views hold still",
        &|stats| stats.log_held_bytes as f64,
    );
    each(
        "quire_log_segments_compacted_total",
        "counter",
        "Log segments rewritten or merged",
        &|stats| stats.log_segments_compacted as f64,
    );
    each(
        "quire_log_reclaimed_bytes_total",
        "counter",
        "Bytes of log files that compaction gave back",
        &|stats| stats.log_reclaimed_bytes as f64,
    );
    each(
        "quire_retention_deleted_total",
        "counter",
        "Documents that retention has deleted",
        &|stats| stats.retention_deleted as f64,
    );
    each(
        "quire_table_bytes",
        "gauge",
        "Bytes of table files",
        &|stats| stats.table_bytes as f64,
    );
    each(
        "quire_records_total",
        "counter",
        "Records written",
        &|stats| stats.records as f64,
    );
    each(
        "quire_write_stalls_total",
        "counter",
        "Writes that waited for memory",
        &|stats| stats.write_stalls as f64,
    );
    each(
        "quire_write_stall_seconds_total",
        "counter",
        "Time that writes waited for memory",
        &|stats| stats.write_stall_micros as f64 / 1e6,
    );
    each(
        "quire_log_syncs_total",
        "counter",
        "Syncs of the log",
        &|stats| stats.syncs as f64,
    );
    each(
        "quire_flushes_total",
        "counter",
        "Memtables written out",
        &|stats| stats.flushes as f64,
    );
    each(
        "quire_compactions_total",
        "counter",
        "Compactions done",
        &|stats| stats.compactions as f64,
    );
    each(
        "quire_background_errors",
        "gauge",
        "Partitions whose background work fails",
        &|stats| stats.background_errors.len() as f64,
    );
}

/// What a histogram shows.
pub(crate) struct Histogram<'a> {
    /// Upper bounds, in seconds.
    pub(crate) bounds: &'a [f64],
    /// How many took as long as the bound and longer than the one before.
    pub(crate) counts: &'a [u64],
    pub(crate) all: u64,
    /// The sum of all.
    pub(crate) seconds: f64,
}

/// The bounds of [`quiredb::Delays`], in seconds.
fn delay_bounds() -> Vec<f64> {
    let bounds = quiredb::DELAY_BOUNDS_MICROS.iter();
    bounds.map(|micros| *micros as f64 / 1e6).collect()
}

/// The text as it grows.
#[derive(Default)]
pub(crate) struct Exposition(String);

impl Exposition {
    pub(crate) fn text(self) -> String {
        self.0
    }

    pub(crate) fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String can't fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// The samples of a histogram, after its head.
    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], histogram: &Histogram<'_>) {
        let mut count = 0;
        for (bound, bucket) in histogram.bounds.iter().zip(histogram.counts) {
            count += bucket;
            let bound = bound.to_string();
            let labels = [labels, &[("le", &bound)]].concat();
            self.sample(&format!("{name}_bucket"), &labels, count);
        }
        let infinite = [labels, &[("le", "+Inf")]].concat();
        self.sample(&format!("{name}_bucket"), &infinite, histogram.all);
        self.sample(&format!("{name}_sum"), labels, histogram.seconds);
        self.sample(&format!("{name}_count"), labels, histogram.all);
    }

    /// The samples of a histogram of delays, of the engine's buckets.
    pub(crate) fn delays(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        counts: &[u64],
        micros: u64,
    ) {
        let histogram = Histogram {
            bounds: &delay_bounds(),
            counts,
            all: counts.iter().sum(),
            seconds: micros as f64 / 1e6,
        };
        self.histogram(name, labels, &histogram);
    }

    pub(crate) fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.head(name, kind, help);
        self.sample(name, &[], value);
    }

    /// Names of collections and patterns of routes hold nothing that a label would have to escape.
    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{label}=\"{text}\"");
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }
}

/// A client can make up methods without end.
fn known_method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::PUT => "PUT",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_route_method_and_status() {
        let metrics = Metrics::default();
        let answered = |method, status, millis| {
            metrics.answered(
                "/{collection}",
                &method,
                status,
                Duration::from_millis(millis),
            );
        };
        answered(Method::GET, StatusCode::OK, 2);
        answered(Method::GET, StatusCode::OK, 100_000);
        answered(
            Method::from_bytes(b"BREW").unwrap(),
            StatusCode::METHOD_NOT_ALLOWED,
            0,
        );
        let text = metrics.render(&DatabaseStats::default(), 7, None).text();
        for line in [
            r#"quire_http_requests_total{route="/{collection}",method="GET",status="200"} 2"#,
            r#"quire_http_requests_total{route="/{collection}",method="other",status="405"} 1"#,
            r#"quire_http_request_seconds_bucket{route="/{collection}",le="0.001"} 1"#,
            r#"quire_http_request_seconds_bucket{route="/{collection}",le="0.0025"} 2"#,
            r#"quire_http_request_seconds_bucket{route="/{collection}",le="60"} 2"#,
            r#"quire_http_request_seconds_bucket{route="/{collection}",le="+Inf"} 3"#,
            r#"quire_http_request_seconds_sum{route="/{collection}"} 100.002"#,
            "quire_http_buffer_bytes 7",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
