//! Backups made by the server.

use std::time::Duration;

use quire_server::ServerOptions;
use quiredb::{Database, OsEnv, Volumes};
use serde_json::Value;

use crate::site::{Listening, Site};

/// The answer of `GET /_backup` once no backup is running.
async fn ended(site: &Site) -> Value {
    loop {
        let state = site.get("/_backup").await.done(200);
        if state["running"].is_null() {
            return state["last"].clone();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn backups_are_made_below_the_allowed_directory_one_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::with(ServerOptions {
        backup_dir: Some(dir.path().join("backups")),
        ..ServerOptions::default()
    });
    let state = site.get("/_backup").await.done(200);
    assert_eq!(
        (&state["running"], &state["last"]),
        (&Value::Null, &Value::Null)
    );
    site.collection("jobs");
    let filler = "x".repeat(60_000);
    for id in 0..20 {
        let document = format!(r#"{{"n":{id},"text":"{filler}"}}"#);
        site.call(&format!("PUT /jobs/_doc/{id}"), document)
            .await
            .done(201);
    }
    site.database.flush().unwrap();

    // At this rate it is still running.
    let begun = site
        .call("POST /_backup/slow?rate_bytes=1000", "")
        .await
        .done(202);
    assert_eq!(begun["acknowledged"], true);
    let reason = site
        .call("POST /_backup/other", "")
        .await
        .refused(409, "concurrent_snapshot_execution_exception");
    assert!(reason.contains("[slow]"), "{reason}");
    let state = site.get("/_backup").await.done(200);
    assert_eq!(state["running"]["backup"], "slow");

    // Another server over the same database, as after a restart.
    let site = Site::over(
        site.database.clone(),
        ServerOptions {
            backup_dir: Some(dir.path().join("backups")),
            ..ServerOptions::default()
        },
    );
    site.call("POST /_backup/nightly?keep=3&rate_bytes=0", "")
        .await
        .done(202);
    let last = ended(&site).await;
    assert_eq!(
        (&last["backup"], &last["succeeded"]),
        (&"nightly".into(), &true.into()),
        "{last}"
    );
    assert_eq!(last["report"]["number"], 1);
    site.call("POST /_backup/slow", "").await.done(202);
    let last = ended(&site).await;
    assert_eq!(last["succeeded"], false);
    let reason = last["error"]["reason"].as_str().unwrap();
    assert!(reason.contains("is locked"), "{reason}");

    let copy = dir.path().join("copy");
    let from = dir.path().join("backups/nightly");
    let volumes = Volumes::single(&copy);
    quiredb::operations::restore(OsEnv::new().unwrap(), &from, None, &volumes, &mut |_, _| ())
        .unwrap();
    let copy = Database::open(&copy).unwrap();
    assert_eq!(copy.collection("jobs").unwrap().count().unwrap(), 20);
}

#[tokio::test]
async fn what_the_operator_has_not_allowed_is_refused() {
    let site = Site::new();
    let reason = site
        .call("POST /_backup/nightly", "")
        .await
        .refused(403, "security_exception");
    assert!(reason.contains("--backup-dir"), "{reason}");

    let dir = tempfile::tempdir().unwrap();
    let allowed = dir.path().join("backups");
    let site = Site::with(ServerOptions {
        backup_dir: Some(allowed.clone()),
        ..ServerOptions::default()
    });
    for path in [
        "..",
        "%2e%2e",
        "%2Fetc%2Fx",
        "..%2Fx",
        "a%2Fb",
        ".hidden",
        "a%20b",
        "%00",
    ] {
        let reply = site.call(&format!("POST /_backup/{path}"), "").await;
        assert!((400..500).contains(&reply.status), "{path}: {reply:?}");
    }
    for query in ["keep=0", "keep=x", "rate_bytes=-1", "to=/etc"] {
        let line = format!("POST /_backup/nightly?{query}");
        site.call(&line, "")
            .await
            .refused(400, "illegal_argument_exception");
    }
    assert!(!allowed.exists());
}

#[tokio::test]
async fn a_server_that_stops_ends_a_running_backup() {
    let dir = tempfile::tempdir().unwrap();
    let server = Listening::new(ServerOptions {
        backup_dir: Some(dir.path().to_path_buf()),
        ..ServerOptions::default()
    })
    .await;
    let jobs = server
        .database
        .create_collection("jobs", Default::default())
        .unwrap();
    for number in 0..50u32 {
        let text = "y".repeat(10_000 + number as usize);
        let document = quiredb::Document::from_json(format!(r#"{{"t":"{text}"}}"#).as_bytes());
        jobs.put_at(&quiredb::Key::from(number), &document.unwrap())
            .unwrap();
    }
    let request = b"POST /_backup/slow?rate_bytes=100000 HTTP/1.0\r\n\r\n";
    let answer = server.exchange(request).await;
    assert!(answer.contains("202 Accepted"), "{answer}");
    server.begin_shutdown();
    let ended = tokio::time::timeout(Duration::from_secs(60), server.ended()).await;
    let database = ended.expect("the server waits for a backup that is slow");
    drop(jobs);
    database.close().unwrap();
}
