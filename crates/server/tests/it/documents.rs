//! One document at a time.

use axum::body::Body;
use axum::http::Request;
use serde_json::json;

use crate::site::Site;

#[tokio::test]
async fn a_document_comes_back_as_it_was_put() {
    let site = Site::new();
    let text = r#"{"b":1.50,"a":[1e3,{"x":null}],"n":18446744073709551615,"t":"ü\n"}"#;
    let created = site.call("PUT /jobs/_doc/7?refresh=true", text).await;
    assert_eq!(
        created.headers["content-type"],
        "application/json; charset=UTF-8"
    );
    let created = created.done(201);
    let version = created["_version"].as_u64().unwrap();
    assert_eq!(
        created,
        json!({"_index": "jobs", "_id": "7", "_version": version, "result": "created",
               "forced_refresh": true, "_shards": {"total": 1, "successful": 1, "failed": 0},
                "_seq_no": version, "_primary_term": 1})
    );

    let expected = format!(
        "{{\"_index\":\"jobs\",\"_id\":\"7\",\"_version\":{version},\"_seq_no\":{version},\
         \"_primary_term\":1,\"found\":true,\"_source\":{text}}}"
    );
    assert_eq!(site.get("/jobs/_doc/7").await.text, expected);
    assert_eq!(site.get("/jobs/_source/7").await.text, text);
    let head = site.call("HEAD /jobs/_doc/7", "").await;
    assert_eq!((head.status, head.text.as_str()), (200, ""));
    assert_eq!(head.headers["content-length"], expected.len().to_string());

    let updated = site.call("POST /jobs/_doc/7", r#"{"b":2}"#).await.done(200);
    assert_eq!(updated["result"], "updated");
    assert!(updated["_version"].as_u64() > Some(version));
    let deleted = site.call("DELETE /jobs/_doc/7", "").await.done(200);
    assert_eq!(deleted["result"], "deleted");
    assert!(deleted["_seq_no"].as_u64() > updated["_seq_no"].as_u64());
    assert_eq!(
        site.call("DELETE /jobs/_doc/7", "").await.done(404)["result"],
        "not_found"
    );

    let missing = site.get("/jobs/_doc/7").await;
    assert_eq!(missing.status, 404);
    assert_eq!(missing.text, r#"{"_index":"jobs","_id":"7","found":false}"#);
    assert_eq!(site.call("HEAD /jobs/_doc/7", "").await.status, 404);
    let reason = site
        .get("/jobs/_source/7")
        .await
        .refused(404, "resource_not_found_exception");
    assert_eq!(reason, "Document not found [jobs]/[7]");
}

#[tokio::test]
async fn an_unknown_collection_is_not_found_and_not_created_by_a_read_or_a_delete() {
    let site = Site::new();
    for line in [
        "GET /none/_doc/1",
        "GET /none/_source/1",
        "DELETE /none/_doc/1",
        "GET /Bad,Name/_doc/1",
    ] {
        site.call(line, "")
            .await
            .refused(404, "index_not_found_exception");
    }
    site.call("POST /none/_update/1", r#"{"doc":{}}"#)
        .await
        .refused(404, "index_not_found_exception");
    assert!(site.database.collections().is_empty());
    let reason = site
        .call("PUT /Bad/_doc/1", "{}")
        .await
        .refused(400, "invalid_index_name_exception");
    assert!(reason.contains("Bad"), "{reason}");
}

#[tokio::test]
async fn create_refuses_an_id_that_is_taken() {
    let site = Site::new();
    site.collection("jobs");
    assert_eq!(
        site.call("PUT /jobs/_create/1", "{}").await.done(201)["result"],
        "created"
    );
    for line in [
        "PUT /jobs/_create/1",
        "POST /jobs/_create/1",
        "PUT /jobs/_doc/1?op_type=create",
    ] {
        let reason = site
            .call(line, r#"{"x":1}"#)
            .await
            .refused(409, "version_conflict_engine_exception");
        assert!(reason.starts_with("[1]: version conflict, "), "{reason}");
    }
    assert_eq!(site.stored("jobs", "1").unwrap(), "{}");
}

#[tokio::test]
async fn a_write_on_condition_is_done_only_to_that_version() {
    let site = Site::new();
    site.collection("jobs");
    let version = site.call("PUT /jobs/_doc/1", r#"{"n":1}"#).await.done(201)["_seq_no"]
        .as_u64()
        .unwrap();
    let on = |method: &str, seq_no: u64| {
        format!("{method} /jobs/_doc/1?if_seq_no={seq_no}&if_primary_term=1")
    };
    let next = site.call(&on("PUT", version), r#"{"n":2}"#).await.done(200)["_seq_no"]
        .as_u64()
        .unwrap();
    for method in ["PUT", "DELETE"] {
        site.call(&on(method, version), r#"{"n":3}"#)
            .await
            .refused(409, "version_conflict_engine_exception");
    }
    let other_term = format!("PUT /jobs/_doc/1?if_seq_no={next}&if_primary_term=2");
    site.call(&other_term, "{}")
        .await
        .refused(409, "version_conflict_engine_exception");
    let missing = "PUT /jobs/_doc/2?if_seq_no=1&if_primary_term=1";
    site.call(missing, "{}")
        .await
        .refused(409, "version_conflict_engine_exception");
    for query in [
        "if_seq_no=1",
        "if_primary_term=1",
        "if_seq_no=1&if_primary_term=1&op_type=create",
    ] {
        let line = format!("PUT /jobs/_doc/1?{query}");
        site.call(&line, "{}")
            .await
            .refused(400, "action_request_validation_exception");
    }
    assert_eq!(site.stored("jobs", "1").unwrap(), r#"{"n":2}"#);
    let line = format!("/jobs/_doc/1?version={version}");
    site.get(&line)
        .await
        .refused(409, "version_conflict_engine_exception");
    site.get(&format!("/jobs/_doc/1?version={next}"))
        .await
        .done(200);
    site.call(&on("DELETE", next), "").await.done(200);
}

#[tokio::test]
async fn a_document_without_an_id_gets_one_or_has_one_in_its_key_field() {
    let site = Site::new();
    site.collection("jobs");
    let mut ids = Vec::new();
    for _ in 0..20 {
        let id = site.call("POST /jobs/_doc", r#"{"a":1}"#).await.done(201)["_id"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(
            id.len() == 20
                && id
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        );
        assert_eq!(site.stored("jobs", &id).unwrap(), r#"{"a":1}"#);
        ids.push(id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 20);

    assert_eq!(
        site.call("POST /jobs/_doc/", r#"{"_id":42}"#)
            .await
            .done(201)["_id"],
        "42"
    );
    assert_eq!(
        site.call("POST /jobs/_doc", r#"{"_id":42,"x":1}"#)
            .await
            .done(200)["result"],
        "updated"
    );
    let failure = site.call("POST /jobs/_doc", r#"{"_id":[1]}"#).await;
    failure.refused(400, "mapper_parsing_exception");
    assert!(
        failure.text.contains("an array can't be a key"),
        "{}",
        failure.text
    );
}

#[tokio::test]
async fn ids_are_percent_decoded_and_bounded() {
    let site = Site::new();
    site.collection("jobs");
    for (path, id) in [
        ("a%2Fb", "a/b"),
        ("%C3%BC%20x", "ü x"),
        ("a+b", "a+b"),
        ("%3F%25", "?%"),
        ("_x", "_x"),
    ] {
        let line = format!("PUT /jobs/_doc/{path}");
        assert_eq!(site.call(&line, r#"{"p":1}"#).await.done(201)["_id"], id);
        assert_eq!(
            site.get(&format!("/jobs/_doc/{path}")).await.done(200)["_id"],
            id
        );
        assert!(site.stored("jobs", id).is_some());
    }
    site.get("/jobs/_doc/%FF")
        .await
        .refused(400, "illegal_argument_exception");
    let longest = format!("PUT /jobs/_doc/{}", "x".repeat(1024));
    site.call(&longest, "{}").await.done(201);
    let reason = site
        .call(&format!("{longest}x"), "{}")
        .await
        .refused(400, "illegal_argument_exception");
    assert!(reason.contains("1025 bytes"), "{reason}");
    site.call(&format!("{longest}x").replace("jobs", "other"), "{}")
        .await
        .refused(400, "illegal_argument_exception");
    assert_eq!(site.database.collections(), ["jobs"]);
}

#[tokio::test]
async fn what_is_no_document_is_refused_with_the_reason() {
    let site = Site::new();
    site.collection("jobs");
    let deep = format!("{}1{}", "{\"a\":".repeat(200), "}".repeat(200));
    for (body, why) in [
        ("[1]", "must be a JSON object"),
        ("{", "byte 1"),
        (r#"{"a":1,"a":2}"#, "more than once"),
        (r#"{"a":123456789012345678901}"#, "123456789012345678901"),
        (deep.as_str(), "nesting deeper"),
        (r#"{} {}"#, "byte 3"),
    ] {
        let reply = site.call("PUT /jobs/_doc/1", body.to_owned()).await;
        reply.refused(400, "mapper_parsing_exception");
        let caused_by = reply.json()["error"]["caused_by"]["reason"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(caused_by.contains(why), "{caused_by}");
    }
    let invalid = site
        .call(
            "PUT /jobs/_doc/1",
            vec![b'{', b'"', 0xff, b'"', b':', b'1', b'}'],
        )
        .await;
    assert!(invalid.text.contains("UTF-8"), "{}", invalid.text);
    let reason = site
        .call("PUT /jobs/_doc/1", "")
        .await
        .refused(400, "parse_exception");
    assert_eq!(reason, "request body is required");
    let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(16 << 20));
    site.call("PUT /jobs/_doc/1", large)
        .await
        .refused(413, "content_too_long_exception");
    let larger = vec![b' '; 18 << 20];
    site.call("PUT /jobs/_doc/1", larger)
        .await
        .refused(413, "content_too_long_exception");
    assert_eq!(site.stored("jobs", "1"), None);
}

#[tokio::test]
async fn parameters_that_are_not_supported_are_refused_by_name() {
    let site = Site::new();
    site.collection("jobs");
    for query in [
        "pipeline=p",
        "refresh=soon",
        "wait_for_active_shards=2",
        "op_type=upsert",
        "ttl=1d",
        "version=x",
        "if_seq_no=x&if_primary_term=1",
    ] {
        let name = query.split('=').next().unwrap();
        let reason = site
            .call(&format!("PUT /jobs/_doc/1?{query}"), "{}")
            .await
            .refused(400, "illegal_argument_exception");
        assert!(reason.contains(name), "{reason}");
    }
    assert_eq!(site.stored("jobs", "1"), None);
    let harmless = "routing=2&pipeline=_none&refresh=wait_for&require_alias=false&timeout=1m\
                    &wait_for_active_shards=1";
    site.call(&format!("PUT /jobs/_doc/1?{harmless}"), "{}")
        .await
        .done(201);
}

#[tokio::test]
async fn the_source_is_shown_as_requested() {
    let site = Site::new();
    site.collection("jobs");
    site.call("PUT /jobs/_doc/1", r#"{"a":{"b":1.0,"c":2},"d":[{"e":1}]}"#)
        .await
        .done(201);
    for (query, source) in [
        ("", r#","_source":{"a":{"b":1.0,"c":2},"d":[{"e":1}]}"#),
        ("_source=false", ""),
        (
            "_source=a.b,d",
            r#","_source":{"a":{"b":1.0},"d":[{"e":1}]}"#,
        ),
        ("_source_includes=*.e", r#","_source":{"d":[{"e":1}]}"#),
        ("_source_excludes=a.c,d", r#","_source":{"a":{"b":1.0}}"#),
    ] {
        let reply = site.get(&format!("/jobs/_doc/1?{query}")).await;
        assert!(
            reply.text.ends_with(&format!("\"found\":true{source}}}")),
            "{query}: {}",
            reply.text
        );
    }
    assert_eq!(
        site.get("/jobs/_source/1?_source_includes=a.c").await.text,
        r#"{"a":{"c":2}}"#
    );
    let filtered = site.get("/jobs/_doc/1?filter_path=_id,_source.d").await;
    assert_eq!(filtered.text, r#"{"_id":"1","_source":{"d":[{"e":1}]}}"#);
    let pretty = site
        .get("/jobs/_doc/1?pretty&filter_path=_id,_source.a")
        .await;
    assert_eq!(
        pretty.text,
        concat!(
            "{\n  \"_id\" : \"1\",\n  \"_source\" : {\n    \"a\" : {\n",
            "      \"b\" : 1.0,\n      \"c\" : 2\n    }\n  }\n}\n"
        )
    );
}

#[tokio::test]
async fn content_types_and_slashes_at_the_end_do_not_matter() {
    let site = Site::new();
    site.collection("jobs");
    for content_type in [
        "application/json",
        "application/x-ndjson",
        "text/plain",
        "nonsense",
    ] {
        let request = Request::put("/jobs/_doc/1/")
            .header("content-type", content_type)
            .body(Body::from("{}"))
            .unwrap();
        assert!(site.send(request).await.status < 300);
    }
    let request = Request::put("/jobs/_doc/1")
        .header("content-encoding", "br")
        .body(Body::from("{}"))
        .unwrap();
    site.send(request)
        .await
        .refused(415, "illegal_argument_exception");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_creators_of_a_document_wins() {
    let site = std::sync::Arc::new(Site::new());
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..16 {
        let site = std::sync::Arc::clone(&site);
        // The first request creates the collection, too.
        tasks.spawn(async move {
            site.call("PUT /jobs/_create/1", format!(r#"{{"writer":{writer}}}"#))
                .await
                .status
        });
    }
    let mut statuses = tasks.join_all().await;
    statuses.sort_unstable();
    assert_eq!(statuses[0], 201);
    assert!(
        statuses[1..].iter().all(|status| *status == 409),
        "{statuses:?}"
    );
}
