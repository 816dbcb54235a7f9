//! `quire pipe` of documents joined from several tables of a real MariaDB; skipped, saying so,
//! where there is none.

use crate::Quire;
use crate::kills::{self, kill_again_and_again};
use crate::mariadb::documents;
use crate::mariadb_server::{Client, MariaDb};
use crate::serve::Server;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const TABLES: &str = "
    CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(50) NOT NULL, seen INT NOT NULL);
    CREATE TABLE tracks (id INT PRIMARY KEY, title VARCHAR(50), user_id INT, code VARCHAR(20),
        secret INT, price DECIMAL(8,2), live BOOLEAN, KEY (user_id), KEY (code));
    CREATE TABLE likes (user_id INT, track_id INT, at INT, PRIMARY KEY (user_id, track_id),
        KEY (track_id));
    CREATE TABLE plays (id INT AUTO_INCREMENT PRIMARY KEY, code VARCHAR(20), n INT, KEY (code));";

const DOCUMENTS: &str = r#"
    [source.document]
    drop = ["secret"]
    rename = { title = "name" }
    cast = { price = "text", live = "boolean" }
    [[source.join]]
    field = "user"
    table = "app.users"
    kind = "one"
    on = { user_id = "id" }
    columns = ["id", "name"]
    [[source.join]]
    field = "likes"
    table = "app.likes"
    kind = "many"
    on = { id = "track_id" }
    order = ["-at"]
    drop = ["track_id"]
    [[source.join]]
    field = "like_count"
    table = "app.likes"
    kind = "count"
    on = { id = "track_id" }
    [[source.join]]
    field = "plays"
    table = "app.plays"
    kind = "sum"
    sum = "n"
    on = { code = "code" }
    "#;

/// The same documents, made by the server.
const JOINED: &str = "
    SELECT t.id, JSON_OBJECT('id', t.id, 'name', t.title, 'user_id', t.user_id, 'code', t.code,
        'price', CAST(t.price AS CHAR), 'live', IF(t.live IS NULL, NULL,
            JSON_EXTRACT(IF(t.live, 'true', 'false'), '$')),
        'user', (SELECT JSON_OBJECT('id', u.id, 'name', u.name) FROM users u
            WHERE u.id = t.user_id),
        'likes', JSON_EXTRACT(COALESCE((SELECT JSON_ARRAYAGG(JSON_OBJECT('user_id', l.user_id,
            'at', l.at) ORDER BY l.at DESC, l.user_id) FROM likes l WHERE l.track_id = t.id),
            '[]'), '$'),
        'like_count', (SELECT COUNT(*) FROM likes l WHERE l.track_id = t.id),
        'plays', (SELECT COALESCE(SUM(n), 0) FROM plays p WHERE p.code = t.code))
    FROM tracks t ORDER BY t.id";

/// The documents that the server makes.
fn joined(server: &MariaDb) -> BTreeMap<String, Value> {
    let rows = server.sql(&format!("SET group_concat_max_len = 16777216; {JOINED}"));
    let rows = rows.lines().map(|line| {
        let (key, document) = line.split_once('\t').unwrap();
        (key.to_owned(), serde_json::from_str(document).unwrap())
    });
    rows.collect()
}

/// The file of a pipe of documents into the folder `sink`, with more sinks.
fn pipe(quire: &Quire, server: &MariaDb, documents: &str, sinks: &str) {
    quire.file("password", "secret\n");
    quire.file(
        "pipe.toml",
        format!(
            "[source]\ntype = \"mysql\"\nurl = \"mysql://127.0.0.1:{}\"\ntable = \"app.tracks\"\n\
             user = \"repl\"\npassword_file = \"password\"\n{documents}\n\
             [[sink]]\nname = \"sink\"\nkind = \"ndjson\"\ndirectory = \"sink\"\n{sinks}",
            server.port
        ),
    );
}

/// Runs the pipe until it is level; gives the keys of the changes that it shipped.
fn run(quire: &Quire) -> Vec<String> {
    let read = || std::fs::read_to_string(quire.path("sink/changes-00000001.ndjson"));
    let before = read().unwrap_or_default().len();
    quire.ok(&["pipe", "run", "pipe.toml", "--once"]);
    let lines = read().unwrap();
    let lines = lines[before..].lines();
    let keys = lines.map(|line| serde_json::from_str::<Value>(line).unwrap()["key"].take());
    keys.map(|key| key.as_str().unwrap().to_owned()).collect()
}

