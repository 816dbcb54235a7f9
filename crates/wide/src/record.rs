//! Record: the change of one row, in any number of groups, as the log has it.
//!
//! # Layout (little-endian)
//! ```text
//! | kind u8 | flags u8 | time (µs) i64 | docid u32 | cleared u16 | groups u16 | tiers
//!   | expiring u16 | key | change … |
//!   kind: 1 put or patch, 3 delete, 4 move between tiers, 5 removal of cells that have expired,
//!     6 a column that moves to another group passes rows, 7 it moves with cells of a row,
//!     8 it holds a position in a partition that was split off another one, of a record there of
//!       rows that this one does not have, or of all that it was split off or merged with: it
//!       changes nothing but the next docid, if it is created
//!   flags: bit 0 the row is created by this record, bit 1 there is `tiers`, bit 2 there is
//!     `expiring`, bit 3 it is for those who tail the log, of kinds 1, 3 and 8 (see `tail.rs`):
//!     it has its row's key, and of kind 8 nothing that they need is left out in its place,
//!     bit 4 of these, of kind 1, the changes are the whole row
//!   cleared: bit n is set if all cells of the row in group n are removed, before the changes
//!   groups: bit n is set if group n may have cells of the row afterwards
//!   tiers: | cleared cold u16 | version u64 | as a row has them (see `tiers.rs`), afterwards |
//!     cleared cold: bit n is set if the cells that are cleared in group n are in its cold tree
//!     version: of kinds 4 and 7 the version of the row, which stays; else 0
//!   expiring: bit n is set if group n may have cells of the row that expire, afterwards
//!   key: length (LEB128) and bytes, as `Key::encode` writes it; empty unless created, deleted or
//!     with bit 3, and of kind 8
//!
//! change: | op u8 | group u8 | column (LEB128) | member | value |
//!   op: 1 put a cell, 2 remove one, 3 merge operands into one, 4 remove members,
//!     5 forget that one expires, 6 how far a column has moved
//!   member, value: length (LEB128) and bytes
//!   of op 4 the first member that is removed, and the first after it that stays: none if empty
//!   of kind 5 each value is the time of expiry, i64: op 2 removes the cell and its entry in
//!     `expiries`, op 5 the entry alone. Such a record changes no row.
//!   of op 6 the column has moved to the group, up to the member of a row: the value is the group
//!     where it was, u8, and the docid, u32. Records of kinds 6 and 7 have one of these; of kind 6
//!     it is all, and there is no row (docid 0).
//! ```

use crate::column_moves::{ColumnMove, Place};
use crate::stored::Stored;
use crate::tiers::Tiers;
use crate::varint;
use quire_model::{DocId, Position};

const HEAD_BYTES: usize = 18;

/// Where its docid is in a record.
const DOCID_AT: usize = 10;
const CREATED: u8 = 1;
const TIERED: u8 = 2;
const EXPIRING: u8 = 4;
const TAILED: u8 = 8;
const WHOLE: u8 = 16;

/// What a record does to its row. Values are on disk and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Write = 1,
    Delete = 3,
    Move = 4,
    Expire = 5,
    PassColumn = 6,
    MoveColumn = 7,
    Foreign = 8,
}

impl Kind {
    /// Whether a record moves a column from one group to another.
    pub(crate) fn moves_column(record: &[u8]) -> bool {
        let kinds = [Kind::PassColumn as u8, Kind::MoveColumn as u8];
        record.first().is_some_and(|kind| kinds.contains(kind))
    }

    /// Whether the row keeps its version.
    fn keeps_version(self) -> bool {
        matches!(self, Kind::Move | Kind::MoveColumn)
    }
}

/// What a record has for those who tail the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tailed {
    /// Nothing: it may lack its row's key.
    #[default]
    No,
    /// The key of its row.
    Key,
    /// The key, and all cells that the row has afterwards.
    Whole,
}

