//! The memcached protocol: requests with their answers, and connections.

use std::sync::Arc;
use std::time::Duration;

use quire_server::{MemcachedOptions, ServerOptions, bind, memcached};
use quiredb::wide::{Cell, Change, RowWrite, Schema};
use quiredb::{Database, DatabaseOptions, Document, Env, Key, SimEnv};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::site::{Listening, read_all, read_until};

const LONG: Duration = Duration::from_secs(120);

/// With a field, values are the field of documents of the collection `docs`. Without one, they are
/// the documents, of any collection.
fn options(field: Option<&str>) -> ServerOptions {
    ServerOptions {
        memcached: Some(MemcachedOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            collection: field.map(|_| "docs".into()),
            field: field.map(Into::into),
        }),
        ..ServerOptions::default()
    }
}

/// The answers of a database to requests that are sent at once; `|` stands for the end of a line.
fn answers(database: &Database, field: Option<&str>, requests: &[u8]) -> String {
    let mut answers = Vec::new();
    memcached(database.clone(), options(field), requests, &mut answers).unwrap();
    String::from_utf8_lossy(&answers).replace("\r\n", "|")
}

fn simulated() -> (Database, Arc<SimEnv>) {
    let env = SimEnv::new(1);
    let options = DatabaseOptions {
        segment_bytes: 1 << 20,
        ..DatabaseOptions::default()
    };
    let database = Database::builder("/db")
        .env(env.clone())
        .options(options)
        .open()
        .unwrap();
    (database, env)
}

/// Sends each request in turn to one database and compares its answer.
#[track_caller]
fn converse(field: Option<&str>, conversation: &[(&str, &str)]) -> Database {
    let (database, _) = simulated();
    for (request, expected) in conversation {
        let request = request.replace('|', "\r\n");
        let answer = answers(&database, field, request.as_bytes());
        assert_eq!(answer, *expected, "{request:?}");
    }
    database
}

#[test]
fn text_commands_are_answered_as_memcached_does() {
    converse(
        Some("v"),
        &[
            ("get a|", "END|"),
            ("set a 5 0 3|abc|get a|", "STORED|VALUE a 5 3|abc|END|"),
            ("gets a b|", "VALUE a 5 3 1|abc|END|"),
            (
                "set b 0 0 0||get b a c|",
                "STORED|VALUE b 0 0||VALUE a 5 3|abc|END|",
            ),
            ("add a 0 0 1|x|add c 0 0 1|x|", "NOT_STORED|STORED|"),
            (
                "replace z 0 0 1|x|replace c 7 0 2|yy|get c|",
                "NOT_STORED|STORED|VALUE c 7 2|yy|END|",
            ),
            (
                "append a 9 0 2|XX|prepend a 9 0 1|P|append z 0 0 1|z|",
                "STORED|STORED|NOT_STORED|",
            ),
            ("get a|", "VALUE a 5 6|PabcXX|END|"),
            ("cas z 0 0 1 7|x|cas a 0 0 1 7777|x|", "NOT_FOUND|EXISTS|"),
            (
                "set n 0 0 2|10|incr n 5|decr n 7|decr n 100|incr n 1|",
                "STORED|15|8|0|1|",
            ),
            ("set n 0 0 20|18446744073709551615|incr n 2|", "STORED|1|"),
            (
                "incr z 1|incr a 1|",
                "NOT_FOUND|CLIENT_ERROR cannot increment or decrement non-numeric value|",
            ),
            (
                "incr n x|incr n|",
                "CLIENT_ERROR invalid numeric delta argument|ERROR|",
            ),
            (
                "touch a 0|touch z 0|gat 0 c z|",
                "TOUCHED|NOT_FOUND|VALUE c 7 2|yy|END|",
            ),
            (
                "delete n|delete n|delete b 0|delete c 0 noreply|delete a 5|",
                "DELETED|NOT_FOUND|DELETED|CLIENT_ERROR bad command line format|",
            ),
            ("set q 0 0 1 noreply|x|get q c|", "VALUE q 0 1|x|END|"),
            ("bogus||get|set|", "ERROR|ERROR|ERROR|ERROR|"),
            ("verbosity 1|verbosity 1 noreply|mn|quit|mn|", "OK|MN|"),
            (
                "flush_all|",
                "CLIENT_ERROR flush_all not allowed: drop the collection instead|",
            ),
        ],
    );
}

