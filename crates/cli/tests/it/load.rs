//! load: formats, acknowledgements, bad input.

use crate::{Quire, corpus};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

/// The JSON lines of an output: acknowledgements, then the summary.
fn lines(output: &str) -> (Vec<u64>, Value) {
    let mut lines: Vec<Value> = output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let summary = lines.pop().unwrap();
    (
        lines
            .iter()
            .map(|line| line["acknowledged"].as_u64().unwrap())
            .collect(),
        summary,
    )
}

fn document(id: usize) -> String {
    format!("{{\"_id\":{id},\"text\":\"document {id}\"}}\n")
}

fn documents(count: usize) -> String {
    (0..count).map(document).collect()
}

#[test]
fn a_corpus_goes_in_and_comes_out_line_for_line() {
    for name in ["tate-artworks.ndjson", "arxiv-databases.ndjson"] {
        let Some(path) = corpus(name) else { return };
        let quire = Quire::new();
        let text = std::fs::read_to_string(&path).unwrap();
        let summary = lines(&quire.ok(&["load", "db", "c", path.to_str().unwrap(), "--json"])).1;
        assert_eq!(summary["documents"], text.lines().count());
        assert_eq!(summary["bytes"], text.len());

        // As text, but for the white space between tokens: fields, their order and numbers are
        // those of the file.
        let by_id = |text: &str| -> BTreeMap<String, String> {
            let parse = |line: &str| serde_json::from_str::<Value>(line).unwrap();
            text.lines()
                .map(parse)
                .map(|value| (value["_id"].to_string(), value.to_string()))
                .collect()
        };
        let (sent, found) = (by_id(&text), by_id(&quire.ok(&["scan", "db", "c"])));
        assert_eq!(sent.len(), found.len());
        for (id, line) in &sent {
            assert_eq!(found.get(id), Some(line));
        }
        assert_eq!(quire.json(&["verify", "db"])["damage"], json!([]));
    }
}

#[test]
fn acknowledgements_count_up_to_the_last_document() {
    let quire = Quire::new();
    quire.file("a.ndjson", documents(700));
    quire.file("b.jsonl", documents(1_000));
    for durability in ["sync", "async(50)", "none"] {
        let output = quire.ok(&[
            "load",
            "db",
            "c",
            "a.ndjson",
            "b.jsonl",
            "--json",
            "--batch-documents",
            "100",
            "--durability",
            durability,
        ]);
        let (acknowledged, summary) = lines(&output);
        assert_eq!(
            acknowledged,
            (1..=17).map(|batch| batch * 100).collect::<Vec<u64>>(),
            "{durability}"
        );
        assert_eq!(summary["documents"], 1_700);
        assert_eq!(summary["skipped"], 0);
        for number in [
            "bytes",
            "seconds",
            "documents_per_second",
            "megabytes_per_second",
        ] {
            assert!(summary[number].is_number(), "{summary}");
        }
    }
    assert_eq!(quire.ok(&["count", "db", "c"]), "1000\n");
}

#[test]
fn the_last_document_of_a_key_wins() {
    let quire = Quire::new();
    let versions: String = (0..2_000)
        .map(|v| format!("{{\"_id\":{},\"v\":{v}}}\n", v % 7))
        .collect();
    let arguments = [
        "load",
        "db",
        "c",
        "--partitions",
        "4",
        "--batch-documents",
        "10",
        "--durability",
        "none",
    ];
    assert_eq!(quire.pipe(&arguments, versions).code, 0);
    let found = quire.ok(&["scan", "db", "c"]);
    let mut last: Vec<String> = (1_993..2_000)
        .map(|v| format!("{{\"_id\":{},\"v\":{v}}}", v % 7))
        .collect();
    last.sort();
    assert_eq!(found.lines().collect::<Vec<_>>(), last);
}

