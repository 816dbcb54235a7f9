//! The state machine of a partition: records of rows applied to their trees. It reads nothing.

use crate::column_moves::{ColumnMove, ColumnMoves};
use crate::record::{self, CellChange, CellOp, Head, Kind};
use crate::row::Row;
use crate::stored::Stored;
use crate::tiers::groups_of;
use crate::{GROUPS_MAX, Schema, cell_key, expiry_key};
use crate::{merging::CellMerger, schema::Group};
use bytes::Bytes;
use quire_lsm::{FoldBytes, Tier, TreeSpec};
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use quire_store::{ApplyError, Machine, TreeId, TreeWriter};
use std::sync::Arc;

/// Encoded key → docid (4 bytes, big-endian).
pub(crate) const KEYS: TreeId = TreeId(1);
/// Docid → [`Row`].
pub(crate) const ROWS: TreeId = TreeId(2);
/// Docid → encoded key.
pub(crate) const NAMES: TreeId = TreeId(3);
/// Expiry, docid, column, member of a cell that expires → its group (see `expiry_key.rs`).
pub(crate) const EXPIRIES: TreeId = TreeId(4);
/// The tree of group 0; those of the others follow.
const GROUPS: u32 = 16;
/// The cold tree of group 0; those of the others follow.
const COLD_GROUPS: u32 = GROUPS + GROUPS_MAX as u32;

/// The version of a state without rows in cold trees.
const STATE_VERSION: u8 = 1;
const STATE_BYTES: usize = 13;
/// The version with the number of rows in each cold tree.
const TIERED_STATE_VERSION: u8 = 2;
/// As version 2, of a partition that has had a cell that expires.
const EXPIRING_STATE_VERSION: u8 = 3;
/// As version 2, and then whether cells have had expiries, and the columns that have moved.
const MOVED_STATE_VERSION: u8 = 4;

/// The tree of a group, or its cold tree.
pub(crate) fn tree_of(group: u8, is_cold: bool) -> TreeId {
    let first = match is_cold {
        false => GROUPS,
        true => COLD_GROUPS,
    };
    TreeId(first + u32::from(group))
}

/// Totals of a partition at one position.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Totals {
    /// Rows.
    pub documents: u64,
    /// For each group, the rows whose cells are in its cold tree.
    pub cold_rows: [u64; GROUPS_MAX],
    /// Whether a cell has ever had a time of expiry.
    pub has_expiring: bool,
    /// Rows that were ever made.
    pub(crate) rows_made: u32,
    /// The columns that have moved from one group to another, or do.
    pub(crate) moves: Arc<ColumnMoves>,
}

impl Totals {
    /// The groups that have rows in their cold trees.
    pub(crate) fn cold_groups(&self) -> u16 {
        let groups = self.cold_rows.iter().enumerate();
        let cold = groups.filter(|(_, rows)| **rows > 0);
        cold.fold(0, |mask, (group, _)| mask | 1 << group)
    }

    /// Counts a row whose cells in these groups are in their cold trees.
    pub(crate) fn add_row(&mut self, cold: u16) {
        self.documents += 1;
        self.move_rows(0, cold);
    }

    fn move_rows(&mut self, from_cold: u16, to_cold: u16) {
        for (group, rows) in self.cold_rows.iter_mut().enumerate() {
            let is_in = |mask: u16| u64::from(mask >> group & 1);
            *rows = (*rows + is_in(to_cold)).saturating_sub(is_in(from_cold));
        }
    }
}

/// The state machine: its own state is the next docid and the number of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WideRows {
    pub(crate) next_docid: u32,
    totals: Totals,
}

/// A tree of a group, shaped as the group says.
fn spec_of(number: usize, group: &Group, is_cold: bool, tier: Tier) -> TreeSpec {
    let id = tree_of(number as u8, is_cold);
    let name = match is_cold {
        false => format!("group {}", group.name),
        true => format!("cold group {}", group.name),
    };
    TreeSpec {
        merger: Some(FoldBytes::shared(CellMerger)),
        codec: group.codec.of_blocks(),
        block_bytes: group.block_bytes as usize,
        filter_bits_per_key: group.filter_bits,
        tier,
        ..TreeSpec::new(id.0, name)
    }
}

/// The trees of a schema's groups, with the tiers of these, the hot one first. A group's trees are
/// there before the group is.
pub(crate) fn group_specs(schema: &Schema, media: &[[Tier; 2]]) -> Vec<TreeSpec> {
    let groups = schema.groups.iter().zip(media).enumerate();
    let specs = groups.flat_map(|(number, (group, [hot, cold]))| {
        [
            spec_of(number, group, false, hot.clone()),
            spec_of(number, group, true, cold.clone()),
        ]
    });
    specs.collect()
}

impl Machine for WideRows {
    type Summary = Totals;

    const LOG_IS_KEPT: bool = false;