#[test]
fn meta_commands_are_answered_as_memcached_does() {
    converse(
        Some("v"),
        &[
            ("mg a|mg a v q|mg a k Oz|mn|", "EN|EN ka Oz|MN|"),
            (
                "ms a 3 F7 c k Oz|abc|mg a v f s t c|",
                "HD c1 ka Oz|VA 3 f7 s3 t-1 c1|abc|",
            ),
            ("mg a|mg a k c Oy q|", "HD|HD ka c1 Oy|"),
            (
                "ms a 1 ME|x|ms a 1 MA|d|ms a 1 MP|e|mg a v|",
                "NS|HD|HD|VA 5|eabcd|",
            ),
            (
                "ms z 1 MR|x|ms z 1 MA|x|ms z 1 C5|x|ms a 1 C5|x|",
                "NS|NS|NF|EX|",
            ),
            (
                "ms n 1 q|5|ma n v|ma n D10 MD v t|ma z|ma n q|mn|",
                "VA 1|6|VA 1 t-1|0|NF|MN|",
            ),
            ("md a C5|md a q|md a k Oy|md n k|", "EX|NF ka Oy|HD kn|"),
            // Keys in base64 may hold white space.
            (
                "ms YSBi 1 b k|x|mg YSBi b k v|md YSBi b|",
                "HD kYSBi b|VA 1 kYSBi b|x|HD|",
            ),
            (
                "mg a !|mg a v v|mg|mg a h|",
                "CLIENT_ERROR invalid flag|CLIENT_ERROR duplicate flag|ERROR|\
                 CLIENT_ERROR this flag is not supported|",
            ),
        ],
    );
}

#[test]
fn values_expire_as_those_of_memcached_do() {
    let (database, env) = simulated();
    let after = |seconds: u64, request: &str, expected: &str| {
        env.advance(Duration::from_secs(seconds));
        let sent = request.replace('|', "\r\n");
        let answer = answers(&database, Some("v"), sent.as_bytes());
        assert_eq!(answer, expected, "{request:?}");
    };
    let now = env.now_micros() / 1_000_000;
    after(0, "set a 0 60 1|x|mg a t v|", "STORED|VA 1 t60|x|");
    after(59, "get a|", "VALUE a 0 1|x|END|");
    after(1, "get a|touch a 60|delete a|", "END|NOT_FOUND|NOT_FOUND|");
    after(0, "add a 0 10 1|y|", "STORED|");
    // What changes a value leaves its time; a set, or a time of its own, does not.
    after(
        5,
        "append a 0 0 1|z|incr a 1|mg a t v|",
        "STORED|CLIENT_ERROR cannot increment or decrement non-numeric value|VA 2 t5|yz|",
    );
    after(0, "set n 0 10 1|5|", "STORED|");
    after(
        5,
        "incr n 2|ma n t v|ma n T100 t|mg n t|",
        "7|VA 1 t5|8|HD t100|HD t100|",
    );
    after(0, "set n 0 0 1|5|mg n t|", "STORED|HD t-1|");
    after(0, "get a|", "END|");
    // Reads that set a time.
    after(
        0,
        "ms a 1 T60|x|mg a t T100 v|gat 50 a n z|",
        "HD|VA 1 t100|x|VALUE a 0 1|x|VALUE n 0 1|5|END|",
    );
    after(
        0,
        "mg a t|mg n t|gat 0 n|mg n t|touch a 0|mg a t|",
        "HD t50|HD t50|VALUE n 0 1|5|END|HD t-1|TOUCHED|HD t-1|",
    );
    after(0, "gats 70 a|mg a c|", "VALUE a 0 1 15|x|END|HD c15|");
    after(
        0,
        "gat -1 a n|get a n|",
        "VALUE a 0 1|x|VALUE n 0 1|5|END|END|",
    );
    // Times of more than 30 days are seconds since 1970. libmemcached uses such a time to find out
    // whether a key exists.
    after(
        0,
        "set a 0 2592000 1|x|mg a t|add b 0 2678400 0||get b|",
        "STORED|HD t2592000|STORED|END|",
    );
    let until = format!("set a 0 {} 1|x|mg a t|", now + 1000);
    after(
        0,
        &until,
        &format!("STORED|HD t{}|", now + 1000 - env.now_micros() / 1_000_000),
    );
    after(1000, "get a|", "END|");
    // At once.
    after(
        0,
        "set a 0 0 1|x|set a 0 -1 1|y|get a|",
        "STORED|STORED|END|",
    );
    after(
        0,
        "set a 0 0 1|x|add a 0 -1 1|y|touch a -1|get a|touch a -1|",
        "STORED|NOT_STORED|TOUCHED|END|NOT_FOUND|",
    );
    after(
        0,
        "set a 0 1x 1|y|touch a|gat y a|mg a Tx|get a|",
        "CLIENT_ERROR invalid exptime argument|ERROR|CLIENT_ERROR invalid exptime argument|\
         CLIENT_ERROR invalid exptime argument|END|",
    );
    // A failed request without reply is not answered. The connection ends, so that the client does
    // not miss the error.
    after(0, "set a 0 y 1 noreply|x|mn|", "");
}

