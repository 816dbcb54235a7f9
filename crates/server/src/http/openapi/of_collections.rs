//! Schemas of collections: made, changed, listed by name, and counted.

use serde_json::{Value, json};

use super::kinds::{
    Group, any, list, map, members, named, number, object, switch, text, with_example,
};

pub(super) fn group() -> Group {
    [settings(), names(), figures()].concat()
}

fn settings() -> Group {
    let (text, switch) = (text(), switch());
    let mapping = json!({"properties": {"seconds": {"type": "long"}}});
    vec![
        (
            "Acknowledged",
            object(
                json!({"acknowledged": switch}),
                json!({"acknowledged": true}),
            ),
        ),
        (
            "Collection",
            object(
                json!({
                    "settings": any(), "mappings": any(), "aliases": any(), "quire": any(),
                }),
                json!({"mappings": mapping}),
            ),
        ),
        (
            "Collections",
            with_example(
                map(named("Collection")),
                json!({"tracks": {"aliases": {}, "mappings": mapping}}),
            ),
        ),
        (
            "Settings",
            with_example(any(), json!({"index": {"blocks": {"write": true}}})),
        ),
        (
            "Mapping",
            object(json!({"properties": any(), "dynamic": {}}), mapping.clone()),
        ),
        (
            "Rollover",
            object(
                json!({
                    "conditions": any(), "settings": any(), "mappings": any(), "aliases": any(),
                }),
                json!({"conditions": {"max_age": "7d", "max_docs": 1_000_000}}),
            ),
        ),
        (
            "RolledOver",
            object(
                json!({
                    "acknowledged": switch, "old_index": text, "new_index": text,
                    "rolled_over": switch, "dry_run": switch, "conditions": map(switch),
                }),
                json!({
                    "acknowledged": true, "old_index": "tracks-1", "new_index": "tracks-000002",
                    "rolled_over": true, "dry_run": false,
                    "conditions": {"[max_docs: 1000000]": true},
                }),
            ),
        ),
        (
            "Upgraded",
            object(
                json!({
                    "_shards": named("ShardCounts"),
                    "upgraded_indices": map(members(json!({"upgrade_version": text}))),
                }),
                json!({
                    "_shards": {"total": 2, "successful": 2, "failed": 0},
                    "upgraded_indices": {"tracks": {"upgrade_version": "0.1.0"}},
                }),
            ),
        ),
    ]
}

/// Aliases, and what names stand for.
fn names() -> Group {
    let (text, switch) = (text(), switch());
    let names = list(text.clone());
    vec![
        (
            "Alias",
            object(
                json!({"filter": any(), "is_write_index": switch, "routing": text}),
                json!({"filter": {"range": {"seconds": {"gte": 500}}}}),
            ),
        ),
        (
            "AliasActions",
            object(
                json!({"actions": list(any())}),
                json!({"actions": [{"add": {"index": "tracks", "alias": "music"}}]}),
            ),
        ),
        (
            "Resolved",
            object(
                json!({
                    "indices": list(members(json!({
                        "name": text, "aliases": names, "attributes": names,
                    }))),
                    "aliases": list(members(json!({"name": text, "indices": names}))),
                    "data_streams": list(any()),
                }),
                json!({
                    "indices": [{"name": "tracks", "aliases": ["music"], "attributes": ["open"]}],
                    "aliases": [{"name": "music", "indices": ["tracks"]}],
                    "data_streams": [],
                }),
            ),
        ),
        (
            "DataStreams",
            object(
                json!({"data_streams": list(any())}),
                json!({"data_streams": []}),
            ),
        ),
    ]
}

fn figures() -> Group {
    let (text, number) = (text(), number());
    let docs = json!({"docs": {"count": 3, "deleted": 0}});
    vec![
        ("Figures", object(parts(), docs.clone())),
        (
            "Stats",
            object(
                json!({
                    "_shards": named("ShardCounts"),
                    "_all": members(json!({
                        "primaries": named("Figures"), "total": named("Figures"),
                    })),
                    "indices": map(members(json!({
                        "uuid": text, "primaries": named("Figures"), "total": named("Figures"),
                        "quire": named("CollectionStats"),
                        "shards": map(list(named("ShardFigures"))),
                    }))),
                }),
                json!({
                    "_shards": {"total": 1, "successful": 1, "failed": 0},
                    "indices": {"tracks": {"primaries": docs, "total": docs}},
                }),
            ),
        ),
        // The figures of a partition, and where it is.
        (
            "ShardFigures",
            object(
                json!({
                    "docs": members(json!({"count": number, "deleted": number})),
                    "routing": named("RoutedShard"), "commit": any(), "seq_no": map(number),
                }),
                json!({
                    "docs": {"count": 3, "deleted": 0},
                    "routing": {"state": "STARTED", "primary": true, "node": "quire"},
                }),
            ),
        ),
    ]
}

/// The parts of the figures of collections.
fn parts() -> Value {
    let number = number();
    json!({
        "docs": members(json!({"count": number, "deleted": number})),
        "store": members(json!({"size_in_bytes": number, "reserved_in_bytes": number})),
        "indexing": any(), "get": any(), "search": any(), "merges": any(), "refresh": any(),
        "flush": any(), "warmer": any(), "query_cache": any(), "fielddata": any(),
        "completion": any(), "segments": any(), "translog": any(), "request_cache": any(),
        "recovery": any(),
    })
}
