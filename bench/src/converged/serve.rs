//! Questions over HTTP, on one connection: `quire serve` beside OpenSearch, without and with
//! updates on another connection.

use super::documents::{Adverts, updated};
use super::opensearch::{Node, bulk, mapping, push_index};
use super::quire::BATCH;
use super::{Engine, Report, Setup};
use crate::Result;
use crate::adverts::Random;
use crate::http::Client;
use crate::measure::Latencies;
use crate::server::Server;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// The collection.
const NAME: &str = "cars";

/// Updates in a bulk body.
const UPDATES: u64 = 100;

/// The server under test.
enum Tested {
    Quire(Server),
    Opensearch(Node),
}

impl Tested {
    fn address(&self) -> SocketAddr {
        match self {
            Tested::Quire(server) => server.address,
            Tested::Opensearch(node) => node.address(),
        }
    }

    fn cpu_seconds(&self) -> Result<f64> {
        match self {
            Tested::Quire(server) => server.cpu_seconds(),
            Tested::Opensearch(node) => node.cpu_seconds(),
        }
    }
}

/// A kind of question: its name, its path and the body of one drawn at random.
type Kind = (&'static str, &'static str, fn(&mut Random) -> Value);

fn mark(random: &mut Random) -> String {
    format!("mark-{}", random.below(30))
}

const KINDS: [Kind; 6] = [
    (
        "count by value",
        "_count",
        |random| json!({"query": {"term": {"region": format!("region-{}", random.below(1024))}}}),
    ),
    ("conjunction", "_count", |random| {
        let filter = json!([
            {"term": {"mark": mark(random)}},
            {"term": {"fuel": format!("fuel-{}", random.below(5))}},
            {"term": {"colour": format!("colour-{}", random.below(12))}},
        ]);
        json!({"query": {"bool": {"filter": filter}}})
    }),
    ("range", "_count", |random| {
        let low = 500 + 100 * random.below(150);
        json!({"query": {"range": {"price": {"gte": low, "lte": low + 3000}}}})
    }),
    ("newest 10", "_search", |random| {
        let filter = json!([{"term": {"mark": mark(random)}}]);
        json!({"query": {"bool": {"filter": filter}}, "sort": [{"added": "desc"}], "size": 10})
    }),
    ("terms aggregation", "_search", |random| {
        let year = 1995 + random.below(25);
        let filter = json!([{"range": {"year": {"gte": year, "lte": year + 6}}}]);
        let aggregations = json!({"found": {"terms": {"field": "mark", "size": 5}}});
        json!({"query": {"bool": {"filter": filter}}, "aggs": aggregations, "size": 0})
    }),
    ("in a list and not", "_count", |random| {
        let marks: Vec<_> = (0..5).map(|_| mark(random)).collect();
        let colour = format!("colour-{}", random.below(12));
        json!({"query": {"bool": {"filter": [{"terms": {"mark": marks}}],
            "must_not": [{"term": {"colour": colour}}]}}})
    }),
];

/// A question that takes long: all documents are ordered and grouped.
const LONG: Kind = ("long", "_search", |random| {
    let aggregations = json!({
        "regions": {"terms": {"field": "region", "size": 1024}},
        "marks": {"terms": {"field": "mark"}, "aggs": {"price": {"avg": {"field": "price"}}}},
    });
    let filter = json!([{"range": {"price": {"gte": 500 + random.below(100)}}}]);
    json!({"query": {"bool": {"filter": filter}}, "size": 100, "aggs": aggregations,
        "sort": [{"colour": "asc"}, {"price": "desc"}, {"added": "asc"}]})
});

/// Connections that send it, each one request after the other.
const LONG_CLIENTS: usize = 4;

/// What an answer says, as a number: a count, or the ids of the hits, or values and counts.
fn meaning(answer: &Value) -> u64 {
    if let Some(count) = answer["count"].as_u64() {
        return count;
    }
    let mut text = String::new();
    let hits = answer["hits"]["hits"].as_array().into_iter().flatten();
    hits.for_each(|hit| text += &format!("{} ", hit["_id"]));
    let buckets = &answer["aggregations"]["found"]["buckets"];
    for bucket in buckets.as_array().into_iter().flatten() {
        text += &format!("{}={} ", bucket["key"], bucket["doc_count"]);
    }
    xxh3_64(text.as_bytes())
}

