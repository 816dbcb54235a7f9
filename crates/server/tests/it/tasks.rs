//! Running requests: listed while they run, and cancelled.

use std::path::PathBuf;
use std::time::Duration;

use axum::body::Bytes;
use quire_server::{MemcachedOptions, NewToken, Role, ServerOptions, Tokens};
use quiredb::OsEnv;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::site::{Listening, Site, pieces, read_all, read_until};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(3600);

/// Calls until the answer is as wanted.
async fn until(site: &Site, line: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let answer = site.call(line, "").await.done(200);
        if wanted(&answer) {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The only task in a list.
fn only(answer: &Value) -> (String, Value) {
    let tasks = answer["nodes"]["quire"]["tasks"].as_object().unwrap();
    assert_eq!(tasks.len(), 1, "{answer}");
    let (id, task) = tasks.iter().next().unwrap();
    (id.clone(), task.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_bulk_is_listed_shown_and_cancelled() {
    let site = Site::new();
    let lines = Bytes::from("{\"index\":{\"_index\":\"a\",\"_id\":\"1\"}}\n{\"n\":1}\n");
    let body = pieces(vec![Ok(lines)], LONG);
    let calls = async {
        let is_listed = |answer: &Value| answer["nodes"] != json!({});
        let answer = until(&site, "GET /_tasks?actions=*bulk", is_listed).await;
        let (id, task) = only(&answer);
        assert_eq!(task["action"], "indices:data/write/bulk");
        assert_eq!(task["description"], "POST /_bulk?refresh=true");
        assert_eq!(task["cancellable"], true);
        assert_eq!(task["cancelled"], false);
        assert!(task["start_time_in_millis"].as_u64() > Some(0));
        assert!(task["running_time_in_nanos"].is_u64());
        assert_eq!(id, format!("quire:{}", task["id"]));

        let shown = site.get(&format!("/_tasks/{id}")).await.done(200);
        assert_eq!(shown["completed"], false);
        assert_eq!(shown["task"]["id"], task["id"]);
        let rows = site.get("/_cat/tasks?format=json").await.done(200);
        let rows: Vec<_> = rows.as_array().unwrap().iter().collect();
        assert_eq!(rows[0]["task_id"], json!(id));
        // The request for the table is in it.
        assert_eq!(rows[1]["action"], "cluster:monitor/tasks/lists");
        let text = site.get("/_cat/tasks?v&h=action,description").await.text;
        assert!(text.starts_with("action "), "{text}");

        let line = format!("POST /_tasks/{id}/_cancel");
        let (cancelled, task) = only(&site.call(&line, "").await.done(200));
        assert_eq!((cancelled, &task["cancelled"]), (id.clone(), &json!(true)));
        id
    };
    let bulk = site.call("POST /_bulk?refresh=true", body);
    let (bulk, id) = tokio::join!(bulk, calls);
    bulk.refused(400, "task_cancelled_exception");
    let gone = site.get(&format!("/_tasks/{id}")).await;
    gone.refused(404, "resource_not_found_exception");
    let list = site.get("/_tasks?actions=*bulk").await.done(200);
    assert_eq!(list, json!({"nodes": {}}));
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_grouped_and_wrong_requests_refused() {
    let site = Site::new();
    let list = site.get("/_tasks?group_by=none").await.done(200);
    let own = &list["tasks"][0];
    assert_eq!(own["action"], "cluster:monitor/tasks/lists");
    let list = site.get("/_tasks?group_by=parents").await.done(200);
    assert_eq!(list["tasks"].as_object().unwrap().len(), 1);
    let none = site.get("/_tasks?nodes=other").await.done(200);
    assert_eq!(none, json!({"nodes": {}}));

    for line in [
        "GET /_tasks/7",
        "GET /_tasks/quire:x",
        "GET /_tasks?group_by=x",
        "GET /_tasks?wait_for_completion=true",
        "GET /_tasks?parent_task_id=7",
        "POST /_tasks/other:1/_cancel",
    ] {
        let refused = site.call(line, "").await;
        refused.refused(400, "illegal_argument_exception");
    }
    let absent = site.call("POST /_tasks/quire:999999/_cancel", "").await;
    absent.refused(404, "resource_not_found_exception");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_whose_clients_go_away_are_no_longer_listed() {
    let site = Listening::new(ServerOptions::default()).await;
    site.database
        .collection_or_create("a", Default::default)
        .unwrap();
    let request = b"GET /a/_changes?wait_ms=60000 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut waiting = site.connect().await;
    waiting.write_all(request).await.unwrap();
    let list = "GET /_tasks?actions=*_changes HTTP/1.1\r\nhost: localhost\r\n\
                connection: close\r\n\r\n";
    while !site
        .exchange(list.as_bytes())
        .await
        .contains("_changes?wait_ms")
    {}
    let listed = site.exchange(list.as_bytes()).await;
    let address = waiting.local_addr().unwrap().to_string();
    assert!(listed.contains(&address), "{listed}");
    drop(waiting);
    while site
        .exchange(list.as_bytes())
        .await
        .contains("_changes?wait_ms")
    {}

    // A cancelled one is answered at once.
    let mut waiting = site.connect().await;
    let request = b"GET /a/_changes?wait_ms=60000 HTTP/1.1\r\nhost: localhost\r\n\
                    connection: close\r\n\r\n";
    waiting.write_all(request).await.unwrap();
    while !site
        .exchange(list.as_bytes())
        .await
        .contains("_changes?wait_ms")
    {}
    let cancel = "POST /_tasks/_cancel?actions=*_changes HTTP/1.1\r\nhost: localhost\r\n\
                  connection: close\r\ncontent-length: 0\r\n\r\n";
    assert!(
        site.exchange(cancel.as_bytes())
            .await
            .contains("\"cancelled\":true")
    );
    let answer = read_all(&mut waiting).await;
    assert!(answer.contains("task_cancelled_exception"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_whose_answer_is_being_read_is_listed_and_can_be_cut() {
    let site = Listening::new(ServerOptions {
        idle_timeout: LONG,
        ..ServerOptions::default()
    })
    .await;
    let collection = site
        .database
        .collection_or_create("a", Default::default)
        .unwrap();
    for id in 0..200 {
        let text = format!("{{\"_id\":\"{id}\",\"text\":\"{}\"}}", "x".repeat(100_000));
        let document = quiredb::Document::from_json(text.as_bytes()).unwrap();
        collection.put(&document).unwrap();
    }
    let mut client = site.connect().await;
    let search = "POST /a/_search HTTP/1.1\r\nhost: localhost\r\nx-opaque-id: mine\r\n\
                  connection: close\r\ncontent-length: 38\r\n\r\n\
                  {\"size\":200,\"query\":{\"match_all\":{}}}\n";
    client.write_all(search.as_bytes()).await.unwrap();
    let list =
        b"GET /_tasks?actions=*search HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    // The client reads nothing, and 20 MB fit in no socket.
    while !site.exchange(list).await.contains("read/search") {}
    let listed = site.exchange(list).await;
    assert!(
        listed.contains("match_all") && listed.contains("mine"),
        "{listed}"
    );
    let cancel = b"POST /_tasks/_cancel?actions=*search HTTP/1.1\r\nhost: localhost\r\n\
                   connection: close\r\ncontent-length: 0\r\n\r\n";
    site.exchange(cancel).await;
    let answer = read_all(&mut client).await;
    assert!(answer.len() < 20_000_000 && !answer.ends_with("0\r\n\r\n"));
    assert!(site.exchange(list).await.contains("\"nodes\":{}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_sees_and_cancels_its_own_requests_and_a_manager_all() {
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join("tokens");
    let tokens = Tokens::open_or_create(OsEnv::new().unwrap(), &path).unwrap();
    let make = |name: &str, role, pattern: &str| {
        let new = NewToken {
            name: name.to_owned(),
            role,
            collections: vec![pattern.to_owned()],
            lifetime: None,
            limit: None,
        };
        tokens.create(new).unwrap()
    };
    let reader = make("reader", Role::Read, "*");
    let other = make("other", Role::Manage, "a");
    let manager = make("manager", Role::Manage, "*");
    let site = Listening::new(ServerOptions {
        tokens: Some(tokens.clone()),
        ..ServerOptions::default()
    })
    .await;
    site.database
        .collection_or_create("a", Default::default)
        .unwrap();
    let request = |token: &str, line: &str| {
        format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
             connection: close\r\ncontent-length: 0\r\n\r\n"
        )
    };
    let call = async |token: &str, line: &str| site.exchange(request(token, line).as_bytes()).await;
    let list = "GET /_tasks?actions=*_changes";
    let mut waiting = TcpStream::connect(site.address).await.unwrap();
    let wait = request(&reader, "GET /a/_changes?wait_ms=60000");
    waiting.write_all(wait.as_bytes()).await.unwrap();
    while !call(&reader, list).await.contains("\"token\":\"reader\"") {}
    assert!(call(&manager, list).await.contains("\"token\":\"reader\""));
    assert!(call(&other, list).await.contains("\"nodes\":{}"));
    let cancel = "POST /_tasks/_cancel?actions=*_changes";
    assert!(call(&other, cancel).await.contains("\"nodes\":{}"));
    assert!(call(&reader, list).await.contains("\"cancelled\":false"));
    assert!(call(&manager, cancel).await.contains("\"cancelled\":true"));
    let answer = read_all(&mut waiting).await;
    assert!(answer.contains("task_cancelled_exception"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_listed_after_its_request_and_ends_when_it_is_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::with(ServerOptions {
        backup_dir: Some(dir.path().to_owned()),
        ..ServerOptions::default()
    });
    let collection = site.collection("a");
    for id in 0..200 {
        let text = format!("{{\"_id\":\"{id}\",\"text\":\"{}\"}}", "x".repeat(10_000));
        let document = quiredb::Document::from_json(text.as_bytes()).unwrap();
        collection.put(&document).unwrap();
    }
    // At a byte a second it does not end by itself.
    for (line, path, action) in [
        (
            "POST /_backup/b?rate_bytes=1",
            "/_backup",
            "cluster:admin/snapshot/create",
        ),
        (
            "POST /_verify?rate_bytes=1",
            "/_verify",
            "quire:admin/verify",
        ),
    ] {
        site.call(line, "").await.done(202);
        let list = format!("/_tasks?actions={action}");
        let (id, task) = only(&site.get(&list).await.done(200));
        assert!(
            task["parent_task_id"]
                .as_str()
                .unwrap()
                .starts_with("quire:")
        );
        site.call(&format!("POST /_tasks/{id}/_cancel"), "")
            .await
            .done(200);
        let ended = |state: &Value| state["running"].is_null();
        let state = until(&site, &format!("GET {path}"), ended).await;
        assert_eq!(state["last"]["succeeded"], false, "{state}");
        assert_eq!(site.get(&list).await.done(200), json!({"nodes": {}}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_memcached_are_listed_while_they_run_and_end_when_cancelled() {
    let site = Listening::new(ServerOptions {
        memcached: Some(MemcachedOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            ..MemcachedOptions::default()
        }),
        ..ServerOptions::default()
    })
    .await;
    let mut stream = TcpStream::connect(site.memcached.unwrap()).await.unwrap();
    let text = "x".repeat(1 << 20);
    let value = format!("{{\"text\":\"{text}\"}}");
    let set = format!("set c:long 0 0 {}\r\n{value}\r\n", value.len());
    stream.write_all(set.as_bytes()).await.unwrap();
    read_until(&mut stream, "STORED").await;
    // The client reads nothing, so the requests run until it is given up.
    let gets = "get c:long\r\n".repeat(100);
    stream.write_all(gets.as_bytes()).await.unwrap();
    let list = "GET /_tasks?actions=memcached&group_by=none HTTP/1.1\r\nHost: localhost\r\n\
                Connection: close\r\n\r\n";
    let shown = loop {
        let answer = site.exchange(list.as_bytes()).await;
        if answer.contains("get c:long") {
            break answer;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(shown.contains("\"action\":\"memcached\""), "{shown}");
    let own = stream.local_addr().unwrap().to_string();
    assert!(shown.contains(&own) && shown.contains(" more\""), "{shown}");
    let id = shown.split("\"id\":").nth(1).unwrap();
    let id: String = id.chars().take_while(char::is_ascii_digit).collect();
    let id = format!("quire:{id}");
    let cancel = format!(
        "POST /_tasks/{id}/_cancel HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\
         Connection: close\r\n\r\n"
    );
    let answer = site.exchange(cancel.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(
        answer.ends_with("SERVER_ERROR cancelled by user request\r\n"),
        "{:?}",
        &answer[answer.len().saturating_sub(100)..]
    );
    assert!(answer.matches("VALUE").count() < 100);
    while site.exchange(list.as_bytes()).await.contains("get c:long") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn running_work_is_given_another_rate() {
    let site = Site::new();
    let mut lines = String::new();
    for number in 0..50 {
        lines += &format!("{{\"index\":{{\"_id\":\"{number}\"}}}}\n{{\"n\":{number}}}\n");
    }
    site.call("POST /a/_bulk", lines).await.done(200);
    // At this rate the second batch is due in half a minute at the soonest.
    let body = json!({"source": {"index": "a", "size": 10}, "dest": {"index": "b"}});
    let call = "POST /_reindex?wait_for_completion=false&requests_per_second=0.01";
    let begun = site.call(call, body.to_string()).await.done(200);
    let id = begun["task"].as_str().unwrap().to_owned();
    let rethrottle = |rate: &str| format!("POST /_reindex/{id}/_rethrottle{rate}");
    let refused = site.call(&rethrottle(""), "").await;
    let why = refused.refused(400, "illegal_argument_exception");
    assert!(why.contains("requests_per_second"), "{why}");
    let refused = site.call(&rethrottle("?requests_per_second=0"), "").await;
    refused.refused(400, "illegal_argument_exception");
    // How far it is: one batch of the five is done.
    let show = format!("GET /_tasks/{id}");
    let shown = until(&site, &show, |shown| {
        assert_eq!(shown["completed"], false, "{shown}");
        shown["task"]["status"]["batches"] == 1
    });
    let status = shown.await["task"]["status"].clone();
    assert_eq!(status["total"], 50, "{status}");
    assert_eq!(status["created"], 10, "{status}");
    assert_eq!(status["requests_per_second"], 0.01, "{status}");

    let answer = site.call(&rethrottle("?requests_per_second=-1"), "").await;
    let (of, _) = only(&answer.done(200));
    assert_eq!(of, id);
    let is_done = |answer: &Value| answer["completed"] == true;
    let done = until(&site, &format!("GET /_tasks/{id}"), is_done).await;
    assert_eq!(done["response"]["total"], 50);
    assert_eq!(done["response"]["requests_per_second"], -1.0);
    let absent = site.call(&rethrottle("?requests_per_second=5"), "").await;
    absent.refused(404, "resource_not_found_exception");
}
