//! A server over a new database, called in process or over a socket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request};
use http_body_util::BodyExt;
use quire_server::{ServerOptions, bind, router, serve};
use quiredb::{Collection, CollectionSettings, Database, Key};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tower::ServiceExt;

/// A server called in process.
pub(crate) struct Site {
    pub(crate) database: Database,
    router: Router,
    _dir: Option<TempDir>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Asserts that this is an error of the given status and type, in OpenSearch's shape; returns
    /// its reason.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, kind: &str) -> String {
        assert_eq!(self.status, status, "{}", self.text);
        let json = self.json();
        assert_eq!(json["status"], status, "{json}");
        assert_eq!(json["error"]["type"], kind, "{json}");
        assert_eq!(json["error"]["root_cause"][0]["type"], kind, "{json}");
        // A mapping that is refused says so before what is wrong with it.
        let root = json["error"]["root_cause"][0]["reason"].as_str().unwrap();
        let reason = json["error"]["reason"].as_str().unwrap();
        assert!(reason.ends_with(root), "{json}");
        reason.to_owned()
    }

    /// Asserts success; returns the answer.
    #[track_caller]
    pub(crate) fn done(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json()
    }
}

pub(crate) fn open() -> (Database, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (Database::open(dir.path().join("db")).unwrap(), dir)
}

impl Site {
    pub(crate) fn new() -> Site {
        Site::with(ServerOptions::default())
    }

    pub(crate) fn with(options: ServerOptions) -> Site {
        let (database, dir) = open();
        Site {
            _dir: Some(dir),
            ..Site::over(database, options)
        }
    }

    pub(crate) fn over(database: Database, options: ServerOptions) -> Site {
        Site {
            router: router(database.clone(), options).unwrap(),
            database,
            _dir: None,
        }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Reply {
            status: parts.status.as_u16(),
            headers: parts.headers,
            text,
        }
    }

    /// Sends a request such as `"PUT /jobs/_doc/1"` with a body.
    pub(crate) async fn call(&self, line: &str, body: impl Into<Body>) -> Reply {
        let (method, uri) = line.split_once(' ').unwrap();
        self.send(
            Request::builder()
                .method(method)
                .uri(uri)
                .body(body.into())
                .unwrap(),
        )
        .await
    }

    pub(crate) async fn get(&self, uri: &str) -> Reply {
        self.call(&format!("GET {uri}"), Body::empty()).await
    }

    /// A collection of two partitions that does not sync, so that tests are fast.
    pub(crate) fn collection(&self, name: &str) -> Collection {
        let settings =
            CollectionSettings::from_json(br#"{"partitions":2,"durability":"none"}"#).unwrap();
        self.database.create_collection(name, settings).unwrap()
    }

    /// The document, read from the engine.
    pub(crate) fn stored(&self, collection: &str, id: &str) -> Option<String> {
        let collection = self.database.collection(collection).unwrap();
        collection
            .get(&Key::parse(id).unwrap())
            .unwrap()
            .map(|found| found.document.to_json())
    }
}

/// A body that arrives in pieces, with pauses; an `Err` cuts it.
pub(crate) fn pieces(pieces: Vec<Result<Bytes, std::io::Error>>, apart: Duration) -> Body {
    let stream = futures_util::stream::unfold(pieces.into_iter(), move |mut pieces| async move {
        let piece = pieces.next()?;
        tokio::time::sleep(apart).await;
        Some((piece, pieces))
    });
    Body::from_stream(stream)
}

/// A server on a socket.
pub(crate) struct Listening {
    pub(crate) database: Database,
    pub(crate) address: SocketAddr,
    pub(crate) memcached: Option<SocketAddr>,
    pub(crate) metrics: Option<SocketAddr>,
    shutdown: Arc<Notify>,
    task: JoinHandle<quire_server::Result<()>>,
    _dir: TempDir,
}

impl Listening {
    pub(crate) async fn new(options: ServerOptions) -> Listening {
        let (database, dir) = open();
        Listening::over(database, dir, options).await
    }

    pub(crate) async fn over(
        database: Database,
        dir: TempDir,
        options: ServerOptions,
    ) -> Listening {
        let options = ServerOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            ..options
        };
        let listeners = bind(&options).await.unwrap();
        let address = listeners.http.local_addr().unwrap();
        let memcached = listeners.memcached.as_ref();
        let memcached = memcached.map(|memcached| memcached.local_addr().unwrap());
        let metrics = listeners.metrics.as_ref();
        let metrics = metrics.map(|metrics| metrics.local_addr().unwrap());
        let shutdown = Arc::new(Notify::new());
        let stop = Arc::clone(&shutdown);
        let stopped = async move { stop.notified().await };
        let task = tokio::spawn(serve(database.clone(), listeners, options, stopped));
        Listening {
            database,
            address,
            memcached,
            metrics,
            shutdown,
            task,
            _dir: dir,
        }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes and reads until the server closes the connection.
    pub(crate) async fn exchange(&self, request: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request).await.unwrap();
        read_all(&mut stream).await
    }

    /// Sends a request such as `"PUT /jobs/_doc/1"` with a body, over a connection of its own.
    pub(crate) async fn call(&self, line: &str, body: &str) -> Reply {
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        let answer = self.exchange(request.as_bytes()).await;
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap();
        Reply {
            status: status.parse().unwrap(),
            headers: HeaderMap::new(),
            text: text.to_owned(),
        }
    }

    /// Requests that the server works on now, read on the port of metrics.
    pub(crate) async fn requests_running(&self) -> usize {
        let mut stream = TcpStream::connect(self.metrics.unwrap()).await.unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let answer = read_all(&mut stream).await;
        let metric = answer
            .lines()
            .find_map(|line| line.strip_prefix("quire_requests_running "));
        // The scrape itself is one of them.
        metric.unwrap().parse::<usize>().unwrap() - 1
    }

    pub(crate) fn begin_shutdown(&self) {
        self.shutdown.notify_one();
    }

    pub(crate) async fn ended(self) -> Database {
        let database = self.database.clone();
        self.task.await.unwrap().unwrap();
        database
    }
}

pub(crate) async fn read_all(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A server that cuts a connection may reset it; the bytes before that count.
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads until `wanted` has arrived.
pub(crate) async fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !text.contains(wanted) {
        let bytes = stream.read(&mut buffer).await.unwrap();
        assert!(bytes > 0, "closed before {wanted:?}: {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..bytes]));
    }
    text
}
