//! query.

use crate::Quire;
use serde_json::{Value, json};

const CARS: &str = concat!(
    r#"{"_id":"a","mark":"audi","price":9000,"tags":["new","red"],"at":{"city":"Ulm"}}"#,
    "\n",
    r#"{"_id":"b","mark":"fiat","price":500,"tags":["red"]}"#,
    "\n",
    r#"{"_id":"c","mark":"audi","price":1.50,"sold":true,"at":{"city":"Bonn"}}"#,
    "\n",
    r#"{"_id":"d","mark":"opel","at":{"city":"Ulm"},"odd name":null}"#,
    "\n",
);

fn cars() -> Quire {
    let quire = Quire::new();
    quire.ok(&["create", "db", "c", "--partitions", "2"]);
    let file = quire.file("cars.ndjson", CARS);
    quire.ok(&["load", "db", "c", file.to_str().unwrap()]);
    quire.ok(&["freeze", "db", "c", "c.quire"]);
    quire.ok(&["freeze", "db", "c", "frozen", "--by-partition"]);
    quire
}

/// The answer, which is the same from the collection and from what is frozen of it.
fn answer(quire: &Quire, arguments: &[&str]) -> String {
    let query = |of: &[&str]| quire.ok(&[&["query"], of, arguments].concat());
    let answer = query(&["db", "c"]);
    for frozen in ["c.quire", "frozen"] {
        assert_eq!(query(&[frozen]), answer, "{frozen}: {arguments:?}");
    }
    answer
}

/// The keys of what is found.
fn keys(quire: &Quire, arguments: &[&str]) -> Vec<String> {
    let found = answer(quire, &[&["--fields", "_id"], arguments].concat());
    let lines = found
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    lines
        .map(|line: Value| line["_id"].as_str().unwrap().to_string())
        .collect()
}

#[test]
fn a_field_with_a_dot_and_a_field_of_an_object_have_one_path() {
    let quire = Quire::new();
    quire.ok(&["create", "db", "c", "--partitions", "2"]);
    let lines = concat!(
        r#"{"_id":"1","service.name":"web","n":1}"#,
        "\n",
        r#"{"_id":"2","service":{"name":"web"},"n":2}"#,
        "\n",
        r#"{"_id":"3","service":{"name":"db"},"n":3}"#,
        "\n",
        r#"{"_id":"4","n":4}"#,
        "\n",
    );
    let file = quire.file("services.ndjson", lines);
    quire.ok(&["load", "db", "c", file.to_str().unwrap()]);
    quire.ok(&["freeze", "db", "c", "c.quire"]);
    quire.ok(&["freeze", "db", "c", "frozen", "--by-partition"]);
    let by_number = ["--order", "n"];
    for (filter, found) in [
        ("service.name = 'web'", &["1", "2"][..]),
        ("service.name IS NOT NULL", &["1", "2", "3"]),
        ("service.name IS NULL", &["4"]),
        ("service.name LIKE 'd%'", &["3"]),
    ] {
        let arguments = [&["--where", filter], &by_number[..]].concat();
        assert_eq!(keys(&quire, &arguments), found, "{filter}");
    }
    let by_name = ["--where", "n < 4", "--order", "service.name, n"];
    assert_eq!(keys(&quire, &by_name), ["3", "1", "2"]);
}

