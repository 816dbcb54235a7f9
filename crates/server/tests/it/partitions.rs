//! `_partitions`: a collection is split and merged while it is written and read, and cursors of
//! `_changes` go on over it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quire_server::ServerOptions;
use quiredb::{Collection, CollectionSettings, Document, Key, Position, Write};
use serde_json::{Value, json};

use crate::site::{Listening, Reply, Site, open};

/// Puts documents `0..count`, each with its number.
fn fill(collection: &Collection, count: u64) {
    let mut batch = collection.batch();
    for id in 0..count {
        let text = format!("{{\"n\":{id},\"text\":\"{}\"}}", "x".repeat(100));
        let document = Document::from_json(text.as_bytes()).unwrap();
        batch.push(Write::put(Key::from(id), document));
    }
    for outcome in batch.write() {
        outcome.unwrap();
    }
}

/// Calls `GET /_tasks/{id}` until the task is complete.
async fn ended(site: &Site, begun: &Value) -> Value {
    let path = format!("/_tasks/{}", begun["task"].as_str().unwrap());
    loop {
        let state = site.get(&path).await.done(200);
        if state["completed"] == true {
            return state;
        }
        let status = &state["task"]["status"];
        assert!(
            status.is_null() || status["stage"].is_string() && status["done"].is_u64(),
            "{state}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The changes of an answer, and the cursor after them.
fn changes(reply: &Reply) -> (Vec<Value>, String) {
    assert_eq!(reply.status, 200, "{}", reply.text);
    let lines = reply.text.lines();
    let mut lines: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let last = lines.pop().unwrap();
    (lines, last["cursor"].as_str().unwrap().to_owned())
}

/// A writer: overwrites and deletes documents in several ways until it is over. Gives the number
/// that each of its documents has then, if it is there.
async fn write_on(site: &Site, writer: u64, is_over: &AtomicBool) -> BTreeMap<String, Option<u64>> {
    let (mut last, mut round) = (BTreeMap::new(), 0_u64);
    while !is_over.load(Ordering::Relaxed) {
        round += 1;
        let ids: Vec<String> = (0..20)
            .map(|n| format!("w{writer}-{}", (round * 7 + n) % 60))
            .collect();
        match round % 4 {
            0 => {
                let id = &ids[0];
                let body = format!("{{\"n\":{round}}}");
                let put = site.call(&format!("PUT /jobs/_doc/{id}"), body).await;
                assert!(matches!(put.status, 200 | 201), "{put:?}");
                last.insert(id.clone(), Some(round));
            }
            1 => {
                let id = &ids[0];
                let deleted = site.call(&format!("DELETE /jobs/_doc/{id}"), "").await;
                assert!(matches!(deleted.status, 200 | 404), "{deleted:?}");
                last.insert(id.clone(), None);
            }
            2 => {
                // Twice in one batch: the second one counts.
                let both = [round + 1_000_000, round];
                let mut body = String::new();
                for number in both {
                    for id in &ids {
                        body +=
                            &format!("{{\"index\":{{\"_id\":\"{id}\"}}}}\n{{\"n\":{number}}}\n");
                    }
                }
                let done = site.call("POST /jobs/_bulk", body).await.done(200);
                assert_eq!(done["errors"], false, "{done}");
                last.extend(ids.into_iter().map(|id| (id, Some(round))));
            }
            _ => {
                let line =
                    |id: &String| format!("{{\"key\":\"{id}\",\"document\":{{\"n\":{round}}}}}\n");
                let body: String = ids.iter().map(line).collect();
                let done = site.call("POST /jobs/_quire/write", body).await;
                assert_eq!(done.status, 200, "{done:?}");
                assert!(!done.text.contains("error"), "{done:?}");
                last.extend(ids.into_iter().map(|id| (id, Some(round))));
            }
        }
    }
    assert!(round > 4, "{round} writes");
    last
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_is_split_and_merged_while_it_is_written_and_read() {
    let site = Site::new();
    let collection = site.collection("jobs");
    fill(&collection, 3_000);
    let version = collection.get(&Key::from(7)).unwrap().unwrap().version;
    let is_over = AtomicBool::new(false);
    let writers = futures_util::future::join_all((0..3).map(|n| write_on(&site, n, &is_over)));
    let reads = async {
        let mut count = 0;
        while !is_over.load(Ordering::Relaxed) {
            let id = count % 3_000;
            let found = site.get(&format!("/jobs/_doc/{id}")).await.done(200);
            assert_eq!(found["_source"]["n"], id, "{found}");
            let query = json!({"query": {"term": {"n": id}}}).to_string();
            let found = site.call("POST /jobs/_count", query).await.done(200);
            assert!(found["count"].as_u64() >= Some(1), "{id}: {found}");
            count += 1;
        }
        assert!(count > 0);
    };
    let split = async {
        for count in [4, 24, 12] {
            let line = format!("POST /jobs/_partitions?count={count}&wait_for_completion=false");
            let begun = site.call(&line, "").await.done(200);
            let state = ended(&site, &begun).await;
            let done = &state["response"];
            assert_eq!(done["acknowledged"], true, "{state}");
            assert_eq!(done["index"], "jobs", "{state}");
            assert_eq!(done["partitions"], count, "{state}");
            assert!(done["took"].is_u64(), "{state}");
            assert_eq!(state["task"]["action"], "quire:admin/partitions");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        is_over.store(true, Ordering::Relaxed);
    };
    let (written, (), ()) = tokio::join!(writers, reads, split);
    let mut expected = 3_000;
    for (id, number) in written.into_iter().flatten() {
        let found = site.stored("jobs", &id);
        let found = found.map(|text| serde_json::from_str::<Value>(&text).unwrap());
        let found = found.map(|document| document["n"].as_u64().unwrap());
        assert_eq!(found, number, "{id}");
        expected += u64::from(number.is_some());
    }
    let count = site.get("/jobs/_count").await.done(200);
    assert_eq!(count["count"], expected);
    assert_eq!(count["_shards"]["total"], 12);
    let found = collection.get(&Key::from(7)).unwrap().unwrap();
    assert!(found.version > version, "a merge gives higher versions");

    // All that shows partitions shows those of now.
    let settings = site.get("/jobs/_settings").await.done(200);
    let settings = &settings["jobs"]["settings"];
    assert_eq!(settings["index"]["number_of_shards"], "12");
    assert_eq!(
        settings["quire"]["partitions"]
            .to_string()
            .trim_matches('"'),
        "12"
    );
    let rows = site.get("/_cat/shards/jobs?format=json").await.done(200);
    assert_eq!(rows.as_array().unwrap().len(), 12, "{rows}");
    let health = site.get("/_cluster/health?level=shards").await.done(200);
    assert_eq!(health["active_shards"], 12, "{health}");
    assert_eq!(health["indices"]["jobs"]["number_of_shards"], 12);
    let shards = site.get("/jobs/_search_shards").await.done(200);
    assert_eq!(shards["shards"].as_array().unwrap().len(), 12);
    let described = site.get("/jobs/_quire").await.done(200);
    assert_eq!(described["positions"].as_array().unwrap().len(), 12);
    let stats = site.get("/jobs/_stats?level=shards").await.done(200);
    let shards = stats["indices"]["jobs"]["shards"].as_object().unwrap();
    assert_eq!(shards.len(), 12);
    let table = site.get("/_cat/indices/jobs?format=json").await.done(200);
    assert_eq!(table[0]["pri"], "12");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_split_is_waited_for_and_makes_twice_as_many_unless_it_says_so() {
    let site = Site::new();
    let collection = site.collection("jobs");
    fill(&collection, 50);
    site.call("PUT /jobs/_alias/work", "").await.done(200);
    let done = site.call("POST /work/_partitions", "").await.done(200);
    assert_eq!(done["partitions_before"], 2, "{done}");
    assert_eq!(done["partitions"], 4, "{done}");
    assert_eq!(done["index"], "jobs", "{done}");
    assert_eq!(collection.settings().partitions, 4);
    assert_eq!(collection.count().unwrap(), 50);
    // One that is closed can be split too.
    site.call("POST /jobs/_close", "").await.done(200);
    let done = site.call("POST /jobs/_partitions?count=8", "").await;
    assert_eq!(done.done(200)["partitions"], 8);
    site.call("POST /jobs/_open", "").await.done(200);
    assert_eq!(collection.count().unwrap(), 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wide_collection_is_split_and_merged_while_it_is_written() {
    let site = Site::new();
    let wide = json!({"quire": {"partitions": 1, "wide": {"properties": {
        "n": {"type": "integer"},
        "html": {"type": "string", "group": "content"},
        "links": {"type": "object", "additionalProperties": {"type": "integer"}},
    }}}});
    site.call("PUT /pages", wide.to_string()).await.done(200);
    site.call("PUT /pages/_alias/web", "").await.done(200);
    let html = "x".repeat(2_000);
    let mut body = String::new();
    for id in 0..500 {
        body +=
            &format!("{{\"index\":{{\"_id\":\"{id}\"}}}}\n{{\"n\":{id},\"html\":\"{html}\"}}\n");
    }
    let done = site.call("POST /pages/_bulk", body).await.done(200);
    assert_eq!(done["errors"], false);
    let version = site.get("/pages/_doc/7").await.done(200)["_seq_no"].clone();
    let is_over = AtomicBool::new(false);
    // Counters, each of which loses no step.
    let count = async |id: u64| {
        let mut steps = 0;
        while !is_over.load(Ordering::Relaxed) {
            let path = format!("POST /web/_cell/{id}/links%5Bseen%5D");
            site.call(&path, "{\"add\":1}").await.done(200);
            let line =
                format!("{{\"update\":{{\"_id\":\"{id}\"}}}}\n{{\"doc\":{{\"n\":{steps}}}}}\n");
            let done = site.call("POST /web/_bulk", line).await.done(200);
            assert_eq!(done["errors"], false, "{done}");
            steps += 1;
        }
        steps
    };
    let counted = futures_util::future::join_all((100..104).map(count));
    let split = async {
        for partitions in [2, 6, 3, 1, 2] {
            let line = format!("POST /web/_partitions?count={partitions}");
            let done = site.call(&line, "").await.done(200);
            assert_eq!(done["partitions"], partitions, "{done}");
            assert_eq!(done["index"], "pages", "{done}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        is_over.store(true, Ordering::Relaxed);
    };
    let (counted, ()) = tokio::join!(counted, split);
    for (id, steps) in (100..104).zip(counted) {
        let found = site.get(&format!("/pages/_doc/{id}")).await.done(200);
        assert_eq!(found["_source"]["links"]["seen"], steps, "{id}");
        assert_eq!(found["_source"]["n"], steps - 1, "{id}");
        assert_eq!(found["_source"]["html"], html);
    }
    let now = site.get("/pages/_doc/7").await.done(200)["_seq_no"].clone();
    assert!(now.as_u64() > version.as_u64(), "a merge gives higher ones");
    let count = site.get("/web/_count").await.done(200);
    assert_eq!(
        (&count["count"], &count["_shards"]["total"]),
        (&json!(500), &json!(2))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_split_is_refused_and_errors_say_what_to_do() {
    let site = Site::new();
    site.collection("jobs");
    let wide = json!({"quire": {"partitions": 2, "wide": {
        "properties": {"n": {"type": "integer"}}, "additionalProperties": false,
    }}});
    site.call("PUT /pages", wide.to_string()).await.done(200);
    for (line, words) in [
        (
            "POST /jobs/_partitions?count=3",
            "[2] partitions that [jobs] has: 4, 6 and so on; or for fewer 1",
        ),
        ("POST /jobs/_partitions?count=2", "multiple"),
        ("POST /jobs/_partitions?count=0", "multiple"),
        ("POST /pages/_partitions?count=5", "for fewer 1"),
        ("POST /jobs/_partitions?count=2048", "1024"),
        ("POST /jobs/_partitions?count=x", "count"),
        ("POST /jobs/_partitions?counts=4", "counts"),
    ] {
        let reason = site.call(line, "").await;
        let reason = reason.refused(400, "illegal_argument_exception");
        assert!(reason.contains(words), "{line}: {reason}");
    }
    let absent = site.call("POST /none/_partitions", "").await;
    absent.refused(404, "index_not_found_exception");
    let setting = json!({"index": {"number_of_shards": 4}}).to_string();
    let refused = site.call("PUT /jobs/_settings", setting).await;
    let reason = refused.refused(400, "illegal_argument_exception");
    assert!(reason.contains("/jobs/_partitions?count=4"), "{reason}");
    site.call("PUT /jobs/_block/read_only", "").await.done(200);
    let blocked = site.call("POST /jobs/_partitions", "").await;
    assert_eq!(blocked.status, 403, "{blocked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_split_that_is_cancelled_leaves_the_collection_as_it_was() {
    let site = Site::new();
    let collection = site.collection("jobs");
    fill(&collection, 30_000);
    let other = site.collection("other");
    let list = "/_tasks?actions=quire:admin/partitions";
    for _ in 0..8 {
        let before = collection.settings().partitions;
        let line = "POST /jobs/_partitions?wait_for_completion=false";
        let begun = site.call(line, "").await.done(200);
        let listed = site.get(list).await.done(200);
        let beside = site.call("POST /other/_partitions", "").await;
        let cancel = format!("POST /_tasks/{}/_cancel", begun["task"].as_str().unwrap());
        site.call(&cancel, "").await;
        let state = ended(&site, &begun).await;
        if state["error"].is_null() {
            // It had come to its end before.
            continue;
        }
        let reason = beside.refused(409, "resource_already_exists_exception");
        assert!(reason.contains("/_tasks?actions="), "{reason}");
        assert!(listed.to_string().contains("_partitions"), "{listed}");
        assert_eq!(
            state["error"]["type"], "task_cancelled_exception",
            "{state}"
        );
        assert_eq!(collection.settings().partitions, before);
        assert_eq!(collection.count().unwrap(), 30_000);
        assert_eq!(site.get(list).await.done(200), json!({"nodes": {}}));
        let partitions = other.settings().partitions;
        site.call("POST /other/_partitions", "").await.done(200);
        assert_eq!(other.settings().partitions, 2 * partitions);
        return;
    }
    panic!("no split of eight was cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_ends_a_split() {
    let (database, _dir) = open();
    let settings = CollectionSettings {
        partitions: 2,
        ..CollectionSettings::default()
    };
    let collection = database.create_collection("jobs", settings).unwrap();
    fill(&collection, 30_000);
    let of_site = tempfile::tempdir().unwrap();
    let site = Listening::over(database, of_site, ServerOptions::default()).await;
    let line = "POST /jobs/_partitions?wait_for_completion=false";
    site.call(line, "").await.done(200);
    site.begin_shutdown();
    let database = site.ended().await;
    // On a slow machine it may have come to its end before.
    let partitions = collection.settings().partitions;
    assert!([2, 4].contains(&partitions), "{partitions}");
    database
        .split_collection("jobs", 2 * partitions, &|_| true)
        .expect("no split runs any more");
    assert_eq!(collection.count().unwrap(), 30_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_cursor_gives_every_change_over_a_split_and_a_merge_and_comes_to_an_end() {
    let site = Site::new();
    let collection = site.collection("jobs");
    let put = |key: &str, n: u64| {
        let document = Document::from_json(format!("{{\"n\":{n}}}").as_bytes()).unwrap();
        let write = Write::put(Key::parse(key).unwrap(), document);
        collection.write().run(write).unwrap();
    };
    for n in 0..200 {
        put(&format!("before-{n}"), n);
    }
    let (found, cursor) = changes(&site.get("/jobs/_changes?limit=150").await);
    let mut missing: BTreeMap<String, u64> = (0..200).map(|n| (format!("before-{n}"), n)).collect();
    for line in &found {
        missing.remove(line["key"].as_str().unwrap());
    }
    assert_eq!(cursor.split(',').count(), 2);
    for n in 0..100 {
        put(&format!("between-{n}"), n);
        missing.insert(format!("between-{n}"), n);
    }
    site.call("POST /jobs/_partitions?count=6", "")
        .await
        .done(200);
    for n in 0..100 {
        put(&format!("after-{n}"), n);
        missing.insert(format!("after-{n}"), n);
    }
    put("between-7", 1_000);
    missing.insert("between-7".to_owned(), 1_000);

    let (mut at, mut count) = (cursor.clone(), 0);
    loop {
        let uri = format!("/jobs/_changes?limit=7&after={at}");
        let (found, next) = changes(&site.get(&uri).await);
        assert_eq!(next.split(',').count(), 6, "{next}");
        for line in &found {
            assert!(line["partition"].as_u64() < Some(6), "{line}");
            let key = line["key"].as_str().unwrap();
            if missing.get(key).copied() == line["document"]["n"].as_u64() {
                missing.remove(key);
            }
        }
        count += found.len();
        if found.is_empty() {
            assert_eq!(next, at, "the end stays the end");
            break;
        }
        at = next;
    }
    assert_eq!(missing, BTreeMap::new());
    assert!(count < 2 * 350, "{count} changes");
    // The same with one partition after the other, and with all at once.
    let all = changes(&site.get(&format!("/jobs/_changes?after={cursor}")).await);
    let mut apart = Vec::new();
    for partition in 0..6 {
        let uri = format!("/jobs/_changes?after={cursor}&partition={partition}");
        apart.extend(changes(&site.get(&uri).await).0);
    }
    let sorted = |mut lines: Vec<Value>| {
        lines.sort_by_key(|line| (line["partition"].as_u64(), line["position"].as_u64()));
        lines
    };
    assert_eq!(sorted(apart), sorted(all.0));
    assert_eq!(all.1, at);

    // After a merge cursors of both times go on: one that is level sees nothing, the old one all.
    let merged = site.call("POST /jobs/_partitions?count=3", "").await;
    assert_eq!(merged.done(200)["partitions_before"], 6);
    let translated = changes(
        &site
            .get(&format!("/jobs/_changes?limit=0&after={at}"))
            .await,
    );
    assert_eq!(
        (translated.0.len(), translated.1.split(',').count()),
        (0, 3)
    );
    let (found, level) = changes(&site.get(&format!("/jobs/_changes?after={at}")).await);
    assert_eq!(found, Vec::<Value>::new());
    assert_eq!(level, translated.1);
    put("merged", 1);
    let (found, _) = changes(&site.get(&format!("/jobs/_changes?after={at}")).await);
    assert_eq!(found.len(), 1, "{found:?}");
    let (found, _) = changes(&site.get(&format!("/jobs/_changes?after={cursor}")).await);
    let keys = found.iter().map(|line| line["key"].as_str().unwrap());
    let keys: std::collections::BTreeSet<&str> = keys.collect();
    assert!(keys.contains("merged"));
    assert!((0..100).all(|n| keys.contains(format!("after-{n}").as_str())));
    assert!((0..100).all(|n| keys.contains(format!("between-{n}").as_str())));
    // No number of before, and more than there are.
    for after in ["1,2,3,4,5", "1,2,3,4,5,6,7,8,9,10,11,12"] {
        let refused = site.get(&format!("/jobs/_changes?after={after}")).await;
        let reason = refused.refused(400, "illegal_argument_exception");
        assert!(reason.contains("before a split"), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_wait_for_changes_go_on_over_a_split() {
    let site = Site::new();
    let collection = site.collection("jobs");
    fill(&collection, 40);
    let seen = collection.positions();
    let seen: Vec<String> = seen.iter().map(Position::to_string).collect();
    let seen = seen.join(",");
    let waits = format!("/jobs/_changes?wait_ms=60000&after={seen}");
    let of_one = format!("{waits}&partition=1");
    let filtered = format!("{waits}&prefix=new");
    let split = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        site.call("POST /jobs/_partitions?count=8", "")
            .await
            .done(200);
        tokio::time::sleep(Duration::from_millis(100)).await;
        site.call("PUT /jobs/_doc/new", "{\"n\":1}").await.done(201);
    };
    let waiting = (site.get(&waits), site.get(&filtered), site.get(&of_one));
    let answers = async { tokio::join!(waiting.0, waiting.1, waiting.2, split) };
    let answers = tokio::time::timeout(Duration::from_secs(50), answers).await;
    let (all, filtered, of_one, ()) = answers.unwrap();
    for reply in [all, filtered] {
        let (found, cursor) = changes(&reply);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0]["key"], "new");
        assert_eq!(cursor.split(',').count(), 8, "{cursor}");
    }
    let (found, cursor) = changes(&of_one);
    assert_eq!(found.len(), 0, "{found:?}");
    assert_eq!(cursor.split(',').count(), 8, "{cursor}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scroll_that_was_opened_before_a_split_is_read_to_its_end() {
    let site = Site::new();
    let collection = site.collection("jobs");
    fill(&collection, 500);
    let page = |answer: &Value| -> Vec<u64> {
        let hits = answer["hits"]["hits"].as_array().unwrap().iter();
        hits.map(|hit| hit["_source"]["n"].as_u64().unwrap())
            .collect()
    };
    let search = json!({"size": 100, "sort": ["n"]}).to_string();
    let line = "POST /jobs/_search?scroll=1m";
    let first = site.call(line, search).await.done(200);
    let mut found = page(&first);
    site.call("POST /jobs/_partitions", "").await.done(200);
    site.call("DELETE /jobs/_doc/400", "").await.done(200);
    let next = json!({"scroll": "1m", "scroll_id": first["_scroll_id"]}).to_string();
    loop {
        let answer = site.call("POST /_search/scroll", next.clone()).await;
        let more = page(&answer.done(200));
        if more.is_empty() {
            break;
        }
        found.extend(more);
    }
    assert_eq!(found, (0..500).collect::<Vec<u64>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_splits_what_is_large_by_the_setting() {
    let (database, dir) = open();
    let site = Listening::over(database.clone(), dir, ServerOptions::default()).await;
    let settings = CollectionSettings {
        partitions: 1,
        codec: quiredb::Codec::None,
        split_bytes: 1 << 20,
        ..CollectionSettings::default()
    };
    let collection = database.create_collection("jobs", settings).unwrap();
    let seen = collection.positions();
    fill(&collection, 9_000);
    while collection.positions().len() < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(collection.count().unwrap(), 9_000);
    assert_eq!(collection.tail_after(&seen).unwrap().count(), 9_000);
    // Each of the two is small enough.
    assert_eq!(database.partitions_due("jobs").unwrap(), None);
    drop((collection, database));
    site.begin_shutdown();
    site.ended().await;
}
