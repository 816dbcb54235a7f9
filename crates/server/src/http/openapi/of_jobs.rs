//! Schemas of long work on the database: backups, splits and verifications.

use serde_json::{Value, json};

use super::kinds::{Group, both, list, members, named, nullable, number, object, switch, text};

pub(super) fn group() -> Group {
    let (text, number) = (text(), number());
    let backed_up = members(json!({
        "number": number, "time_micros": number, "database": text, "files": number,
        "bytes": number,
        "positions": list(members(json!({
            "collection": text, "partition": number, "position": number,
        }))),
        "copied_bytes": number, "removed_snapshots": list(number.clone()),
        "removed_bytes": number, "damaged_snapshots": list(text.clone()),
    }));
    let verified = members(json!({
        "collections": number, "documents": number, "records": number, "files": number,
        "bytes": number, "torn_bytes": number, "damage": list(named("Damage")),
    }));
    vec![
        (
            "Backups",
            object(
                work(&json!({"backup": text}), &backed_up),
                json!({
                    "running": null,
                    "last": {
                        "backup": "nightly", "took_ms": 203, "succeeded": true,
                        "report": {"number": 1, "files": 12, "bytes": 3173},
                    },
                }),
            ),
        ),
        (
            "BackupBegun",
            object(
                json!({"acknowledged": switch(), "backup": text}),
                json!({"acknowledged": true, "backup": "nightly"}),
            ),
        ),
        // Or the task that goes on, where the request does not wait.
        (
            "PartitionsChanged",
            object(
                json!({
                    "acknowledged": switch(), "index": text, "partitions_before": number,
                    "partitions": number, "took": number, "task": text,
                }),
                json!({
                    "acknowledged": true, "index": "tracks", "partitions_before": 2,
                    "partitions": 4, "took": 1830,
                }),
            ),
        ),
        (
            "Verifications",
            object(
                work(&json!({}), &verified),
                json!({
                    "running": {"took_ms": 3, "done_bytes": 415, "total_bytes": 4096},
                    "last": null,
                }),
            ),
        ),
    ]
}

/// Work that runs, if any does, and what the last one has done.
fn work(about: &Value, report: &Value) -> Value {
    let number = number();
    let with = |more| nullable(members(both(about.clone(), more)));
    json!({
        "running": with(json!({
            "took_ms": number, "done_bytes": number, "total_bytes": number,
        })),
        "last": with(json!({
            "took_ms": number, "succeeded": switch(), "report": report,
            "error": named("ErrorCause"),
        })),
    })
}
