//! The schemas of bodies, by name, each with an example. Members that are not named may be there
//! too.

use serde_json::{Map, Value, json};

/// Every schema that an operation refers to.
pub(super) fn schemas() -> Value {
    let mut all = Map::new();
    for group in [of_documents(), of_searches(), of_collections(), of_server()] {
        all.extend(
            group
                .into_iter()
                .map(|(name, schema)| (name.to_owned(), schema)),
        );
    }
    Value::Object(all)
}

/// Schemas by name.
type Group = Vec<(&'static str, Value)>;

fn of_documents() -> Group {
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
                    "_seq_no": number, "_primary_term": number, "_shards": any(),
                }),
                written.clone(),
            ),
        ),
        (
            "Found",
            object(
                json!({
                    "_index": text, "_id": text, "found": switch, "_version": number,
                    "_seq_no": number, "_source": named("Document"),
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

fn of_searches() -> Group {
    let (text, number, switch) = (text(), number(), switch());
    let total = json!({"type": "object", "properties": {"value": number, "relation": text}});
    let hit = json!({
        "_index": "tracks", "_id": "t1", "_score": 1.0,
        "_source": {"title": "So What", "seconds": 562},
    });
    let hits = json!({"total": {"value": 1, "relation": "eq"}, "hits": [hit]});
    let searched = json!({
        "took": 1, "timed_out": false, "hits": hits,
        "aggregations": {"longest": {"value": 562.0}},
    });
    let work = json!({
        "took": number, "total": number, "created": number, "updated": number,
        "deleted": number, "batches": number, "version_conflicts": number,
        "failures": list(any()), "task": text,
    });
    vec![
        (
            "Query",
            object(
                json!({"query": any()}),
                json!({"query": {"range": {"seconds": {"gte": 500}}}}),
            ),
        ),
        (
            "Search",
            object(
                json!({
                    "query": any(), "from": number, "size": number, "sort": {}, "_source": {},
                    "aggs": any(), "search_after": list(json!({})), "pit": any(),
                    "slice": any(), "track_total_hits": switch, "timeout": text,
                }),
                json!({
                    "query": {"term": {"title": "So What"}}, "sort": [{"seconds": "desc"}],
                    "size": 5, "aggs": {"longest": {"max": {"field": "seconds"}}},
                }),
            ),
        ),
        (
            "Hit",
            object(
                json!({
                    "_index": text, "_id": text, "_source": named("Document"),
                    "sort": list(json!({})),
                }),
                hit,
            ),
        ),
        (
            "Hits",
            object(json!({"total": total, "hits": list(named("Hit"))}), hits),
        ),
        (
            "Searched",
            object(
                json!({
                    "took": number, "timed_out": switch, "_scroll_id": text, "pit_id": text,
                    "hits": named("Hits"), "aggregations": any(),
                }),
                searched.clone(),
            ),
        ),
        (
            "ManySearched",
            object(
                json!({"took": number, "responses": list(named("Searched"))}),
                json!({"took": 1, "responses": [searched]}),
            ),
        ),
        (
            "Scroll",
            object(
                json!({"scroll": text, "scroll_id": text}),
                json!({"scroll": "1m", "scroll_id": "c2Nyb2xs"}),
            ),
        ),
        (
            "PointInTime",
            object(
                json!({"pit_id": text, "creation_time": number, "_shards": any()}),
                json!({"pit_id": "cG9pbnQ", "creation_time": 1_767_225_600_000_u64}),
            ),
        ),
        (
            "Count",
            object(json!({"count": number}), json!({"count": 3})),
        ),
        (
            "Reindex",
            object(
                json!({
                    "source": any(), "dest": any(), "max_docs": number, "conflicts": text,
                }),
                json!({"source": {"index": "tracks"}, "dest": {"index": "copy"}}),
            ),
        ),
        (
            "WorkDone",
            object(
                work,
                json!({
                    "took": 5, "total": 3, "created": 3, "updated": 0, "deleted": 0,
                    "batches": 1, "version_conflicts": 0, "failures": [],
                }),
            ),
        ),
        (
            "FieldCaps",
            object(
                json!({"indices": list(text.clone()), "fields": any()}),
                json!({
                    "indices": ["tracks"],
                    "fields": {"seconds": {"long": {
                        "type": "long", "searchable": true, "aggregatable": true,
                    }}},
                }),
            ),
        ),
        (
            "Analyze",
            object(
                json!({"analyzer": text, "text": {}}),
                json!({"analyzer": "standard", "text": "So What"}),
            ),
        ),
        (
            "Analyzed",
            object(
                json!({"tokens": list(any())}),
                json!({"tokens": [{
                    "token": "so", "start_offset": 0, "end_offset": 2, "type": "<ALPHANUM>",
                    "position": 0,
                }]}),
            ),
        ),
    ]
}

fn of_collections() -> Group {
    let (text, number, switch) = (text(), number(), switch());
    let mapping = json!({"properties": {"seconds": {"type": "long"}}});
    let map = |items: Value, example: Value| {
        let map = json!({"type": "object", "additionalProperties": items});
        with_example(map, example)
    };
    let template = json!({
        "index_patterns": ["tracks-*"], "template": {"mappings": mapping}, "priority": 1,
    });
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
                json!({"settings": any(), "mappings": any(), "aliases": any()}),
                json!({"mappings": mapping}),
            ),
        ),
        (
            "Collections",
            map(
                named("Collection"),
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
            "Template",
            object(
                json!({
                    "index_patterns": list(text.clone()), "template": named("Collection"),
                    "priority": number, "composed_of": list(text.clone()),
                }),
                template.clone(),
            ),
        ),
        (
            "Templates",
            object(
                json!({"index_templates": list(any())}),
                json!({"index_templates": [{"name": "tracks", "index_template": template}]}),
            ),
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
                    "rolled_over": switch, "dry_run": switch, "conditions": any(),
                }),
                json!({
                    "acknowledged": true, "old_index": "tracks-1", "new_index": "tracks-000002",
                    "rolled_over": true, "dry_run": false,
                    "conditions": {"[max_docs: 1000000]": true},
                }),
            ),
        ),
        (
            "Stats",
            object(
                json!({"_shards": any(), "_all": any(), "indices": any()}),
                json!({
                    "_shards": {"total": 1, "successful": 1, "failed": 0},
                    "indices": {"tracks": {"primaries": {"docs": {"count": 3}}}},
                }),
            ),
        ),
    ]
}

