//! Documents that are refused.

use super::assert_says;
use crate::quire::{self, Server};
use serde_json::{Value, json};

/// A refused document: what it is, its bytes, and words of the error.
struct BadDocument {
    name: &'static str,
    text: Vec<u8>,
    said: &'static [&'static str],
    status: u64,
}

fn bad_documents() -> Vec<BadDocument> {
    let bad = |name, text: &[u8], said| BadDocument {
        name,
        text: text.to_vec(),
        said,
        status: 400,
    };
    let deep = format!(
        r#"{{"_id":"bad","d":{}{}}}"#,
        "[".repeat(200),
        "]".repeat(200)
    );
    let large = format!(r#"{{"_id":"bad","t":"{}"}}"#, "x".repeat(16 << 20));
    vec![
        bad(
            "cut short",
            br#"{"_id":"bad","n":"#,
            &["invalid JSON at byte 17", "cut short"],
        ),
        bad("not JSON", b"<n>1</n>", &["invalid JSON at byte 0"]),
        bad(
            "more than one value",
            br#"{"_id":"bad"} {"_id":"bad"}"#,
            &["invalid JSON at byte 14"],
        ),
        bad(
            "an array",
            br#"[{"_id":"bad"}]"#,
            &["must be a JSON object, found an array at byte 0", "wrap it"],
        ),
        bad(
            "a string",
            br#""bad""#,
            &["must be a JSON object, found a string at byte 0", "wrap it"],
        ),
        bad(
            "a field twice",
            br#"{"_id":"bad","a":{"x":1,"x":2}}"#,
            &[
                r#"field "x" appears more than once in the object at byte 17"#,
                "keep one",
            ],
        ),
        bad(
            "a field twice, once escaped",
            br#"{"_id":"bad","x":1,"\u0078":2}"#,
            &[r#"field "x" appears more than once"#],
        ),
        bad(
            "too deep",
            deep.as_bytes(),
            &["nesting deeper than 128 levels at byte 144", "flatten"],
        ),
        bad(
            "not UTF-8",
            b"{\"_id\":\"bad\",\"t\":\"caf\xe9\"}",
            &["invalid UTF-8 at byte 21", "convert"],
        ),
        bad(
            "an integer too large",
            br#"{"_id":"bad","n":18446744073709551616}"#,
            &[
                "number 18446744073709551616 at byte 17 is outside",
                "write it as a string",
            ],
        ),
        bad(
            "an integer too small",
            br#"{"_id":"bad","n":-9223372036854775809}"#,
            &["-9223372036854775809", "write it as a string"],
        ),
        bad(
            "a float too large",
            br#"{"_id":"bad","n":1e999}"#,
            &["1e999 at byte 17", "write it as a string"],
        ),
        BadDocument {
            name: "too large",
            text: large.into_bytes(),
            said: &["16777216"],
            status: 413,
        },
    ]
}

#[test]
fn a_load_stops_at_a_bad_document_with_file_line_and_reason_or_skips_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut cases = bad_documents();
    let keyless = |name, text: &str, said| BadDocument {
        name,
        text: text.as_bytes().to_vec(),
        said,
        status: 400,
    };
    let long = format!(r#"{{"_id":"{}"}}"#, "k".repeat(1025));
    cases.extend([
        keyless("no key", r#"{"id":"bad"}"#, &[r#"no field "_id""#]),
        keyless(
            "an object as key",
            r#"{"_id":{}}"#,
            &["an object can't be a key", "an integer or a string"],
        ),
        keyless("null as key", r#"{"_id":null}"#, &["null can't be a key"]),
        keyless("a float as key", r#"{"_id":1.5}"#, &["1.5 can't be a key"]),
        keyless(
            "an empty key",
            r#"{"_id":""}"#,
            &["an empty string can't be a key"],
        ),
        keyless(
            "a long key",
            &long,
            &["1025 bytes", "can't be a key", "1 to 1024 bytes"],
        ),
        keyless(
            "a line beyond all bounds",
            &"x".repeat(18 << 20),
            &["longer than 17 MiB"],
        ),
    ]);
    let database = dir.path().join("db");
    let file = dir.path().join("input.ndjson");
    for (at, case) in cases.iter().enumerate() {
        let name = case.name;
        let (before, after) = (format!("before-{at}"), format!("after-{at}"));
        let mut input = format!("{{\"_id\":\"{before}\"}}\n").into_bytes();
        input.extend_from_slice(&case.text);
        input.extend_from_slice(format!("\n{{\"_id\":\"{after}\"}}\n").as_bytes());
        std::fs::write(&file, &input).unwrap();
        let (db, path) = (database.to_str().unwrap(), file.to_str().unwrap());

        let stopped = quire::run(&["load", db, "docs", path, "--json"]);
        assert_eq!(stopped.code, Some(1), "{name}: {stopped:?}");
        assert_says(
            &stopped.stderr,
            &[&format!("{path}:2: "), "--on-error skip"],
        );
        assert_says(&stopped.stderr, case.said);
        let got = quire::run(&["get", db, "docs", &before, &after, "bad"]);
        assert_eq!(got.stdout, format!("{{\"_id\":\"{before}\"}}\n"), "{name}");

        let skipped = quire::run(&["load", db, "docs", path, "--json", "--on-error", "skip"]);
        assert_eq!(skipped.code, Some(0), "{name}: {skipped:?}");
        assert_says(&skipped.stderr, case.said);
        let summary: Value = serde_json::from_str(skipped.stdout.lines().last().unwrap()).unwrap();
        assert_eq!(
            (&summary["documents"], &summary["skipped"]),
            (&json!(2), &json!(1)),
            "{name}"
        );
        let got = quire::run(&["get", db, "docs", &after, "bad"]);
        assert_eq!(got.stdout, format!("{{\"_id\":\"{after}\"}}\n"), "{name}");
    }
    let count = 2 * cases.len();
    assert_eq!(
        quire::ok(&["count", database.to_str().unwrap(), "docs"]),
        format!("{count}\n")
    );
    assert_eq!(
        quire::run(&["verify", database.to_str().unwrap()]).code,
        Some(0)
    );
}

#[test]
fn a_server_refuses_bad_documents_one_by_one_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("db"), &[]);
    for (at, case) in bad_documents().iter().enumerate() {
        let name = case.name;
        let (status, answer) = server.connect().json("PUT", "/docs/_doc/bad", &case.text);
        assert_eq!(u64::from(status), case.status, "{name}: {answer}");
        assert_eq!(answer["status"], json!(status), "{name}");
        let said = answer.to_string().replace("\\\"", "\"");
        assert_says(&said, case.said);

        // In a bulk request only this document fails.
        let mut body = format!("{{\"index\":{{\"_id\":\"before-{at}\"}}}}\n{{}}\n").into_bytes();
        body.extend_from_slice(b"{\"index\":{\"_id\":\"bad\"}}\n");
        body.extend_from_slice(&case.text);
        body.extend_from_slice(
            format!("\n{{\"index\":{{\"_id\":\"after-{at}\"}}}}\n{{}}\n").as_bytes(),
        );
        let (status, answer) = server.connect().json("POST", "/docs/_bulk", &body);
        assert_eq!(status, 200, "{name}: {answer}");
        let statuses: Vec<_> = (0..3)
            .map(|item| answer["items"][item]["index"]["status"].as_u64())
            .collect();
        assert_eq!(
            statuses,
            [Some(201), Some(case.status), Some(201)],
            "{name}: {answer}"
        );
        assert_says(&answer.to_string().replace("\\\"", "\""), case.said);

        assert_eq!(server.request("GET", "/docs/_doc/bad", "").0, 404, "{name}");
        let (status, answer) = server.request("GET", &format!("/docs/_doc/after-{at}"), "");
        assert_eq!((status, &answer["_source"]), (200, &json!({})), "{name}");
    }
    server.stop();
}
