//! The schemas of bodies, by name, with examples. Members that are not named may be there too.

use serde_json::{Value, json};

/// Every schema that an operation refers to.
pub(super) fn schemas() -> Value {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer", "format": "int64"});
    let switch = json!({"type": "boolean"});
    let any = json!({"type": "object", "additionalProperties": true});
    let list = |items: Value| json!({"type": "array", "items": items});
    let named = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let total = json!({"type": "object", "properties": {"value": number, "relation": text}});
    let written = json!({
        "_index": text, "_id": text, "_version": number, "result": text, "_seq_no": number,
        "_primary_term": number, "_shards": any,
    });
    json!({
        "Error": object(json!({
            "error": object(json!({"type": text, "reason": text, "root_cause": list(any.clone())})),
            "status": {"type": "integer"},
        })),
        "Document": with_example(any.clone(), json!({"title": "So What", "seconds": 562})),
        "Acknowledged": object(json!({"acknowledged": switch})),
        "Written": object(written),
        "Found": object(json!({
            "_index": text, "_id": text, "found": switch, "_version": number, "_seq_no": number,
            "_source": named("Document"),
        })),
        "Update": with_example(
            object(json!({
                "doc": named("Document"), "upsert": named("Document"), "doc_as_upsert": switch,
                "detect_noop": switch,
            })),
            json!({"doc": {"seconds": 563}, "doc_as_upsert": true}),
        ),
        "Collection": with_example(
            object(json!({"settings": any, "mappings": any, "aliases": any})),
            json!({"mappings": {"properties": {"seconds": {"type": "long"}}}}),
        ),
        "Query": with_example(
            object(json!({"query": any})),
            json!({"query": {"range": {"seconds": {"gte": 500}}}}),
        ),
        "Search": with_example(
            object(json!({
                "query": any, "from": number, "size": number, "sort": {}, "_source": {},
                "aggs": any, "search_after": list(json!({})), "pit": any, "slice": any,
                "track_total_hits": switch, "timeout": text,
            })),
            json!({
                "query": {"term": {"title": "So What"}}, "sort": [{"seconds": "desc"}], "size": 5,
                "aggs": {"longest": {"max": {"field": "seconds"}}},
            }),
        ),
        "Hit": object(json!({
            "_index": text, "_id": text, "_source": named("Document"), "sort": list(json!({})),
        })),
        "Hits": object(json!({"total": total, "hits": list(named("Hit"))})),
        "Searched": object(json!({
            "took": number, "timed_out": switch, "_scroll_id": text, "pit_id": text,
            "hits": named("Hits"), "aggregations": any,
        })),
        "ManySearched": object(json!({"took": number, "responses": list(named("Searched"))})),
        "Count": object(json!({"count": number})),
        "ManyGet": with_example(
            object(json!({"docs": list(any.clone()), "ids": list(text.clone())})),
            json!({"ids": ["t1", "t2"]}),
        ),
        "ManyFound": object(json!({"docs": list(named("Found"))})),
        "Bulk": with_example(
            text.clone(),
            json!("{\"index\":{\"_id\":\"t1\"}}\n{\"title\":\"So What\"}\n"),
        ),
        "Lines": with_example(text.clone(), json!("{\"_id\":\"t1\"}\n{\"_id\":\"t2\"}\n")),
        "BulkDone": object(json!({"took": number, "errors": switch, "items": list(any.clone())})),
        "Reindex": with_example(
            object(json!({"source": any, "dest": any, "max_docs": number, "conflicts": text})),
            json!({"source": {"index": "tracks"}, "dest": {"index": "copy"}}),
        ),
        "WorkDone": object(json!({
            "took": number, "total": number, "created": number, "updated": number,
            "deleted": number, "batches": number, "version_conflicts": number,
            "failures": list(any.clone()), "task": text,
        })),
        "Analyze": with_example(
            object(json!({"analyzer": text, "text": {}})),
            json!({"analyzer": "standard", "text": "So What"}),
        ),
        "Analyzed": object(json!({"tokens": list(any.clone())})),
        "Anything": any,
    })
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties, "additionalProperties": true})
}

fn with_example(mut schema: Value, example: Value) -> Value {
    schema["example"] = example;
    schema
}
