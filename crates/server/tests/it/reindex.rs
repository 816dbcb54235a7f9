//! Documents that match a query are copied, or written again.

use quire_server::ServerOptions;
use quiredb::Collection;
use serde_json::{Value, json};

use crate::site::Site;

/// The keys and the bytes of all documents.
fn contents(collection: &Collection) -> Vec<(String, String)> {
    let all = collection.scan(..).unwrap().map(Result::unwrap);
    all.map(|found| (found.key.to_string(), found.document.to_json()))
        .collect()
}

async fn reindex(site: &Site, body: Value) -> Value {
    let reply = site.call("POST /_reindex", body.to_string()).await;
    reply.done(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_has_the_keys_and_the_bytes_of_each_document() {
    let site = Site::new();
    let from = site.collection("from");
    // Of every face: with an id in the document and without, numbers as written, odd keys.
    site.call("PUT /from/_doc/a%2Fb%20c", r#"{"n": 1.10,"_id":"a/b c"}"#)
        .await
        .done(201);
    site.call("POST /from/_doc", r#"{"n":1e3,"nested":{"z":1,"a":[]}}"#)
        .await
        .done(201);
    let lines: String = (0..2500)
        .map(|n| format!("{{\"index\":{{\"_id\":\"{n}\"}}}}\n{{\"n\":{n},\"é\":\"\\u0000\"}}\n"))
        .collect();
    site.call("POST /from/_bulk", lines).await.done(200);

    let body = json!({"source": {"index": "from"}, "dest": {"index": "to"}});
    let report = reindex(&site, body.clone()).await;
    assert_eq!(
        (&report["created"], &report["total"]),
        (&json!(2502), &json!(2502))
    );
    let to = site.database.collection("to").unwrap();
    assert_eq!(contents(&to), contents(&from));
    let again = reindex(&site, body).await;
    assert_eq!(
        (&again["created"], &again["updated"]),
        (&json!(0), &json!(2502))
    );
    assert_eq!(contents(&to), contents(&from));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_may_be_of_some_documents_of_several_collections_and_keep_what_is_there() {
    let site = Site::new();
    for name in ["a-1", "a-2"] {
        let collection = site.collection(name);
        for n in 0..4 {
            let path = format!("PUT /{name}/_doc/{name}-{n}");
            site.call(&path, format!("{{\"n\":{n}}}")).await.done(201);
        }
        drop(collection);
    }
    let source = json!({"index": ["a-*"], "query": {"range": {"n": {"gte": 2}}}, "size": 1});
    let create = json!({"index": "to", "op_type": "create"});
    let body = json!({"source": source, "dest": create, "max_docs": 3});
    let report = reindex(&site, body).await;
    assert_eq!(
        (&report["created"], &report["batches"]),
        (&json!(3), &json!(3))
    );

    let body = json!({"source": source, "dest": create});
    let reply = site.call("POST /_reindex", body.to_string()).await;
    assert_eq!(reply.status, 409, "{}", reply.text);
    assert_eq!(reply.json()["failures"][0]["id"], "a-1-2");
    let body = json!({"source": source, "dest": create, "conflicts": "proceed"});
    let report = reindex(&site, body).await;
    assert_eq!(
        (&report["created"], &report["version_conflicts"]),
        (&json!(1), &json!(3))
    );
    let path = "POST /_reindex?requests_per_second=1000";
    let body = json!({"source": {"index": "a-1", "size": 2}, "dest": {"index": "slow"}});
    let report = site.call(path, body.to_string()).await.done(200);
    assert_eq!(report["requests_per_second"], 1000.0);
    assert_eq!(report["total"], 4);
}

#[tokio::test]
async fn what_can_not_be_copied_is_refused_and_makes_no_collection() {
    let site = Site::new();
    site.collection("from");
    site.call("PUT /from/_alias/now", "").await.done(200);
    let to = json!({"index": "to"});
    for (body, status) in [
        (json!({"source": {"index": "absent"}, "dest": to}), 404),
        (
            json!({"source": {"index": "now"}, "dest": {"index": "from"}}),
            400,
        ),
        (json!({"source": {"index": "from"}}), 400),
        (
            json!({"source": {"remote": {}, "index": "from"}, "dest": to}),
            400,
        ),
        (
            json!({"source": {"index": "from"}, "dest": to, "script": {}}),
            400,
        ),
        (
            json!({"source": {"index": "from"}, "dest": to, "conflicts": "maybe"}),
            400,
        ),
        (
            json!({"source": {"index": "from"},
                "dest": {"index": "to", "version_type": "force"}}),
            400,
        ),
    ] {
        let reply = site.call("POST /_reindex", body.to_string()).await;
        assert_eq!(reply.status, status, "{body}: {}", reply.text);
    }
    let body = json!({"source": {"index": "from"}, "dest": to}).to_string();
    for param in ["slices=0", "slices=many", "requests_per_second=0"] {
        let reply = site
            .call(&format!("POST /_reindex?{param}"), body.clone())
            .await;
        reply.refused(400, "illegal_argument_exception");
    }
    assert_eq!(site.database.collections(), ["from"]);
}

#[tokio::test]
async fn a_document_that_contradicts_the_key_field_of_the_copy_ends_it() {
    let site = Site::new();
    site.collection("from");
    site.call("PUT /from/_doc/1", r#"{"sku":"other"}"#)
        .await
        .done(201);
    site.call("PUT /to", r#"{"quire":{"key_field":"sku"}}"#)
        .await
        .done(200);
    let body = json!({"source": {"index": "from"}, "dest": {"index": "to"}});
    let reply = site.call("POST /_reindex", body.to_string()).await;
    assert_eq!(reply.status, 400, "{}", reply.text);
    assert_eq!(reply.json()["failures"][0]["id"], "1");
    assert!(site.stored("to", "1").is_none());
}

#[tokio::test]
async fn documents_that_match_are_written_again_as_they_are() {
    let site = Site::new();
    site.collection("jobs");
    for n in 0..3 {
        let path = format!("PUT /jobs/_doc/{n}");
        site.call(&path, format!("{{\"n\":{n}}}")).await.done(201);
    }
    let version = async |id: &str| {
        let found = site.get(&format!("/jobs/_doc/{id}")).await;
        found.done(200)["_version"].as_u64().unwrap()
    };
    let (first, last) = (version("0").await, version("2").await);
    let body = json!({"query": {"range": {"n": {"gte": 1}}}}).to_string();
    let report = site
        .call("POST /jobs/_update_by_query?conflicts=proceed", body)
        .await;
    let report = report.done(200);
    assert_eq!(
        (&report["updated"], &report["total"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(version("0").await, first);
    assert!(version("2").await > last);
    assert_eq!(site.stored("jobs", "2").unwrap(), r#"{"n":2}"#);
    let script = r#"{"script":{"source":"ctx._source.n++"}}"#;
    let refused = site.call("POST /jobs/_update_by_query", script).await;
    let reason = refused.refused(400, "parsing_exception");
    assert!(reason.contains("script"), "{reason}");
}

/// The result of a task, once it has ended.
async fn result(site: &Site, task: &Value) -> Value {
    let show = format!("GET /_tasks/{}", task.as_str().unwrap());
    loop {
        let answer = site.call(&show, "").await.done(200);
        if answer["completed"] == true {
            return answer;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_nobody_waits_for_keeps_its_result() {
    let site = Site::new();
    let from = site.collection("from");
    for n in 0..3 {
        let path = format!("PUT /from/_doc/{n}");
        site.call(&path, r#"{"a":1}"#).await.done(201);
    }
    let body = json!({"source": {"index": "from"}, "dest": {"index": "to", "op_type": "create"}});
    let call = "POST /_reindex?wait_for_completion=false";
    let begun = site.call(call, body.to_string()).await.done(200);
    let done = result(&site, &begun["task"]).await;
    assert_eq!(done["response"]["created"], 3, "{done}");
    assert_eq!(done["task"]["action"], "indices:data/write/reindex");
    let to = site.database.collection("to").unwrap();
    assert_eq!(contents(&to), contents(&from));

    // Failures of documents are in the response.
    let begun = site.call(call, body.to_string()).await.done(200);
    let done = result(&site, &begun["task"]).await;
    assert_eq!(done["response"]["version_conflicts"], 3, "{done}");
    assert_eq!(done["response"]["failures"][0]["status"], 409, "{done}");

    let all = r#"{"query":{"match_all":{}}}"#;
    let call = "POST /to/_delete_by_query?wait_for_completion=false";
    let begun = site.call(call, all).await.done(200);
    let done = result(&site, &begun["task"]).await;
    assert_eq!(done["response"]["deleted"], 3, "{done}");
    assert_eq!(to.count().unwrap(), 0);
    site.call("GET /_tasks/quire:999999", "")
        .await
        .refused(404, "resource_not_found_exception");
}

/// Parts of work in the background, and what a task shows of them.
async fn slices_of(site: &Site, task: &Value) -> Vec<Value> {
    let list = format!(
        "GET /_tasks?group_by=none&parent_task_id={}",
        task.as_str().unwrap()
    );
    let listed = site.call(&list, "").await.done(200);
    listed["tasks"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn slices_together_do_each_document_once() {
    let site = Site::new();
    let settings = r#"{"settings":{"number_of_shards":4}}"#;
    for name in ["from", "to"] {
        site.call(&format!("PUT /{name}"), settings).await.done(200);
    }
    let lines: String = (0..2500)
        .map(|n| format!("{{\"index\":{{\"_id\":\"{n}\"}}}}\n{{\"n\":{n}}}\n"))
        .collect();
    site.call("POST /from/_bulk", lines).await.done(200);
    let from = site.database.collection("from").unwrap();
    let to = site.database.collection("to").unwrap();
    let body = json!({"source": {"index": "from"}, "dest": {"index": "to"}});
    // Fewer slices than partitions, as many, more; and one for each.
    for (slices, count, created) in [("3", 3, 2500), ("4", 4, 0), ("7", 7, 0), ("auto", 4, 0)] {
        let path = format!("POST /_reindex?slices={slices}");
        let report = site.call(&path, body.to_string()).await.done(200);
        assert_eq!(report["total"], 2500, "{report}");
        assert_eq!(report["created"], created, "{report}");
        let parts = report["slices"].as_array().unwrap();
        assert_eq!(parts.len(), count, "{report}");
        let of_parts = parts.iter().map(|part| part["total"].as_u64().unwrap());
        assert_eq!(of_parts.sum::<u64>(), 2500, "{report}");
        assert_eq!(contents(&to), contents(&from));
    }
    let path = "POST /to/_delete_by_query?slices=3&max_docs=10";
    let all = r#"{"query":{"match_all":{}}}"#;
    let report = site.call(path, all).await.done(200);
    assert_eq!(
        (&report["deleted"], to.count().unwrap()),
        (&json!(10), 2490)
    );
    let path = "POST /to/_update_by_query?slices=auto";
    let report = site.call(path, all).await.done(200);
    assert_eq!(report["updated"], 2490, "{report}");
    for (path, body) in [
        (
            "POST /to/_delete_by_query?slices=3&max_docs=2",
            json!({"query": {"match_all": {}}}),
        ),
        (
            "POST /to/_update_by_query?slices=2",
            json!({"slice": {"id": 0, "max": 2}}),
        ),
    ] {
        let reply = site.call(path, body.to_string()).await;
        reply.refused(400, "action_request_validation_exception");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slices_share_a_rate_and_end_when_their_task_is_cancelled() {
    let site = Site::new();
    let settings = r#"{"settings":{"number_of_shards":2}}"#;
    site.call("PUT /from", settings).await.done(200);
    for n in 0..40 {
        let path = format!("PUT /from/_doc/{n}");
        site.call(&path, r#"{"a":1}"#).await.done(201);
    }
    let path = "POST /_reindex?slices=2&wait_for_completion=false&requests_per_second=0.01";
    let body = json!({"source": {"index": "from", "size": 1}, "dest": {"index": "to"}});
    let task = site.call(path, body.to_string()).await.done(200)["task"].clone();
    let id = task.as_str().unwrap();
    // The task has the numbers of its slices: each has done a batch, and waits.
    let status = loop {
        let shown = site.get(&format!("/_tasks/{id}")).await.done(200);
        let status = shown["task"]["status"].clone();
        if status["created"] == 2 {
            break status;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(status["total"], 40, "{status}");
    for slice in status["slices"].as_array().unwrap() {
        assert_eq!(slice["batches"], 1, "{status}");
    }
    assert_eq!(slices_of(&site, &task).await.len(), 2);
    let path = format!("POST /_reindex/{id}/_rethrottle?requests_per_second=0.02");
    site.call(&path, "").await.done(200);
    site.call(&format!("POST /_tasks/{id}/_cancel"), "")
        .await
        .done(200);
    let done = result(&site, &task).await;
    let report = &done["response"];
    assert_eq!(report["canceled"], "by user request", "{done}");
    assert_eq!(report["requests_per_second"], 0.02, "{done}");
    assert_eq!(report["total"], 40, "{done}");
    assert!(report["created"].as_u64().unwrap() < 40, "{done}");
    for slice in report["slices"].as_array().unwrap() {
        assert_eq!(slice["requests_per_second"], 0.01, "{done}");
    }
    assert_eq!(slices_of(&site, &task).await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_collection_is_finished_though_its_caller_goes_away() {
    let site = Site::new();
    let lines: String = (0..20_000)
        .map(|n| format!("{{\"index\":{{\"_id\":\"{n}\"}}}}\n{{\"n\":{n}}}\n"))
        .collect();
    site.call("POST /from/_bulk", lines).await.done(200);
    site.call("PUT /from/_block/write", "").await.done(200);
    let is_there = async {
        while site.call("HEAD /to", "").await.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        reply = site.call("POST /from/_clone/to", "") => drop(reply.done(200)),
        () = is_there => {}
    }
    let is_closed = || {
        let settings = site.database.api_settings();
        settings.get("to").is_some_and(|settings| settings.closed)
    };
    while is_closed() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let (from, to) = (
        site.database.collection("from"),
        site.database.collection("to"),
    );
    assert_eq!(contents(&to.unwrap()), contents(&from.unwrap()));
}

#[tokio::test]
async fn the_first_documents_of_an_order_are_copied_and_some_of_their_fields() {
    let site = Site::new();
    for n in 0..8 {
        let document = format!(r#"{{"n":{n},"at":{{"x":{n}.50,"y":1}},"z":"z"}}"#);
        let path = format!("PUT /a{}/_doc/{n}", n % 2);
        site.call(&path, document).await.done(201);
    }
    let source = json!({"index": "a*", "sort": {"n": "desc"}, "size": 2,
        "_source": {"includes": ["n", "at"], "excludes": ["at.y"]}});
    let dest = json!({"index": "to", "routing": "discard"});
    let body = json!({"source": source, "dest": dest, "max_docs": 3});
    let report = reindex(&site, body.clone()).await;
    assert_eq!(
        (&report["created"], &report["total"], &report["batches"]),
        (&json!(3), &json!(3), &json!(2))
    );
    let to = contents(&site.database.collection("to").unwrap());
    let of = |n: u64| (n.to_string(), format!(r#"{{"n":{n},"at":{{"x":{n}.50}}}}"#));
    assert_eq!(to, [of(5), of(6), of(7)]);

    for (source, dest) in [
        (json!({"index": "a*", "_source": false}), dest.clone()),
        (json!({"index": "a*", "sort": 1}), dest.clone()),
        (
            json!({"index": "a*"}),
            json!({"index": "to", "routing": "x"}),
        ),
    ] {
        let body = json!({"source": source, "dest": dest}).to_string();
        let reply = site.call("POST /_reindex", body).await;
        assert_eq!(reply.status, 400, "{}", reply.text);
    }
    let sliced = site.call("POST /_reindex?slices=2", body.to_string()).await;
    sliced.refused(400, "action_request_validation_exception");
}

#[tokio::test]
async fn documents_of_a_wide_collection_are_copied() {
    let site = Site::new();
    let wide = r#"{"quire":{"wide":{"properties":{"n":{"type":"integer"}}}}}"#;
    site.call("PUT /wide", wide).await.done(200);
    site.call("PUT /plain/_doc/0", r#"{"n":0}"#).await.done(201);
    for n in 1..4 {
        let path = format!("PUT /wide/_doc/{n}");
        site.call(&path, format!(r#"{{"n":{n}}}"#)).await.done(201);
    }
    let source = json!({"index": "wide,plain", "query": {"range": {"n": {"lt": 3}}}, "size": 1});
    let body = json!({"source": source, "dest": {"index": "to"}});
    let report = reindex(&site, body).await;
    assert_eq!(report["created"], 3, "{report}");
    let to = contents(&site.database.collection("to").unwrap());
    // A row has its key.
    let of = |n: u64| (n.to_string(), format!(r#"{{"_id":{n},"n":{n}}}"#));
    assert_eq!(to, [("0".into(), r#"{"n":0}"#.into()), of(1), of(2)]);
}

#[tokio::test]
async fn routing_is_taken_where_documents_are_changed_by_query() {
    let site = Site::new();
    site.call("PUT /a/_doc/1?routing=x", r#"{"n":1}"#)
        .await
        .done(201);
    let all = r#"{"query":{"match_all":{}}}"#;
    let lines = format!("{{\"index\":\"a\",\"routing\":\"y\"}}\n{all}\n");
    let found = site.call("POST /_msearch", lines).await.done(200);
    assert_eq!(
        found["responses"][0]["hits"]["total"]["value"], 1,
        "{found}"
    );
    let path = "POST /a/_update_by_query?routing=y";
    let report = site.call(path, all).await.done(200);
    assert_eq!(report["updated"], 1);
    let path = "POST /a/_delete_by_query?routing=y";
    let report = site.call(path, all).await.done(200);
    assert_eq!(report["deleted"], 1);
}

#[tokio::test]
async fn a_copy_that_the_end_of_the_server_cut_off_is_dropped_when_it_begins_again() {
    let site = Site::new();
    site.call("PUT /from/_doc/1", r#"{"n":1}"#).await.done(201);
    site.call("PUT /from/_block/write", "").await.done(200);
    site.call("POST /from/_clone/to", "").await.done(200);
    site.call("POST /from/_close", "").await.done(200);
    let shown = site.get("/to/_settings").await.text;
    assert!(!shown.contains("unfinished"), "{shown}");
    // As it is while it is copied.
    let to = site.database.collection("to").unwrap();
    let mut settings = (*to.settings()).clone();
    settings.api.closed = true;
    let marker = "index.resize.unfinished".to_owned();
    settings.api.settings.insert(marker, "true".into());
    site.database.change_settings("to", settings).unwrap();
    let again = Site::over(site.database.clone(), ServerOptions::default());
    assert_eq!(again.database.collections(), ["from"]);
}
