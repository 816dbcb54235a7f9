//! Frozen files that are served beside collections.

use quire_server::ServerOptions;
use quiredb::Database;
use quiredb::operations::{FreezeOptions, freeze};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

use crate::site::Site;

const CARS: [&str; 4] = [
    r#"{"_id":"a1","mark":"audi","price":18900,"at":{"city":"Ulm"},"added":"2026-11-02"}"#,
    r#"{"_id":"a2","mark":"audi","price":31500.5,"at":{"city":"Bonn"},"added":"2026-10-11"}"#,
    r#"{"_id":"f1","mark":"fiat","price":7900,"sold":true}"#,
    r#"{"_id":"7","mark":"fiat","price":6500}"#,
];

/// A server of the collection `cars`, and of `old`, which are the same cars in a folder of one
/// file.
struct Dealer {
    site: Site,
    folder: PathBuf,
    _dir: TempDir,
}

impl Dealer {
    async fn new() -> Dealer {
        Dealer::with(ServerOptions::default()).await
    }

    async fn with(options: ServerOptions) -> Dealer {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open(dir.path().join("db")).unwrap();
        let open = Site::over(database.clone(), ServerOptions::default());
        for car in CARS {
            let json: Value = serde_json::from_str(car).unwrap();
            let id = json["_id"].as_str().unwrap();
            open.call(&format!("PUT /cars/_doc/{id}"), car)
                .await
                .done(201);
        }
        let folder = dir.path().join("old");
        database.env().create_dir_all(&folder).unwrap();
        let dealer = Dealer {
            site: Site::over(database.clone(), options),
            folder,
            _dir: dir,
        };
        dealer.freeze("1.quire");
        database.attach_frozen("old", &dealer.folder).unwrap();
        dealer
    }

    fn freeze(&self, name: &str) {
        let cars = self.site.database.collection("cars").unwrap();
        let (view, path) = (cars.view().unwrap(), self.folder.join(name));
        freeze(&view, &path, &FreezeOptions::default(), &mut |_| {}).unwrap();
    }

    async fn search(&self, names: &str, body: &Value) -> Value {
        let line = format!("POST /{names}/_search");
        self.site.call(&line, body.to_string()).await.done(200)
    }
}

/// The ids of hits.
fn ids(answer: &Value) -> Vec<&str> {
    let hits = answer["hits"]["hits"].as_array().unwrap().iter();
    hits.map(|hit| hit["_id"].as_str().unwrap()).collect()
}

/// An answer without what tells one collection from another.
fn plain(mut answer: Value) -> Value {
    answer["took"] = json!(0);
    answer["_shards"] = json!(0);
    for hit in answer["hits"]["hits"].as_array_mut().unwrap() {
        hit["_index"] = json!("");
    }
    answer
}

#[tokio::test]
async fn a_frozen_folder_answers_as_the_collection_that_it_was_made_of() {
    let dealer = Dealer::new().await;
    for body in [
        json!({}),
        json!({"query": {"term": {"mark": "audi"}}, "sort": [{"price": "desc"}]}),
        json!({"query": {"range": {"price": {"lt": 10000}}}, "sort": ["price"]}),
        json!({"query": {"wildcard": {"at.city": "*l*"}}, "sort": ["price"]}),
        json!({"query": {"exists": {"field": "at"}}, "_source": ["mark"], "sort": ["price"]}),
        json!({"query": {"ids": {"values": ["a2", "7"]}}, "sort": ["price"]}),
        json!({"query": {"bool": {"must_not": {"exists": {"field": "sold"}}}}, "sort": ["price"]}),
        json!({"size": 1, "sort": ["price"], "search_after": [7900]}),
        json!({"size": 2, "sort": ["_id"], "search_after": ["a1"]}),
        json!({"size": 0, "aggs": {
            "marks": {"terms": {"field": "mark"}, "aggs": {"p": {"avg": {"field": "price"}}}},
            "days": {"date_histogram": {"field": "added", "calendar_interval": "month"}},
        }}),
    ] {
        let live = plain(dealer.search("cars", &body).await);
        assert_eq!(plain(dealer.search("old", &body).await), live, "{body}");
    }
    let audi = r#"{"query":{"term":{"mark":"audi"}}}"#;
    let count = dealer.site.call("POST /old/_count", audi).await.done(200);
    assert_eq!(count["count"], 2);
    let lines = "{\"index\":\"old\"}\n{\"size\":0}\n{\"index\":\"cars\"}\n{\"size\":0}\n";
    let both = dealer.site.call("POST /_msearch", lines).await.done(200);
    for answer in both["responses"].as_array().unwrap() {
        assert_eq!(answer["hits"]["total"]["value"], 4);
    }
    let scroll = dealer
        .site
        .get("/old/_search?scroll=1m&size=3")
        .await
        .done(200);
    let next = json!({"scroll_id": scroll["_scroll_id"]}).to_string();
    let next = dealer
        .site
        .call("POST /_search/scroll", next)
        .await
        .done(200);
    assert_eq!((ids(&scroll).len(), ids(&next).len()), (3, 1));
}