/// Documents that differ, both of the sink and of the server.
fn differences<'a>(
    found: &'a BTreeMap<String, Value>,
    expected: &'a BTreeMap<String, Value>,
) -> Vec<(Option<&'a Value>, Option<&'a Value>)> {
    let keys: std::collections::BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
    let pairs = keys.iter().map(|key| (found.get(*key), expected.get(*key)));
    pairs.filter(|(one, other)| one != other).take(3).collect()
}

#[test]
fn a_change_gives_the_documents_that_contain_the_row_once_and_no_others() {
    let Some(server) = MariaDb::start() else {
        return;
    };
    let quire = Quire::new();
    server.sql(TABLES);
    server.sql(
        "INSERT INTO users SELECT seq, CONCAT('u', seq), 0 FROM seq_1_to_10; \
         INSERT INTO tracks SELECT seq, CONCAT('t', seq), IF(seq <= 3000, 1, 2 + seq % 8), \
         CONCAT('C', seq), seq, seq / 4, seq % 3 = 0 FROM seq_1_to_5000; \
         INSERT INTO likes SELECT 1 + seq % 10, seq, seq % 7 FROM seq_1_to_5000; \
         INSERT INTO plays (code, n) SELECT CONCAT('C', 1 + seq % 50), seq FROM seq_1_to_300",
    );
    pipe(&quire, &server, DOCUMENTS, "");
    let checked = quire.ok(&["pipe", "check", "pipe.toml"]);
    for line in [
        "  documents of app.tracks, with the key id: \"id\", \"name\", \"user_id\", \"code\", \
         \"price\", \"live\" (live as boolean, price as text)",
        "  \"user\": the row of app.users with id = user_id, or null: \"id\", \"name\"",
        "  \"likes\": the rows of app.likes with track_id = id, by at descending, user_id, \
         track_id: \"user_id\", \"at\"",
        "  \"plays\": the sum of n in the rows of app.plays with code = code",
    ] {
        assert!(checked.contains(line), "{line} is not in {checked}");
    }
    assert!(!checked.contains("warning"), "{checked}");
    let is_level = |what: &str| {
        let (found, expected) = (documents(&quire.path("sink")), joined(&server));
        assert_eq!(found.len(), expected.len(), "{what}");
        let differences = differences(&found, &expected);
        assert!(differences.is_empty(), "{what}: {differences:?}");
    };
    assert_eq!(run(&quire).len(), 5_000);
    is_level("all rows");

    let keys = |range: std::ops::RangeInclusive<u32>| -> Vec<String> {
        let mut keys: Vec<String> = range.map(|key| key.to_string()).collect();
        keys.sort();
        keys
    };
    for (sql, expected) in [
        ("UPDATE users SET name = 'new' WHERE id = 1", keys(1..=3000)),
        ("UPDATE users SET name = 'newer' WHERE id IN (1, 3)", {
            let rows = server.sql("SELECT id FROM tracks WHERE user_id IN (1, 3)");
            let mut rows: Vec<String> = rows.lines().map(str::to_owned).collect();
            rows.sort();
            rows
        }),
        ("UPDATE users SET seen = seen + 1", vec![]),
        ("UPDATE tracks SET secret = 0", vec![]),
        (
            "BEGIN; UPDATE tracks SET title = 'x' WHERE id = 7; DELETE FROM likes WHERE \
             track_id = 7; INSERT INTO likes VALUES (9, 7, 1); UPDATE users SET name = 'a' WHERE \
             id = 1; UPDATE users SET name = 'newer' WHERE id = 1; \
             UPDATE plays SET n = 5 WHERE code = 'C7'; COMMIT",
            keys(1..=3000),
        ),
        (
            "UPDATE likes SET at = 99 WHERE track_id = 4000",
            keys(4000..=4000),
        ),
        (
            "UPDATE likes SET track_id = 4001 WHERE track_id = 4002",
            keys(4001..=4002),
        ),
        ("UPDATE tracks SET user_id = NULL WHERE id = 5", keys(5..=5)),
        ("UPDATE tracks SET code = 'c1' WHERE id = 5", keys(5..=5)),
        (
            "UPDATE plays SET n = 6 WHERE code = 'C1' LIMIT 1",
            vec!["1".into(), "5".into()],
        ),
        ("DELETE FROM users WHERE id = 4", {
            let rows = server.sql("SELECT id FROM tracks WHERE user_id = 4");
            let mut rows: Vec<String> = rows.lines().map(str::to_owned).collect();
            rows.sort();
            rows
        }),
        ("DELETE FROM tracks WHERE id > 4990", keys(4991..=5000)),
        (
            "UPDATE tracks SET id = 6000 WHERE id = 1",
            vec!["1".into(), "6000".into()],
        ),
        (
            "FLUSH BINARY LOGS; INSERT INTO likes VALUES (9, 12, 3); FLUSH BINARY LOGS",
            keys(12..=12),
        ),
    ] {
        server.sql(sql);
        let mut shipped = run(&quire);
        shipped.sort();
        assert_eq!(shipped, expected, "{sql}");
        is_level(sql);
    }

    // Columns come and go in all tables.
    server.sql(
        "UPDATE users SET name = 'b' WHERE id = 5; ALTER TABLE users ADD COLUMN x INT FIRST; \
         UPDATE users SET name = 'c' WHERE id = 6; ALTER TABLE likes MODIFY at BIGINT; \
         UPDATE likes SET at = 1 << 40 WHERE user_id = 2; ALTER TABLE tracks DROP COLUMN secret, \
         ADD COLUMN extra INT DEFAULT 3; UPDATE tracks SET extra = id WHERE id < 10",
    );
    let words = ["there is no column \"secret\""];
    quire.fails(&["pipe", "run", "pipe.toml", "--once"], 1, &words);
    pipe(
        &quire,
        &server,
        &DOCUMENTS.replace("drop = [\"secret\"]", ""),
        "",
    );
    run(&quire);
    let mut found = documents(&quire.path("sink"));
    assert_eq!(found["9"]["extra"], 9);
    for document in found.values_mut() {
        document.as_object_mut().unwrap().remove("extra");
    }
    assert_eq!(differences(&found, &joined(&server)), []);

    server.sql("TRUNCATE TABLE likes");
    let words = ["app.likes at binlog", "truncated"];
    quire.fails(&["pipe", "run", "pipe.toml", "--once"], 1, &words);
}

