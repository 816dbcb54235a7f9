//! Removing the cells that have expired.
//!
//! The tree `expiries` has them in the order of their times. What is due is read from there, and
//! removed by records that say which cells go, and of which only the entry does.
//!
//! # Invariants
//! 1. No reader sees that a cell is removed: it had expired before. So the row keeps its version.
//! 2. Cells are read without the writer's lock. A record is written only if the row's entry is
//!    still the one that it was made of: each write of a row changes it.
//! 3. An entry may be of a time that its cell no longer has: `apply` reads nothing, so a write over
//!    a cell leaves the entry. Its time comes too, and then the cell is compared with it.

use crate::expiry_key::{key, split};
use crate::machine::{EXPIRIES, ROWS, tree_of};
use crate::record::{CellChange, CellOp, Head, Kind, Tailed};
use crate::row::Row;
use crate::stored::Stored;
use crate::tiers::Tiers;
use crate::{Error, GROUPS_MAX, Result, Schema, WidePartition, WideView, cell_key};
use quire_env::{IoClass, IoScope};
use quire_lsm::SmallBytes;
use quire_model::{DocId, Position};
use quire_seeded::{Bug, seeded};
use quire_store::Durability;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The entries that a step takes; fewer, if their keys are of many bytes.
const STEP_ENTRIES: usize = 1024;
const STEP_BYTES: usize = 1 << 20;

/// No write takes so long from the reading of the clock until it is seen, and no clock that is kept
/// in step is set back so far.
const SLACK_MICROS: i64 = 60 * 1_000_000;

/// How far a partition has come with what has expired since it was opened.
#[derive(Debug, Default)]
pub struct ExpiryPass {
    /// All entries before this one were seen, and are gone.
    next: Vec<u8>,
    /// The time of the newest step.
    seen_micros: i64,
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExpiryStep {
    /// Cells that were removed.
    pub cells: u64,
    /// Whether there may be more that are due.
    pub more: bool,
}

/// The record of a row, as far as it is made.
struct Planned {
    docid: DocId,
    /// The row's entry as it was read; none of a row that is gone.
    row: Option<SmallBytes>,
    cold: u16,
    groups: u16,
    changes: Vec<u8>,
    cells: u64,
}

impl Planned {
    fn record(&self, time_micros: i64) -> Vec<u8> {
        let head = Head {
            kind: Kind::Expire,
            created: false,
            time_micros,
            docid: self.docid,
            cleared: 0,
            groups: self.groups,
            cleared_cold: 0,
            version: Position(0),
            tiers: Tiers::of_cold(self.cold & self.groups),
            expiring: 0,
            key: &[],
            tailed: Tailed::No,
        };
        let mut record = head.encode();
        record.extend_from_slice(&self.changes);
        record
    }
}

/// What is planned in a step.
struct Plan {
    rows: BTreeMap<DocId, Planned>,
    /// The last entry that was read.
    last: Option<SmallBytes>,
    /// Whether there are no more that are due.
    is_all: bool,
}

impl WidePartition {
    /// Whether a cell of it has ever had a time of expiry.
    ///
    /// # Errors
    /// When the store is closed.
    pub fn has_expiring(&self) -> Result<bool> {
        let view = self.store().view_of(&[ROWS])?;
        Ok(view.summary().has_expiring)
    }

    /// Whether a cell was written that expires, since the partition was opened.
    pub fn expects_expiry(&self) -> bool {
        self.expiry().is_expected.load(Ordering::Relaxed)
    }

    /// The cells that have expired and were removed since the partition was opened.
    pub fn cells_expired(&self) -> u64 {
        self.expiry().removed.load(Ordering::Relaxed)
    }

    /// Removes some of the cells that have expired, and the entries of others that no longer do.
    ///
    /// # Errors
    /// Damage on disk, by file and offset; as of [`write`](WidePartition::write).
    pub fn expire_step(&self, pass: &mut ExpiryPass, durability: Durability) -> Result<ExpiryStep> {
        let _alone = self.columns().alone.lock();
        let view = self.view_of_all(&Arc::new(Schema::new()))?;
        if !view.has_expiring() {
            return Ok(ExpiryStep::default());
        }
        let now = view.time_micros();
        if now < pass.seen_micros.saturating_sub(SLACK_MICROS) {
            // The clock was set back: what was written since may expire before what was seen.
            pass.next.clear();
        }
        pass.seen_micros = now;
        let plan = {
            let _io = IoScope::enter(IoClass::Background);
            plan(&view, &pass.next, now)?
        };
        let (cells, is_whole) = self.remove(&plan, now, durability)?;
        self.expiry().removed.fetch_add(cells, Ordering::Relaxed);
        match (is_whole, plan.last) {
            // What was written meanwhile is looked at again.
            (false, _) => {}
            (true, Some(last)) if !plan.is_all => {
                pass.next = last.to_vec();
                pass.next.push(0);
            }
            (true, _) => pass.next = key(now.saturating_sub(SLACK_MICROS), &[]),
        }
        Ok(ExpiryStep {
            cells,
            more: !plan.is_all,
        })
    }

