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

/// How often queries are timed without the writer and then beside it: a machine that is slow for a
/// while is slow for both.
const PAIRS: u64 = 4;

/// How often the lag is read. To read it takes time from the queries.
const SAMPLE_EVERY: Duration = Duration::from_millis(10);

pub(super) fn run(setup: &Setup) -> Result<Report> {
    let quire = Quire::create(setup, 2, ALL_BUT_TEXT)?;
    let mut report = Report::default();
    let mut adverts = Adverts::default();
    quire.load((0..setup.count).map(|id| Ok(adverts.json(id, 0).to_owned())))?;
    quire.settle()?;
    quire.rest()?;
    let mut without = KINDS.map(|_| Queried::default());
    let mut beside = KINDS.map(|_| Queried::default());
    let (mut lags, mut looked) = (Vec::new(), Looked::default());
    let (mut wall, mut cpu, mut level) = (Duration::ZERO, 0, Vec::new());
    let written = AtomicU64::new(0);
    for _ in 0..PAIRS {
        for (kind, queried) in without.iter_mut().enumerate() {
            query(&quire, setup, kind, queried)?;
        }
        let stop = AtomicBool::new(false);
        let (begun, cpu_before) = (Instant::now(), process_cpu_nanos());
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write(&quire, setup, &stop, &written));
            let sampler = scope.spawn(|| sample(&quire, &stop));
            let mut queried = beside.iter_mut().enumerate();
            let queried = queried.try_for_each(|(kind, one)| query(&quire, setup, kind, one));
            stop.store(true, Ordering::Relaxed);
            looked.add(&writer.join().map_err(|_| "the writer panicked")??);
            lags.extend(sampler.join().map_err(|_| "the sampler panicked")??);
            queried
        })?;
        wall += begun.elapsed();
        cpu += process_cpu_nanos() - cpu_before;
        let begun = Instant::now();
        quire.level()?;
        level.push(begun.elapsed().as_secs_f64() * 1e3);
        quire.rest()?;
    }
    let wall = wall.as_secs_f64();
    let rate = written.load(Ordering::Relaxed) as f64 / wall;
    report.add("updates", "updates/s", rate);
    report.add("all threads", "cores", cpu as f64 / 1e9 / wall);
    report.add(
        "writes that the next query saw",
        "ratio",
        looked.seen as f64 / looked.writes as f64,
    );
    report.add(
        "writes that were looked for",
        "writes",
        looked.writes as f64,
    );
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
    for (name, (without, beside)) in KINDS.iter().zip(without.into_iter().zip(beside)) {
        for (unit, without, beside) in [
            ("µs", without.wall, beside.wall),
            ("CPU µs", without.cpu, beside.cpu),
        ] {
            let [without, beside] = [without, beside].map(|one| one.micros([0.5, 0.99]));
            for (at, part) in ["p50", "p99"].iter().enumerate() {
                report.add(format!("{name}, {part}"), unit, without[at]);
                report.add(
                    format!("{name}, beside the writer, {part}"),
                    unit,
                    beside[at],
                );
            }
        }
    }
    level.sort_by(f64::total_cmp);
    report.add("level after the last write", "ms", level[level.len() / 2]);
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

/// Writes of which it was looked whether the next query sees them.
#[derive(Default)]
struct Looked {
    seen: u64,
    writes: u64,
}

impl Looked {
    fn add(&mut self, other: &Looked) {
        self.seen += other.seen;
        self.writes += other.writes;
    }
}

/// Times the queries of a kind, a part of the seconds.
fn query(quire: &Quire, setup: &Setup, kind: usize, queried: &mut Queried) -> Result<()> {
    let ready = ready(kind, setup.questions)?;
    // A query finds out what those after it use: of a question that is new nothing is known.
    for query in ready.iter().cycle().take(WARM_UP * ready.len()) {
        execute(&quire.documents, query)?;
    }
    let end = Instant::now() + Duration::from_secs_f64(setup.seconds / PAIRS as f64);
    while Instant::now() < end {
        let query = &ready[queried.cpu.len() % ready.len()];
        let cpu = thread_cpu_nanos();
        let wall = &mut queried.wall;
        wall.time(|| execute(&quire.documents, query))?;
        queried.cpu.push_nanos((thread_cpu_nanos() - cpu).into());
    }
    Ok(())
}

/// Writes at the full rate until it is to stop, after what was written before.
fn write(quire: &Quire, setup: &Setup, stop: &AtomicBool, written: &AtomicU64) -> Result<Looked> {
    let mut adverts = Adverts::default();
    let (begun, mut looked) = (Instant::now(), Looked::default());
    let first = written.load(Ordering::Relaxed) + 1;
    let mut version = first;
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
            looked.seen += u64::from(page.documents.first().is_some_and(|found| found.key == key));
            looked.writes += 1;
        }
        let due = Duration::from_secs_f64((version - first) as f64 / setup.full_rate as f64);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    Ok(looked)
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
