//! All parts at once, on real servers: a table of MariaDB, into Quire and a topic of Kafka, from
//! both into collections and search clusters, with faults of the network and kills, reindexes, a
//! switch and a rollback meanwhile. Each document is compared at each sink.
//!
//! MariaDB must be there, or the test is skipped. Kafka is used if KAFKA_HOME is set, and search
//! clusters if SEARCH_URLS names some, between commas. Texts are of arXiv where that corpus is
//! there.

use crate::broker::Broker;
use crate::kafka::row;
use crate::kills::{kill_again_and_again, run};
use crate::mariadb::documents;
use crate::mariadb_server::MariaDb;
use crate::proxy::{Network, Proxy};
use crate::serve::Server;
use crate::{Quire, corpus};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::SocketAddr;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const FAULTS: [Network; 6] = [
    Network::Slow(Duration::from_millis(15)),
    Network::Truncates(3_000),
    Network::Stalls,
    Network::Refuses,
    Network::Truncates(90_000),
    Network::Slow(Duration::from_millis(2)),
];

/// A server that is killed and run again, behind a proxy that has one address for all of them.
struct Restarted<'q> {
    quire: &'q Quire,
    folder: &'static str,
    server: Option<Server>,
    proxy: Proxy,
}

impl<'q> Restarted<'q> {
    fn start(quire: &'q Quire, folder: &'static str) -> Restarted<'q> {
        let server = Server::start_of(quire, folder, &[]);
        let proxy = Proxy::start(address(&server));
        Restarted {
            quire,
            folder,
            server: Some(server),
            proxy,
        }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.proxy.port)
    }

    fn kill_and_run(&mut self) {
        self.server.take().unwrap().stop("KILL");
        let server = Server::start_of(self.quire, self.folder, &[]);
        self.proxy.retarget(address(&server));
        self.server = Some(server);
    }

    fn rows(&self, collection: &str) -> BTreeSet<String> {
        let url = format!("http://{}", self.server.as_ref().unwrap().address);
        let scanned = self.quire.ok(&["scan", &url, collection]);
        let documents = scanned
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        documents.map(|document: Value| row(&document)).collect()
    }
}

fn address(server: &Server) -> SocketAddr {
    server.address.parse().unwrap()
}

/// Calls a server over HTTP by curl, and gives its JSON.
fn http(url: &str, more: &[&str]) -> Value {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "-H", "Content-Type: application/json", url])
        .args(more);
    let done = curl.output().unwrap();
    assert!(done.status.success(), "{url}: {done:?}");
    serde_json::from_slice(&done.stdout).unwrap()
}

/// All documents of an index of a search cluster.
fn search(url: &str, index: &str) -> BTreeSet<String> {
    http(&format!("{url}/{index}/_refresh"), &["-X", "POST"]);
    let found = http(&format!("{url}/{index}/_search?size=10000"), &[]);
    let hits = found["hits"]["hits"].as_array().unwrap();
    assert!(hits.len() < 10_000, "more than a search gives");
    hits.iter().map(|hit| row(&hit["_source"])).collect()
}

/// Makes the table, of papers of arXiv where the corpus is there, and of others.
fn load(server: &MariaDb) {
    server.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, s TEXT); \
         INSERT INTO t SELECT seq, 0, REPEAT('é', 600) FROM seq_1_to_3000",
    );
    let Some(papers) = corpus("arxiv-databases.ndjson") else {
        return;
    };
    let mut sql = String::new();
    for (paper, id) in std::fs::read_to_string(papers).unwrap().lines().zip(1..) {
        let text = paper.replace('\\', "\\\\").replace('\'', "\\'");
        writeln!(sql, "UPDATE t SET s = '{text}' WHERE id = {id};").unwrap();
    }
    server.sql(&sql);
}

/// Says that it is over, also if the test fails.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Faults of the network, one after another, until it is to stop; then it is fine.
fn misbehave(proxies: &[&Proxy], stop: &AtomicBool) {
    let mut turn = 0;
    while !stop.load(Ordering::Relaxed) {
        let proxy = proxies[turn % proxies.len()];
        proxy.set(FAULTS[turn / proxies.len() % FAULTS.len()]);
        thread::sleep(Duration::from_millis(300));
        if turn % 3 == 0 {
            proxy.cut();
        }
        proxy.set(Network::Fine);
        thread::sleep(Duration::from_millis(100));
        turn += 1;
    }
}