#[tokio::test]
async fn a_pattern_searches_live_and_frozen_documents_together() {
    let dealer = Dealer::new().await;
    let more = r#"{"mark":"audi","price":20000}"#;
    dealer.site.call("PUT /cars/_doc/a3", more).await.done(201);
    let body = json!({
        "query": {"term": {"mark": "audi"}},
        "sort": [{"price": "desc"}],
        "aggs": {"price": {"avg": {"field": "price"}}},
    });
    for names in ["cars,old", "*", "_all", "cars,ol*"] {
        let found = dealer.search(names, &body).await;
        assert_eq!(ids(&found), ["a2", "a2", "a3", "a1", "a1"], "{names}");
        assert_eq!(found["aggregations"]["price"]["value"], 24160.2);
    }
    let mut rest = body;
    rest["search_after"] = json!([20000]);
    assert_eq!(ids(&dealer.search("cars,old", &rest).await), ["a1", "a1"]);
    assert_eq!(ids(&dealer.search("*,-cars", &rest).await), ["a1"]);
}

#[tokio::test]
async fn queries_see_the_name_of_a_collection_of_any_kind() {
    let dealer = Dealer::new().await;
    let site = &dealer.site;
    // One without an index, whose documents are read, and a wide one.
    let unindexed = r#"{"quire":{"index":{"default":"none"}}}"#;
    site.call("PUT /unindexed", unindexed).await.done(200);
    let wide = r#"{"quire":{"wide":{"properties":{"mark":{"type":"string"}}}}}"#;
    site.call("PUT /wide", wide).await.done(200);
    for name in ["unindexed", "wide"] {
        let line = format!("PUT /{name}/_doc/u1");
        site.call(&line, r#"{"mark":"audi"}"#).await.done(201);
    }
    let audis = |others: Value| {
        let audi = json!({"term": {"mark": "audi"}});
        json!({"query": {"bool": {"filter": [audi, others]}}})
    };
    for (names, found) in [
        (json!(["old"]), vec!["a1", "a2"]),
        (json!(["cars", "unindexed"]), vec!["a1", "a2", "u1"]),
        (json!(["wide", "old"]), vec!["a1", "a2", "u1"]),
        (json!(["wide"]), vec!["u1"]),
        (json!(["absent"]), vec![]),
    ] {
        let body = audis(json!({"terms": {"_index": names}}));
        for searched in ["*,old", "cars,old,unindexed,wide"] {
            let answer = dealer.search(searched, &body).await;
            let mut ids = ids(&answer);
            ids.sort_unstable();
            assert_eq!(ids, found, "{searched} {body}");
        }
    }
    // Each alone, by its name and by another.
    for name in ["cars", "old", "unindexed", "wide"] {
        for (of, count) in [(name, 1), ("absent", 0)] {
            let body = json!({"size": 0, "query": {"term": {"_index": of}},
                "aggs": {"names": {"terms": {"field": "_index"}}}});
            let answer = dealer.search(name, &body).await;
            let buckets = answer["aggregations"]["names"]["buckets"].as_array();
            assert_eq!(buckets.map(Vec::len), Some(count), "{name} {of}");
        }
    }
    let body = json!({"size": 20, "sort": [{"_index": "desc"}, {"_id": "asc"}]});
    let answer = dealer.search("cars,old,unindexed,wide", &body).await;
    let hits = answer["hits"]["hits"].as_array().unwrap().iter();
    let names = hits.map(|hit| (hit["_index"].as_str(), hit["sort"][0].as_str()));
    let names: Vec<_> = names.collect();
    assert!(
        names.iter().all(|(name, sorted)| name == sorted),
        "{names:?}"
    );
    assert!(names.is_sorted_by(|one, next| one >= next), "{names:?}");
    assert_eq!(names.len(), 10);
}

#[tokio::test]
async fn a_frozen_document_is_read_by_its_id() {
    let dealer = Dealer::new().await;
    let site = &dealer.site;
    for id in ["a1", "7"] {
        let [live, old] = ["cars", "old"].map(|name| format!("/{name}/_doc/{id}"));
        let (live, old) = (
            site.get(&live).await.done(200),
            site.get(&old).await.done(200),
        );
        assert_eq!(old["_index"], "old");
        assert_eq!(
            (&old["_source"], &old["_version"]),
            (&live["_source"], &live["_version"])
        );
    }
    assert_eq!(site.get("/old/_doc/x").await.done(404)["found"], false);
    assert_eq!(site.get("/old/_source/f1").await.done(200)["mark"], "fiat");
    let wanted = r#"{"docs":[{"_index":"old","_id":"a2"},{"_index":"cars","_id":"a2"},
        {"_index":"old","_id":"x"}]}"#;
    let found = site.call("POST /_mget", wanted).await.done(200);
    assert_eq!(found["docs"][0]["_source"], found["docs"][1]["_source"]);
    assert_eq!(found["docs"][2]["found"], false);
}

