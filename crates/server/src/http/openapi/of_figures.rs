//! Schemas of figures of the database and of one collection, in detail.

use serde_json::{Value, json};

use super::kinds::{
    Group, both, list, map, members, named, nullable, number, object, real, switch, text,
};

pub(super) fn group() -> Group {
    vec![
        (
            "DatabaseStats",
            object(
                of_database(),
                json!({
                    "path": "/srv/db", "memory_bytes": 268_435_456, "cache_hits": 247,
                    "volumes": [{
                        "name": "first", "path": "/srv/db", "medium": "ssd", "lost": false,
                        "free_bytes": 45_203_927_040_u64, "io": null,
                    }],
                    "collections": [{"name": "tracks", "documents": 3, "partitions": 2}],
                }),
            ),
        ),
        (
            "CollectionStats",
            object(
                of_collection(),
                json!({
                    "name": "tracks", "documents": 3, "partitions": 2, "disk_bytes": 4096,
                    "positions": [2, 1], "background_errors": [],
                }),
            ),
        ),
        (
            "Damage",
            object(
                json!({
                    "file": text(), "offset": number(), "what": text(), "lost": text(),
                    "positions": list(number()),
                }),
                json!({
                    "file": "/srv/db/1/0/log/3", "offset": 4096, "what": "a checksum is wrong",
                    "lost": "records 12 to 14", "positions": [12, 14],
                }),
            ),
        ),
    ]
}

fn of_database() -> Value {
    let (text, number, switch) = (text(), number(), switch());
    let filters = members(json!({
        "budget_bytes": number, "resident_bytes": number, "pages": number,
        "resident_pages": number, "loaded": number, "evicted": number, "failed": number,
        "checks": number, "negatives": number, "usefulness": real(),
        "resident_usefulness": real(),
    }));
    let scrub = members(json!({
        "period_seconds": number, "passes": number, "last_pass_micros": nullable(number.clone()),
        "last_pass_bytes": number, "pass_bytes": number, "damage": list(named("Damage")),
    }));
    // By class of I/O.
    let each = list(number.clone());
    let io = members(json!({
        "outstanding": number, "outstanding_bytes": number, "waiting": each, "waits": each,
        "wait_micros": each, "wait_micros_max": each, "promotions": each, "merges": number,
        "merge_rate_bytes": nullable(number.clone()),
    }));
    let following = members(json!({
        "leader": text, "state": text, "records_behind": number,
        "seconds_behind": nullable(real()), "records": number, "connects": number,
        "copies": number, "copied_bytes": number, "started_over": nullable(text.clone()),
        "error": nullable(text.clone()),
    }));
    json!({
        "path": text, "memory_bytes": number, "memory_used_bytes": number,
        "resident_bytes": number, "anonymous_bytes": number, "work_bytes": number,
        "work_peak_bytes": number, "work_bytes_max": number, "index_bytes": number,
        "memtable_bytes": number, "memtable_peak_bytes": number, "cache_bytes": number,
        "cache_hits": number, "cache_misses": number, "filters": filters,
        "scrub": nullable(scrub),
        "volumes": list(members(json!({
            "name": text, "path": text, "medium": text, "lost": switch,
            "free_bytes": nullable(number.clone()), "io": nullable(io),
        }))),
        "collections": list(named("CollectionStats")),
        // Of a follower alone.
        "following": following,
    })
}

fn of_collection() -> Value {
    both(both(of_log(), of_work()), of_kinds())
}

/// What a collection holds.
fn of_log() -> Value {
    let (text, number) = (text(), number());
    json!({
        "name": text, "documents": number, "partitions": number, "disk_bytes": number,
        "log_bytes": number, "log_raw_bytes": number, "log_segments": number,
        "log_live_bytes": number, "log_dead_bytes": number, "log_held_bytes": number,
        "log_segments_compacted": number, "log_reclaimed_bytes": number, "table_bytes": number,
        "tables": number, "runs": number, "filter_checks": number, "filter_negatives": number,
        "memtable_bytes": number,
    })
}

/// What it has done.
fn of_work() -> Value {
    let number = number();
    json!({
        "writes": number, "records": number, "syncs": number, "flushes": number,
        "unflushed_records": number, "compactions": number, "write_stalls": number,
        "write_stall_micros": number, "write_stall_micros_max": number,
        "visible_delays": list(number.clone()), "visible_delay_micros": number,
        "positions": list(number.clone()), "background_errors": list(text()),
    })
}

/// What only some collections have or do.
fn of_kinds() -> Value {
    let (text, number) = (text(), number());
    json!({
        "index": nullable(index()), "retention_deleted": number, "cells_expired": number,
        "column_cells_moved": number, "column_bytes_moved": number,
        "column_moves": list(members(json!({
            "column": text, "from": text, "to": text, "rows_passed": number, "rows": number,
            "pauses": number,
        }))),
        "groups": list(members(json!({
            "name": text, "tier": nullable(text.clone()), "tiers": nullable(tiers()),
            "volumes": map(number.clone()),
        }))),
    })
}

fn index() -> Value {
    let (text, number) = (text(), number());
    members(json!({
        "complete": switch(), "documents": number, "lag_records": number, "lag_micros": number,
        "records": number, "busy_micros": number, "bytes": number, "trees": map(number.clone()),
        "errors": list(text.clone()), "rebuilt": number, "rebuilt_why": nullable(text.clone()),
        "refused_fields": list(text), "documents_with_many": map(number.clone()),
    }))
}

/// The tiers of a column group.
fn tiers() -> Value {
    let (text, number) = (text(), number());
    members(json!({
        "hot": text, "cold": text, "after_micros": number, "rows_hot": number,
        "rows_cold": number, "cold_volumes": map(number.clone()), "moved_cold": number,
        "moved_hot": number, "bytes_moved": number, "too_large": number, "lag_micros": number,
        "pauses": number, "stopped": nullable(text.clone()),
    }))
}
