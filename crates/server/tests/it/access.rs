//! Named tokens: what each role may do on each kind of route, and in each collection.

use std::path::PathBuf;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use quire_server::{MemcachedOptions, NewToken, Role, ServerOptions, Tokens};
use quiredb::{Env as _, OsEnv, SimEnv};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::site::{Listening, Reply, Site, read_all};

/// A server with named tokens, and `root` as its own token.
pub(crate) struct Guarded {
    pub(crate) site: Site,
    pub(crate) tokens: Tokens,
    _dir: TempDir,
}

pub(crate) fn options() -> (ServerOptions, Tokens, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join("tokens");
    let tokens = Tokens::open_or_create(OsEnv::new().unwrap(), &path).unwrap();
    let options = ServerOptions {
        token: Some("root".to_owned()),
        tokens: Some(tokens.clone()),
        ..ServerOptions::default()
    };
    (options, tokens, dir)
}

pub(crate) fn make(tokens: &Tokens, name: &str, role: Role, collections: &[&str]) -> String {
    let new = NewToken {
        name: name.to_owned(),
        role,
        collections: collections.iter().map(|one| (*one).to_owned()).collect(),
        lifetime: None,
        limit: None,
    };
    tokens.create(new).unwrap()
}

pub(crate) async fn send(
    site: &Site,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Reply {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    site.send(request.body(Body::from(body.to_owned())).unwrap())
        .await
}

impl Guarded {
    fn new() -> Guarded {
        let (options, tokens, dir) = options();
        Guarded::with(options, tokens, dir)
    }

    pub(crate) fn with(options: ServerOptions, tokens: Tokens, dir: TempDir) -> Guarded {
        Guarded {
            site: Site::with(options),
            tokens,
            _dir: dir,
        }
    }

    pub(crate) async fn call(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: &str,
    ) -> (u16, Value) {
        let authorization = format!("Bearer {token}");
        let headers = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
        ];
        let reply = send(&self.site, method, path, &headers, body).await;
        let json = serde_json::from_str(&reply.text).unwrap_or_default();
        (reply.status, json)
    }

    pub(crate) async fn status(&self, token: &str, method: &str, path: &str, body: &str) -> u16 {
        self.call(token, method, path, body).await.0
    }
}

/// Requests of each kind: a method, a path, a body, and the roles that may send it.
const READ: &[Role] = &[Role::Read, Role::Write, Role::Manage, Role::All];
const WRITE: &[Role] = &[Role::Write, Role::Manage, Role::All];
const MANAGE: &[Role] = &[Role::Manage, Role::All];
const FOLLOW: &[Role] = &[Role::Follow, Role::All];
const ALL: &[Role] = &[Role::All];
const EVERY: &[Role] = &[
    Role::Read,
    Role::Write,
    Role::Manage,
    Role::Follow,
    Role::All,
];