    fn trees() -> Vec<TreeSpec> {
        let dense = |id: TreeId, name| TreeSpec {
            filter_bits_per_key: 0,
            ..TreeSpec::new(id.0, name)
        };
        let mut trees = vec![
            TreeSpec::new(KEYS.0, "keys"),
            dense(ROWS, "rows"),
            dense(NAMES, "names"),
            dense(EXPIRIES, "expiries"),
        ];
        for is_cold in [false, true] {
            let unnamed = |number: usize| {
                spec_of(
                    number,
                    &Group::new(number.to_string()),
                    is_cold,
                    Tier::default(),
                )
            };
            trees.extend((0..GROUPS_MAX).map(unnamed));
        }
        trees
    }

    fn new() -> WideRows {
        WideRows {
            next_docid: 0,
            totals: Totals::default(),
        }
    }

    /// Layout: version u8, next docid u32, rows u64 (little-endian); of version 2 then the rows in
    /// the cold tree of each group, 16 u64. Version 3 is as 2, once cells have had expiries.
    /// Version 4 is as 2 and then whether they have, u8, and the columns that have moved.
    fn decode(state: &[u8]) -> Result<WideRows, String> {
        let wrong = || "the state has a wrong length".to_string();
        let (state, mut cold) = state.split_first_chunk::<STATE_BYTES>().ok_or_else(wrong)?;
        let [version, d0, d1, d2, d3, n0, n1, n2, n3, n4, n5, n6, n7] = *state;
        let mut totals = Totals {
            documents: u64::from_le_bytes([n0, n1, n2, n3, n4, n5, n6, n7]),
            has_expiring: version == EXPIRING_STATE_VERSION,
            ..Totals::default()
        };
        match version {
            STATE_VERSION => {}
            TIERED_STATE_VERSION | EXPIRING_STATE_VERSION | MOVED_STATE_VERSION => {
                for rows in &mut totals.cold_rows {
                    let (count, rest) = cold.split_first_chunk().ok_or_else(wrong)?;
                    (*rows, cold) = (u64::from_le_bytes(*count), rest);
                }
                if version == MOVED_STATE_VERSION {
                    let (&[has_expiring], rest) = cold.split_first_chunk().ok_or_else(wrong)?;
                    totals.has_expiring = has_expiring != 0;
                    cold = rest;
                    totals.moves = Arc::new(ColumnMoves::take(&mut cold).ok_or_else(wrong)?);
                }
            }
            _ => {
                return Err(format!(
                    "state version {version}; this program knows versions up to \
                     {MOVED_STATE_VERSION}"
                ));
            }
        }
        if !cold.is_empty() {
            return Err(wrong());
        }
        Ok(WideRows {
            next_docid: u32::from_le_bytes([d0, d1, d2, d3]),
            totals,
        })
    }

    fn encode(&self) -> Vec<u8> {
        let is_tiered = self.totals.cold_groups() != 0;
        let has_expiring = self.totals.has_expiring;
        let has_moved = self.totals.moves.len() > 0;
        let version = match (has_moved, has_expiring, is_tiered) {
            (true, ..) => MOVED_STATE_VERSION,
            (_, true, _) => EXPIRING_STATE_VERSION,
            (_, _, true) => TIERED_STATE_VERSION,
            _ => STATE_VERSION,
        };
        let mut out = vec![version];
        out.extend_from_slice(&self.next_docid.to_le_bytes());
        out.extend_from_slice(&self.totals.documents.to_le_bytes());
        if version != STATE_VERSION {
            let cold = self.totals.cold_rows.iter();
            out.extend(cold.flat_map(|rows| rows.to_le_bytes()));
        }
        if has_moved {
            out.push(u8::from(has_expiring));
            self.totals.moves.encode(&mut out);
        }
        out
    }

    fn summary(&self) -> Totals {
        Totals {
            rows_made: self.next_docid,
            ..self.totals.clone()
        }
    }

