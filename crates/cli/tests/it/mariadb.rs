//! `quire pipe` from a table of a real MariaDB, which the tests start; they are skipped, saying so,
//! where there is none.

use super::Quire;
use super::kills::kill_again_and_again;
use super::mariadb_server::MariaDb;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The documents that a folder of changes ends with.
pub(crate) fn documents(folder: &Path) -> BTreeMap<String, Value> {
    let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().collect();
    names.sort_by_key(|name| name.file_name());
    let mut documents = BTreeMap::new();
    for name in names {
        for line in std::fs::read_to_string(name.path()).unwrap().lines() {
            // A line that a kill cut is the last one, and is sent again.
            let Ok(mut change) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            let key = change["key"].as_str().unwrap().to_owned();
            match change["document"].take() {
                Value::Null => documents.remove(&key),
                document => documents.insert(key, document),
            };
        }
    }
    documents
}

/// The file of a pipe from `app.t` into the folder of its name.
fn pipe(quire: &Quire, server: &MariaDb, name: &str, more: &str) -> String {
    let file = format!("{name}.toml");
    quire.file("password", "secret\n");
    quire.file(
        &file,
        format!(
            "[source]\ntype = \"mysql\"\nurl = \"mysql://127.0.0.1:{}\"\ntable = \"app.t\"\n\
             user = \"repl\"\npassword_file = \"password\"\n{more}\n\
             [[sink]]\nname = \"{name}\"\nkind = \"ndjson\"\ndirectory = \"{name}\"\n",
            server.port
        ),
    );
    file
}

/// What is there now, by a new pipe that reads all rows.
fn snapshot(quire: &Quire, server: &MariaDb, name: &str) -> BTreeMap<String, Value> {
    let file = pipe(quire, server, name, "");
    quire.ok(&["pipe", "run", &file, "--once"]);
    documents(&quire.path(name))
}

const TYPES: &str = r"CREATE TABLE t (
    id BIGINT UNSIGNED NOT NULL, sub VARCHAR(20) NOT NULL, u INT UNSIGNED, m MEDIUMINT, y YEAR,
    un BIGINT UNSIGNED, d DECIMAL(30,10), d0 DECIMAL(5,0), f FLOAT, db DOUBLE, bo BOOLEAN,
    bi BIT(9),
    e ENUM('small','gr,oß','x'), s SET('p','q','r'), da DATE, dt DATETIME(6), dz DATETIME,
    ts TIMESTAMP(3) NULL, ti TIME(3), c CHAR(5), l1 VARCHAR(20) CHARACTER SET latin1,
    tx MEDIUMTEXT, j JSON, bl BLOB, bn BINARY(4), vb VARBINARY(9), g INT AS (m + 1) STORED,
    PRIMARY KEY (sub, id))";

