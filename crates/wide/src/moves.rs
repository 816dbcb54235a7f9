//! Moves between tiers: a pass over the rows moves cells that were not written for long to the cold
//! tree of their group, and those that were written or read since back to the hot one.
//!
//! # Invariants
//! 1. A move is one record: it has the cells, removes them where they were, and sets the row's
//!    entry. So a view, a crash and a follower have them in one tree, and whole.
//! 2. Cells are read without the writer's lock. The record is written only if the row's entry is
//!    still the one that it was made of: each write of a row changes it.
//! 3. A record has at most [`MOVE_BYTES_MAX`] of cells. A row with more in one group stays where it
//!    is, and is counted.
//! 4. Nothing moves to disks that have less than [`ROOM_BYTES`] left, and what memtables hold.

use crate::machine::{ROWS, tree_of};
use crate::record::{CellChange, CellOp, Head, Kind, Tailed};
use crate::row::Row;
use crate::tier_work::TierFigures;
use crate::tiers::groups_of;
use crate::{CELL_BYTES_MAX, Error, GROUPS_MAX, Result, Schema, WidePartition, WideView, cell_key};
use quire_env::{IoClass, IoScope, Medium};
use quire_lsm::SmallBytes;
use quire_model::DocId;
use quire_seeded::{Bug, seeded};
use quire_store::Durability;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// The most bytes of cells that move at once: the largest cell does.
const MOVE_BYTES_MAX: usize = CELL_BYTES_MAX + (64 << 10);

/// A step ends with the row that makes it this long.
const STEP_BYTES: usize = 1 << 20;
const STEP_ROWS: usize = 4096;

/// What a disk has to have free beyond twice what memtables hold.
const ROOM_BYTES: u64 = 64 << 20;

/// A pass over the rows of a partition.
#[derive(Debug, Default)]
pub struct TierPass {
    /// The rows before this one are done.
    next: u32,
    too_large: [u64; GROUPS_MAX],
    lag_micros: [u64; GROUPS_MAX],
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TierStep {
    /// Rows of which cells moved.
    pub rows: u64,
    /// Bytes of the cells.
    pub bytes: u64,
    /// How long the next step waits, so that cells move as fast as their groups say.
    pub wait: Duration,
    /// Whether the pass is over.
    pub is_over: bool,
}

/// A row of which cells are to move.
struct Planned {
    /// The row's entry as it was read.
    row: SmallBytes,
    head: Head<'static>,
    changes: Vec<u8>,
    /// For each group that moves, the bytes of its cells.
    group_bytes: Vec<(u8, u64)>,
}

impl Planned {
    fn record(&self) -> Vec<u8> {
        let mut record = self.head.encode();
        record.extend_from_slice(&self.changes);
        record
    }
}

/// What is planned in a step.
struct Plan<'a> {
    partition: &'a WidePartition,
    view: &'a WideView,
    pass: &'a mut TierPass,
    now_micros: i64,
    /// Rows that were planned before those of the pass.
    wanted: BTreeSet<DocId>,
    moves: Vec<Planned>,
    bytes: usize,
    wait: Duration,
    /// Media that were looked at, and whether they have room.
    rooms: Vec<(Option<Medium>, bool)>,
    stopped: Option<String>,
}

impl WidePartition {
    /// Moves some of the cells that are due, and goes on with the pass, which it ends if there are
    /// no more rows.
    ///
    /// # Errors
    /// Damage on disk, by file and offset; as of [`write`](WidePartition::write).
    pub fn tier_step(
        &self,
        schema: &Arc<Schema>,
        pass: &mut TierPass,
        durability: Durability,
    ) -> Result<TierStep> {
        let _alone = self.columns().alone.lock();
        let view = self.view(schema)?;
        if !self.has_tiers(schema) {
            return Ok(TierStep {
                is_over: true,
                ..TierStep::default()
            });
        }
        let mut plan = Plan {
            partition: self,
            view: &view,
            pass,
            now_micros: self.env().now_micros(),
            wanted: BTreeSet::new(),
            moves: Vec::new(),
            bytes: 0,
            wait: Duration::ZERO,
            rooms: Vec::new(),
            stopped: None,
        };
        let is_over = {
            let _io = IoScope::enter(IoClass::Background);
            plan.plan_wanted()?;
            plan.scan()?
        };
        let (moves, wait) = (plan.moves, plan.wait);
        self.tiers().note_stopped(plan.stopped);
        if is_over {
            let groups = pass.too_large.iter().zip(&pass.lag_micros).enumerate();
            groups.for_each(|(group, (large, lag))| self.tiers().note_pass(group, *large, *lag));
            *pass = TierPass::default();
        }
        let (rows, bytes) = self.do_moves(&moves, durability)?;
        Ok(TierStep {
            rows,
            bytes,
            wait,
            is_over,
        })
    }

