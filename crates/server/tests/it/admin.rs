//! The server as a whole.

use axum::body::Body;
use axum::http::Request;
use quire_server::ServerOptions;
use serde_json::json;

use crate::site::Site;

#[tokio::test]
async fn the_root_reports_what_clients_check() {
    let site = Site::new();
    let info = site.get("/").await.done(200);
    assert_eq!(info["version"]["distribution"], "opensearch");
    assert_eq!(info["version"]["number"], "2.19.0");
    assert_eq!(info["quire"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(info["cluster_uuid"].as_str().unwrap().len(), 22);
    assert_eq!(site.get("/").await.json(), info);
    assert_eq!(site.call("HEAD /", "").await.status, 200);
}

#[tokio::test]
async fn health_counts_partitions() {
    let site = Site::new();
    site.collection("jobs");
    site.collection("other");
    let health = site
        .get("/_cluster/health?wait_for_status=yellow&timeout=1s")
        .await
        .done(200);
    assert_eq!(health["status"], "green");
    assert_eq!(health["number_of_nodes"], 1);
    assert_eq!(health["active_shards"], 4);
    assert_eq!(
        site.get("/_cluster/health/jobs").await.done(200)["active_primary_shards"],
        2
    );
    site.get("/_cluster/health/absent")
        .await
        .refused(404, "index_not_found_exception");
    site.get("/_cluster/health?level=nodes")
        .await
        .refused(400, "illegal_argument_exception");
}

#[tokio::test]
async fn the_table_of_collections_is_text_or_json() {
    let site = Site::new();
    site.collection("jobs");
    site.collection("a-longer-name");
    site.call("PUT /jobs/_doc/1", "{}").await.done(201);
    let table = site.get("/_cat/indices?v&h=index,docs.count,pri").await;
    assert_eq!(table.headers["content-type"], "text/plain; charset=UTF-8");
    assert_eq!(
        table.text,
        "index         docs.count pri\na-longer-name          0   2\njobs                   1   2\n"
    );
    let all = site.get("/_cat/indices").await.text;
    let cells: Vec<&str> = all.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(cells[..3], ["green", "open", "jobs"], "{all}");
    let stats = site.get("/jobs/_stats").await.done(200);
    assert_eq!(stats["indices"]["jobs"]["uuid"], cells[3]);
    assert_eq!(cells[3].len(), 22, "{all}");
    assert_eq!(cells[4..8], ["2", "0", "1", "0"], "{all}");
    let rows = site
        .get("/_cat/indices/jobs?format=json&h=i,dc,health")
        .await
        .done(200);
    assert_eq!(rows, json!([{"i": "jobs", "dc": "1", "health": "green"}]));
    let rows = site
        .get("/_cat/indices?format=json&bytes=b")
        .await
        .done(200);
    assert!(
        rows[1]["store.size"]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .is_ok(),
        "{rows}"
    );
    site.get("/_cat/indices?h=colour")
        .await
        .refused(400, "illegal_argument_exception");
    site.get("/_cat/indices?format=yaml")
        .await
        .refused(400, "illegal_argument_exception");
    site.get("/_cat/indices/absent")
        .await
        .refused(404, "index_not_found_exception");
}

#[tokio::test]
async fn each_aggregation_that_the_node_lists_is_answered() {
    let site = Site::new();
    let listed = site.get("/_nodes/aggregations").await.done(200);
    let listed = &listed["nodes"]["quire"]["aggregations"];
    assert!(listed["terms"].is_object(), "{listed}");
    let search = |kind: &str| {
        let body = json!({"aggs": {"a": {kind: {"unknown_option": 1}}}});
        site.call("POST /_search", body.to_string())
    };
    let unknown = |kind: &str| format!("aggregation [{kind}] is not supported");
    assert!(search("zebra").await.text.contains(&unknown("zebra")));
    for kind in listed.as_object().unwrap().keys() {
        let refused = search(kind).await.text;
        assert!(!refused.contains(&unknown(kind)), "{kind}: {refused}");
    }
}

#[tokio::test]
async fn stats_and_metrics_count_what_was_done() {
    let site = Site::new();
    site.collection("jobs");
    site.call("PUT /jobs/_doc/1", "{}").await.done(201);
    site.get("/jobs/_doc/2").await.done(404);
    site.get("/nothing/here/at/all").await;
    let stats = site.get("/_quire/stats").await.done(200);
    assert_eq!(stats["collections"][0]["name"], "jobs");
    assert_eq!(stats["collections"][0]["documents"], 1);
    let metrics = site.get("/metrics").await;
    assert_eq!(
        metrics.headers["content-type"],
        "text/plain; version=0.0.4; charset=utf-8"
    );
    for line in [
        r#"quire_http_requests_total{route="/{collection}/_doc/{id}",method="PUT",status="201"} 1"#,
        r#"quire_http_requests_total{route="/{collection}/_doc/{id}",method="GET",status="404"} 1"#,
        r#"quire_http_requests_total{route="none",method="GET",status="400"} 1"#,
        r#"quire_http_request_seconds_count{route="/{collection}/_doc/{id}"} 2"#,
        r#"quire_documents{collection="jobs"} 1"#,
        "quire_http_buffer_bytes 0",
    ] {
        assert!(
            metrics.text.lines().any(|found| found == line),
            "{line} in\n{}",
            metrics.text
        );
    }
    let mut lines = metrics.text.lines();
    let resident = lines.find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
    let resident: u64 = resident.unwrap().parse().unwrap();
    // A page at least, and less than any machine has.
    assert!((1 << 12..1 << 50).contains(&resident), "{resident}");
    // One HELP and one TYPE for each name, and every sample under its name.
    let mut current = String::new();
    for line in metrics.text.lines() {
        match line.strip_prefix("# TYPE ") {
            Some(rest) => current = rest.split(' ').next().unwrap().to_owned(),
            None if line.starts_with("# HELP ") => {}
            None => assert!(
                line.starts_with(&current) && line.split(' ').count() == 2,
                "{line}"
            ),
        }
    }
}

#[tokio::test]
async fn each_operation_of_the_description_has_a_name_and_its_parameters_and_bodies() {
    let site = Site::new();
    let description = site.get("/openapi.json").await.done(200);
    let schemas = description["components"]["schemas"].as_object().unwrap();
    let mut names = std::collections::BTreeSet::new();
    for (path, operations) in description["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap().to_owned();
            assert!(names.insert(name.clone()), "{name}");
            let parameters = operation["parameters"].as_array().unwrap();
            let in_path = parameters.iter().filter(|one| one["in"] == "path");
            assert_eq!(in_path.count(), path.matches('{').count(), "{path}");
            assert!(
                parameters
                    .iter()
                    .all(|one| one["schema"]["type"].is_string())
            );
            let text = operation.to_string();
            for reference in text.split("#/components/schemas/").skip(1) {
                let name = reference.split('"').next().unwrap();
                assert!(schemas.contains_key(name), "{method} {path}: {name}");
            }
        }
    }
    let put = &description["paths"]["/{collection}/_doc/{id}"]["put"];
    assert_eq!(put["operationId"], "put_collection_doc_id");
    let answer = &put["responses"]["201"]["content"]["application/json"]["schema"];
    assert_eq!(answer["$ref"], "#/components/schemas/Written");
}

#[tokio::test]
async fn the_description_lists_exactly_what_is_served() {
    let site = Site::new();
    site.collection("jobs");
    let description = site.get("/openapi.json").await.done(200);
    assert_eq!(description["openapi"], "3.0.3");
    let paths = description["paths"].as_object().unwrap();
    assert!(paths.len() > 20);
    for (path, operations) in paths {
        let uri = path.replace("{collection}", "jobs").replace("{id}", "1");
        let mut allowed = Vec::new();
        for method in ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"] {
            let reply = site
                .call(&format!("{method} {uri}?no_such_parameter"), "")
                .await;
            let listed = operations.get(method.to_lowercase()).is_some();
            // A route that is served refuses an unknown parameter by name.
            assert_eq!(
                reply.status,
                if listed { 400 } else { 405 },
                "{method} {uri}: {}",
                reply.text
            );
            if listed {
                assert!(
                    method == "HEAD" || reply.text.contains("no_such_parameter"),
                    "{}",
                    reply.text
                );
                allowed.push(method);
            } else if method != "HEAD" {
                let json = reply.json();
                assert_eq!(json["status"], 405);
                let expected = format!(
                    "Incorrect HTTP method for uri [{uri}] and method [{method}], allowed: ["
                );
                assert!(
                    json["error"].as_str().unwrap().starts_with(&expected),
                    "{json}"
                );
                let header = reply.headers["allow"].to_str().unwrap();
                assert!(
                    header
                        .split(',')
                        .all(|method| operations.get(method.to_lowercase()).is_some()),
                    "{header}"
                );
            }
        }
        assert!(!allowed.is_empty());
    }
    for line in [
        "GET /jobs/_explain",
        "POST /_ingest/pipeline",
        "PUT /_scripts/x",
        "GET /a/b/c/d",
        "PUT /_x",
    ] {
        let reply = site.call(line, "").await;
        assert_eq!(reply.status, 400, "{line}");
        let (method, uri) = line.split_once(' ').unwrap();
        assert_eq!(
            reply.json(),
            json!({"error": format!("no handler found for uri [{uri}] and method [{method}]")})
        );
    }
}

