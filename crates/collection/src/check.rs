//! Checking that a partition's trees agree with its log.
//!
//! One pass over the log, nothing kept per document. A docid is created once, deleted at most once
//! and never used again; so for every record the trees must say exactly whether it is the live one,
//! and the totals settle the rest: compaction leaves a record of every document that there is and
//! of every deletion that there was.

use crate::documents::{
    EXPIRIES, KEYS, KeyEntry, ROWS, docid_bytes, expiry_key, parse_docid, parse_row,
};
use crate::record::{Kind, Record};
use crate::{Partition, PartitionView, Result};
use bytes::Bytes;
use quire_lsm::SmallBytes;
use quire_model::{Document, Key, Position};
use quire_store::{StoreStats, TreeId};
use std::ops::Bound;

/// The number of records checked at a time.
const BATCH: usize = 1024;

/// What a check has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checked {
    /// Records of the log.
    pub records: u64,
    /// Live documents.
    pub documents: u64,
    /// Entries of the tree of expiries: those of the live documents, and at a follower of a leader
    /// whose log was compacted perhaps some more.
    pub expiries: u64,
}

/// A place where trees and log say different things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disagreement {
    /// The record, or the partition's last position for a disagreement of totals.
    pub position: Position,
    /// What is wrong.
    pub what: String,
}

#[derive(Debug, Default)]
struct Totals {
    records: u64,
    deleted: u64,
    live: u64,
    /// Bytes of records that others supersede.
    dead_bytes: u64,
}

impl Partition {
    /// Compares every record of the log with the trees, and the trees' totals with the log's.
    ///
    /// # Errors
    /// Damaged bytes, by file and offset; disagreements are reported to `on_problem` and do not end
    /// the check.
    pub fn check(&self, on_problem: &mut dyn FnMut(Disagreement)) -> Result<Checked> {
        let before = self.stats();
        let view = self.view_with(&[KEYS, ROWS, EXPIRIES])?;
        let mut totals = Totals::default();
        let mut batch: Vec<(Position, Bytes)> = Vec::with_capacity(BATCH);
        for item in view.store_view().log() {
            batch.push(item?);
            if batch.len() == BATCH {
                check_batch(&view, &batch, &mut totals, on_problem)?;
                batch.clear();
            }
        }
        check_batch(&view, &batch, &mut totals, on_problem)?;
        check_totals(&view, &totals, on_problem)?;
        for what in view.check_search()? {
            on_problem(Disagreement {
                position: view.position(),
                what,
            });
        }
        self.check_space(&view, &totals, &before, on_problem);
        Ok(Checked {
            records: totals.records,
            documents: totals.live,
            expiries: entries(&view, EXPIRIES)?,
        })
    }
}

impl Partition {
    /// Compares what is counted as reclaimable with what was found, if nothing has changed since.
    fn check_space(
        &self,
        view: &PartitionView,
        totals: &Totals,
        before: &StoreStats,
        on_problem: &mut dyn FnMut(Disagreement),
    ) {
        let still = |stats: &StoreStats| {
            stats.segments_uncounted == 0
                && stats.log.last == view.position()
                && stats.segments_compacted == before.segments_compacted
        };
        let miscounted = before.segments_miscounted;
        if miscounted > 0 {
            on_problem(Disagreement {
                position: view.position(),
                what: format!("superseded bytes of {miscounted} segments had been counted wrong"),
            });
        }
        let counted = before.log_dead_bytes;
        if still(before) && still(&self.stats()) && counted != totals.dead_bytes {
            let what = format!(
                "{counted} bytes of the log are counted as superseded, and {} are",
                totals.dead_bytes
            );
            on_problem(Disagreement {
                position: view.position(),
                what,
            });
        }
    }
}

