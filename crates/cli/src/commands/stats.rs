//! `quire stats`: what a database holds and what it takes.

use crate::Context;
use crate::database;
use crate::error::{Error, Result};
use crate::size::{Size, count};
use quiredb::DatabaseStats;
use std::path::PathBuf;

/// Show documents, files and sizes of each collection
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  quire stats ./db")]
pub(crate) struct Stats {
    /// The database's directory
    db: PathBuf,
}

impl Stats {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let database = database::open_existing(context, &self.db)?;
        let stats = database
            .stats()
            .map_err(Error::engine("cannot read the statistics"))?;
        if context.out.is_json() {
            return context.out.json_line(&stats);
        }
        for line in table(&stats) {
            context.out.line(line)?;
        }
        let damage = stats.scrub.iter().flat_map(|scrub| &scrub.damage);
        for found in damage {
            context.out.line(format_args!(
                "damage, found by the scrub: {} at byte {}: {}; lost: {}",
                found.file, found.offset, found.what, found.lost
            ))?;
        }
        Ok(())
    }
}

const COLUMNS: [&str; 9] = [
    "collection",
    "documents",
    "partitions",
    "disk",
    "log",
    "uncompressed",
    "superseded",
    "trees",
    "table files",
];

/// One line a collection under a heading, the columns aligned.
pub(crate) fn table(stats: &DatabaseStats) -> Vec<String> {
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    for collection in &stats.collections {
        rows.push([
            collection.name.clone(),
            count(collection.documents),
            count(collection.partitions.into()),
            Size(collection.disk_bytes).to_string(),
            Size(collection.log_bytes).to_string(),
            Size(collection.log_raw_bytes).to_string(),
            Size(collection.log_dead_bytes).to_string(),
            Size(collection.table_bytes).to_string(),
            count(collection.tables),
        ]);
    }
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|column| width(column).unwrap_or(0))
        .collect();
    rows.iter().map(|row| aligned(row, &widths)).collect()
}

/// The first cell to the left, the others to the right.
fn aligned(row: &[String], widths: &[usize]) -> String {
    let cells = row
        .iter()
        .zip(widths)
        .enumerate()
        .map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
    cells.collect::<Vec<_>>().join("  ")
}
