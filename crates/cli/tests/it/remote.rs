//! Commands on a server: each does and prints what it does and prints on a directory.

use crate::serve::Server;
use crate::{Done, Quire};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const CARS: &str = r#"{"_id":"a","mark":"audi","price":12.50,"at":{"city":"Ulm"},"tags":["x","y"]}
{"_id":"b","mark":"fiat","price":7,"at":{"city":"Bonn"},"n":18446744073709551615}
{"_id":"c","mark":"audi","price":30.0,"note":null,"text":"q\"é\n"}
{"_id":42,"mark":"ford"}
{"_key":"d","mark":"fiat","price":9}
"#;

/// Commands in order; `@` is the place.
const COMMANDS: &[&[&str]] = &[
    &[
        "create",
        "@",
        "c",
        "--partitions",
        "2",
        "--codec",
        "zstd",
        "--retention-age",
        "90d",
    ],
    &["create", "@", "c"],
    &["load", "@", "c", "cars.ndjson", "--durability", "none"],
    &["load", "@", "c", "cars.ndjson", "--key", "sku"],
    &["load", "@", "c", "bad.ndjson"],
    &[
        "load",
        "@",
        "c",
        "bad.ndjson",
        "--on-error",
        "skip",
        "--bad-report",
        "bad",
    ],
    &[
        "load",
        "@",
        "made",
        "table.csv",
        "--key",
        "sku",
        "--partitions",
        "1",
    ],
    &["put", "@", "c", r#"{"_id":"e","mark":"seat"}"#],
    &[
        "put",
        "@",
        "c",
        "e",
        r#"{"price":1.10}"#,
        "--patch",
        "--json",
    ],
    &["put", "@", "c", "e", "{}", "--if-absent"],
    &["put", "@", "c", "e", "{}", "--if-version", "999"],
    &["put", "@", "c", "e", r#"{"_id":"f"}"#],
    &["put", "@", "c", r#"{"mark":"no key"}"#],
    &["get", "@", "c", "a", "42", "d"],
    &["get", "@", "c", "a", "absent", "42", "--json"],
    &["get", "@", "absent", "a"],
    &["delete", "@", "c", "e"],
    &["delete", "@", "c", "e", "--json"],
    &["count", "@", "c"],
    &["count", "@", "c", "--json"],
    &["scan", "@", "c"],
    &["scan", "@", "c", "--json", "--limit", "2"],
    &["scan", "@", "c", "--from", "a", "--to", "c"],
    &["scan", "@", "c", "--prefix", "4"],
    &["scan", "@", "c", "--prefix", "a"],
    &["query", "@", "c"],
    &["query", "@", "c", "--json"],
    &[
        "query",
        "@",
        "c",
        "--where",
        "mark = 'audi' AND price > 12",
        "--order",
        "price desc",
    ],
    &[
        "query",
        "@",
        "c",
        "--where",
        "mark LIKE 'f%'",
        "--all",
        "--fields",
        "_id,mark",
        "--fields",
        "at.city",
    ],
    &[
        "query",
        "@",
        "c",
        "--fields",
        "_id,price",
        "--json",
        "--skip",
        "1",
        "--limit",
        "3",
    ],
    &["query", "@", "c", "--where", "note IS NULL", "--count"],
    &["query", "@", "c", "--where", "number(price) < 10"],
    &[
        "query", "@", "c", "--sample", "3", "--seed", "5", "--format", "json",
    ],
    &[
        "query",
        "@",
        "c",
        "--format",
        "csv",
        "--fields",
        "price,_id",
    ],
    &["query", "@", "c", "--format", "table", "--memory", "1MiB"],
    &["scan", "@", "c", "--format", "csv"],
    &["query", "@", "c", "--facet", "mark", "--facet", "at.city"],
    &["query", "@", "c", "--facet", "tags", "--json", "--count"],
    &[
        "query",
        "@",
        "c",
        "--aggregate",
        "avg(price)",
        "--aggregate",
        "max(n)",
        "--aggregate",
        "min(absent)",
    ],
    &[
        "query",
        "@",
        "c",
        "--json",
        "--aggregate",
        "histogram(price, 10)",
        "--aggregate",
        "group(mark, count() AS cars, avg(price) AS mean ORDER BY cars DESC)",
    ],
    &[
        "query",
        "@",
        "c",
        "--aggregate",
        "group(mark, count() AS cars, avg(price) AS mean)",
    ],
    &["query", "@", "c", "--where", "mrak = 'audi'", "--count"],
    &["query", "@", "c", "--where", "mrak = 'audi'", "--strict"],
    &["query", "@", "c", "--where", "mark = "],
    &["query", "@", "c", "--order", "price sideways"],
    &["query", "@", "absent"],
    &["tail", "@", "c"],
    &[
        "tail", "@", "c", "--from", "2", "--prefix", "b", "--limit", "1",
    ],
    &[
        "alter",
        "@",
        "c",
        "--durability",
        "async(50)",
        "--dictionary",
        "64KiB",
    ],
    &[
        "alter",
        "@",
        "c",
        "--retention-age",
        "0",
        "--codec",
        "lz4",
        "--dictionary",
        "0",
    ],
    &["alter", "@", "c", "--index", "none"],
    &["fields", "@", "c"],
    &["fields", "@", "c", "--json"],
    &["alter", "@", "c", "--index", "all", "--json"],
    &["collections", "@"],
    &["collections", "@", "--json"],
    &["drop", "@", "c"],
    &["drop", "@", "c", "--yes"],
    &["drop", "@", "c", "--yes", "--json"],
    &["collections", "@"],
];

/// What a command printed, without what differs from one run to the next.
fn without_chance(done: &Done, place: &str) -> (i32, String, String) {
    let same = |text: &str| {
        let lines = without_creation(&text.replace(place, "@"));
        let lines = lines
            .lines()
            .map(|line| match line.split_once("\"time_micros\":") {
                Some((head, tail)) => format!("{head}{}", tail.split_once(',').unwrap().1),
                None => line.split(") in ").next().unwrap().to_owned(),
            });
        let mut lines: Vec<String> = lines.collect();
        // Which partition wrote first is chance.
        if lines.iter().all(|line| line.starts_with("{\"partition\"")) {
            lines.sort();
        }
        lines.join("\n")
    };
    (done.code, same(&done.stdout), same(&done.stderr))
}

/// A text without the times at which collections were made, which a server alone notes.
fn without_creation(text: &str) -> String {
    const NOTED: &str = ",\"api\":{\"settings\":{\"index.creation_date\":\"";
    let mut parts = text.split(NOTED);
    let mut without = parts.next().unwrap().to_owned();
    for part in parts {
        without += part.split_once("\"}}").unwrap().1;
    }
    without
}

#[test]
fn each_command_does_on_a_server_what_it_does_on_a_directory() {
    let quire = Quire::new();
    quire.file("cars.ndjson", CARS);
    quire.file(
        "bad.ndjson",
        "{\"_id\":\"g\"}\n{\"mark\":1}\n{\"_id\":\"h\"}\n",
    );
    quire.file("table.csv", "sku,n\na1,5\na2,x\n");
    let server = Server::start_of(&quire, "served", &[]);
    let url = format!("http://{}", server.address);
    let mut differing = Vec::new();
    for command in COMMANDS {
        let run = |place: &str| {
            let mut command = command.to_vec();
            command[1] = place;
            without_chance(&quire.run(&command), place)
        };
        let (local, mut remote) = (run("db"), run(&url));
        // What else there is, is known of a directory only.
        if local.2.contains("no collection") && remote.2.contains("no collection") {
            remote.2 = local.2.clone();
        }
        if local != remote {
            differing.push(format!("{command:?}\n{local:?}\n{remote:?}"));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n\n"));
    assert_eq!(server.stop("TERM").code, 0);
}

#[test]
fn a_copy_from_a_server_to_another_is_byte_for_byte_the_same() {
    let quire = Quire::with_documents(CARS);
    let (one, other) = (
        Server::start_of(&quire, "db", &[]),
        Server::start_of(&quire, "copy", &[]),
    );
    let url = |server: &Server| format!("http://{}", server.address);
    let scanned = quire.ok(&["scan", &url(&one), "c"]);
    let done = quire.pipe(&["load", &url(&other), "c"], &scanned);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(quire.ok(&["scan", &url(&other), "c"]), scanned);
    assert!(
        scanned.contains("\"price\":12.50") && scanned.contains("\"_key\":\"d\""),
        "{scanned}"
    );
    one.stop("TERM");
    other.stop("TERM");
}

#[test]
fn what_is_frozen_is_read_on_a_server_as_its_file_is() {
    let quire = Quire::with_documents(CARS);
    quire.ok(&["freeze", "db", "c", "f.quire"]);
    let server = Server::start_of(&quire, "served", &["--frozen", "f=f.quire"]);
    let url = format!("http://{}", server.address);
    for arguments in [
        &["--where", "mark = 'audi'", "--count"][..],
        &["--all"],
        &["--all", "--format", "csv"],
        &["--fields", "_id,mark", "--json", "--limit", "2"],
        &["--fields", "marc"],
        &["--fields", "marc", "--strict"],
        &["--where", "marc = 1", "--strict"],
    ] {
        let of_file = quire.run(&[&["query", "f.quire"], arguments].concat());
        let of_server = quire.run(&[&["query", &url, "f"], arguments].concat());
        let all = |done: &Done| (done.code, done.stdout.clone(), done.stderr.clone());
        assert_eq!(all(&of_file), all(&of_server), "{arguments:?}");
    }
    for (command, rest) in [
        ("get", &["a", "42", "d"][..]),
        ("get", &["a", "--json"]),
        ("count", &[]),
    ] {
        let of_file = quire.ok(&[&[command, "db", "c"], rest].concat());
        let of_server = quire.ok(&[&[command, &url, "f"], rest].concat());
        assert_eq!(of_file, of_server, "{command}");
    }
    quire.fails(
        &["get", &url, "f", "absent"],
        1,
        &["no document absent in f"],
    );
    assert!(quire.ok(&["fields", &url, "f"]).contains("mark"));
    // Its documents have no order of keys, and nothing is written.
    quire.fails(&["scan", &url, "f"], 1, &["quire query URL f --all"]);
    quire.fails(&["put", &url, "f", "k", "{}"], 1, &["is frozen"]);
    server.stop("TERM");
}

#[test]
fn explain_and_timeouts_work_on_a_server() {
    let quire = Quire::with_documents(CARS);
    let server = Server::start_of(&quire, "db", &[]);
    let url = format!("http://{}", server.address);
    let shown = quire.json(&[
        "query",
        &url,
        "c",
        "--where",
        "mark = 'audi'",
        "--count",
        "--explain",
    ]);
    assert_eq!(
        (&shown["count"], &shown["explain"]["documents"]),
        (&2.into(), &5.into())
    );
    let shown = quire.ok(&[
        "query",
        &url,
        "c",
        "--where",
        "mark = 'audi'",
        "--explain",
        "--timeout",
        "60",
    ]);
    assert!(shown.contains("mark = 'audi'"), "{shown}");
    quire.fails(
        &["query", &url, "c", "--timeout", "0"],
        1,
        &["cannot query"],
    );
    server.stop("TERM");
}

#[test]
fn what_a_server_does_not_have_is_refused_by_name() {
    let quire = Quire::new();
    quire.file("token", "s3cret-s3cret-s3cret-s3cret\n");
    quire.file("other", "another-another-another-another\n");
    let server = Server::start_of(&quire, "served", &["--token-file", "token"]);
    let url = format!("http://{}", server.address);
    quire.fails(&["count", &url, "c"], 1, &["401"]);
    quire.fails(&["count", &url, "c", "--token-file", "other"], 1, &["401"]);
    quire.fails(
        &["count", &url, "c", "--token-file", "token"],
        1,
        &["no collection `c`", &url],
    );
    let memory = [
        "load",
        &url,
        "c",
        "--memory",
        "1GiB",
        "--token-file",
        "token",
    ];
    quire.fails(&memory, 2, &["--memory", "serve"]);
    quire.fails(
        &["query", &url, "--token-file", "token"],
        2,
        &["name the collection"],
    );
    quire.fails(
        &["count", "db", "c", "--token-file", "token"],
        2,
        &["--token-file", "directory"],
    );
    quire.fails(
        &["count", "http://127.0.0.1:1", "c"],
        1,
        &["no answer from http://127.0.0.1:1"],
    );
    quire.fails(
        &["count", "http://127.0.0.1", "c"],
        2,
        &["http://127.0.0.1"],
    );
    quire.fails(&["count", "https://127.0.0.1:1", "c"], 2, &["--ca"]);
    for command in [
        &["freeze", &url, "c", "x.quire"][..],
        &["compact", &url],
        &["inspect", &url],
    ] {
        quire.fails(command, 2, &["address of a server"]);
    }
    server.stop("TERM");
}

#[test]
fn a_load_into_a_server_resumes_where_it_stopped() {
    let quire = Quire::new();
    let lines = |bad: &str| {
        let good = (0..2_000).map(|n| format!("{{\"_id\":{n},\"v\":{n}}}\n"));
        let mut lines: Vec<String> = good.collect();
        lines[1_500] = format!("{bad}\n");
        lines.concat()
    };
    quire.file("in.ndjson", lines("{"));
    let server = Server::start_of(&quire, "served", &[]);
    let url = format!("http://{}", server.address);
    let load = [
        "load",
        &url,
        "c",
        "in.ndjson",
        "--batch-documents",
        "100",
        "--resume",
        "state",
    ];
    quire.fails(
        &load,
        1,
        &["in.ndjson:1501", "stopped after 1,500 documents in c"],
    );
    quire.file("in.ndjson", lines("{\"_id\":1500}"));
    let done = quire.run(&load);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stderr.contains("continuing after 1,5"), "{done:?}");
    assert!(!quire.path("state").exists());
    assert_eq!(quire.ok(&["count", &url, "c"]), "2000\n");
    server.stop("TERM");
}

/// Passes connections on to `to`; each of the first `cuts` connections is cut when `bytes` bytes of
/// requests have passed.
fn cutting_proxy(to: String, cuts: usize, bytes: u64) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            let server = TcpStream::connect(&to).unwrap();
            let limit = match counted.fetch_add(1, Ordering::Relaxed) < cuts {
                true => bytes,
                false => u64::MAX,
            };
            let (mut from, mut into) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let up = thread::spawn(move || pass(&mut from, &mut into, limit));
            let (mut from, mut into) = (server, client);
            thread::spawn(move || {
                pass(&mut from, &mut into, u64::MAX);
                up.join().unwrap();
            });
        }
    });
    (address, count)
}

