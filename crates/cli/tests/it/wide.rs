//! Wide collections by command.

use crate::Quire;
use crate::query::beside_index;
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
    let mut rows: Vec<String> = quire
        .ok(&["scan", "db", "pages"])
        .lines()
        .map(str::to_string)
        .collect();
    rows.sort();
    let first = r#"{"_id":"a","title":"A","anchors":{"x":"1","y":"2"},"html":"PGh0bWw+"}"#;
    assert_eq!(rows, [first, r#"{"_id":"b","title":"B"}"#]);
    assert_eq!(
        quire
            .ok(&["scan", "db", "pages", "--limit", "1"])
            .lines()
            .count(),
        1
    );
    assert_eq!(quire.ok(&["count", "db", "pages"]), "2\n");
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

#[test]
fn an_object_that_is_printed_is_no_unknown_field() {
    let quire = Quire::new();
    let schema = r#"{"properties":{"n":{"type":"integer"},"tree":{"type":"object"},
        "links":{"type":"object","additionalProperties":{"type":"string"}}}}"#;
    quire.file("s.json", schema);
    quire.ok(&["create", "db", "pages", "--wide", "--schema", "s.json"]);
    let row = r#"{"_id":"a","n":1,"tree":{"leaf":2},"links":{"x":"y"}}"#;
    quire.ok(&["put", "db", "pages", row]);
    for index in ["none", "none,n=all,tree.leaf=all"] {
        quire.ok(&["alter", "db", "pages", "--index", index]);
        let query = ["query", "db", "pages", "--where", "n = 1", "--fields"];
        let told = quire.run(&[&query[..], &["tree, links"]].concat());
        assert_eq!(told.code, 0, "{told:?}");
        let printed = "{\"tree\":{\"leaf\":2},\"links\":{\"x\":\"y\"}}\n";
        assert_eq!((told.stdout.as_str(), told.stderr.as_str()), (printed, ""));
        let told = quire.run(&[&query[..], &["trea"]].concat());
        assert!(
            told.stderr.contains("no document has the field \"trea\""),
            "{told:?}"
        );
    }
}

#[test]
fn rows_have_a_search_index_of_the_columns_that_are_named() {
    let quire = Quire::new();
    quire.file("pages.json", SCHEMA);
    let create = ["create", "db", "pages", "--wide", "--schema", "pages.json"];
    let with = |index: &'static str| [&create[..], &["--index", index]].concat();
    quire.fails(&with("none,anchors=all"), 1, &["\"anchors\" is a family"]);
    quire.ok(&with("none,title=all"));
    let rows: String = (0..100)
        .map(|row| format!("{{\"_id\":\"{row}\",\"title\":\"T{}\"}}\n", row % 4))
        .collect();
    quire.file("rows.ndjson", &rows);
    quire.ok(&["load", "db", "pages", "rows.ndjson"]);
    let count = |filter| quire.ok(&["query", "db", "pages", "--where", filter, "--count"]);
    assert_eq!(count("title = 'T1'"), "25 match\n");
    // It waits until the index is complete.
    quire.ok(&["alter", "db", "pages", "--index", "none,title=all"]);
    let explained = quire.ok(&[
        "query",
        "db",
        "pages",
        "--where",
        "title = 'T1'",
        "--count",
        "--explain",
    ]);
    assert!(!explained.contains("every document"), "{explained}");

    quire.ok(&[
        "alter",
        "db",
        "pages",
        "--rename-column",
        "title=heading",
        "--index",
        "all",
    ]);
    assert_eq!(count("heading = 'T1'"), "25 match\n");
    assert_eq!(count("title = 'T1'"), "0 match\n");
    let stats: serde_json::Value =
        serde_json::from_str(&quire.ok(&["stats", "db", "--json"])).unwrap();
    let index = &stats["collections"][0]["index"];
    assert_eq!(index["complete"], true, "{stats}");
    quire.ok(&["verify", "db"]);
    quire.ok(&["alter", "db", "pages", "--index", "none"]);
    assert_eq!(count("heading = 'T1'"), "25 match\n");
}

