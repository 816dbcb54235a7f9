//! Commands and requests for things that do not exist or are not possible.

use super::assert_says;
use crate::quire::{self, Server};
use serde_json::json;
use std::path::Path;

#[test]
fn commands_that_can_not_be_done_say_why() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("input.ndjson");
    std::fs::write(&file, "{\"_id\":\"good\",\"n\":1}\n").unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (db, none, file) = (at("db"), at("none.ndjson"), at("input.ndjson"));
    let (db, none, file) = (db.as_str(), none.as_str(), file.as_str());
    quire::ok(&["load", db, "docs", file]);
    let cases: &[(&[&str], i32, &[&str])] = &[
        (
            &["get", db, "dogs", "good"],
            1,
            &["no collection `dogs` in", "there are: docs"],
        ),
        (
            &["count", db, "dogs"],
            1,
            &["no collection `dogs` in", "there are: docs"],
        ),
        (
            &["scan", db, "dogs"],
            1,
            &["no collection `dogs` in", "there are: docs"],
        ),
        (&["drop", db, "dogs"], 1, &["dogs", "docs"]),
        (
            &["get", none, "docs", "good"],
            1,
            &["no database at", none, "quire load"],
        ),
        (&["verify", none], 1, &["no database at", none]),
        (
            &["load", db, "docs", none],
            1,
            &["cannot read", none, "No such file"],
        ),
        (
            &["load", db, "docs", file, "--key", "sku"],
            2,
            &["sku", "_id"],
        ),
        (
            &["load", db, "docs", file, "--partitions", "77"],
            2,
            &["77"],
        ),
        (
            &["load", db, "docs", file, "--durability", "fast"],
            2,
            &["fast", "sync, async(MILLISECONDS) or none"],
        ),
        (
            &["load", db, "docs", file, "--memory", "1MiB"],
            1,
            &["1048576", "at least 16777216"],
        ),
        (
            &["create", db, "more", "--partitions", "0"],
            1,
            &["partitions is 0", "1 to 1024"],
        ),
        (
            &["create", db, "more", "--partitions", "many"],
            2,
            &["many", "--partitions"],
        ),
        (
            &["create", db, "more", "--durability", "async(0)"],
            2,
            &["async(0)"],
        ),
        (
            &["create", db, "more", "--shards", "3"],
            2,
            &["--shards", "--help"],
        ),
        (&["create", db, "More"], 1, &["\"More\"", "a-z, 0-9"]),
        (&["create", db, "docs"], 1, &["docs", "exists already"]),
        (
            &["put", db, "docs", "a", "{\"n\":"],
            1,
            &["invalid JSON at byte 5", "cut short"],
        ),
        (
            &["put", db, "docs", "a", "[]"],
            1,
            &["must be a JSON object"],
        ),
        (
            &[
                "put",
                db,
                "docs",
                "absent",
                "{\"n\":1}",
                "--if-version",
                "7",
            ],
            1,
            &["absent", "7"],
        ),
        (
            &["serve", db, "--listen", "0.0.0.0:0"],
            2,
            &["0.0.0.0:0", "--token-file"],
        ),
        (&["serve", db, "--listen", "nowhere"], 2, &["nowhere"]),
        (
            &["serve", db, "--token-file", none],
            1,
            &["token file", none],
        ),
    ];
    for (arguments, code, said) in cases {
        let done = quire::run(arguments);
        assert_eq!(done.code, Some(*code), "{arguments:?}: {done:?}");
        assert_says(&done.stderr, said);
    }
    assert!(!Path::new(none).exists());
    assert_eq!(
        quire::ok(&["scan", db, "docs"]),
        "{\"_id\":\"good\",\"n\":1}\n"
    );
    assert_eq!(quire::ok(&["collections", db]).lines().count(), 1);
}

