//! Wide collections by command.

use crate::Quire;
use serde_json::json;

const SCHEMA: &str = r#"{
    "properties": {
        "title": {"type": "string"},
        "html": {"type": "string", "contentEncoding": "base64", "group": "cold"},
        "anchors": {"type": "object", "additionalProperties": {"type": "string"}}
    }
}"#;

fn pages() -> Quire {
    let quire = Quire::new();
    quire.file("pages.json", SCHEMA);
    let made = quire.ok(&["create", "db", "pages", "--wide", "--schema", "pages.json"]);
    assert_eq!(
        made,
        "created pages: wide, column groups default (title, anchors), cold (html)\n"
    );
    quire
}

#[test]
fn rows_are_written_read_by_columns_and_scanned() {
    let quire = pages();
    let whole = r#"{"_id":"a","title":"A","html":"PGh0bWw+","anchors":{"x":"1"}}"#;
    quire.ok(&["put", "db", "pages", whole]);
    quire.ok(&["put", "db", "pages", "b", r#"{"title":"B"}"#, "--if-absent"]);
    quire.fails(
        &["put", "db", "pages", "b", "{}", "--if-absent"],
        1,
        &["it exists already"],
    );
    quire.ok(&[
        "put",
        "db",
        "pages",
        "a",
        r#"{"anchors":{"y":"2"}}"#,
        "--patch",
    ]);
    assert_eq!(
        quire.ok(&["get", "db", "pages", "a", "--columns", "anchors,html"]),
        "{\"_id\":\"a\",\"anchors\":{\"x\":\"1\",\"y\":\"2\"},\"html\":\"PGh0bWw+\"}\n"
    );
    let mut titles: Vec<String> = quire
        .ok(&["scan", "db", "pages", "--columns", "title"])
        .lines()
        .map(str::to_string)
        .collect();
    titles.sort();
    assert_eq!(
        titles,
        [r#"{"_id":"a","title":"A"}"#, r#"{"_id":"b","title":"B"}"#]
    );
    assert_eq!(
        quire.ok(&[
            "query",
            "db",
            "pages",
            "--where",
            "title = 'B'",
            "--fields",
            "title"
        ]),
        "{\"title\":\"B\"}\n"
    );
    quire.fails(&["scan", "db", "pages"], 2, &["--columns"]);
    quire.fails(
        &["get", "db", "pages", "a", "--columns", "nope"],
        1,
        &["no column", "title"],
    );
    quire.fails(&["put", "db", "pages", "a", r#"{"nope":1}"#], 1, &["nope"]);
    quire.ok(&["delete", "db", "pages", "a"]);
    quire.fails(&["get", "db", "pages", "a", "b"], 1, &["no document a"]);
    quire.ok(&["compact", "db"]);
    quire.ok(&["verify", "db"]);
}

#[test]
fn columns_are_added_renamed_and_dropped() {
    let quire = pages();
    quire.ok(&[
        "put",
        "db",
        "pages",
        "a",
        r#"{"title":"A","html":"PGh0bWw+"}"#,
    ]);
    let altered = quire.json(&[
        "alter",
        "db",
        "pages",
        "--drop-column",
        "html",
        "--rename-column",
        "title=heading",
        "--add-column",
        r#"size={"type":"integer","group":"meta"}"#,
    ]);
    let properties = &altered["settings"]["wide"]["properties"];
    assert_eq!(properties["size"]["group"], json!("meta"));
    quire.ok(&["put", "db", "pages", "a", r#"{"size":5}"#, "--patch"]);
    assert_eq!(
        quire.ok(&["get", "db", "pages", "a"]),
        "{\"_id\":\"a\",\"heading\":\"A\",\"size\":5}\n"
    );
    assert_eq!(quire.ok(&["collections", "db"]), "pages\n");
}

#[test]
fn what_a_wide_collection_does_not_do_is_refused_with_what_does() {
    let quire = pages();
    quire.ok(&["create", "db", "plain"]);
    quire.fails(
        &["get", "db", "plain", "a", "--columns", "x"],
        2,
        &["plain"],
    );
    quire.fails(
        &["alter", "db", "plain", "--drop-column", "x"],
        2,
        &["plain"],
    );
    quire.fails(
        &["alter", "db", "pages", "--codec", "none"],
        2,
        &["--add-column"],
    );

    quire.fails(&["create", "db", "other", "--wide"], 2, &["--schema"]);
    quire.file("bad.json", r#"{"properties":{"a":{"type":"date"}}}"#);
    quire.fails(
        &["create", "db", "other", "--wide", "--schema", "bad.json"],
        1,
        &["\"a\"", "timestamp"],
    );
}