#[test]
fn a_column_moves_to_another_group_and_its_cells_expire() {
    let quire = pages();
    for number in 0..40 {
        let row = format!(r#"{{"title":"t{number}","anchors":{{"x":"1","y":"2"}}}}"#);
        quire.ok(&["put", "db", "pages", &number.to_string(), &row]);
    }
    let altered = quire.ok(&[
        "alter",
        "db",
        "pages",
        "--move-column",
        "anchors=cold",
        "--move-column",
        "title=new",
        "--time-to-live",
        "html=1s",
    ]);
    assert_eq!(
        altered,
        "altered pages: wide, column groups cold (html, anchors), new (title)\n"
    );
    assert_eq!(
        quire.ok(&["get", "db", "pages", "7", "--columns", "anchors,title"]),
        "{\"_id\":7,\"anchors\":{\"x\":\"1\",\"y\":\"2\"},\"title\":\"t7\"}\n"
    );
    let stats = quire.ok(&["stats", "db", "--json"]);
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["collections"][0]["column_moves"], json!([]));
    let titles = quire.ok(&["scan", "db", "pages", "--columns", "title"]);
    assert_eq!(titles.lines().count(), 40);
    quire.ok(&["verify", "db"]);
    quire.fails(
        &["alter", "db", "pages", "--move-column", "nothing=cold"],
        1,
        &["no column", "nothing"],
    );
    quire.fails(
        &["alter", "db", "pages", "--time-to-live", "title=soon"],
        1,
        &["title", "7d"],
    );
    quire.ok(&["alter", "db", "pages", "--time-to-live", "html=none"]);
}

#[test]
fn a_wide_collection_is_loaded_and_its_scan_loaded_again() {
    let quire = pages();
    let mut lines = String::new();
    for number in 0..3000 {
        lines += &format!(
            "{{\"_id\":{number},\"title\":\"t{number}\",\"anchors\":{{\"x\":\"{number}\"}}}}\n"
        );
    }
    quire.file("pages.ndjson", &lines);
    quire.ok(&["load", "db", "pages", "pages.ndjson", "--resume", "state"]);
    assert_eq!(quire.ok(&["count", "db", "pages"]), "3000\n");
    // It is done: a further load of the same goes on from there.
    quire.ok(&["load", "db", "pages", "pages.ndjson", "--resume", "state"]);
    let copy = quire.ok(&["scan", "db", "pages"]);
    quire.file("copy.ndjson", &copy);
    quire.ok(&["create", "db", "copy", "--wide", "--schema", "pages.json"]);
    quire.ok(&["load", "db", "copy", "copy.ndjson"]);
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
        lines.sort();
        lines
    };
    let again = quire.ok(&["scan", "db", "copy"]);
    assert_eq!(sorted(&again), sorted(&copy));

    quire.file(
        "wrong.ndjson",
        "{\"_id\":1,\"titel\":\"x\"}\n{\"_id\":2,\"title\":\"new\"}\n",
    );
    quire.fails(&["load", "db", "pages", "wrong.ndjson"], 1, &["titel"]);
    quire.ok(&["load", "db", "pages", "wrong.ndjson", "--on-error", "skip"]);
    assert_eq!(
        quire.ok(&["get", "db", "pages", "2", "--columns", "title"]),
        "{\"_id\":2,\"title\":\"new\"}\n"
    );
    quire.fails(
        &["load", "db", "pages", "pages.ndjson", "--key", "title"],
        2,
        &["_id"],
    );
}