/// Copies up to `limit` bytes, then ends both connections.
fn pass(from: &mut TcpStream, into: &mut TcpStream, limit: u64) {
    let mut buffer = [0; 4096];
    let mut left = limit;
    while left > 0
        && let Ok(read @ 1..) = from.read(&mut buffer)
        && into.write_all(&buffer[..read]).is_ok()
    {
        left = left.saturating_sub(read as u64);
    }
    for stream in [from, into] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

#[test]
fn a_load_over_a_connection_that_is_cut_again_and_again_neither_loses_nor_doubles() {
    let quire = Quire::new();
    let documents: String = (0..3_000)
        .map(|n| format!("{{\"_id\":{},\"n\":{n},\"pad\":\"{n:060}\"}}\n", n % 2_500))
        .collect();
    quire.file("in.ndjson", &documents);
    let server = Server::start_of(&quire, "served", &[]);
    let (address, connections) = cutting_proxy(server.address.clone(), 6, 60_000);
    let url = format!("http://{address}");
    let done = quire.run(&[
        "load",
        &url,
        "c",
        "in.ndjson",
        "--batch-documents",
        "200",
        "--json",
    ]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stderr.contains("trying again"), "{done:?}");
    assert!(connections.load(Ordering::Relaxed) > 6, "{done:?}");
    assert!(done.stdout.contains("{\"acknowledged\":3000}"), "{done:?}");
    quire.ok(&["load", "db", "c", "in.ndjson"]);
    let direct = format!("http://{}", server.address);
    assert_eq!(
        quire.ok(&["scan", &direct, "c"]),
        quire.ok(&["scan", "db", "c"])
    );
    server.stop("TERM");
}
