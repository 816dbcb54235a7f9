//! What the memcached port counts, for `stats` and `/metrics`.
//!
//! A connection counts a batch of requests in a [`Tally`] of its own and adds it to the shared
//! counters once, so that connections do not contend for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::metrics::exposition::{Exposition, counter, gauge};
use crate::net::connections::Connections;

/// The counters of requests: their name in `stats`, their command and result in `/metrics`.
const REQUESTS: [(&str, &str, &str); Count::Requests as usize] = [
    ("get_hits", "get", "hit"),
    ("get_misses", "get", "miss"),
    ("cmd_set", "set", "any"),
    ("touch_hits", "touch", "hit"),
    ("touch_misses", "touch", "miss"),
    ("delete_hits", "delete", "hit"),
    ("delete_misses", "delete", "miss"),
    ("incr_hits", "incr", "hit"),
    ("incr_misses", "incr", "miss"),
    ("decr_hits", "decr", "hit"),
    ("decr_misses", "decr", "miss"),
    ("cas_hits", "cas", "hit"),
    ("cas_misses", "cas", "miss"),
    ("cas_badval", "cas", "badval"),
    ("refused", "any", "refused"),
];

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    GetHits,
    GetMisses,
    Sets,
    TouchHits,
    TouchMisses,
    DeleteHits,
    DeleteMisses,
    IncrHits,
    IncrMisses,
    DecrHits,
    DecrMisses,
    CasHits,
    CasMisses,
    CasBadValue,
    /// Answered with an error.
    Refused,
    /// The number of counters above.
    Requests,
    ReceivedBytes,
    SentBytes,
    /// The number of counters.
    All,
}

/// Counts of one connection, not yet added to the shared counters.
#[derive(Debug, Default)]
pub(crate) struct Tally([u64; Count::All as usize]);

impl Tally {
    pub(crate) fn add(&mut self, count: Count, more: u64) {
        if let Some(counter) = self.0.get_mut(count as usize) {
            *counter += more;
        }
    }

    /// Adds it to the shared counters, and starts again from zero.
    pub(crate) fn flush(&mut self, counters: &Counters) {
        for (more, counter) in self.0.iter_mut().zip(&counters.counts) {
            if *more > 0 {
                counter.fetch_add(std::mem::take(more), Ordering::Relaxed);
            }
        }
    }
}

/// Counts of the port.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    counts: [AtomicU64; Count::All as usize],
    pub(crate) connections: Arc<Connections>,
}

impl Counters {
    fn get(&self, count: Count) -> u64 {
        let counter = self.counts.get(count as usize);
        counter.map_or(0, |counter| counter.load(Ordering::Relaxed))
    }

    /// Sets all to zero, except the counts of connections.
    pub(crate) fn reset(&self) {
        for counter in &self.counts {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// The counters by memcached's names, for `stats`.
    pub(crate) fn stats(&self) -> Vec<(&'static str, u64)> {
        let mut stats = vec![
            ("curr_connections", self.connections.open()),
            ("total_connections", self.connections.opened()),
            (
                "cmd_get",
                self.get(Count::GetHits) + self.get(Count::GetMisses),
            ),
            (
                "cmd_touch",
                self.get(Count::TouchHits) + self.get(Count::TouchMisses),
            ),
            ("bytes_read", self.get(Count::ReceivedBytes)),
            ("bytes_written", self.get(Count::SentBytes)),
        ];
        let counts = REQUESTS.iter().zip(&self.counts);
        stats.extend(counts.map(|((name, ..), count)| (*name, count.load(Ordering::Relaxed))));
        stats
    }

    /// Appends them as metrics.
    pub(crate) fn render(&self, text: &mut Exposition) {
        let open = gauge(
            "quire_memcached_connections",
            "Connections open now to the memcached port",
        );
        text.one(open, self.connections.open());
        let opened = counter(
            "quire_memcached_connections_total",
            "Connections accepted on the memcached port",
        );
        text.one(opened, self.connections.opened());
        let received = counter(
            "quire_memcached_received_bytes_total",
            "Bytes read from clients of the memcached port",
        );
        text.one(received, self.get(Count::ReceivedBytes));
        let sent = counter(
            "quire_memcached_sent_bytes_total",
            "Bytes written to clients of the memcached port",
        );
        text.one(sent, self.get(Count::SentBytes));
        let requests = counter(
            "quire_memcached_requests_total",
            "Requests to the memcached port; a multi-get counts by key",
        );
        text.head(requests);
        for ((_, command, result), count) in REQUESTS.iter().zip(&self.counts) {
            let labels = [("command", *command), ("result", *result)];
            text.sample(requests.name, &labels, count.load(Ordering::Relaxed));
        }
    }
}
