//! `quire pipe` from a table of a real PostgreSQL, which the tests start; they are skipped, saying
//! so, where there is none.

use super::Quire;
use super::kills::{kill_again_and_again, run};
use super::mariadb::documents;
use super::postgres_server::Postgres;
use super::serve::Server;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The statement that the owner of the table runs.
const PUBLISH: &str = "CREATE PUBLICATION \"quire_public_t\" FOR TABLE ONLY \"public\".\"t\" WITH \
                       (publish_via_partition_root = true)";

/// The file of a pipe from `public.t` into the folder of its name.
fn pipe(quire: &Quire, server: &Postgres, name: &str, more: &str) -> String {
    let file = format!("{name}.toml");
    quire.file("password", "secret\n");
    quire.file(
        &file,
        format!(
            "[source]\ntype = \"postgres\"\nurl = \"postgres://localhost:{}/app\"\n\
             table = \"public.t\"\nuser = \"repl\"\npassword_file = \"password\"\n{more}\n\
             [[sink]]\nname = \"{name}\"\nkind = \"ndjson\"\ndirectory = \"{name}\"\n",
            server.port
        ),
    );
    file
}

/// What is there now, by a new pipe that reads all rows.
fn snapshot(quire: &Quire, server: &Postgres, name: &str) -> BTreeMap<String, Value> {
    let file = pipe(quire, server, name, "");
    quire.ok(&["pipe", "run", &file, "--once"]);
    documents(&quire.path(name))
}

const TYPES: &str = r"CREATE TYPE mood AS ENUM ('sad', 'gr,oß');
    CREATE TYPE pair AS (a INT, b TEXT);
    CREATE DOMAIN cents AS BIGINT CHECK (VALUE >= 0); CREATE DOMAIN many AS cents[];
    CREATE TABLE t (
    id BIGINT, sub TEXT, i2 SMALLINT, i4 INT, n NUMERIC, n0 NUMERIC(5,0), f REAL, db FLOAT8,
    bo BOOLEAN, e mood, da DATE, ts TIMESTAMP, tz TIMESTAMPTZ, ti TIME, iv INTERVAL, c CHAR(5),
    vc VARCHAR(20), tx TEXT, j JSON, jb JSONB, by BYTEA, u UUID, ai INT[], at TEXT[], ae mood[],
    co cents, ma many, r INT4RANGE, ip INET, bi BIT(3), p pair, mo MONEY, pt POINT, bx BOX[],
    computed INT GENERATED ALWAYS AS (i4 - 1) STORED, PRIMARY KEY (sub, id))";

const ROWS: &str = r#"INSERT INTO t VALUES
    (9223372036854775807, 'a:b', -32768, 2147483647, -12345678901234567890.0123456789, 42, 0.1,
     1e300, TRUE, 'gr,oß', '2026-11-23', '2026-11-23 04:05:06.000007',
     '2026-11-23 04:05:06.5+02', '23:59:59.5', '1 mon -2 days', 'x', 'naïve €', E'é😀"\\\n',
     '{"a": [1.50, "\\n", {"b":null}],
       "z":1}', '{"b": 1, "a": 1.50}', '\x00ff', '00000000-0000-0000-0000-00000000000A',
     '{{1,2},{3,NULL}}', '{a,"b,\"c",NULL,"NULL",""}', '{sad,"gr,oß"}', 7, '{1,2}', '[1,5)',
     '10.0.0.1/8', B'101', ROW(1, 'x,y'), 12.5, '(1,2)', '{(1,2),(3,4);(5,6),(7,8)}'),
    (0, '', 0, 0, 'NaN', 0, 'NaN', '-Infinity', FALSE, 'sad', 'infinity', '-infinity', 'infinity',
     '00:00', '0', '', '', '', '[]', '{}', '', NULL, '{}', '{}', '{}', 0, '{}', 'empty', NULL,
     B'000', NULL, 0, NULL, NULL),
    (1, 'é', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
     NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
     NULL, NULL)"#;

/// A value that no page has room for, and that does not shrink.
const LARGE: &str = "(SELECT string_agg(md5(g::text), '') FROM generate_series(1, 2000) g)";

