//! The four kinds of questions of `snapshot-cars` about adverts in a live collection: without
//! updates, then while one of a hundred adverts is updated at a fixed rate. The answers are
//! compared before and after.

use super::answers::{self, KINDS, execute, ready};
use super::documents::{Adverts, Flat, updated};
use super::quire::{ALL_BUT_TEXT, Quire, process_cpu_nanos};
use super::{Engine, Report, Setup};
use crate::Result;
use crate::measure::{Latencies, thread_cpu_nanos};
use quiredb::query::Prepared;
use quiredb::{Document, Key, Write as Update};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Updates that are written together.
const UPDATES: u64 = 10;

/// How long a kind of question is executed to warm up, and then to be measured.
const SECONDS: f64 = 2.0;

/// Updates while each kind is executed.
fn updates(setup: &Setup) -> u64 {
    (setup.count / 100 / KINDS.len() as u64).max((setup.rate as f64 * setup.seconds) as u64)
}

/// Writes the adverts, their updates and the questions for engines in other processes.
pub(super) fn prepare(setup: &Setup) -> Result<()> {
    let mut adverts = Adverts::default();
    let mut flat = Flat::new(None, Some("text"));
    flat.see(&serde_json::from_str(adverts.json(0, 0))?);
    let mut out = BufWriter::new(File::create(setup.file("flat.tsv"))?);
    flat.write_head(&mut out)?;
    for id in 0..setup.count {
        flat.write(&serde_json::from_str(adverts.json(id, 0))?, &mut out)?;
    }
    out.flush()?;
    let mut out = BufWriter::new(File::create(setup.file("updates.tsv"))?);
    for version in 1..=updates(setup) * KINDS.len() as u64 {
        let advert = adverts.json(updated(version, setup.count), version);
        flat.write(&serde_json::from_str(advert)?, &mut out)?;
    }
    out.flush()?;
    let mut out = BufWriter::new(File::create(setup.file("questions.tsv"))?);
    answers::write(&mut out, setup.questions)?;
    Ok(out.flush()?)
}

pub(super) fn lucene(engine: Engine, setup: &Setup) -> Command {
    let mut java = setup.java("Live");
    for file in ["flat.tsv", "updates.tsv", "questions.tsv"] {
        java.arg(setup.file(file));
    }
    java.arg(setup.engine_dir());
    java.arg(setup.rate.to_string());
    java.arg(if engine == Engine::LuceneFresh {
        "0"
    } else {
        "1000"
    });
    java.arg(SECONDS.to_string());
    java
}

pub(super) fn run(setup: &Setup) -> Result<Report> {
    let quire = Quire::create(setup, 2, ALL_BUT_TEXT)?;
    let mut report = Report::default();
    let mut adverts = Adverts::default();
    quire.load((0..setup.count).map(|id| Ok(adverts.json(id, 0).to_owned())))?;
    quire.settle()?;
    quire.rest()?;
    report.add("loaded", "CPU s", process_cpu_nanos() as f64 / 1e9);
    quire.sizes(&mut report)?;
    for (kind, name) in KINDS.iter().enumerate() {
        let ready = ready(kind, setup.questions)?;
        let given: Result<_> = ready
            .iter()
            .map(|query| execute(&quire.documents, query))
            .collect();
        report.answer(format!("{name}, before"), given?);
        let end = |seconds| Instant::now() + Duration::from_secs_f64(seconds);
        queried(&quire, &ready, end(SECONDS), |_| true)?;
        let cpu = process_cpu_nanos();
        let (latencies, _) = queried(&quire, &ready, end(SECONDS), |_| true)?;
        let cpu = process_cpu_nanos() - cpu;
        add(&mut report, name, latencies, cpu);
    }
    let next = AtomicU64::new(1);
    for (kind, name) in KINDS.iter().enumerate() {
        let ready = ready(kind, setup.questions)?;
        let last = updates(setup) * (kind as u64 + 1);
        let done = AtomicU64::new(0);
        let (latencies, cpu) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let result = write(&quire, setup, &next, last);
                done.store(1, Ordering::Relaxed);
                result
            });
            let end = Instant::now() + Duration::from_secs(3600);
            let still = |_: usize| done.load(Ordering::Relaxed) == 0;
            let executed = queried(&quire, &ready, end, still);
            writer.join().map_err(|_| "the writer panicked")??;
            executed
        })?;
        add(
            &mut report,
            &format!("{name}, beside updates"),
            latencies,
            cpu,
        );
    }
    quire.level()?;
    for (kind, name) in KINDS.iter().enumerate() {
        let ready = ready(kind, setup.questions)?;
        let given: Result<_> = ready
            .iter()
            .map(|query| execute(&quire.documents, query))
            .collect();
        report.answer(format!("{name}, after"), given?);
    }
    quire.database.close()?;
    Ok(report)
}

fn add(report: &mut Report, name: &str, latencies: Latencies, cpu_nanos: u64) {
    let count = latencies.len();
    let [p50, p99] = latencies.micros([0.5, 0.99]);
    report.add(name, "CPU µs", cpu_nanos as f64 / 1e3 / count.max(1) as f64);
    report.add(format!("{name}, p50"), "µs", p50);
    report.add(format!("{name}, p99"), "µs", p99);
}

/// Executes one question after another: how long each took, and the CPU time of this thread.
fn queried(
    quire: &Quire,
    ready: &[Prepared],
    end: Instant,
    still: impl Fn(usize) -> bool,
) -> Result<(Latencies, u64)> {
    let mut latencies = Latencies::default();
    let cpu = thread_cpu_nanos();
    while Instant::now() < end && still(latencies.len()) {
        let query = &ready[latencies.len() % ready.len()];
        latencies.time(|| execute(&quire.documents, query))?;
    }
    Ok((latencies, thread_cpu_nanos() - cpu))
}

/// Writes updates up to a version at the fixed rate.
fn write(quire: &Quire, setup: &Setup, next: &AtomicU64, last: u64) -> Result<()> {
    let mut adverts = Adverts::default();
    let (begun, first) = (Instant::now(), next.load(Ordering::Relaxed));
    let mut version = first;
    while version <= last {
        let batch = version..(version + UPDATES).min(last + 1);
        let writes = batch.clone().map(|version| {
            let id = updated(version, setup.count);
            let key = Key::parse(&id.to_string())?;
            let patch = Document::from_json(adverts.patch(id, version).as_bytes())?;
            Ok(Update::patch(key, patch))
        });
        quire.write(writes.collect::<Result<_>>()?)?;
        version = batch.end;
        let due = Duration::from_secs_f64((version - first) as f64 / setup.rate as f64);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    next.store(version, Ordering::Relaxed);
    Ok(())
}
