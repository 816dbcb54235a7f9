//! Reads from a hard disk that also has compactions and a copy: with the I/O manager, and without.

use super::disks::{Disk, FREE, HDD};
use super::pages::Random;
use super::{Figures, Task, pages};
use crate::Result;
use crate::measure::Latencies;
use quiredb::operations::{BackupOptions, backup};
use quiredb::wide::WideCollection;
use quiredb::{Database, Medium};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const CELL_BYTES: usize = 4_000;
const MEMORY: u64 = 32 << 20;
/// Clients that read, each one row after the other.
const READERS: u64 = 2;

/// The 99th percentile of reads, in milliseconds.
struct Seen {
    idle: f64,
    busy: f64,
    /// Megabytes a second that compactions and the copy wrote meanwhile.
    work: f64,
    /// The longest wait of any request, in milliseconds.
    longest_wait: f64,
}

pub(super) fn measure(task: &Task) -> Result<Figures> {
    let (with, without) = task.in_turns(|managed| read(task, managed))?;
    let mut figures = Figures::default();
    for (name, seen) in [("with", &with), ("without", &without)] {
        let title = |what: &str| format!("read {name} the I/O manager, {what}");
        figures.add(&title("idle, p99"), "ms", seen.idle);
        figures.add(&title("busy, p99"), "ms", seen.busy);
        figures.add(&title("compactions and copy"), "MB/s", seen.work);
    }
    figures.at_most(2.0, "read, p99: busy / idle", with.busy / with.idle);
    let ratio = without.busy / without.idle;
    figures.add("read, p99: busy / idle, no I/O manager", "ratio", ratio);
    figures.add("longest wait of any request", "ms", with.longest_wait);
    Ok(figures)
}

fn read(task: &Task, managed: bool) -> Result<Seen> {
    let (dir, mib) = (&task.sizes.dir, 8 * task.sizes.data);
    let disks = [Disk::new(dir, "hdd", mib)?, Disk::new(dir, "copy", mib)?];
    let [hdd, copy] = &disks;
    let open = || {
        let builder = Database::builder(hdd.path().join("db")).medium(Medium::Hdd);
        let builder = builder.io_manager(managed).memory(MEMORY);
        builder.scrub_every(None).open()
    };
    let rows = (task.sizes.data << 20) / CELL_BYTES as u64;
    let database = open()?;
    let schema = pages::schema(&[("page", "pages", Medium::Hdd)])?;
    let pages = pages::create(&database, "pages", schema, 1)?;
    for row in 0..rows {
        pages::write(&pages, row, 0, &[("page", 0, CELL_BYTES)])?;
    }
    pages.compact()?;
    drop(pages);
    database.close()?;
    drop(database);
    hdd.forget()?;

    let database = open()?;
    let pages = database.wide_collection("pages")?;
    hdd.throttle(HDD)?;
    let seconds = Duration::from_secs(task.sizes.seconds);
    let idle = clients(&pages, rows, seconds)?;
    let (stop, before) = (AtomicBool::new(false), work_bytes(&disks)?);
    let begun = Instant::now();
    let busy = thread::scope(|scope| {
        let compacting = scope.spawn(|| compact(&pages, rows, &stop));
        let copying = scope.spawn(|| copy_again(&database, &copy.path().join("to"), &stop));
        let busy = clients(&pages, rows, seconds);
        stop.store(true, Ordering::Relaxed);
        let work = (work_bytes(&disks)? - before) as f64 / 1e6 / begun.elapsed().as_secs_f64();
        hdd.throttle(FREE)?;
        compacting.join().map_err(|_| "a thread panicked")??;
        copying.join().map_err(|_| "a thread panicked")??;
        Ok::<_, crate::Error>((busy?, work))
    })?;
    let waits = database
        .volume_stats()
        .into_iter()
        .filter_map(|volume| volume.io);
    let longest = waits.flat_map(|io| io.queue.wait_micros_max).max();
    drop(pages);
    database.close()?;
    let p99 = |latencies: Latencies| latencies.micros([0.99])[0] / 1e3;
    Ok(Seen {
        idle: p99(idle),
        busy: p99(busy.0),
        work: busy.1,
        longest_wait: longest.unwrap_or_default() as f64 / 1e3,
    })
}

fn work_bytes(disks: &[Disk]) -> Result<u64> {
    disks.iter().map(|disk| Ok(disk.bytes()?.1)).sum()
}

/// Reads random rows, compared, at full rate.
fn clients(pages: &WideCollection, rows: u64, time: Duration) -> Result<Latencies> {
    let read = |seed: u64| -> Result<Latencies> {
        let (mut random, mut latencies) = (Random::new(seed), Latencies::default());
        let begun = Instant::now();
        while begun.elapsed() < time {
            let row = random.below(rows);
            latencies.time(|| pages::check(pages, row, 0, ("page", 0, CELL_BYTES)))?;
        }
        Ok(latencies)
    };
    thread::scope(|scope| {
        let read = &read;
        let readers = (0..READERS).map(|seed| scope.spawn(move || read(seed)));
        let mut all = Latencies::default();
        for reader in readers.collect::<Vec<_>>() {
            all.append(reader.join().map_err(|_| "a reader panicked")??);
        }
        Ok(all)
    })
}

/// Rewrites some rows as they are, so that there is something to compact, and compacts all.
fn compact(pages: &WideCollection, rows: u64, stop: &AtomicBool) -> Result<()> {
    let mut random = Random::new(7);
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..rows / 100 {
            let row = random.below(rows);
            pages::write(pages, row, 0, &[("page", 0, CELL_BYTES)])?;
        }
        pages.compact()?;
    }
    Ok(())
}

/// Copies the database to another disk, again and again.
fn copy_again(database: &Database, to: &Path, stop: &AtomicBool) -> Result<()> {
    while !stop.load(Ordering::Relaxed) {
        let mut go_on = |_, _| match stop.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let done = backup(database, to, &BackupOptions::default(), &mut go_on);
        if let Err(error) = done
            && !stop.load(Ordering::Relaxed)
        {
            return Err(error.into());
        }
        if to.exists() {
            std::fs::remove_dir_all(to)?;
        }
    }
    Ok(())
}