#[test]
fn rows_are_the_same_documents_in_the_snapshot_and_in_the_stream_and_after_alter_table() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let quire = Quire::new();
    server.sql(TYPES);
    let file = pipe(&quire, &server, "stream", "");
    let checked = quire.run(&["pipe", "check", &file]);
    assert!(checked.stdout.contains(PUBLISH), "{checked:?}");
    server.sql(PUBLISH);
    let checked = quire.ok(&["pipe", "check", &file]);
    assert!(checked.contains("/public.t: ok"), "{checked}");
    let slots = "SELECT count(*) FROM pg_replication_slots";
    assert_eq!(server.sql(slots), "0\n", "a check leaves nothing");
    quire.ok(&["pipe", "run", &file, "--once"]);
    server.sql(ROWS);
    quire.ok(&["pipe", "run", &file, "--once"]);
    assert_eq!(server.sql(slots), "1\n");
    let streamed = documents(&quire.path("stream"));
    assert_eq!(streamed, snapshot(&quire, &server, "first"));
    let row = &streamed["a\\:b:9223372036854775807"];
    for (column, expected) in [
        ("id", "9223372036854775807"),
        ("i2", "-32768"),
        ("f", "0.1"),
        ("bo", "true"),
        ("e", "\"gr,oß\""),
        ("da", "\"2026-11-23\""),
        ("ts", "\"2026-11-23T04:05:06.000007\""),
        ("tz", "\"2026-11-23T02:05:06.5Z\""),
        ("ti", "\"23:59:59.5\""),
        ("c", "\"x    \""),
        ("vc", "\"naïve €\""),
        ("j", r#"{"a":[1.5,"\\n",{"b":null}],"z":1}"#),
        ("jb", "{\"a\":1.5,\"b\":1}"),
        ("by", "\"AP8=\""),
        ("u", "\"00000000-0000-0000-0000-00000000000a\""),
        ("ai", "[[1,2],[3,null]]"),
        ("at", "[\"a\",\"b,\\\"c\",null,\"NULL\",\"\"]"),
        ("ae", "[\"sad\",\"gr,oß\"]"),
        ("co", "7"),
        ("ma", "[1,2]"),
        ("r", "\"[1,5)\""),
        ("ip", "\"10.0.0.1/8\""),
        ("bi", "\"101\""),
        ("p", "\"(1,\\\"x,y\\\")\""),
        ("bx", "[\"(3,4),(1,2)\",\"(7,8),(5,6)\"]"),
    ] {
        assert_eq!(row[column].to_string(), expected, "{column}");
    }
    assert_eq!(row.get("computed"), None);
    let row = &streamed[":0"];
    for (column, expected) in [
        ("n", "NaN"),
        ("db", "-Infinity"),
        ("da", "infinity"),
        ("ts", "-infinity"),
        ("tz", "infinity"),
    ] {
        assert_eq!(row[column], expected, "{column}");
    }
    let lines = std::fs::read_to_string(quire.path("stream/changes-00000001.ndjson")).unwrap();
    assert!(
        lines.contains("\"n\":-12345678901234567890.0123456789,"),
        "{lines}"
    );

    // Columns come, go, change their type and name; keys change; rows go; large values stay.
    server.sql(&format!(
        "UPDATE t SET sub = 'moved', tx = {LARGE} WHERE id = 1;
         ALTER TABLE t ADD COLUMN new INT DEFAULT 7, DROP COLUMN c; UPDATE t SET i4 = 5;
         ALTER TABLE t RENAME COLUMN i4 TO renamed;
         ALTER TABLE t ALTER i2 TYPE BIGINT, ADD j2 JSONB;
         UPDATE t SET i2 = 1::BIGINT << 40, j2 = '{{\"a\":1}}'; DELETE FROM t WHERE id = 0;
         UPDATE t SET i2 = 3 WHERE id = 1"
    ));
    quire.ok(&["pipe", "run", &file, "--once"]);
    let streamed = documents(&quire.path("stream"));
    assert_eq!(streamed, snapshot(&quire, &server, "second"));
    assert_eq!(streamed.len(), 2);
    let moved = &streamed["moved:1"];
    assert_eq!((&moved["renamed"], &moved["i2"]), (&5.into(), &3.into()));
    assert_eq!(moved["tx"].as_str().unwrap().len(), 64_000);

    // With all of the old row, nothing is looked up. A key of the present is followed, renamed too.
    server.sql(
        "ALTER TABLE t REPLICA IDENTITY FULL; UPDATE t SET i2 = 4; UPDATE t SET sub = 'x'
         WHERE id = 1; DELETE FROM t WHERE id > 1",
    );
    quire.ok(&["pipe", "run", &file, "--once"]);
    let streamed = documents(&quire.path("stream"));
    assert_eq!(streamed.keys().collect::<Vec<_>>(), ["x:1"]);
    assert_eq!(streamed, snapshot(&quire, &server, "third"));
    server.sql("ALTER TABLE t RENAME COLUMN sub TO part; UPDATE t SET part = 'y'");
    quire.ok(&["pipe", "run", &file, "--once"]);
    assert_eq!(documents(&quire.path("stream"))["y:1"]["part"], "y");

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
    let Some(mut server) = Postgres::start() else {
        return;
    };
    let quire = Quire::new();
    let file = pipe(&quire, &server, "sink", "");
    let fails = |words: &[&str]| {
        let done = quire.run(&["pipe", "check", &file]);
        for word in words {
            assert!(done.code != 0 && done.stdout.contains(word), "{done:?}");
        }
    };
    for (sql, words) in [
        ("SELECT 1", &["no table public.t"][..]),
        ("CREATE TABLE t (id INT)", &["no primary key"]),
        ("CREATE VIEW t AS SELECT 1", &["ordinary"]),
        (
            "CREATE UNLOGGED TABLE t (id INT PRIMARY KEY)",
            &["ordinary"],
        ),
        (
            "CREATE TABLE t (id INT PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY NOTHING",
            &["REPLICA IDENTITY DEFAULT"],
        ),
        (
            "CREATE TABLE t (id INT PRIMARY KEY, o INT NOT NULL UNIQUE);
             ALTER TABLE t REPLICA IDENTITY USING INDEX t_o_key",
            &["REPLICA IDENTITY DEFAULT"],
        ),
        (
            "CREATE TABLE t (id INT PRIMARY KEY DEFERRABLE)",
            &["REPLICA IDENTITY FULL"],
        ),
        (
            "CREATE TABLE t (id INT PRIMARY KEY); REVOKE ALL ON t FROM repl",
            &["GRANT SELECT ON \"public\".\"t\" TO \"repl\""],
        ),
        ("CREATE TABLE t (id INT PRIMARY KEY)", &[PUBLISH]),
        (
            "CREATE TABLE t (id INT PRIMARY KEY); CREATE PUBLICATION quire_public_t",
            &["ALTER PUBLICATION \"quire_public_t\" ADD TABLE"],
        ),
        (
            "CREATE TABLE t (id INT PRIMARY KEY); CREATE PUBLICATION quire_public_t FOR TABLE t
             WITH (publish = 'insert')",
            &["SET (publish = "],
        ),
        (
            "CREATE TABLE t (id INT PRIMARY KEY); CREATE PUBLICATION quire_public_t FOR TABLE t
             WHERE (id > 5)",
            &["leaves out rows or columns"],
        ),
        (
            "CREATE TABLE t (id INT PRIMARY KEY, x INT); CREATE PUBLICATION quire_public_t FOR
             TABLE t (id)",
            &["leaves out rows or columns"],
        ),
    ] {
        server.sql(&format!(
            "DROP PUBLICATION IF EXISTS quire_public_t;
             DO $$ BEGIN EXECUTE (SELECT format('DROP %s t', CASE relkind WHEN 'v' THEN 'VIEW' ELSE
             'TABLE' END) FROM pg_class WHERE relname = 't'); EXCEPTION WHEN OTHERS THEN END $$;
             {sql}"
        ));
        fails(words);
    }

    // The owner of a table needs nobody to publish it.
    server.sql(
        "DROP PUBLICATION quire_public_t; ALTER TABLE t OWNER TO repl; \
         GRANT CREATE ON DATABASE app TO repl; INSERT INTO t VALUES (1, 1), (2, 2)",
    );
    quire.ok(&["pipe", "run", &file, "--once"]);
    assert_eq!(documents(&quire.path("sink")).len(), 2);

    // A slot that is gone, and one that the server gave up.
    let drop_slots = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots";
    server.sql(drop_slots);
    server.sql("UPDATE t SET x = 5 WHERE id = 1");
    let words = ["there is no slot", "on_lost_position"];
    quire.fails(&["pipe", "run", &file, "--once"], 1, &words);
    let file = pipe(&quire, &server, "sink", "on_lost_position = \"snapshot\"");
    quire.ok(&["pipe", "run", &file, "--once"]);
    assert_eq!(documents(&quire.path("sink"))["1"]["x"], 5);
    server.sql("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'; SELECT pg_reload_conf()");
    for _ in 0..3 {
        server.sql("SELECT pg_switch_wal(); CHECKPOINT; CREATE TABLE w (); DROP TABLE w");
    }
    server.sql("UPDATE t SET x = 6 WHERE id = 2; CHECKPOINT");
    let file = pipe(&quire, &server, "sink", "");
    let words = ["max_slot_wal_keep_size", "on_lost_position"];
    quire.fails(&["pipe", "run", &file, "--once"], 1, &words);
    let file = pipe(&quire, &server, "sink", "on_lost_position = \"snapshot\"");
    quire.ok(&["pipe", "run", &file, "--once"]);
    assert_eq!(documents(&quire.path("sink"))["2"]["x"], 6);
    let slots = "SELECT count(*) FROM pg_replication_slots";
    assert_eq!(server.sql(slots), "1\n", "a lost slot is removed");

    // A table of another name, none at all, and another one.
    let file = pipe(&quire, &server, "sink", "");
    server.sql("ALTER TABLE t RENAME TO renamed");
    let words = ["there is no table public.t"];
    quire.fails(&["pipe", "run", &file, "--once"], 1, &words);
    server.sql("DROP TABLE renamed; CREATE TABLE t (id INT PRIMARY KEY, x INT)");
    server.sql("DROP PUBLICATION quire_public_t; ALTER TABLE t OWNER TO repl");
    quire.fails(&["pipe", "run", &file, "--once"], 1, &["made anew"]);

    // A role that may not replicate, a wrong password, and a server that does not log enough.
    server.sql("ALTER ROLE repl NOREPLICATION");
    let other = pipe(&quire, &server, "other", "");
    let words = ["ALTER ROLE \"repl\" REPLICATION"];
    quire.fails(&["pipe", "run", &other, "--once"], 1, &words);
    quire.file("password", "wrong\n");
    quire.fails(
        &["pipe", "run", &other, "--once"],
        1,
        &["password authentication failed"],
    );
    quire.file("password", "secret\n");
    server.sql(&format!("ALTER ROLE repl REPLICATION; {drop_slots}"));
    server.set("wal_level=replica");
    server.kill_and_run();
    let words = ["ALTER SYSTEM SET wal_level = 'logical'"];
    quire.fails(&["pipe", "run", &other, "--once"], 1, &words);
}

