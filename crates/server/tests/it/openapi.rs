//! The description of the API says what the server does: requests and answers of all kinds are
//! compared with it.

mod calls;
mod checker;
mod live;
mod spellings;

use std::path::Path;

use quire_server::ServerOptions;
use quiredb::{
    CollectionStats, ColumnMoveStats, Damage, DatabaseStats, GroupStats, IndexStats, IoStats,
    ScrubStats, TierStats, VolumeStats,
};
use serde_json::{Value, json};

use self::checker::Checker;
use self::live::Live;
use self::spellings::{REFUSED, SPELLINGS};
use crate::access;
use crate::site::Site;

/// What a GET needs beside its path: another path, or a query or a body.
const NEEDS: [(&str, &str, &str); 11] = [
    (
        "/_cluster/allocation/explain",
        "/_cluster/allocation/explain",
        r#"{"index":"tracks","shard":0,"primary":true,"current_node":"quire"}"#,
    ),
    ("/_data_stream/{collection}", "/_data_stream/*", ""),
    ("/_field_caps", "/_field_caps?fields=*", ""),
    (
        "/{collection}/_field_caps",
        "/tracks/_field_caps?fields=*",
        "",
    ),
    ("/_analyze", "/_analyze", r#"{"text":"So What"}"#),
    (
        "/{collection}/_analyze",
        "/tracks/_analyze",
        r#"{"text":"So What"}"#,
    ),
    ("/_msearch", "/_msearch", "{}\n{}\n"),
    ("/{collection}/_msearch", "/tracks/_msearch", "{}\n{}\n"),
    (
        "/_mget",
        "/_mget",
        r#"{"docs":[{"_index":"tracks","_id":"t1"}]}"#,
    ),
    (
        "/{collection}/_mget",
        "/tracks/_mget",
        r#"{"ids":["t1","none"]}"#,
    ),
    // Nothing is open: it is called where it is refused.
    ("/_search/scroll", "", ""),
];

/// Named members that the requests of this test neither send nor get: those of a follower, and of
/// work in the background that failed.
const UNSEEN: [&str; 2] = ["DatabaseStats.following", "TaskResult.error"];

async fn live() -> (Live, impl Drop) {
    let (options, _, dir) = access::options();
    let site = Site::with(ServerOptions {
        backup_dir: Some(dir.path().join("backups")),
        ..options
    });
    (Live::new(site).await, dir)
}

#[tokio::test]
async fn every_schema_is_used_and_its_example_is_one_of_it() {
    let description = Site::new().get("/openapi.json").await.done(200);
    let mut checker = Checker::new(&description);
    let text = description.to_string();
    let anything = r##""#/components/schemas/Anything""##;
    assert!(!text.contains(anything), "each operation has a schema");
    for (name, schema) in checker.schemas().clone() {
        let reference = format!("\"#/components/schemas/{name}\"");
        assert!(text.contains(&reference), "{name} is not used");
        let example = &schema["example"];
        assert!(!example.is_null(), "{name} has no example");
        let wrong = checker.check(&schema, example);
        assert!(wrong.is_empty(), "{name}: {wrong:?}");
    }
}

#[tokio::test]
async fn requests_and_answers_are_what_the_description_says() {
    let (mut live, _dir) = live().await;
    calls::collections(&mut live).await;
    calls::wide_collections(&mut live).await;
    calls::searches(&mut live).await;
    calls::templates(&mut live).await;
    calls::cluster(&mut live).await;
    calls::commands(&mut live).await;
    every_get(&mut live).await;
    other_spellings(&mut live).await;
    calls::jobs(&mut live).await;
    figures(&mut live.checker);
    let mut unseen = live.checker.unseen();
    unseen.retain(|member| !UNSEEN.iter().any(|unseen| member.starts_with(unseen)));
    let (wrong, mut uncalled) = (&live.wrong, live.uncalled());
    // Followers take streams of bytes.
    uncalled.retain(|id| !id.contains("_follow"));
    assert!(
        wrong.is_empty() && unseen.is_empty() && uncalled.is_empty(),
        "{wrong:#?}; no request or answer had {unseen:#?}; not called: {uncalled:#?}"
    );
}

/// Calls all operations of GET whose path names a collection at most.
async fn every_get(live: &mut Live) {
    let paths = live.description["paths"].as_object().unwrap().clone();
    let mut called = 0;
    for (path, methods) in &paths {
        let needs = NEEDS.iter().find(|(of, ..)| of == path);
        let uri = path.replace("{collection}", "tracks");
        let (uri, body) = match needs {
            Some((_, "", _)) => continue,
            Some((_, uri, body)) => ((*uri).to_owned(), *body),
            None => (uri, ""),
        };
        if methods.get("get").is_none() || uri.contains('{') {
            continue;
        }
        let line = format!("GET {uri}");
        live.done_text(&line, body).await;
        if path.starts_with("/_cat/") {
            live.send(&format!("{line}?format=json"), body).await;
        }
        called += 1;
    }
    assert!(called > 90, "{called} operations were called");
}

async fn other_spellings(live: &mut Live) {
    for (line, body) in SPELLINGS {
        live.done_text(line, body).await;
    }
    for (line, body) in REFUSED {
        let body = serde_json::from_str(body).unwrap_or_default();
        let answer = live.json(line, body).await;
        assert!(!answer["error"].is_null(), "{line}: {answer}");
    }
}

/// Figures of which every member is there, as one server seldom has them.
fn figures(checker: &mut Checker) {
    let mut tiers = GroupStats::default();
    tiers.tiers = Some(TierStats::default());
    tiers.tier = Some("hdd".to_owned());
    let mut collection = CollectionStats::default();
    collection.index = Some(IndexStats::default());
    collection.column_moves = vec![ColumnMoveStats::default()];
    collection.groups = vec![tiers];
    let mut volume = VolumeStats::default();
    volume.io = Some(IoStats::default());
    let mut stats = DatabaseStats::default();
    stats.collections = vec![collection];
    stats.volumes = vec![volume];
    let mut damage = Damage::new(Path::new("file"), 4096, "what".to_owned(), "lost");
    damage.positions = Some((12, 14));
    let mut scrub = ScrubStats::default();
    scrub.damage = vec![damage];
    stats.scrub = Some(scrub);
    let stats = serde_json::to_value(&stats).unwrap();
    let of_database = json!({"$ref": "#/components/schemas/DatabaseStats"});
    let wrong = checker.check(&of_database, &stats);
    assert!(wrong.is_empty(), "{wrong:?}");
    let named = checker.schemas()["DatabaseStats"]["properties"].clone();
    same_members(&stats, &named, &["following"]);
    let named = checker.schemas()["CollectionStats"]["properties"].clone();
    same_members(&stats["collections"][0], &named, &[]);
}

/// Checks that figures have the members that are named, and no others, but for those that only
/// some have.
fn same_members(figures: &Value, named: &Value, sometimes: &[&str]) {
    let names = |value: &Value| -> Vec<String> {
        let names = value.as_object().unwrap().keys();
        let mut names: Vec<String> = names.cloned().collect();
        names.retain(|name| !sometimes.contains(&name.as_str()));
        names.sort();
        names
    };
    assert_eq!(names(figures), names(named));
}
