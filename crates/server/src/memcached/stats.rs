//! The answers to `version` and `stats`.

use quiredb::DatabaseStats;

use super::outcome::{line, push_number};
use super::port_state::PortState;

/// The version of memcached whose protocol this is, for clients that check it; then Quire's own.
pub(crate) const VERSION: &str = concat!("1.6.18-quire-", env!("CARGO_PKG_VERSION"));

/// Appends the answer to `stats`.
pub(crate) fn write(state: &PortState, out: &mut Vec<u8>) {
    let database = state.engine.database();
    let env = database.env();
    let stats: DatabaseStats = database.stats().unwrap_or_default();
    let uptime = env.monotonic().saturating_sub(state.begun);
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
        ("max_connections", state.connections_max as u64),
        ("limit_maxbytes", stats.memory_bytes),
        ("bytes", sum(&|each| each.disk_bytes)),
        ("curr_items", sum(&|each| each.documents)),
        ("total_items", sum(&|each| each.records)),
        ("evictions", 0),
    ];
    line(&format!("STAT version {VERSION}"), out);
    for (name, value) in numbers.into_iter().chain(state.counters.stats()) {
        out.extend_from_slice(b"STAT ");
        out.extend_from_slice(name.as_bytes());
        out.push(b' ');
        push_number(value, out);
        out.extend_from_slice(b"\r\n");
    }
    line("END", out);
}
