//! Moving the cells of a column from one group to another, some at a time.
//!
//! # Invariants
//! 1. Cells are read without the writer's lock, and moved by a record for each row that has some.
//!    It is written only if the row's entry is still the one that it was made of.
//! 2. Rows without cells of the column are passed. A writer notes those rows behind the place of
//!    the move in which it writes a cell of the column: a move does not pass one that was written
//!    after the view that it was planned of.
//! 3. What moves cells or removes expired ones works alone: none of them sees a row's entry change
//!    by the others, as a row keeps its version.
//! 4. A record has at most [`STEP_BYTES`] of cells and one more cell. A row with more moves in
//!    parts.

use crate::column_moves::{ColumnMove, Place};
use crate::column_notes::ColumnWork;
use crate::group_scan::GroupScan;
use crate::machine::ROWS;
use crate::record::{CellChange, CellOp, Head, Kind, Tailed};
use crate::row::Row;
use crate::schema::Column;
use crate::stored::Stored;
use crate::tiers::Tiers;
use crate::{Error, MEMBER_BYTES_MAX, Result, Schema, WidePartition, WideView, cell_key};
use quire_env::{IoClass, IoScope};
use quire_lsm::SmallBytes;
use quire_model::{DocId, Position};
use quire_seeded::{Bug, seeded};
use quire_store::{Durability, Transaction};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The bytes of cells that move in a step, and in a record, but for the last cell.
const STEP_BYTES: usize = 1 << 20;

/// The bytes of a group that a step reads.
const SCAN_BYTES: usize = 8 << 20;

/// The most columns that a partition knows to have moved.
const MOVES_MAX: usize = 1 << 16;

/// The bytes of cells that move in a second at most, in each partition, in the background.
const BYTES_PER_SECOND: u64 = 8 << 20;

/// How long a step waits if it met with a write.
const RETRY: Duration = Duration::from_millis(20);

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColumnStep {
    /// Cells that moved.
    pub cells: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long the next step waits in the background, so that it leaves room for others.
    pub wait: Duration,
    /// Whether no column is to move any more.
    pub is_over: bool,
}

/// How far a column has moved in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnProgress {
    /// Its name.
    pub column: String,
    /// The names of its groups: where it was, and where it goes.
    pub groups: [String; 2],
    /// The rows that were passed, of all that were ever made.
    pub passed: u64,
    /// The rows that were ever made.
    pub of: u64,
    /// Whether all its cells are where they are to be.
    pub is_done: bool,
}

/// The record of a row, as far as it is made.
struct Planned {
    /// The row's entry as it was read.
    entry: SmallBytes,
    row: Row,
    docid: DocId,
    /// Where its cells begin.
    from: Vec<u8>,
    puts: Vec<u8>,
    cells: u64,
    /// Past the last cell.
    next: Place,
    /// Whether one of the cells expires.
    expires: bool,
}

/// Rows whose cells move, and up to where rows without cells can be passed.
pub(crate) struct ColumnPlan {
    column: u32,
    moved: ColumnMove,
    /// What the view saw.
    seen: Position,
    rows: Vec<Planned>,
    end: Place,
}

impl Planned {
    fn record(&self, column: u32, moved: &ColumnMove) -> Vec<u8> {
        let (from, to) = (1u16 << moved.from, 1u16 << moved.to);
        let row = &self.row;
        let head = Head {
            kind: Kind::MoveColumn,
            created: false,
            time_micros: row.time_micros,
            docid: self.docid,
            cleared: 0,
            groups: row.groups | from | to,
            cleared_cold: 0,
            version: row.version,
            tiers: row.tiers,
            expiring: row.expiring | if self.expires { to } else { 0 },
            key: &[],
            tailed: Tailed::No,
        };
        let mut record = head.encode();
        if !seeded(Bug::MovedColumnLeft) {
            let gone = CellChange {
                op: CellOp::DeleteMembers,
                group: moved.from,
                column,
                member: &self.from,
                value: &self.next.member,
            };
            gone.encode(&mut record);
        }
        record.extend_from_slice(&self.puts);
        encode_progress(column, moved, &self.next, &mut record);
        record
    }
}

/// Appends the change that says how far a column has moved.
fn encode_progress(column: u32, moved: &ColumnMove, next: &Place, out: &mut Vec<u8>) {
    let [d0, d1, d2, d3] = next.docid.0.to_le_bytes();
    let progress = CellChange {
        op: CellOp::Progress,
        group: moved.to,
        column,
        member: &next.member,
        value: &[moved.from, d0, d1, d2, d3],
    };
    progress.encode(out);
}

