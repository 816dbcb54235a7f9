//! Ingest to a collection on an SSD and to one on a hard disk, in one database: with the I/O
//! manager and its limiter of compactions, and without.

use super::disks::{Disk, FREE, HDD, SSD};
use super::pages::Random;
use super::{Figures, Task, pages};
use crate::Result;
use crate::measure::Latencies;
use quiredb::wide::WideCollection;
use quiredb::{Database, Medium};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const CELL_BYTES: usize = 1_000;
const MEMORY: u64 = 64 << 20;
/// Gets come at a fixed rate, so that a slow one delays no other.
const GETS_EVERY: Duration = Duration::from_millis(2);

/// What clients saw in some seconds.
struct Seen {
    hot_mb: f64,
    cold_mb: f64,
    get_p99: f64,
}

pub(super) fn measure(task: &Task) -> Result<Figures> {
    let (with, without) = task.in_turns(|managed| ingest(task, managed))?;
    let mut figures = Figures::default();
    for (name, [alone, mixed]) in [("with", &with), ("without", &without)] {
        let title = |what: &str| format!("ingest {name} the limiter, {what}");
        figures.add(&title("SSD, no HDD"), "MB/s", alone.hot_mb);
        figures.add(&title("SSD"), "MB/s", mixed.hot_mb);
        figures.add(&title("HDD"), "MB/s", mixed.cold_mb);
        figures.add(&title("get from SSD, p99, no HDD"), "µs", alone.get_p99);
        figures.add(&title("get from SSD, p99"), "µs", mixed.get_p99);
    }
    let sum = |[_, mixed]: &[Seen; 2]| mixed.hot_mb + mixed.cold_mb;
    figures.at_least(
        1.8,
        "ingest: with limiter / without",
        sum(&with) / sum(&without),
    );
    let ratio = with[1].get_p99 / with[0].get_p99;
    figures.at_most(
        1.2,
        "get from SSD, p99: beside HDD compactions / alone",
        ratio,
    );
    Ok(figures)
}

/// Ingest to the SSD alone, then to both disks.
fn ingest(task: &Task, managed: bool) -> Result<[Seen; 2]> {
    let (dir, mib) = (&task.sizes.dir, 16 * task.sizes.data);
    let disks = [Disk::new(dir, "ssd", mib)?, Disk::new(dir, "hdd", mib)?];
    let [ssd, hdd] = &disks;
    let database = Database::builder(ssd.path().join("db"))
        .volume("hdd", hdd.path().join("db"), Medium::Hdd)
        .io_manager(managed)
        .memory(MEMORY)
        .scrub_every(None)
        .open()?;
    let create = |name, tier| {
        let schema = pages::schema(&[("page", "pages", tier)])?;
        pages::create(&database, name, schema, 1)
    };
    let (hot, cold) = (create("hot", Medium::Ssd)?, create("cold", Medium::Hdd)?);
    let rows = (task.sizes.data << 20) / CELL_BYTES as u64 / 2;
    for row in 0..rows {
        for pages in [&hot, &cold] {
            pages::write(pages, row, 0, &[("page", 0, CELL_BYTES)])?;
        }
    }
    hot.flush()?;
    cold.flush()?;
    ssd.throttle(SSD)?;
    hdd.throttle(HDD)?;
    let alone = clients(task, &hot, None, rows)?;
    let mixed = clients(task, &hot, Some(&cold), rows)?;
    ssd.throttle(FREE)?;
    hdd.throttle(FREE)?;
    drop((hot, cold));
    database.close()?;
    Ok([alone, mixed])
}

/// Writers at full rate, and a reader of the hot collection.
fn clients(
    task: &Task,
    hot: &WideCollection,
    cold: Option<&WideCollection>,
    rows: u64,
) -> Result<Seen> {
    let stop = AtomicBool::new(false);
    let write = |pages: &WideCollection, seed: u64| -> Result<u64> {
        let (mut random, mut count) = (Random::new(seed), 0);
        while !stop.load(Ordering::Relaxed) {
            pages::write(pages, random.below(rows), seed, &[("page", 0, CELL_BYTES)])?;
            count += 1;
        }
        Ok(count)
    };
    let begun = Instant::now();
    thread::scope(|scope| {
        let hot_writer = scope.spawn(|| write(hot, 1));
        let cold_writer = cold.map(|cold| scope.spawn(|| write(cold, 2)));
        let read = read(hot, rows, Duration::from_secs(task.sizes.seconds));
        stop.store(true, Ordering::Relaxed);
        let seconds = begun.elapsed().as_secs_f64();
        let mb = |count: u64| (count * CELL_BYTES as u64) as f64 / 1e6 / seconds;
        let hot_mb = mb(hot_writer.join().map_err(|_| "a writer panicked")??);
        let cold_mb = match cold_writer {
            Some(writer) => mb(writer.join().map_err(|_| "a writer panicked")??),
            None => 0.0,
        };
        Ok(Seen {
            hot_mb,
            cold_mb,
            get_p99: read?.micros([0.99])[0],
        })
    })
}

/// Gets of random rows at a fixed rate: how long each took.
fn read(pages: &WideCollection, rows: u64, time: Duration) -> Result<Latencies> {
    let (mut random, mut latencies) = (Random::new(9), Latencies::default());
    let begun = Instant::now();
    let mut due = Duration::ZERO;
    while due < time {
        thread::sleep(due.saturating_sub(begun.elapsed()));
        let key = pages::key(random.below(rows))?;
        let cell = latencies.time(|| pages.cell(&key, "page", None))?;
        if cell.is_none() {
            return Err(format!("{key} is not there").into());
        }
        due += GETS_EVERY;
    }
    Ok(latencies)
}