#[test]
fn input_that_comes_drop_by_drop_is_acknowledged_as_it_comes() {
    let quire = Quire::new();
    let mut load = quire
        .command(&["load", "db", "c", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = load.stdin.take().unwrap();
    let mut output = BufReader::new(load.stdout.take().unwrap()).lines();
    for id in 1..=3 {
        writeln!(stdin, "{{\"_id\":{id}}}").unwrap();
        assert_eq!(
            output.next().unwrap().unwrap(),
            format!("{{\"acknowledged\":{id}}}")
        );
    }
    drop(stdin);
    assert!(output.next().unwrap().unwrap().contains("\"documents\":3"));
    assert!(load.wait().unwrap().success());
}

#[test]
fn a_loader_that_is_killed_keeps_what_it_acknowledged() {
    let quire = Quire::new();
    quire.file("many.ndjson", documents(50_000));
    let mut load = quire
        .command(&[
            "load",
            "db",
            "c",
            "many.ndjson",
            "--json",
            "--batch-documents",
            "50",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(load.stdout.take().unwrap()).lines();
    let acknowledged: Value = serde_json::from_str(&output.nth(9).unwrap().unwrap()).unwrap();
    load.kill().unwrap();
    load.wait().unwrap();
    let acknowledged = acknowledged["acknowledged"].as_u64().unwrap();
    assert!(acknowledged >= 500);
    let keys: Vec<String> = (0..acknowledged).map(|key| key.to_string()).collect();
    let arguments: Vec<&str> = ["get", "db", "c"]
        .into_iter()
        .chain(keys.iter().map(String::as_str))
        .collect();
    assert_eq!(quire.ok(&arguments), documents(acknowledged as usize));
    quire.ok(&["verify", "db"]);
}

#[test]
fn an_interrupted_load_goes_on_after_what_is_durable() {
    let quire = Quire::new();
    let (first, bad) = (documents(30_000), "{\"_id\":\"bad\",}\n");
    let second: String = (30_000..40_000)
        .map(|id| format!("{id},document {id}\n"))
        .collect();
    let third: String = (40_000..45_000).map(document).collect();
    quire.file("first.ndjson", &first);
    quire.file("second.csv", format!("_id,text\n{second}"));
    quire.file("third.ndjson", format!("{third}{bad}{}", document(45_000)));
    let mut arguments = vec![
        "load",
        "db",
        "c",
        "first.ndjson",
        "second.csv",
        "third.ndjson",
    ];
    arguments.extend(["--durability", "none", "--resume", "state", "--json"]);

    // Killed as soon as the first file is acknowledged in part.
    let mut load = quire
        .command(&arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(load.stdout.take().unwrap()).lines();
    output.next().unwrap().unwrap();
    load.kill().unwrap();
    load.wait().unwrap();
    let state: Value =
        serde_json::from_slice(&std::fs::read(quire.path("state")).unwrap()).unwrap();
    let durable = state["documents"].as_u64().unwrap();
    assert!(durable > 0);

    // Then stopped by a bad line, then mended.
    let stopped = quire.fails(&arguments, 1, &["third.ndjson:5001: "]);
    let loaded = format!("\"documents\":{}", 45_000 - durable);
    assert!(stopped.stdout.contains(&loaded), "{stopped:?}");
    quire.file("third.ndjson", format!("{third}{}", document(45_000)));
    let (_, summary) = lines(&quire.ok(&arguments));
    assert!(summary["documents"].as_u64().unwrap() <= 1_001, "{summary}");
    assert_eq!(quire.ok(&["count", "db", "c"]).trim(), "45001");
    assert_eq!(quire.ok(&["get", "db", "c", "29999"]), document(29_999));

    // All is loaded: the next load begins anew. One of other inputs, or into a collection made
    // anew, does not go on.
    assert!(!quire.path("state").exists());
    quire.fails(
        &[
            "load",
            "db",
            "c",
            "first.ndjson",
            "absent.csv",
            "--resume",
            "state",
        ],
        1,
        &["absent.csv"],
    );
    quire.file("first.ndjson", format!("{first}{bad}"));
    quire.fails(
        &["load", "db", "c", "first.ndjson", "--resume", "state"],
        1,
        &["first.ndjson:30001: "],
    );
    quire.fails(
        &["load", "db", "c", "second.csv", "--resume", "state"],
        2,
        &["other inputs", "remove it"],
    );
    quire.ok(&["drop", "db", "c", "--yes"]);
    quire.fails(
        &["load", "db", "c", "first.ndjson", "--resume", "state"],
        2,
        &["created again", "remove it"],
    );
}

#[test]
fn a_load_that_was_mended_once_can_be_mended_again_further_on() {
    let quire = Quire::new();
    let bad = "{\"_id\":\"bad\",}\n";
    let second: String = (10..20).map(document).collect();
    let mut arguments = vec!["load", "db", "c", "a.ndjson", "b.ndjson"];
    arguments.extend(["--batch-documents", "5", "--resume", "state"]);
    quire.file("a.ndjson", format!("{}{bad}", documents(10)));
    quire.file("b.ndjson", format!("{second}{bad}"));
    quire.fails(&arguments, 1, &["a.ndjson:11: "]);
    quire.file("a.ndjson", documents(10));
    quire.fails(&arguments, 1, &["b.ndjson:11: "]);
    quire.file("b.ndjson", second);
    quire.ok(&arguments);
    assert_eq!(quire.ok(&["count", "db", "c"]).trim(), "20");
}

#[test]
fn a_bad_line_stops_the_load_and_what_is_before_it_is_kept() {
    let quire = Quire::new();
    let text = format!(
        "{}\n\n{{\"_id\":1,}}\n{}",
        documents(1_500).trim_end(),
        "{\"_id\":\"after\"}\n"
    );
    quire.file("bad.ndjson", text);
    let done = quire.fails(
        &[
            "load",
            "db",
            "c",
            "bad.ndjson",
            "--json",
            "--batch-documents",
            "1000",
        ],
        1,
        &[
            "bad.ndjson:1502: ",
            "byte 9",
            "1,500 documents",
            "--on-error skip",
        ],
    );
    let (acknowledged, summary) = lines(&done.stdout);
    assert_eq!(acknowledged, [1_000, 1_500]);
    assert_eq!(summary["bytes"], documents(1_500).len());
    assert_eq!(summary["documents"], 1_500);
    assert_eq!(quire.ok(&["count", "db", "c"]), "1500\n");
}

#[test]
fn each_kind_of_bad_line_has_its_reason() {
    let deep = format!(
        "{{\"_id\":1,\"a\":{}1{}}}",
        "[".repeat(2_000),
        "]".repeat(2_000)
    );
    let large = format!("{{\"_id\":1,\"a\":\"{}\"}}", "x".repeat(16 << 20));
    let longest = format!("{{\"_id\":1,\"a\":\"{}\"}}", "x".repeat(18 << 20));
    let table: [(&[u8], &str); 11] = [
        (b"{\"_id\":1", "invalid JSON"),
        (b"[{\"_id\":1}]", "jq -c"),
        (b"{\"a\":1}", "_id"),
        (b"{\"_id\":null}", "key"),
        (b"{\"_id\":\"\"}", "key"),
        (b"{\"_id\":1,\"a\":1,\"a\":2}", "\"a\""),
        (b"{\"_id\":\"\xff\"}", "UTF-8"),
        (
            b"{\"_id\":1,\"n\":36893488147419103232}",
            "36893488147419103232",
        ),
        (deep.as_bytes(), "levels"),
        (large.as_bytes(), "limit"),
        (longest.as_bytes(), "longer than 17 MiB"),
    ];
    let quire = Quire::new();
    for (line, reason) in table {
        let done = quire.pipe(&["load", "db", "c"], line);
        let shown = String::from_utf8_lossy(&line[..line.len().min(40)]).into_owned();
        assert_eq!(done.code, 1, "{shown}: {done:?}");
        assert!(
            done.stderr.contains("standard input:1: "),
            "{shown}: {}",
            done.stderr
        );
        assert!(done.stderr.contains(reason), "{shown}: {}", done.stderr);
    }
    assert_eq!(quire.ok(&["collections", "db"]), "");
}

#[test]
fn bad_lines_can_be_skipped_and_are_counted() {
    let quire = Quire::new();
    let mut text = String::new();
    for line in 0..300 {
        text += &if line % 3 == 0 {
            format!("{{\"_id\":{line}\n")
        } else {
            format!("{{\"_id\":{line}}}\n")
        };
    }
    text += &"x".repeat(18 << 20);
    text += "\n{\"_id\":\"end\"}";
    let done = quire.pipe(&["load", "db", "c", "--on-error", "skip", "--json"], text);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let (acknowledged, summary) = lines(&done.stdout);
    assert_eq!(acknowledged.last(), Some(&201));
    assert_eq!(
        (&summary["documents"], &summary["skipped"]),
        (&json!(201), &json!(101))
    );
    assert!(done.stderr.contains("standard input:4: "));
    assert_eq!(done.stderr.matches("skipped standard input").count(), 20);
    assert!(done.stderr.contains("81 more"));
    assert_eq!(quire.ok(&["count", "db", "c"]), "201\n");
}

#[test]
fn bad_lines_are_listed_in_a_report_and_have_a_limit() {
    let quire = Quire::new();
    let text = "{\"_id\":1}\nbad\n{\"_id\":2}\n{}\n{\"_id\":3}\n";
    let arguments = [
        "load",
        "db",
        "c",
        "--on-error",
        "skip",
        "--bad-report",
        "bad",
    ];
    assert_eq!(quire.pipe(&arguments, text).code, 0);
    let report = std::fs::read_to_string(quire.path("bad")).unwrap();
    let lines: Vec<Value> = report
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let places = lines.iter().map(|line| (&line["line"], &line["byte"]));
    let expected = [(&json!(2), &json!(10)), (&json!(4), &json!(24))];
    assert_eq!(places.collect::<Vec<_>>(), expected);
    assert_eq!(lines[0]["file"], "standard input");
    assert!(lines[1]["reason"].as_str().unwrap().contains("_id"));
    assert_eq!(quire.ok(&["count", "db", "c"]), "3\n");

    let arguments = ["load", "db", "d", "--on-error", "skip", "--bad-max", "1"];
    let done = quire.pipe(&arguments, text);
    assert_eq!(done.code, 1);
    assert!(done.stderr.contains("standard input:4: "), "{done:?}");
    assert!(done.stderr.contains("more than 1 bad"), "{done:?}");
    let stops = quire.pipe(&["load", "db", "d", "--bad-max", "1"], text);
    assert_eq!(stops.code, 2, "{stops:?}");
}

#[test]
fn types_of_csv_columns_are_inferred_shown_and_given() {
    let quire = Quire::new();
    quire.file(
        "a.csv",
        "sku,zip,price,sold,note\n1,01067,2.50,true,\n2,80331,30,false,new\n",
    );
    let done = quire.run(&["load", "db", "c", "a.csv", "--key", "sku"]);
    assert_eq!(done.code, 0, "{done:?}");
    let shown = "sku integer, zip string, price decimal, sold boolean, note string";
    assert!(done.stderr.contains(shown), "{done:?}");
    let scanned = quire.ok(&["scan", "db", "c"]);
    assert_eq!(
        scanned.lines().next().unwrap(),
        r#"{"sku":1,"zip":"01067","price":2.50,"sold":true,"note":""}"#
    );
    let filter = [
        "query",
        "db",
        "c",
        "--where",
        "price < 10 and sold = true",
        "--count",
    ];
    assert_eq!(quire.ok(&filter).trim(), "1 match");

    quire.file("b.tsv", "sku\tprice\n3\t7\n");
    let types = ["--types", "string,price=decimal"];
    let done = quire.run(&[&["load", "db", "c", "b.tsv"], &types[..]].concat());
    assert_eq!((done.code, done.stderr.as_str()), (0, ""));
    assert_eq!(
        quire.ok(&["get", "db", "c", "3"]),
        "{\"sku\":\"3\",\"price\":7}\n"
    );

    let semicolons = "sku;price\n4;1,5\n";
    let arguments = ["load", "db", "c", "--format", "csv", "--delimiter", ";"];
    assert_eq!(quire.pipe(&arguments, semicolons).code, 0);
    assert_eq!(
        quire.ok(&["get", "db", "c", "4"]),
        "{\"sku\":4,\"price\":\"1,5\"}\n"
    );
    let strict = [&arguments[..], &["--types", "price=decimal"]].concat();
    let done = quire.pipe(&strict, semicolons);
    assert_eq!(done.code, 1);
    assert!(
        done.stderr
            .contains("the cell of \"price\" is no decimal: \"1,5\""),
        "{done:?}"
    );

    quire.fails(
        &["load", "db", "c", "a.csv", "--types", "price=money"],
        2,
        &["no type \"money\""],
    );
    quire.fails(
        &["load", "db", "c", "a.csv", "--types", "prise=int"],
        1,
        &["column `prise`"],
    );
    quire.file("c.ndjson", "");
    quire.fails(
        &["load", "db", "c", "c.ndjson", "--types", "int"],
        2,
        &["--format csv"],
    );
}

#[test]
fn csv_rows_are_documents_of_strings() {
    let quire = Quire::new();
    let table = "sku,name,price\n1,\"Pen, blue\",0.50\nx/2,\"two\nlines\",\n";
    quire.file("products.csv", table);
    let summary = lines(&quire.ok(&[
        "load",
        "db",
        "products",
        "products.csv",
        "--key",
        "sku",
        "--types",
        "string",
        "--json",
    ]))
    .1;
    assert_eq!(
        (&summary["documents"], &summary["bytes"]),
        (&json!(2), &json!(table.len()))
    );
    assert_eq!(
        quire.ok(&["scan", "db", "products"]),
        "{\"sku\":\"1\",\"name\":\"Pen, blue\",\"price\":\"0.50\"}\n\
         {\"sku\":\"x/2\",\"name\":\"two\\nlines\",\"price\":\"\"}\n"
    );
    let done = quire.pipe(
        &["load", "db", "products", "-", "--format", "csv"],
        "sku,name\n3,c\n4\n",
    );
    assert_eq!(done.code, 1);
    assert!(
        done.stderr
            .contains("standard input:3: the row has 1 cells, the header row 2"),
        "{}",
        done.stderr
    );
    assert_eq!(quire.ok(&["count", "db", "products"]), "3\n");
    assert_eq!(
        quire
            .pipe(&["load", "db", "products", "--format", "csv"], "a,a\n1,2\n")
            .code,
        1
    );
}

#[test]
fn a_quote_that_is_not_closed_is_a_bad_row_and_not_the_end_of_the_file() {
    let quire = Quire::new();
    quire.file("f.csv", "id,a\n0,ok\n1,\"x\n2,y\n3,z\n");
    let load = ["load", "db", "t", "f.csv", "--key", "id"];
    let why = "f.csv:3: a quote that begins in line 3 is not closed";
    quire.fails(&load, 1, &[why]);
    let done = quire.run(&[&load[..], &["--on-error", "skip", "--json"]].concat());
    let summary = lines(&done.stdout).1;
    assert_eq!(
        (done.code, &summary["documents"], &summary["skipped"]),
        (0, &json!(1), &json!(1)),
        "{done:?}"
    );
    let header = ["load", "db", "t", "--format", "csv", "--key", "id"];
    let done = quire.pipe(&header, "id,\"a\n1,2\n");
    assert_eq!(done.code, 1, "{done:?}");
    let why = "standard input: a quote that begins in line 1 is not closed";
    assert!(done.stderr.contains(why), "{done:?}");
    // A last row without a line end counts its own bytes alone.
    let text = "id,a\n5,\"x\"";
    let summary = lines(
        &quire
            .pipe(&[&header[..], &["--json"]].concat(), text)
            .stdout,
    )
    .1;
    assert_eq!(summary["bytes"], text.len());
    assert_eq!(quire.ok(&["count", "db", "t"]), "2\n");
}

#[test]
fn a_load_that_fails_before_its_first_document_leaves_no_new_collection() {
    let quire = Quire::new();
    quire.file("t.csv", "id,a\n1,2\n");
    let load = ["load", "db", "t", "t.csv"];
    quire.fails(&load, 1, &["--key id takes it from the field"]);
    quire.run(&[&load[..], &["--on-error", "skip"]].concat());
    assert_eq!(quire.ok(&["collections", "db"]), "");
    quire.ok(&[&load[..], &["--key", "id"]].concat());
    // One that was there stays, and so does one that has documents.
    quire.ok(&["create", "db", "made"]);
    quire.fails(&["load", "db", "made", "t.csv"], 1, &["--key id"]);
    assert_eq!(quire.ok(&["count", "db", "made"]), "0\n");
    let done = quire.pipe(&["load", "db", "some"], "{\"_id\":1}\n{}\n");
    assert_eq!(done.code, 1, "{done:?}");
    assert_eq!(quire.ok(&["count", "db", "some"]), "1\n");
}

#[test]
fn a_table_with_another_delimiter_is_told_of_the_option() {
    let quire = Quire::new();
    quire.file("t.csv", "id;zip\n1;01067\n");
    let hint = "t.csv has one column, \"id;zip\": --delimiter ';' reads several";
    let load = ["load", "db", "t", "t.csv", "--key", "id"];
    quire.fails(&load, 1, &[hint]);
    let done = quire.run(&[&load[..], &["--delimiter", ";"]].concat());
    assert_eq!(done.code, 0, "{done:?}");
    assert!(!done.stderr.contains("--delimiter"), "{done:?}");
}

#[test]
fn what_is_fixed_at_creation_must_agree() {
    let quire = Quire::new();
    assert_eq!(
        quire
            .pipe(
                &["load", "db", "c", "--key", "sku", "--partitions", "3"],
                "{\"sku\":1}"
            )
            .code,
        0
    );
    assert_eq!(
        quire
            .pipe(&["load", "db", "c", "--key", "sku"], "{\"sku\":2}")
            .code,
        0
    );
    quire.fails(
        &["load", "db", "c", "--key", "isbn"],
        2,
        &["`sku`", "`isbn`"],
    );
    quire.fails(
        &["load", "db", "c", "--partitions", "4"],
        2,
        &["3 partitions, not 4"],
    );
    assert_eq!(quire.ok(&["count", "db", "c"]), "2\n");
}

#[test]
fn inputs_that_can_not_be_read_are_refused_before_anything_is_created() {
    let quire = Quire::new();
    quire.file("a.txt", "{}");
    std::fs::create_dir(quire.path("folder.json")).unwrap();
    let table: [(&[&str], i32, &str); 8] = [
        (&["absent.ndjson"], 1, "absent.ndjson"),
        (&["folder.json"], 2, "directory"),
        (&["a.txt"], 2, "--format"),
        (&["a.ndjson.zst"], 2, "zstd -dc a.ndjson.zst | quire load"),
        (&["a.csv.gz"], 2, "gunzip -c a.csv.gz | quire load"),
        (&["-", "-"], 2, "twice"),
        (&["--batch-documents", "0"], 2, "batch"),
        (&["--durability", "maybe"], 2, "maybe"),
    ];
    for (arguments, code, word) in table {
        quire.fails(&[&["load", "db", "c"], arguments].concat(), code, &[word]);
    }
    assert!(!quire.path("db").exists());
    // Compressed all the same, by what it holds.
    let done = quire.pipe(&["load", "db", "c"], b"\x1f\x8b\x08\x00rest");
    assert_eq!(done.code, 1);
    assert!(done.stderr.contains("gunzip"), "{}", done.stderr);
    // A byte-order mark is no part of the first document.
    assert_eq!(
        quire
            .pipe(&["load", "db", "c"], b"\xef\xbb\xbf{\"_id\":1}\r\n")
            .code,
        0
    );
    assert_eq!(quire.ok(&["get", "db", "c", "1"]), "{\"_id\":1}\n");
}

#[test]
fn keys_are_made_where_there_are_none_and_a_resumed_load_makes_them_again() {
    let quire = Quire::new();
    let line = |number: u32| format!("{{\"n\":{number}}}\n");
    let before: String = (0..6).map(line).collect();
    let after: String = (6..9).map(line).collect();
    let keyed = "{\"_id\":\"own\",\"n\":99}\n";
    quire.file("a.ndjson", format!("{before}{{bad\n{after}"));
    quire.file("b.csv", "n\n100\n101\n");
    quire.file("c.ndjson", keyed);
    let mut arguments = vec!["load", "db", "c", "a.ndjson", "b.csv", "c.ndjson"];
    arguments.extend([
        "--key",
        "auto",
        "--resume",
        "state",
        "--batch-documents",
        "2",
    ]);
    quire.fails(&arguments, 1, &["a.ndjson:7: "]);
    // As if the machine had stopped before the progress was saved: all is read again.
    let path = quire.path("state");
    let state = std::fs::read_to_string(&path).unwrap();
    let mut state: serde_json::Value = serde_json::from_str(&state).unwrap();
    state["place"] = serde_json::json!({"input": 0, "documents": 0});
    std::fs::write(&path, state.to_string()).unwrap();
    quire.file("a.ndjson", format!("{before}{{\"n\":-1}}\n{after}"));
    let without: Vec<&str> = arguments
        .iter()
        .copied()
        .filter(|one| !["--key", "auto"].contains(one))
        .collect();
    quire.fails(&without, 2, &["--key auto"]);
    quire.ok(&arguments);
    let lines = quire.ok(&["scan", "db", "c"]);
    let lines: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // In the order of the inputs and lines; a key of its own is kept, inside the document.
    let numbers: Vec<i64> = lines
        .iter()
        .map(|line| line["n"].as_i64().unwrap())
        .collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, -1, 6, 7, 8, 100, 101, 99]);
    assert_eq!(lines[12], serde_json::json!({"_id": "own", "n": 99}));
    let made = lines[0]["_key"].as_str().unwrap();
    assert!(made.ends_with("-0000-000000000001"), "{made}");
    // Another load makes other keys.
    quire.ok(&["load", "db", "c", "b.csv", "--key", "auto"]);
    assert_eq!(quire.ok(&["count", "db", "c"]), "15\n");
}
