//! Where the cells of a column lie while it moves from one group to another, and since.
//!
//! # Invariants
//! 1. A column moves in the order of rows, and of members in a row. All cells before one place are
//!    in the new group, and all others in the old one. The place is a part of the machine's state,
//!    and moves on in the records that move the cells: a view has each cell once.
//! 2. Where a cell is follows from the state alone: the group that a schema names is where the
//!    column goes. So a reader with an older schema, and a follower, find each cell.

use crate::schema::{Column, Schema};
use quire_model::DocId;
use std::collections::BTreeMap;

/// A place in the order of rows and members.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) docid: DocId,
    pub(crate) member: Vec<u8>,
}

impl Place {
    /// Before all cells of a row.
    pub(crate) fn row(docid: DocId) -> Place {
        Place {
            docid,
            member: Vec::new(),
        }
    }

    /// As a row and a member.
    pub(crate) fn at(&self) -> (DocId, &[u8]) {
        (self.docid, &self.member)
    }

    /// Past all rows: no row has the last docid.
    pub(crate) fn end() -> Place {
        Place::row(DocId(u32::MAX))
    }
}

/// A column that moves, or has moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ColumnMove {
    pub(crate) from: u8,
    pub(crate) to: u8,
    /// Cells before this place are in the group `to`.
    pub(crate) next: Place,
}

impl ColumnMove {
    pub(crate) fn is_done(&self) -> bool {
        self.next == Place::end()
    }
}

/// The columns that move or have moved, by number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ColumnMoves(BTreeMap<u32, ColumnMove>);

impl ColumnMoves {
    pub(crate) fn get(&self, column: u32) -> Option<&ColumnMove> {
        self.0.get(&column)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn set(&mut self, column: u32, moved: ColumnMove) {
        self.0.insert(column, moved);
    }

    /// Those that are not done.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = (u32, &ColumnMove)> {
        let all = self.0.iter().map(|(column, moved)| (*column, moved));
        all.filter(|(_, moved)| !moved.is_done())
    }

    /// The group that has a cell of a row, or would have it.
    pub(crate) fn group_of(&self, column: &Column, docid: DocId, member: &[u8]) -> u8 {
        match self.get(column.number) {
            None => column.first_group,
            Some(moved) => match (docid, member) < moved.next.at() {
                true => moved.to,
                false => moved.from,
            },
        }
    }

    /// The groups that have cells of a column in a row: the one of the lesser members first.
    pub(crate) fn groups_in_row(&self, column: &Column, docid: DocId) -> [Option<u8>; 2] {
        match self.get(column.number) {
            Some(moved) if moved.next.docid == docid && !moved.next.member.is_empty() => {
                [Some(moved.to), Some(moved.from)]
            }
            _ => [Some(self.group_of(column, docid, &[])), None],
        }
    }

    /// The groups that have cells of a column in any row.
    pub(crate) fn groups_in_all(&self, column: &Column) -> [Option<u8>; 2] {
        match self.get(column.number) {
            Some(moved) if !moved.is_done() => [Some(moved.to), Some(moved.from)],
            _ => [Some(self.group_of(column, DocId(0), &[])), None],
        }
    }

    /// Whether a column moves out of a group: what is written there is behind its place.
    pub(crate) fn is_behind(&self, column: u32, group: u8) -> bool {
        let moved = self.get(column);
        moved.is_some_and(|moved| !moved.is_done() && moved.from == group)
    }

    /// Whether a row has cells of one column in two groups.
    pub(crate) fn is_split(&self, docid: DocId) -> bool {
        let is_in = |(_, moved): (u32, &ColumnMove)| {
            moved.next.docid == docid && !moved.next.member.is_empty()
        };
        self.unfinished().any(is_in)
    }

    /// How many groups there are at least.
    pub(crate) fn group_count(&self) -> u8 {
        let groups = self.0.values().map(|moved| moved.from.max(moved.to) + 1);
        groups.max().unwrap_or(0)
    }

    /// The move to go on with by a schema, or to begin: the column, and the move.
    pub(crate) fn due(&self, schema: &Schema) -> Option<(u32, ColumnMove)> {
        let mut unfinished = self.unfinished();
        if let Some((column, moved)) = unfinished.next() {
            return Some((column, moved.clone()));
        }
        schema.columns.iter().find_map(|column| {
            let moved = self.get(column.number);
            let from = moved.map_or(column.first_group, |moved| moved.to);
            let begun = ColumnMove {
                from,
                to: column.group,
                next: Place::row(DocId(0)),
            };
            (from != column.group).then_some((column.number, begun))
        })
    }

    /// Appends them: their number u32, and each as column u32, from u8, to u8, docid u32, length of
    /// the member u16 and the member (little-endian).
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.0.len() as u32).to_le_bytes());
        for (column, moved) in &self.0 {
            out.extend_from_slice(&column.to_le_bytes());
            out.extend_from_slice(&[moved.from, moved.to]);
            out.extend_from_slice(&moved.next.docid.0.to_le_bytes());
            out.extend_from_slice(&(moved.next.member.len() as u16).to_le_bytes());
            out.extend_from_slice(&moved.next.member);
        }
    }

    /// Takes what [`encode`](ColumnMoves::encode) wrote off `bytes`.
    pub(crate) fn take(bytes: &mut &[u8]) -> Option<ColumnMoves> {
        let (count, mut rest) = bytes.split_first_chunk()?;
        let mut moves = ColumnMoves::default();
        for _ in 0..u32::from_le_bytes(*count) {
            let (column, after) = rest.split_first_chunk()?;
            let (&[from, to], after) = after.split_first_chunk()?;
            let (docid, after) = after.split_first_chunk()?;
            let (length, after) = after.split_first_chunk()?;
            let length = usize::from(u16::from_le_bytes(*length));
            let (member, after) = after.split_at_checked(length)?;
            let is_group = |group: u8| usize::from(group) < crate::GROUPS_MAX;
            if !is_group(from) || !is_group(to) {
                return None;
            }
            let next = Place {
                docid: DocId(u32::from_le_bytes(*docid)),
                member: member.to_vec(),
            };
            moves.set(u32::from_le_bytes(*column), ColumnMove { from, to, next });
            rest = after;
        }
        *bytes = rest;
        Some(moves)
    }
}
