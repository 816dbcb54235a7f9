//! A table of a real PostgreSQL, which the test starts, shipped to files; skipped, saying so, where
//! there is none.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests read and write files of their own, and panic when they fail"
)]

#[path = "../../../ship/tests/it/free_port.rs"]
mod free_port;
mod server;

use quire_env::{Env, OsEnv};
use quire_postgres::{PostgresOptions, PostgresSource};
use quire_ship::{
    Change, Failure, FileSink, ShipOptions, Sink, SourceConfig, Target, Verdict, ship, status,
};
use serde_json::Value;
use server::Postgres;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Files that take a while for each bulk.
#[derive(Debug)]
struct Slow(FileSink, Duration);

impl Sink for Slow {
    fn send(&self, bulk: &[&Change]) -> Result<Vec<Verdict>, Failure> {
        std::thread::sleep(self.1);
        self.0.send(bulk)
    }

    fn concurrency_max(&self) -> usize {
        self.0.concurrency_max()
    }

    fn begin(&self, mark: Option<&Value>) -> Result<(), Failure> {
        self.0.begin(mark)
    }

    fn mark(&self) -> Option<Value> {
        self.0.mark()
    }

    fn sync(&self) -> Result<(), Failure> {
        self.0.sync()
    }
}

/// Ships `public.t` into the folder `out` for a time, or until it is level, with a pause before
/// each bulk.
fn run(server: &Postgres, folder: &Path, time: Option<Duration>, pause: Duration) {
    let env: Arc<dyn Env> = OsEnv::new().unwrap();
    let password = folder.join("password");
    std::fs::write(&password, "secret").unwrap();
    let config = SourceConfig {
        kind: Some("postgres".to_owned()),
        url: Some(format!("postgres://127.0.0.1:{}/app", server.port)),
        table: Some("public.t".to_owned()),
        user: Some("repl".to_owned()),
        password_file: Some(password),
        ..SourceConfig::default()
    };
    let options = PostgresOptions::new(&*env, &config).unwrap();
    let source = PostgresSource::new(Arc::clone(&env), options);
    let target = Target {
        name: "out".into(),
        sink: Arc::new(Slow(
            FileSink::lines(Arc::clone(&env), folder.join("out"), 1 << 30),
            pause,
        )),
        bulk_bytes: Some(1 << 20),
        concurrency: None,
        dead_letters_max: 0,
    };
    let options = ShipOptions {
        state: folder.join("state"),
        once: time.is_none(),
        report_every: Duration::from_secs(1),
    };
    let begun = Instant::now();
    let stop = || time.is_some_and(|time| begun.elapsed() > time);
    let ends = ship(&env, &source, &[target], &options, &|_| (), &stop).unwrap();
    if time.is_none() {
        ends[0].as_ref().unwrap();
    }
}

/// The documents that the folder ends with.
fn documents(folder: &Path) -> BTreeMap<String, Value> {
    let mut documents = BTreeMap::new();
    let lines = std::fs::read_to_string(folder.join("out/changes-00000001.ndjson")).unwrap();
    for line in lines.lines() {
        let mut change: Value = serde_json::from_str(line).unwrap();
        let key = change["key"].as_str().unwrap().to_owned();
        match change["document"].take() {
            Value::Null => documents.remove(&key),
            document => documents.insert(key, document),
        };
    }
    documents
}

/// Compares the files with the table.
fn check(server: &Postgres, folder: &Path) {
    let found = documents(folder);
    let rows = server.sql("SELECT id, v, s FROM t ORDER BY id");
    let rows: Vec<Vec<&str>> = rows.lines().map(|row| row.split('\t').collect()).collect();
    assert_eq!(found.len(), rows.len());
    for row in rows {
        let document = &found[row[0]];
        assert_eq!(document["v"].to_string(), row[1], "{}", row[0]);
        assert_eq!(document["s"], row[2], "{}", row[0]);
    }
}

/// A table, some rows of which have a value beside the row, which changes of others do not send.
const TABLE: &str = "CREATE TABLE t (id INT PRIMARY KEY, v INT, s TEXT);
    INSERT INTO t SELECT g, 0, repeat('x', 600) FROM generate_series(1, 12000) g;
    UPDATE t SET s = (SELECT string_agg(md5(g::text), '') FROM generate_series(1, 300) g)
    WHERE id % 100 = 0;
    CREATE PUBLICATION quire_public_t FOR TABLE t";

