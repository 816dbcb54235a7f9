//! Schemas of documents: written, read and changed by id.

use serde_json::json;

use super::kinds::{Group, any, list, named, number, object, switch, text, with_example};

pub(super) fn group() -> Group {
    let (text, number, switch) = (text(), number(), switch());
    let document = json!({"title": "So What", "seconds": 562});
    let written = json!({
        "_index": "tracks", "_id": "t1", "_version": 1, "result": "created", "_seq_no": 1,
        "_primary_term": 1, "_shards": {"total": 1, "successful": 1, "failed": 0},
    });
    let found = json!({
        "_index": "tracks", "_id": "t1", "_version": 1, "_seq_no": 1, "_primary_term": 1,
        "found": true, "_source": document,
    });
    vec![
        ("Document", with_example(any(), document.clone())),
        (
            "Written",
            object(
                json!({
                    "_index": text, "_id": text, "_version": number, "result": text,
                    "_seq_no": number, "_primary_term": number, "_shards": named("ShardCounts"),
                    "forced_refresh": switch,
                }),
                written.clone(),
            ),
        ),
        (
            "Found",
            object(
                json!({
                    "_index": text, "_id": text, "found": switch, "_version": number,
                    "_seq_no": number, "_primary_term": number, "_source": named("Document"),
                }),
                found.clone(),
            ),
        ),
        (
            "Update",
            object(
                json!({
                    "doc": named("Document"), "upsert": named("Document"),
                    "doc_as_upsert": switch, "detect_noop": switch,
                }),
                json!({"doc": {"seconds": 563}, "doc_as_upsert": true}),
            ),
        ),
        (
            "ManyGet",
            object(
                json!({"docs": list(any()), "ids": list(text.clone())}),
                json!({"ids": ["t1", "t2"]}),
            ),
        ),
        (
            "ManyFound",
            object(
                json!({"docs": list(named("Found"))}),
                json!({"docs": [found]}),
            ),
        ),
        (
            "Bulk",
            with_example(
                text.clone(),
                json!("{\"index\":{\"_id\":\"t1\"}}\n{\"title\":\"So What\"}\n"),
            ),
        ),
        (
            "Lines",
            with_example(text, json!("{\"_id\":\"t1\"}\n{\"_id\":\"t2\"}\n")),
        ),
        (
            "BulkDone",
            object(
                json!({"took": number, "errors": switch, "items": list(any())}),
                json!({"took": 1, "errors": false, "items": [{"index": written}]}),
            ),
        ),
    ]
}
