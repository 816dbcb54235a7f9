//! Memory of requests: what can never have its memory is refused before it takes any.

use std::sync::Arc;
use std::time::Duration;

use quire_server::ServerOptions;
use quiredb::{CollectionSettings, Database, Document, IndexedFields, Key, Write};

use crate::site::{Listening, Site};

/// A document of one array of this many numbers, whose encoding is three times its text.
fn numbers(count: usize) -> String {
    format!("{{\"n\":[1{}]}}", ",1".repeat(count - 1))
}

#[tokio::test]
async fn a_document_whose_encoding_can_never_have_its_memory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::builder(dir.path().join("db"));
    let database = database.memory(16 << 20).open().unwrap();
    let site = Site::over(database, ServerOptions::default());
    site.collection("c");
    // 8 MiB of text, 24 MiB encoded: with what is made of them more than there is.
    let large = numbers(4 << 20);
    let update = format!("{{\"doc_as_upsert\":true,\"doc\":{large}}}");
    let bulk = format!("{{\"index\":{{\"_id\":\"1\"}}}}\n{large}\n");
    for (line, body) in [
        ("PUT /c/_doc/1", large),
        ("POST /c/_update/1", update),
        ("POST /c/_bulk", bulk),
    ] {
        let reason = site
            .call(line, body)
            .await
            .refused(413, "circuit_breaking_exception");
        assert!(reason.contains("--memory"), "{line}: {reason}");
    }
    assert_eq!(site.stored("c", "1"), None);
    let small = numbers(2 << 20);
    site.call("PUT /c/_doc/1", small.clone()).await.done(201);
    assert_eq!(site.stored("c", "1"), Some(small));
    let stats = site.database.stats().unwrap();
    assert!(stats.work_peak_bytes <= stats.work_bytes_max, "{stats:?}");
}

/// A server of 16 MiB with a collection of two partitions.
async fn listening() -> Listening {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::builder(dir.path().join("db"));
    let database = database.memory(16 << 20).open().unwrap();
    let site = Listening::over(database, dir, ServerOptions::default()).await;
    let settings = r#"{"partitions":2,"durability":"none"}"#;
    let settings = CollectionSettings::from_json(settings.as_bytes()).unwrap();
    site.database.create_collection("c", settings).unwrap();
    site
}

/// A bulk of a thousand documents of 21 fields.
fn thousand(round: usize) -> String {
    let document = |id: usize| {
        let fields = (0..20).map(|n| format!(",\"f{n}\":{}", id * 31 + n));
        let fields: String = fields.collect();
        format!("{{\"index\":{{}}}}\n{{\"id\":{id}{fields}}}\n")
    };
    (round * 1_000..(round + 1) * 1_000).map(document).collect()
}

/// Points in time and scrolls of different moments each hold memory that writes need.
#[tokio::test(flavor = "multi_thread")]
async fn writes_go_on_whatever_is_kept_open() {
    let site = listening().await;
    let mut opened = Vec::new();
    for round in 0..16 {
        let answer = site.call("POST /c/_bulk", &thousand(round)).await.done(200);
        assert_eq!(answer["errors"], false, "{round}: {answer}");
        let found = match round % 2 {
            0 => {
                site.call("POST /c/_search/point_in_time?keep_alive=1h", "")
                    .await
            }
            _ => {
                let sorted = "{\"size\":1,\"sort\":[\"id\"]}";
                site.call("POST /c/_search?scroll=1h", sorted).await
            }
        };
        let found = found.done(200);
        let id = found.get("pit_id").or(found.get("_scroll_id")).unwrap();
        opened.push(id.as_str().unwrap().to_owned());
    }
    // The newest is kept, and shows what was there.
    let scroll = format!("{{\"scroll_id\":\"{}\"}}", opened[15]);
    let page = site.call("POST /_search/scroll", &scroll).await.done(200);
    assert_eq!(page["hits"]["hits"][0]["_source"]["id"], 1);
    // Whose memory was needed says so.
    let point = format!("{{\"pit\":{{\"id\":\"{}\"}}}}", opened[0]);
    let refused = site.call("POST /_search", &point).await;
    let reason = refused.refused(404, "search_context_missing_exception");
    assert!(reason.contains("memory"), "{reason}");
}

