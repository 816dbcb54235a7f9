//! `quire stats`: shows the documents, files and sizes of a database.

use crate::Context;
use crate::client::Client;
use crate::database;
use crate::error::{Error, Result};
use crate::size::{Size, count, counted};
use quiredb::DatabaseStats;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Show documents, files and sizes of each collection
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quire stats ./db
  quire stats http://127.0.0.1:9200            of a server; a follower also shows its lag")]
pub(crate) struct Stats {
    /// The directory of the database, or http://HOST:PORT of its server
    db: String,
    /// A file with the token of the server
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Stats {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let (stats, following) = match self.db.strip_prefix("http://") {
            Some(server) => {
                let client = Client::new(server, self.token_file.as_deref())?;
                let mut answer = client.request("GET", "/_quire/stats")?;
                if context.out.is_json() {
                    return context.out.json_line(&answer);
                }
                let following = answer["following"].take();
                let stats = serde_json::from_value(answer).map_err(|error| {
                    Error::Failed(format!("http://{server} is no server of Quire: {error}"))
                })?;
                (stats, following)
            }
            None => {
                let database = database::open_existing(context, Path::new(&self.db))?;
                let stats = database
                    .stats()
                    .map_err(Error::engine("cannot read the statistics"))?;
                (stats, Value::Null)
            }
        };
        if context.out.is_json() {
            return context.out.json_line(&stats);
        }
        for line in table(&stats) {
            context.out.line(line)?;
        }
        for collection in &stats.collections {
            if collection.retention_deleted > 0 {
                context.out.line(format_args!(
                    "retention of {} has deleted {} since it was opened",
                    collection.name,
                    counted(collection.retention_deleted, "document", "documents")
                ))?;
            }
        }
        let damage = stats.scrub.iter().flat_map(|scrub| &scrub.damage);
        for found in damage {
            context.out.line(format_args!(
                "damage, found by the scrub: {} at byte {}: {}; lost: {}",
                found.file, found.offset, found.what, found.lost
            ))?;
        }
        if !following.is_null() {
            context.out.line(lag_line(&following))?;
        }
        Ok(())
    }
}

/// The lag and the state of a follower, in words.
fn lag_line(following: &Value) -> String {
    let text = |name: &str| following[name].as_str().unwrap_or_default();
    let behind = match following["seconds_behind"].as_f64() {
        Some(seconds) => format!("{seconds:.1} s"),
        None => "since it began".to_owned(),
    };
    let mut line = format!(
        "follower of {}: {}; {} records behind, {behind}",
        text("leader"),
        text("state"),
        count(following["records_behind"].as_u64().unwrap_or(0)),
    );
    for (name, what) in [("started_over", "started over"), ("error", "error")] {
        if !text(name).is_empty() {
            line.push_str(&format!("\n{what}: {}", text(name)));
        }
    }
    line
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

/// A heading, then a line for each collection, in aligned columns.
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

/// Aligns the first cell to the left and the others to the right.
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