#[test]
fn documents_are_found_by_their_fields_in_the_requested_order() {
    let quire = cars();
    let order = ["--order", "price desc"];
    for (filter, found) in [
        ("mark = 'audi' AND price > 1", &["a", "c"][..]),
        ("mark <> 'audi'", &["b", "d"]),
        ("price BETWEEN 1.5 AND 500", &["b", "c"]),
        ("tags IN ('red', 'blue')", &["a", "b"]),
        ("at.city LIKE 'U%' OR sold = TRUE", &["a", "c", "d"]),
        ("mark ILIKE 'AUD%' OR at.city ILIKE 'ULM'", &["a", "c", "d"]),
        ("mark LIKE 'AUD%'", &[]),
        ("\"odd name\" = NULL", &["d"]),
        ("price IS NULL OR NOT at.city IS NOT NULL", &["b", "d"]),
        ("at IS NOT NULL", &["a", "c", "d"]),
        ("at IS NULL", &["b"]),
        ("nowhere = 1", &[]),
    ] {
        let arguments = [&["--where", filter], &order[..]].concat();
        assert_eq!(keys(&quire, &arguments), found, "{filter}");
    }
    assert_eq!(
        keys(&quire, &["--order", "price", "--skip", "1", "--limit", "2"]),
        ["b", "a"]
    );
    let whole = answer(&quire, &["--where", "price = 1.5"]);
    assert_eq!(whole.trim_end(), CARS.lines().nth(2).unwrap());
    let fields = [
        "--where",
        "_id = 'a'",
        "--fields",
        "price, at.city",
        "--json",
    ];
    let found: Value = serde_json::from_str(&answer(&quire, &fields)).unwrap();
    assert_eq!(
        found["document"],
        json!({"price": 9000, "at": {"city": "Ulm"}})
    );
    assert_eq!(
        (&found["key"], &found["found"]),
        (&json!("a"), &json!(true))
    );
}