    /// Figures of the tiers of each group of the schema.
    ///
    /// # Errors
    /// When the store is closed.
    pub fn tier_figures(&self, schema: &Arc<Schema>) -> Result<Vec<TierFigures>> {
        let view = self.view(schema)?;
        let groups = view.cold_rows().iter().take(schema.groups.len());
        let figures = |(group, rows): (usize, &u64)| self.tiers().figures(group, *rows);
        Ok(groups.enumerate().map(figures).collect())
    }

    /// Why cells do not move between tiers, if they do not.
    pub fn tiers_stopped(&self) -> Option<String> {
        self.tiers().stopped()
    }

    /// Whether rows wait to come back before the next pass.
    pub fn is_tier_wanted(&self) -> bool {
        self.tiers().is_wanted()
    }

    /// Writes the records of those rows that nobody has written since. Gives their number, and the
    /// bytes of the cells.
    fn do_moves(&self, moves: &[Planned], durability: Durability) -> Result<(u64, u64)> {
        if moves.is_empty() {
            return Ok((0, 0));
        }
        if seeded(Bug::ColdBeforeCells) {
            self.mark_first(moves, durability)?;
        }
        let (done, position) = self.store().write_unsynced(|transaction| {
            let mut done = Vec::with_capacity(moves.len());
            for planned in moves {
                let row = transaction.get(ROWS, &cell_key::row(planned.head.docid))?;
                if row.as_ref() == Some(&planned.row) || seeded(Bug::ColdBeforeCells) {
                    transaction.append(planned.record());
                    done.push(planned);
                }
            }
            Ok::<_, Error>(done)
        })?;
        if done.is_empty() {
            return Ok((0, 0));
        }
        self.store().acknowledge(position, durability)?;
        let mut bytes_moved = 0;
        for planned in &done {
            for (group, bytes) in &planned.group_bytes {
                let is_cold = planned.head.tiers.cold & (1 << group) != 0;
                self.tiers().note_moved(*group, is_cold, *bytes);
                bytes_moved += bytes;
            }
        }
        Ok((done.len() as u64, bytes_moved))
    }

    /// Sets the entries of rows before their cells are there, as a seeded bug does it.
    fn mark_first(&self, moves: &[Planned], durability: Durability) -> Result<()> {
        self.store().write(durability, |transaction| {
            for planned in moves {
                let mark = Head {
                    cleared: 0,
                    cleared_cold: 0,
                    ..planned.head
                };
                transaction.append(mark.encode());
            }
            Ok(())
        })
    }
}