#[test]
fn connections_are_as_sslmode_says() {
    let Some(mut server) = Postgres::start() else {
        return;
    };
    let quire = Quire::new();
    server.sql("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)");
    server.sql(PUBLISH);
    let run = |server: &Postgres, mode: &str| {
        let file = pipe(&quire, server, "sink", mode);
        quire.run(&["pipe", "check", &file])
    };
    let works = |server: &Postgres, mode| {
        let done = run(server, mode);
        assert_eq!(done.code, 0, "{mode}: {done:?}");
    };
    let fails = |server: &Postgres, mode: &str, word| {
        let done = run(server, mode);
        let said = format!("{}{}", done.stdout, done.stderr);
        assert!(done.code != 0 && said.contains(word), "{mode}: {done:?}");
    };
    works(&server, "");
    works(&server, "sslmode = \"disable\"");
    fails(&server, "sslmode = \"require\"", "has no TLS");
    fails(&server, "sslmode = \"verify-full\"", "ca");
    fails(&server, "sslmode = \"always\"", "sslmode must be");

    for (name, host) in [("server", "localhost"), ("other", "elsewhere")] {
        let mut make = Command::new("openssl");
        make.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ])
        .args(["-nodes", "-days", "2", "-subj", &format!("/CN={host}")])
        .args(["-addext", &format!("subjectAltName=DNS:{host}")])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(quire.path(&format!("{name}.key")))
        .arg("-out")
        .arg(quire.path(&format!("{name}.pem")));
        let done = make.output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }
    let serve = |server: &mut Postgres, name: &str| {
        let user = std::fs::metadata(server.data()).unwrap();
        for (from, to) in [("key", "server.key"), ("pem", "server.crt")] {
            use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
            let to = server.data().join(to);
            std::fs::copy(quire.path(&format!("{name}.{from}")), &to).unwrap();
            std::fs::set_permissions(&to, PermissionsExt::from_mode(0o600)).unwrap();
            chown(&to, Some(user.uid()), Some(user.gid())).unwrap();
        }
        server.kill_and_run();
    };
    server.set("ssl=on");
    serve(&mut server, "server");
    works(&server, "");
    works(&server, "sslmode = \"require\"");
    works(&server, "ca = \"server.pem\"");
    fails(&server, "ca = \"other.pem\"", "TLS");
    serve(&mut server, "other");
    works(&server, "sslmode = \"verify-ca\"\nca = \"other.pem\"");
    fails(
        &server,
        "sslmode = \"verify-full\"\nca = \"other.pem\"",
        "TLS",
    );
    fails(
        &server,
        "sslmode = \"verify-ca\"\nca = \"server.pem\"",
        "TLS",
    );
    let file = pipe(&quire, &server, "sink", "sslmode = \"require\"");
    quire.ok(&["pipe", "run", &file, "--once"]);
    assert_eq!(documents(&quire.path("sink")).len(), 1);
}