#[tokio::test]
async fn nothing_is_served_without_the_token() {
    let site = Site::with(ServerOptions {
        token: Some("s3cret".into()),
        ..ServerOptions::default()
    });
    site.collection("jobs");
    for uri in [
        "/",
        "/metrics",
        "/openapi.json",
        "/jobs/_doc/1",
        "/no/such/route",
        "/_bulk",
        "/_quire/stats",
    ] {
        let reply = site.get(uri).await;
        reply.refused(401, "security_exception");
        assert!(
            reply.headers["www-authenticate"]
                .to_str()
                .unwrap()
                .starts_with("Bearer")
        );
        let wrong = Request::get(uri)
            .header("authorization", "Bearer s3cre7")
            .body(Body::empty())
            .unwrap();
        site.send(wrong).await.refused(401, "security_exception");
    }
    let request = Request::put("/jobs/_doc/1")
        .header("authorization", "Bearer s3cret")
        .body(Body::from("{}"))
        .unwrap();
    site.send(request).await.done(201);
}

#[tokio::test]
async fn pages_of_other_sites_may_not_write() {
    let site = Site::new();
    for (name, value) in [("origin", "https://evil.example"), ("host", "evil.example")] {
        let request = Request::put("/jobs/_doc/1")
            .header(name, value)
            .body(Body::from("{}"))
            .unwrap();
        site.send(request).await.refused(403, "security_exception");
    }
    assert!(site.database.collections().is_empty());
}