impl Plan<'_> {
    /// Plans rows that were written or read since they became cold.
    fn plan_wanted(&mut self) -> Result<()> {
        while self.bytes < STEP_BYTES
            && let Some((docid, read)) = self.partition.tiers().take_wanted()
        {
            let row = self.view.tree(ROWS)?.get(&cell_key::row(docid))?;
            if let Some(row) = row {
                self.row(docid, row, read)?;
                self.wanted.insert(docid);
            }
        }
        Ok(())
    }

    /// Goes on with the pass. Returns whether it is over.
    fn scan(&mut self) -> Result<bool> {
        let from = self.pass.next.to_be_bytes();
        let rows = self.view.tree(ROWS)?;
        let rows = rows.scan(Bound::Included(&from), Bound::Unbounded)?;
        for (seen, item) in rows.enumerate() {
            if seen == STEP_ROWS || self.bytes >= STEP_BYTES {
                return Ok(false);
            }
            let (key, row) = item?;
            let docid = <[u8; 4]>::try_from(&*key).map(u32::from_be_bytes);
            let Ok(docid) = docid else {
                return Err(self.view.corrupt("the key of a row has no 4 bytes".into()));
            };
            // A transaction does not see its own records: no row is in a step twice.
            let is_whole = match self.wanted.contains(&DocId(docid)) {
                true => true,
                false => self.row(DocId(docid), row, 0)?,
            };
            self.pass.next = docid + u32::from(is_whole);
            if !is_whole {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Plans what is due of a row. Returns whether that is all of it; `read` are groups that were
    /// read often.
    fn row(&mut self, docid: DocId, entry: SmallBytes, read: u16) -> Result<bool> {
        let row = Row::decode(&entry);
        let row = row.ok_or_else(|| {
            let what = format!("the entry of document number {docid} in rows can't be read");
            self.view.corrupt(what)
        })?;
        let (mut moved, mut tiers) = (0u16, row.tiers);
        let (mut changes, mut group_bytes) = (Vec::new(), Vec::new());
        let mut is_whole = true;
        for group in groups_of(row.groups) {
            if !self.is_due(&row, group, read) {
                continue;
            }
            let cells = self.cells(docid, &row, group)?;
            self.bytes += cells.as_ref().map_or(MOVE_BYTES_MAX, Vec::len);
            let Some(cells) = cells else {
                if let Some(count) = self.pass.too_large.get_mut(usize::from(group)) {
                    *count += 1;
                }
                continue;
            };
            if !changes.is_empty() && changes.len() + cells.len() > MOVE_BYTES_MAX {
                is_whole = false;
                break;
            }
            if row.is_cold(group) && read & (1 << group) != 0 {
                tiers.set_time(group, self.now_micros);
            }
            moved |= 1 << group;
            group_bytes.push((group, cells.len() as u64));
            changes.extend(cells);
            self.wait += self.takes(group, group_bytes.last().map_or(0, |(_, bytes)| *bytes));
        }
        tiers.cold ^= moved;
        if moved != 0 {
            self.moves.push(Planned {
                row: entry,
                head: Head {
                    kind: Kind::Move,
                    created: false,
                    time_micros: row.time_micros,
                    docid,
                    cleared: moved,
                    groups: row.groups,
                    cleared_cold: moved & row.tiers.cold,
                    version: row.version,
                    tiers,
                    expiring: row.expiring,
                    key: &[],
                    tailed: Tailed::No,
                },
                changes,
                group_bytes,
            });
        }
        Ok(is_whole)
    }

    /// Whether the cells of a row in a group are to move now.
    fn is_due(&mut self, row: &Row, group: u8, read: u16) -> bool {
        let Some(shape) = self.view.schema().groups().get(usize::from(group)) else {
            return false;
        };
        let (is_cold, (hot, cold)) = (row.is_cold(group), shape.media());
        let is_due = match &shape.tiers {
            None => is_cold,
            Some(tiers) => {
                let age = self.now_micros.saturating_sub(row.time_of(group));
                let overdue = age.saturating_sub(tiers.after_micros());
                if !is_cold && let Some(lag) = self.pass.lag_micros.get_mut(usize::from(group)) {
                    *lag = (*lag).max(u64::try_from(overdue).unwrap_or(0));
                }
                match is_cold {
                    true => overdue < 0 || read & (1 << group) != 0,
                    false => overdue >= 0,
                }
            }
        };
        is_due && self.has_room(if is_cold { hot } else { cold })
    }

    /// Whether a medium has room for what moves to it.
    fn has_room(&mut self, medium: Option<Medium>) -> bool {
        if let Some((_, has_room)) = self.rooms.iter().find(|(of, _)| *of == medium) {
            return *has_room;
        }
        let full = self.partition.without_room(medium, ROOM_BYTES);
        let has_room = full.is_none();
        self.stopped = self.stopped.take().or(full);
        self.rooms.push((medium, has_room));
        has_room
    }

    /// The cells of a row in a group, as changes of a record; none if they are too many.
    fn cells(&self, docid: DocId, row: &Row, group: u8) -> Result<Option<Vec<u8>>> {
        let (from, to) = (cell_key::row(docid), cell_key::row_end(docid));
        let tree = self.view.tree(tree_of(group, row.is_cold(group)))?;
        let mut changes = Vec::new();
        for item in tree.scan(Bound::Included(&from), Bound::Excluded(&to))? {
            let (key, value) = item?;
            let (_, column, member) = self.view.split(&key)?;
            let put = CellChange {
                op: CellOp::Put,
                group,
                column,
                member,
                value: &value,
            };
            put.encode(&mut changes);
            if changes.len() > MOVE_BYTES_MAX {
                return Ok(None);
            }
        }
        Ok(Some(changes))
    }

    /// How long these bytes take at the rate of a group.
    fn takes(&self, group: u8, bytes: u64) -> Duration {
        let shape = self.view.schema().groups().get(usize::from(group));
        let tiers = shape.and_then(|group| group.tiers);
        let rate = tiers.map_or(crate::group_tiers::BYTES_PER_SECOND, |tiers| {
            tiers.bytes_per_second
        });
        Duration::from_micros(bytes.saturating_mul(1_000_000) / rate.max(1))
    }
}