impl Tailed {
    fn flags(self) -> u8 {
        match self {
            Tailed::No => 0,
            Tailed::Key => TAILED,
            Tailed::Whole => TAILED | WHOLE,
        }
    }

    fn of(flags: u8) -> Option<Tailed> {
        match flags & (TAILED | WHOLE) {
            0 => Some(Tailed::No),
            TAILED => Some(Tailed::Key),
            WHOLE => None,
            _ => Some(Tailed::Whole),
        }
    }
}

/// What a change does. Values are on disk and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum CellOp {
    Put = 1,
    Delete = 2,
    Merge = 3,
    DeleteMembers = 4,
    Forget = 5,
    Progress = 6,
}

/// A change of one cell, or of some members of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CellChange<'a> {
    pub(crate) op: CellOp,
    pub(crate) group: u8,
    pub(crate) column: u32,
    pub(crate) member: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl CellChange<'_> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.op as u8, self.group]);
        varint::put(out, self.column);
        varint::put_bytes(out, self.member);
        varint::put_bytes(out, self.value);
    }

    /// How far its column has moved, if it says so.
    pub(crate) fn progress(&self) -> Option<ColumnMove> {
        let &[from, d0, d1, d2, d3] = self.value else {
            return None;
        };
        let docid = DocId(u32::from_le_bytes([d0, d1, d2, d3]));
        let is_one = self.op == CellOp::Progress && usize::from(from) < crate::GROUPS_MAX;
        let next = Place {
            docid,
            member: self.member.to_vec(),
        };
        is_one.then_some(ColumnMove {
            from,
            to: self.group,
            next,
        })
    }

    /// The time of expiry that is the value, in a record of kind 5.
    pub(crate) fn expiry(&self) -> Option<i64> {
        self.value.try_into().ok().map(i64::from_le_bytes)
    }
}

/// A record, without its changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    pub(crate) kind: Kind,
    pub(crate) created: bool,
    pub(crate) time_micros: i64,
    pub(crate) docid: DocId,
    pub(crate) cleared: u16,
    pub(crate) groups: u16,
    /// Of the cleared groups those whose cells are in their cold trees.
    pub(crate) cleared_cold: u16,
    /// The version that the row keeps, of a move; 0 of others.
    pub(crate) version: Position,
    /// Afterwards.
    pub(crate) tiers: Tiers,
    /// The groups that may have cells that expire, afterwards.
    pub(crate) expiring: u16,
    pub(crate) key: &'a [u8],
    pub(crate) tailed: Tailed,
}

impl Head<'_> {
    /// The record that holds the position of one of another partition, by which a row of this docid
    /// is created, or not.
    pub(crate) fn foreign(
        created: bool,
        docid: DocId,
        time_micros: i64,
        tailed: Tailed,
    ) -> Head<'static> {
        Head {
            kind: Kind::Foreign,
            created,
            time_micros,
            docid,
            cleared: 0,
            groups: 0,
            cleared_cold: 0,
            version: Position(0),
            tiers: Tiers::default(),
            expiring: 0,
            key: &[],
            tailed,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let is_tiered =
            self.kind.keeps_version() || self.cleared_cold != 0 || !self.tiers.is_none();
        let is_expiring = self.expiring != 0;
        let flags = u8::from(self.created) * CREATED
            + u8::from(is_tiered) * TIERED
            + u8::from(is_expiring) * EXPIRING
            + self.tailed.flags();
        let mut out = vec![self.kind as u8, flags];
        out.extend_from_slice(&self.time_micros.to_le_bytes());
        out.extend_from_slice(&self.docid.0.to_le_bytes());
        out.extend_from_slice(&self.cleared.to_le_bytes());
        out.extend_from_slice(&self.groups.to_le_bytes());
        debug_assert_eq!(out.len(), HEAD_BYTES, "the head has one length");
        if is_tiered {
            out.extend_from_slice(&self.cleared_cold.to_le_bytes());
            out.extend_from_slice(&self.version.0.to_le_bytes());
            self.tiers.encode(&mut out);
        }
        if is_expiring {
            out.extend_from_slice(&self.expiring.to_le_bytes());
        }
        varint::put_bytes(&mut out, self.key);
        out
    }
}