#[test]
fn documents_that_contradict_the_tables_are_refused_and_missing_indexes_are_named() {
    let Some(server) = MariaDb::start() else {
        return;
    };
    let quire = Quire::new();
    server.sql(TABLES);
    server.sql("ALTER TABLE likes DROP KEY track_id; ALTER TABLE tracks DROP KEY user_id");
    pipe(&quire, &server, DOCUMENTS, "");
    let checked = quire.ok(&["pipe", "check", "pipe.toml"]);
    for line in [
        "warning: \"likes\": app.likes has no index that begins with track_id; each document reads \
         all of app.likes",
        "warning: \"user\": app.tracks has no index that begins with user_id; each change there \
         reads all of app.tracks",
    ] {
        assert!(checked.contains(line), "{line} is not in {checked}");
    }
    for (from, to, words) in [
        ("\"app.users\"", "\"app.user\"", &["no table app.user"][..]),
        (
            "user_id = \"id\"",
            "usr_id = \"id\"",
            &[
                "join \"user\"",
                "no column \"usr_id\"; did you mean \"user_id\"?",
            ],
        ),
        ("\"-at\"", "\"-att\"", &["no column \"att\""]),
        (
            "code = \"code\"",
            "id = \"code\"",
            &["id (int)", "code (varchar utf8mb4"],
        ),
        (
            "kind = \"many\"",
            "kind = \"one\"",
            &["only kind \"many\" has order"],
        ),
        (
            "table = \"app.users\"\n    kind = \"one\"\n    on = { user_id = \"id\" }",
            "table = \"app.users\"\n    kind = \"one\"\n    on = { user_id = \"seen\" }",
            &["needs a unique index of app.users on seen"],
        ),
        ("sum = \"n\"", "", &["needs sum"]),
        (
            "field = \"user\"",
            "field = \"name\"",
            &["another field of this name"],
        ),
        (
            "price = \"text\"",
            "price = \"txt\"",
            &["unknown variant `txt`"],
        ),
        (
            "kind = \"count\"",
            "kind = \"cuont\"",
            &["unknown variant `cuont`"],
        ),
    ] {
        assert!(DOCUMENTS.contains(from), "{from}");
        pipe(&quire, &server, &DOCUMENTS.replace(from, to), "");
        let done = quire.run(&["pipe", "check", "pipe.toml"]);
        let said = done.stdout + &done.stderr;
        assert_ne!(done.code, 0, "{said}");
        for word in words {
            assert!(said.contains(word), "{word} is not in {said}");
        }
    }
}

