//! Bulk requests.

use std::io::Write;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::Request;
use quire_server::ServerOptions;
use serde_json::{Value, json};

use crate::site::{Site, pieces};

fn statuses(reply: &Value) -> Vec<u64> {
    let items = reply["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| {
            item.as_object().unwrap().values().next().unwrap()["status"]
                .as_u64()
                .unwrap()
        })
        .collect()
}

#[tokio::test]
async fn each_item_is_done_on_its_own_and_in_order() {
    let site = Site::new();
    site.collection("jobs");
    let body = r#"{"index":{"_index":"jobs","_id":"1"}}
{"a":1.0}
{"create":{"_id":"1"}}
{"a":2}
{"update":{"_id":"1"}}
{"doc":{"b":2}}

{"update":{"_id":1}}
{"doc":{"c":3}}
{"update":{"_id":"missing"}}
{"doc":{"c":3}}
{"update":{"_id":"new"}}
{"doc":{"n":1},"doc_as_upsert":true}
{"delete":{"_id":"missing"}}
{"index":{"_id":"bad"}}
{"a":}
{"index":{}}
{"auto":true}
{"delete":{"_id":"new"}}
{"update":{"_id":"new"}}
{"doc":{"n":2},"upsert":{"n":0}}
{"index":{"_index":"other","_id":"9"}}
{}
{"index":{"_index":"Wrong","_id":"9"}}
{}
{"delete":{"_index":"absent","_id":"9"}}
{"index":{"_id":"r","routing":"x"}}
{}
{"update":{"_id":"1","if_seq_no":1000000,"if_primary_term":1}}
{"doc":{"c":4}}
{"delete":{}}"#;
    let reply = site
        .call("POST /jobs/_bulk?refresh=wait_for", body)
        .await
        .done(200);
    assert_eq!(reply["errors"], true);
    assert!(reply["took"].is_u64());
    let expected = [
        201, 409, 200, 200, 404, 201, 404, 400, 201, 200, 201, 201, 400, 404, 201, 409, 400,
    ];
    assert_eq!(statuses(&reply), expected, "{reply:#}");
    let items = &reply["items"];
    let version = &items[0]["index"]["_version"];
    assert_eq!(
        items[0],
        json!({"index": {"_index": "jobs", "_id": "1", "_version": version, "result": "created",
               "_shards": {"total": 1, "successful": 1, "failed": 0},
                "_seq_no": version, "_primary_term": 1,
               "status": 201}})
    );
    assert_eq!(
        items[1]["create"]["error"]["type"],
        "version_conflict_engine_exception"
    );
    assert_eq!(
        items[4]["update"]["error"]["type"],
        "document_missing_exception"
    );
    assert_eq!(items[6]["delete"]["result"], "not_found");
    assert_eq!(
        items[7]["index"]["error"]["type"],
        "mapper_parsing_exception"
    );
    assert_eq!(items[7]["index"]["_id"], "bad");
    let auto = items[8]["index"]["_id"].as_str().unwrap();
    assert_eq!(site.stored("jobs", auto).unwrap(), r#"{"auto":true}"#);
    assert_eq!(
        items[12]["index"]["error"]["type"],
        "invalid_index_name_exception"
    );
    assert_eq!(
        items[13]["delete"]["error"]["type"],
        "index_not_found_exception"
    );
    assert_eq!(
        site.stored("jobs", "1").unwrap(),
        r#"{"a":1.0,"b":2,"c":3}"#
    );
    assert_eq!(site.stored("jobs", "new").unwrap(), r#"{"n":0}"#);
    assert_eq!(site.stored("other", "9").unwrap(), "{}");
}

#[tokio::test]
async fn an_answer_without_failures_says_so_and_can_be_filtered() {
    let site = Site::new();
    let body = "{\"index\":{\"_index\":\"jobs\",\"_id\":\"1\"}}\n{}\n\
                {\"delete\":{\"_index\":\"jobs\",\"_id\":\"x\"}}\n";
    let reply = site.call("PUT /_bulk/", body).await.done(200);
    assert_eq!(reply["errors"], false);
    assert_eq!(statuses(&reply), [201, 404]);
    let filter = "POST /_bulk?filter_path=errors,items.*.error,items.*.status";
    let reply = site.call(filter, body).await;
    assert_eq!(
        reply.text,
        r#"{"errors":false,"items":[{"index":{"status":200}},{"delete":{"status":404}}]}"#
    );
    let reply = site
        .call("POST /_bulk?filter_path=errors,items.*.error", body)
        .await;
    assert_eq!(reply.text, r#"{"errors":false}"#);
    let reply = site
        .call("POST /_bulk?filter_path=-took,-items", body)
        .await;
    assert_eq!(reply.text, r#"{"errors":false}"#);
    let pretty = site
        .call("POST /_bulk?pretty&filter_path=errors", body)
        .await;
    assert_eq!(pretty.text, "{\n  \"errors\" : false\n}\n");
}

#[tokio::test]
async fn a_filter_shows_an_item_for_what_it_has_whatever_items_before_it_had() {
    let site = Site::new();
    let put = |op: &str, id: &str| {
        format!("{{\"{op}\":{{\"_index\":\"jobs\",\"_id\":\"{id}\"}}}}\n{{\"n\":1}}\n")
    };
    let patch = |source: bool| {
        let line = r#"{"update":{"_index":"jobs","_id":"1"}}"#;
        format!("{line}\n{{\"doc\":{{\"m\":2}},\"_source\":{source}}}\n")
    };
    let body = [
        put("index", "1"),
        put("create", "2"),
        put("index", "3"),
        put("create", "2"),
        patch(false),
        patch(true),
        patch(false),
    ]
    .concat();
    let filter = "POST /_bulk?filter_path=items.*.error.type,items.*.get._source,items.index._id";
    let reply = site.call(filter, body).await;
    assert_eq!(
        reply.text,
        r#"{"items":[{"index":{"_id":"1"}},{"index":{"_id":"3"}},"#.to_owned()
            + r#"{"create":{"error":{"type":"version_conflict_engine_exception"}}},"#
            + r#"{"update":{"get":{"_source":{"n":1,"m":2}}}}]}"#
    );
}

#[tokio::test]
async fn a_malformed_line_is_named_and_nothing_of_a_short_body_applied() {
    let site = Site::new();
    site.collection("jobs");
    let good = "{\"index\":{\"_id\":\"1\"}}\n{}\n";
    for (bad, line) in [
        ("nonsense\n", "line [3]"),
        ("[]\n{}\n", "line [3]"),
        ("{\"put\":{}}\n{}\n", "line [3]"),
        ("{\"index\":{\"_type\":\"x\"}}\n{}\n", "line [3]"),
        ("{\"index\":{\"_id\":\"2\"}}", "no source line follows"),
        ("{\"index\":{\"_id\":\"2\"}}\n{}\n{\"index\":\n", "line [5]"),
    ] {
        let reply = site.call("POST /jobs/_bulk", format!("{good}{bad}")).await;
        let reason = reply.refused(400, "illegal_argument_exception");
        assert!(
            reason.contains(line) && reason.ends_with("nothing of this request was applied"),
            "{reason}"
        );
    }
    for empty in ["", "\n", "  \n\n"] {
        site.call("POST /jobs/_bulk", empty)
            .await
            .refused(400, "parse_exception");
    }
    let reason = site
        .call("POST /_bulk", "{\"delete\":{\"_id\":\"1\"}}\n")
        .await;
    reason.refused(400, "action_request_validation_exception");
    site.call("POST /jobs/_bulk?pipeline=x", good)
        .await
        .refused(400, "illegal_argument_exception");
    assert_eq!(site.stored("jobs", "1"), None);
}

fn items(from: usize, to: usize, document_bytes: usize) -> String {
    let padding = "x".repeat(document_bytes);
    (from..to)
        .map(|id| format!("{{\"index\":{{\"_id\":{id}}}}}\n{{\"n\":{id},\"p\":\"{padding}\"}}\n"))
        .collect()
}

#[tokio::test]
async fn a_long_body_is_applied_as_it_arrives_and_a_cut_keeps_what_was_applied() {
    let site = Site::new();
    let jobs = site.collection("jobs");
    // Three whole batches and a part of one.
    let text = items(0, 7000, 1000);
    let cut = |error: bool| {
        let mut parts: Vec<Result<Bytes, std::io::Error>> = text
            .as_bytes()
            .chunks(700_001)
            .map(|piece| Ok(Bytes::copy_from_slice(piece)))
            .collect();
        if error {
            parts.push(Err(std::io::Error::other("cut")));
        }
        pieces(parts, Duration::from_millis(2))
    };
    let reason = site
        .call("POST /jobs/_bulk", cut(true))
        .await
        .refused(400, "parse_exception");
    let applied = jobs.count().unwrap();
    assert!(applied > 3000 && applied < 7000, "{applied}");
    assert!(
        reason.ends_with(&format!(
            "; the first {applied} items of this request were applied"
        )),
        "{reason}"
    );
    for id in [0, applied - 1] {
        assert!(site.stored("jobs", &id.to_string()).is_some());
    }
    assert_eq!(site.stored("jobs", &applied.to_string()), None);

    let reply = site.call("POST /jobs/_bulk", cut(false)).await.done(200);
    assert_eq!(reply["items"].as_array().unwrap().len(), 7000);
    assert_eq!(reply["errors"], false);
    assert_eq!(jobs.count().unwrap(), 7000);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_with_what_was_applied() {
    let site = Site::with(ServerOptions {
        body_bytes_max: 5 << 20,
        ..ServerOptions::default()
    });
    let jobs = site.collection("jobs");
    let text = items(0, 6000, 1000);
    let parts = text
        .as_bytes()
        .chunks(1 << 18)
        .map(|part| Ok(Bytes::copy_from_slice(part)));
    let body = pieces(parts.collect(), Duration::ZERO);
    let reply = site.call("POST /jobs/_bulk", body).await;
    let reason = reply.refused(413, "content_too_long_exception");
    let applied = jobs.count().unwrap();
    assert!(
        applied > 0 && reason.contains(&format!("the first {applied} items")),
        "{reason}"
    );
    let request = Request::post("/jobs/_bulk")
        .header("content-length", 6 << 20)
        .body(Body::from("x"))
        .unwrap();
    let reason = site
        .send(request)
        .await
        .refused(413, "content_too_long_exception");
    assert!(reason.contains("nothing of this request"), "{reason}");
}

#[tokio::test]
async fn a_document_too_large_fails_alone() {
    let site = Site::new();
    site.collection("jobs");
    let large = "x".repeat(16 << 20);
    let body = format!(
        "{{\"index\":{{\"_id\":1}}}}\n{{}}\n\
         {{\"index\":{{\"_id\":2}}}}\n{{\"a\":\"{large}\"}}\n\
         {{\"index\":{{\"_id\":3}}}}\n{{}}\n"
    );
    let reply = site.call("POST /jobs/_bulk", body).await.done(200);
    assert_eq!(statuses(&reply), [201, 413, 201]);
    assert_eq!(
        reply["items"][1]["index"]["error"]["type"],
        "content_too_long_exception"
    );
}

#[tokio::test]
async fn a_gzip_body_is_accepted() {
    let site = Site::new();
    let jobs = site.collection("jobs");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(items(0, 500, 100).as_bytes()).unwrap();
    let zipped = encoder.finish().unwrap();
    let request = Request::post("/jobs/_bulk")
        .header("content-encoding", "gzip")
        .body(Body::from(zipped))
        .unwrap();
    assert_eq!(site.send(request).await.done(200)["errors"], false);
    assert_eq!(jobs.count().unwrap(), 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn bulk_updates_of_one_document_by_many_clients_all_take_effect() {
    let site = std::sync::Arc::new(Site::new());
    site.collection("jobs");
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let site = std::sync::Arc::clone(&site);
        tasks.spawn(async move {
            let body: String = (0..20)
                .map(|n| {
                    let meta = r#"{"update":{"_id":"1","retry_on_conflict":1000}}"#;
                    format!("{meta}\n{{\"doc\":{{\"w{writer}_{n}\":1}},\"doc_as_upsert\":true}}\n")
                })
                .collect();
            let reply = site.call("POST /jobs/_bulk", body).await.done(200);
            assert_eq!(reply["errors"], false, "{reply}");
        });
    }
    tasks.join_all().await;
    let stored: Value = serde_json::from_str(&site.stored("jobs", "1").unwrap()).unwrap();
    assert_eq!(stored.as_object().unwrap().len(), 80);
}
