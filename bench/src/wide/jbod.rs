//! Random overwrites of a column on hard disks: each table file on one of three (JBOD), or all
//! striped over them (RAID0); RocksDB on the same RAID0; and JBOD of nine disks beside three. Logs,
//! and what Quire finds rows by, are on an SSD.

use super::disks::{Disk, FREE, HDD, SSD, settle};
use super::pages::Random;
use super::{Figures, Task, pages, rocksdb};
use crate::Result;
use quiredb::wide::WideCollection;
use quiredb::{Database, Medium};
use std::time::Instant;

const CELL_BYTES: usize = 1_000;
const MEMORY: u64 = 64 << 20;
/// How hard disks are used.
#[derive(Debug, Clone, Copy)]
struct Layout {
    disks: usize,
    is_striped: bool,
    /// How much slower the disks are than others, so that the processor is not the limit.
    slower: u64,
    partitions: u32,
    /// Of the database.
    memory: u64,
}

const JBOD: Layout = Layout {
    disks: 3,
    is_striped: false,
    slower: 4,
    partitions: 3,
    memory: MEMORY,
};
const RAID0: Layout = Layout {
    is_striped: true,
    ..JBOD
};
/// A partition for each disk of nine, and memory for flushes that are not all seeks.
const FEW: Layout = Layout {
    slower: 12,
    partitions: 9,
    memory: 512 << 20,
    ..JBOD
};
const MANY: Layout = Layout { disks: 9, ..FEW };
/// Rows that are compared at the end.
const SAMPLE: u64 = 500;

pub(super) fn measure(task: &Task) -> Result<Figures> {
    let (jbod, raid) = task.in_turns(|jbod| quire(task, if jbod { JBOD } else { RAID0 }))?;
    let rocksdb = of_rocksdb(task)?;
    let mut figures = Figures::default();
    figures.add("overwrite on 3 disks, JBOD", "MB/s", jbod);
    figures.add("overwrite on 3 disks, RAID0", "MB/s", raid);
    figures.add("overwrite on 3 disks, RAID0, RocksDB", "MB/s", rocksdb);
    figures.at_least(2.5, "overwrite: JBOD / RAID0", jbod / raid);
    figures.add(
        "overwrite: JBOD / RocksDB on RAID0",
        "ratio",
        jbod / rocksdb,
    );
    Ok(figures)
}

/// Three times as many disks.
pub(super) fn measure_more(task: &Task) -> Result<Figures> {
    let (many, few) = task.in_turns(|many| quire(task, if many { MANY } else { FEW }))?;
    let mut figures = Figures::default();
    figures.add("overwrite on 3 slower disks, JBOD", "MB/s", few);
    figures.add("overwrite on 9 slower disks, JBOD", "MB/s", many);
    figures.at_least(2.8, "overwrite: JBOD of 9 / of 3", many / few);
    Ok(figures)
}

fn rows(task: &Task) -> u64 {
    (task.sizes.data << 20) / CELL_BYTES as u64
}

/// An SSD, then the hard disks.
fn disks(task: &Task, layout: Layout) -> Result<Vec<Disk>> {
    let (dir, mib) = (&task.sizes.dir, 4 * task.sizes.data);
    let mut disks = vec![Disk::new(dir, "ssd", 2 * mib)?];
    let names: Vec<_> = (1..=layout.disks)
        .map(|disk| format!("disk{disk}"))
        .collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    if layout.is_striped {
        disks.push(Disk::striped(dir, &names, mib)?);
        return Ok(disks);
    }
    for name in names {
        disks.push(Disk::seeking(dir, name, mib)?);
    }
    Ok(disks)
}

fn throttle(disks: &[Disk], slower: Option<u64>) -> Result<()> {
    for (number, disk) in disks.iter().enumerate() {
        disk.throttle(match slower {
            None => FREE,
            Some(_) if number == 0 => SSD,
            Some(slower) => HDD.slower(slower),
        })?;
    }
    Ok(())
}

/// Megabytes per second that are overwritten, until all is compacted.
fn quire(task: &Task, layout: Layout) -> Result<f64> {
    let (disks, rows) = (disks(task, layout)?, rows(task));
    let mut builder = Database::builder(disks[0].path().join("db"));
    for (number, disk) in disks.iter().enumerate().skip(1) {
        builder = builder.volume(
            &format!("disk{number}"),
            disk.path().join("db"),
            Medium::Hdd,
        );
    }
    let database = builder.memory(layout.memory).scrub_every(None).open()?;
    let schema = pages::schema(&[("page", "pages", Medium::Hdd)])?;
    let pages = pages::create(&database, "pages", schema, layout.partitions)?;
    let mut versions = vec![0; rows as usize];
    for row in 0..rows {
        pages::write(&pages, row, 0, &[("page", 0, CELL_BYTES)])?;
    }
    pages.compact()?;
    settle(&disks)?;
    throttle(&disks, Some(layout.slower))?;
    let begun = Instant::now();
    overwrite(&pages, &mut versions)?;
    pages.flush()?;
    let seconds = (settle(&disks)? - begun).as_secs_f64();
    throttle(&disks, None)?;
    for row in (0..rows).step_by((rows / SAMPLE).max(1) as usize) {
        pages::check(&pages, row, versions[row as usize], ("page", 0, CELL_BYTES))?;
    }
    drop(pages);
    database.close()?;
    Ok((rows * CELL_BYTES as u64) as f64 / 1e6 / seconds)
}

fn overwrite(pages: &WideCollection, versions: &mut [u64]) -> Result<()> {
    let mut random = Random::new(1);
    for _ in 0..versions.len() {
        let row = random.below(versions.len() as u64);
        let version = &mut versions[row as usize];
        *version += 1;
        pages::write(pages, row, *version, &[("page", 0, CELL_BYTES)])?;
    }
    Ok(())
}

fn of_rocksdb(task: &Task) -> Result<f64> {
    let (disks, rows) = (disks(task, RAID0)?, rows(task));
    let run = |phase: &str| {
        let sizes = [rows, CELL_BYTES as u64, rows, MEMORY];
        rocksdb::run(task, phase, [disks[1].path(), disks[0].path()], sizes)
    };
    run("load")?;
    settle(&disks)?;
    throttle(&disks, Some(RAID0.slower))?;
    let begun = Instant::now();
    run("overwrite")?;
    let seconds = (settle(&disks)? - begun).as_secs_f64();
    throttle(&disks, None)?;
    run("check")?;
    Ok((rows * CELL_BYTES as u64) as f64 / 1e6 / seconds)
}