/// Changes the tables at random until it is to stop: rows come, change, move to other rows and go,
/// alone, many at once, and in transactions.
fn change(client: &Client, stop: &AtomicBool) {
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    while !stop.load(Ordering::Relaxed) {
        let mut statements = Vec::new();
        for _ in 0..=random(4) {
            let (track, user, n) = (random(4_000), random(60), random(1_000));
            statements.push(match random(12) {
                0 => format!("UPDATE users SET name = 'n{n}' WHERE id = {user}"),
                1 => format!("REPLACE INTO users VALUES ({user}, 'r{n}', 0)"),
                2 => format!("DELETE FROM users WHERE id = {user}"),
                3 => format!("UPDATE tracks SET user_id = {user} WHERE id % 400 = {track} % 400"),
                4 => format!("DELETE FROM tracks WHERE id = {track}"),
                5 => format!(
                    "REPLACE INTO tracks VALUES ({track}, 'n{n}', {user}, 'c{user}', {n}, {n}, 1)"
                ),
                6 => format!("UPDATE IGNORE tracks SET id = {track} + 4000 WHERE id = {n}"),
                7 => format!("REPLACE INTO likes VALUES ({user}, {track}, {n})"),
                8 => format!("UPDATE IGNORE likes SET track_id = {track} WHERE user_id = {user}"),
                9 => format!("DELETE FROM likes WHERE user_id = {user} AND track_id < {track}"),
                10 => format!("INSERT INTO plays (code, n) VALUES ('C{user}', {n})"),
                _ => format!("UPDATE plays SET code = 'c{user}' WHERE n = {n}"),
            });
        }
        // Errors while the server is down are the next turn's.
        let end = if random(10) == 0 {
            "ROLLBACK"
        } else {
            "COMMIT"
        };
        client.try_sql(&format!("BEGIN; {}; {end}", statements.join("; ")));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn joined_documents_equal_a_join_though_quire_and_the_server_are_killed_again_and_again() {
    let Some(mut server) = MariaDb::start() else {
        return;
    };
    let quire = Quire::new();
    let served = Server::start_of(&quire, "served", &[]);
    let collection = format!("http://{}", served.address);
    server.sql(TABLES);
    server.sql(
        "INSERT INTO users SELECT seq, CONCAT('u', seq), 0 FROM seq_1_to_60; \
         INSERT INTO tracks SELECT seq, 't', IF(seq % 2, 1, seq % 60), CONCAT('c', seq % 60), 0, \
         seq, 0 FROM seq_1_to_4000; \
         INSERT INTO likes SELECT seq % 60, seq, seq FROM seq_1_to_4000; \
         INSERT INTO plays (code, n) SELECT CONCAT('C', seq % 60), seq FROM seq_1_to_300",
    );
    let search = format!(
        "[[sink]]\nname = \"search\"\nkind = \"quire\"\nurl = \"{collection}\"\nindex = \"t\"\n"
    );
    pipe(&quire, &server, DOCUMENTS, &search);
    let client = server.client();
    let write = |stop: &AtomicBool| change(&client, stop);
    kill_again_and_again(&quire, &["pipe.toml"], 20, write, |kill| {
        if kill % 8 == 5 {
            server.kill_and_run();
        }
    });
    quire.ok(&["pipe", "run", "pipe.toml", "--once"]);
    let expected = joined(&server);
    assert!(expected.len() > 1_000, "{}", expected.len());
    let found = documents(&quire.path("sink"));
    assert_eq!(differences(&found, &expected), [], "files");
    let scanned = quire.ok(&["scan", &collection, "t"]);
    let scanned = scanned.lines().map(|line| {
        let mut document: Value = serde_json::from_str(line).unwrap();
        let fields = document.as_object_mut().unwrap();
        fields.remove("_key");
        fields.remove("_version");
        (document["id"].to_string(), document)
    });
    let scanned: BTreeMap<String, Value> = scanned.collect();
    served.stop("TERM");
    assert_eq!(differences(&scanned, &expected), [], "Quire");
}

/// The server has one place for the position of all connections' snapshots. Others who read it at
/// the same moment must not make a chunk look newer than it is: deletions would be lost.
#[test]
fn deletions_are_not_lost_though_others_read_the_positions_of_snapshots() {
    let Some(server) = MariaDb::start() else {
        return;
    };
    let quire = Quire::new();
    server.sql(TABLES);
    // Speed alone: no kill is in this test.
    server.sql("SET GLOBAL sync_binlog = 0; SET GLOBAL innodb_flush_log_at_trx_commit = 0");
    pipe(&quire, &server, DOCUMENTS, "");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let (reading, client) = (&stop, server.client());
            scope.spawn(move || {
                let show = "SHOW STATUS LIKE 'binlog_snapshot_%'; ".repeat(1_000);
                while !reading.load(Ordering::Relaxed) {
                    client.try_sql(&show);
                }
            });
        }
        let mut running = kills::run(&quire, "pipe.toml");
        // A row is there for a moment, in which it is read.
        for turn in 0..40 {
            let rows = (500 * turn..500 * (turn + 1)).map(|id| {
                format!(
                    "INSERT INTO tracks (id, title) VALUES ({id}, 't'); \
                     DELETE FROM tracks WHERE id <= {id} - 30; "
                )
            });
            server.sql(&rows.collect::<String>());
        }
        running.kill().unwrap();
        running.wait().unwrap();
        stop.store(true, Ordering::Relaxed);
    });
    quire.ok(&["pipe", "run", "pipe.toml", "--once"]);
    let (found, expected) = (documents(&quire.path("sink")), joined(&server));
    assert_eq!(expected.len(), 30);
    assert_eq!(found.len(), 30);
    assert_eq!(differences(&found, &expected), []);
}

