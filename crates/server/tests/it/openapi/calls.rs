//! Requests of all kinds, so that each member that the description names is sent or answered.

use std::time::Duration;

use serde_json::{Value, json};

use super::live::Live;

/// A coprocessor that keeps every row.
const FILTER: &str = concat!(
    "\0asm\u{1}\0\0\0\u{1}\u{5}\u{1}`\0\u{1}\u{7f}\u{3}\u{2}\u{1}\0",
    "\u{5}\u{3}\u{1}\0\u{1}\u{7}\u{1b}\u{2}\u{6}memory\u{2}\0\u{e}quire_1_filter\0\0",
    "\u{a}\u{6}\u{1}\u{4}\0A\u{1}\u{b}",
);

/// A trigger that sets `seen` if a document is written, and refuses nothing.
const TRIGGER: &str = concat!(
    "\0asm\u{1}\0\0\0\u{1}\u{9}\u{2}`\u{2}\u{7f}\u{7f}\0`\0\0",
    "\u{2}\u{10}\u{1}\u{7}quire_1\u{4}emit\0\0\u{3}\u{2}\u{1}\u{1}\u{5}\u{3}\u{1}\0\u{1}",
    "\u{7}\u{1c}\u{2}\u{6}memory\u{2}\0\u{f}quire_1_trigger\0\u{1}",
    "\u{a}\u{a}\u{1}\u{8}\0A\0A\u{d}\u{10}\0\u{b}",
    "\u{b}\u{13}\u{1}\0A\0\u{b}\u{d}{\"seen\":true}",
);

/// The collection `tracks`, its documents, and others that are closed and wide.
pub(super) async fn collections(live: &mut Live) {
    let tracks = json!({
        "settings": {"number_of_shards": 2},
        "mappings": {"dynamic": true, "properties": {
            "seconds": {"type": "long"}, "title": {"type": "text"},
        }},
        "aliases": {"long": {"filter": {"range": {"seconds": {"gte": 500}}}}},
    });
    live.done("PUT /tracks", tracks).await;
    let document = json!({"title": "So What", "seconds": 562});
    live.done("PUT /tracks/_doc/t1?refresh=true", document)
        .await;
    live.done("PUT /tracks/_create/t2", json!({"title": "Blue"}))
        .await;
    live.done("POST /tracks/_doc", json!({"seconds": 337}))
        .await;
    live.json("GET /tracks/_doc/none", Value::Null).await;
    live.json("DELETE /tracks/_doc/none", Value::Null).await;
    let wrong = json!({"seconds": "long"});
    live.json("PUT /tracks/_doc/t9", wrong).await;
    let update = json!({
        "doc": {"seconds": 563}, "upsert": {"seconds": 1}, "doc_as_upsert": false,
        "detect_noop": true,
    });
    live.done("POST /tracks/_update/t1", update).await;
    let many = json!({"docs": [{"_index": "tracks", "_id": "t1"}, {"_index": "no", "_id": "1"}]});
    live.done("POST /_mget", many).await;
    live.done("POST /tracks/_mget", json!({"ids": ["t1"]}))
        .await;
    live.send(
        "POST /tracks/_bulk",
        "{\"index\":{\"_id\":\"t3\"}}\n{\"seconds\":9}\n",
    )
    .await;
    let alias = json!({
        "filter": {"term": {"seconds": 9}}, "is_write_index": true, "routing": "a",
    });
    live.done("PUT /tracks/_alias/nine", alias).await;
    let actions = json!({"actions": [{"add": {"index": "tracks", "alias": "music"}}]});
    live.done("POST /_aliases", actions).await;
    live.json("GET /_alias/none", Value::Null).await;
    live.done("PUT /shut", json!({})).await;
    live.done("POST /shut/_close", Value::Null).await;
    live.done(
        "PUT /tracks/_settings",
        json!({"index": {"blocks": {"write": false}}}),
    )
    .await;
    live.done(
        "PUT /tracks/_mapping",
        json!({"properties": {"year": {"type": "long"}}}),
    )
    .await;
    live.done("PUT /rolled-1", json!({"aliases": {"rolled": {}}}))
        .await;
    let rollover = json!({
        "conditions": {"max_docs": 1}, "settings": {}, "mappings": {}, "aliases": {},
    });
    live.done("POST /rolled/_rollover", rollover).await;
    for line in [
        "POST /_flush",
        "POST /_upgrade",
        "POST /_cache/clear",
        "POST /_forcemerge",
        "GET /tracks/_stats?level=shards",
        "GET /tracks/_shard_stores?status=all",
        "GET /_resolve/index/*",
        "GET /tracks/_mapping/field/*",
        "GET /tracks/_settings/index.number*",
        "GET /nine,long/_search_shards",
    ] {
        live.done(line, Value::Null).await;
    }
    live.done("PUT /parts", json!({"settings": {"number_of_shards": 1}}))
        .await;
    live.done("POST /parts/_partitions?count=4", Value::Null)
        .await;
    let split = "POST /parts/_partitions?wait_for_completion=false";
    let begun = live.done(split, Value::Null).await;
    until_done(live, &begun).await;
    let slice = json!({"slice": {"id": 0, "max": 2}});
    live.done("POST /tracks/_search_shards", slice).await;
    let fields = json!({"fields": ["*"], "index_filter": {"match_all": {}}});
    live.done("POST /_field_caps", fields).await;
}

