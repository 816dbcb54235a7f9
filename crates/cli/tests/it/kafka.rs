//! A table of a real MariaDB, over a topic of a real Kafka, into Quire; skipped, saying so, where
//! one of them is not installed.

use crate::Quire;
use crate::broker::Broker;
use crate::kills::kill_again_and_again;
use crate::mariadb::documents;
use crate::mariadb_server::MariaDb;
use crate::serve::Server;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The files of two pipes: from the table into the topic, and from it into the collection.
fn pipes(quire: &Quire, server: &MariaDb, broker: &Broker, collection: &str) {
    let topic = format!(
        "url = \"kafka://127.0.0.1:{}\"\ntopic = \"rows\"",
        broker.port
    );
    quire.file("password", "secret\n");
    quire.file(
        "feed.toml",
        format!(
            "[source]\ntype = \"mysql\"\nurl = \"mysql://127.0.0.1:{}\"\ntable = \"app.t\"\n\
             user = \"repl\"\npassword_file = \"password\"\n\
             [[sink]]\nname = \"topic\"\nkind = \"kafka\"\n{topic}\n",
            server.port
        ),
    );
    quire.file(
        "index.toml",
        format!(
            "[source]\ntype = \"kafka\"\n{topic}\n[[sink]]\nname = \"search\"\n\
             kind = \"quire\"\nurl = \"{collection}\"\nindex = \"t\"\n\
             [[sink]]\nname = \"files\"\nkind = \"ndjson\"\ndirectory = \"files\"\n"
        ),
    );
}

#[test]
fn quire_equals_the_table_behind_a_topic_though_the_pipes_and_the_broker_are_killed() {
    let Some(mut broker) = Broker::start() else {
        return;
    };
    let Some(server) = MariaDb::start() else {
        return;
    };
    let quire = Quire::new();
    let served = Server::start_of(&quire, "served", &[]);
    let collection = format!("http://{}", served.address);
    pipes(&quire, &server, &broker, &collection);
    server.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, s VARCHAR(2000)); \
         INSERT INTO t SELECT seq, 0, REPEAT('x', 600) FROM seq_1_to_4000",
    );
    let words = ["has no topic \"rows\""];
    quire.fails(&["pipe", "run", "feed.toml", "--once"], 1, &words);
    let compact = ["--config", "cleanup.policy=compact"];
    broker.topics(
        &[
            &["--create", "--topic", "rows", "--partitions", "3"],
            &compact[..],
        ]
        .concat(),
    );
    let checked = quire.ok(&["pipe", "check", "feed.toml"]);
    assert!(
        checked.contains("topic rows, partitions: 3: ok"),
        "{checked}"
    );

    let client = server.client();
    let write = |stop: &AtomicBool| client.change_rows(stop, Duration::from_millis(20));
    kill_again_and_again(&quire, &["feed.toml", "index.toml"], 12, write, |kill| {
        if kill % 4 == 2 {
            broker.kill();
            broker.run();
        }
    });
    quire.ok(&["pipe", "run", "feed.toml", "--once"]);
    quire.ok(&["pipe", "run", "index.toml", "--once"]);
    let rows = server.sql("SELECT id, v, HEX(s) FROM t");
    let rows: BTreeSet<String> = rows.lines().map(str::to_owned).collect();
    assert!(rows.len() > 1_000, "{}", rows.len());
    let files = documents(&quire.path("files"));
    let files: BTreeSet<String> = files.values().map(row).collect();
    assert_eq!(files.symmetric_difference(&rows).next(), None);
    let scanned = quire.ok(&["scan", &collection, "t"]);
    let scanned = scanned
        .lines()
        .map(|line| row(&serde_json::from_str(line).unwrap()));
    let scanned: BTreeSet<String> = scanned.collect();
    served.stop("TERM");
    assert_eq!(scanned.symmetric_difference(&rows).next(), None);
}

/// A document of the table as the line of its row, its text as `HEX` shows it.
pub(super) fn row(document: &Value) -> String {
    let mut row = format!("{}\t{}\t", document["id"], document["v"]);
    for byte in document["s"].as_str().unwrap().bytes() {
        write!(row, "{byte:02X}").unwrap();
    }
    row
}