/// A request: method, path, body; and its answer: status, type of the error, words of it.
type Refused<'a> = (&'a str, &'a str, &'a str, u16, &'a str, &'a [&'a str]);

#[test]
fn requests_that_can_not_be_done_say_why_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("db"), &[]);
    assert_eq!(
        server.request("PUT", "/docs/_doc/good", r#"{"n":1}"#).0,
        201
    );
    let long_id = format!("/docs/_doc/{}", "k".repeat(1025));
    let good = r#"{"index":{"_id":"x"}}"#;
    let no_source = format!("{good}\n{{}}\n{good}\n");
    let no_action = format!("{good}\n{{}}\n{{\"n\":1}}\n{{}}\n");
    let not_json = format!("{good}\n{{}}\nrubbish\n{{}}\n");
    let argument = "illegal_argument_exception";
    let cases: &[Refused<'_>] = &[
        (
            "PUT",
            "/more",
            r#"{"settings":{"nope":1}}"#,
            400,
            argument,
            &["unknown setting [index.nope]", "known are"],
        ),
        (
            "PUT",
            "/more",
            r#"{"settings":{"quire":{"nope":1}}}"#,
            400,
            argument,
            &["nope", "partitions"],
        ),
        (
            "PUT",
            "/more",
            r#"{"setings":{}}"#,
            400,
            "parse_exception",
            &["unknown field `setings`", "settings"],
        ),
        (
            "PUT",
            "/more",
            r#"{"settings":{"number_of_shards":0}}"#,
            400,
            argument,
            &["partitions is 0", "1 to 1024"],
        ),
        (
            "PUT",
            "/more",
            r#"{"settings":{"number_of_shards":"many"}}"#,
            400,
            argument,
            &["many", "a number is expected"],
        ),
        (
            "PUT",
            "/more",
            r#"{"settings":{"quire":{"durability":"fast"}}}"#,
            400,
            argument,
            &["fast", "use sync"],
        ),
        (
            "PUT",
            "/more",
            r#"{"mappings":{"dynamic":"maybe"}}"#,
            400,
            "mapper_parsing_exception",
            &["dynamic", "maybe"],
        ),
        ("PUT", "/more", "{", 400, "parse_exception", &["EOF"]),
        (
            "PUT",
            "/More",
            "",
            400,
            "invalid_index_name_exception",
            &["More", "a-z, 0-9"],
        ),
        (
            "PUT",
            "/docs",
            "",
            400,
            "resource_already_exists_exception",
            &["docs"],
        ),
        (
            "GET",
            "/dogs",
            "",
            404,
            "index_not_found_exception",
            &["[dogs]"],
        ),
        (
            "GET",
            "/dogs/_doc/good",
            "",
            404,
            "index_not_found_exception",
            &["[dogs]"],
        ),
        (
            "GET",
            "/dogs/_count",
            "",
            404,
            "index_not_found_exception",
            &["[dogs]"],
        ),
        (
            "DELETE",
            "/dogs",
            "",
            404,
            "index_not_found_exception",
            &["[dogs]"],
        ),
        (
            "PUT",
            long_id.as_str(),
            "{}",
            400,
            argument,
            &["1025 bytes", "1 to 1024 bytes"],
        ),
        (
            "PUT",
            "/docs/_doc/x?if_seq_no=some",
            "{}",
            400,
            argument,
            &["some", "if_seq_no"],
        ),
        (
            "PUT",
            "/docs/_doc/x?nope=1",
            "{}",
            400,
            argument,
            &["unrecognized parameter", "nope"],
        ),
        (
            "POST",
            "/docs/_update/good",
            r#"{"dok":{}}"#,
            400,
            "parse_exception",
            &["unknown field `dok`", "doc"],
        ),
        (
            "POST",
            "/docs/_update/absent",
            r#"{"doc":{}}"#,
            404,
            "document_missing_exception",
            &["absent"],
        ),
        (
            "POST",
            "/docs/_mget",
            r#"{"idz":[]}"#,
            400,
            "parse_exception",
            &["unknown field `idz`", "ids"],
        ),
        ("POST", "/docs/_bulk", "", 400, "parse_exception", &["body"]),
        (
            "POST",
            "/docs/_bulk",
            &no_source,
            400,
            argument,
            &[
                "line [3]",
                "no source line",
                "nothing of this request was applied",
            ],
        ),
        (
            "POST",
            "/docs/_bulk",
            &no_action,
            400,
            argument,
            &[
                "line [3]",
                "expected one of",
                "nothing of this request was applied",
            ],
        ),
        (
            "POST",
            "/docs/_bulk",
            &not_json,
            400,
            argument,
            &["line [3]", "nothing of this request was applied"],
        ),
    ];
    for (method, path, body, status, kind, said) in cases {
        let (got, answer) = server.request(method, path, body);
        assert_eq!(
            (got, answer["error"]["type"].as_str()),
            (*status, Some(*kind)),
            "{method} {path} {body}: {answer}"
        );
        assert_says(&answer.to_string(), said);
        let (status, answer) = server.request("GET", "/docs/_doc/good", "");
        assert_eq!(
            (status, &answer["_source"]),
            (200, &json!({"n": 1})),
            "{method} {path} {body}"
        );
    }
    assert_eq!(
        server.request("GET", "/docs/_count", "").1["count"],
        json!(1)
    );
    assert_eq!(server.request("GET", "/more", "").0, 404);

    // Input that is hardly HTTP closes its own connection and nothing else.
    for bytes in [
        &b"\x16\x03\x01 hello\r\n\r\n"[..],
        b"GET /docs HTTP/9.9\r\n\r\n",
        b"PUT /docs/_doc/x HTTP/1.1\r\ncontent-length: many\r\n\r\n",
    ] {
        let mut connection = server.connect();
        connection.send(bytes).unwrap();
        if let Ok((status, _)) = connection.receive(false) {
            assert!((400..=505).contains(&status), "{status}");
        }
    }
    assert_eq!(
        server.request("GET", "/docs/_count", "").1["count"],
        json!(1)
    );
    server.stop();
}