pub(super) fn run(engine: Engine, setup: &Setup) -> Result<Report> {
    let mut report = Report::default();
    let mut adverts = Adverts::default();
    let (tested, settings) = match engine {
        Engine::Opensearch => (Tested::Opensearch(Node::start(setup)?), mapping(None)),
        _ => {
            let mut command = Command::new(&setup.quire);
            command.args(["serve", "--create"]);
            command.arg(setup.engine_dir().join("quire"));
            let memory = format!("{}MiB", setup.memory_mib);
            command.args(["--memory", &memory]);
            let settings = json!({"number_of_shards": 2, "quire.index": "all"});
            let settings = json!({"settings": settings}).to_string();
            (
                Tested::Quire(Server::start_quire(&mut command, "listening")?),
                settings,
            )
        }
    };
    let mut client = Client::connect(tested.address())?;
    client.json("PUT", &format!("/{NAME}"), settings.as_bytes())?;
    let cpu = tested.cpu_seconds()?;
    let mut body = String::new();
    for id in 0..setup.count {
        push_index(&mut body, adverts.json(id, 0))?;
        if (id + 1) % BATCH as u64 == 0 || id + 1 == setup.count {
            bulk(&mut client, NAME, &body)?;
            body.clear();
        }
    }
    level(&tested, &mut client)?;
    let cpu = tested.cpu_seconds()? - cpu;
    report.add("loaded", "CPU µs", cpu * 1e6 / setup.count as f64);
    rest(&tested)?;
    // The first questions of all kinds are for the compiler.
    for kind in &KINDS {
        queried(&mut client, kind, setup, None)?;
    }
    for kind in &KINDS {
        report.answer(
            format!("{}, before", kind.0),
            answers(&mut client, kind, setup)?,
        );
        queried(&mut client, kind, setup, None)?;
        let cpu = tested.cpu_seconds()?;
        let latencies = queried(&mut client, kind, setup, None)?;
        let cpu = tested.cpu_seconds()? - cpu;
        report.add(kind.0, "CPU µs", cpu * 1e6 / latencies.len() as f64);
        let [p50, p99] = latencies.micros([0.5, 0.99]);
        report.add(format!("{}, p50", kind.0), "ms", p50 / 1e3);
        report.add(format!("{}, p99", kind.0), "ms", p99 / 1e3);
    }
    let mut version = 1;
    let each = (setup.rate as f64 * setup.seconds) as u64;
    for kind in &KINDS {
        let (is_done, address, cpu) = (
            AtomicBool::new(false),
            tested.address(),
            tested.cpu_seconds()?,
        );
        let begun = Instant::now();
        let latencies = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let written = update(address, setup, version..version + each);
                is_done.store(true, Ordering::Relaxed);
                written
            });
            let latencies = queried(&mut client, kind, setup, Some(&is_done));
            writer.join().map_err(|_| "the writer panicked")??;
            latencies
        })?;
        version += each;
        let cores = (tested.cpu_seconds()? - cpu) / begun.elapsed().as_secs_f64();
        report.add(
            format!("{}, beside updates, server", kind.0),
            "cores",
            cores,
        );
        report.add(
            format!("{}, beside updates, executed", kind.0),
            "requests/s",
            latencies.len() as f64 / begun.elapsed().as_secs_f64(),
        );
        let [p50, p99] = latencies.micros([0.5, 0.99]);
        report.add(format!("{}, beside updates, p50", kind.0), "ms", p50 / 1e3);
        report.add(format!("{}, beside updates, p99", kind.0), "ms", p99 / 1e3);
    }
    let [count, ..] = &KINDS;
    let is_done = AtomicBool::new(false);
    let (latencies, long) = std::thread::scope(|scope| {
        let long = || -> Result<Latencies> {
            let mut client = Client::connect(tested.address())?;
            queried(&mut client, &LONG, setup, Some(&is_done))
        };
        let long: Vec<_> = (0..LONG_CLIENTS).map(|_| scope.spawn(long)).collect();
        let latencies = queried(&mut client, count, setup, None);
        is_done.store(true, Ordering::Relaxed);
        let mut executed = 0;
        for one in long {
            executed += one.join().map_err(|_| "a client panicked")??.len();
        }
        Ok::<_, crate::Error>((latencies?, executed))
    })?;
    let name = format!("{}, beside {LONG_CLIENTS} long ones", count.0);
    let count = latencies.len();
    let [p50, p99] = latencies.micros([0.5, 0.99]);
    report.add(format!("{name}, p50"), "ms", p50 / 1e3);
    report.add(format!("{name}, p99"), "ms", p99 / 1e3);
    report.add(format!("{name}, executed"), "requests", count as f64);
    report.add(format!("{name}, long ones"), "requests", long as f64);
    level(&tested, &mut client)?;
    for kind in &KINDS {
        report.answer(
            format!("{}, after", kind.0),
            answers(&mut client, kind, setup)?,
        );
    }
    match tested {
        Tested::Quire(server) => server.stop()?,
        Tested::Opensearch(node) => drop(node),
    }
    Ok(report)
}