#[test]
fn what_is_said_about_all_that_match_needs_no_documents() {
    let quire = cars();
    let options = [
        "--count",
        "--facet",
        "mark",
        "--facet",
        "at.city",
        "--aggregate",
        "max(price)",
        "--aggregate",
        "avg(price) WHERE mark = 'audi'",
        "--aggregate",
        "histogram(price, 500)",
    ];
    let text = answer(&quire, &options);
    let right = "4 match\nmark\n  audi         2\n  fiat         1\n  opel         1\n\
                 at.city\n  Ulm          2\n  Bonn         1\nmax(price): 9000\n\
                 avg(price) WHERE mark = 'audi': 4500.75\nhistogram(price, 500)\n  \
                 0            1\n  500          1\n  9000         1\n";
    assert_eq!(text, right);
    let all = answer(&quire, &[&options[..], &["--json"]].concat());
    let all: Value = serde_json::from_str(&all).unwrap();
    assert_eq!(all["count"], 4);
    assert_eq!(
        all["aggregates"]["mark"],
        json!({
            "values": [
                {"value": "audi", "count": 2},
                {"value": "fiat", "count": 1},
                {"value": "opel", "count": 1},
            ],
            "others": 0,
        })
    );
    assert_eq!(all["aggregates"]["max(price)"], 9000);
    // Documents come first, if there is a limit.
    let both = answer(&quire, &["--count", "--limit", "1", "--json"]);
    assert_eq!(both.lines().count(), 2);
    assert_eq!(both.lines().last(), Some(r#"{"count":4}"#));
    assert_eq!(answer(&quire, &["--all", "--skip", "1"]).lines().count(), 3);

    let explain = ["query", "db", "c", "--where", "price > 1", "--explain"];
    let explained = quire.ok(&explain);
    assert!(explained.contains("\n4 documents"), "{explained}");
    let explained = quire.ok(&[&explain[..], &["--json"]].concat());
    let last: Value = serde_json::from_str(explained.lines().last().unwrap()).unwrap();
    assert_eq!(last["explain"]["filter"]["found"], 3);
}

#[test]
fn a_wrong_query_is_refused_with_the_place_of_the_mistake() {
    let quire = cars();
    let wrong = |arguments: &[&str], code, words: &[&str]| {
        quire.fails(&[&["query", "db", "c"], arguments].concat(), code, words);
    };
    wrong(
        &["--where", "price >"],
        2,
        &["--where: line 1, column 8: expected a number"],
    );
    wrong(
        &["--where", "mark LIKE 7"],
        2,
        &["line 1, column 11", "expected"],
    );
    wrong(&["--order", "price up"], 2, &["--order: line 1, column 7"]);
    wrong(
        &["--aggregate", "median(price)"],
        2,
        &["--aggregate: line 1, column 1", "histogram"],
    );
    wrong(&["--fields", "a..b"], 2, &["a..b"]);
    wrong(&["--where", "a BETWEEN 1 AND 'x'"], 2, &["different types"]);
    wrong(&["--limit", "1", "--all"], 2, &["--all"]);
    wrong(&["--where", "prise > 1", "--strict"], 1, &["prise"]);
    quire.fails(
        &["query", "c.quire", "--where", "prise > 1", "--strict"],
        1,
        &["prise"],
    );
    let unknown = quire.run(&["query", "c.quire", "--where", "prise > 1", "--count"]);
    assert_eq!(unknown.stdout, "0 match\n");
    assert!(unknown.stderr.contains("\"prise\""), "{unknown:?}");
    quire.fails(&["query", "db"], 2, &["quire collections"]);
    quire.fails(&["query", "c.quire", "c"], 2, &["without the name"]);
    quire.fails(&["query", "cars.ndjson"], 1, &["not a frozen partition"]);
    quire.fails(&["query", "db", "nope"], 1, &["no collection `nope`"]);
    quire.fails(&["query", "nope", "c"], 1, &["no database"]);
}

#[test]
fn fields_are_frozen_for_what_is_said_and_the_file_says_what_it_is_made_of() {
    let quire = cars();
    let named = [
        "some.quire",
        "--full",
        "price",
        "--filter",
        "mark, _id",
        "--sort",
        "_id",
        "--codec",
        "zstd",
    ];
    let report = quire.json(&[&["freeze", "db", "c"][..], &named].concat());
    assert_eq!(report["documents"], 4);
    assert_eq!(
        report["fields"],
        json!([
            {"path": "_id", "filter": true, "sort": true},
            {"path": "mark", "filter": true, "sort": false},
            {"path": "price", "filter": true, "sort": true},
        ])
    );
    quire.fails(
        &["query", "some.quire", "--order", "mark"],
        1,
        &["\"mark\"", "sortable"],
    );
    assert_eq!(
        quire.ok(&["query", "some.quire", "--where", "mark = 'opel'", "--count"]),
        "1 match\n"
    );

    let inspected = quire.json(&["inspect", "some.quire", "--verify"]);
    assert_eq!(inspected["documents"], 4);
    let mark = &inspected["fields"][1];
    assert_eq!(
        (&mark["path"], &mark["distinct"]),
        (&json!("mark"), &json!(3))
    );
    // Few documents are also tested by their codes.
    let has = |section: &str| mark["section_bytes"].get(section).is_some();
    assert_eq!(
        (has("counts"), has("codes"), has("docids")),
        (true, true, true)
    );
    let table = quire.ok(&["inspect", "frozen"]);
    assert!(table.contains("frozen/partition-00001.quire: "), "{table}");
    assert_eq!(table.matches("at.city").count(), 2, "{table}");

    quire.fails(&["freeze", "db", "c", "some"], 2, &["--by-partition"]);
    quire.fails(
        &["freeze", "db", "c", "frozen", "--by-partition"],
        1,
        &["there already"],
    );
    quire.fails(
        &["freeze", "db", "c", "a.quire", "--full", "a..b"],
        1,
        &["a..b"],
    );
    quire.fails(
        &["freeze", "db", "c", "a.quire", "--memory", "1MiB"],
        1,
        &["memory"],
    );
    quire.fails(&["inspect", "cars.ndjson"], 1, &["not a frozen partition"]);
    quire.file("empty.quire", "");
    quire.fails(&["inspect", "empty.quire"], 1, &["it is empty"]);
}

#[test]
fn a_key_is_found_whatever_fields_are_frozen_and_however_it_is_written() {
    let quire = Quire::new();
    let file = quire.file(
        "things.ndjson",
        "{\"sku\":7,\"class\":\"a\"}\n{\"sku\":\"x\"}\n",
    );
    quire.ok(&["load", "db", "c", "--key", "sku", file.to_str().unwrap()]);
    quire.ok(&["freeze", "db", "c", "all.quire"]);
    quire.ok(&["freeze", "db", "c", "some.quire", "--filter", "class"]);
    quire.ok(&["freeze", "db", "c", "sorted.quire", "--sort", "_id"]);
    for source in [
        &["db", "c"][..],
        &["all.quire"],
        &["some.quire"],
        &["sorted.quire"],
    ] {
        for (filter, found) in [
            ("_id = 7", "1 match\n"),
            ("_id = '7'", "1 match\n"),
            ("_id IN (7, 'x', '8')", "2 match\n"),
            ("_id = 'x'", "1 match\n"),
            ("_id = '07'", "0 match\n"),
        ] {
            let arguments = [&["query"], source, &["--count", "--where", filter]].concat();
            assert_eq!(quire.ok(&arguments), found, "{source:?}: {filter}");
        }
    }
}

#[test]
fn a_field_without_values_is_said_to_be_one_and_why() {
    let quire = cars();
    let frozen = quire.run(&["freeze", "db", "c", "a.quire", "--filter", "nosuch,mark"]);
    assert!(frozen.stderr.contains("\"nosuch\""), "{frozen:?}");
    assert!(!frozen.stderr.contains("mark"), "{frozen:?}");
    let report = quire.json(&["freeze", "db", "c", "a.quire", "--filter", "nosuch"]);
    assert_eq!(report["unused"], json!(["nosuch"]));
    let why = |file: &str, path: &str, words: &[&str]| {
        let filter = format!("{path} = 1");
        quire.fails(&["query", file, "--where", &filter, "--strict"], 1, words);
        let told = quire.run(&["query", file, "--where", &filter]);
        assert!(
            words.iter().all(|word| told.stderr.contains(word)),
            "{told:?}"
        );
    };
    why("a.quire", "price", &["the field \"price\" was not frozen"]);
    let absent = "no document has the field \"prise\"; did you mean \"price\"?";
    why("c.quire", "prise", &[absent]);
    why("frozen", "prise", &[absent]);
    quire.ok(&[
        "freeze",
        "db",
        "c",
        "bare.quire",
        "--filter",
        "mark",
        "--no-documents",
    ]);
    let either = "the field \"marc\", or it was not frozen; did you mean \"mark\"?";
    why("bare.quire", "marc", &[either]);
    why("a.quire", "nosuch", &["no document has a value", "nosuch"]);
    why("c.quire", "at", &["\"at\" is an object", "\"at.city\""]);
    why("frozen", "at", &["\"at\" is an object", "\"at.city\""]);
    quire.fails(
        &["query", "db", "c", "--where", "at = 1", "--strict"],
        1,
        &["\"at\" is an object; name a field in it, as \"at.city\""],
    );
    let live = |arguments: &[&str]| quire.run(&[&["query", "db", "c"], arguments].concat());
    for arguments in [
        &["--where", "prise = 1 AND mark = 'audi'"][..],
        &["--order", "prise"],
        &["--fields", "mark, prise"],
        &["--facet", "prise"],
    ] {
        let told = live(arguments);
        assert_eq!(told.code, 0, "{told:?}");
        let said = "no document has the field \"prise\"; did you mean \"price\"?";
        assert_eq!(told.stderr.trim_end(), format!("quire: {said}"), "{told:?}");
    }
    let all = live(&[
        "--where",
        "mark = 'audi'",
        "--fields",
        "at, _id",
        "--order",
        "price",
    ]);
    assert_eq!(all.stderr, "", "{all:?}");
    let words = ["did you mean \"price\"?"];
    quire.fails(
        &["query", "db", "c", "--where", "prise = 1", "--strict"],
        1,
        &words,
    );
}

#[test]
fn fields_have_the_same_names_in_every_option() {
    let quire = cars();
    let text = answer(&quire, &["--facet", "\"mark\"", "--facet", "\"odd name\""]);
    assert!(text.starts_with("mark\n  audi"), "{text}");
    assert!(text.ends_with("\nodd name\n"), "{text}");
    assert_eq!(
        answer(&quire, &["--facet", "odd name"]),
        answer(&quire, &["--facet", "\"odd name\""])
    );
    let shown = answer(
        &quire,
        &["--fields", "_id, \"odd name\"", "--where", "_id = 'd'"],
    );
    assert_eq!(shown, "{\"_id\":\"d\",\"odd name\":null}\n");
    let frozen = [
        "freeze",
        "db",
        "c",
        "odd.quire",
        "--full",
        "\"odd name\", mark",
    ];
    let report = quire.json(&frozen);
    assert_eq!(report["fields"][1]["path"], "odd name");
    quire.fails(&["query", "db", "c", "--facet", "\"mark"], 2, &["mark"]);
}

#[test]
fn a_mean_near_the_largest_float_is_a_number() {
    let quire = Quire::new();
    let file = quire.file(
        "big.ndjson",
        "{\"_id\":1,\"x\":1.7e308}\n{\"_id\":2,\"x\":1.7e308}\n",
    );
    quire.ok(&["load", "db", "c", file.to_str().unwrap()]);
    let answer = quire.json(&["query", "db", "c", "--aggregate", "avg(x)"]);
    assert_eq!(answer["aggregates"]["avg(x)"], json!(1.7e308));
}

/// What `quire fields` says whether or not there is an index.
pub(crate) fn beside_index(mut found: Value) -> Value {
    found["from_index"].take();
    for field in found["fields"].as_array_mut().unwrap() {
        field["index_bytes"].take();
        field["examples"].take();
    }
    found
}

#[test]
fn fields_are_listed_from_the_index_and_from_the_documents_alike() {
    let quire = cars();
    // This waits until the index is built.
    quire.ok(&["alter", "db", "c", "--index", "all"]);
    // And this brings it to disk: what is only in memory follows the log again when opened.
    quire.ok(&["compact", "db", "c"]);
    let fields = || quire.json(&["fields", "db", "c"]);
    let indexed = fields();
    assert_eq!(indexed["from_index"], true);
    let path = |of: &Value| of["path"].as_str().unwrap().to_string();
    let paths: Vec<String> = indexed["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(path)
        .collect();
    assert_eq!(
        paths,
        [
            "_id", "at.city", "mark", "odd name", "price", "sold", "tags"
        ]
    );
    let price = &indexed["fields"][4];
    assert_eq!(price["types"], json!(["integer", "float"]));
    assert_eq!(
        (&price["documents"], &price["values"], &price["estimated"]),
        (&json!(3), &json!(3), &json!(false))
    );
    assert!(price["index_bytes"].as_u64().unwrap() > 0);
    assert_eq!(indexed["fields"][6]["several"], true);
    let table = quire.ok(&["fields", "db", "c"]);
    let line = table
        .lines()
        .find(|line| line.starts_with("price"))
        .unwrap();
    assert!(line.contains("integer, float"), "{table}");
    assert!(quire.ok(&["stats", "db"]).contains("index of c: complete"));

    let altered = quire.ok(&["alter", "db", "c", "--index", "none"]);
    assert!(altered.contains("no field indexed"), "{altered}");
    let read = fields();
    assert_eq!(read["from_index"], false);
    assert_eq!(beside_index(read), beside_index(indexed));
    assert!(!quire.ok(&["stats", "db"]).contains("index of"));
}

#[test]
fn an_index_is_built_when_alter_returns() {
    let quire = cars();
    let index = || quire.json(&["stats", "db"])["collections"][0]["index"].take();
    quire.ok(&["alter", "db", "c", "--index", "none"]);
    assert_eq!(index(), Value::Null);
    quire.ok(&["alter", "db", "c", "--index", "mark=none"]);
    assert_eq!(
        (&index()["complete"], &index()["lag_records"]),
        (&json!(true), &json!(0))
    );
    quire.ok(&["alter", "db", "c", "--index", "none"]);
    let altered = quire.ok(&["alter", "db", "c", "--index", "all", "--no-wait"]);
    assert!(altered.contains("all fields indexed"), "{altered}");
    assert!(index().is_object());
}

#[test]
fn a_query_ends_after_its_time() {
    let quire = cars();
    let query = ["query", "db", "c", "--where", "price > 1", "--timeout", "0"];
    quire.fails(&query, 1, &["stopped"]);
    let partial = quire.run(&[&query[..], &["--partial"]].concat());
    assert_eq!(partial.code, 0, "{partial:?}");
    assert!(partial.stderr.contains("the time was over"), "{partial:?}");
}

#[test]
fn documents_are_left_out_if_that_is_wanted_and_their_keys_are_given() {
    let quire = cars();
    quire.ok(&["freeze", "db", "c", "bare.quire", "--no-documents"]);
    let count = ["query", "bare.quire", "--where", "mark = 'audi'", "--count"];
    assert_eq!(quire.ok(&count), "2 match\n");
    let found = quire.ok(&["query", "bare.quire", "--where", "price = 500"]);
    assert_eq!(found, "{\"_id\":\"b\"}\n");
    let inspected = quire.json(&["inspect", "bare.quire"]);
    let whole = quire.json(&["inspect", "c.quire"]);
    assert!(
        inspected["bytes"].as_u64() < whole["bytes"].as_u64(),
        "{inspected}"
    );
}

#[test]
fn documents_are_printed_as_a_table_as_csv_and_as_json() {
    let quire = cars();
    let all = ["--order", "_id", "--format"];
    let csv = answer(&quire, &[&all[..], &["csv"]].concat());
    let right = "_id,mark,price,tags,at.city,sold,odd name\n\
                 a,audi,9000,\"[\"\"new\"\",\"\"red\"\"]\",Ulm,,\n\
                 b,fiat,500,\"[\"\"red\"\"]\",,,\n\
                 c,audi,1.50,,Bonn,true,\n\
                 d,opel,,,Ulm,,\n";
    assert_eq!(csv, right);
    let json = answer(&quire, &[&all[..], &["json"]].concat());
    let json: Vec<Value> = serde_json::from_str(&json).unwrap();
    let lines = CARS.lines().map(|line| serde_json::from_str(line).unwrap());
    assert_eq!(json, lines.collect::<Vec<Value>>());
    assert_eq!(
        answer(&quire, &["--where", "mark = 'no'", "--format", "json"]),
        "[]\n"
    );
    assert_eq!(answer(&quire, &[&all[..], &["ndjson"]].concat()), CARS);
    let fields = ["table", "--fields", "price,_id"];
    let table = answer(&quire, &[&all[..], &fields].concat());
    assert_eq!(
        table,
        "price  _id\n 9000  a\n  500  b\n 1.50  c\n       d\n"
    );
    // A scan too; and what CSV carries is what `load` reads.
    let scanned = quire.ok(&["scan", "db", "c", "--format", "csv"]);
    assert_eq!(scanned, right);
    quire.fails(
        &["query", "db", "c", "--format", "csv", "--json"],
        2,
        &["two formats"],
    );
    quire.fails(
        &["query", "db", "c", "--format", "csv", "--count"],
        2,
        &["--count"],
    );
}

#[test]
fn rows_have_the_columns_of_the_documents_whatever_the_names_of_their_fields() {
    let quire = Quire::new();
    quire.ok(&["create", "db", "c"]);
    let csv = |document: &str| {
        quire.ok(&["put", "db", "c", "k", document]);
        quire.ok(&["query", "db", "c", "--format", "csv"])
    };
    assert_eq!(csv(r#"{"_version":7,"a":1}"#), "_key,_version,a\nk,7,1\n");
    assert_eq!(
        csv(r#"{"_key":"z","_id":"k","a":1}"#),
        "_key,_id,a\nz,k,1\n"
    );
    // The key has a column of its own: `load` reads it as the key.
    let own = csv(r#"{"_key":"z","a":1}"#);
    assert_eq!(own, "_id,_key,a\nk,z,1\n");
    assert_eq!(
        quire
            .pipe(&["load", "db", "d", "--format", "csv"], &own)
            .code,
        0
    );
    assert_eq!(
        quire.ok(&["get", "db", "d", "k"]),
        "{\"_id\":\"k\",\"_key\":\"z\",\"a\":1}\n"
    );
    assert_eq!(csv("{}"), "_key\nk\n");
    assert_eq!(
        quire.ok(&["scan", "db", "c", "--format", "table"]),
        "_key\nk\n"
    );
}

#[test]
fn a_sample_is_some_of_what_matches_and_a_seed_decides_it() {
    let quire = Quire::new();
    let lines =
        (0..500).map(|number| format!("{{\"_id\":{number},\"even\":{}}}\n", number % 2 == 0));
    let file = quire.file("numbers.ndjson", lines.collect::<String>());
    quire.ok(&["create", "db", "n", "--partitions", "3"]);
    quire.ok(&["load", "db", "n", file.to_str().unwrap()]);
    let sample = |arguments: &[&str]| {
        let common = ["query", "db", "n", "--where", "even = TRUE", "--sample"];
        let found = quire.ok(&[&common[..], arguments].concat());
        let mut keys: Vec<u64> = found
            .lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["_id"]
                    .as_u64()
                    .unwrap()
            })
            .collect();
        keys.sort_unstable();
        keys
    };
    let one = sample(&["20"]);
    assert_eq!(one.len(), 20);
    assert!(one.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(one.iter().all(|key| key % 2 == 0));
    assert_eq!(sample(&["20"]), one, "the same seed");
    assert_ne!(sample(&["20", "--seed", "1"]), one, "another seed");
    assert_eq!(sample(&["1000"]).len(), 250);
    quire.fails(
        &["query", "db", "n", "--sample", "3", "--order", "_id"],
        2,
        &["--order"],
    );
}

#[test]
fn strings_that_hold_numbers_are_compared_by_number() {
    let quire = Quire::new();
    let prices = [
        r#""9""#,
        r#""10.5""#,
        "10.5",
        r#""1e3""#,
        r#""nan""#,
        r#""""#,
        "null",
        "11",
        r#"["x","30"]"#,
        r#""9007199254740993""#,
    ];
    let lines = prices.iter().zip('a'..);
    let lines = lines.map(|(price, key)| format!("{{\"_id\":\"{key}\",\"price\":{price}}}\n"));
    let file = quire.file("c.ndjson", lines.collect::<String>());
    quire.ok(&["load", "db", "c", file.to_str().unwrap()]);
    quire.ok(&["freeze", "db", "c", "c.quire"]);
    quire.ok(&["freeze", "db", "c", "frozen", "--by-partition"]);
    for (filter, found) in [
        ("number(price) < 11", &["a", "b", "c"][..]),
        ("price < 11", &["c"]),
        ("NUMBER(price) = 10.5", &["b", "c"]),
        ("number(price) IN (9, 1000)", &["a", "d"]),
        ("number(price) BETWEEN 11 AND 30", &["h", "i"]),
        ("RANGE(number(price), '>', 9, '<', 11)", &["b", "c"]),
        ("number(price) IS NULL", &["e", "f", "g"]),
        ("number(price) > 9007199254740992", &["j"]),
        ("NOT number(price) >= 0", &["e", "f", "g"]),
    ] {
        assert_eq!(
            keys(&quire, &["--where", filter, "--order", "_id"]),
            found,
            "{filter}"
        );
    }
    let refused = |filter: &str, word: &str| {
        quire.fails(&["query", "db", "c", "--where", filter], 2, &[word]);
    };
    refused("number(price) = 'x'", "compared by number");
    refused("number(price) LIKE '1%'", "BETWEEN");
}

#[test]
fn the_memory_of_a_query_is_an_option() {
    let quire = cars();
    let order = ["query", "db", "c", "--order", "price", "--all", "--memory"];
    quire.fails(&[&order[..], &["16"]].concat(), 1, &["--memory"]);
    quire.ok(&[&order[..], &["1MiB"]].concat());
}

#[test]
fn rows_of_a_table_are_put_together_from_their_columns() {
    let quire = Quire::new();
    let row = |id: u32| {
        let price = f64::from(id % 90) / 8.0 + 0.0625;
        format!(
            "{{\"_id\":{id},\"mark\":\"m{}\",\"sold\":null,\"price\":{price}}}",
            id % 7
        )
    };
    let rows: String = (0..4200).map(|id| row(id) + "\n").collect();
    let file = quire.file("rows.ndjson", &rows);
    quire.ok(&["load", "db", "c", file.to_str().unwrap()]);
    quire.ok(&["freeze", "db", "c", "rows.quire"]);
    let options = ["--where", "mark = 'm3'", "--order", "_id", "--all"];
    let documents = |source: &[&str]| quire.ok(&[&["query"], source, &options].concat());
    let found = documents(&["rows.quire"]);
    assert_eq!(found, documents(&["db", "c"]));
    assert_eq!(found.lines().count(), 600);
    let rows = (3..4200).step_by(7).map(row);
    let same = |(line, row): (&str, String)| line == row;
    assert!(found.lines().zip(rows).all(same), "{found}");
    let all = quire.json(&["inspect", "rows.quire"]);
    assert_eq!(all["documents_in_columns"], json!(4200 - 4096));
    let said = quire.ok(&["inspect", "rows.quire"]);
    assert!(
        said.contains("104 documents put together from the columns"),
        "{said}"
    );
}

#[test]
fn a_printed_field_that_no_document_has_is_refused_if_that_is_wanted() {
    let quire = cars();
    let query = ["query", "db", "c", "--all", "--fields", "marc"];
    let printed = quire.run(&query);
    assert_eq!(printed.code, 0);
    assert!(printed.stderr.contains("\"mark\""), "{printed:?}");
    let strict = [&query[..], &["--strict"]].concat();
    quire.fails(&strict, 1, &["\"marc\"", "\"mark\""]);
    // Of what is frozen too. There documents may have fields that were not frozen.
    quire.ok(&["freeze", "db", "c", "mark.quire", "--filter", "mark"]);
    for frozen in ["c.quire", "frozen", "mark.quire"] {
        let query = |fields| ["query", frozen, "--limit", "1", "--fields", fields];
        let said = "no document has the field \"marc\"; did you mean \"mark\"?";
        let told = quire.run(&query("marc,at,sold"));
        assert_eq!(
            (told.code, told.stderr.trim()),
            (0, &*format!("quire: {said}"))
        );
        quire.fails(&[&query("marc")[..], &["--strict"]].concat(), 1, &[said]);
    }
}

#[test]
fn long_text_that_nobody_names_is_left_out_of_the_indexes_and_said_to_be() {
    let quire = Quire::new();
    let long = "of words ".repeat(20);
    let documents: String = (0..200)
        .map(|n| {
            let (mark, title) = (n % 7, format!("title {n}"));
            let texts = format!(r#""abstract":"{n} {long}","same":"{mark} {long}""#);
            format!("{{\"_id\":{n},\"title\":\"{title}\",{texts},\"more\":[\"{n} {long}\",1]}}\n")
        })
        .collect();
    let file = quire.file("papers.ndjson", &documents);
    quire.ok(&["load", "db", "papers", file.to_str().unwrap()]);

    let frozen = quire.run(&["freeze", "db", "papers", "a.quire"]);
    assert_eq!(frozen.code, 0, "{frozen:?}");
    assert!(frozen.stderr.contains("\"abstract\""), "{frozen:?}");
    assert!(frozen.stderr.contains("--long-text"), "{frozen:?}");
    let report = quire.json(&["freeze", "db", "papers", "a.quire"]);
    assert_eq!(report["long_texts"], json!(["abstract"]), "{report}");
    let all = quire.json(&["freeze", "db", "papers", "b.quire", "--long-text"]);
    assert_eq!(all["long_texts"], json!([]));
    let bytes = |report: &Value| report["bytes"].as_u64().unwrap();
    assert!(bytes(&report) < bytes(&all), "{report} {all}");
    for (file, condition, found) in [
        ("a.quire", "same LIKE '3 %'", "29 match\n"),
        ("a.quire", "title = 'title 3'", "1 match\n"),
        ("b.quire", "abstract LIKE '3 %'", "1 match\n"),
    ] {
        let arguments = ["query", file, "--count", "--where", condition];
        assert_eq!(quire.ok(&arguments), found, "{file}: {condition}");
    }
    let condition = "abstract = 'x'";
    let words = ["the field \"abstract\" was not frozen"];
    quire.fails(
        &["query", "a.quire", "--where", condition, "--strict"],
        1,
        &words,
    );
    // Documents are whole.
    let read = quire.ok(&["query", "a.quire", "--where", "_id = 3"]);
    assert!(read.contains(&format!("3 {long}")), "{read}");
    // A field that is named is indexed.
    quire.ok(&["freeze", "db", "papers", "c.quire", "--filter", "abstract"]);
    let arguments = [
        "query",
        "c.quire",
        "--count",
        "--where",
        "abstract LIKE '3 %'",
    ];
    assert_eq!(quire.ok(&arguments), "1 match\n");
}
