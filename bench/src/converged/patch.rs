//! One field of documents of 100 fields and 2 KB updated, every field indexed: Quire by a patch,
//! OpenSearch by a partial update in bulk, Lucene by deleting the document and adding it anew.

use super::documents::{Flat, updated};
use super::opensearch::{Node, mapping, push_index};
use super::quire::{BATCH, Quire, process_cpu_nanos};
use super::{Engine, Report, Setup};
use crate::Result;
use crate::adverts::mix;
use quiredb::query::{field, find};
use quiredb::{Document, Key, Write as Update};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::Command;
use std::time::Instant;

/// Fields of a document.
const FIELDS: u64 = 100;

/// Updates that are sent together.
const UPDATES: usize = 100;

/// A document after update `version`; 0 is before any.
fn document(id: u64, version: u64) -> String {
    let mut text = format!("{{\"_id\":\"{id}\",\"f0\":{version}");
    for number in 1..FIELDS {
        let random = mix(id * FIELDS + number);
        // Some fields have few values, some many.
        let value = random % 10_u64.pow(1 + number as u32 % 6);
        let _ = match number % 2 {
            0 => write!(text, ",\"f{number}\":{value}"),
            _ => write!(text, ",\"f{number}\":\"value-{value:08}\""),
        };
    }
    text.push('}');
    text
}

fn patch(version: u64) -> String {
    format!("{{\"f0\":{version}}}")
}

fn versions(setup: &Setup) -> std::ops::RangeInclusive<u64> {
    1..=setup.wide / 2
}

/// Writes documents and updates for engines in other processes.
pub(super) fn prepare(setup: &Setup) -> Result<()> {
    let mut flat = Flat::default();
    flat.see(&serde_json::from_str(&document(0, 0))?);
    let mut out = BufWriter::new(File::create(setup.file("flat.tsv"))?);
    flat.write_head(&mut out)?;
    for id in 0..setup.wide {
        flat.write(&serde_json::from_str(&document(id, 0))?, &mut out)?;
    }
    out.flush()?;
    let mut out = BufWriter::new(File::create(setup.file("updates.tsv"))?);
    for version in versions(setup) {
        let after = document(updated(version, setup.wide), version);
        flat.write(&serde_json::from_str(&after)?, &mut out)?;
    }
    Ok(out.flush()?)
}

pub(super) fn lucene(setup: &Setup) -> Command {
    let mut java = setup.java("Update");
    java.args([
        setup.file("flat.tsv"),
        setup.file("updates.tsv"),
        setup.engine_dir(),
    ]);
    java
}

pub(super) fn run(engine: Engine, setup: &Setup) -> Result<Report> {
    match engine {
        Engine::Opensearch => opensearch(setup),
        _ => quire(setup),
    }
}

/// Adds the cost of updates that took `(wall, CPU)` seconds.
fn add(report: &mut Report, count: u64, (wall, cpu): (f64, f64)) {
    report.add("CPU an update", "CPU µs", cpu * 1e6 / count as f64);
    report.add("updates by CPU", "updates/s", count as f64 / cpu);
    report.add("updates by the clock", "updates/s", count as f64 / wall);
}

fn quire(setup: &Setup) -> Result<Report> {
    let quire = Quire::create(setup, 2, "\"all\"")?;
    let mut report = Report::default();
    let cpu = process_cpu_nanos();
    quire.load((0..setup.wide).map(|id| Ok(document(id, 0))))?;
    quire.settle()?;
    let cpu = (process_cpu_nanos() - cpu) as f64 / 1e3;
    report.add("loaded", "CPU µs", cpu / setup.wide as f64);
    quire.rest()?;
    let (cpu, begun) = (process_cpu_nanos(), Instant::now());
    let all: Vec<u64> = versions(setup).collect();
    for versions in all.chunks(UPDATES) {
        let writes = versions.iter().map(|version| {
            let key = Key::parse(&updated(*version, setup.wide).to_string())?;
            let patch = Document::from_json(patch(*version).as_bytes())?;
            Ok(Update::patch(key, patch))
        });
        quire.write(writes.collect::<Result<_>>()?)?;
    }
    quire.settle()?;
    let cpu = (process_cpu_nanos() - cpu) as f64 / 1e9;
    add(
        &mut report,
        all.len() as u64,
        (begun.elapsed().as_secs_f64(), cpu),
    );
    quire.sizes(&mut report)?;
    let changed = find(field("f0").gt(0)).limit(0).with_count();
    let changed = quire.documents.query(changed)?.count.unwrap_or(0);
    report.answer("changed documents", vec![changed]);
    quire.database.close()?;
    Ok(report)
}

fn opensearch(setup: &Setup) -> Result<Report> {
    let mut node = Node::start(setup)?;
    let mut report = Report::default();
    node.create("wide", &mapping(None))?;
    let cpu = node.cpu_seconds()?;
    let mut body = String::new();
    for id in 0..setup.wide {
        push_index(&mut body, &document(id, 0))?;
        if (id + 1) % BATCH as u64 == 0 || id + 1 == setup.wide {
            node.bulk("wide", &body)?;
            body.clear();
        }
    }
    node.client.json("POST", "/wide/_flush", b"")?;
    let cpu = node.cpu_seconds()? - cpu;
    report.add("loaded", "CPU µs", cpu * 1e6 / setup.wide as f64);
    let (cpu, begun) = (node.cpu_seconds()?, Instant::now());
    let all: Vec<u64> = versions(setup).collect();
    for versions in all.chunks(UPDATES) {
        body.clear();
        for version in versions {
            let id = updated(*version, setup.wide);
            let _ = writeln!(body, "{{\"update\":{{\"_id\":\"{id}\"}}}}");
            let _ = writeln!(body, "{{\"doc\":{}}}", patch(*version));
        }
        node.bulk("wide", &body)?;
    }
    node.client.json("POST", "/wide/_flush", b"")?;
    node.client.json("POST", "/wide/_refresh", b"")?;
    let cpu = node.cpu_seconds()? - cpu;
    add(
        &mut report,
        all.len() as u64,
        (begun.elapsed().as_secs_f64(), cpu),
    );
    let query = br#"{"query":{"range":{"f0":{"gt":0}}}}"#;
    let changed = node.client.json("POST", "/wide/_count", query)?;
    report.answer(
        "changed documents",
        vec![changed["count"].as_u64().ok_or("no count")?],
    );
    report.add("all on disk", "MB", node.store_bytes("wide")? as f64 / 1e6);
    Ok(report)
}