/// A record that is [decoded](decode) as this one is, of a row with another docid.
pub(crate) fn with_docid(record: &[u8], docid: DocId) -> Vec<u8> {
    let mut record = record.to_vec();
    if let Some(bytes) = record.get_mut(DOCID_AT..DOCID_AT + 4) {
        bytes.copy_from_slice(&docid.0.to_le_bytes());
    }
    record
}

/// Takes a record apart, all of it.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn decode(record: &[u8]) -> Result<(Head<'_>, Vec<CellChange<'_>>), String> {
    let cut = || "a record that is cut short".to_string();
    let (head, mut rest) = record.split_first_chunk::<HEAD_BYTES>().ok_or_else(cut)?;
    let [
        kind,
        flags,
        t0,
        t1,
        t2,
        t3,
        t4,
        t5,
        t6,
        t7,
        d0,
        d1,
        d2,
        d3,
        c0,
        c1,
        g0,
        g1,
    ] = *head;
    let kind = match kind {
        1 => Kind::Write,
        3 => Kind::Delete,
        4 => Kind::Move,
        5 => Kind::Expire,
        6 => Kind::PassColumn,
        7 => Kind::MoveColumn,
        8 => Kind::Foreign,
        kind => return Err(format!("a record of kind {kind}")),
    };
    let known = flags & !(CREATED | TIERED | EXPIRING | TAILED | WHOLE) == 0;
    let tailed = Tailed::of(flags).filter(|tailed| match kind {
        _ if !known => false,
        Kind::Write => true,
        Kind::Delete | Kind::Foreign => *tailed != Tailed::Whole,
        Kind::Move | Kind::Expire | Kind::PassColumn | Kind::MoveColumn => *tailed == Tailed::No,
    });
    let tailed = tailed.ok_or_else(|| format!("a record with flags {flags}"))?;
    let (cleared_cold, version, tiers) = match flags & TIERED {
        0 => Default::default(),
        _ => take_tiers(&mut rest).ok_or_else(cut)?,
    };
    let expiring = match flags & EXPIRING {
        0 => 0,
        _ => {
            let (mask, after) = rest.split_first_chunk().ok_or_else(cut)?;
            rest = after;
            u16::from_le_bytes(*mask)
        }
    };
    let head = Head {
        kind,
        created: flags & CREATED != 0,
        time_micros: i64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]),
        docid: DocId(u32::from_le_bytes([d0, d1, d2, d3])),
        cleared: u16::from_le_bytes([c0, c1]),
        groups: u16::from_le_bytes([g0, g1]),
        cleared_cold,
        version: Position(version),
        tiers,
        expiring,
        key: varint::take_bytes(&mut rest).ok_or_else(cut)?,
        tailed,
    };
    if head.docid.0 == u32::MAX {
        return Err("the docid that no row has".into());
    }
    let is_named = head.created || kind == Kind::Delete || tailed != Tailed::No;
    let has_key = kind != Kind::Foreign && is_named;
    if head.key.is_empty() == has_key {
        return Err("a key where there is none, or none where there is one".into());
    }
    if head.cleared_cold & !head.cleared != 0 || head.tiers.cold & !head.groups != 0 {
        return Err("cold cells in a group that the record does not name".into());
    }
    if head.expiring & !head.groups != 0 {
        return Err("cells that expire in a group that the record does not name".into());
    }
    let keeps_version = kind.keeps_version();
    if keeps_version != (head.version != Position(0)) || keeps_version && head.created {
        return Err("a version that the record can't give".into());
    }
    let mut changes = Vec::new();
    while !rest.is_empty() {
        changes.push(decode_change(&mut rest)?);
    }
    let named = |change: &CellChange<'_>| head.groups & (1 << change.group) != 0;
    if kind == Kind::Delete && !changes.is_empty() || !changes.iter().all(named) {
        return Err("a change of a cell in a group that the record does not name".into());
    }
    let is_moved = |change: &CellChange<'_>| {
        change.op == CellOp::Put && head.cleared & (1 << change.group) != 0
    };
    if kind == Kind::Move && !changes.iter().all(is_moved) {
        return Err("a change of a cell that a move can't make".into());
    }
    for put in changes.iter().filter(|change| change.op == CellOp::Put) {
        let expires = Stored::split(put.value)?.expires;
        if expires.is_some() && head.expiring & (1 << put.group) == 0 {
            return Err("a cell that expires in a group that has none, as the record says".into());
        }
    }
    let is_expiry = |change: &CellChange<'_>| {
        matches!(change.op, CellOp::Delete | CellOp::Forget) && change.expiry().is_some()
    };
    let can_be = match kind {
        Kind::Expire => !head.created && head.cleared == 0 && changes.iter().all(is_expiry),
        Kind::Foreign => changes.is_empty() && (head.cleared, head.groups) == (0, 0),
        _ => changes.iter().all(|change| change.op != CellOp::Forget),
    };
    if !can_be {
        return Err("changes that a record of its kind can't have".into());
    }
    check_column(&head, &changes)?;
    Ok((head, changes))
}