const REQUESTS: &[(&str, &str, &str, &[Role])] = &[
    ("GET", "/", "", EVERY),
    ("GET", "/_cluster/health", "", EVERY),
    ("GET", "/openapi.json", "", EVERY),
    ("GET", "/_tasks", "", EVERY),
    ("GET", "/_cat/tasks", "", EVERY),
    ("POST", "/_tasks/_cancel", "", EVERY),
    ("DELETE", "/_search/scroll/_all", "", EVERY),
    ("DELETE", "/_search/point_in_time/_all", "", EVERY),
    ("GET", "/_search/point_in_time/_all", "", READ),
    ("GET", "/logs-1/_doc/1", "", READ),
    ("HEAD", "/logs-1", "", READ),
    ("GET", "/logs-1/_search", "", READ),
    ("GET", "/logs-*/_count", "", READ),
    ("GET", "/logs-1/_mapping", "", READ),
    ("GET", "/logs-1/_changes", "", READ),
    ("GET", "/logs-1/_quire", "", READ),
    ("GET", "/logs-1/_quire/scan", "", READ),
    ("POST", "/logs-1/_quire/query", "{}", READ),
    ("POST", "/logs-1/_quire/sync", "", WRITE),
    ("POST", "/logs-1/_quire/write", "", WRITE),
    ("GET", "/_search", "", READ),
    ("GET", "/_mget", "{\"docs\":[]}", READ),
    ("GET", "/_cat/indices", "", READ),
    ("GET", "/metrics", "", READ),
    ("GET", "/_quire/stats", "", READ),
    ("PUT", "/logs-1/_doc/1", "{}", WRITE),
    ("DELETE", "/logs-1/_doc/2", "", WRITE),
    ("POST", "/logs-1/_update/1", "{\"doc\":{}}", WRITE),
    ("POST", "/_bulk", "", WRITE),
    ("POST", "/_reindex", "", WRITE),
    (
        "POST",
        "/logs-1/_delete_by_query",
        "{\"query\":{\"ids\":{\"values\":[]}}}",
        WRITE,
    ),
    ("GET", "/logs-1/_alias", "", READ),
    ("PUT", "/logs-1/_alias/logs-now", "{}", MANAGE),
    ("POST", "/_aliases", "{}", MANAGE),
    ("PUT", "/logs-new", "", MANAGE),
    ("DELETE", "/logs-absent", "", MANAGE),
    ("PUT", "/logs-1/_settings", "{}", MANAGE),
    ("POST", "/logs-1/_flush", "", MANAGE),
    // What these need beside the role is missing, so that they end at once.
    ("POST", "/_follow", "", FOLLOW),
    ("POST", "/_follow/copy/!", "x", FOLLOW),
    ("GET", "/_follow/copy/x/y", "", FOLLOW),
    ("POST", "/_forcemerge", "", MANAGE),
    ("GET", "/_backup", "", MANAGE),
    ("GET", "/_verify", "", MANAGE),
    ("DELETE", "/_follow/copy/x", "", FOLLOW),
    ("GET", "/_quire/tokens", "", ALL),
    ("PUT", "/_quire/tokens/x", "{}", ALL),
    ("DELETE", "/_quire/tokens/absent", "", ALL),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_role_may_do_what_it_says_on_every_kind_of_route() {
    let site = Guarded::new();
    site.status("root", "PUT", "/logs-1/_doc/1", "{}").await;
    for role in EVERY {
        let secret = make(&site.tokens, role.name(), *role, &["*"]);
        for (method, path, body, roles) in REQUESTS {
            let (status, answer) = site.call(&secret, method, path, body).await;
            match roles.contains(role) {
                true => assert!(
                    status != 401 && status != 403,
                    "{role} {method} {path}: {answer}"
                ),
                false => {
                    assert_eq!(status, 403, "{role} {method} {path}: {answer}");
                    if *method != "HEAD" {
                        assert_eq!(answer["error"]["type"], "security_exception");
                    }
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_some_collections_is_for_no_other() {
    let site = Guarded::new();
    for path in ["/logs-1/_doc/1", "/cars/_doc/1"] {
        site.status("root", "PUT", path, "{\"n\":1}").await;
    }
    let secret = make(&site.tokens, "logs", Role::Manage, &["logs-*"]);
    let allowed = [
        ("GET", "/logs-1/_doc/1"),
        ("GET", "/logs-*/_search"),
        ("GET", "/logs-1,logs-1/_count"),
        ("PUT", "/logs-2"),
    ];
    for (method, path) in allowed {
        let status = site.status(&secret, method, path, "").await;
        assert!(status < 300, "{method} {path}: {status}");
    }
    let refused = [
        ("GET", "/cars/_doc/1"),
        ("GET", "/logs-1,cars/_search"),
        ("GET", "/*/_search"),
        ("GET", "/_all/_search"),
        ("GET", "/_search"),
        ("GET", "/_count"),
        ("GET", "/log*/_count"),
        ("DELETE", "/cars"),
        ("PUT", "/boats"),
        ("GET", "/c%61rs/_doc/1"),
        ("POST", "/cars/_quire/write"),
        ("GET", "/cars/_quire/scan"),
        ("GET", "/_cat/indices"),
        ("GET", "/_quire/stats"),
        ("GET", "/metrics"),
        ("POST", "/_flush"),
        ("POST", "/_verify"),
        ("POST", "/_backup/x"),
    ];
    for (method, path) in refused {
        let status = site.status(&secret, method, path, "").await;
        assert_eq!(status, 403, "{method} {path}");
    }
    for (index, status) in [("cars", 403), ("logs-1", 200)] {
        let lookup =
            format!(r#"{{"query":{{"terms":{{"n":{{"index":"{index}","id":"1","path":"n"}}}}}}}}"#);
        for path in ["/logs-1/_search", "/logs-1/_count"] {
            let got = site.status(&secret, "POST", path, &lookup).await;
            assert_eq!(got, status, "{path} with values of {index}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn items_of_other_collections_are_refused_one_by_one() {
    let site = Guarded::new();
    for path in ["/logs-1/_doc/1", "/cars/_doc/1"] {
        site.status("root", "PUT", path, "{\"n\":1}").await;
    }
    let secret = make(&site.tokens, "logs", Role::Write, &["logs-*"]);
    let bulk = "{\"index\":{\"_index\":\"logs-1\",\"_id\":\"2\"}}\n{\"n\":2}\n\
                {\"index\":{\"_index\":\"cars\",\"_id\":\"2\"}}\n{\"n\":2}\n\
                {\"delete\":{\"_index\":\"cars\",\"_id\":\"1\"}}\n\
                {\"create\":{\"_index\":\"boats\",\"_id\":\"1\"}}\n{\"n\":2}\n";
    for path in ["/_bulk", "/logs-1/_bulk"] {
        let (status, answer) = site.call(&secret, "POST", path, bulk).await;
        assert_eq!((status, &answer["errors"]), (200, &json!(true)), "{answer}");
        let items = answer["items"].as_array().unwrap();
        let items = items
            .iter()
            .flat_map(|item| item.as_object().unwrap().values());
        let statuses: Vec<_> = items.map(|item| item["status"].as_u64().unwrap()).collect();
        assert!(
            statuses[0] < 300 && statuses[1..] == [403, 403, 403],
            "{answer}"
        );
    }
    assert_eq!(site.status("root", "GET", "/cars/_doc/1", "").await, 200);
    assert_eq!(site.status("root", "GET", "/boats", "").await, 404);

    let docs =
        "{\"docs\":[{\"_index\":\"logs-1\",\"_id\":\"1\"},{\"_index\":\"cars\",\"_id\":\"1\"}]}";
    let (_, answer) = site.call(&secret, "POST", "/_mget", docs).await;
    assert_eq!(answer["docs"][0]["_source"], json!({"n": 1}), "{answer}");
    assert_eq!(
        answer["docs"][1]["error"]["type"], "security_exception",
        "{answer}"
    );

    let searches = "{\"index\":\"logs-1\"}\n{}\n{\"index\":\"cars\"}\n{}\n{}\n{}\n\
                    {\"index\":[\"logs-1\",\"cars\"]}\n{}\n";
    let (_, answer) = site.call(&secret, "POST", "/_msearch", searches).await;
    let responses = answer["responses"].as_array().unwrap();
    let statuses: Vec<_> = responses
        .iter()
        .map(|one| one["status"].as_u64().unwrap())
        .collect();
    assert_eq!(statuses, [200, 403, 403, 403], "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_scrolls_and_points_are_closed_by_their_openers_and_by_those_who_manage() {
    let site = Guarded::new();
    site.status("root", "PUT", "/logs-1/_doc/1", "{}").await;
    let owner = make(&site.tokens, "owner", Role::Read, &["*"]);
    let others = [
        make(&site.tokens, "reader", Role::Read, &["*"]),
        make(&site.tokens, "narrow", Role::Manage, &["logs-*"]),
        make(&site.tokens, "follower", Role::Follow, &["*"]),
    ];
    let open = async |path: &str, id: &str| {
        let (status, opened) = site.call(&owner, "POST", path, "").await;
        assert_eq!(status, 200, "{opened}");
        opened[id].as_str().unwrap().to_owned()
    };
    let scroll = open("/logs-1/_search?scroll=5m", "_scroll_id").await;
    let point = open("/logs-1/_search/point_in_time?keep_alive=5m", "pit_id").await;
    let is_open = async || {
        let body = json!({"scroll_id": scroll, "scroll": "5m"}).to_string();
        let scrolled = site.status(&owner, "POST", "/_search/scroll", &body).await;
        let body = json!({"pit": {"id": point}}).to_string();
        let searched = site.status(&owner, "POST", "/_search", &body).await;
        assert_eq!(scrolled, searched);
        scrolled == 200
    };
    let all = [
        ("/_search/scroll/_all", ""),
        ("/_search/scroll", r#"{"scroll_id":"_all"}"#),
        ("/_search/scroll", r#"{"scroll_id":["_all"]}"#),
        ("/_search/point_in_time/_all", ""),
        ("/_search/point_in_time", r#"{"pit_id":"_all"}"#),
        ("/_search/point_in_time", r#"{"pit_id":["_all"]}"#),
    ];
    for token in &others {
        for (path, body) in all {
            let (_, answer) = site.call(token, "DELETE", path, body).await;
            assert!(!answer.to_string().contains(&point), "{path} {answer}");
            assert!(is_open().await, "{path} {body}");
        }
    }
    for (path, body) in [all[0], all[3]] {
        let (status, answer) = site.call(&owner, "DELETE", path, body).await;
        assert_eq!(status, 200, "{answer}");
    }
    assert!(!is_open().await);
    let manager = make(&site.tokens, "manager", Role::Manage, &["*"]);
    let _reopened = open("/logs-1/_search?scroll=5m", "_scroll_id").await;
    let (_, closed) = site
        .call(&manager, "DELETE", "/_search/scroll/_all", "")
        .await;
    assert_eq!(closed["num_freed"], 1, "{closed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_made_listed_and_revoked_over_http() {
    let site = Guarded::new();
    let body = "{\"role\":\"read\",\"collections\":[\"cars\"],\"expires\":\"30d\"}";
    let (status, made) = site
        .call("root", "PUT", "/_quire/tokens/reader", body)
        .await;
    assert_eq!(status, 201, "{made}");
    let secret = made["token"].as_str().unwrap();
    assert_eq!(site.status(secret, "GET", "/cars/_count", "").await, 404);
    let again = site
        .status("root", "PUT", "/_quire/tokens/reader", body)
        .await;
    assert_eq!(again, 409);
    let (_, listed) = site.call("root", "GET", "/_quire/tokens", "").await;
    assert_eq!(listed["tokens"][0]["name"], "reader");
    assert!(!listed.to_string().contains(secret) && !listed.to_string().contains("sha256"));
    assert_eq!(
        site.status("root", "DELETE", "/_quire/tokens/reader", "")
            .await,
        200
    );
    assert_eq!(site.status(secret, "GET", "/cars/_count", "").await, 401);
    assert_eq!(
        site.status("root", "DELETE", "/_quire/tokens/reader", "")
            .await,
        404
    );
    for wrong in [
        "",
        "{}",
        "{\"role\":\"god\"}",
        "{\"role\":\"read\",\"expires\":\"soon\"}",
    ] {
        let status = site.status("root", "PUT", "/_quire/tokens/x", wrong).await;
        assert_eq!(status, 400, "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_every_route_answers_401_and_nothing_else() {
    let site = Guarded::new();
    site.status("root", "PUT", "/cars/_doc/1", "{}").await;
    let (_, described) = site.call("root", "GET", "/openapi.json", "").await;
    let mut count = 0;
    for (path, methods) in described["paths"].as_object().unwrap() {
        let path = path.replace("{collection}", "cars");
        let path = path.replace("{id}", "1").replace("{name}", "x");
        for method in methods.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            let reply = send(&site.site, &method, &path, &[], "").await;
            assert_eq!(reply.status, 401, "{method} {path}");
            assert!(!reply.text.contains("cars"), "{method} {path}");
            count += 1;
        }
    }
    assert!(count > 80, "{count}");
    for path in ["/absent/_thing", "/_absent", "//"] {
        let reply = send(&site.site, "GET", path, &[], "").await;
        assert_eq!(reply.status, 401, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_port_of_metrics_serves_metrics_and_health_and_nothing_else() {
    let (options, _tokens, _dir) = options();
    let site = Listening::new(ServerOptions {
        metrics_listen: Some("127.0.0.1:0".parse().unwrap()),
        ..options
    })
    .await;
    let port = site.metrics.unwrap();
    let call = async |address, method: &str, path: &str| {
        // Scrapers call a server by its name.
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: db.example:9100\r\nContent-Length: 0\r\n\
             Connection: close\r\n\r\n"
        );
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = read_all(&mut stream).await;
        let status: u16 = answer[9..12].parse().unwrap();
        (status, answer)
    };
    let (status, metrics) = call(port, "GET", "/metrics").await;
    assert_eq!(status, 200, "{metrics}");
    assert!(metrics.contains("quire_http_connections"), "{metrics}");
    let (status, health) = call(port, "GET", "/_cluster/health").await;
    assert!(
        status == 200 && health.contains("\"status\":\"green\""),
        "{health}"
    );
    for path in [
        "/",
        "/_cat/indices",
        "/cars",
        "/cars/_doc/1",
        "/_quire/stats",
        "/_bulk",
    ] {
        for method in ["GET", "PUT", "POST", "DELETE"] {
            let (status, answer) = call(port, method, path).await;
            assert_eq!(status, 400, "{method} {path}: {answer}");
        }
    }
    assert_eq!(call(port, "DELETE", "/metrics").await.0, 405);
    // The other port is as closed as before.
    for path in ["/metrics", "/_cluster/health"] {
        assert_eq!(call(site.address, "GET", path).await.0, 401, "{path}");
    }
    site.begin_shutdown();
    site.ended().await.close().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_every_command_of_memcached_is_refused_and_the_connection_ends() {
    let (options, _tokens, _dir) = options();
    let site = Listening::new(ServerOptions {
        memcached: Some(MemcachedOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            ..MemcachedOptions::default()
        }),
        ..options
    })
    .await;
    let commands = [
        "get cars:1",
        "gets cars:1 cars:2",
        "gat 0 cars:1",
        "gats 0 cars:1",
        "add cars:1 0 0 2\r\n{}",
        "replace cars:1 0 0 2\r\n{}",
        "append cars:1 0 0 2\r\n{}",
        "prepend cars:1 0 0 2\r\n{}",
        "cas cars:1 0 0 2 5\r\n{}",
        "delete cars:1",
        "incr cars:1 1",
        "decr cars:1 1",
        "touch cars:1 0",
        "mg cars:1 v",
        "ms cars:1 2\r\n{}",
        "md cars:1",
        "ma cars:1",
        "mn",
        "me cars:1",
        "version",
        "verbosity 1",
        "stats",
        "stats settings",
        "stats reset",
        "flush_all",
        "lru_crawler metadump all",
        "watch fetchers",
        "slabs reassign 1 2",
        "nonsense",
        "set cars:1 0 0 2\r\n{}",
        "set cars:1 0 0 5\r\nx bad",
    ];
    for command in commands {
        let mut stream = TcpStream::connect(site.memcached.unwrap()).await.unwrap();
        let lines = format!("{command}\r\nget cars:1\r\nstats\r\n");
        stream.write_all(lines.as_bytes()).await.unwrap();
        let answer = read_all(&mut stream).await;
        let refused = ["unauthenticated", "authentication failure"];
        let expected = refused.map(|reason| format!("CLIENT_ERROR {reason}\r\n"));
        assert!(expected.contains(&answer), "{command}: {answer}");
    }
    assert!(site.database.collections().is_empty());
}

/// Sends lines to the memcached port; the answer up to the end of the connection.
pub(crate) async fn talk(stream: &mut TcpStream, lines: &str, until: &str) -> String {
    stream.write_all(lines.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !String::from_utf8_lossy(&answer).contains(until) {
        if stream.read_buf(&mut answer).await.unwrap() == 0 {
            break;
        }
    }
    String::from_utf8(answer).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn memcached_clients_do_what_their_token_grants_until_it_is_revoked() {
    let (options, tokens, _dir) = options();
    let options = ServerOptions {
        memcached: Some(MemcachedOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            ..MemcachedOptions::default()
        }),
        ..options
    };
    let site = Listening::new(options).await;
    let secret = make(&tokens, "reader", Role::Read, &["logs"]);
    let connect = || TcpStream::connect(site.memcached.unwrap());
    let mut root = connect().await.unwrap();
    let lines = "set a 0 0 6\r\nx root\r\nset logs:1 0 0 2\r\n{}\r\nset cars:1 0 0 2\r\n{}\r\n\
                 version\r\n";
    let answer = talk(&mut root, lines, "VERSION").await;
    assert!(
        answer.starts_with("STORED\r\nSTORED\r\nSTORED\r\n"),
        "{answer}"
    );

    let mut reader = connect().await.unwrap();
    let value = format!("x {secret}");
    let lines = format!(
        "set a 0 0 {}\r\n{value}\r\nget logs:1\r\nset logs:1 0 0 2\r\n[]\r\n\
         get cars:1\r\nstats\r\n",
        value.len()
    );
    let answer = talk(&mut reader, &lines, "statistics").await;
    assert!(
        answer.starts_with("STORED\r\nVALUE logs:1 0 2\r\n{}\r\nEND\r\n"),
        "{answer}"
    );
    assert_eq!(answer.matches("no permissions").count(), 3, "{answer}");

    tokens.revoke("reader").unwrap();
    let answer = talk(&mut reader, "get logs:1\r\n", "END").await;
    assert_eq!(answer, "CLIENT_ERROR unauthenticated\r\n");
    let mut stranger = connect().await.unwrap();
    let wrong = tokio::time::timeout(
        Duration::from_secs(60),
        talk(&mut stranger, "set a 0 0 3\r\nx y\r\n", "never"),
    );
    assert_eq!(
        wrong.await.unwrap(),
        "CLIENT_ERROR authentication failure\r\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_has_expired_admits_nobody_over_http_and_memcached() {
    // The clock of the tokens is a simulated one.
    let env = SimEnv::new(1);
    let tokens = Tokens::open_or_create(env.clone(), &PathBuf::from("/tokens")).unwrap();
    let new = NewToken {
        name: "brief".to_owned(),
        role: Role::Read,
        collections: vec!["*".to_owned()],
        lifetime: Some(Duration::from_secs(60)),
        limit: None,
    };
    let secret = tokens.create(new).unwrap();
    let site = Listening::new(ServerOptions {
        tokens: Some(tokens),
        memcached: Some(MemcachedOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            ..MemcachedOptions::default()
        }),
        ..ServerOptions::default()
    })
    .await;
    let status = async || {
        let request = format!(
            "GET /_count HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\n\
             Connection: close\r\n\r\n"
        );
        site.exchange(request.as_bytes()).await[9..12].to_owned()
    };
    assert_eq!(status().await, "200");
    let mut client = TcpStream::connect(site.memcached.unwrap()).await.unwrap();
    let value = format!("x {secret}");
    let lines = format!("set a 0 0 {}\r\n{value}\r\nversion\r\n", value.len());
    let answer = talk(&mut client, &lines, "VERSION").await;
    assert!(answer.starts_with("STORED\r\nVERSION"), "{answer}");
    env.sleep(Duration::from_secs(61));
    assert_eq!(status().await, "401");
    let answer = talk(&mut client, "version\r\n", "unauthenticated").await;
    assert_eq!(answer, "CLIENT_ERROR unauthenticated\r\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alias_opens_only_what_the_token_allows_by_both_names() {
    let site = Guarded::new();
    for path in ["/logs-1/_doc/1", "/wages/_doc/1"] {
        site.status("root", "PUT", path, "{}").await;
    }
    let shipper = make(&site.tokens, "shipper", Role::Manage, &["logs-*"]);
    for (index, alias, status) in [("logs-1", "logs-now", 200), ("wages", "logs-sly", 403)] {
        let path = format!("/{index}/_alias/{alias}");
        assert_eq!(site.status(&shipper, "PUT", &path, "{}").await, status);
        assert_eq!(site.status("root", "PUT", &path, "{}").await, 200);
    }
    site.status("root", "PUT", "/logs-1/_alias/public", "{}")
        .await;
    let bulk = |alias: &str| format!("{{\"index\":{{\"_index\":\"{alias}\"}}}}\n{{}}\n");
    let docs = |alias: &str| format!("{{\"docs\":[{{\"_index\":\"{alias}\",\"_id\":\"1\"}}]}}");
    for (alias, is_allowed) in [("logs-now", true), ("logs-sly", false), ("public", false)] {
        let expected = if is_allowed { 200 } else { 403 };
        for path in ["_search", "_doc/1", "_count", "_mapping"] {
            let path = format!("/{alias}/{path}");
            assert_eq!(
                site.status(&shipper, "GET", &path, "").await,
                expected,
                "{path}"
            );
        }
        let (_, done) = site.call(&shipper, "POST", "/_bulk", &bulk(alias)).await;
        assert_eq!(done["errors"], !is_allowed, "{done}");
        let (_, found) = site.call(&shipper, "GET", "/_mget", &docs(alias)).await;
        assert_eq!(found["docs"][0]["found"] == true, is_allowed, "{found}");
    }
    assert_eq!(
        site.status(&shipper, "GET", "/logs-*/_search", "").await,
        403
    );
}

#[tokio::test]
async fn a_token_of_some_collections_reads_frozen_ones_of_these_names_alone() {
    let guarded = Guarded::new();
    let database = &guarded.site.database;
    let cars = guarded.site.collection("cars");
    let car = quiredb::Document::from_json(br#"{"_id":"a"}"#).unwrap();
    cars.put(&car).unwrap();
    let dir = tempfile::tempdir().unwrap();
    for name in ["cars-2024", "jobs-2024"] {
        let (view, path) = (cars.view().unwrap(), dir.path().join(name));
        let options = quiredb::operations::FreezeOptions::default();
        quiredb::operations::freeze(&view, &path, &options, &mut |_| {}).unwrap();
        database.attach_frozen(name, &path).unwrap();
    }
    let token = make(&guarded.tokens, "reader", Role::Read, &["cars*"]);
    let get = async |path: &str| guarded.call(&token, "GET", path, "").await;
    assert_eq!(get("/cars-2024/_count").await.1["count"], 1);
    assert_eq!(get("/cars-2024/_doc/a").await.0, 200);
    assert_eq!(get("/jobs-2024/_count").await.0, 403);
    assert_eq!(get("/jobs-2024/_doc/a").await.0, 403);
    assert_eq!(get("/cars*/_count").await.1["count"], 2);
}
