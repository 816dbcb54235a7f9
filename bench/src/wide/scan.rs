//! Scanning one of two columns: by a group of its own, or filtered out of a common group.

use super::disks::{Disk, FREE, HDD};
use super::{Figures, Task, pages};
use crate::Result;
use quiredb::wide::Cell;
use quiredb::{Database, Medium};
use std::time::Instant;

const CELL_BYTES: usize = 100_000;

pub(super) fn measure(task: &Task) -> Result<Figures> {
    let rows = (task.sizes.data << 20) / (2 * CELL_BYTES as u64);
    let disk = Disk::new(&task.sizes.dir, "hdd", 6 * task.sizes.data)?;
    for apart in [true, false] {
        load(&disk, apart, rows)?;
    }
    disk.throttle(HDD)?;
    let (apart, common) = task.in_turns(|apart| scan(&disk, apart, rows))?;
    disk.throttle(FREE)?;
    let mut figures = Figures::default();
    figures.add("one column by its group", "MB/s", apart);
    figures.add("filtered out of a common group", "MB/s", common);
    figures.at_least(
        1.41,
        "scan of one column: by its group / filtered",
        apart / common,
    );
    Ok(figures)
}

fn open(disk: &Disk, apart: bool) -> Result<Database> {
    let dir = disk.path().join(if apart { "apart" } else { "common" });
    let builder = Database::builder(dir).medium(Medium::Hdd);
    Ok(builder.memory(64 << 20).scrub_every(None).open()?)
}

fn load(disk: &Disk, apart: bool, rows: u64) -> Result<()> {
    let database = open(disk, apart)?;
    let right = if apart { "right" } else { "left" };
    let columns = [("left", "left", Medium::Hdd), ("right", right, Medium::Hdd)];
    let pages = pages::create(&database, "pages", pages::schema(&columns)?, 1)?;
    for row in 0..rows {
        pages::write(
            &pages,
            row,
            0,
            &[("left", 0, CELL_BYTES), ("right", 1, CELL_BYTES)],
        )?;
    }
    pages.compact()?;
    drop(pages);
    Ok(database.close()?)
}

/// Reads the left column of all rows; gives its megabytes per second.
fn scan(disk: &Disk, apart: bool, rows: u64) -> Result<f64> {
    disk.forget()?;
    let database = open(disk, apart)?;
    let pages = database.wide_collection("pages")?;
    let (begun, mut row) = (Instant::now(), 0);
    for batch in pages.scan_columns(&["left"])? {
        for cell in batch?.columns.into_iter().flatten() {
            if cell != Some(Cell::Bytes(pages::bytes(row, 0, 0, CELL_BYTES))) {
                return Err(format!("row {row} is not what was written").into());
            }
            row += 1;
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    if row != rows {
        return Err(format!("{row} rows were scanned, and {rows} written").into());
    }
    drop(pages);
    database.close()?;
    Ok((rows * CELL_BYTES as u64) as f64 / 1e6 / seconds)
}