#[test]
fn a_document_with_other_fields_does_not_expire_with_its_value() {
    let (database, env) = simulated();
    let refused = "CLIENT_ERROR exptime must be 0: the document has other fields, and would \
                   expire whole|";
    let docs = database
        .create_collection("docs", Default::default())
        .unwrap();
    let document = Document::from_json(br#"{"title":"t","v":"x"}"#).unwrap();
    docs.put_at(&Key::parse("a").unwrap(), &document).unwrap();
    for (request, expected) in [
        ("set a 0 60 1|y|touch a 60|", format!("{refused}{refused}")),
        ("gat 60 a b|", refused.to_owned()),
        ("mg a T60 v|ms a 1 T60|y|", format!("{refused}{refused}")),
        (
            "get a|mg a t|set a 0 0 1|y|",
            "VALUE a 0 1|x|END|HD t-1|STORED|".to_owned(),
        ),
        // Its value alone is removed.
        ("set a 0 -1 1|z|get a|", "STORED|END|".to_owned()),
    ] {
        let sent = request.replace('|', "\r\n");
        assert_eq!(
            answers(&database, Some("v"), sent.as_bytes()),
            expected,
            "{request}"
        );
    }
    env.advance(Duration::from_secs(100));
    let found = docs.get(&Key::parse("a").unwrap()).unwrap().unwrap();
    assert_eq!(found.document.to_json(), r#"{"title":"t"}"#);
    // Where values are whole documents, they expire.
    let sent = b"set docs:a 0 60 2\r\n{}\r\nmg docs:a t v\r\n";
    assert_eq!(answers(&database, None, sent), "STORED|VA 2 t60|{}|");
}

#[test]
fn a_value_may_be_the_document_or_one_field_of_it() {
    let database = converse(
        None,
        &[
            ("get jobs:1|", "END|"),
            (
                "set jobs:1 0 0 17|{\"pay\":1.50 }    |get jobs:1|",
                "STORED|VALUE jobs:1 0 12|{\"pay\":1.50}|END|",
            ),
            (
                "set papers:a:b 0 0 2|{}|get papers:a:b papers:a|",
                "STORED|VALUE papers:a:b 0 2|{}|END|",
            ),
            (
                "set jobs:1 0 0 3|abc|",
                "CLIENT_ERROR the value is not a JSON document: invalid JSON at byte 0: \
                 expected `{`, the start of a document|",
            ),
            (
                "set jobs:1 5 0 2|{}|",
                "CLIENT_ERROR flags must be 0: the value is a JSON document, which has no \
                 place for them|",
            ),
            (
                "get jobs:1 nowhere|",
                "VALUE jobs:1 0 12|{\"pay\":1.50}|\
                 CLIENT_ERROR the key names no collection: it must be collection:key|",
            ),
            (
                "add No!:1 0 0 2|{}|get No!:1|mn|",
                "CLIENT_ERROR collection name \"No!\": use 1 to 128 of a-z, 0-9, '_', '-' and \
                 '.', beginning with a letter or a digit|END|MN|",
            ),
            (
                "delete jobs:1|get jobs:1|delete nowhere:1|incr nowhere:1 1|",
                "DELETED|END|NOT_FOUND|NOT_FOUND|",
            ),
        ],
    );
    assert_eq!(database.collections(), ["jobs", "papers"]);
}

#[test]
fn other_fields_of_a_document_are_not_changed() {
    let (database, _) = simulated();
    let docs = database
        .collection_or_create("docs", Default::default)
        .unwrap();
    let put = |key: &str, json: &str| {
        let document = Document::from_json(json.as_bytes()).unwrap();
        docs.put_at(&Key::parse(key).unwrap(), &document).unwrap();
    };
    let is = |key: &str, json: &str| {
        let found = docs.get(&Key::parse(key).unwrap()).unwrap();
        let found = found.map(|found| found.document.to_json());
        assert_eq!(found.as_deref(), Some(json), "{key}");
    };
    let send = |request: &[u8]| answers(&database, Some("v"), request);
    put("a", r#"{"title":"x"}"#);
    assert_eq!(
        send(b"get a\r\nreplace a 0 0 1\r\nx\r\nincr a 1\r\ndelete a\r\n"),
        "END|NOT_STORED|NOT_FOUND|NOT_FOUND|"
    );
    assert_eq!(
        send(b"add a 3 0 1\r\n1\r\nadd a 0 0 1\r\n2\r\n"),
        "STORED|NOT_STORED|"
    );
    is("a", r#"{"title":"x","v":"1","v_flags":3}"#);
    assert_eq!(
        send(b"incr a 41\r\nset a 0 0 2\r\n\xff\r\r\nget a\r\n"),
        "42|STORED|VALUE a 0 2|\u{fffd}\r|END|"
    );
    is("a", r#"{"title":"x","v_base64":"/w0="}"#);
    assert_eq!(send(b"delete a\r\nget a\r\n"), "DELETED|END|");
    is("a", r#"{"title":"x"}"#);
    // Values written over HTTP are served as their JSON text, and numbers stay numbers.
    put("b", r#"{"v":{"deep":[1,2.50]},"n":1}"#);
    put("c", r#"{"v":41,"n":1}"#);
    assert_eq!(
        send(b"get b c\r\nincr c 1\r\n"),
        "VALUE b 0 17|{\"deep\":[1,2.50]}|VALUE c 0 2|41|END|42|"
    );
    is("c", r#"{"v":42,"n":1}"#);
    // The document has nothing but the value, so it is deleted.
    assert_eq!(send(b"set d 1 0 1\r\nx\r\ndelete d\r\n"), "STORED|DELETED|");
    assert!(docs.get(&Key::parse("d").unwrap()).unwrap().is_none());
}

/// A database whose collection `docs` is wide.
fn wide(columns: &str) -> (Database, Arc<SimEnv>) {
    let (database, env) = simulated();
    let schema = Schema::from_json(format!("{{\"properties\":{{{columns}}}}}").as_bytes());
    let made = database.create_wide_collection("docs", schema.unwrap(), Default::default());
    made.unwrap();
    (database, env)
}

const BYTES: &str = r#""v":{"type":"string","contentEncoding":"base64","group":"values"},
    "v_flags":{"type":"integer"},"title":{"type":"string"}"#;

#[track_caller]
fn converse_with(database: &Database, field: Option<&str>, conversation: &[(&str, &str)]) {
    for (request, expected) in conversation {
        let request = request.replace('|', "\r\n");
        let answer = answers(database, field, request.as_bytes());
        assert_eq!(answer, *expected, "{request:?}");
    }
}

#[test]
fn a_column_of_a_wide_collection_has_values_as_they_are() {
    let (database, env) = wide(BYTES);
    let rows = database.wide_collection("docs").unwrap();
    converse_with(
        &database,
        Some("v"),
        &[
            ("get a|", "END|"),
            ("set a 5 0 3|abc|get a|", "STORED|VALUE a 5 3|abc|END|"),
            ("add a 0 0 1|x|replace z 0 0 1|x|", "NOT_STORED|NOT_STORED|"),
            (
                "append a 0 0 2|XX|prepend a 0 0 1|P|get a|",
                "STORED|STORED|VALUE a 5 6|PabcXX|END|",
            ),
            ("cas z 0 0 1 7|x|cas a 0 0 1 7777|x|", "NOT_FOUND|EXISTS|"),
            (
                "set n 0 0 2|10|incr n 5|decr n 100|incr n 1|",
                "STORED|15|0|1|",
            ),
            (
                "incr a 1|",
                "CLIENT_ERROR cannot increment or decrement non-numeric value|",
            ),
            (
                "set b 0 0 0||get a b c|",
                "STORED|VALUE a 5 6|PabcXX|VALUE b 0 0||END|",
            ),
            ("delete n|delete n|get n|", "DELETED|NOT_FOUND|END|"),
            ("mg a v f|", "VA 6 f5|PabcXX|"),
        ],
    );
    // Bytes that are no text, which are read as they are elsewhere too.
    let noise: Vec<u8> = (0..=255).rev().collect();
    let set = [
        b"set raw 0 0 256\r\n".as_slice(),
        &noise,
        b"\r\nget raw\r\n",
    ]
    .concat();
    let mut answer = Vec::new();
    memcached(database.clone(), options(Some("v")), &set[..], &mut answer).unwrap();
    assert!(
        answer.windows(256).any(|window| window == noise),
        "{answer:?}"
    );
    let cell = |id: &str| rows.cell(&Key::parse(id).unwrap(), "v", None).unwrap();
    assert_eq!(cell("raw"), Some(Cell::Bytes(noise)));

    // Other columns stay, also when the value is removed; and a value comes to a row that has none.
    let key = Key::parse("a").unwrap();
    let title = Change::set("title", Cell::String("A".into()));
    rows.write(&RowWrite::patch(key.clone()).with(title))
        .unwrap();
    converse_with(
        &database,
        Some("v"),
        &[
            ("set a 0 0 1|x|delete a|get a|", "STORED|DELETED|END|"),
            ("add a 7 0 2|yy|get a|", "STORED|VALUE a 7 2|yy|END|"),
        ],
    );
    let title = rows.cell(&key, "title", None).unwrap();
    assert_eq!(title, Some(Cell::String("A".into())));

    // The value expires, and the row stays.
    converse_with(
        &database,
        Some("v"),
        &[
            ("set a 3 100 1|x|mg a v t f|", "STORED|VA 1 t100 f3|x|"),
            ("append a 0 0 1|y|mg a v t|", "STORED|VA 2 t100|xy|"),
            ("touch a 50|mg a v t f|", "TOUCHED|VA 2 t50 f3|xy|"),
            ("gat 200 a|mg a t|", "VALUE a 3 2|xy|END|HD t200|"),
        ],
    );
    env.advance(Duration::from_secs(201));
    converse_with(
        &database,
        Some("v"),
        &[("get a|", "END|"), ("add a 0 0 1|z|", "STORED|")],
    );
    let found = rows.get(&key).unwrap().unwrap().document.to_json();
    assert_eq!(found, r#"{"_id":"a","title":"A","v":"eg=="}"#);
}

#[test]
fn what_a_column_can_not_have_is_an_error_of_the_client() {
    let (database, _) = wide(
        r#""n":{"type":"integer"},"text":{"type":"string"},"float":{"type":"number"},
        "links":{"type":"object","additionalProperties":{"type":"string"}}"#,
    );
    converse_with(
        &database,
        Some("n"),
        &[
            (
                "set a 0 0 2|10|incr a 5|get a|",
                "STORED|15|VALUE a 0 2|15|END|",
            ),
            (
                "set a 0 0 1|x|",
                "CLIENT_ERROR column [n] has integers of 64 bits: this value is none|",
            ),
            ("get a|", "VALUE a 0 2|15|END|"),
            (
                "set a 1 0 1|1|",
                "CLIENT_ERROR flags must be 0: [docs] has no column [n_flags] of integers for \
                 them|",
            ),
        ],
    );
    let row = database.wide_collection("docs").unwrap();
    let cell = row.cell(&Key::parse("a").unwrap(), "n", None).unwrap();
    assert_eq!(cell, Some(Cell::Int(15)));
    let refused = answers(&database, Some("text"), b"set a 0 0 1\r\n\xff\r\n");
    assert!(refused.contains("text in UTF-8"), "{refused}");
    for (field, words) in [
        ("none", "does not exist"),
        ("float", "has no values for memcached"),
        ("links", "has no values for memcached"),
    ] {
        for request in ["get a\r\n", "set a 0 0 1\r\nx\r\n"] {
            let refused = answers(&database, Some(field), request.as_bytes());
            assert!(refused.starts_with("CLIENT_ERROR"), "{refused}");
            assert!(refused.contains(words), "{refused}");
        }
    }
    // Without a field a value is a row.
    let (database, _) = wide(r#""n":{"type":"integer"}"#);
    converse_with(
        &database,
        None,
        &[
            (
                "set docs:1 0 0 7|{\"n\":5}|get docs:1|",
                "STORED|VALUE docs:1 0 15|{\"_id\":1,\"n\":5}|END|",
            ),
            (
                "set docs:1 0 9 7|{\"n\":6}|",
                "CLIENT_ERROR rows of a wide collection do not expire: their cells may|",
            ),
            ("delete docs:1|get docs:1|", "DELETED|END|"),
        ],
    );
}

#[test]
fn a_failing_machine_is_a_server_error_and_what_can_be_read_is_served() {
    let (database, env) = simulated();
    let send = |request: &str| answers(&database, Some("v"), request.as_bytes());
    assert_eq!(send("set kept 0 0 1\r\nx\r\n"), "STORED|");
    env.fail_syncs(true);
    let answer = send("set lost 0 0 1\r\nx\r\nset kept 0 0 1\r\ny\r\nget kept\r\n");
    assert_eq!(answer.matches("SERVER_ERROR ").count(), 2, "{answer}");
    assert!(answer.ends_with("VALUE kept 0 1|x|END|"), "{answer}");
}

#[test]
fn a_closed_collection_and_one_with_a_block_answer_with_an_error() {
    let database = converse(Some("v"), &[("set a 0 0 1|x|", "STORED|")]);
    let change = |closed, block: &str| {
        let mut settings = (*database.collection("docs").unwrap().settings()).clone();
        settings.api.closed = closed;
        settings.api.settings = [(format!("index.blocks.{block}"), "true".into())].into();
        database.change_settings("docs", settings).unwrap();
    };
    let answer_to = |request: &str| answers(&database, Some("v"), request.as_bytes());
    change(true, "write");
    for request in ["get a\r\n", "set a 0 0 1\r\nx\r\n", "delete a\r\n"] {
        let answer = answer_to(request);
        assert!(
            answer.ends_with("_ERROR collection [docs]: closed|"),
            "{answer}"
        );
    }
    change(false, "write");
    assert!(answer_to("get a\r\n").starts_with("VALUE a"));
    let answer = answer_to("delete a\r\n");
    assert!(answer.contains("FORBIDDEN/8/index write (api)"), "{answer}");
    change(false, "read");
    let answer = answer_to("get a\r\n");
    assert!(answer.contains("FORBIDDEN/7/index read (api)"), "{answer}");
    change(false, "metadata");
    assert_eq!(answer_to("delete a\r\n"), "DELETED|");
}

/// A server whose memcached port is connected to.
async fn site(options: ServerOptions) -> (Listening, TcpStream) {
    let site = Listening::new(options).await;
    let stream = TcpStream::connect(site.memcached.unwrap()).await.unwrap();
    (site, stream)
}

async fn exchange(stream: &mut TcpStream, request: &[u8], end: &str) -> String {
    stream.write_all(request).await.unwrap();
    timeout(LONG, read_until(stream, end)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_connection_delays_another() {
    let (site, mut first) = site(options(Some("v"))).await;
    // One client requests far more than it reads, one stops in the middle of a value.
    let value = "x".repeat(1 << 20);
    let stored = exchange(
        &mut first,
        format!("set big 0 0 {}\r\n{value}\r\n", value.len()).as_bytes(),
        "\r\n",
    )
    .await;
    assert_eq!(stored, "STORED\r\n");
    first
        .write_all("get big\r\n".repeat(500).as_bytes())
        .await
        .unwrap();
    let address = site.memcached.unwrap();
    let mut second = TcpStream::connect(address).await.unwrap();
    second.write_all(b"set other 0 0 100\r\nabc").await.unwrap();
    let mut third = TcpStream::connect(address).await.unwrap();
    let answer = exchange(
        &mut third,
        b"set k 0 0 1\r\nx\r\nget k other\r\n",
        "END\r\n",
    )
    .await;
    assert_eq!(answer, "STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n");
    // The requests of another connection are still answered.
    let mut bytes = vec![0; 500 * ("VALUE big 0 1048576\r\n\r\nEND\r\n".len() + (1 << 20))];
    timeout(LONG, first.read_exact(&mut bytes))
        .await
        .unwrap()
        .unwrap();
    assert!(bytes.ends_with(b"x\r\nEND\r\n"));
    second.write_all(&[b'y'; 97]).await.unwrap();
    assert_eq!(exchange(&mut second, b"\r\n", "\r\n").await, "STORED\r\n");
    for line in [
        "quire_memcached_connections 3",
        "quire_memcached_requests_total{command=\"get\",result=\"hit\"} 501",
        "quire_memcached_requests_total{command=\"set\",result=\"any\"} 3",
    ] {
        timeout(LONG, shows(&site, line)).await.unwrap();
    }
    let stats = exchange(&mut third, b"stats\r\n", "END\r\n").await;
    for line in [
        "STAT get_hits 501",
        "STAT get_misses 1",
        "STAT curr_connections 3",
        "STAT curr_items 3",
    ] {
        assert!(stats.contains(line), "{line} in {stats}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_binary_protocol_is_refused() {
    // `noop`, whose code is the end of a line, then `version`, which has no such byte.
    for code in [0x0a, 0x0b] {
        let (_site, mut stream) = site(options(Some("v"))).await;
        let mut header = [0_u8; 24];
        (header[0], header[1]) = (0x80, code);
        let answer = exchange(&mut stream, &header, "\r\n").await;
        let refused = "CLIENT_ERROR the binary protocol is not supported\r\n";
        assert_eq!(answer, refused, "code {code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_is_answered_with_errors_and_not_held() {
    let (site, mut stream) = site(options(Some("v"))).await;
    // A mebibyte in lines: an error for each, and the connection continues.
    let garbage = "\u{1}\u{ff} garbage of 32 bytes......\r\n".repeat(32 << 10);
    let (mut reader, mut writer) = stream.split();
    let sending = async {
        writer.write_all(garbage.as_bytes()).await.unwrap();
        writer.write_all(b"mn\r\n").await.unwrap();
    };
    let mut answers = String::new();
    let reading = async {
        while !answers.ends_with("MN\r\n") {
            let mut piece = [0; 65536];
            let bytes = reader.read(&mut piece).await.unwrap();
            assert!(bytes > 0);
            answers.push_str(std::str::from_utf8(&piece[..bytes]).unwrap());
        }
    };
    timeout(LONG, async { tokio::join!(sending, reading) })
        .await
        .unwrap();
    assert_eq!(answers, "ERROR\r\n".repeat(32 << 10) + "MN\r\n");
    // If the start of the next request is not known, the client gets an error and the connection
    // ends.
    for (garbage, error) in [
        (vec![b'x'; 1 << 20], "CLIENT_ERROR line too long\r\n"),
        (vec![0xff; 1 << 20], "CLIENT_ERROR line too long\r\n"),
        (
            b"set k 0 0 -5\r\nabc\r\n".repeat(50_000),
            "CLIENT_ERROR bad data chunk\r\n",
        ),
    ] {
        let mut stream = TcpStream::connect(site.memcached.unwrap()).await.unwrap();
        stream.write_all(&garbage).await.unwrap();
        assert_eq!(timeout(LONG, read_all(&mut stream)).await.unwrap(), error);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_do_not_fit_are_refused_and_the_connection_continues() {
    let (site, mut stream) = site(options(Some("v"))).await;
    let line = |bytes: usize| format!("set big 0 0 {bytes}\r\n");
    let too_large = [
        line((16 << 20) + 1).into_bytes(),
        vec![b'x'; (16 << 20) + 1],
    ]
    .concat();
    stream.write_all(&too_large).await.unwrap();
    let answer = exchange(&mut stream, b"\r\nmn\r\n", "MN\r\n").await;
    assert_eq!(answer, "SERVER_ERROR object too large for cache\r\nMN\r\n");
    // Half-sent values take all the memory. Another value is refused, and accepted once they are
    // gone.
    let mut holders = Vec::new();
    for _ in 0..4 {
        let mut holder = TcpStream::connect(site.memcached.unwrap()).await.unwrap();
        let begin = [line(15 << 20).into_bytes(), vec![b'x'; 1 << 20]].concat();
        holder.write_all(&begin).await.unwrap();
        holders.push(holder);
    }
    let held = |room: &str| format!("quire_http_buffer_bytes {room}");
    timeout(LONG, shows(&site, &held("6291"))).await.unwrap();
    let value = [
        line(4 << 20).into_bytes(),
        vec![b'x'; 4 << 20],
        b"\r\n".to_vec(),
    ]
    .concat();
    let answer = exchange(&mut stream, &value, "\r\n").await;
    assert_eq!(answer, "SERVER_ERROR out of memory storing object\r\n");
    drop(holders);
    timeout(LONG, shows(&site, &held("0\n"))).await.unwrap();
    assert_eq!(exchange(&mut stream, &value, "\r\n").await, "STORED\r\n");
}

/// Waits until the metrics contain this line.
async fn shows(site: &Listening, wanted: &str) {
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    while !site.exchange(request).await.contains(wanted) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_clients_stay_unless_others_wait_and_slow_ones_are_cut() {
    let options = ServerOptions {
        connections_max: 2,
        idle_timeout: Duration::from_millis(50),
        ..options(Some("v"))
    };
    let (site, mut idle) = site(options).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(exchange(&mut idle, b"mn\r\n", "\r\n").await, "MN\r\n");
    let mut slow = TcpStream::connect(site.memcached.unwrap()).await.unwrap();
    slow.write_all(b"set k 0 0 5\r\nab").await.unwrap();
    assert_eq!(timeout(LONG, read_all(&mut slow)).await.unwrap(), "");
    // Two slots: of three clients an idle one is ended.
    let mut others = Vec::new();
    for _ in 0..2 {
        let mut other = TcpStream::connect(site.memcached.unwrap()).await.unwrap();
        assert_eq!(exchange(&mut other, b"mn\r\n", "\r\n").await, "MN\r\n");
        others.push(other);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn at_shutdown_requests_read_are_answered_and_connections_end() {
    let (site, mut stream) = site(options(Some("v"))).await;
    let _idle = TcpStream::connect(site.memcached.unwrap()).await.unwrap();
    let requests: String = (0..200)
        .map(|n| format!("set k{n} 0 0 1\r\nx\r\n"))
        .collect();
    let begun = exchange(&mut stream, requests.as_bytes(), "STORED").await;
    site.begin_shutdown();
    let answers = begun + &timeout(LONG, read_all(&mut stream)).await.unwrap();
    let database = timeout(LONG, site.ended()).await.unwrap();
    let stored = answers.matches("STORED").count() as u64;
    assert!(stored > 0);
    assert!(database.collection("docs").unwrap().count().unwrap() >= stored);
    database.close().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_token_the_first_request_must_send_it() {
    let (_site, mut stream) = site(ServerOptions {
        token: Some("s3cret".into()),
        ..options(Some("v"))
    })
    .await;
    let all = b"set any 0 0 11\r\nbot s3cret!\r\n";
    assert_eq!(
        exchange(&mut stream, all, "\r\n").await,
        "CLIENT_ERROR authentication failure\r\n"
    );
    let address = stream.peer_addr().unwrap();
    for (request, answer) in [
        ("get k\r\nget k\r\n", "CLIENT_ERROR unauthenticated\r\n"),
        ("set any 0 0 9999\r\n", "CLIENT_ERROR unauthenticated\r\n"),
        (
            "set any 0 0 6\r\ns3cret\r\n",
            "CLIENT_ERROR authentication failure\r\n",
        ),
        (
            "set any 0 0 10\r\nbot s3cret\r\nset k 0 0 1\r\nx\r\nget k\r\nquit\r\n",
            "STORED\r\nSTORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n",
        ),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(
            timeout(LONG, read_all(&mut stream)).await.unwrap(),
            answer,
            "{request}"
        );
    }
    let mut open_to_others = options(None);
    open_to_others.memcached.as_mut().unwrap().listen = "0.0.0.0:0".parse().unwrap();
    let error = bind(&open_to_others).await.unwrap_err().to_string();
    assert!(error.contains("without a token"), "{error}");
}
