//! Every route, from the table itself: a new one is in these tests without being added to them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use quiredb::{CollectionSettings, Database, Document, Env, OsEnv};
use serde_json::Value;
use tempfile::TempDir;

use super::Routes;
use crate::access::guesses::GUESSES_MAX;
use crate::access::role::Role;
use crate::access::tokens::{NewToken, Tokens};
use crate::audit::{Audit, Peer};
use crate::limits::Limit;
use crate::log_file::LogFileOptions;
use crate::options::ServerOptions;
use crate::routes::ROUTES;
use crate::state::Server;

/// All methods that a client may try, and one that does not exist.
const METHODS: [&str; 10] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "FETCH",
];

/// Paths that no route has.
const OTHER_PATHS: [&str; 9] = [
    "/no/such/route",
    "/_nodes",
    "/_cluster/settings",
    "/_snapshot/x",
    "/.env",
    "/admin",
    "/health",
    "/favicon.ico",
    "/cars/_doc/1/2/3",
];

/// A server with a token, `root`, and an audit log.
struct Site {
    routes: Routes,
    audit: Audit,
    tokens: Tokens,
    dir: TempDir,
}

impl Site {
    fn new() -> Site {
        let dir = tempfile::tempdir().unwrap();
        let env: Arc<dyn Env> = OsEnv::new().unwrap();
        let database = Database::open(dir.path().join("db")).unwrap();
        let settings = CollectionSettings::default();
        database.create_collection("cars", settings).unwrap();
        let log = LogFileOptions::new(dir.path().join("audit.log"));
        let audit = Audit::open(Arc::clone(&env), log).unwrap();
        let tokens = Tokens::open_or_create(env, &dir.path().join("tokens")).unwrap();
        let options = ServerOptions {
            token: Some("root".to_owned()),
            tokens: Some(tokens.clone()),
            audit: Some(audit.clone()),
            ..ServerOptions::default()
        };
        let server = Server::new(database, options, None);
        Site {
            routes: Routes::all(Arc::new(server)),
            audit,
            tokens,
            dir,
        }
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: &'static str,
    ) -> (StatusCode, HeaderMap, String) {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Body::from(body)).unwrap();
        let response = self.routes.clone().answer(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (parts.status, parts.headers, text)
    }

    /// The lines of the audit log with this event: what each is about.
    fn noted(&self, event: &str) -> Vec<String> {
        self.audit.flush();
        let path = self.dir.path().join("audit.log");
        let bytes = OsEnv::new().unwrap().read(&path, 64 << 20).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let lines = text.lines().map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            line
        });
        let of_event = lines.filter(|line| line["event"] == event);
        let shown = of_event.map(|line| {
            let text = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
            [text("method"), text("path"), text("collection")].join(" ")
        });
        shown.collect()
    }
}

/// A path of a route: with a collection that exists, or with a pattern of all.
fn concrete(path: &str, collection: &str) -> String {
    path.replace("{collection}", collection)
        .replace("{id}", "1")
        .replace("{name}", "n")
}

#[tokio::test]
async fn a_scan_of_every_route_with_every_method_finds_nothing_but_401() {
    let site = Site::new();
    let routes = ROUTES.iter().map(|route| route.endpoint.path);
    let paths: BTreeSet<&str> = routes.chain(OTHER_PATHS).collect();
    let mut count = 0;
    for path in paths {
        for collection in ["cars", "*", "_all", "none"] {
            let path = concrete(path, collection);
            for method in METHODS {
                // The target of this method is an address and no path.
                if method == "CONNECT" {
                    continue;
                }
                let (status, headers, text) = site.send(method, &path, None, "").await;
                assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path}");
                assert!(headers.contains_key("www-authenticate"), "{method} {path}");
                // Nothing about the database, nor about what is served there.
                let is_plain = !headers.contains_key("allow") && !text.contains("cars");
                assert!(is_plain, "{method} {path}: {text}");
                count += 1;
            }
        }
    }
    assert!(count > 1000, "{count}");
}

