//! Schemas of searches: by query, of pages, at points in time, and of work on what they find.

use serde_json::json;

use super::kinds::{
    Group, any, list, members, named, nullable, number, object, one_or_more, real, switch, text,
};

pub(super) fn group() -> Group {
    [queries(), pages(), work()].concat()
}

fn queries() -> Group {
    let (text, number, switch) = (text(), number(), switch());
    let total = members(json!({"value": number, "relation": text}));
    let hit = json!({
        "_index": "tracks", "_id": "t1", "_score": 1.0,
        "_source": {"title": "So What", "seconds": 562},
    });
    let hits = json!({"total": {"value": 1, "relation": "eq"}, "max_score": 1.0, "hits": [hit]});
    let searched = json!({
        "took": 1, "timed_out": false, "hits": hits,
        "aggregations": {"longest": {"value": 562.0}},
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
                    "slice": any(), "track_total_hits": {}, "timeout": text,
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
                    "_index": text, "_id": text, "_score": nullable(real()),
                    "_source": named("Document"), "sort": list(json!({})),
                }),
                hit,
            ),
        ),
        (
            "Hits",
            object(
                json!({
                    "total": total, "max_score": nullable(real()), "hits": list(named("Hit")),
                }),
                hits,
            ),
        ),
        (
            "Searched",
            object(
                json!({
                    "took": number, "timed_out": switch, "_scroll_id": text, "pit_id": text,
                    "_shards": named("ShardCounts"), "hits": named("Hits"), "aggregations": any(),
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
            "Count",
            object(
                json!({"count": number, "_shards": named("ShardCounts")}),
                json!({"count": 3}),
            ),
        ),
        (
            "Validated",
            object(
                json!({
                    "valid": switch, "_shards": named("ShardCounts"), "error": text,
                    "explanations": list(any()),
                }),
                json!({"valid": true, "_shards": {"total": 4, "successful": 4, "failed": 0}}),
            ),
        ),
    ]
}

/// Scrolls and points in time.
fn pages() -> Group {
    let (text, number, switch) = (text(), number(), switch());
    vec![
        (
            "Scroll",
            object(
                json!({"scroll": text, "scroll_id": text}),
                json!({"scroll": "1m", "scroll_id": "c2Nyb2xs"}),
            ),
        ),
        (
            "ScrollIds",
            object(
                json!({"scroll_id": one_or_more()}),
                json!({"scroll_id": ["c2Nyb2xs"]}),
            ),
        ),
        (
            "Freed",
            object(
                json!({"succeeded": switch, "num_freed": number}),
                json!({"succeeded": true, "num_freed": 1}),
            ),
        ),
        (
            "PointInTime",
            object(
                json!({
                    "pit_id": text, "creation_time": number, "_shards": named("ShardCounts"),
                }),
                json!({"pit_id": "cG9pbnQ", "creation_time": 1_767_225_600_000_u64}),
            ),
        ),
        // As Elasticsearch has it.
        (
            "Pit",
            object(
                json!({"id": text, "_shards": named("ShardCounts")}),
                json!({
                    "id": "cG9pbnQ", "_shards": {"total": 2, "successful": 2, "failed": 0},
                }),
            ),
        ),
        (
            "PitIds",
            object(json!({"id": one_or_more()}), json!({"id": "cG9pbnQ"})),
        ),
        (
            "PointIds",
            object(
                json!({"pit_id": one_or_more()}),
                json!({"pit_id": ["cG9pbnQ"]}),
            ),
        ),
        (
            "PointsClosed",
            object(
                json!({"pits": list(members(json!({"pit_id": text, "successful": switch})))}),
                json!({"pits": [{"pit_id": "cG9pbnQ", "successful": true}]}),
            ),
        ),
        // Times in milliseconds.
        (
            "PointsOpen",
            object(
                json!({"pits": list(members(json!({
                    "pit_id": text, "creation_time": number, "keep_alive": number,
                })))}),
                json!({"pits": [{
                    "pit_id": "cG9pbnQ", "creation_time": 1_767_225_600_000_u64,
                    "keep_alive": 600_000,
                }]}),
            ),
        ),
    ]
}

fn work() -> Group {
    let (text, number) = (text(), number());
    vec![
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
                json!({
                    "took": number, "total": number, "created": number, "updated": number,
                    "deleted": number, "batches": number, "version_conflicts": number,
                    "failures": list(any()), "task": text,
                }),
                json!({
                    "took": 5, "total": 3, "created": 3, "updated": 0, "deleted": 0,
                    "batches": 1, "version_conflicts": 0, "failures": [],
                }),
            ),
        ),
        (
            "Analyze",
            object(
                json!({"analyzer": text, "text": one_or_more()}),
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