#[test]
fn a_wide_collection_is_frozen_and_queried_as_the_live_one() {
    let quire = pages();
    for (key, row) in [
        (
            "a",
            r#"{"title":"A","html":"PGh0bWw+","anchors":{"x":"1","y":"2"}}"#,
        ),
        ("b", r#"{"title":"B"}"#),
    ] {
        quire.ok(&["put", "db", "pages", key, row]);
    }
    quire.ok(&["freeze", "db", "pages", "pages.quire"]);
    let lines = |args: &[&str]| {
        let mut lines: Vec<String> = quire.ok(args).lines().map(str::to_string).collect();
        lines.sort();
        lines
    };
    let all = lines(&["query", "db", "pages", "--all"]);
    assert_eq!(all.len(), 2);
    assert_eq!(lines(&["query", "pages.quire", "--all"]), all);
    let found = quire.ok(&["query", "pages.quire", "--where", "anchors.y = '2'"]);
    assert_eq!(found.trim_end(), all[0]);
    quire.ok(&["freeze", "db", "pages", "parts", "--by-partition"]);
    assert_eq!(lines(&["query", "parts", "--all"]), all);
    let named = quire.json(&["freeze", "db", "pages", "b.quire", "--full", "title,nope"]);
    assert_eq!(named["unused"], json!(["nope"]));
}

#[test]
fn the_changes_of_a_wide_collection_are_printed_while_they_are_kept() {
    let quire = pages();
    quire.fails(&["tail", "db", "pages"], 1, &["--log-retention-age"]);
    let altered = quire.ok(&["alter", "db", "pages", "--log-retention-age", "7d"]);
    assert!(altered.contains("changes kept for 7d"), "{altered}");
    quire.ok(&[
        "put",
        "db",
        "pages",
        "a",
        r#"{"title":"A","html":"PGh0bWw+"}"#,
    ]);
    quire.ok(&[
        "put",
        "db",
        "pages",
        "a",
        r#"{"title":null,"anchors":{"x":"1"}}"#,
        "--patch",
    ]);
    quire.ok(&["put", "db", "pages", "b", r#"{"title":"B"}"#]);
    quire.ok(&["compact", "db"]);
    quire.ok(&["split", "db", "pages"]);
    quire.ok(&["delete", "db", "pages", "b"]);
    let lines = |args: &[&str]| -> Vec<serde_json::Value> {
        let printed = quire.ok(args);
        let lines = printed.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let of = |key: &str| lines(&["tail", "db", "pages", "--prefix", key]);
    let a = of("a");
    assert_eq!(
        a[0]["document"],
        json!({"_id": "a", "title": "A", "html": "PGh0bWw+"})
    );
    let patch = json!([
        {"column": "title", "removed": true},
        {"column": "anchors", "member": "x", "value": "1"},
    ]);
    assert_eq!((a.len(), &a[1]["patch"]), (2, &patch));
    let b = of("b");
    assert_eq!((b.len(), &b[1]["deleted"]), (2, &json!(true)));
    assert_eq!(lines(&["tail", "db", "pages", "--limit", "1"]).len(), 1);
    quire.ok(&["verify", "db"]);
    quire.fails(
        &["alter", "db", "pages", "--codec", "none"],
        2,
        &["--log-retention-age", "fixed"],
    );
}

#[test]
fn fields_are_listed_from_the_index_and_from_the_rows_alike() {
    let quire = pages();
    for row in [
        r#"{"_id":"a","title":"A","html":"PGh0bWw+","anchors":{"x":"1","y":"2"}}"#,
        r#"{"_id":"b","title":"B","anchors":{"x":"1"}}"#,
        r#"{"_id":"c","title":"B"}"#,
    ] {
        quire.ok(&["put", "db", "pages", row]);
    }
    let read = quire.json(&["fields", "db", "pages"]);
    assert_eq!(read["from_index"], false);
    let fields = read["fields"].as_array().unwrap();
    let figures = fields
        .iter()
        .map(|of| json!([of["path"], of["types"], of["documents"], of["values"]]));
    // Members of the family are no fields: a row may have millions.
    assert_eq!(
        figures.collect::<Vec<_>>(),
        [
            json!(["_id", ["string"], 3, 3]),
            json!(["html", ["string"], 1, 1]),
            json!(["title", ["string"], 3, 2]),
        ]
    );
    assert_eq!(fields[1]["examples"], json!([r#""PGh0bWw+""#]));
    let table = quire.ok(&["fields", "db", "pages"]);
    assert!(table.contains("title"), "{table}");

    // This waits until the index is built, and brings it to disk.
    quire.ok(&["alter", "db", "pages", "--index", "all"]);
    quire.ok(&["compact", "db", "pages"]);
    let indexed = quire.json(&["fields", "db", "pages"]);
    assert_eq!(indexed["from_index"], true);
    assert_eq!(beside_index(read), beside_index(indexed));
}
