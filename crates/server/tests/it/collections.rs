//! Collections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quire_server::ServerOptions;
use quiredb::Database;
use quiredb::wide::{ColumnType, Schema};
use serde_json::json;

use crate::site::Site;

#[tokio::test]
async fn a_collection_is_created_shown_and_dropped() {
    let site = Site::new();
    let body = r#"{"settings":{"index":{"number_of_shards":"3","number_of_replicas":1},
        "quire":{"key_field":"sku"},
        "refresh_interval":"30s"},
        "mappings":{"properties":{"sku":{"type":"keyword"}},"dynamic":false},"aliases":{}}"#;
    let reply = site.call("PUT /shop", body).await.done(200);
    assert_eq!(
        reply,
        json!({"acknowledged": true, "shards_acknowledged": true, "index": "shop"})
    );
    let settings = site.database.collection("shop").unwrap().settings().clone();
    assert_eq!(
        (settings.partitions, settings.key_field.as_str()),
        (3, "sku")
    );
    assert_eq!(
        site.call("POST /shop/_doc", r#"{"sku":"a7"}"#)
            .await
            .done(201)["_id"],
        "a7"
    );

    let shown = site.get("/shop").await.done(200);
    let index = &shown["shop"]["settings"]["index"];
    assert_eq!(
        (
            &index["number_of_shards"],
            &index["number_of_replicas"],
            &index["provided_name"]
        ),
        (&json!("3"), &json!("1"), &json!("shop"))
    );
    assert_eq!(shown["shop"]["settings"]["quire"]["key_field"], "sku");
    assert_eq!(site.call("HEAD /shop", "").await.status, 200);

    let reason = site
        .call("PUT /shop", "")
        .await
        .refused(400, "resource_already_exists_exception");
    assert!(reason.contains("[shop"), "{reason}");
    assert_eq!(
        site.call("DELETE /shop", "").await.done(200),
        json!({"acknowledged": true})
    );
    assert_eq!(site.call("HEAD /shop", "").await.status, 404);
    site.get("/shop")
        .await
        .refused(404, "index_not_found_exception");
    site.call("DELETE /shop", "")
        .await
        .refused(404, "index_not_found_exception");
    site.call("DELETE /shop?ignore_unavailable=true", "")
        .await
        .done(200);
}

#[tokio::test]
async fn number_of_shards_is_found_however_it_is_written() {
    let site = Site::new();
    let bodies = [
        r#"{"settings":{"number_of_shards":5}}"#,
        r#"{"settings":{"index.number_of_shards":5}}"#,
        r#"{"settings":{"index":{"number_of_shards":5}}}"#,
        r#"{"settings":{"quire.partitions":5,"number_of_shards":"5"}}"#,
        r#"{"quire":{"partitions":5}}"#,
        r#"{"settings":{"index":{"quire":{"partitions":5}}}}"#,
    ];
    for (at, body) in bodies.into_iter().enumerate() {
        site.call(&format!("PUT /c{at}"), body).await.done(200);
        assert_eq!(
            site.database
                .collection(&format!("c{at}"))
                .unwrap()
                .settings()
                .partitions,
            5,
            "{body}"
        );
    }
}

