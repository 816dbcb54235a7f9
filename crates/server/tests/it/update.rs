//! Updates of a part of a document.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::site::Site;

#[tokio::test]
async fn a_partial_document_is_merged_and_null_is_a_value() {
    let site = Site::new();
    site.collection("jobs");
    site.call(
        "PUT /jobs/_doc/1",
        r#"{"a":{"x":1,"y":2.50},"b":[1,2],"c":1}"#,
    )
    .await
    .done(201);
    let reply = site
        .call(
            "POST /jobs/_update/1",
            r#"{"doc":{"a":{"x":null},"b":[3],"d":{"z":1}}}"#,
        )
        .await
        .done(200);
    assert_eq!(reply["result"], "updated");
    assert_eq!(reply["_id"], "1");
    let expected = r#"{"a":{"x":null,"y":2.50},"b":[3],"c":1,"d":{"z":1}}"#;
    assert_eq!(site.stored("jobs", "1").unwrap(), expected);
}

#[tokio::test]
async fn an_update_that_changes_nothing_writes_nothing_unless_requested() {
    let site = Site::new();
    site.collection("jobs");
    let version = site.call("PUT /jobs/_doc/1", r#"{"a":1}"#).await.done(201)["_version"].clone();
    let noop = site
        .call("POST /jobs/_update/1", r#"{"doc":{"a":1}}"#)
        .await
        .done(200);
    assert_eq!(
        (&noop["result"], &noop["_version"]),
        (&json!("noop"), &version)
    );
    assert_eq!(
        noop["_shards"],
        json!({"total": 0, "successful": 0, "failed": 0})
    );
    let forced = site
        .call(
            "POST /jobs/_update/1",
            r#"{"doc":{"a":1},"detect_noop":false}"#,
        )
        .await
        .done(200);
    assert_eq!(forced["result"], "updated");
    assert!(forced["_version"].as_u64() > version.as_u64());
}

#[tokio::test]
async fn a_missing_document_is_an_error_or_upserted() {
    let site = Site::new();
    site.collection("jobs");
    let reason = site
        .call("POST /jobs/_update/1", r#"{"doc":{"a":1}}"#)
        .await
        .refused(404, "document_missing_exception");
    assert_eq!(reason, "[1]: document missing");
    let upsert = r#"{"doc":{"a":1},"upsert":{"a":0,"new":true}}"#;
    assert_eq!(
        site.call("POST /jobs/_update/1", upsert).await.done(201)["result"],
        "created"
    );
    assert_eq!(site.stored("jobs", "1").unwrap(), r#"{"a":0,"new":true}"#);
    assert_eq!(
        site.call("POST /jobs/_update/1", upsert).await.done(200)["result"],
        "updated"
    );
    assert_eq!(site.stored("jobs", "1").unwrap(), r#"{"a":1,"new":true}"#);
    let body = r#"{"doc":{"b":1},"doc_as_upsert":true}"#;
    assert_eq!(
        site.call("POST /fresh/_update/2", body).await.done(201)["result"],
        "created"
    );
    assert_eq!(site.stored("fresh", "2").unwrap(), r#"{"b":1}"#);
}

#[tokio::test]
async fn updates_that_fail_say_why() {
    let site = Site::new();
    site.collection("jobs");
    let version = site.call("PUT /jobs/_doc/1", r#"{"a":1}"#).await.done(201)["_version"]
        .as_u64()
        .unwrap();
    for (body, kind, why) in [
        (
            r#"{"script":{"source":"x"}}"#,
            "illegal_argument_exception",
            "[script]",
        ),
        (r#"{"doc":{},"lang":"x"}"#, "parse_exception", "lang"),
        (r#"{"doc":[1]}"#, "mapper_parsing_exception", ""),
        (
            r#"{"upsert":{}}"#,
            "action_request_validation_exception",
            "script or doc is missing",
        ),
        (
            r#"{"doc_as_upsert":true}"#,
            "action_request_validation_exception",
            "doc must be specified",
        ),
        ("", "parse_exception", ""),
    ] {
        let reason = site
            .call("POST /jobs/_update/1", body)
            .await
            .refused(400, kind);
        assert!(reason.contains(why), "{reason}");
    }
    let on = |seq_no: u64| format!("POST /jobs/_update/1?if_seq_no={seq_no}&if_primary_term=1");
    let reason = site
        .call(&on(version + 1), r#"{"doc":{}}"#)
        .await
        .refused(409, "version_conflict_engine_exception");
    assert!(
        reason.contains(&format!("current document has seqNo [{version}]")),
        "{reason}"
    );
    site.call(&on(version), r#"{"doc":{"a":2}}"#)
        .await
        .done(200);
    let retried = format!("{}&retry_on_conflict=3", on(version));
    site.call(&retried, r#"{"doc":{}}"#)
        .await
        .refused(400, "action_request_validation_exception");
}

#[tokio::test]
async fn an_update_shows_the_document_that_it_made() {
    let site = Site::new();
    site.collection("jobs");
    let shown = async |path: &str, body: &str| {
        let path = format!("POST /jobs/_update/{path}");
        let answer = site.call(&path, body.to_owned()).await;
        let answer: serde_json::Value = serde_json::from_str(&answer.text).unwrap();
        assert_eq!(answer["get"]["_seq_no"], answer["_seq_no"], "{answer}");
        assert_eq!(answer["get"]["found"], true, "{answer}");
        answer["get"]["_source"].clone()
    };
    let made = shown(
        "1",
        r#"{"doc":{"a":1,"b":2},"doc_as_upsert":true,"_source":true}"#,
    )
    .await;
    assert_eq!(made, json!({"a": 1, "b": 2}));
    let changed = shown("1?_source_includes=b", r#"{"doc":{"b":3}}"#).await;
    assert_eq!(changed, json!({"b": 3}));
    // What the body says counts more; nothing is changed.
    let same = shown("1?_source=b", r#"{"doc":{"b":3},"_source":["a"]}"#).await;
    assert_eq!(same, json!({"a": 1}));
    // A large document has its memory.
    let long = "x".repeat(1 << 20);
    let large = shown("1?_source", &format!(r#"{{"doc":{{"b":"{long}"}}}}"#)).await;
    assert_eq!(large["b"].as_str().unwrap().len(), 1 << 20);
    let without = site.call("POST /jobs/_update/1?_source=false", r#"{"doc":{"b":4}}"#);
    assert!(without.await.done(200).get("get").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_at_the_same_time_all_take_effect() {
    let site = Arc::new(Site::new());
    site.collection("jobs");
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let site = Arc::clone(&site);
        tasks.spawn(async move {
            for round in 0..10 {
                let body = format!(r#"{{"doc":{{"w{writer}":{round}}},"doc_as_upsert":true}}"#);
                let line = "POST /jobs/_update/1?retry_on_conflict=100";
                let reply = site.call(line, body).await;
                assert!(reply.status < 300, "{}", reply.text);
            }
        });
    }
    tasks.join_all().await;
    let stored: Value = serde_json::from_str(&site.stored("jobs", "1").unwrap()).unwrap();
    for writer in 0..8 {
        assert_eq!(stored[format!("w{writer}")], 9, "{stored}");
    }
}
