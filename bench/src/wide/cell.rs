//! One small column of rows whose other groups hold 200,000 bytes: what a write of it costs the
//! disks, and which of them a read needs. RocksDB holds each row as one value.

use super::disks::{Disk, FREE, HDD, SSD, settle};
use super::pages::Random;
use super::{Figures, Task, pages, rocksdb};
use crate::Result;
use quiredb::{Database, Medium};

const LARGE_BYTES: usize = 200_000;
const SMALL_BYTES: usize = 1_000;
const MEMORY: u64 = 64 << 20;
const OVERWRITES: u64 = 20_000;
/// RocksDB writes some hundred times as much of each.
const OVERWRITES_ROCKSDB: u64 = 2_000;
/// Its log and the inputs of its compactions stay for a while.
const ROCKSDB_MIB: u64 = 8 << 10;

pub(super) fn measure(task: &Task) -> Result<Figures> {
    let rows = (task.sizes.data << 20) / LARGE_BYTES as u64;
    let (dir, mib) = (&task.sizes.dir, 4 * task.sizes.data);
    let disks = [Disk::new(dir, "ssd", mib)?, Disk::new(dir, "hdd", mib)?];
    let [ssd, hdd] = &disks;
    let open = || {
        let builder = Database::builder(ssd.path().join("db"));
        let builder = builder.volume("hdd", hdd.path().join("db"), Medium::Hdd);
        builder.memory(MEMORY).scrub_every(None).open()
    };
    let database = open()?;
    let columns = [
        ("note", "meta", Medium::Ssd),
        ("html", "content", Medium::Hdd),
    ];
    let pages = pages::create(&database, "pages", pages::schema(&columns)?, 1)?;
    for row in 0..rows {
        pages::write(
            &pages,
            row,
            0,
            &[("note", 0, SMALL_BYTES), ("html", 1, LARGE_BYTES)],
        )?;
    }
    pages.compact()?;
    settle(&disks)?;
    let written = || -> Result<u64> { Ok(ssd.bytes()?.1 + hdd.bytes()?.1) };

    let before = written()?;
    let (mut random, mut versions) = (Random::new(1), vec![0; rows as usize]);
    for _ in 0..OVERWRITES {
        let row = random.below(rows);
        versions[row as usize] += 1;
        pages::write(
            &pages,
            row,
            versions[row as usize],
            &[("note", 0, SMALL_BYTES)],
        )?;
    }
    pages.flush()?;
    settle(&disks)?;
    let each = (written()? - before) as f64 / OVERWRITES as f64;
    drop(pages);
    database.close()?;

    // Cold reads.
    disks.iter().try_for_each(Disk::forget)?;
    ssd.throttle(SSD)?;
    hdd.throttle(HDD)?;
    let database = open()?;
    let pages = database.wide_collection("pages")?;
    let before = hdd.bytes()?.0;
    for row in 0..rows {
        let version = versions[row as usize];
        pages::check(&pages, row, version, ("note", 0, SMALL_BYTES))?;
    }
    let read = hdd.bytes()?.0 - before;
    ssd.throttle(FREE)?;
    hdd.throttle(FREE)?;
    for row in (0..rows).step_by(97) {
        pages::check(&pages, row, 0, ("html", 1, LARGE_BYTES))?;
    }
    drop(pages);
    database.close()?;
    drop(disks);

    let rocksdb = of_rocksdb(task, rows)?;
    let mut figures = Figures::default();
    figures.add("small column of a large row: written", "bytes", each);
    figures.add("the same, RocksDB", "bytes", rocksdb);
    figures.at_most(
        4.0,
        "small column: written / its bytes",
        each / SMALL_BYTES as f64,
    );
    figures.at_least(
        20.0,
        "small column: RocksDB writes / Quire writes",
        rocksdb / each,
    );
    let name = "small column: read of the other group's disk";
    figures.push(name, "bytes", read as f64, Some(-0.0));
    Ok(figures)
}

/// Bytes that RocksDB writes for one overwrite.
fn of_rocksdb(task: &Task, rows: u64) -> Result<f64> {
    let disks = [Disk::new(&task.sizes.dir, "rocksdb", ROCKSDB_MIB)?];
    let run = |phase: &str| {
        let sizes = [rows, LARGE_BYTES as u64, OVERWRITES_ROCKSDB, MEMORY];
        rocksdb::run(task, phase, [disks[0].path(); 2], sizes)
    };
    run("load")?;
    settle(&disks)?;
    let before = disks[0].bytes()?.1;
    run("overwrite")?;
    settle(&disks)?;
    let written = disks[0].bytes()?.1 - before;
    run("check")?;
    Ok(written as f64 / OVERWRITES_ROCKSDB as f64)
}
