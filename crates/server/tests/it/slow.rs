//! The log of slow requests: what it says of each.
#![allow(clippy::disallowed_methods, reason = "reads the log as its readers do")]

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::FutureExt as _;
use quire_server::{LogFileOptions, ServerOptions, SlowLog};
use quiredb::OsEnv;
use serde_json::Value;
use tempfile::TempDir;

use crate::site::Site;

/// A server whose requests are slow from this time on, its log, and the path of it.
fn site(over: Duration) -> (Site, SlowLog, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let options = LogFileOptions::new(dir.path().join("slow.log"));
    let log = SlowLog::open(OsEnv::new().unwrap(), options, over).unwrap();
    let site = Site::with(ServerOptions {
        slow_log: Some(log.clone()),
        ..ServerOptions::default()
    });
    (site, log, dir)
}

fn lines(log: &SlowLog, dir: &TempDir) -> Vec<Value> {
    log.flush();
    let text = std::fs::read_to_string(dir.path().join("slow.log")).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn a_slow_request_is_noted_with_its_caller_its_body_and_its_plan() {
    // Every request takes longer than no time at all.
    let (site, log, dir) = site(Duration::ZERO);
    site.collection("jobs");
    for number in 0..30 {
        let body = format!("{{\"n\":{number}}}");
        site.call(&format!("PUT /jobs/_doc/{number}"), body).await;
    }
    let query = "{\"query\":{\"range\":{\"n\":{\"gte\":10}}}}";
    let answer = site.call("POST /jobs/_search?size=3", query).await;
    assert!(!answer.text.contains("planning"), "{}", answer.text);
    // The bound on lines a second is over.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    site.call("POST /jobs/_search?size=3", query)
        .await
        .done(200);
    site.call("POST /jobs/_count", query).await.done(200);
    let header = "{\"index\":\"jobs\"}";
    let searches = format!("{header}\n{query}\n");
    site.call("POST /_msearch", searches).await.done(200);
    let text = site
        .call("POST /jobs/_quire/query", "{\"where\":\"n < 3\"}")
        .await;
    assert_eq!(text.status, 200, "{}", text.text);
    assert!(!text.text.contains("planning"), "{}", text.text);
    site.get("/jobs/_changes?wait_ms=1").await;

    let lines = lines(&log, &dir);
    let first = &lines[0];
    assert_eq!(first["protocol"], "http", "{first}");
    assert_eq!(first["request"], "PUT /jobs/_doc/0", "{first}");
    assert_eq!(
        (&first["token"], &first["status"]),
        (&"".into(), &201.into())
    );
    assert!(first["took_millis"].is_number() && first["time_micros"].is_number());
    // A document is not written without any work.
    assert!(first["cpu_micros"].as_u64() > Some(0), "{first}");
    assert!(first["plan"].is_null());
    let left_out: Vec<u64> = lines
        .iter()
        .filter_map(|line| line["left_out"].as_u64())
        .collect();
    assert_eq!(lines.len() as u64 + left_out.iter().sum::<u64>(), 35);
    assert!(lines.len() < 30 && left_out.len() <= 3, "{left_out:?}");
    let searches: Vec<&Value> = lines
        .iter()
        .filter(|line| !line["plan"].is_null())
        .collect();
    let last = searches.len() - 4;
    let request = searches[last]["request"].as_str().unwrap();
    assert_eq!(request, format!("POST /jobs/_search?size=3 {query}"));
    for line in &searches[last..] {
        let plan = &line["plan"];
        assert_eq!(plan["documents"], 30, "{line}");
        assert!(plan["filter"]["access"].is_object(), "{line}");
        assert!(plan["filter"]["found"].is_number(), "{line}");
    }
    let metrics = site.get("/metrics").await.text;
    assert!(
        metrics.contains("quire_slow_requests_total 35"),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_fast_request_is_not_noted() {
    let (site, log, dir) = site(Duration::from_secs(600));
    site.get("/").await.done(200);
    assert_eq!(lines(&log, &dir), Vec::<Value>::new());
}

#[tokio::test]
async fn what_is_read_in_the_order_of_keys_has_a_plan_too() {
    let (site, log, dir) = site(Duration::ZERO);
    site.collection("jobs");
    site.collection("copies");
    let bulk: String = (0..30)
        .map(|n| format!("{{\"index\":{{\"_id\":\"{n}\"}}}}\n{{\"n\":{n}}}\n"))
        .collect();
    site.call("POST /jobs/_bulk", bulk).await.done(200);
    let query = "{\"query\":{\"range\":{\"n\":{\"gte\":10}}}}";
    let scroll = site
        .call("POST /jobs/_search?scroll=1m&size=5", query)
        .await
        .done(200);
    let next = format!("{{\"scroll_id\":{}}}", scroll["_scroll_id"]);
    site.call("POST /_search/scroll", next).await.done(200);
    let copy = "{\"source\":{\"index\":\"jobs\"},\"dest\":{\"index\":\"copies\"}}";
    site.call("POST /_reindex", copy).await.done(200);
    site.call("POST /jobs/_update_by_query", query)
        .await
        .done(200);
    site.call("POST /jobs/_delete_by_query", query)
        .await
        .done(200);
    let all = "{\"index\":\"jobs\"}\n{}\n{\"index\":\"jobs\"}\n{\"size\":0}\n";
    site.call("POST /_msearch", all).await.done(200);
    let lines = lines(&log, &dir);
    let of = |request: &str| {
        let starts = |line: &&Value| line["request"].as_str().unwrap().starts_with(request);
        let line = lines.iter().find(starts).unwrap();
        line["plan"].clone()
    };
    assert_eq!(of("POST /_search/scroll")["scan"]["matched"], 5);
    for (request, read, matched) in [
        ("POST /_reindex", 30, 30),
        ("POST /jobs/_update_by_query", 30, 20),
        ("POST /jobs/_delete_by_query", 30, 20),
    ] {
        let scan = serde_json::json!({"order": "_id", "read": read, "matched": matched});
        assert_eq!(of(request)["scan"], scan, "{request}");
    }
    assert!(of("POST /_msearch")["documents"].is_number());
}

#[tokio::test]
async fn a_request_whose_client_went_away_is_noted() {
    let (site, log, dir) = site(Duration::ZERO);
    let body = Body::from_stream(futures_util::stream::pending::<Result<Bytes, Infallible>>());
    let answer = site.call("PUT /jobs/_doc/1", body).now_or_never();
    assert!(answer.is_none(), "the body never arrives: {answer:?}");
    let lines = lines(&log, &dir);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["request"], "PUT /jobs/_doc/1");
    assert_eq!(lines[0]["status"], 499, "{}", lines[0]);
}
