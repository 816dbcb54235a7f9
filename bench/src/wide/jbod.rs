//! Random overwrites of a column on three hard disks: each table file on one of them (JBOD), or all
//! striped over them (RAID0); RocksDB on the same RAID0. Logs, and what Quire finds rows by, are on
//! an SSD.

use super::disks::{Disk, FREE, HDD, SSD, settle};
use super::pages::Random;
use super::{Figures, Task, pages, rocksdb};
use crate::Result;
use quiredb::wide::WideCollection;
use quiredb::{Database, Medium};
use std::time::Instant;

const CELL_BYTES: usize = 1_000;
const MEMORY: u64 = 64 << 20;
const PARTITIONS: u32 = 3;
/// How much slower the hard disks are than others.
const SLOWER: u64 = 4;
/// Rows that are compared at the end.
const SAMPLE: u64 = 500;

pub(super) fn measure(task: &Task) -> Result<Figures> {
    let (jbod, raid) = task.in_turns(|jbod| quire(task, jbod))?;
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

fn rows(task: &Task) -> u64 {
    (task.sizes.data << 20) / CELL_BYTES as u64
}

/// An SSD, then the hard disks.
fn disks(task: &Task, jbod: bool) -> Result<Vec<Disk>> {
    let (dir, mib) = (&task.sizes.dir, 4 * task.sizes.data);
    let mut disks = vec![Disk::new(dir, "ssd", 2 * mib)?];
    let names = ["disk1", "disk2", "disk3"];
    match jbod {
        true => {
            for name in names {
                disks.push(Disk::seeking(dir, name, mib)?);
            }
        }
        false => disks.push(Disk::striped(dir, &names, mib)?),
    }
    Ok(disks)
}

fn throttle(disks: &[Disk], is_on: bool) -> Result<()> {
    for (number, disk) in disks.iter().enumerate() {
        let speed = if number == 0 { SSD } else { HDD.slower(SLOWER) };
        disk.throttle(if is_on { speed } else { FREE })?;
    }
    Ok(())
}

/// Megabytes per second that are overwritten, until all is compacted.
fn quire(task: &Task, jbod: bool) -> Result<f64> {
    let (disks, rows) = (disks(task, jbod)?, rows(task));
    let mut builder = Database::builder(disks[0].path().join("db"));
    for (number, disk) in disks.iter().enumerate().skip(1) {
        builder = builder.volume(
            &format!("disk{number}"),
            disk.path().join("db"),
            Medium::Hdd,
        );
    }
    let database = builder.memory(MEMORY).scrub_every(None).open()?;
    let schema = pages::schema(&[("page", "default", Medium::Hdd)])?;
    let pages = pages::create(&database, "pages", schema, PARTITIONS)?;
    let mut versions = vec![0; rows as usize];
    for row in 0..rows {
        pages::write(&pages, row, 0, &[("page", 0, CELL_BYTES)])?;
    }
    pages.compact()?;
    settle(&disks)?;
    throttle(&disks, true)?;
    let begun = Instant::now();
    overwrite(&pages, &mut versions)?;
    pages.flush()?;
    let seconds = (settle(&disks)? - begun).as_secs_f64();
    throttle(&disks, false)?;
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
    let (disks, rows) = (disks(task, false)?, rows(task));
    let run = |phase: &str| {
        let sizes = [rows, CELL_BYTES as u64, rows, MEMORY];
        rocksdb::run(task, phase, [disks[1].path(), disks[0].path()], sizes)
    };
    run("load")?;
    settle(&disks)?;
    throttle(&disks, true)?;
    let begun = Instant::now();
    run("overwrite")?;
    let seconds = (settle(&disks)? - begun).as_secs_f64();
    throttle(&disks, false)?;
    run("check")?;
    Ok((rows * CELL_BYTES as u64) as f64 / 1e6 / seconds)
}