fn of_server() -> Group {
    let (text, number, switch) = (text(), number(), switch());
    let cause = json!({"type": "index_not_found_exception", "reason": "no such index [tracks]"});
    let error = json!({
        "root_cause": [cause], "type": cause["type"], "reason": cause["reason"],
    });
    let task = json!({
        "node": "quire", "id": 7, "action": "indices:data/write/reindex", "cancellable": true,
        "status": {"total": 3, "created": 1, "batches": 1},
    });
    vec![
        (
            "Error",
            object(
                json!({
                    "error": {"type": "object", "properties": {
                        "type": text, "reason": text, "root_cause": list(any()),
                    }, "additionalProperties": true},
                    "status": {"type": "integer"},
                }),
                json!({"error": error, "status": 404}),
            ),
        ),
        (
            "Info",
            object(
                json!({"name": text, "cluster_name": text, "version": any()}),
                json!({
                    "name": "quire", "cluster_name": "quire",
                    "version": {"distribution": "opensearch", "number": "2.19.0"},
                }),
            ),
        ),
        (
            "Health",
            object(
                json!({
                    "cluster_name": text, "status": text, "timed_out": switch,
                    "active_shards": number,
                }),
                json!({
                    "cluster_name": "quire", "status": "green", "timed_out": false,
                    "active_shards": 4,
                }),
            ),
        ),
        (
            "Tasks",
            object(
                json!({"nodes": any(), "tasks": {}}),
                json!({"nodes": {"quire": {"tasks": {"quire:7": task}}}}),
            ),
        ),
        (
            "TaskResult",
            object(
                json!({
                    "completed": switch, "task": any(), "response": any(), "error": any(),
                }),
                json!({"completed": false, "task": task}),
            ),
        ),
        (
            "Table",
            with_example(list(any()), json!([{"index": "tracks", "docs.count": "3"}])),
        ),
        (
            "Shards",
            object(
                json!({"_shards": any()}),
                json!({"_shards": {"total": 4, "successful": 4, "failed": 0}}),
            ),
        ),
        (
            "Validated",
            object(
                json!({
                    "valid": switch, "_shards": any(), "error": text, "explanations": list(any()),
                }),
                json!({"valid": true, "_shards": {"total": 4, "successful": 4, "failed": 0}}),
            ),
        ),
        (
            "ClusterSettings",
            object(
                json!({"persistent": any(), "transient": any(), "defaults": any()}),
                json!({"persistent": {}, "transient": {"search.max_buckets": "1000"}}),
            ),
        ),
        (
            "NewToken",
            object(
                json!({
                    "role": text, "collections": list(text.clone()), "expires": text,
                    "limit": any(),
                }),
                json!({"role": "read", "collections": ["tracks"], "expires": "90d"}),
            ),
        ),
        (
            "Token",
            object(
                json!({"name": text, "token": text}),
                json!({"name": "reader", "token": "SECRET"}),
            ),
        ),
        ("Anything", with_example(any(), json!({}))),
    ]
}

fn text() -> Value {
    json!({"type": "string"})
}

fn number() -> Value {
    json!({"type": "integer", "format": "int64"})
}

fn switch() -> Value {
    json!({"type": "boolean"})
}

fn any() -> Value {
    json!({"type": "object", "additionalProperties": true})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn named(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn object(properties: Value, example: Value) -> Value {
    let object = json!({"type": "object", "properties": properties, "additionalProperties": true});
    with_example(object, example)
}

fn with_example(mut schema: Value, example: Value) -> Value {
    schema["example"] = example;
    schema
}