/// The blocks of a language in the section of the page.
fn blocks(language: &str) -> Vec<String> {
    let page = include_str!("../../../../docs/PIPELINES.md");
    let section = page.split("\n## A table of PostgreSQL\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let begin = format!("```{language}\n");
    let blocks = section.split(&begin).skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap().to_owned());
    blocks.collect()
}

#[test]
fn the_example_of_the_page_works() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let quire = Quire::new();
    server.sql("CREATE TABLE tracks (id INT PRIMARY KEY, title TEXT)");
    server.sql("INSERT INTO tracks VALUES (1, 'Jolene'), (2, 'Hurt')");
    let sql = blocks("sql");
    server.sql(&sql[0]);
    quire.file("quire.password", "…\n");
    let address = format!("localhost:{}/app", server.port);
    let source = blocks("toml")[0].replace("db1.example:5432/shop", &address);
    let sink = "[[sink]]\nname = \"out\"\nkind = \"ndjson\"\ndirectory = \"out\"\n";
    quire.file("tracks.toml", format!("{source}\n{sink}"));
    quire.ok(&["pipe", "check", "tracks.toml"]);
    quire.ok(&["pipe", "run", "tracks.toml", "--once"]);
    assert_eq!(documents(&quire.path("out"))["2"]["title"], "Hurt");
    let status = quire.ok(&["pipe", "status", "tracks.toml", "--json"]);
    let slot = server.sql("SELECT slot_name FROM pg_replication_slots");
    assert!(status.contains(slot.trim()), "{slot}: {status}");
    server.sql(&sql[1].replace("quire_tracks_00c0ffee00c0ffee", slot.trim()));
    assert_eq!(server.sql("SELECT slot_name FROM pg_replication_slots"), "");
}

#[test]
fn the_sink_equals_the_table_though_quire_and_the_server_are_killed_again_and_again() {
    let Some(mut server) = Postgres::start() else {
        return;
    };
    let quire = Quire::new();
    server.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, s TEXT); \
         INSERT INTO t SELECT g, 0, repeat('x', 600) FROM generate_series(1, 12000) g",
    );
    // Some rows have a value beside the row, which changes of other columns do not send.
    server.sql(&format!("UPDATE t SET s = {LARGE} WHERE id % 500 = 0"));
    server.sql(PUBLISH);
    let file = pipe(&quire, &server, "sink", "");
    let client = server.client();
    let write = |stop: &AtomicBool| client.change_rows(stop, Duration::from_millis(5));
    kill_again_and_again(&quire, &[&file], 24, write, |kill| {
        if kill % 8 == 5 {
            server.kill_and_run();
        }
        if kill == 14 {
            server.sql("ALTER TABLE t ADD COLUMN more TEXT DEFAULT 'more'");
        }
    });
    // All rows are changed after the column came, by one transaction.
    server.sql("UPDATE t SET v = v + 1");
    quire.ok(&["pipe", "run", &file, "--once"]);
    let rows = server.sql("SELECT id, v, length(s), md5(s), more FROM t ORDER BY id");
    let documents = documents(&quire.path("sink"));
    let expected: Vec<Vec<&str>> = rows.lines().map(|row| row.split('\t').collect()).collect();
    assert!(expected.len() > 1_000, "{}", expected.len());
    assert_eq!(documents.len(), expected.len());
    for row in expected {
        let document = &documents[row[0]];
        assert_eq!(document["v"].to_string(), row[1], "{document}");
        let text = document["s"].as_str().unwrap();
        assert_eq!(text.len().to_string(), row[2], "{}", row[0]);
        assert_eq!(document["more"], row[4]);
    }
    let held = "SELECT count(*), bool_and(pg_current_wal_lsn() - confirmed_flush_lsn < 64000000)
        FROM pg_replication_slots";
    assert_eq!(server.sql(held), "1\tt\n", "the slot follows");
}

#[test]
fn a_reindex_leaves_no_slot_though_it_is_killed_and_keeps_that_of_the_pipe() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let quire = Quire::new();
    let served = Server::start_of(&quire, "served", &[]);
    let collection = format!("http://{}", served.address);
    server.sql("CREATE TABLE t (id INT PRIMARY KEY, s TEXT)");
    server.sql("INSERT INTO t SELECT g, repeat('x', 600) FROM generate_series(1, 20000) g");
    server.sql(PUBLISH);
    let search = format!(
        "[[sink]]\nname = \"search\"\nkind = \"quire\"\nurl = \"{collection}\"\n\
         index = \"t\"\n\n[reindex]\n"
    );
    let slots = || server.sql("SELECT count(*) FROM pg_replication_slots");
    let number = |text: String| text.trim().parse::<u32>().unwrap();
    let count = || number(quire.ok(&["count", &collection, "t"]));

    // Without a pipe there is only the slot of the reindex, wherever that is killed.
    let file = pipe(&quire, &server, "files", "");
    let text = std::fs::read_to_string(quire.path(&file)).unwrap() + &search;
    quire.file(&file, &text);
    let mut had_slot = 0;
    for kill in 0..8 {
        let mut command = quire.command(&["reindex", "run", &file]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = command.spawn().unwrap();
        // Each second one is killed after it made its slot, however slow the machine is.
        let mut is_over = false;
        while kill % 2 == 1 && number(slots()) == 0 {
            assert!(!is_over, "the run left no slot");
            is_over = running.try_wait().unwrap().is_some();
        }
        std::thread::sleep(Duration::from_millis(100 + 150 * kill));
        running.kill().unwrap();
        running.wait().unwrap();
        had_slot += number(slots());
        let done = quire.run(&["reindex", "clean", &file, "--drop"]);
        // A run that was killed before its first record is none.
        assert!(
            done.code == 0 || done.stderr.contains("no reindex was begun"),
            "{done:?}"
        );
        assert_eq!(number(slots()), 0, "kill {kill}");
    }
    assert!(had_slot >= 4, "runs lost their slots");

    quire.ok(&["reindex", "run", &file]);
    quire.ok(&["reindex", "switch", &file]);
    assert_eq!(count(), 20_000);
    quire.ok(&["pipe", "run", &file, "--once"]);
    assert_eq!(number(slots()), 3, "of two sinks and the reindex");
    quire.ok(&["reindex", "clean", &file, "--drop"]);
    assert_eq!(number(slots()), 2);
    server.sql("DELETE FROM t WHERE id > 15000");
    quire.ok(&["pipe", "run", &file, "--once"]);
    assert_eq!(count(), 15_000);

    // The old index has a copy of the pipe's slot, so the pipe goes on beside all of it.
    let mut running = run(&quire, &file);
    quire.ok(&["reindex", "run", &file]);
    quire.ok(&["reindex", "switch", &file]);
    assert_eq!(number(slots()), 4, "of two sinks and two indexes");
    server.sql("DELETE FROM t WHERE id > 10000");
    server.sql("UPDATE t SET s = 'y' WHERE id <= 100");
    quire.ok(&["reindex", "rollback", &file]);
    assert_eq!(count(), 10_000);
    server.sql("DELETE FROM t WHERE id > 9000");
    while count() != 9_000 {
        assert!(running.try_wait().unwrap().is_none(), "the pipe ended");
        std::thread::sleep(Duration::from_millis(100));
    }
    running.kill().unwrap();
    running.wait().unwrap();
    let done = quire.run(&["pipe", "run", &file, "--once"]);
    assert!(done.code == 0, "{done:?}");
    quire.ok(&["reindex", "clean", &file, "--drop"]);
    assert_eq!(number(slots()), 2);
    served.stop("TERM");
}