/// Waits until the task that was begun is done.
async fn until_done(live: &mut Live, begun: &Value) {
    let task = format!("GET /_tasks/{}", begun["task"].as_str().unwrap());
    while live.done(&task, Value::Null).await["completed"] == false {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(super) async fn wide_collections(live: &mut Live) {
    let columns = json!({"quire": {"wide": {
        "properties": {
            "title": {"type": "string"}, "visits": {"type": "integer"},
            "tags": {"type": "array"},
            "html": {"type": "string", "contentEncoding": "base64", "group": "content"},
            "links": {
                "type": "object", "additionalProperties": {"type": "string"}, "group": "links",
            },
        },
        "additionalProperties": false,
    }}});
    live.done("PUT /pages", columns).await;
    live.done(
        "PUT /pages/_doc/a",
        json!({"title": "A", "links": {"z": "last"}}),
    )
    .await;
    live.send("PUT /pages/_cell/a/title", "B").await;
    live.done("POST /pages/_cell/a/visits", json!({"add": 2}))
        .await;
    live.done("POST /pages/_cell/a/visits", json!({"max": 9}))
        .await;
    live.done("POST /pages/_cell/a/title", json!({"append": "!"}))
        .await;
    live.done("POST /pages/_cell/a/tags", json!({"add_to_set": ["x"]}))
        .await;
    for cell in ["title", "visits", "visits?format=json", "links", "none"] {
        let line = format!("GET /pages/_cell/a/{cell}");
        live.send(&line, "").await;
    }
    live.done("DELETE /pages/_cell/a/links?from=a", Value::Null)
        .await;
    live.json("DELETE /pages/_cell/none/title", Value::Null)
        .await;
    let changes = json!({
        "rename": {"title": "name"}, "drop": ["tags"], "add": {"note": {"type": "string"}},
        "timeToLive": {"visits": null}, "move": {"note": "content"},
        "groups": {"content": {"codec": "zstd"}},
    });
    live.done("POST /pages/_schema", changes).await;
    live.done("POST /pages/_tier", Value::Null).await;
}

pub(super) async fn searches(live: &mut Live) {
    let search = json!({
        "query": {"match_all": {}}, "from": 0, "size": 1, "sort": ["seconds"],
        "_source": true, "track_total_hits": 10, "timeout": "1s",
        "aggs": {"longest": {"max": {"field": "seconds"}}},
    });
    live.done("POST /tracks/_search", search).await;
    let opened = "POST /tracks/_search/point_in_time?keep_alive=1m";
    let opened = live.done(opened, Value::Null).await;
    let after = json!({
        "search_after": [1], "sort": ["seconds"], "slice": {"id": 0, "max": 2},
        "pit": {"id": opened["pit_id"], "keep_alive": "1m"},
    });
    live.done("POST /_search", after).await;
    live.done("GET /_search/point_in_time/_all", Value::Null)
        .await;
    let ids = json!({"pit_id": [opened["pit_id"]]});
    live.done("DELETE /_search/point_in_time", ids).await;
    live.done("DELETE /_search/point_in_time/_all", Value::Null)
        .await;
    let pit = live
        .done("POST /tracks/_pit?keep_alive=1m", Value::Null)
        .await;
    live.done("DELETE /_pit", json!({"id": pit["id"]})).await;
    live.json("DELETE /_pit", json!({"id": pit["id"]})).await;
    let scroll = "POST /tracks/_search?scroll=1m&size=1";
    let scroll = live.done(scroll, json!({})).await;
    let id = scroll["_scroll_id"].clone();
    live.done(
        "POST /_search/scroll",
        json!({"scroll": "1m", "scroll_id": id}),
    )
    .await;
    live.done("DELETE /_search/scroll", json!({"scroll_id": id}))
        .await;
    live.json("DELETE /_search/scroll/none", Value::Null).await;
    live.send("POST /_msearch", "{}\n{}\n{\"index\":\"no\"}\n{}\n")
        .await;
    let some = json!({"query": {"term": {"seconds": 9}}});
    live.done("POST /tracks/_count", some.clone()).await;
    live.done("POST /tracks/_validate/query?explain", some.clone())
        .await;
    let wrong = json!({"query": {"no_such": {}}});
    live.json("POST /tracks/_validate/query?explain", wrong)
        .await;
    live.done("POST /tracks/_update_by_query", some).await;
    let analyze = json!({"analyzer": "standard", "text": ["So What"]});
    live.done("POST /_analyze", analyze).await;
    let reindex = json!({
        "source": {"index": "tracks"}, "dest": {"index": "copy"}, "max_docs": 2,
        "conflicts": "proceed",
    });
    live.done("POST /_reindex", reindex.clone()).await;
    let begun = "POST /_reindex?wait_for_completion=false";
    let begun = live.done(begun, reindex).await;
    until_done(live, &begun).await;
    for line in [
        "GET /_tasks?detailed",
        "GET /_tasks?group_by=parents",
        "GET /_tasks?group_by=none",
        "POST /_tasks/_cancel?actions=none",
    ] {
        live.done(line, Value::Null).await;
    }
}

pub(super) async fn templates(live: &mut Live) {
    let settings = json!({"number_of_shards": 1});
    let component = json!({
        "template": {"settings": settings}, "version": 3, "_meta": {"by": "test"},
    });
    live.done("PUT /_component_template/usual", component).await;
    let template = json!({
        "index_patterns": ["logs-*"], "composed_of": ["usual"], "priority": 7, "version": 1,
        "template": {"mappings": {}}, "_meta": {"by": "test"},
    });
    live.done("PUT /_index_template/logs", template.clone())
        .await;
    let legacy = json!({
        "index_patterns": ["logs-old-*"], "order": 1, "version": 2, "settings": settings,
        "mappings": {}, "aliases": {},
    });
    live.done("PUT /_template/old", legacy).await;
    for line in [
        "GET /_index_template/logs",
        "GET /_component_template/usual",
        "GET /_template/old",
        "POST /_index_template/_simulate_index/logs-old-1",
        "POST /_index_template/_simulate/logs",
        "POST /_index_template/_simulate_index/none",
    ] {
        live.done(line, Value::Null).await;
    }
    live.done("POST /_index_template/_simulate/logs", template)
        .await;
    live.json("GET /_template/none", Value::Null).await;
    live.done("DELETE /_template/old", Value::Null).await;
}

pub(super) async fn cluster(live: &mut Live) {
    let commands = json!({"commands": [{"move": {
        "index": "tracks", "shard": 0, "from_node": "quire", "to_node": "other",
    }}]});
    live.done("POST /_cluster/reroute?explain=true&metric=_all", commands)
        .await;
    let partition = json!({"index": "tracks", "shard": 0, "primary": true});
    live.done("POST /_cluster/allocation/explain", partition)
        .await;
    let settings = json!({"persistent": {}, "transient": {"search.max_buckets": 5000}});
    live.done("PUT /_cluster/settings", settings).await;
    let password = json!({"secure_settings_password": "x"});
    live.done("POST /_nodes/reload_secure_settings", password)
        .await;
    live.json("POST /_cluster/voting_config_exclusions", Value::Null)
        .await;
    for line in [
        "DELETE /_cluster/voting_config_exclusions",
        "GET /_cluster/settings?include_defaults",
        "GET /_cluster/health?level=shards",
        "GET /_cluster/state/nodes,blocks",
        "GET /_cluster/state/metadata/tracks",
        "GET /_nodes/_all/_all",
        "GET /_nodes/settings,os,process,thread_pool,transport,http,plugins,ingest,aggregations",
        "GET /_nodes/stats/thread_pool,indices?level=shards",
        "GET /_nodes/quire/stats/indices/docs?level=indices",
        "GET /_nodes/other/stats",
        "POST /_nodes/quire/reload_secure_settings",
    ] {
        live.done(line, Value::Null).await;
    }
}

pub(super) async fn commands(live: &mut Live) {
    let limit = json!({"requests": 100, "bytes": 1_000_000, "running": 4, "searches": 2});
    let token = json!({
        "role": "read", "collections": ["tracks"], "expires": "90d", "limit": limit,
    });
    live.done("PUT /_quire/tokens/reader", token).await;
    live.done("GET /_quire/tokens", Value::Null).await;
    live.done("DELETE /_quire/tokens/reader", Value::Null).await;
    live.send("PUT /_quire/coprocessors/all", FILTER).await;
    live.send("PUT /_quire/coprocessors/seen", TRIGGER).await;
    live.done("GET /_quire/coprocessors/all", Value::Null).await;
    let limits = json!({
        "version": 1, "argument": {"a": 1}, "fuel": 1000, "memory_bytes": 1 << 20,
        "output_bytes": 1 << 10,
    });
    live.done("PUT /tracks/_quire/triggers/seen", limits.clone())
        .await;
    let mut of_columns = limits;
    of_columns["columns"] = json!(["visits"]);
    live.done("PUT /pages/_quire/triggers/seen", of_columns)
        .await;
    live.done("GET /pages/_quire/triggers", Value::Null).await;
    live.done("DELETE /pages/_quire/triggers/seen", Value::Null)
        .await;
    let run = json!({
        "coprocessor": "all/1", "as": "filter", "argument": {"a": 1}, "fuel": 1000,
        "memory_bytes": 1 << 20, "output_bytes": 1 << 10, "columns": ["visits"],
    });
    live.done("POST /pages/_quire/coprocessor", run).await;
    live.done("POST /tracks/_quire/get", json!({"keys": ["t1"]}))
        .await;
    let query = json!({
        "where": "seconds > 5", "order": "seconds", "skip": 0, "limit": 5, "all": false,
        "fields": ["title"], "count": true, "facet": ["title"], "aggregate": ["avg(seconds)"],
        "memory": 1 << 24, "timeout": 1.5, "partial": false, "explain": true, "strict": false,
    });
    live.done("POST /tracks/_quire/query", query).await;
    let shuffled = json!({"shuffle": 7, "limit": 1});
    live.done("POST /tracks/_quire/query", shuffled).await;
    live.done("POST /tracks/_quire/sync", Value::Null).await;
    live.done("GET /tracks/_quire/fields", Value::Null).await;
}

/// Backups and verifications: running, cancelled, and done.
pub(super) async fn jobs(live: &mut Live) {
    for (begin, state) in [
        ("POST /_backup/nightly", "GET /_backup"),
        ("POST /_verify", "GET /_verify"),
    ] {
        live.done(&format!("{begin}?rate_bytes=1"), Value::Null)
            .await;
        let running = live.done(state, Value::Null).await;
        assert!(running["running"].is_object(), "{running}");
        live.done("POST /_tasks/_cancel", Value::Null).await;
        let last = ended(live, state).await;
        assert_eq!(last["succeeded"], false, "{last}");
        live.done(&format!("{begin}?rate_bytes=0"), Value::Null)
            .await;
        let last = ended(live, state).await;
        assert_eq!(last["succeeded"], true, "{last}");
    }
}

/// The last work of a kind, once none runs.
async fn ended(live: &mut Live, state: &str) -> Value {
    loop {
        let now = live.done(state, Value::Null).await;
        if now["running"].is_null() {
            return now["last"].clone();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