/// Changes by query and copies that take long read files alone, so none is ended for its memory.
#[tokio::test(flavor = "multi_thread")]
async fn writes_go_on_beside_slow_changes_by_query() {
    let site = listening().await;
    let rate = "requests_per_second=1&wait_for_completion=false";
    let by_query = format!("{rate}&scroll_size=1&conflicts=proceed");
    let mut tasks = Vec::new();
    for round in 0..16 {
        let answer = site.call("POST /c/_bulk", &thousand(round)).await.done(200);
        assert_eq!(answer["errors"], false, "{round}: {answer}");
        let (line, body) = match round % 4 {
            0 => (format!("POST /c/_update_by_query?{by_query}"), ""),
            1 => (format!("POST /c/_update_by_query?{by_query}&slices=2"), ""),
            2 => {
                let one = r#"{"query":{"term":{"id":2500}}}"#;
                (format!("POST /c/_delete_by_query?{by_query}"), one)
            }
            _ => {
                let copy = r#"{"source":{"index":"c","sort":[{"id":"desc"}]},
                               "dest":{"index":"d"}}"#;
                (format!("POST /_reindex?{rate}"), copy)
            }
        };
        let begun = site.call(&line, body).await.done(200);
        tasks.push(begun["task"].as_str().unwrap().to_owned());
    }
    for (number, id) in tasks.into_iter().enumerate() {
        let line = format!("GET /_tasks/{id}");
        let mut answer = site.call(&line, "").await.done(200);
        let is_short = number % 4 == 2;
        let is_awaited = |answer: &serde_json::Value| {
            let is_counted = answer["task"]["status"]["total"].is_u64();
            answer["completed"] == false && (is_short || !is_counted)
        };
        while is_awaited(&answer) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            answer = site.call(&line, "").await.done(200);
        }
        assert_eq!(answer["completed"], is_short, "{answer}");
        // What it read is as of its moment.
        let total = &answer["task"]["status"]["total"];
        match number % 4 {
            2 => assert_eq!(*total, u64::from(number == 2), "{answer}"),
            _ => assert!(total.as_u64() >= Some(1_000 * number as u64), "{answer}"),
        }
        site.call(&format!("POST /_tasks/{id}/_cancel"), "").await;
    }
}

#[tokio::test]
async fn a_document_that_can_never_have_its_memory_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let open = |memory| {
        let database = Database::builder(dir.path().join("db"));
        database.memory(memory).open().unwrap()
    };
    // 6 MiB of text, 18 MiB encoded: it is written with more memory than it is read with.
    let site = Site::over(open(256 << 20), ServerOptions::default());
    site.collection("c");
    site.call("PUT /c/_doc/1", numbers(3 << 20)).await.done(201);
    site.database.close().unwrap();
    drop(site);
    let site = Site::over(open(16 << 20), ServerOptions::default());
    for line in ["GET /c/_doc/1", "GET /c/_source/1"] {
        let reason = site
            .call(line, "")
            .await
            .refused(413, "circuit_breaking_exception");
        assert!(reason.contains("--memory"), "{line}: {reason}");
    }
    let stats = site.database.stats().unwrap();
    assert!(stats.work_peak_bytes <= stats.work_bytes_max, "{stats:?}");
}

#[tokio::test]
async fn a_merge_that_can_never_have_its_memory_is_refused_before_it_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::builder(dir.path().join("db"));
    let database = database.memory(16 << 20).open().unwrap();
    let site = Site::over(database, ServerOptions::default());
    site.collection("c");
    let field = |name: &str, mib: usize| format!("{{\"{name}\":\"{}\"}}", "x".repeat(mib << 20));
    site.call("PUT /c/_doc/1", field("a", 9)).await.done(201);
    // 14 MiB in the end.
    let update = |mib| format!("{{\"doc\":{}}}", field("b", mib));
    // Background work with the document before may have the memory.
    while site.call("POST /c/_update/1", update(5)).await.status == 429 {}
    assert_eq!(site.stored("c", "1").unwrap().len(), (14 << 20) + 15);
    let mut answer = site.call("POST /c/_update/1", update(12)).await;
    while answer.status == 429 {
        answer = site.call("POST /c/_update/1", update(12)).await;
    }
    let reason = answer.refused(413, "circuit_breaking_exception");
    assert!(reason.contains("--memory"), "{reason}");
}

