//! Many documents in one answer.

use std::time::Duration;

use serde_json::json;

use crate::site::Site;

#[tokio::test]
async fn documents_come_in_the_requested_order() {
    let site = Site::new();
    site.collection("jobs");
    site.collection("other");
    site.call("PUT /jobs/_doc/1", r#"{"a":1.0}"#)
        .await
        .done(201);
    site.call("PUT /jobs/_doc/2", r#"{"a":2,"b":3}"#)
        .await
        .done(201);
    site.call("PUT /other/_doc/1", r#"{"o":1}"#).await.done(201);

    let reply = site
        .call("GET /jobs/_mget", r#"{"ids":["2","x",1,"2"]}"#)
        .await
        .done(200);
    let ids: Vec<_> = reply["docs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["2", "x", "1", "2"]);
    assert_eq!(reply["docs"][0]["_source"], json!({"a": 2, "b": 3}));
    assert_eq!(reply["docs"][0]["_primary_term"], 1);
    assert_eq!(
        reply["docs"][1],
        json!({"_index": "jobs", "_id": "x", "found": false})
    );

    let body = r#"{"docs":[{"_index":"other","_id":"1"},{"_index":"absent","_id":"1"},
        {"_id":"2","_source":["b"]},
        {"_id":"2","_source":false},{"_id":"2","_source":{"excludes":"b"}}]}"#;
    let body_ok = body.replace(r#""b"}}"#, r#"["b"]}}"#);
    let reply = site.call("POST /jobs/_mget", body_ok).await;
    let json = reply.done(200);
    assert_eq!(json["docs"][0]["_source"], json!({"o": 1}));
    assert_eq!(
        json["docs"][1]["error"]["type"],
        "index_not_found_exception"
    );
    assert_eq!(
        json["docs"][1]["error"]["root_cause"][0]["type"],
        "index_not_found_exception"
    );
    assert_eq!(json["docs"][2]["_source"], json!({"b": 3}));
    assert_eq!(json["docs"][3].get("_source"), None);
    assert_eq!(json["docs"][4]["_source"], json!({"a": 2}));

    let reply = site
        .call(
            "POST /jobs/_mget?_source_includes=b&filter_path=docs._source",
            r#"{"ids":["1","2","y"]}"#,
        )
        .await;
    assert_eq!(
        reply.text,
        r#"{"docs":[{"_source":{}},{"_source":{"b":3}}]}"#
    );
    let reply = site
        .call("POST /jobs/_mget?_source=false&pretty", r#"{"ids":["y"]}"#)
        .await;
    assert!(
        reply
            .text
            .starts_with("{\n  \"docs\" : [\n    {\n      \"_index\" : \"jobs\","),
        "{}",
        reply.text
    );
}

#[tokio::test]
async fn an_answer_of_any_length_is_whole() {
    let site = Site::new();
    site.collection("jobs");
    let padding = "x".repeat(20_000);
    for id in 0..50 {
        site.call(
            &format!("PUT /jobs/_doc/{id}"),
            format!(r#"{{"n":{id},"p":"{padding}"}}"#),
        )
        .await
        .done(201);
    }
    let ids: Vec<usize> = (0..2000).map(|at| at * 7 % 60).collect();
    let reply = site
        .call("POST /jobs/_mget", json!({"ids": ids}).to_string())
        .await
        .done(200);
    let items = reply["docs"].as_array().unwrap();
    assert_eq!(items.len(), ids.len());
    for (id, item) in ids.iter().zip(items) {
        assert_eq!(item["_id"], id.to_string());
        assert_eq!(item["found"], *id < 50);
        assert_eq!(
            item["_source"]["n"].as_u64(),
            (*id < 50).then_some(*id as u64)
        );
    }
}

/// Documents of a group are read by partition. Those of the first partitions may take all of its
/// room, and leave none for the one that is next in the answer.
#[tokio::test]
async fn an_answer_goes_on_whichever_partition_its_next_document_is_in() {
    let site = Site::new();
    site.call("PUT /jobs", r#"{"settings":{"number_of_shards":4}}"#)
        .await
        .done(200);
    let padding = "x".repeat(60_000);
    for id in 0..16 {
        let document = format!(r#"{{"n":{id},"p":"{padding}"}}"#);
        site.call(&format!("PUT /jobs/_doc/{id}"), document)
            .await
            .done(201);
    }
    for first in 0..16 {
        // Those that are absent make the next group a large one.
        let absent = (100..132).map(|id| id.to_string());
        let present = (first..16).chain(0..first).map(|id| id.to_string());
        let ids: Vec<String> = absent.chain(present).collect();
        let body = json!({"ids": ids}).to_string();
        let reply = site.call("POST /jobs/_mget", body);
        let reply = tokio::time::timeout(Duration::from_secs(60), reply).await;
        let reply = reply.unwrap().done(200);
        let items = reply["docs"].as_array().unwrap();
        let found = items.iter().map(|item| item["_id"].as_str().unwrap());
        assert!(found.eq(ids.iter().map(String::as_str)), "{first}");
        assert_eq!(items[32]["_source"]["n"], first);
    }
}

#[tokio::test]
async fn requests_for_nothing_are_refused() {
    let site = Site::new();
    site.collection("jobs");
    for (line, body, kind) in [
        ("POST /jobs/_mget", "", "parse_exception"),
        ("POST /jobs/_mget", "{", "parse_exception"),
        ("POST /jobs/_mget", r#"{"what":[]}"#, "parse_exception"),
        (
            "POST /jobs/_mget",
            "{}",
            "action_request_validation_exception",
        ),
        (
            "POST /jobs/_mget",
            r#"{"ids":[]}"#,
            "action_request_validation_exception",
        ),
        (
            "POST /_mget",
            r#"{"ids":["1"]}"#,
            "action_request_validation_exception",
        ),
        (
            "POST /_mget",
            r#"{"docs":[{"_id":"1"}]}"#,
            "action_request_validation_exception",
        ),
        (
            "POST /jobs/_mget",
            r#"{"docs":[{"_id":"1","stored_fields":"x"}]}"#,
            "parse_exception",
        ),
    ] {
        site.call(line, body).await.refused(400, kind);
    }
    let reply = site
        .call(
            "POST /jobs/_mget",
            format!(r#"{{"ids":["{}"]}}"#, "x".repeat(2000)),
        )
        .await
        .done(200);
    assert_eq!(
        reply["docs"][0]["error"]["type"],
        "illegal_argument_exception"
    );
    let large = format!("{{\"ids\":[{}]}}", "1,".repeat(2 << 20));
    site.call("POST /jobs/_mget", large)
        .await
        .refused(413, "content_too_long_exception");
}
