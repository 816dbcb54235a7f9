//! Aliases over HTTP.

use serde_json::{Value, json};

use crate::site::Site;

async fn two_collections(site: &Site) {
    site.collection("logs-1");
    site.collection("logs-2");
    for (path, body) in [
        ("logs-1/_doc/a", r#"{"level":"info","n":1}"#),
        ("logs-1/_doc/b", r#"{"level":"warn","n":2}"#),
        ("logs-2/_doc/c", r#"{"level":"warn","n":3}"#),
    ] {
        site.call(&format!("PUT /{path}"), body).await.done(201);
    }
}

async fn change(site: &Site, actions: Value) {
    let body = json!({ "actions": actions }).to_string();
    site.call("POST /_aliases", body).await.done(200);
}

async fn ids(site: &Site, path: &str) -> Vec<String> {
    let answer = site.get(&format!("/{path}/_search?sort=n")).await.done(200);
    let hits = answer["hits"]["hits"].as_array().unwrap().clone();
    let id = |hit: &Value| hit["_id"].as_str().unwrap().to_owned();
    hits.iter().map(id).collect()
}

#[tokio::test]
async fn reads_go_to_all_collections_of_an_alias_and_writes_to_one() {
    let site = Site::new();
    two_collections(&site).await;
    change(
        &site,
        json!([
            {"add": {"index": "logs-*", "alias": "logs"}},
            {"add": {"index": "logs-2", "alias": "logs", "is_write_index": true}},
        ]),
    )
    .await;
    assert_eq!(ids(&site, "logs").await, ["a", "b", "c"]);
    assert_eq!(ids(&site, "lo*s,logs-1").await, ["a", "b", "c"]);
    assert_eq!(site.get("/logs/_count").await.done(200)["count"], 3);
    let hit = &site.get("/logs/_search?q_=1&size=1").await;
    assert_eq!(hit.status, 400);

    // The answer names the collection.
    let written = site.call("PUT /logs/_doc/d", r#"{"n":4}"#).await.done(201);
    assert_eq!(written["_index"], "logs-2");
    let lines = concat!(
        "{\"index\":{\"_index\":\"logs\",\"_id\":\"e\"}}\n{\"n\":5}\n",
        "{\"update\":{\"_index\":\"logs-2\",\"_id\":\"e\"}}\n{\"doc\":{\"n\":6}}\n",
        "{\"delete\":{\"_index\":\"logs\",\"_id\":\"d\"}}\n",
        "{\"index\":{\"_index\":\"logs-1\",\"_id\":\"f\",\"require_alias\":true}}\n{\"n\":5}\n",
    );
    let bulk = site.call("POST /_bulk", lines).await.done(200);
    let items = bulk["items"].as_array().unwrap();
    assert_eq!(items[0]["index"]["_index"], "logs-2");
    let statuses: Vec<&Value> = items
        .iter()
        .map(|item| &item.as_object().unwrap().values().next().unwrap()["status"])
        .collect();
    assert_eq!(
        statuses,
        [&json!(201), &json!(200), &json!(200), &json!(404)]
    );
    assert_eq!(site.stored("logs-2", "e").unwrap(), r#"{"n":6}"#);

    // One document is read by an alias of one collection only.
    let reason = site.get("/logs/_doc/a").await;
    let reason = reason.refused(400, "illegal_argument_exception");
    assert!(reason.contains("more than one index"), "{reason}");
    change(
        &site,
        json!([{"remove": {"index": "logs-1", "alias": "lo*"}}]),
    )
    .await;
    let found = site.get("/logs/_doc/e").await.done(200);
    assert_eq!(found["_index"], "logs-2");
    let docs = site
        .call("GET /logs/_mget", r#"{"ids":["e"]}"#)
        .await
        .done(200);
    assert_eq!(docs["docs"][0]["_index"], "logs-2");
}

#[tokio::test]
async fn the_filter_of_an_alias_limits_searches_counts_and_deletes_by_query() {
    let site = Site::new();
    two_collections(&site).await;
    let filter = json!({"filter": {"term": {"level": "warn"}}}).to_string();
    site.call("PUT /logs-*/_alias/warnings", filter)
        .await
        .done(200);
    assert_eq!(ids(&site, "warnings").await, ["b", "c"]);
    assert_eq!(site.get("/warnings/_count").await.done(200)["count"], 2);
    let lines = "{\"index\":\"warnings\"}\n{\"query\":{\"range\":{\"n\":{\"lt\":3}}}}\n";
    let answers = site.call("POST /_msearch", lines).await.done(200);
    assert_eq!(answers["responses"][0]["hits"]["total"]["value"], 1);
    let scroll = site
        .call("POST /warnings/_search?scroll=1m", "")
        .await
        .done(200);
    assert_eq!(scroll["hits"]["total"]["value"], 2);
    let opened = site.call("POST /warnings/_search/point_in_time?keep_alive=1m", "");
    let point = opened.await.done(200)["pit_id"].clone();
    let of_point = json!({"pit": {"id": point}}).to_string();
    let found = site.call("POST /_search", of_point).await.done(200);
    assert_eq!(found["hits"]["total"]["value"], 2);

    // A collection that is named too is searched whole.
    site.call("PUT /logs-2/_doc/d", r#"{"level":"info","n":4}"#)
        .await
        .done(201);
    assert_eq!(ids(&site, "warnings,logs-1").await, ["a", "b", "c"]);
    let opened = "POST /warnings,logs-1/_search/point_in_time?keep_alive=1m";
    let point = site.call(opened, "").await.done(200)["pit_id"].clone();
    let begun = "POST /warnings,logs-1/_search?scroll=1m&size=2&sort=n";
    let scroll = site.call(begun, "").await.done(200);
    site.call("PUT /logs-1/_doc/e", r#"{"n":5}"#)
        .await
        .done(201);
    let of_point = json!({"pit": {"id": point}}).to_string();
    let found = site.call("POST /_search", of_point).await.done(200);
    assert_eq!(found["hits"]["total"]["value"], 3);
    let next = json!({"scroll_id": scroll["_scroll_id"]}).to_string();
    let next = site.call("POST /_search/scroll", next).await.done(200);
    assert_eq!(next["hits"]["hits"][0]["_id"], "c");
    assert_eq!(next["hits"]["hits"].as_array().map(Vec::len), Some(1));
    site.call("DELETE /logs-1/_doc/e", "").await.done(200);
    site.call("DELETE /logs-2/_doc/d", "").await.done(200);
    // What is not about single documents needs no filter.
    for path in ["_stats", "_mapping", "_settings", "_segments"] {
        let shown = site.get(&format!("/warnings,logs-1/{path}")).await;
        let shown = shown.done(200).to_string();
        assert!(shown.contains("logs-2"), "{path}: {shown}");
    }
    let flushed = site.call("POST /warnings,logs-1/_flush", "").await;
    flushed.done(200);
    assert_eq!(ids(&site, "warnings,logs-*").await, ["a", "b", "c"]);

    let query = r#"{"query":{"match_all":{}}}"#;
    let deleted = site
        .call("POST /warnings/_delete_by_query", query)
        .await
        .done(200);
    assert_eq!(deleted["deleted"], 2);
    assert_eq!(ids(&site, "logs-*").await, ["a"]);
}

#[tokio::test]
async fn aliases_are_listed_and_missing_ones_are_404() {
    let site = Site::new();
    let body = r#"{"aliases":{"now":{"is_write_index":true},"old":{}}}"#;
    site.call("PUT /logs-1", body).await.done(200);
    site.collection("logs-2");
    let now = json!({"now": {"is_write_index": true}});
    assert_eq!(
        site.get("/_alias/n*").await.done(200),
        json!({"logs-1": {"aliases": now}})
    );
    let all = site.get("/_alias").await.done(200);
    assert_eq!(all["logs-2"], json!({"aliases": {}}));
    assert_eq!(
        site.get("/now").await.done(200)["logs-1"]["aliases"],
        all["logs-1"]["aliases"]
    );
    for (path, status) in [
        ("/_alias/now", 200),
        ("/_alias/never", 404),
        ("/logs-2/_alias/now", 404),
        ("/now/_alias/old", 200),
        ("/now", 200),
    ] {
        assert_eq!(
            site.call(&format!("HEAD {path}"), "").await.status,
            status,
            "{path}"
        );
    }
    let never = site.get("/_alias/never").await.done(404);
    assert_eq!(never["error"], "alias [never] missing");
    let gone = site.call("DELETE /logs-2/_alias/now", "").await;
    gone.refused(404, "aliases_not_found_exception");
    site.call("DELETE /logs-1/_alias/old", "").await.done(200);
    let cat = site.get("/_cat/aliases?h=alias,index,is_write_index").await;
    assert_eq!(cat.text, "now logs-1 true\n");

    // An alias takes the name of a collection that is dropped in the same step.
    change(
        &site,
        json!([
            {"remove_index": {"index": "logs-1"}},
            {"add": {"index": "logs-2", "alias": "logs-1"}},
        ]),
    )
    .await;
    assert_eq!(site.database.collections(), ["logs-2"]);
    site.call("PUT /logs-1/_doc/1", "{}").await.done(201);
    site.call("DELETE /logs-1", "")
        .await
        .refused(400, "illegal_argument_exception");
}

#[tokio::test]
async fn actions_that_can_not_all_be_done_do_nothing() {
    let site = Site::new();
    two_collections(&site).await;
    for (action, status) in [
        (json!({"add": {"index": "logs-9", "alias": "a"}}), 404),
        (json!({"add": {"index": "logs-2", "alias": "logs-1"}}), 400),
        (
            json!({"add": {"index": "logs-2", "alias": "a", "routing": ["1"]}}),
            400,
        ),
        (
            json!({"add": {"index": "logs-2", "alias": "a", "filter": {"script": {}}}}),
            400,
        ),
        (json!({"remove": {"index": "logs-2", "alias": "b"}}), 404),
        (json!({"swap": {"index": "logs-2", "alias": "b"}}), 400),
        (json!({"add": {"alias": "b"}}), 400),
    ] {
        let body = json!({"actions": [{"add": {"index": "logs-1", "alias": "a"}}, action]});
        let reply = site.call("POST /_aliases", body.to_string()).await;
        assert_eq!(reply.status, status, "{}", reply.text);
        assert!(site.database.aliases().is_empty(), "{action}");
    }
}