#[tokio::test]
async fn what_is_frozen_is_listed_and_described() {
    let dealer = Dealer::new().await;
    let site = &dealer.site;
    let rows = site
        .get("/_cat/indices?format=json&s=index")
        .await
        .done(200);
    assert_eq!(
        (&rows[1]["index"], &rows[1]["docs.count"]),
        (&json!("old"), &json!("4"))
    );
    assert_eq!(
        site.get("/_cat/count/old?format=json").await.done(200)[0]["count"],
        "4"
    );
    let mappings = site.get("/cars,old/_mapping").await.done(200);
    let types = |name: &str| {
        let of = &mappings[name]["mappings"]["properties"];
        ["mark", "price", "sold"].map(|field| of[field]["type"].clone())
    };
    assert_eq!(types("old"), types("cars"));
    let caps = site.get("/old/_field_caps?fields=*").await.done(200);
    assert_eq!(caps["indices"], json!(["old"]));
    assert!(caps["fields"]["at.city"].is_object(), "{caps}");
    let stats = site.get("/old/_stats").await.done(200);
    assert_eq!(stats["_all"]["primaries"]["docs"]["count"], 4);
    assert!(stats["_all"]["primaries"]["store"]["size_in_bytes"].as_u64() > Some(0));
    let shown = site.get("/old").await.done(200);
    assert_eq!(shown["old"]["settings"]["index"]["number_of_shards"], "1");
    assert_eq!(site.call("HEAD /old", "").await.status, 200);
    for path in [
        "/_cluster/health",
        "/_nodes/stats",
        "/_cluster/stats",
        "/_cat/shards",
    ] {
        assert_eq!(site.get(path).await.status, 200, "{path}");
    }
    let stats = site.get("/_cluster/stats").await.done(200);
    let partitions = &stats["indices"]["shards"]["total"];
    let health = site.get("/_cluster/health?level=indices").await.done(200);
    assert_eq!(&health["active_shards"], partitions);
    assert_eq!(health["indices"]["old"]["active_shards"], 1);
    for path in ["/_cat/health?h=shards", "/_cat/allocation?h=shards"] {
        let text = site.get(path).await.text;
        assert_eq!(text.trim(), partitions.to_string(), "{path}");
    }
}