#[tokio::test]
async fn the_fields_of_the_index_are_found_however_they_are_written() {
    let site = Site::new();
    let index = r#"{"default":"none","body.html":"all"}"#;
    let forms = [
        format!(r#"{{"quire":{{"index":{index}}}}}"#),
        format!(r#"{{"quire.index":{index}}}"#),
        format!(r#"{{"index":{{"quire":{{"index":{index}}}}}}}"#),
    ];
    let index_of = |name: &str| {
        let collection = site.database.collection(name).unwrap();
        collection.settings().index.clone()
    };
    site.call("PUT /first", forms[0].clone()).await.done(200);
    let expected = index_of("first");
    for (at, form) in forms.iter().enumerate() {
        let made = format!(r#"{{"settings":{form}}}"#);
        let name = format!("c{at}");
        site.call(&format!("PUT /{name}"), made.clone())
            .await
            .done(200);
        assert_eq!(index_of(&name), expected, "{made}");
        let shown = site.get(&format!("/{name}/_settings")).await.done(200);
        let shown = &shown[&name]["settings"]["quire"]["index"];
        assert_eq!(shown["body.html"], "all", "{shown}");

        let settings = format!("PUT /{name}/_settings");
        let all = r#"{"quire.index":"all"}"#;
        site.call(&settings, all).await.done(200);
        assert_ne!(index_of(&name), expected);
        site.call(&settings, form.clone()).await.done(200);
        assert_eq!(index_of(&name), expected, "{form}");

        let template = format!(r#"{{"index_patterns":["t{at}*"],"template":{made}}}"#);
        let put = format!("PUT /_index_template/t{at}");
        site.call(&put, template.clone()).await.done(200);
        site.call(&format!("PUT /t{at}-1"), "").await.done(200);
        assert_eq!(index_of(&format!("t{at}-1")), expected, "{template}");
    }
    let wide = r#"{"settings":{"quire":{"wide":{"properties":{"a.b":{"type":"string"}}}}}}"#;
    site.call("PUT /rows", wide).await.done(200);
    assert!(site.database.is_wide("rows"));
}

#[tokio::test]
async fn what_is_not_supported_is_refused_by_name_and_nothing_created() {
    let site = Site::new();
    for (body, name) in [
        (r#"{"settings":{"index":{"codec":"best"}}}"#, "index.codec"),
        (
            r#"{"settings":{"number_of_shards":"many"}}"#,
            "number_of_shards",
        ),
        (r#"{"settings":{"number_of_shards":0}}"#, "partitions"),
        (
            r#"{"settings":{"number_of_replicas":{"a":1}}}"#,
            "number_of_replicas",
        ),
        (
            r#"{"settings":{"number_of_replicas":"all"}}"#,
            "number_of_replicas",
        ),
        (r#"{"settings":{"quire":{"colour":"red"}}}"#, "colour"),
        (
            r#"{"settings":{"number_of_shards":2,"quire.partitions":3}}"#,
            "given twice",
        ),
        (r#"{"aliases":{"jobs":{}}}"#, "[jobs]"),
    ] {
        let reason = site
            .call("PUT /jobs", body)
            .await
            .refused(400, "illegal_argument_exception");
        assert!(reason.contains(name), "{reason}");
    }
    site.call("PUT /jobs", r#"{"warmers":{}}"#)
        .await
        .refused(400, "parse_exception");
    site.call("PUT /jobs", "{")
        .await
        .refused(400, "parse_exception");
    site.call("PUT /Jobs", "")
        .await
        .refused(400, "invalid_index_name_exception");
    for line in ["DELETE /_all", "DELETE /*", "DELETE /a,b*"] {
        site.call(line, "")
            .await
            .refused(400, "illegal_argument_exception");
    }
    assert!(site.database.collections().is_empty());
}

#[tokio::test]
async fn settings_of_the_log_change_and_fixed_ones_do_not() {
    let site = Site::new();
    site.call("PUT /jobs", r#"{"quire":{"codec":"none"}}"#)
        .await
        .done(200);
    let change = r#"{"index":{"quire":{"codec":"zstd(5)","dictionary_bytes":16384}}}"#;
    site.call("PUT /jobs/_settings", change).await.done(200);
    site.call("PUT /jobs/_settings", r#"{"quire.block_bytes":65536}"#)
        .await
        .done(200);
    let change = r#"{"quire":{"retention_secs":2592000,"retention_bytes":107374182400}}"#;
    site.call("PUT /jobs/_settings", change).await.done(200);
    let shown = site.call("GET /jobs", "").await.done(200);
    let ours = &shown["jobs"]["settings"]["quire"];
    assert_eq!(
        (&ours["retention_secs"], &ours["retention_bytes"]),
        (&json!(2_592_000), &json!(107_374_182_400_u64))
    );
    assert_eq!(
        (
            &ours["codec"],
            &ours["dictionary_bytes"],
            &ours["block_bytes"]
        ),
        (&json!("zstd(5)"), &json!(16384), &json!(65536))
    );
    for (body, name) in [
        (r#"{"quire":{"partitions":77}}"#, "partitions"),
        (r#"{"quire.key_field":"id"}"#, "key_field"),
        (r#"{"quire.codec":"brotli"}"#, "brotli"),
        (r#"{"quire.codec":"lz4"}"#, "dictionary_bytes"),
        (r#"{"quire.retention_bytes":100}"#, "retention_bytes"),
        (r#"{"index":{"sort":"a"}}"#, "index.sort"),
    ] {
        let reason = site
            .call("PUT /jobs/_settings", body)
            .await
            .refused(400, "illegal_argument_exception");
        assert!(reason.contains(name), "{reason}");
    }
    site.call("PUT /nothing/_settings", "{}")
        .await
        .refused(404, "index_not_found_exception");
}

#[tokio::test]
async fn documents_of_collections_are_counted() {
    let site = Site::new();
    for (name, documents) in [("jobs", 3), ("jobs-old", 2), ("other", 1)] {
        site.collection(name);
        for id in 0..documents {
            site.call(&format!("PUT /{name}/_doc/{id}"), "{}")
                .await
                .done(201);
        }
    }
    for (line, body, count) in [
        ("GET /jobs/_count", "", 3),
        ("POST /jobs/_count", "{}", 3),
        ("POST /jobs/_count", r#"{"query":{"match_all":{}}}"#, 3),
        ("GET /_count", "", 6),
        ("GET /_all/_count", "", 6),
        ("GET /jobs*/_count", "", 5),
        ("GET /jobs,other/_count", "", 4),
        ("GET /jobs,absent/_count?ignore_unavailable", "", 3),
        ("GET /none*/_count", "", 0),
    ] {
        assert_eq!(
            site.call(line, body).await.done(200)["count"],
            count,
            "{line}"
        );
    }
    let shards = &site.get("/jobs/_count").await.done(200)["_shards"];
    assert_eq!(
        shards.to_string(),
        r#"{"total":2,"successful":2,"skipped":0,"failed":0}"#
    );
    site.get("/jobs,absent/_count")
        .await
        .refused(404, "index_not_found_exception");
    site.call("GET /jobs/_count", r#"{"aggs":{}}"#)
        .await
        .refused(400, "parsing_exception");
}

#[tokio::test]
async fn refresh_and_flush_succeed() {
    let site = Site::new();
    site.collection("jobs");
    site.call("PUT /jobs/_doc/1", "{}").await.done(201);
    for line in [
        "POST /jobs/_refresh",
        "GET /_refresh",
        "POST /jobs/_flush",
        "POST /_flush",
        "GET /_all/_flush?force",
    ] {
        let reply = site.call(line, "").await.done(200);
        assert_eq!(
            reply,
            json!({"_shards": {"total": 2, "successful": 2, "failed": 0}}),
            "{line}"
        );
    }
    site.call("POST /absent/_refresh", "")
        .await
        .refused(404, "index_not_found_exception");
}

#[tokio::test]
async fn fields_and_figures_of_collections_are_shown() {
    let site = Site::new();
    let documents = [
        r#"{"mark":"audi","price":12,"at":{"city":"Ulm"},"tags":["new","red"]}"#,
        r#"{"mark":"fiat","price":7.5,"sold":true,"note":null}"#,
    ];
    for (id, document) in documents.into_iter().enumerate() {
        let path = format!("PUT /cars/_doc/{id}");
        site.call(&path, document).await.done(201);
    }
    let mapping = site.get("/cars/_mapping").await.done(200);
    let named = |name: &str| json!({"type": name});
    assert_eq!(
        mapping,
        json!({"cars": {"mappings": {"properties": {
            "at": {"properties": {"city": named("keyword")}},
            "mark": named("keyword"),
            "price": named("double"),
            "sold": named("boolean"),
            "tags": named("keyword"),
        }}}})
    );
    let detailed = site.get("/_mapping?quire").await.done(200);
    let quire = &detailed["cars"]["quire"];
    assert_eq!(quire["documents"], 2);
    let fields = quire["fields"].as_array().unwrap();
    let tags = fields.iter().find(|field| field["path"] == "tags").unwrap();
    assert_eq!(
        (&tags["documents"], &tags["values"], &tags["several"]),
        (&json!(1), &json!(2), &json!(true))
    );
    site.get("/nowhere/_mapping")
        .await
        .refused(404, "index_not_found_exception");

    let stats = site.get("/cars/_stats").await.done(200);
    assert_eq!(stats["_all"]["primaries"]["docs"]["count"], 2);
    let index = &stats["indices"]["cars"]["quire"]["index"];
    assert!(
        index["lag_records"].is_u64() && index["trees"].is_object(),
        "{index}"
    );
    let metrics = site.get("/metrics").await.text;
    for name in ["complete", "lag_records", "lag_seconds", "errors"] {
        let line = format!(r#"quire_index_{name}{{collection="cars"}} "#);
        assert!(metrics.contains(&line), "{metrics}");
    }
    assert!(metrics.contains(r#"quire_index_bytes{collection="cars",tree=""#));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flush_and_forcemerge_of_all_pass_over_collections_that_come_and_go() {
    let site = Arc::new(Site::new());
    site.collection("stays");
    let changing = {
        let site = Arc::clone(&site);
        tokio::spawn(async move {
            for round in 0..60 {
                let name = format!("goes-{}", round % 3);
                site.call(&format!("PUT /{name}/_doc/1"), "{\"n\":1}").await;
                let dropped = site.call(&format!("DELETE /{name}"), "").await;
                assert_eq!(dropped.status, 200, "{}", dropped.text);
            }
        })
    };
    let mut calls = 0;
    while !changing.is_finished() || calls < 4 {
        for line in ["POST /_flush", "POST /_forcemerge", "POST /goes-*/_flush"] {
            site.call(line, "").await.done(200);
        }
        calls += 1;
    }
    changing.await.unwrap();
    site.call("PUT /stays/_doc/1", "{\"n\":1}").await.done(201);
    let flushed = site.call("POST /_flush", "").await.done(200);
    assert_eq!(flushed["_shards"]["failed"], 0, "{flushed}");
}

#[tokio::test]
async fn a_collection_that_was_closed_is_closed_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Database::open(dir.path().join("db")).unwrap();
    let site = Site::over(open(), ServerOptions::default());
    site.call("PUT /a/_doc/1", "{}").await.done(201);
    site.call("POST /a/_close", "").await.done(200);
    site.call("PUT /a/_settings", r#"{"index.blocks.write":true}"#)
        .await
        .done(200);
    site.database.close().unwrap();
    drop(site);
    let site = Site::over(open(), ServerOptions::default());
    site.get("/a/_doc/1")
        .await
        .refused(400, "index_closed_exception");
    site.call("POST /a/_open", "").await.done(200);
    site.get("/a/_doc/1").await.done(200);
    site.call("PUT /a/_doc/1", "{}")
        .await
        .refused(403, "cluster_block_exception");
}

#[tokio::test(flavor = "multi_thread")]
async fn flushes_and_merges_of_all_pass_over_what_is_dropped_meanwhile() {
    let site = Site::new();
    let make = |database: &Database, name: &str| match name {
        "wide" => {
            let schema = Schema::new().with_column("n", ColumnType::Int, "meta");
            let made = database.create_wide_collection(name, schema.unwrap(), Default::default());
            drop(made.unwrap());
        }
        _ => drop(
            database
                .create_collection(name, Default::default())
                .unwrap(),
        ),
    };
    for name in ["a", "m", "wide", "z"] {
        make(&site.database, name);
    }
    let is_done = Arc::new(AtomicBool::new(false));
    let (database, until) = (site.database.clone(), Arc::clone(&is_done));
    let drops = tokio::task::spawn_blocking(move || {
        let mut count = 0;
        while !until.load(Ordering::Relaxed) {
            for name in ["a", "m", "wide"] {
                database.drop_collection(name).unwrap();
                make(&database, name);
            }
            count += 1;
        }
        count
    });
    for round in 0..200 {
        let put = format!("PUT /z/_doc/{round}");
        site.call(&put, r#"{"n":1}"#).await.done(201);
        for call in ["POST /_flush", "POST /_forcemerge", "POST /_refresh"] {
            let reply = site.call(call, "").await;
            assert_eq!(reply.status, 200, "round {round}, {call}: {}", reply.text);
        }
    }
    is_done.store(true, Ordering::Relaxed);
    assert!(drops.await.unwrap() > 1);
}
