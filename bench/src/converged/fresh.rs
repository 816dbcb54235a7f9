//! A live collection under updates at full rate: whether the query after a write sees it, how far
//! the index is behind, and what queries take beside the writer.

use super::answers::{KINDS, execute, ready};
use super::documents::{Adverts, updated};
use super::quire::{ALL_BUT_TEXT, Quire, process_cpu_nanos};
use super::{Report, Setup};
use crate::Result;
use crate::measure::{Latencies, thread_cpu_nanos};
use quiredb::query::{field, find};
use quiredb::{Document, Durability, Key, ValueRef, Write as Update};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Updates that are written together.
const UPDATES: u64 = 200;

/// One batch in ten is followed by a query for its last document.
const LOOK_EVERY: u64 = 10;

/// How often each question is executed before queries are timed.
const WARM_UP: usize = 20;

/// How often the lag is read.
const SAMPLE_EVERY: Duration = Duration::from_millis(3);

pub(super) fn run(setup: &Setup) -> Result<Report> {
    let quire = Quire::create(setup, 2, ALL_BUT_TEXT)?;
    let mut report = Report::default();
    let mut adverts = Adverts::default();
    quire.load((0..setup.count).map(|id| Ok(adverts.json(id, 0).to_owned())))?;
    quire.settle()?;
    quire.rest()?;
    let mut before = Vec::new();
    for kind in 0..KINDS.len() {
        before.push(queried(&quire, setup, kind)?);
    }
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = Instant::now();
    let cpu = process_cpu_nanos();
    let (mut lags, looked, beside) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&quire, setup, &stop, &written));
        let sampler = scope.spawn(|| sample(&quire, &stop));
        let beside: Result<Vec<_>> = (0..KINDS.len())
            .map(|kind| queried(&quire, setup, kind))
            .collect();
        stop.store(true, Ordering::Relaxed);
        let looked = writer.join().map_err(|_| "the writer panicked")??;
        let lags = sampler.join().map_err(|_| "the sampler panicked")??;
        Ok::<_, crate::Error>((lags, looked, beside?))
    })?;
    let wall = begun.elapsed().as_secs_f64();
    let rate = written.load(Ordering::Relaxed) as f64 / wall;
    report.add("updates", "updates/s", rate);
    report.add(
        "all threads",
        "cores",
        (process_cpu_nanos() - cpu) as f64 / 1e9 / wall,
    );
    report.add(
        "writes that the next query saw",
        "ratio",
        looked.0 as f64 / looked.1 as f64,
    );
    report.add("writes that were looked for", "writes", looked.1 as f64);
    lags.sort_unstable();
    let at = |part: f64| {
        lags.get((lags.len() as f64 * part) as usize)
            .copied()
            .unwrap_or(0)
    };
    for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
        report.add(format!("lag, {name}"), "records", at(part) as f64);
        report.add(format!("lag, {name}"), "ms", at(part) as f64 / rate * 1e3);
    }
    for (kind, (before, beside)) in before.into_iter().zip(beside).enumerate() {
        let name = KINDS[kind];
        for (unit, before, beside) in [
            ("µs", before.wall, beside.wall),
            ("CPU µs", before.cpu, beside.cpu),
        ] {
            let [before, beside] = [before, beside].map(|one| one.micros([0.5, 0.99]));
            for (at, part) in ["p50", "p99"].iter().enumerate() {
                report.add(format!("{name}, {part}"), unit, before[at]);
                report.add(
                    format!("{name}, beside the writer, {part}"),
                    unit,
                    beside[at],
                );
            }
        }
    }
    let begun = Instant::now();
    quire.level()?;
    report.add(
        "level after the last write",
        "ms",
        begun.elapsed().as_secs_f64() * 1e3,
    );
    quire.database.close()?;
    Ok(report)
}

/// How long queries took: by the clock, and by the CPU time of their thread, which a busy machine
/// does not make longer.
#[derive(Default)]
struct Queried {
    wall: Latencies,
    cpu: Latencies,
}

fn queried(quire: &Quire, setup: &Setup, kind: usize) -> Result<Queried> {
    let ready = ready(kind, setup.questions)?;
    // A query finds out what those after it use: of a question that is new nothing is known.
    for query in ready.iter().cycle().take(WARM_UP * ready.len()) {
        execute(&quire.documents, query)?;
    }
    let mut queried = Queried::default();
    let end = Instant::now() + Duration::from_secs_f64(setup.seconds);
    while Instant::now() < end {
        let query = &ready[queried.cpu.len() % ready.len()];
        let cpu = thread_cpu_nanos();
        let wall = &mut queried.wall;
        wall.time(|| execute(&quire.documents, query))?;
        queried.cpu.push_nanos((thread_cpu_nanos() - cpu).into());
    }
    Ok(queried)
}

/// Writes at the full rate until it is to stop: how many writes the next query saw, of how many
/// that were looked for.
fn write(
    quire: &Quire,
    setup: &Setup,
    stop: &AtomicBool,
    written: &AtomicU64,
) -> Result<(u64, u64)> {
    let mut adverts = Adverts::default();
    let (begun, mut version, mut seen, mut looked) = (Instant::now(), 1, 0, 0);
    let durability = Durability::Async(Duration::from_millis(100));
    while !stop.load(Ordering::Relaxed) {
        let mut batch = quire.documents.batch().durability(durability);
        for version in version..version + UPDATES {
            let id = updated(version, setup.count);
            let patch = Document::from_json(adverts.patch(id, version).as_bytes())?;
            batch.push(Update::patch(Key::parse(&id.to_string())?, patch));
        }
        for result in batch.write() {
            result?;
        }
        version += UPDATES;
        written.store(version - 1, Ordering::Relaxed);
        if (version / UPDATES).is_multiple_of(LOOK_EVERY) {
            let last = version - 1;
            let id = updated(last, setup.count);
            let patch = Document::from_json(adverts.patch(id, last).as_bytes())?;
            let Some(ValueRef::Int(added)) = patch.get("added") else {
                return Err("a patch without a time".into());
            };
            let page = quire
                .documents
                .query(find(field("added").eq(added)).limit(1))?;
            let key = Key::parse(&id.to_string())?;
            seen += u64::from(page.documents.first().is_some_and(|found| found.key == key));
            looked += 1;
        }
        let due = Duration::from_secs_f64((version - 1) as f64 / setup.full_rate as f64);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    Ok((seen, looked))
}

/// The records that the index was behind, again and again.
fn sample(quire: &Quire, stop: &AtomicBool) -> Result<Vec<u64>> {
    let mut lags = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let stats = quire.documents.stats()?;
        lags.extend(stats.index.map(|index| index.lag_records));
        std::thread::sleep(SAMPLE_EVERY);
    }
    Ok(lags)
}