#[tokio::test]
async fn what_would_change_a_frozen_collection_is_refused_by_name() {
    let dealer = Dealer::new().await;
    let site = &dealer.site;
    let alias = r#"{"actions":[{"add":{"index":"cars","alias":"old"}}]}"#;
    let of_old = r#"{"actions":[{"add":{"index":"old","alias":"now"}}]}"#;
    let reindex = r#"{"source":{"index":"cars"},"dest":{"index":"old"}}"#;
    for (line, body) in [
        ("PUT /old/_doc/a1", "{}"),
        ("POST /old/_doc", "{}"),
        ("PUT /old/_create/a9", "{}"),
        ("POST /old/_update/a1", r#"{"doc":{"a":1}}"#),
        ("DELETE /old/_doc/a1", ""),
        (
            "POST /old/_delete_by_query",
            r#"{"query":{"match_all":{}}}"#,
        ),
        ("POST /old/_update_by_query", ""),
        ("PUT /old", ""),
        (
            "PUT /old/_settings",
            r#"{"index":{"refresh_interval":"1s"}}"#,
        ),
        (
            "PUT /old/_mapping",
            r#"{"properties":{"a":{"type":"keyword"}}}"#,
        ),
        ("POST /old/_close", ""),
        ("POST /_aliases", alias),
        ("POST /_aliases", of_old),
        ("PUT /cars/_alias/old", ""),
        ("POST /_reindex", reindex),
        ("DELETE /old", ""),
        ("DELETE /cars,old", ""),
    ] {
        let refused = site.call(line, body).await;
        assert_eq!(refused.status, 400, "{line}: {}", refused.text);
        assert!(
            refused.text.contains("old is frozen: "),
            "{line}: {}",
            refused.text
        );
    }
    let lines = "{\"index\":{\"_index\":\"old\",\"_id\":\"b\"}}\n{}\n\
                 {\"delete\":{\"_index\":\"old\",\"_id\":\"a1\"}}\n";
    let done = site.call("POST /_bulk", lines).await.done(200);
    assert_eq!(done["errors"], true);
    for (item, kind) in ["index", "delete"].iter().enumerate() {
        let item = &done["items"][item][kind];
        assert_eq!(item["status"], 400, "{item}");
        let reason = item["error"]["reason"].as_str().unwrap();
        assert!(reason.contains("old is frozen: "), "{reason}");
    }
    // A pattern drops what can be dropped.
    let allowed = r#"{"transient":{"action.destructive_requires_name":false}}"#;
    site.call("PUT /_cluster/settings", allowed).await.done(200);
    site.call("DELETE /*", "").await.done(200);
    assert_eq!(site.database.collections(), Vec::<String>::new());
    assert_eq!(site.get("/old/_count").await.done(200)["count"], 4);
}

#[tokio::test]
async fn a_refresh_opens_new_files_and_keeps_what_a_damaged_one_replaced() {
    let dealer = Dealer::new().await;
    let site = &dealer.site;
    dealer.freeze("2.quire");
    let count = async || site.get("/old/_count").await.done(200)["count"].clone();
    assert_eq!(count().await, 4);
    let done = site.call("POST /old/_refresh", "").await.done(200);
    assert_eq!(
        done["_shards"],
        json!({"total": 2, "successful": 2, "failed": 0})
    );
    assert_eq!(count().await, 8);
    write(&dealer.folder.join("1.quire"), b"damaged");
    let done = site.call("POST /_refresh", "").await.done(200);
    assert_eq!(done["_shards"]["failed"], 1);
    assert_eq!(count().await, 8);
}

#[allow(
    clippy::disallowed_methods,
    reason = "damages a file as another program would"
)]
fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn frozen_documents_are_copied_beside_live_ones() {
    let dealer = Dealer::new().await;
    let site = &dealer.site;
    site.call("PUT /oldest/_doc/x", r#"{"mark":"audi","price":1}"#)
        .await
        .done(201);
    // A pattern over both copies both, in batches and in slices.
    for slices in ["1", "2", "auto"] {
        let source = json!({"index": "old*", "query": {"term": {"mark": "audi"}}, "size": 1});
        let to = format!("to-{slices}");
        let body = json!({"source": source, "dest": {"index": to}}).to_string();
        let path = format!("POST /_reindex?slices={slices}");
        let report = site.call(&path, body).await.done(200);
        assert_eq!(report["created"], 3, "{report}");
        assert_eq!(site.stored(&to, "a1").unwrap(), CARS[0]);
        assert_eq!(site.stored(&to, "a2").unwrap(), CARS[1]);
        assert!(site.stored(&to, "x").is_some());
    }
    let body = json!({"source": {"index": "old"}, "dest": {"index": "first"}, "max_docs": 3});
    let report = site
        .call("POST /_reindex", body.to_string())
        .await
        .done(200);
    assert_eq!(
        (&report["created"], &report["total"]),
        (&json!(3), &json!(3))
    );
    let all = r#"{"query":{"match_all":{}}}"#;
    let refused = site.call("POST /old/_delete_by_query", all).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
}