    /// Writes the records of those rows that nobody has written since. Gives the number of cells,
    /// and whether it is all rows.
    fn remove(&self, plan: &Plan, now: i64, durability: Durability) -> Result<(u64, bool)> {
        if plan.rows.is_empty() {
            return Ok((0, true));
        }
        let ((cells, is_whole), position) = self.store().write_unsynced(|transaction| {
            let (mut cells, mut is_whole) = (0, true);
            for planned in plan.rows.values() {
                let row = transaction.get(ROWS, &cell_key::row(planned.docid))?;
                if row != planned.row {
                    is_whole = false;
                    continue;
                }
                transaction.append(planned.record(now));
                cells += planned.cells;
            }
            Ok::<_, Error>((cells, is_whole))
        })?;
        self.store().acknowledge(position, durability)?;
        Ok((cells, is_whole))
    }
}

/// Plans the entries that are due, from one on.
fn plan(view: &WideView, from: &[u8], now: i64) -> Result<Plan> {
    let mut plan = Plan {
        rows: BTreeMap::new(),
        last: None,
        is_all: true,
    };
    let end = key(now.saturating_add(1), &[]);
    if from >= end.as_slice() {
        return Ok(plan);
    }
    let from = match from {
        [] => Bound::Unbounded,
        from => Bound::Included(from),
    };
    let entries = view.tree(EXPIRIES)?.scan(from, Bound::Excluded(&end))?;
    let mut bytes = 0;
    for (count, item) in entries.enumerate() {
        if count == STEP_ENTRIES || bytes >= STEP_BYTES {
            plan.is_all = false;
            break;
        }
        let (entry, group) = item?;
        bytes += entry.len();
        plan_entry(view, &entry, &group, &mut plan.rows)?;
        plan.last = Some(entry);
    }
    Ok(plan)
}

/// Plans what is done of an entry.
fn plan_entry(
    view: &WideView,
    entry: &[u8],
    group: &[u8],
    rows: &mut BTreeMap<DocId, Planned>,
) -> Result<()> {
    let corrupt = || view.corrupt("an entry of the tree expiries can't be read".into());
    let (expires, at) = split(entry).ok_or_else(corrupt)?;
    let (docid, column, member) = view.split(at)?;
    let group = match group {
        [group] if usize::from(*group) < GROUPS_MAX => *group,
        _ => return Err(corrupt()),
    };
    let planned = match rows.entry(docid) {
        std::collections::btree_map::Entry::Occupied(there) => there.into_mut(),
        std::collections::btree_map::Entry::Vacant(place) => {
            let row = view.tree(ROWS)?.get(&cell_key::row(docid))?;
            let cold = match &row {
                Some(row) => Row::decode(row).map(|row| row.tiers.cold),
                None => Some(0),
            };
            let cold = cold.ok_or_else(|| {
                let what = format!("the entry of document number {docid} in rows can't be read");
                view.corrupt(what)
            })?;
            place.insert(Planned {
                docid,
                row,
                cold,
                groups: 0,
                changes: Vec::new(),
                cells: 0,
            })
        }
    };
    let is_cold = planned.cold & (1 << group) != 0;
    let cell = match planned.row {
        Some(_) => view.tree(tree_of(group, is_cold))?.get(at)?,
        None => None,
    };
    let stored = cell.as_deref().map(Stored::split).transpose();
    let stored = stored.map_err(|what| view.corrupt(what))?;
    let is_of_cell = stored.is_some_and(|stored| stored.expires == Some(expires))
        || stored.is_some() && seeded(Bug::NewerCellExpired);
    let change = CellChange {
        op: match is_of_cell {
            true => CellOp::Delete,
            false => CellOp::Forget,
        },
        group,
        column,
        member,
        value: &expires.to_le_bytes(),
    };
    change.encode(&mut planned.changes);
    planned.groups |= 1 << group;
    planned.cells += u64::from(is_of_cell);
    Ok(())
}
