//! What `version` and `stats` say.

use quiredb::DatabaseStats;

use super::outcome::{line, push_number};
use crate::state::Server;

/// The version of memcached whose protocol this is, for clients that ask; then our own.
pub(crate) const VERSION: &str = concat!("1.6.18-quire-", env!("CARGO_PKG_VERSION"));

/// Appends the answer to `stats`.
pub(crate) fn write(server: &Server, out: &mut Vec<u8>) {
    let database = server.database();
    let env = database.env();
    let stats: DatabaseStats = database.stats().unwrap_or_default();
    let uptime = env.monotonic().saturating_sub(server.begun);
    let sum = |each: &dyn Fn(&quiredb::CollectionStats) -> u64| {
        stats.collections.iter().map(each).sum::<u64>()
    };
    let numbers = [
        ("pid", u64::from(std::process::id())),
        ("uptime", uptime.as_secs()),
        (
            "time",
            u64::try_from(env.now_micros() / 1_000_000).unwrap_or(0),
        ),
        ("pointer_size", u64::from(usize::BITS)),
        ("max_connections", server.options.connections_max as u64),
        ("limit_maxbytes", stats.memory_bytes),
        ("bytes", sum(&|each| each.disk_bytes)),
        ("curr_items", sum(&|each| each.documents)),
        ("total_items", sum(&|each| each.records)),
        ("evictions", 0),
    ];
    line(&format!("STAT version {VERSION}"), out);
    for (name, value) in numbers.into_iter().chain(server.memcached.stats()) {
        out.extend_from_slice(b"STAT ");
        out.extend_from_slice(name.as_bytes());
        out.push(b' ');
        push_number(value, out);
        out.extend_from_slice(b"\r\n");
    }
    line("END", out);
}
