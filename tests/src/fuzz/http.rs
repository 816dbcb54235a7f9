//! Bodies of HTTP requests, sent to the whole server in process.

use super::{Target, Way};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use quire_env::SimEnv;
use quire_server::{ServerOptions, router};
use quiredb::{CollectionSettings, Database, DatabaseOptions};
use tower::ServiceExt;

/// A bulk body.
pub(super) const BULK: Target = Target {
    name: "bulk",
    run: |input| requests(&[("POST", "/_bulk"), ("POST", "/docs/_bulk")], input),
    seeds: || {
        let bodies = [
            "{\"index\":{\"_index\":\"docs\",\"_id\":\"1\"}}\n{\"a\":1}\n\
             {\"create\":{\"_id\":\"2\"}}\n{\"a\":[1,2]}\n{\"update\":{\"_id\":\"1\"}}\n\
             {\"doc\":{\"b\":null},\"doc_as_upsert\":true}\n{\"delete\":{\"_id\":\"2\"}}\n",
            "{\"update\":{\"_id\":\"9\",\"_index\":\"docs\",\"retry_on_conflict\":3}}\n\
             {\"doc\":{\"x\":\"é\"},\"upsert\":{\"y\":1.50}}\n\n{\"delete\":{\"_id\":\"7\",\
             \"if_seq_no\":1,\"if_primary_term\":1}}\n",
            "{\"index\":{}}\n{\"no\":\"id\"}\n",
            "{\"index\":{\"_id\":5}}\r\n{\"a\":1}\r\n{\"delete\":{\"_id\":\"\"}}",
        ];
        bodies.map(|body| [&[1], body.as_bytes()].concat()).into()
    },
    has_checksums: false,
    bytes_max: 256 << 20,
};