    fn apply(&mut self, bytes: &[u8], trees: &TreeWriter<'_>) -> Result<(), ApplyError> {
        let (head, changes) = self.decode_next(bytes).map_err(ApplyError::Record)?;
        if head.kind == Kind::Expire {
            return changes
                .iter()
                .try_for_each(|change| expire_cell(&head, change, trees));
        }
        if let Some((column, moved)) = progress_of(&changes) {
            Arc::make_mut(&mut self.totals.moves).set(column, moved);
        }
        if head.kind == Kind::PassColumn {
            return Ok(());
        }
        if head.kind == Kind::Foreign {
            self.pass_docid(&head);
            return Ok(());
        }
        self.totals.has_expiring |= head.expiring != 0;
        let docid = cell_key::row(head.docid);
        let is_copied = head.kind == Kind::Move && seeded(Bug::MovedCopyLeft);
        for group in groups_of(head.cleared).filter(|_| !is_copied) {
            let tree = tree_of(group, head.cleared_cold & (1 << group) != 0);
            trees.delete_range(tree, &docid, &cell_key::row_end(head.docid))?;
        }
        let moved = head.cleared & head.tiers.cold;
        self.totals.move_rows(head.cleared_cold, moved);
        if head.kind == Kind::Delete {
            trees.delete(KEYS, head.key)?;
            trees.delete(ROWS, &docid)?;
            trees.delete(NAMES, &docid)?;
            self.totals.documents = self.totals.documents.saturating_sub(1);
            return Ok(());
        }
        if head.created {
            trees.put(KEYS, head.key, &docid)?;
            trees.put(NAMES, &docid, head.key)?;
            self.pass_docid(&head);
            self.totals.documents += 1;
        }
        let row = Row {
            version: match head.kind {
                Kind::Move | Kind::MoveColumn => head.version,
                Kind::Write | Kind::Delete | Kind::Expire | Kind::PassColumn | Kind::Foreign => {
                    trees.position()
                }
            },
            time_micros: head.time_micros,
            groups: head.groups,
            tiers: head.tiers,
            expiring: head.expiring,
        };
        trees.put(ROWS, &docid, &row.encode())?;
        changes
            .iter()
            .try_for_each(|change| write_cell(&head, change, trees))
    }

    fn check(&self, first: Position, records: &[Bytes]) -> Result<(), (Position, String)> {
        let (mut state, mut position) = (self.clone(), first);
        for bytes in records {
            let (head, _) = state.decode_next(bytes).map_err(|what| (position, what))?;
            state.pass_docid(&head);
            position = position.next();
        }
        Ok(())
    }
}

impl WideRows {
    /// The state of a partition that begins with rows of others.
    pub(crate) fn begun(next_docid: u32, totals: Totals) -> WideRows {
        WideRows { next_docid, totals }
    }

    /// The docid of a row that is made is not given again.
    fn pass_docid(&mut self, head: &Head<'_>) {
        if head.created {
            self.next_docid = head.docid.0 + 1;
        }
    }

    /// The columns that move or have moved.
    pub(crate) fn moves(&self) -> &ColumnMoves {
        &self.totals.moves
    }

    /// The record, if it can be the next.
    fn decode_next<'a>(&self, bytes: &'a [u8]) -> Result<(Head<'a>, Vec<CellChange<'a>>), String> {
        let (head, changes) = record::decode(bytes)?;
        if head.kind == Kind::PassColumn || head.kind == Kind::Foreign && !head.created {
            // It is of no row that is here.
            return Ok((head, changes));
        }
        if head.created != (head.docid.0 >= self.next_docid) || head.docid.0 > self.next_docid {
            return Err(format!(
                "it is of document number {}, and the next new one is {}",
                head.docid, self.next_docid
            ));
        }
        Ok((head, changes))
    }
}

fn write_cell(
    head: &Head<'_>,
    change: &CellChange<'_>,
    trees: &TreeWriter<'_>,
) -> Result<(), ApplyError> {
    let tree = tree_of(change.group, head.tiers.cold & (1 << change.group) != 0);
    let key = cell_key::encode(head.docid, change.column, change.member);
    match change.op {
        CellOp::Put => {
            let stored = Stored::split(change.value).map_err(ApplyError::Record)?;
            if let Some(expires) = stored.expires {
                trees.put(EXPIRIES, &expiry_key::key(expires, &key), &[change.group])?;
            }
            trees.put(tree, &key, change.value)
        }
        CellOp::Delete => trees.delete(tree, &key),
        // The decoder has refused the one: it is of removals alone. The other is the machine's.
        CellOp::Forget | CellOp::Progress => Ok(()),
        CellOp::Merge => trees.merge(tree, &key, change.value),
        CellOp::DeleteMembers => {
            let to = match change.value {
                [] => cell_key::column_end(head.docid, change.column),
                to => cell_key::encode(head.docid, change.column, to),
            };
            trees.delete_range(tree, &key, &to)
        }
    }
}

/// The column that a record moves, and how far.
fn progress_of(changes: &[CellChange<'_>]) -> Option<(u32, ColumnMove)> {
    let mut moved = changes
        .iter()
        .filter_map(|change| Some((change.column, change.progress()?)));
    moved.next()
}

/// Removes a cell that has expired, and its entry in `expiries`, or the entry alone.
fn expire_cell(
    head: &Head<'_>,
    change: &CellChange<'_>,
    trees: &TreeWriter<'_>,
) -> Result<(), ApplyError> {
    let key = cell_key::encode(head.docid, change.column, change.member);
    if let Some(expires) = change.expiry() {
        trees.delete(EXPIRIES, &expiry_key::key(expires, &key))?;
    }
    match change.op {
        CellOp::Delete => {
            let is_cold = head.tiers.cold & (1 << change.group) != 0;
            trees.delete(tree_of(change.group, is_cold), &key)
        }
        _ => Ok(()),
    }
}