#[test]
fn files_equal_the_table_after_stops_and_large_transactions_and_the_slot_follows() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    server.sql(TABLE);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (writing, client) = (&stop, server.client());
        scope.spawn(move || client.change_rows(writing, Duration::from_millis(5)));
        for turn in 0..6 {
            let time = Duration::from_millis(200 + 300 * turn);
            run(&server, folder.path(), Some(time), Duration::ZERO);
        }
        stop.store(true, Ordering::Relaxed);
    });
    // One transaction of more rows than a read has, twice in its own rows.
    server.sql("BEGIN; UPDATE t SET v = v + 1; UPDATE t SET v = v + 1; COMMIT");
    run(&server, folder.path(), None, Duration::ZERO);
    let held = "SELECT count(*), bool_and(pg_current_wal_lsn() - confirmed_flush_lsn < 100000000),
        bool_and(confirmed_flush_lsn > restart_lsn) FROM pg_replication_slots";
    assert_eq!(server.sql(held), "1\tt\tt\n", "the slot follows");
    check(&server, folder.path());
    // What is stored was confirmed; nothing comes twice.
    let env = OsEnv::new().unwrap();
    let stored = status(&*env, &folder.path().join("state"), "out").unwrap();
    let changes = stored.unwrap().changes;
    run(&server, folder.path(), None, Duration::ZERO);
    let stored = status(&*env, &folder.path().join("state"), "out").unwrap();
    assert_eq!(stored.unwrap().changes, changes);
}

#[test]
fn a_slow_sink_does_not_end_the_stream() {
    let Some(mut server) = Postgres::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    server.sql(TABLE);
    server.set("wal_sender_timeout=6s");
    server.kill_and_run();
    run(&server, folder.path(), None, Duration::ZERO);
    server.sql("UPDATE t SET v = v + 1; UPDATE t SET v = v + 1; UPDATE t SET v = v + 1");
    run(&server, folder.path(), None, Duration::from_millis(400));
    check(&server, folder.path());
    let log = server.log();
    assert!(!log.contains("replication timeout"), "{log}");
}

#[test]
fn a_commit_that_the_stream_has_before_readers_see_it_is_not_undone_by_the_snapshot() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    server.sql(TABLE);
    server.sql("INSERT INTO t SELECT g, 0, repeat('x', 600) FROM generate_series(12001, 50000) g");
    let second = Duration::from_secs(1);
    run(&server, folder.path(), Some(second), second / 4);
    // Commits are in the log, and wait for a standby before anybody sees them.
    server.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    server.sql("SELECT pg_reload_conf()");
    std::thread::scope(|scope| {
        let client = server.client();
        scope.spawn(move || client.run("app", "UPDATE t SET v = 1 WHERE id % 1000 = 7"));
        run(&server, folder.path(), Some(3 * second), second / 4);
        server.sql("ALTER SYSTEM RESET synchronous_standby_names");
        server.sql("SELECT pg_reload_conf()");
    });
    run(&server, folder.path(), None, Duration::ZERO);
    check(&server, folder.path());
}

#[test]
fn a_table_with_partitions_is_one_table() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    server.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, s TEXT) PARTITION BY RANGE (id);
         CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (1000);
         CREATE TABLE high PARTITION OF t FOR VALUES FROM (1000) TO (5000);
         ALTER TABLE t OWNER TO repl; GRANT CREATE ON DATABASE app TO repl;
         INSERT INTO t SELECT g, 0, 'x' FROM generate_series(1, 3000) g",
    );
    run(&server, folder.path(), None, Duration::ZERO);
    check(&server, folder.path());
    server.sql(
        "UPDATE t SET v = 1 WHERE id % 3 = 0; UPDATE t SET id = id + 3000 WHERE id < 500;
         DELETE FROM t WHERE id % 7 = 0",
    );
    run(&server, folder.path(), None, Duration::ZERO);
    check(&server, folder.path());
}
