//! Loading documents with every field indexed: generated adverts, and papers of arXiv.
//!
//! Quire and OpenSearch take JSON and keep the documents; Lucene and Tantivy take fields that were
//! taken apart before, and keep none. Measured is until the index has everything and it is on disk.

use super::documents::{Adverts, Flat};
use super::opensearch::{Node, mapping};
use super::quire::{ALL_BUT_TEXT, Quire};
use super::{Engine, Part, Report, Setup};
use crate::Result;
use crate::measure::Watch;
use quiredb::query::Aggregate;
use quiredb::query::{field, find, find_all};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Adds the rate of a load of `(wall, CPU)` seconds.
pub(super) fn report_rate(report: &mut Report, count: u64, (wall, cpu): (f64, f64)) {
    report.add("CPU a document", "CPU µs", cpu * 1e6 / count as f64);
    report.add("documents by CPU", "documents/s", count as f64 / cpu);
    report.add("documents by the clock", "documents/s", count as f64 / wall);
}

pub(super) fn prepare_adverts(setup: &Setup) -> Result<()> {
    let mut adverts = Adverts::default();
    let mut out = BufWriter::new(File::create(setup.file("documents.ndjson"))?);
    for id in 0..setup.count {
        writeln!(out, "{}", adverts.json(id, 0))?;
    }
    out.flush()?;
    flatten(setup, Some("text"))
}

/// Unpacks papers; as many as there are, at most as many as documents are wanted.
pub(super) fn prepare_papers(setup: &Setup) -> Result<()> {
    let papers = setup
        .papers
        .as_deref()
        .ok_or("no file of papers: --papers FILE")?;
    let mut lines = Lines::open(papers)?;
    let mut out = BufWriter::new(File::create(setup.file("documents.ndjson"))?);
    for line in lines.by_ref().take(usize::try_from(setup.count)?) {
        // Compact, as a client would send it.
        let document: serde_json::Value = serde_json::from_str(&line?)?;
        writeln!(out, "{document}")?;
    }
    out.flush()?;
    flatten(setup, None)
}

fn flatten(setup: &Setup, left_out: Option<&'static str>) -> Result<()> {
    let documents = setup.file("documents.ndjson");
    let mut flat = Flat::new(left_out, None);
    for line in Lines::open(&documents)? {
        flat.see(&serde_json::from_str(&line?)?);
    }
    let mut out = BufWriter::new(File::create(setup.file("flat.tsv"))?);
    flat.write_head(&mut out)?;
    for line in Lines::open(&documents)? {
        flat.write(&serde_json::from_str(&line?)?, &mut out)?;
    }
    Ok(out.flush()?)
}

/// The lines of a file, packed by zstd or not.
struct Lines(Box<dyn BufRead>);

impl Lines {
    fn open(path: &Path) -> Result<Lines> {
        let reader: Box<dyn std::io::Read> = match path.extension() {
            Some(end) if end == "zst" => {
                let mut zstd = Command::new("zstd");
                let child = zstd.arg("-dcq").arg(path).stdout(Stdio::piped()).spawn()?;
                Box::new(child.stdout.ok_or("zstd says nothing")?)
            }
            _ => Box::new(File::open(path)?),
        };
        Ok(Lines(Box::new(BufReader::with_capacity(1 << 20, reader))))
    }
}

impl Iterator for Lines {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Result<String>> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => {
                line.truncate(line.trim_end().len());
                Some(Ok(line))
            }
            Err(error) => Some(Err(error.into())),
        }
    }
}

pub(super) fn lucene(setup: &Setup) -> Command {
    let mut java = setup.java("Ingest");
    java.arg(setup.file("flat.tsv")).arg(setup.engine_dir());
    java
}

pub(super) fn run(part: Part, engine: Engine, setup: &Setup) -> Result<Report> {
    match engine {
        Engine::Quire if part == Part::IngestAdverts => quire(setup, ALL_BUT_TEXT),
        Engine::Quire => quire(setup, "\"all\""),
        Engine::QuireNone => quire(setup, "\"none\""),
        #[cfg(feature = "peers")]
        Engine::Tantivy => super::tantivy::ingest(setup),
        Engine::Opensearch => opensearch(part, setup),
        _ => Err("built without `--features peers`".into()),
    }
}

fn quire(setup: &Setup, index: &str) -> Result<Report> {
    let quire = Quire::create(setup, 2, index)?;
    let watch = Watch::start()?;
    let count = quire.load(Lines::open(&setup.file("documents.ndjson"))?)?;
    let written = watch.stop()?;
    quire.settle()?;
    let mut report = Report::default();
    report_rate(&mut report, count, watch.stop()?);
    report.add(
        "written, not settled",
        "documents/s",
        count as f64 / written.0,
    );
    quire.rest()?;
    let rested = watch.stop()?.1;
    report.add(
        "CPU a document, merges at rest",
        "CPU µs",
        rested * 1e6 / count as f64,
    );
    quire.sizes(&mut report)?;
    report.answer("documents", vec![quire.documents.count()?]);
    if index != "\"none\"" {
        // What the index holds, so that a load that left out something is no fast load.
        let page = quire
            .documents
            .query(find(field("_id").exists()).limit(0).with_count())?;
        let all = quire
            .documents
            .query(find_all().limit(0).aggregate("n", Aggregate::count()))?;
        if page.count != Some(count) || all.aggregates.is_empty() {
            return Err("the index does not have every document".into());
        }
    }
    quire.database.close()?;
    Ok(report)
}

fn opensearch(part: Part, setup: &Setup) -> Result<Report> {
    let mut node = Node::start(setup)?;
    let documents = setup.file("documents.ndjson");
    // The first documents are for the compiler.
    for (name, take) in [("warm", 30_000), ("documents", u64::MAX)] {
        node.create(
            name,
            &mapping((part == Part::IngestAdverts).then_some("text")),
        )?;
        let begun = (std::time::Instant::now(), node.cpu_seconds()?);
        let mut count = 0;
        let mut body = String::new();
        for line in Lines::open(&documents)?.take(usize::try_from(take)?) {
            super::opensearch::push_index(&mut body, &line?)?;
            count += 1;
            if count % super::quire::BATCH as u64 == 0 {
                node.bulk(name, &body)?;
                body.clear();
            }
        }
        if !body.is_empty() {
            node.bulk(name, &body)?;
        }
        node.client.json("POST", &format!("/{name}/_flush"), b"")?;
        node.client
            .json("POST", &format!("/{name}/_refresh"), b"")?;
        if name == "documents" {
            let mut report = Report::default();
            let wall = begun.0.elapsed().as_secs_f64();
            report_rate(&mut report, count, (wall, node.cpu_seconds()? - begun.1));
            report.answer("documents", vec![node.count(name)?]);
            report.add("all on disk", "MB", node.store_bytes(name)? as f64 / 1e6);
            return Ok(report);
        }
    }
    Err("nothing was loaded".into())
}
