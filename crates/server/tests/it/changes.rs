//! `_changes`: every change once, in order, whatever the limit of a request.

use std::time::Duration;

use proptest::prelude::*;
use quiredb::{Collection, Document, Key, Write};
use serde_json::{Value, json};

use crate::site::{Reply, Site};

/// The lines of an answer, and the cursor after them.
fn lines(reply: &Reply) -> (Vec<Value>, String) {
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.headers["content-type"], "application/x-ndjson");
    let parsed = reply
        .text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let mut lines: Vec<Value> = parsed.collect();
    let last = lines.pop().unwrap();
    (lines, last["cursor"].as_str().unwrap().to_owned())
}

/// All changes, as the engine returns them.
fn expected(collection: &Collection, partition: Option<u32>, prefix: &str) -> Vec<Value> {
    let changes = collection
        .tail(quiredb::Position(1))
        .unwrap()
        .map(Result::unwrap);
    let mut changes: Vec<_> = changes
        .filter(|change| partition.is_none_or(|only| change.partition == only))
        .filter(|change| change.key.to_string().starts_with(prefix))
        .collect();
    changes.sort_by_key(|change| (change.partition, change.version));
    let line = |change: quiredb::Change| {
        let mut line = json!({
            "partition": change.partition,
            "position": change.version.0,
            "time_micros": change.time_micros,
            "key": change.key.to_string(),
        });
        match change.document {
            Some(document) => line["document"] = serde_json::from_str(&document.to_json()).unwrap(),
            None => line["deleted"] = true.into(),
        }
        line
    };
    changes.into_iter().map(line).collect()
}

fn write(collection: &Collection, key: u8, n: usize) {
    let key = Key::parse(&format!("{}-{key}", ["a", "ab", "b"][key as usize % 3])).unwrap();
    let write = match n % 5 {
        4 => Write::delete(key),
        _ => Write::put(
            key,
            Document::from_json(format!("{{\"n\":{n}}}").as_bytes()).unwrap(),
        ),
    };
    collection.write().run(write).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_change_comes_once_and_in_order(
        keys in prop::collection::vec(0u8..20, 1..60),
        limit in 1usize..9,
        partition in prop::option::of(0u32..2),
        prefix in prop::sample::select(vec!["", "a", "ab", "ab-1", "c"]),
    ) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let site = Site::new();
            let collection = site.collection("jobs");
            let (now, later) = keys.split_at(keys.len() / 2);
            now.iter().enumerate().for_each(|(n, key)| write(&collection, *key, n));
            let only = partition.map_or(String::new(), |number| format!("&partition={number}"));
            let (mut all, mut cursor, mut rest) = (Vec::new(), String::new(), Some(later));
            loop {
                let uri = format!(
                    "/jobs/_changes?limit={limit}&prefix={prefix}&after={cursor}{only}"
                );
                let (found, next) = lines(&site.get(&uri).await);
                assert!(found.len() <= limit);
                all.extend(found);
                if next == cursor {
                    // Later writes are found from the cursor on.
                    let Some(later) = rest.take() else { break };
                    later.iter().enumerate().for_each(|(n, key)| write(&collection, *key, n));
                }
                cursor = next;
            }
            all.sort_by_key(|line| (line["partition"].as_u64(), line["position"].as_u64()));
            assert_eq!(all, expected(&collection, partition, prefix));
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_request_gets_the_next_matching_change() {
    let site = Site::new();
    let collection = site.collection("jobs");
    let (found, cursor) = lines(&site.get("/jobs/_changes?wait_ms=5").await);
    assert_eq!((found.len(), cursor.as_str()), (0, "0,0"));
    let wait = site.get("/jobs/_changes?wait_ms=60000&prefix=b-&after=0,0");
    let writes = async {
        for key in 0..6 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            write(&collection, key, 0);
        }
    };
    let (reply, ()) = tokio::join!(wait, writes);
    let (found, _) = lines(&reply);
    assert_eq!(found[0]["key"], "b-2", "{found:?}");
}

#[tokio::test]
async fn wrong_parameters_are_refused_by_name() {
    let site = Site::new();
    site.collection("jobs");
    site.get("/none/_changes")
        .await
        .refused(404, "index_not_found_exception");
    for (query, word) in [
        ("after=1", "after"),
        ("after=1,2,3", "after"),
        ("after=1,x", "after"),
        ("after=-1,0", "after"),
        ("partition=2", "partition"),
        ("limit=100001", "limit"),
        ("wait_ms=long", "wait_ms"),
        ("wait_ms=60001", "wait_ms"),
        ("from=1", "from"),
    ] {
        let reply = site.get(&format!("/jobs/_changes?{query}")).await;
        let reason = reply.refused(400, "illegal_argument_exception");
        assert!(reason.contains(word), "{query}: {reason}");
    }
}