/// Refuses a record that moves a column otherwise than such records do, and any other that says
/// that it does.
fn check_column(head: &Head<'_>, changes: &[CellChange<'_>]) -> Result<(), String> {
    let progress = changes
        .iter()
        .filter(|change| change.op == CellOp::Progress);
    let moved: Option<Vec<_>> = progress.map(CellChange::progress).collect();
    let count = moved.as_ref().map(Vec::len);
    let is_of = |change: &CellChange<'_>| {
        let moved = moved.iter().flatten().next();
        let (from, to) = moved.map_or((0, 0), |moved| (moved.from, moved.to));
        match change.op {
            CellOp::Progress => true,
            CellOp::Put => change.group == to,
            CellOp::DeleteMembers => change.group == from,
            _ => false,
        }
    };
    let can_be = match head.kind {
        Kind::PassColumn => {
            !head.created && head.cleared == 0 && (count, changes.len()) == (Some(1), 1)
        }
        Kind::MoveColumn => head.cleared == 0 && count == Some(1) && changes.iter().all(is_of),
        _ => count == Some(0),
    };
    match can_be {
        true => Ok(()),
        false => Err("a move of a column that can't be".into()),
    }
}

fn take_tiers(rest: &mut &[u8]) -> Option<(u16, u64, Tiers)> {
    let (cleared_cold, after) = rest.split_first_chunk()?;
    let (version, mut after) = after.split_first_chunk()?;
    let tiers = Tiers::take(&mut after)?;
    *rest = after;
    Some((
        u16::from_le_bytes(*cleared_cold),
        u64::from_le_bytes(*version),
        tiers,
    ))
}

fn decode_change<'a>(rest: &mut &'a [u8]) -> Result<CellChange<'a>, String> {
    let cut = || "a record that is cut short".to_string();
    let (&[op, group], after) = rest.split_first_chunk().ok_or_else(cut)?;
    *rest = after;
    let op = match op {
        1 => CellOp::Put,
        2 => CellOp::Delete,
        3 => CellOp::Merge,
        4 => CellOp::DeleteMembers,
        5 => CellOp::Forget,
        6 => CellOp::Progress,
        op => return Err(format!("a change of kind {op}")),
    };
    let column = varint::take(rest).ok_or_else(cut)?;
    let member = varint::take_bytes(rest).ok_or_else(cut)?;
    let value = varint::take_bytes(rest).ok_or_else(cut)?;
    if usize::from(group) >= crate::GROUPS_MAX || column == u32::MAX {
        return Err(format!("a cell of group {group}, column {column}"));
    }
    Ok(CellChange {
        op,
        group,
        column,
        member,
        value,
    })
}
