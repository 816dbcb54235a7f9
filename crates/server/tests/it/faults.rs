//! A simulated machine that fails under the server.

use std::sync::Arc;

use quire_server::ServerOptions;
use quiredb::{Database, DatabaseOptions, Env, SimEnv};

use crate::site::Site;

fn site(env: &Arc<SimEnv>) -> Site {
    // Small segments: the space reserved for a segment can be written though the disk is full.
    let options = DatabaseOptions {
        segment_bytes: 1 << 20,
        ..DatabaseOptions::default()
    };
    let database = Database::builder("/db")
        .env(env.clone())
        .options(options)
        .open()
        .unwrap();
    Site::over(database, ServerOptions::default())
}

/// A document that can't be compressed.
fn noise(env: &SimEnv) -> String {
    let mut bytes = [0; 50_000];
    env.random(&mut bytes);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(r#"{{"p":"{hex}"}}"#)
}

#[tokio::test]
async fn a_full_disk_is_too_many_requests_and_what_was_written_is_served() {
    let env = SimEnv::new(1);
    let site = site(&env);
    site.call("PUT /jobs/_doc/0", r#"{"a":1}"#).await.done(201);
    env.set_capacity(4 << 20);
    let mut written = 0;
    let refused = loop {
        let line = format!("PUT /jobs/_doc/{}", written + 1);
        let reply = site.call(&line, noise(&env)).await;
        if reply.status != 201 {
            break reply;
        }
        written += 1;
        assert!(written < 1000, "the disk never filled");
    };
    refused.refused(429, "rejected_execution_exception");
    let body: String = (0..50)
        .map(|n| format!("{{\"index\":{{\"_id\":\"b{n}\"}}}}\n{}\n", noise(&env)))
        .collect();
    let reply = site.call("POST /jobs/_bulk", body).await.done(200);
    assert_eq!(reply["errors"], true);
    let last = &reply["items"][49]["index"];
    assert!(last["status"] == 429 || last["status"] == 503, "{last}");
    for id in 0..=written {
        site.get(&format!("/jobs/_doc/{id}")).await.done(200);
    }
}

#[tokio::test]
async fn after_a_failed_sync_writes_are_refused_and_reads_continue() {
    let env = SimEnv::new(1);
    let site = site(&env);
    site.call("PUT /jobs/_doc/kept", r#"{"a":1}"#)
        .await
        .done(201);
    env.fail_syncs(true);
    let reply = site.call("PUT /jobs/_doc/kept", r#"{"a":2}"#).await;
    assert!(reply.status >= 500, "{}", reply.text);
    env.fail_syncs(false);
    let reply = site.call("PUT /jobs/_doc/kept", r#"{"a":3}"#).await;
    let reason = reply.refused(503, "cluster_block_exception");
    assert!(reason.contains("no more writes"), "{reason}");
    assert_eq!(
        site.get("/jobs/_doc/kept").await.done(200)["_source"]["a"],
        1
    );
}