const ROWS: &str = r#"INSERT INTO t (id, sub, u, m, y, un, d, d0, f, db, bo, bi, e, s, da, dt, dz,
    ts, ti, c, l1, tx, j, bl, bn, vb) VALUES
    (18446744073709551615, 'a:b', 4294967295, -8388608, 2026, 18446744073709551615,
     -12345678901234567890.0123456789, 42, 0.1, 1e300, 1, b'101010101',
     'gr,oß', 'p,r', '2026-11-23',
     '2026-11-23 04:05:06.000007', '1000-01-01 00:00:00', '2026-11-23 04:05:06.5', '-100:01:02.5',
     'x  ', 'naïve €', 'é😀"\\\n', '{"a": [1.50, "\\n", {"b":null}],
      "z":1}', x'00ff', x'6100', x'00'),
    (0, '', 0, 0, 0, 0, 0.5, 0, -0.0, -2.5, 0, b'0', 'small', '', '0000-00-00', NULL, NULL,
     NULL, NULL, '', '', '', '[]', '', '', ''),
    (1, 'é', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
     NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"#;

#[test]
fn rows_are_the_same_documents_in_the_snapshot_and_in_the_stream_and_after_alter_table() {
    let Some(server) = MariaDb::start() else {
        return;
    };
    let quire = Quire::new();
    server.sql("SET GLOBAL sql_mode = ''");
    server.sql(TYPES);
    let file = pipe(&quire, &server, "stream", "");
    let checked = quire.ok(&["pipe", "check", &file]);
    assert!(checked.contains("/app.t: ok"), "{checked}");
    quire.ok(&["pipe", "run", &file, "--once"]);
    server.sql(ROWS);
    quire.ok(&["pipe", "run", &file, "--once"]);
    let streamed = documents(&quire.path("stream"));
    assert_eq!(streamed, snapshot(&quire, &server, "first"));
    let row = &streamed["a\\:b:18446744073709551615"];
    for (column, expected) in [
        ("un", "18446744073709551615"),
        ("u", "4294967295"),
        ("m", "-8388608"),
        ("y", "2026"),
        ("f", "0.1"),
        ("bi", "341"),
        ("e", "\"gr,oß\""),
        ("s", "[\"p\",\"r\"]"),
        ("dt", "\"2026-11-23T04:05:06.000007\""),
        ("ts", "\"2026-11-23T04:05:06.5Z\""),
        ("ti", "\"-100:01:02.5\""),
        ("l1", "\"naïve €\""),
        ("j", "{\"a\":[1.5,\"\\n\",{\"b\":null}],\"z\":1}"),
        ("bl", "\"AP8=\""),
        ("bn", "\"YQAAAA==\""),
    ] {
        assert_eq!(row[column].to_string(), expected, "{column}");
    }
    assert_eq!(streamed[":0"]["da"], Value::Null, "a zero date is no date");
    let lines = std::fs::read_to_string(quire.path("stream/changes-00000001.ndjson")).unwrap();
    assert!(
        lines.contains("\"d\":-12345678901234567890.0123456789,"),
        "{lines}"
    );

    // Columns come, go, change their type and name; keys change; rows go.
    server.sql(
        "UPDATE t SET sub = 'moved' WHERE id = 1; ALTER TABLE t ADD COLUMN n INT DEFAULT 7 FIRST, \
         DROP COLUMN c; UPDATE t SET u = 5; ALTER TABLE t RENAME COLUMN u TO renamed, MODIFY m \
         BIGINT, ADD j2 JSON; UPDATE t SET m = 1 << 40, \
         j2 = '{\"a\":1}'; DELETE FROM t WHERE id = 0",
    );
    quire.ok(&["pipe", "run", &file, "--once"]);
    let streamed = documents(&quire.path("stream"));
    assert_eq!(streamed, snapshot(&quire, &server, "second"));
    assert_eq!(streamed.len(), 2);
    assert_eq!(streamed["moved:1"]["renamed"], 5);
    assert_eq!(streamed["moved:1"]["j2"]["a"], 1);

    // What removes rows without saying which stops the run.
    server.sql("TRUNCATE TABLE t");
    quire.fails(
        &["pipe", "run", &file, "--once"],
        1,
        &["truncated", "remove"],
    );
}

#[test]
fn a_server_that_can_not_be_followed_is_refused_and_a_lost_position_is_reported() {
    let Some(server) = MariaDb::start() else {
        return;
    };
    let quire = Quire::new();
    server.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1), (2, 2)");
    let file = pipe(&quire, &server, "sink", "");
    quire.ok(&["pipe", "run", &file, "--once"]);
    server.sql("SET GLOBAL binlog_row_metadata = MINIMAL");
    let words = ["SET GLOBAL binlog_row_metadata = FULL (it is MINIMAL)"];
    quire.fails(&["pipe", "run", &file, "--once"], 1, &words);
    server.sql("SET GLOBAL binlog_row_metadata = FULL");

    server.sql(
        "UPDATE t SET v = 5 WHERE id = 1; FLUSH BINARY LOGS; UPDATE t SET v = 6 WHERE id = 2; \
         FLUSH BINARY LOGS",
    );
    // Logs stay as long as the server believes that a reader which has gone still reads them.
    while server
        .sql("PURGE BINARY LOGS TO 'binlog.000003'; SHOW BINARY LOGS")
        .contains("binlog.000001")
    {
        std::thread::sleep(Duration::from_millis(100));
    }
    let words = ["no longer has the changes", "on_lost_position"];
    quire.fails(&["pipe", "run", &file, "--once"], 1, &words);
    let file = pipe(&quire, &server, "sink", "on_lost_position = \"snapshot\"");
    quire.ok(&["pipe", "run", &file, "--once"]);
    let documents = documents(&quire.path("sink"));
    assert_eq!(documents["1"]["v"], 5);
    assert_eq!(documents["2"]["v"], 6);

    for (table, word) in [
        ("CREATE TABLE t (id INT)", "no primary key"),
        ("CREATE TABLE t (id INT PRIMARY KEY, ti TIME(2))", "TIME(2)"),
        (
            "CREATE TABLE t (id INT PRIMARY KEY, p POINT)",
            "type point is not read",
        ),
        (
            "CREATE TABLE p (id INT PRIMARY KEY); CREATE TABLE t (id INT PRIMARY KEY, FOREIGN KEY \
             (id) REFERENCES p (id) ON DELETE CASCADE)",
            "RESTRICT",
        ),
    ] {
        server.sql(&format!("DROP TABLE t; {table}"));
        let done = quire.run(&["pipe", "check", &file]);
        assert!(done.code != 0 && done.stdout.contains(word), "{done:?}");
    }
}