fn check_batch(
    view: &PartitionView,
    batch: &[(Position, Bytes)],
    totals: &mut Totals,
    on_problem: &mut dyn FnMut(Disagreement),
) -> Result<()> {
    let mut problem =
        |position: Position, what: String| on_problem(Disagreement { position, what });
    let mut records = Vec::with_capacity(batch.len());
    for (position, bytes) in batch {
        match Record::decode(bytes) {
            Ok(record) if record.kind == Kind::Foreign => {
                totals.records += 1;
                totals.dead_bytes += bytes.len() as u64;
            }
            Ok(record) if record.kind == Kind::Begin => totals.records += 1,
            Ok(record) => records.push((*position, record, bytes)),
            Err(what) => problem(*position, what),
        }
    }
    let docids: Vec<_> = records
        .iter()
        .map(|(_, record, _)| docid_bytes(record.docid))
        .collect();
    let rows = get_many(
        view,
        ROWS,
        &docids.iter().map(<[u8; 4]>::as_slice).collect::<Vec<_>>(),
    )?;
    let keys = get_many(
        view,
        KEYS,
        &records
            .iter()
            .map(|(_, record, _)| record.key)
            .collect::<Vec<_>>(),
    )?;
    // Entries of other records' times are none of these documents'.
    let times = records.iter().map(|(_, record, _)| record);
    let times: Vec<_> = times
        .map(|record| expiry_key(record.expires.unwrap_or(0), record.docid))
        .collect();
    let times = times.iter().map(<[u8; 12]>::as_slice).collect::<Vec<_>>();
    let expiries = get_many(view, EXPIRIES, &times)?;
    let entries = rows.into_iter().zip(keys).zip(expiries);
    for ((position, record, bytes), ((row, key), expiry)) in records.into_iter().zip(entries) {
        totals.records += 1;
        let row = row.as_deref().and_then(parse_row);
        let entry = key.as_deref().and_then(KeyEntry::decode);
        let named = entry == Some(KeyEntry::Document(record.docid));
        let name = Key::decode(record.key).map_or_else(
            |_| "with an unreadable key".to_string(),
            |key| key.to_string(),
        );
        if let Some(version) = record.external {
            let is_lost = match entry {
                Some(KeyEntry::Deleted(kept)) => kept < version,
                Some(KeyEntry::Document(_)) if named => row
                    .and_then(|row| row.external)
                    .is_none_or(|kept| kept < version),
                // Another document has the key now, and its own records are compared.
                Some(KeyEntry::Document(_)) => false,
                None => true,
            };
            if is_lost {
                problem(
                    position,
                    format!("document {name}: the index has lost its external version {version}"),
                );
            }
        }
        let is_newest = row.is_some_and(|row| row.position == position);
        let is_kept = row.is_some_and(|row| row.expires == record.expires);
        if is_newest && (!is_kept || expiry.is_some() != record.expires.is_some()) {
            problem(
                position,
                format!("document {name}: the index has another time at which it expires"),
            );
        }
        let row = row.map(|row| row.position);
        if record.kind == Kind::Delete {
            totals.deleted += 1;
            if named || row.is_some() {
                problem(
                    position,
                    format!("document {name} was deleted here, but an index still has it"),
                );
            }
            continue;
        }
        if let Err(error) = Document::from_bytes(record.document_bytes(bytes)) {
            problem(position, format!("document {name} can't be read: {error}"));
        }
        match row {
            Some(row) if row == position && named => totals.live += 1,
            Some(row) if row == position => {
                problem(
                    position,
                    format!("document {name} is live, but its key is not in the index"),
                );
            }
            Some(row) if row < position => {
                problem(
                    position,
                    format!("document {name}: the index is at version {row}, before this record"),
                );
            }
            _ => totals.dead_bytes += bytes.len() as u64,
        }
    }
    Ok(())
}

fn check_totals(
    view: &PartitionView,
    totals: &Totals,
    on_problem: &mut dyn FnMut(Disagreement),
) -> Result<()> {
    let counted = [
        ("live records of the log", totals.live),
        ("documents in the keys tree", entries(view, KEYS)?),
        ("entries of the rows tree", entries(view, ROWS)?),
    ];
    let deleted = view.store_view().summary().deleted;
    if totals.deleted != deleted {
        let what = format!(
            "{} deletions in the log, but {deleted} documents were deleted",
            totals.deleted
        );
        on_problem(Disagreement {
            position: view.position(),
            what,
        });
    }
    for (what, found) in counted {
        if found != view.count() {
            let what = format!("{found} {what}, but {} documents are counted", view.count());
            on_problem(Disagreement {
                position: view.position(),
                what,
            });
        }
    }
    Ok(())
}

fn get_many(view: &PartitionView, tree: TreeId, keys: &[&[u8]]) -> Result<Vec<Option<SmallBytes>>> {
    Ok(view
        .store_view()
        .point_view(&[tree])?
        .get_many(tree, keys)?)
}

/// Entries of a tree; of the keys tree, those that name a document.
fn entries(view: &PartitionView, tree: TreeId) -> Result<u64> {
    let mut count = 0;
    let scan = view
        .store_view()
        .tree(tree)?
        .scan(Bound::Unbounded, Bound::Unbounded);
    for item in scan.map_err(quire_store::Error::from)? {
        let (_, value) = item.map_err(quire_store::Error::from)?;
        count += u64::from(tree != KEYS || parse_docid(&value).is_some());
    }
    Ok(count)
}