/// The record of a move that passes rows without cells, or begins.
pub(crate) fn passing_record(
    column: u32,
    moved: &ColumnMove,
    next: &Place,
    time_micros: i64,
) -> Vec<u8> {
    let head = Head {
        kind: Kind::PassColumn,
        created: false,
        time_micros,
        docid: DocId(0),
        cleared: 0,
        groups: 1 << moved.to,
        cleared_cold: 0,
        version: Position(0),
        tiers: Tiers::default(),
        expiring: 0,
        key: &[],
        tailed: Tailed::No,
    };
    let mut record = head.encode();
    encode_progress(column, moved, next, &mut record);
    record
}

impl WidePartition {
    /// Whether columns are to move by this schema.
    ///
    /// # Errors
    /// When the store is closed.
    pub fn has_column_moves(&self, schema: &Schema) -> Result<bool> {
        let view = self.store().view_of(&[ROWS])?;
        Ok(view.summary().moves.due(schema).is_some())
    }

    /// How far the columns have come that are to be in other groups than they were in at first.
    ///
    /// # Errors
    /// When the store is closed.
    pub fn column_progress(&self, schema: &Schema) -> Result<Vec<ColumnProgress>> {
        let view = self.store().view_of(&[ROWS])?;
        let totals = view.summary();
        let of = u64::from(totals.rows_made);
        let group = |number: u8| {
            let group = schema.groups.get(usize::from(number));
            group.map_or_else(|| number.to_string(), |group| group.name.clone())
        };
        let progress = |column: &Column| {
            let (from, to, passed) = match totals.moves.get(column.number) {
                Some(moved) if !moved.is_done() || moved.to == column.group => {
                    (moved.from, moved.to, u64::from(moved.next.docid.0).min(of))
                }
                Some(moved) => (moved.to, column.group, 0),
                None if column.first_group != column.group => (column.first_group, column.group, 0),
                None => return None,
            };
            let moved = totals.moves.get(column.number);
            Some(ColumnProgress {
                column: column.name.clone(),
                groups: [group(from), group(to)],
                passed,
                of,
                is_done: moved.is_some_and(|moved| moved.is_done() && moved.to == column.group),
            })
        };
        Ok(schema.columns.iter().filter_map(progress).collect())
    }

    /// Cells that have moved with their columns, and their bytes, since the partition was opened.
    pub fn column_cells_moved(&self) -> (u64, u64) {
        let (cells, bytes) = (&self.columns().cells, &self.columns().bytes);
        (cells.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed))
    }

    /// Moves some of the cells of a column that is to move, in the order of rows.
    ///
    /// # Errors
    /// Damage on disk, by file and offset; as of [`write`](WidePartition::write).
    pub fn column_step(&self, schema: &Arc<Schema>, durability: Durability) -> Result<ColumnStep> {
        self.column_step_of(schema, durability, STEP_BYTES)
    }

    /// As [`column_step`](WidePartition::column_step), of this number of bytes.
    pub(crate) fn column_step_of(
        &self,
        schema: &Arc<Schema>,
        durability: Durability,
        bytes: usize,
    ) -> Result<ColumnStep> {
        let _alone = self.columns().alone.lock();
        match self.plan_column(schema, durability, bytes)? {
            Some(plan) => self.move_column(&plan, durability),
            None => Ok(ColumnStep {
                is_over: true,
                ..ColumnStep::default()
            }),
        }
    }

    /// Begins the move that is due, if it has not begun, and plans a step of it.
    pub(crate) fn plan_column(
        &self,
        schema: &Arc<Schema>,
        durability: Durability,
        bytes: usize,
    ) -> Result<Option<ColumnPlan>> {
        let (due, position) = self.store().write_unsynced(|transaction| {
            let moves = transaction.machine().moves();
            let Some((column, moved)) = moves.due(schema) else {
                return Ok(None);
            };
            if moves.get(column) != Some(&moved) {
                if moves.get(column).is_none() && moves.len() >= MOVES_MAX {
                    let what = format!("{MOVES_MAX} columns have moved: no more can");
                    return Err(Error::Invalid(what));
                }
                let now = self.env().now_micros();
                transaction.append(passing_record(column, &moved, &moved.next, now));
                return Ok(Some((column, moved, true)));
            }
            Ok::<_, Error>(Some((column, moved, false)))
        })?;
        let Some((column, moved, begins)) = due else {
            return Ok(None);
        };
        if begins {
            // What was written before, and is not noted, is seen by views from here on.
            self.store().acknowledge(position, durability)?;
        }
        let view = self.view(schema)?;
        self.columns().forget(view.position());
        let _io = IoScope::enter(IoClass::Background);
        plan(&view, column, moved, bytes).map(Some)
    }

    /// Writes the records of a plan, up to the first row that was written since.
    pub(crate) fn move_column(
        &self,
        plan: &ColumnPlan,
        durability: Durability,
    ) -> Result<ColumnStep> {
        let now = self.env().now_micros();
        let (step, position) = self.store().write_unsynced(|transaction| {
            let work = self.columns();
            append_plan(plan, work, transaction, now)
        })?;
        self.store().acknowledge(position, durability)?;
        let work = self.columns();
        work.cells.fetch_add(step.cells, Ordering::Relaxed);
        work.bytes.fetch_add(step.bytes, Ordering::Relaxed);
        Ok(step)
    }
}