/// Sixteen scrolls at once, each of pages of three documents of 12 MiB, with memory for one such
/// document: none is refused, and each has every document once, unordered or ordered.
#[tokio::test(flavor = "multi_thread")]
async fn scrolls_of_large_documents_wait_for_each_other_and_are_not_refused() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::builder(dir.path().join("db"));
    let database = database.memory(16 << 20).open().unwrap();
    let options = ServerOptions {
        request_timeout: Duration::from_secs(3600),
        ..ServerOptions::default()
    };
    let site = Arc::new(Site::over(database, options));
    site.collection("c");
    let text = "x".repeat(12 << 20);
    for n in 0..3 {
        let document = format!("{{\"n\":{n},\"text\":\"{text}\"}}");
        let line = format!("PUT /c/_doc/{n}");
        // Background work with the document before may have the memory.
        while site.call(&line, document.clone()).await.status == 429 {}
    }
    let scrolls = (0..16).map(|number| {
        let (site, text_bytes) = (Arc::clone(&site), text.len());
        tokio::spawn(async move {
            let order = ["", ",\"sort\":[\"n\"]"][number % 2];
            let body = format!("{{\"size\":3{order}}}");
            let mut reply = site.call("POST /c/_search?scroll=1h", body).await;
            let mut seen = Vec::new();
            loop {
                assert_eq!(reply.status, 200, "{}", reply.text);
                let page = reply.json();
                let hits = page["hits"]["hits"].as_array().unwrap();
                if hits.is_empty() {
                    break;
                }
                for hit in hits {
                    let text = hit["_source"]["text"].as_str().unwrap();
                    assert_eq!(text.len(), text_bytes);
                    seen.push(hit["_id"].as_str().unwrap().to_owned());
                }
                let next = serde_json::json!({"scroll_id": page["_scroll_id"]});
                reply = site.call("POST /_search/scroll", next.to_string()).await;
            }
            seen.sort();
            assert_eq!(seen, ["0", "1", "2"]);
        })
    });
    for scroll in scrolls.collect::<Vec<_>>() {
        scroll.await.unwrap();
    }
}

/// Where documents are read in the order of their keys, each large one has its memory reserved
/// before it is read.
#[tokio::test]
async fn pages_by_key_and_changes_by_query_reserve_large_documents_before_they_are_read() {
    let text = "x".repeat(12 << 20);
    let all = r#"{"query":{"match_all":{}}}"#;
    for (line, body) in [
        (
            "POST /c/_search",
            r#"{"size":3,"sort":[{"_id":"asc"}],"search_after":["0"]}"#,
        ),
        (
            "POST /c/_msearch",
            "{}\n{\"size\":3,\"sort\":[{\"_id\":\"asc\"}],\"search_after\":[\"0\"]}\n",
        ),
        ("POST /c/_update_by_query", all),
        ("POST /c/_update_by_query?slices=2", all),
        ("POST /c/_delete_by_query", all),
        (
            "POST /_reindex",
            r#"{"source":{"index":"c"},"dest":{"index":"d"}}"#,
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::builder(dir.path().join("db"));
        let database = database.memory(16 << 20).open().unwrap();
        let settings = CollectionSettings {
            partitions: 2,
            index: IndexedFields::none(),
            ..CollectionSettings::default()
        };
        for name in ["c", "d"] {
            database.create_collection(name, settings.clone()).unwrap();
        }
        let writes = (1..4).map(|n| {
            let json = format!("{{\"n\":{n},\"text\":\"{text}\"}}");
            Write::put(Key::from(n), Document::from_json(json.as_bytes()).unwrap())
        });
        let collection = database.collection("c").unwrap();
        for written in collection.batch().writes(writes).write() {
            written.unwrap();
        }
        let site = Site::over(database, ServerOptions::default());
        assert!(site.database.stats().unwrap().work_peak_bytes < 30 << 20);
        let reply = site.call(line, body.to_string()).await;
        let beginning = reply.text.get(..300).unwrap_or(&reply.text);
        assert_eq!(reply.status, 200, "{line}: {beginning}");
        match line.ends_with("search") {
            true => assert!(reply.text.contains(&text), "{line}: {beginning}"),
            false => assert!(reply.text.contains("\"total\":3"), "{line}: {beginning}"),
        }
        let stats = site.database.stats().unwrap();
        assert!(stats.work_peak_bytes >= 36 << 20, "{line}: {stats:?}");
        assert!(
            stats.work_peak_bytes <= stats.work_bytes_max,
            "{line}: {stats:?}"
        );
    }
}
