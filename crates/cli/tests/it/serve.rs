//! serve: the address it prints, signals, tokens, and the lock it holds.

use crate::{Done, Quire};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A running server. It is killed when this is dropped.
pub(crate) struct Server {
    /// None once it was stopped.
    child: Option<Child>,
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
}

impl Server {
    fn start(quire: &Quire, arguments: &[&str]) -> Server {
        Server::start_of(quire, "db", arguments)
    }

    /// Serves the database `db` of the directory.
    pub(crate) fn start_of(quire: &Quire, db: &str, arguments: &[&str]) -> Server {
        let serve = ["serve", db, "--create", "--listen", "127.0.0.1:0"];
        let arguments = [&serve, arguments].concat();
        let mut child = quire
            .command(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line
            .trim_end()
            .trim_end_matches("\"}")
            .rsplit('/')
            .next()
            .unwrap()
            .to_owned();
        assert!(
            line.contains("listening") && address.starts_with("127.0.0.1:"),
            "{line}"
        );
        let child = Some(child);
        Server { child, address }
    }

    /// Status line and body.
    fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n{body}",
            self.address
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.lines().next().unwrap().to_owned(), body.to_owned())
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill")
            .args(["-s", signal, &self.child.as_ref().unwrap().id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
    }

    /// Sends a signal and waits for the end.
    pub(crate) fn stop(mut self, signal: &str) -> Done {
        self.signal(signal);
        let child = self.child.take().unwrap();
        Done::from(child.wait_with_output().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The answer is longer than what pipe and sockets hold: the query runs until it is ended.
#[test]
fn an_interrupt_ends_a_query_in_the_server_too() {
    let text = "x".repeat(10_000);
    let line = |n| format!("{{\"_id\":{n},\"text\":\"{text}\"}}\n");
    let quire = Quire::with_documents(&(0..3_000).map(line).collect::<String>());
    let server = Server::start(&quire, &[]);
    let place = format!("http://{}", server.address);
    // A shell lets commands in its background ignore interrupts, and they their children.
    let mut query = Command::new("env")
        .args(["--default-signal=INT", env!("CARGO_BIN_EXE_quire")])
        .args(["query", &place, "c", "--all"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let is_listed = || {
        let (status, tasks) = server.request("GET", "/_tasks", "", "");
        assert!(status.contains("200"), "{status} {tasks}");
        tasks.contains("_quire/query")
    };
    let wait_until = |listed| {
        while is_listed() != listed {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    wait_until(true);
    let sent = Command::new("kill")
        .args(["-s", "INT", &query.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    assert!(!query.wait().unwrap().success());
    wait_until(false);
    assert_eq!(server.stop("TERM").code, 0);
}

#[test]
fn documents_are_served_and_written_until_a_signal_comes() {
    for (signal, arguments) in [("TERM", &[][..]), ("INT", &["--json", "--quiet"])] {
        let quire = Quire::with_documents("{\"_id\":\"a\",\"v\":1}");
        let server = Server::start(&quire, arguments);
        let (status, body) = server.request("GET", "/c/_doc/a", "", "");
        assert!(
            status.contains("200") && body.contains("\"v\":1"),
            "{status} {body}"
        );
        let (status, _) = server.request("PUT", "/c/_doc/b", "", "{\"_id\":\"b\",\"v\":2}");
        assert!(status.contains("201"), "{status}");
        let done = server.stop(signal);
        assert_eq!(done.code, 0, "{done:?}");
        assert_eq!(
            done.stderr.contains("stopped"),
            arguments.is_empty(),
            "{done:?}"
        );
        assert!(quire.ok(&["get", "db", "c", "b"]).contains("\"v\":2"));
    }
}

#[test]
fn a_database_that_is_served_is_locked_and_the_message_says_what_to_do() {
    let quire = Quire::with_documents("{\"_id\":\"a\"}");
    let server = Server::start(&quire, &[]);
    for command in [
        &["get", "db", "c", "a"][..],
        &["load", "db", "c"],
        &["verify", "db"],
        &["serve", "db", "--listen", "127.0.0.1:0"],
    ] {
        quire.fails(command, 1, &["db is open in another process", "HTTP"]);
    }
    assert_eq!(server.stop("TERM").code, 0);
    quire.ok(&["get", "db", "c", "a"]);
}

#[test]
fn other_addresses_need_a_token_and_callers_must_send_it() {
    let quire = Quire::with_documents("{\"_id\":\"a\"}");
    quire.fails(
        &["serve", "db", "--listen", "0.0.0.0:0"],
        2,
        &["--token-file"],
    );
    quire.fails(&["serve", "db", "--token-file", "absent"], 1, &["absent"]);
    quire.file("empty", " \n");
    quire.fails(&["serve", "db", "--token-file", "empty"], 1, &["empty"]);
    quire.fails(&["serve", "db", "--listen", "somewhere"], 2, &["somewhere"]);
    quire.file("token", "s3cret\n");
    let server = Server::start(&quire, &["--token-file", "token"]);
    assert!(server.request("GET", "/c/_doc/a", "", "").0.contains("401"));
    assert!(
        server
            .request("GET", "/c/_doc/a", "Authorization: Bearer s3cret\r\n", "")
            .0
            .contains("200")
    );
    assert_eq!(server.stop("TERM").code, 0);
}

#[test]
fn a_check_finds_what_would_stop_a_server_and_serves_nothing() {
    let quire = Quire::with_documents("{\"_id\":\"a\"}");
    fn check<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
        [&["serve", "--check"], arguments].concat()
    }
    let found = quire.ok(&check(&["db"]));
    assert!(found.contains("opens, with 1 collection"), "{found}");
    assert_eq!(quire.json(&check(&["db"]))["checked"], true);
    quire.fails(&check(&["absent"]), 1, &["absent"]);
    let found = quire.ok(&check(&["absent", "--create"]));
    assert!(found.contains("--create would make it") && !quire.path("absent").exists());
    quire.fails(
        &check(&["db", "--listen", "0.0.0.0:9200"]),
        2,
        &["--token-file"],
    );
    quire.file("key.pem", "no key");
    let tls = ["db", "--tls-cert", "key.pem", "--tls-key", "key.pem"];
    quire.fails(&check(&tls), 1, &["key.pem"]);
    quire.file("db/CATALOG", "damaged");
    quire.file("db/CATALOG-2", "damaged");
    quire.fails(&check(&["db"]), 1, &["CATALOG"]);
    let server = Server::start_of(&quire, "served", &[]);
    let found = quire.ok(&check(&["served"]));
    assert!(found.contains("open in another process"), "{found}");
    assert_eq!(server.stop("TERM").code, 0);
}

#[test]
fn a_token_that_could_be_found_by_trying_is_warned_of() {
    let quire = Quire::with_documents("{\"_id\":\"a\"}");
    quire.file("short", "s3cret\n");
    quire.file("long", "s3cret-s3cret-s3cret-s3cret\n");
    let warned = |file| {
        let done = quire.run(&["serve", "db", "--check", "--token-file", file]);
        assert_eq!(done.code, 0, "{done:?}");
        assert!(!done.stderr.contains("s3cret"), "{done:?}");
        done.stderr.contains("the token has 6 characters")
    };
    assert!(warned("short"));
    assert!(!warned("long"));
}

/// The mount point of a disk that is not mounted does not become an empty database.
#[test]
fn a_database_is_made_by_serve_only_where_create_says_so_and_never_was_one() {
    let quire = Quire::with_documents("{\"_id\":\"a\"}");
    let empty = quire.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let listen = ["--listen", "127.0.0.1:0"];
    for place in ["absent", "empty"] {
        let serve = [&["serve", place], &listen[..]].concat();
        quire.fails(&serve, 1, &["--create"]);
    }
    assert!(!quire.path("absent").exists());
    assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0);
    // What is left of a database whose catalog is gone is no place for a new one.
    for copy in ["CATALOG", "CATALOG-2"] {
        std::fs::remove_file(quire.path("db").join(copy)).unwrap();
    }
    let files = || std::fs::read_dir(quire.path("db")).unwrap().count();
    let before = files();
    for create in [&[][..], &["--create"]] {
        let serve = [&["serve", "db"], &listen[..], create].concat();
        quire.fails(&serve, 1, &["CATALOG"]);
    }
    assert_eq!(files(), before);
    let server = Server::start_of(&quire, "empty", &[]);
    assert_eq!(server.stop("TERM").code, 0);
}

#[test]
fn running_requests_are_listed_and_cancelled_by_command() {
    let quire = Quire::with_documents("{\"_id\":\"a\"}");
    let server = Server::start(&quire, &["--quiet"]);
    let url = format!("http://{}", server.address);
    assert_eq!(quire.ok(&["tasks", &url]).lines().count(), 1);
    // At a byte a second it does not end by itself.
    let (status, _) = server.request("POST", "/_verify?rate_bytes=1", "", "");
    assert!(status.contains("202"), "{status}");
    let listed = quire.ok(&["tasks", &url]);
    let row = listed.lines().nth(1).unwrap();
    assert!(
        row.contains("verify") && row.contains("127.0.0.1:"),
        "{listed}"
    );
    let id = row.split_whitespace().next().unwrap();
    let task = quire.json(&["tasks", &url]);
    assert_eq!(format!("quire:{}", task["id"]), id);
    let told = quire.ok(&["tasks", &url, "--cancel", id]);
    assert!(told.contains(id), "{told}");
    while quire.ok(&["tasks", &url]).lines().count() > 1 {}
    quire.fails(&["tasks", &url, "--cancel", id], 1, &["404", id]);
    quire.fails(&["tasks", "db"], 2, &["http://"]);
    assert_eq!(server.stop("TERM").code, 0);
}

#[test]
fn frozen_files_are_served_beside_collections_and_new_ones_are_opened_at_a_hangup() {
    let quire = Quire::with_documents("{\"_id\":\"a\",\"n\":1}\n{\"_id\":\"b\",\"n\":2}\n");
    std::fs::create_dir(quire.path("days")).unwrap();
    quire.ok(&["freeze", "db", "c", "days/1.quire"]);
    let (days, served) = ("old=days", ["--frozen", "old=days"]);
    let found = quire.ok(&["serve", "db", "--check", "--frozen", days]);
    assert!(found.contains("1 collection and 1 frozen one"), "{found}");
    for (frozen, code, words) in [
        ("days", 2, "NAME=PATH"),
        ("c=days", 1, "\"c\" exists already"),
        ("old=none", 1, "cannot serve none as old"),
        ("old=db", 1, "no frozen partition"),
    ] {
        quire.fails(&["serve", "db", "--frozen", frozen], code, &[words]);
        quire.fails(
            &["serve", "db", "--check", "--frozen", frozen],
            code,
            &[words],
        );
    }
    let config = quire.ok(&[&["serve", "db", "--print-config"][..], &served].concat());
    quire.file("quire.toml", config);
    let server = Server::start(&quire, &["--config", "quire.toml"]);
    let count = |path: &str| {
        let (status, body) = server.request("GET", path, "", "");
        assert!(status.contains("200"), "{status} {body}");
        serde_json::from_str::<serde_json::Value>(&body).unwrap()["count"].clone()
    };
    assert_eq!(count("/old/_count"), 2);
    assert_eq!(count("/c,old/_count"), 4);
    let query = r#"{"query":{"term":{"n":2}}}"#;
    let (_, found) = server.request("POST", "/old/_search", "", query);
    assert!(found.contains(r#""_source":{"_id":"b","n":2}"#), "{found}");
    let (status, refused) = server.request("PUT", "/old/_doc/c", "", "{}");
    assert!(
        status.contains("400") && refused.contains("old is frozen: "),
        "{refused}"
    );

    std::fs::copy(quire.path("days/1.quire"), quire.path("days/new")).unwrap();
    std::fs::rename(quire.path("days/new"), quire.path("days/2.quire")).unwrap();
    server.signal("HUP");
    while count("/old/_count") != 4 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(server.stop("TERM").code, 0);
}