/// Appends the records of a plan, as far as nothing was written since it was made.
fn append_plan(
    plan: &ColumnPlan,
    work: &ColumnWork,
    transaction: &mut Transaction<'_, crate::machine::WideRows>,
    now: i64,
) -> Result<ColumnStep> {
    let mut step = ColumnStep::default();
    let moves = transaction.machine().moves();
    if moves.get(plan.column) != Some(&plan.moved) {
        return Ok(step);
    }
    let (mut at, mut is_whole) = (plan.moved.next.clone(), true);
    let mut recorded = at.clone();
    for row in &plan.rows {
        if let Some(docid) = work.written(at.docid, row.docid, plan.seen) {
            at = at.max(Place::row(docid));
            is_whole = false;
            break;
        }
        at = at.max(Place::row(row.docid));
        let entry = transaction.get(ROWS, &cell_key::row(row.docid))?;
        if entry.as_ref() != Some(&row.entry) {
            is_whole = false;
            break;
        }
        transaction.append(row.record(plan.column, &plan.moved));
        at = row.next.clone();
        recorded = at.clone();
        step.cells += row.cells;
        step.bytes += row.puts.len() as u64;
    }
    if is_whole && at < plan.end {
        let written = work.written(at.docid, plan.end.docid, plan.seen);
        is_whole = written.is_none();
        at = written.map_or(plan.end.clone(), |docid| at.max(Place::row(docid)));
    }
    if recorded < at {
        transaction.append(passing_record(plan.column, &plan.moved, &at, now));
    }
    let takes = step.bytes.saturating_mul(1_000_000) / BYTES_PER_SECOND;
    step.wait = match is_whole {
        true => Duration::from_micros(takes),
        false => RETRY.max(Duration::from_micros(takes)),
    };
    Ok(step)
}

/// Plans the next cells of a column, this number of bytes of them and one cell more.
fn plan(view: &WideView, column: u32, moved: ColumnMove, bytes_max: usize) -> Result<ColumnPlan> {
    let mut plan = ColumnPlan {
        column,
        seen: view.position(),
        rows: Vec::new(),
        end: Place::end(),
        moved,
    };
    let next = plan.moved.next.clone();
    let from = match next.member.is_empty() {
        true => cell_key::row(next.docid).to_vec(),
        false => cell_key::encode(next.docid, column, &next.member),
    };
    let (mut bytes, mut scanned, mut current) = (0, 0, None);
    for item in GroupScan::begin_at(view, plan.moved.from, &from)? {
        let (key, value) = item?;
        let (docid, number, member) = view.split(&key)?;
        let is_full = bytes >= bytes_max || scanned >= SCAN_BYTES;
        if is_full && current != Some(docid) {
            plan.end = Place::row(docid);
            return Ok(plan);
        }
        current = Some(docid);
        scanned += key.len() + value.len();
        if number != column {
            continue;
        }
        if bytes >= bytes_max
            && let Some(row) = plan.rows.last_mut()
        {
            // The row has more than a record takes: it moves in parts.
            row.next.docid = docid;
            row.next.member = member.to_vec();
            plan.end = row.next.clone();
            return Ok(plan);
        }
        if plan.rows.last().map(|row| row.docid) != Some(docid) {
            let is_first = docid == next.docid;
            let from = if is_first { &*next.member } else { &[] };
            plan.rows.push(planned(view, docid, from.to_vec())?);
        }
        let Some(row) = plan.rows.last_mut() else {
            continue;
        };
        let put = CellChange {
            op: CellOp::Put,
            group: plan.moved.to,
            column,
            member,
            value: &value,
        };
        let before = row.puts.len();
        put.encode(&mut row.puts);
        bytes += row.puts.len() - before;
        row.cells += 1;
        let stored = Stored::split(&value).map_err(|what| view.corrupt(what))?;
        row.expires |= stored.expires.is_some();
    }
    Ok(plan)
}

/// The record of a row without cells yet.
fn planned(view: &WideView, docid: DocId, from: Vec<u8>) -> Result<Planned> {
    debug_assert!(from.len() <= MEMBER_BYTES_MAX, "it is the name of a member");
    let entry = view.tree(ROWS)?.get(&cell_key::row(docid))?;
    let row = entry.as_deref().and_then(Row::decode);
    let (Some(entry), Some(row)) = (entry, row) else {
        let what = format!("document number {docid} has cells, and no entry in rows");
        return Err(view.corrupt(what));
    };
    Ok(Planned {
        entry,
        row,
        docid,
        from,
        puts: Vec::new(),
        cells: 0,
        next: Place::row(DocId(docid.0.saturating_add(1))),
        expires: false,
    })
}