#[test]
fn every_sink_equals_the_table_through_faults_kills_reindexes_and_a_rollback() {
    let Some(server) = MariaDb::start() else {
        return;
    };
    let mut broker = Broker::start();
    let clusters = std::env::var("SEARCH_URLS").unwrap_or_default();
    let clusters: Vec<&str> = clusters.split(',').filter(|url| !url.is_empty()).collect();
    let quire = Quire::new();
    load(&server);
    let database = Proxy::start(SocketAddr::from(([127, 0, 0, 1], server.port)));
    let mut hub = Restarted::start(&quire, "hub");
    let mut copies = Restarted::start(&quire, "copies");

    // The table into the hub, and into the topic.
    quire.file("password", "secret\n");
    let mut feed = format!(
        "[source]\ntype = \"mysql\"\nurl = \"mysql://127.0.0.1:{}\"\ntable = \"app.t\"\n\
         user = \"repl\"\npassword_file = \"password\"\ntimeout_s = 3\n\
         [[sink]]\nname = \"hub\"\nkind = \"quire\"\nurl = \"{}\"\nindex = \"t\"\ntimeout_s = 3\n",
        database.port,
        hub.url()
    );
    if let Some(broker) = &broker {
        broker.topics(&[
            "--create",
            "--topic",
            "rows",
            "--partitions",
            "3",
            "--config",
            "cleanup.policy=compact",
        ]);
        let url = format!("kafka://127.0.0.1:{}", broker.tls_port);
        feed += &format!(
            "[[sink]]\nname = \"topic\"\nkind = \"kafka\"\nurl = \"{url}\"\ntopic = \"rows\"\n\
             ca = \"{}\"\nsasl = \"plain\"\nuser = \"quire\"\npassword_file = \"password\"\n\
             timeout_s = 5\n",
            broker.certificate().display()
        );
        let topic = format!(
            "[source]\ntype = \"kafka\"\nurl = \"kafka://127.0.0.1:{}\"\ntopic = \"rows\"\n\
             user = \"quire\"\npassword_file = \"password\"\ntimeout_s = 5\n\
             [[sink]]\nname = \"files\"\nkind = \"ndjson\"\ndirectory = \"files\"\n",
            broker.login_port
        );
        quire.file("topic.toml", topic);
    }
    quire.file("feed.toml", feed);
    quire.ok(&["pipe", "run", "feed.toml", "--once"]);

    // The hub into a collection behind an alias, and into each cluster.
    let mut urls = vec![("quire", copies.url())];
    urls.extend(clusters.iter().map(|url| ("opensearch", (*url).to_owned())));
    let index = format!("rows{}", std::process::id());
    let mut files: Vec<String> = Vec::new();
    for (number, (kind, url)) in urls.iter().enumerate() {
        let name = format!("sink{number}");
        let text = format!(
            "[source]\nurl = \"{}\"\ncollection = \"t\"\ntimeout_s = 3\n\
             [[sink]]\nname = \"{name}\"\nkind = \"{kind}\"\nurl = \"{url}\"\nindex = \"{index}\"\n\
             timeout_s = 5\n[reindex]\nreplicas = 0\n",
            hub.url()
        );
        let file = format!("{name}.toml");
        quire.file(&file, text);
        quire.ok(&["reindex", "run", &file]);
        quire.ok(&["reindex", "switch", &file]);
        quire.ok(&["reindex", "clean", &file, "--drop"]);
        files.push(file);
    }
    let mut pipes: Vec<&str> = vec!["feed.toml"];
    pipes.extend(broker.as_ref().map(|_| "topic.toml"));
    pipes.extend(files.iter().map(String::as_str));

    // Kills of all of them, one after another, while the network has faults.
    let client = server.client();
    let write = |stop: &AtomicBool| client.change_rows(stop, Duration::from_millis(20));
    let is_over = AtomicBool::new(false);
    let (hub_url, copies_url) = (hub.url(), copies.url());
    kill_again_and_again(&quire, &pipes, 12, write, |kill| {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| misbehave(&[&database, &hub.proxy, &copies.proxy], &stop));
            thread::sleep(Duration::from_millis(700));
            stop.store(true, Ordering::Relaxed);
        });
        match (kill % 4, &mut broker) {
            (0, _) => hub.kill_and_run(),
            (1, _) => copies.kill_and_run(),
            (2, Some(broker)) => {
                broker.kill();
                broker.run();
            }
            _ => {}
        }
    });
    assert_eq!((hub.url(), copies.url()), (hub_url, copies_url));

    // Reindexes beside all of it.
    thread::scope(|scope| {
        let over = Over(&is_over);
        scope.spawn(|| write(&is_over));
        scope.spawn(|| misbehave(&[&database, &hub.proxy, &copies.proxy], &is_over));
        let running: Vec<Child> = pipes.iter().map(|file| run(&quire, file)).collect();
        for file in &files {
            quire.ok(&["reindex", "run", file]);
            quire.ok(&["reindex", "switch", file]);
            quire.ok(&["reindex", "rollback", file]);
            quire.ok(&["reindex", "switch", file]);
            quire.ok(&["reindex", "clean", file, "--drop"]);
        }
        drop(over);
        for mut child in running {
            assert!(
                child.try_wait().unwrap().is_none(),
                "a pipe ended by itself"
            );
            child.kill().unwrap();
            child.wait().unwrap();
        }
    });

    // All equal the table, and each other.
    for file in &pipes {
        quire.ok(&["pipe", "run", file, "--once"]);
    }
    let rows = server.sql("SELECT id, v, HEX(s) FROM t");
    let rows: BTreeSet<String> = rows.lines().map(str::to_owned).collect();
    assert!(rows.len() > 1_000, "{}", rows.len());
    let mut sinks = vec![
        ("the hub", hub.rows("t")),
        ("the copies", copies.rows(&index)),
    ];
    if broker.is_some() {
        let files = documents(&quire.path("files"));
        sinks.push(("the files", files.values().map(row).collect()));
    }
    sinks.extend(clusters.iter().map(|url| (*url, search(url, &index))));
    for (name, found) in sinks {
        let differ: Vec<_> = found.symmetric_difference(&rows).take(5).collect();
        assert!(differ.is_empty(), "{name}: {differ:?}");
    }
    for url in clusters {
        http(&format!("{url}/{index}-*"), &["-X", "DELETE"]);
    }
}