#[test]
fn another_server_with_the_same_id_is_followed_from_where_the_one_before_it_was() {
    let Some(server) = MariaDb::start() else {
        return;
    };
    let quire = Quire::new();
    // More than is kept of one chunk.
    server.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, x LONGTEXT); \
         INSERT INTO t SELECT seq, 1, REPEAT('x', 1000000) FROM seq_1_to_40",
    );
    let file = pipe(&quire, &server, "sink", "");
    quire.ok(&["pipe", "run", &file, "--once"]);
    assert_eq!(documents(&quire.path("sink")).len(), 40);
    // The one that takes the place has the transactions, and its binlog is shorter.
    let state = server.sql("SELECT @@gtid_binlog_state");
    server.sql(&format!(
        "RESET MASTER; SET GLOBAL gtid_binlog_state = '{}'; UPDATE t SET v = 3 WHERE id = 3",
        state.trim()
    ));
    quire.ok(&["pipe", "run", &file, "--once"]);
    assert_eq!(documents(&quire.path("sink"))["3"]["v"], 3);
}

#[test]
fn the_sink_equals_the_table_though_quire_and_the_server_are_killed_again_and_again() {
    let Some(mut server) = MariaDb::start() else {
        return;
    };
    let quire = Quire::new();
    server.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, s VARCHAR(2000)); \
         INSERT INTO t SELECT seq, 0, REPEAT('x', 600) FROM seq_1_to_12000",
    );
    let file = pipe(&quire, &server, "sink", "");
    let client = server.client();
    let write = |stop: &AtomicBool| client.change_rows(stop, Duration::from_millis(5));
    kill_again_and_again(&quire, &[&file], 24, write, |kill| {
        if kill % 8 == 5 {
            server.kill_and_run();
        }
    });
    quire.ok(&["pipe", "run", &file, "--once"]);
    let rows = server.sql("SELECT id, v, LENGTH(s) FROM t ORDER BY id");
    let documents = documents(&quire.path("sink"));
    let mut found: Vec<(u64, String)> = documents
        .values()
        .map(|row| {
            let id = row["id"].as_u64().unwrap();
            let length = row["s"].as_str().unwrap().len();
            (id, format!("{id}\t{}\t{length}", row["v"]))
        })
        .collect();
    found.sort_unstable();
    let found: Vec<&str> = found.iter().map(|(_, line)| line.as_str()).collect();
    let rows: Vec<&str> = rows.lines().collect();
    assert!(rows.len() > 1_000, "{}", rows.len());
    assert_eq!(found.len(), rows.len());
    assert_eq!(found, rows);
}
