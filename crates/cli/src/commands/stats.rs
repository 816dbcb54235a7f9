//! `quire stats`: shows the documents, files and sizes of a database.

use crate::Context;
use crate::client::{ServerAccess, is_url};
use crate::database;
use crate::error::{Error, Result};
use crate::size::{Size, count, counted};
use crate::table;
use quiredb::{CollectionStats, DatabaseStats, IndexStats, TierStats};
use serde_json::Value;
use std::path::Path;

/// Show documents, files and sizes of each collection
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quire stats ./db
  quire stats http://127.0.0.1:9200            of a server; a follower also shows its lag")]
pub(crate) struct Stats {
    /// The directory of the database, or http(s)://HOST:PORT of its server
    db: String,
    #[command(flatten)]
    access: ServerAccess,
}

impl Stats {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let (stats, following) = match is_url(&self.db) {
            true => {
                let client = self.access.client(context, &self.db)?;
                let mut answer = client.request("GET", "/_quire/stats")?;
                if context.out.is_json() {
                    return context.out.json_line(&answer);
                }
                let following = answer["following"].take();
                let stats = serde_json::from_value(answer).map_err(|error| {
                    Error::Failed(format!("{} is no server of Quire: {error}", self.db))
                })?;
                (stats, following)
            }
            false => {
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
            if let Some(index) = &collection.index {
                context.out.line(index_line(collection, index))?;
            }
            for moved in &collection.column_moves {
                context.out.line(format_args!(
                    "column {} of {} moves from {} to {}: {} of {} rows passed",
                    moved.column,
                    collection.name,
                    moved.from,
                    moved.to,
                    moved.rows_passed,
                    moved.rows
                ))?;
            }
            if collection.cells_expired > 0 {
                context.out.line(format_args!(
                    "expiry in {} has removed {} since it was opened",
                    collection.name,
                    counted(collection.cells_expired, "cell", "cells")
                ))?;
            }
            if collection.retention_deleted > 0 {
                context.out.line(format_args!(
                    "retention of {} has deleted {} since it was opened",
                    collection.name,
                    counted(collection.retention_deleted, "document", "documents")
                ))?;
            }
        }
        for line in group_lines(&stats) {
            context.out.line(line)?;
        }
        if stats.volumes.len() > 1 {
            for line in super::volume::lines(&stats.volumes) {
                context.out.line(line)?;
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
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    for collection in &stats.collections {
        rows.push(vec![
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
    table::aligned(&rows, &[])
}

/// The column groups of wide collections, and where they lie.
fn group_lines(stats: &DatabaseStats) -> Vec<String> {
    let mut lines = Vec::new();
    for collection in &stats.collections {
        for group in &collection.groups {
            let tier = match &group.tiers {
                Some(tiers) => tiers_words(tiers),
                None => {
                    let tier = group.tier.as_deref();
                    format!("tier {}", tier.unwrap_or("that of the first volume"))
                }
            };
            let volumes = group.volumes.iter();
            let volumes = volumes.map(|(name, bytes)| format!("{name} {}", Size(*bytes)));
            let on = match group.volumes.is_empty() {
                true => "no table files".to_owned(),
                false => volumes.collect::<Vec<_>>().join(", "),
            };
            let (name, group) = (&collection.name, &group.name);
            lines.push(format!("group {group} of {name}: {tier}; {on}"));
        }
    }
    lines
}

/// The two tiers of a column group, in words.
fn tiers_words(tiers: &TierStats) -> String {
    let mut words = format!(
        "tiers {} with {} and {} with {}",
        tiers.hot,
        counted(tiers.rows_hot, "row", "rows"),
        tiers.cold,
        counted(tiers.rows_cold, "row", "rows"),
    );
    let moved = tiers.moved_cold + tiers.moved_hot;
    if moved > 0 {
        words.push_str(&format!(
            ", {} moved ({})",
            counted(moved, "row", "rows"),
            Size(tiers.bytes_moved)
        ));
    }
    if tiers.too_large > 0 {
        words.push_str(&format!(
            ", {} too large to move",
            counted(tiers.too_large, "row", "rows")
        ));
    }
    if let Some(stopped) = &tiers.stopped {
        words.push_str(&format!(", {stopped}"));
    }
    words
}

/// The search index of a collection, in words.
fn index_line(collection: &CollectionStats, index: &IndexStats) -> String {
    let mut line = format!("index of {}: ", collection.name);
    match index.complete {
        true => line.push_str("complete"),
        false => line.push_str(&format!(
            "building, {} of {}",
            count(index.documents),
            counted(collection.documents, "document", "documents")
        )),
    }
    line.push_str(&format!(", {}", Size(index.bytes)));
    if index.trees.len() > 1 {
        let trees = index.trees.iter();
        let trees = trees.map(|(name, bytes)| format!("{name} {}", Size(*bytes)));
        line.push_str(&format!(" ({})", trees.collect::<Vec<_>>().join(", ")));
    }
    match index.lag_records {
        0 => line.push_str(", level"),
        lag => line.push_str(&format!(
            ", {} behind, {:.1} s",
            counted(lag, "record", "records"),
            index.lag_micros as f64 / 1e6
        )),
    }
    if let Some(rate) = index.records_per_second() {
        line.push_str(&format!(", {} records a second", count(rate as u64)));
    }
    for (field, documents) in &index.documents_with_many {
        let documents = counted(*documents, "document", "documents");
        line.push_str(&format!(
            "\n{documents} not indexed by {field}: too many values"
        ));
    }
    for error in &index.errors {
        line.push_str(&format!("\nerror: {error}"));
    }
    line
}