#[tokio::test]
async fn a_closed_database_is_reported() {
    let site = Site::new();
    site.collection("jobs");
    site.call("PUT /jobs/_doc/1", "{}").await.done(201);
    site.database.close().unwrap();
    for line in ["PUT /jobs/_doc/1", "GET /jobs/_doc/1", "PUT /jobs"] {
        site.call(line, "{}")
            .await
            .refused(503, "node_closed_exception");
    }
}

#[tokio::test]
async fn the_database_is_verified_while_it_is_served() {
    let site = Site::new();
    site.collection("jobs");
    site.call("PUT /jobs/_doc/1", r#"{"a":1}"#).await.done(201);
    assert_eq!(
        site.get("/_verify").await.done(200),
        json!({"running": null, "last": null})
    );
    site.call("POST /_verify?rate_bytes=fast", "")
        .await
        .refused(400, "illegal_argument_exception");
    let begun = site.call("POST /_verify?rate_bytes=0", "").await;
    assert_eq!(begun.done(202), json!({"acknowledged": true}));
    let last = loop {
        let state = site.get("/_verify").await.done(200);
        if state["running"].is_null() {
            break state["last"].clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    assert_eq!(last["succeeded"], true, "{last}");
    assert_eq!(last["report"]["documents"], 1);
    assert_eq!(last["report"]["damage"], json!([]));
}