/// JSON bodies of other requests; the first byte says which.
pub(super) const BODIES: Target = Target {
    name: "bodies",
    run: |input| requests(REQUESTS, input),
    seeds: || {
        let bodies = [
            (
                0,
                "{\"docs\":[{\"_index\":\"docs\",\"_id\":\"1\",\"_source\":[\"a\",\"b*\"]},\
                 {\"_id\":\"2\",\"_source\":false},{\"_id\":3}]}",
            ),
            (1, r#"{"ids":["1","2",3],"docs":[]}"#),
            (
                2,
                "{\"doc\":{\"a\":{\"b\":null}},\"doc_as_upsert\":true,\"detect_noop\":false,\
                 \"_source\":true}",
            ),
            (2, r#"{"doc":{"a":1},"upsert":{"a":0}}"#),
            (3, r#"{"a":1,"b":{"c":[1,2,{"d":"e"}]}}"#),
            (
                4,
                "{\"settings\":{\"index\":{\"number_of_shards\":2,\"number_of_replicas\":\"0\"}},\
                 \"mappings\":{\"properties\":{\"a\":{\"type\":\"keyword\"}}}}",
            ),
            (5, r#"{"query":{"match_all":{}}}"#),
        ];
        bodies
            .map(|(which, body)| [&[which], body.as_bytes()].concat())
            .into()
    },
    has_checksums: false,
    bytes_max: 256 << 20,
};

/// Bodies of searches: the query DSL, sorts and aggregations.
pub(super) const SEARCH: Target = Target {
    name: "search",
    run: |input| requests(&[("POST", "/_search"), ("POST", "/docs/_count")], input),
    seeds: || {
        let bodies = [
            "{\"query\":{\"bool\":{\"filter\":[{\"term\":{\"a.b\":1}},\
             {\"range\":{\"a\":{\"gte\":0,\"lt\":2.5}}}],\"must_not\":{\"ids\":{\"values\":[\"1\",\
             7]}}}},\"from\":0,\"size\":5}",
            "{\"query\":{\"bool\":{\"should\":[{\"terms\":{\"a\":[\"x\",true,1]}},\
             {\"prefix\":{\"_id\":\"1\"}},{\"match_none\":{}}],\"minimum_should_match\":1}},\
             \"track_total_hits\":false}",
            "{\"sort\":[\"a\",{\"a.b\":\"desc\"},{\"_id\":{\"order\":\"asc\",\
             \"missing\":\"_last\"}}],\"_source\":{\"includes\":[\"a*\"],\"excludes\":[]}}",
            "{\"size\":0,\"aggs\":{\"t\":{\"terms\":{\"field\":\"a\",\"size\":3}},\
             \"h\":{\"histogram\":{\"field\":\"a.b\",\"interval\":0.5}},\
             \"m\":{\"max\":{\"field\":\"_id\"}},\"c\":{\"cardinality\":{\"field\":\"a\"}}}}",
            "{\"query\":{\"constant_score\":{\"filter\":{\"exists\":{\"field\":\"a\"}}}},\
             \"aggregations\":{\"s\":{\"sum\":{\"field\":\"a\"}},\
             \"v\":{\"avg\":{\"field\":\"a\"}}}}",
        ];
        let count = "{\"query\":{\"bool\":{\"must\":[{\"match_all\":{}},\
         {\"range\":{\"a\":{\"gt\":\"a\",\"lte\":\"z\"}}}]}}}";
        let mut seeds: Vec<Vec<u8>> = bodies.map(|body| [&[0], body.as_bytes()].concat()).into();
        seeds.push([&[1], count.as_bytes()].concat());
        seeds
    },
    has_checksums: false,
    bytes_max: 256 << 20,
};

const REQUESTS: &[(&str, &str)] = &[
    ("POST", "/_mget"),
    ("POST", "/docs/_mget"),
    ("POST", "/docs/_update/1"),
    ("PUT", "/docs/_doc/2"),
    ("PUT", "/more"),
    ("POST", "/docs/_count"),
];

/// A database on a simulated machine, with two documents.
pub(super) fn database() -> Database {
    let options = DatabaseOptions {
        memory_bytes: 16 << 20,
        ..DatabaseOptions::default()
    };
    let database = Database::builder("/db")
        .env(SimEnv::new(1))
        .options(options)
        .open()
        .unwrap();
    let settings = br#"{"partitions":1,"durability":"none"}"#;
    let settings = CollectionSettings::from_json(settings).unwrap();
    let collection = database.create_collection("docs", settings).unwrap();
    for (key, text) in [("1", r#"{"a":{"b":1}}"#), ("7", r#"{"a":[1]}"#)] {
        let (key, document) = (
            quiredb::Key::parse(key),
            quiredb::Document::from_json(text.as_bytes()),
        );
        collection
            .put_at(&key.unwrap(), &document.unwrap())
            .unwrap();
    }
    database
}

/// Sends the rest of the input to the endpoint that its first byte selects: the answer is JSON, and
/// never an internal error.
fn requests(requests: &[(&str, &str)], input: &[u8]) -> Way {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .build()
            .unwrap();
    }
    let Some((selector, body)) = input.split_first() else {
        return Way(0);
    };
    let (method, uri) = requests[usize::from(*selector) % requests.len()];
    let send = async {
        let request = Request::builder().method(method).uri(uri);
        let request = request.header("content-type", "application/json");
        let request = request.body(Body::from(body.to_vec())).unwrap();
        let site: Router = router(database(), ServerOptions::default()).unwrap();
        let response = site.oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let answer = response.into_body().collect().await.unwrap().to_bytes();
        (status, answer)
    };
    let (status, answer) = RUNTIME.with(|runtime| runtime.block_on(send));
    let text = String::from_utf8_lossy(&answer);
    assert!(status < 500, "{method} {uri}: {status} {text}");
    let json: Result<serde_json::Value, _> = serde_json::from_slice(&answer);
    // The parser of the check accepts 128 levels, and documents have more.
    let deep = matches!(&json, Err(error) if error.to_string().contains("recursion limit"));
    assert!(json.is_ok() || deep, "{method} {uri}: {status} {text}");
    Way::of(&text).and(Way(status.into()))
}