#[tokio::test]
async fn every_request_that_changes_more_than_documents_is_audited() {
    let site = Site::new();
    let expected = [
        "POST /_tasks/1/_cancel",
        "POST /_tasks/_cancel",
        "POST /_delete_by_query/1/_rethrottle",
        "POST /_update_by_query/1/_rethrottle",
        "POST /_reindex/1/_rethrottle",
        "PUT /_quire/tokens/n",
        "DELETE /_quire/tokens/n",
        "PUT /_quire/coprocessors/n",
        "DELETE /_quire/coprocessors/n",
        "PUT /other/_quire/triggers/n",
        "DELETE /other/_quire/triggers/n",
        "POST /_backup/n",
        "POST /_verify",
        "DELETE /_search/point_in_time/_all",
        "POST /_follow",
        "POST /_follow/copy/1",
        "DELETE /_follow/copy/1",
        "PUT /other",
        "DELETE /other",
        "PUT /other/_settings",
        "PUT /other/_mapping",
        "POST /other/_mapping",
        "PUT /other/_mappings",
        "POST /other/_mappings",
        "POST /other/_schema",
        "POST /other/_tier",
        "PUT /_cluster/settings",
        "PUT /_template/n",
        "POST /_template/n",
        "DELETE /_template/n",
        "PUT /_index_template/n",
        "POST /_index_template/n",
        "DELETE /_index_template/n",
        "PUT /_component_template/n",
        "POST /_component_template/n",
        "DELETE /_component_template/n",
        "POST /_aliases",
        "PUT /other/_alias/n",
        "POST /other/_alias/n",
        "DELETE /other/_alias/n",
        "GET /_flush",
        "POST /_flush",
        "GET /other/_flush",
        "POST /other/_flush",
        "POST /_forcemerge",
        "POST /other/_forcemerge",
        "PUT /_settings",
        "PUT /other/_block/n",
        "POST /_close",
        "POST /other/_close",
        "POST /_nodes/reload_secure_settings",
        "POST /_nodes/1/reload_secure_settings",
        "POST /_open",
        "POST /other/_open",
        "POST /other/_rollover",
        "POST /other/_rollover/n",
        "PUT /other/_clone/n",
        "POST /other/_clone/n",
        "PUT /other/_shrink/n",
        "POST /other/_shrink/n",
        "PUT /other/_split/n",
        "POST /other/_split/n",
        "POST /other/_partitions",
        "PUT /_alias",
        "POST /_alias",
        "PUT /_alias/n",
        "POST /_alias/n",
        "PUT /other/_alias",
        "POST /other/_alias",
        "POST /_cache/clear",
        "POST /other/_cache/clear",
        "POST /_upgrade",
        "POST /other/_upgrade",
        "POST /_cluster/reroute",
        "POST /_cluster/voting_config_exclusions",
        "DELETE /_cluster/voting_config_exclusions",
    ];
    let mut sent = BTreeSet::new();
    for route in ROUTES {
        for method in route.endpoint.methods {
            let path = concrete(route.endpoint.path, "other");
            site.send(method.as_str(), &path, Some("root"), "").await;
            sent.insert(format!("{method} {path}"));
        }
    }
    let noted = site.noted("admin");
    let of_requests = noted.iter().filter_map(|line| line.strip_suffix(" -"));
    let of_requests: BTreeSet<&str> = of_requests.collect();
    assert_eq!(of_requests, BTreeSet::from(expected));
    assert!(expected.iter().all(|line| sent.contains(*line)));
    // What is left changes documents alone, or nothing.
    for route in ROUTES {
        let endpoint = &route.endpoint;
        for method in endpoint.methods {
            let what = concrete(endpoint.path, "other");
            let is_noted = expected.contains(&format!("{method} {what}").as_str());
            let is_look = matches!(*method, Method::GET | Method::HEAD);
            let of_documents = [
                "_doc",
                "_create",
                "_update",
                "_bulk",
                "_query",
                "_reindex",
                "_quire",
                "_search",
                "_mget",
                "_msearch",
                "_count",
                "_cell",
                "_field_caps",
                "_analyze",
                "_validate",
                "allocation/explain",
                "_simulate",
                "_refresh",
                "scroll",
                "point_in_time",
                "_pit",
            ];
            let is_known = of_documents.iter().any(|part| what.contains(part));
            assert!(is_noted || is_look || is_known, "{method} {what}");
        }
    }
}