#[test]
fn the_example_of_the_page_is_as_it_says() {
    let Some(server) = MariaDb::start() else {
        return;
    };
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/PIPELINES.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, section) = page
        .split_once("\n## Documents of several tables\n")
        .unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let blocks = |language: &str| -> Vec<&str> {
        let begin = format!("```{language}\n");
        let blocks = section.split(begin.as_str()).skip(1);
        blocks
            .map(|rest| rest.split("```").next().unwrap())
            .collect()
    };
    let (sql, toml, json) = (blocks("sql"), blocks("toml"), blocks("json"));
    let ([create, change], [file], [first, second]) = (&sql[..], &toml[..], &json[..]) else {
        panic!("the page has other blocks");
    };
    let quire = Quire::new();
    quire.file("quire.password", "secret");
    let url = format!("mysql://127.0.0.1:{}", server.port);
    let sink = "[[sink]]\nname = \"sink\"\nkind = \"ndjson\"\ndirectory = \"sink\"\n";
    quire.file(
        "pipe.toml",
        file.replace("mysql://db1.example:3306", &url)
            .replace("\"quire\"", "\"repl\"")
            .to_owned()
            + sink,
    );
    let document = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    for (sql, expected) in [(create, first), (change, second)] {
        server.sql(sql);
        quire.ok(&["pipe", "run", "pipe.toml", "--once"]);
        assert_eq!(documents(&quire.path("sink"))["1"], document(expected));
    }
    let said = quire.ok(&["pipe", "check", "pipe.toml"]);
    for line in blocks("text")[0].lines() {
        assert!(said.contains(line.trim()), "{line} is not in {said}");
    }
}