fn execute(client: &mut Client, kind: &Kind, random: &mut Random) -> Result<Vec<u8>> {
    let body = (kind.2)(random).to_string();
    let path = format!("/{NAME}/{}", kind.1);
    match client.request("POST", &path, body.as_bytes())? {
        (200, answer) => Ok(answer),
        (status, answer) => Err(format!("{status}: {}", String::from_utf8_lossy(&answer)).into()),
    }
}

fn answers(client: &mut Client, kind: &Kind, setup: &Setup) -> Result<Vec<u64>> {
    let mut random = Random::new(11);
    let answers = (0..setup.questions.min(50)).map(|_| {
        let answer = execute(client, kind, &mut random)?;
        Ok(meaning(&serde_json::from_slice(&answer)?))
    });
    answers.collect()
}

/// Executes for some time, or until others are done.
fn queried(
    client: &mut Client,
    kind: &Kind,
    setup: &Setup,
    is_done: Option<&AtomicBool>,
) -> Result<Latencies> {
    let (mut latencies, mut random) = (Latencies::default(), Random::new(11));
    let end = Instant::now() + Duration::from_secs_f64(setup.seconds);
    let goes_on = || match is_done {
        Some(is_done) => !is_done.load(Ordering::Relaxed),
        None => Instant::now() < end,
    };
    while goes_on() || latencies.len() == 0 {
        if latencies.len() % setup.questions as usize == 0 {
            random = Random::new(11);
        }
        latencies.time(|| execute(client, kind, &mut random))?;
    }
    Ok(latencies)
}

/// Updates adverts at the fixed rate.
fn update(address: SocketAddr, setup: &Setup, versions: std::ops::Range<u64>) -> Result<()> {
    let mut client = Client::connect(address)?;
    let (mut adverts, begun) = (Adverts::default(), Instant::now());
    let mut body = String::new();
    for from in versions.clone().step_by(UPDATES as usize) {
        body.clear();
        for version in from..(from + UPDATES).min(versions.end) {
            let id = updated(version, setup.count);
            body += &format!("{{\"update\":{{\"_id\":\"{id}\"}}}}\n{{\"doc\":");
            body += adverts.patch(id, version);
            body += "}\n";
        }
        bulk(&mut client, NAME, &body)?;
        let due = (from + UPDATES - versions.start) as f64 / setup.rate as f64;
        std::thread::sleep(Duration::from_secs_f64(due).saturating_sub(begun.elapsed()));
    }
    Ok(())
}

/// Waits until every write is in the index.
fn level(tested: &Tested, client: &mut Client) -> Result<()> {
    client.json("POST", &format!("/{NAME}/_flush"), b"")?;
    client.json("POST", &format!("/{NAME}/_refresh"), b"")?;
    while let Tested::Quire(_) = tested {
        let stats = client.json("GET", "/_quire/stats", b"")?;
        let index = &stats["collections"][0]["index"];
        if index["complete"] == true && index["lag_records"] == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Waits until the server has come to rest.
fn rest(tested: &Tested) -> Result<()> {
    for _ in 0..100 {
        let before = tested.cpu_seconds()?;
        std::thread::sleep(Duration::from_millis(500));
        if tested.cpu_seconds()? - before < 0.05 {
            break;
        }
    }
    Ok(())
}