#[tokio::test]
async fn refused_items_and_collections_made_by_writing_are_audited() {
    let site = Site::new();
    let new = NewToken {
        name: "writer".to_owned(),
        role: Role::Write,
        collections: vec!["logs-*".to_owned()],
        lifetime: None,
        limit: None,
    };
    let secret = site.tokens.create(new).unwrap();
    let requests = [
        (
            "POST",
            "/_bulk",
            "{\"index\":{\"_index\":\"logs-1\",\"_id\":\"1\"}}\n{}\n\
             {\"index\":{\"_index\":\"cars\",\"_id\":\"1\"}}\n{}\n\
             {\"index\":{\"_index\":\"cars\",\"_id\":\"2\"}}\n{}\n",
        ),
        (
            "POST",
            "/_mget",
            "{\"docs\":[{\"_index\":\"cars\",\"_id\":\"1\"}]}",
        ),
        ("POST", "/_msearch", "{\"index\":\"cars\"}\n{}\n"),
        ("PUT", "/logs-2/_doc/1", "{}"),
        (
            "POST",
            "/logs-3/_update/1",
            "{\"doc\":{},\"doc_as_upsert\":true}",
        ),
        (
            "POST",
            "/_reindex",
            "{\"source\":{\"index\":\"logs-2\"},\"dest\":{\"index\":\"logs-4\"}}",
        ),
        (
            "POST",
            "/_reindex",
            "{\"source\":{\"index\":\"cars\"},\"dest\":{\"index\":\"logs-4\"}}",
        ),
        ("GET", "/_search", ""),
    ];
    for (method, path, body) in requests {
        site.send(method, path, Some(&secret), body).await;
    }
    let refused = [
        "POST /_bulk cars",
        "POST /_mget cars",
        "POST /_msearch cars",
        "POST /_reindex -",
        "GET /_search -",
    ];
    assert_eq!(site.noted("refused"), refused);
    let created = [
        "POST /_bulk logs-1",
        "PUT /logs-2/_doc/1 logs-2",
        "POST /logs-3/_update/1 logs-3",
        "POST /_reindex logs-4",
    ];
    assert_eq!(site.noted("admin"), created);
}

#[tokio::test]
async fn coprocessors_are_kept_run_and_dropped_by_roles() {
    let site = Site::new();
    let new = NewToken {
        name: "reader".to_owned(),
        role: Role::Read,
        collections: vec!["*".to_owned()],
        lifetime: None,
        limit: None,
    };
    let reader = site.tokens.create(new).unwrap();
    for id in 1..=3 {
        let path = format!("/cars/_doc/{id}");
        site.send("PUT", &path, Some("root"), "{}").await;
    }
    // `(module (memory (export "memory") 1) (func (export "quire_1_filter") (result i32)
    // i32.const 1))`
    let module = concat!(
        "\0asm\u{1}\0\0\0\u{1}\u{5}\u{1}`\0\u{1}\u{7f}\u{3}\u{2}\u{1}\0",
        "\u{5}\u{3}\u{1}\0\u{1}\u{7}\u{1b}\u{2}\u{6}memory\u{2}\0\u{e}quire_1_filter\0\0",
        "\u{a}\u{6}\u{1}\u{4}\0A\u{1}\u{b}",
    );
    let put = "/_quire/coprocessors/all";
    let (reader, root) = (Some(reader.as_str()), Some("root"));
    for (method, token, body, status) in [
        ("PUT", reader, module, 403),
        ("PUT", root, "no wasm", 400),
        ("PUT", root, module, 201),
        ("GET", reader, "", 200),
    ] {
        assert_eq!(
            site.send(method, put, token, body).await.0,
            status,
            "{method} {status}"
        );
    }
    let run = "/cars/_quire/coprocessor";
    let body = r#"{"coprocessor":"all/1","as":"filter"}"#;
    let (status, _, rows) = site.send("POST", run, reader, body).await;
    assert_eq!(
        (status.as_u16(), rows.matches("{\"row\":").count()),
        (200, 3)
    );
    assert!(rows.ends_with("{\"end\":{\"documents\":3}}\n"), "{rows}");
    for (body, status) in [
        (r#"{"coprocessor":"all/2","as":"filter"}"#, 404),
        (r#"{"coprocessor":"all","as":"map"}"#, 400),
        (r#"{"coprocessor":"all","as":"trigger"}"#, 400),
        (
            r#"{"coprocessor":"all","as":"filter","columns":["a"]}"#,
            400,
        ),
        (
            r#"{"coprocessor":"all","as":"filter","fuel":2000000000}"#,
            400,
        ),
    ] {
        assert_eq!(
            site.send("POST", run, reader, body).await.0,
            status,
            "{body}"
        );
    }
    for (method, path, token, status) in [
        ("PUT", "/cars/_quire/triggers/all", root, 400),
        ("PUT", "/cars/_quire/triggers/other", root, 404),
        ("PUT", "/vans/_quire/triggers/all", root, 404),
        ("PUT", "/cars/_quire/triggers/all", reader, 403),
        ("DELETE", "/cars/_quire/triggers/all", reader, 403),
        ("DELETE", "/cars/_quire/triggers/all", root, 404),
        ("GET", "/cars/_quire/triggers", reader, 200),
    ] {
        let answered = site.send(method, path, token, "").await;
        assert_eq!(answered.0, status, "{method} {path}: {}", answered.2);
    }
    let drop = "/_quire/coprocessors/all?version=1";
    assert_eq!(site.send("DELETE", drop, reader, "").await.0, 403);
    assert_eq!(site.send("DELETE", drop, root, "").await.0, 200);
    assert_eq!(site.send("GET", put, root, "").await.0, 404);
}

#[tokio::test]
async fn wrong_tokens_are_slowed_and_an_address_that_sends_many_is_refused_unseen() {
    let site = Site::new();
    let reader = site.tokens.create(NewToken {
        name: "reader".to_owned(),
        role: Role::Read,
        collections: vec!["*".to_owned()],
        lifetime: None,
        limit: None,
    });
    let reader = reader.unwrap();
    let send = |peer: &Peer, token: &str| {
        let request = Request::get("/").extension(peer.clone());
        let request = request.header("authorization", format!("Bearer {token}"));
        site.routes
            .clone()
            .answer(request.body(Body::empty()).unwrap())
    };
    let status =
        async |peer: &Peer, token: &str| send(peer, token).await.unwrap().status().as_u16();
    let peer = |address: &str| Peer::new(Some(address.parse().unwrap()));
    let known = peer("10.0.0.1:1");
    assert_eq!(status(&known, "root").await, 200);
    let begun = tokio::time::Instant::now();
    assert_eq!(status(&peer("10.0.0.1:2"), "wrong").await, 401);
    assert!(begun.elapsed() >= super::WRONG_TOKEN_PAUSE);

    let guesser = peer("10.0.0.1:3");
    let mut guesses: Vec<_> = (0..GUESSES_MAX)
        .map(|_| Box::pin(send(&guesser, "no")))
        .collect();
    for guess in &mut guesses {
        assert!(futures_util::FutureExt::now_or_never(guess.as_mut()).is_none());
    }
    // Their pauses last until they are polled again. Whether the next one is right is not told.
    for token in ["no", reader.as_str()] {
        let refused = send(&guesser, token).await.unwrap();
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert!(refused.headers().contains_key("retry-after"));
    }
    // Those who share the address are not locked out.
    assert_eq!(status(&known, "root").await, 200);
    assert_eq!(status(&peer("10.0.0.1:4"), "root").await, 200);
    assert_eq!(status(&peer("10.0.0.2:1"), &reader).await, 200);
    for guess in guesses {
        assert_eq!(guess.await.unwrap().status(), StatusCode::UNAUTHORIZED);
    }
    assert_eq!(status(&guesser, &reader).await, 200);
}

#[tokio::test]
async fn searches_of_a_token_over_its_limit_are_refused_and_those_of_others_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::open(dir.path().join("db")).unwrap();
    let settings = CollectionSettings::default();
    database.create_collection("cars", settings).unwrap();
    let tokens = Tokens::open_or_create(OsEnv::new().unwrap(), &dir.path().join("tokens"));
    let tokens = tokens.unwrap();
    let [one, other] = ["one", "other"].map(|name| {
        let new = NewToken {
            name: name.to_owned(),
            role: Role::Read,
            collections: vec!["*".to_owned()],
            lifetime: None,
            limit: None,
        };
        tokens.create(new).unwrap()
    });
    let options = ServerOptions {
        tokens: Some(tokens),
        token_limit: Some(Limit {
            searches: Some(1),
            ..Limit::default()
        }),
        ..ServerOptions::default()
    };
    let server = Server::new(database, options, None);
    let buffers = server.buffers.clone();
    let routes = Routes::all(Arc::new(server));
    let search = |token: &str| {
        let request = Request::post("/cars/_search");
        let request = request.header("authorization", format!("Bearer {token}"));
        routes
            .clone()
            .answer(request.body(Body::from("{}")).unwrap())
    };
    // Searches have their turn, and then wait for memory; their bodies need little.
    let all = buffers.hold_now(buffers.bytes() - (1 << 20)).unwrap();
    let searches = [&one, &one, &other].map(|token| tokio::spawn(search(token)));
    let [mut first, mut second, third] = searches;
    let refused = tokio::select! {
        refused = &mut first => refused,
        refused = &mut second => refused,
    };
    let refused = refused.unwrap().unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "1");
    let text = refused.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.contains("searches at once of this token"), "{text}");
    drop(all);
    assert_eq!(third.await.unwrap().unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn a_sorted_scroll_gives_its_memory_to_those_that_wait_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::open(dir.path().join("db")).unwrap();
    let settings = CollectionSettings::default();
    let cars = database.create_collection("cars", settings).unwrap();
    for n in 0..100 {
        let document = Document::from_json(format!("{{\"_id\":\"{n}\",\"n\":{n}}}").as_bytes());
        cars.put(&document.unwrap()).unwrap();
    }
    let server = Server::new(database, ServerOptions::default(), None);
    let buffers = server.buffers.clone();
    let routes = Routes::all(Arc::new(server));
    let call = async |path: &str, body: String| -> Value {
        let request = Request::post(path).body(Body::from(body)).unwrap();
        let response = routes.clone().answer(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&bytes).unwrap()
    };
    let numbers = |page: &Value| -> Vec<u64> {
        let hits = page["hits"]["hits"].as_array().unwrap().iter();
        hits.map(|hit| hit["_source"]["n"].as_u64().unwrap())
            .collect()
    };
    let sorted = r#"{"size":10,"sort":[{"n":"desc"}]}"#.to_owned();
    let mut page = call("/cars/_search?scroll=5m", sorted).await;
    let mut found = numbers(&page);
    // The places of 90 hits are more than this leaves, and those of the next page are not.
    assert!(buffers.used_bytes() > 400, "{}", buffers.used_bytes());
    let most = buffers.bytes() - 400;
    drop(buffers.hold(most, Duration::from_secs(60)).await.unwrap());
    assert!(buffers.used_bytes() < 200, "{}", buffers.used_bytes());
    while !numbers(&page).is_empty() {
        let next = format!("{{\"scroll_id\":{}}}", page["_scroll_id"]);
        page = call("/_search/scroll", next).await;
        found.extend(numbers(&page));
    }
    assert_eq!(found, (0..100).rev().collect::<Vec<_>>());
}
