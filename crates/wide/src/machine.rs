//! The state machine of a partition: records of rows applied to their trees. It reads nothing.

use crate::record::{self, CellChange, CellOp, Head, Kind};
use crate::row::{Row, groups_of};
use crate::{GROUPS_MAX, Schema, cell_key};
use crate::{merging::CellMerger, schema::Group};
use bytes::Bytes;
use quire_lsm::{FoldBytes, TreeSpec};
use quire_model::Position;
use quire_store::{ApplyError, Machine, TreeId, TreeWriter};

/// Encoded key → docid (4 bytes, big-endian).
pub(crate) const KEYS: TreeId = TreeId(1);
/// Docid → [`Row`].
pub(crate) const ROWS: TreeId = TreeId(2);
/// Docid → encoded key.
pub(crate) const NAMES: TreeId = TreeId(3);
/// The tree of group 0; those of the others follow.
const GROUPS: u32 = 16;

const STATE_VERSION: u8 = 1;
const STATE_BYTES: usize = 13;

/// The tree of a group.
pub(crate) fn tree_of(group: u8) -> TreeId {
    TreeId(GROUPS + u32::from(group))
}

/// Totals of a partition at one position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Rows.
    pub documents: u64,
}

/// The state machine: its own state is the next docid and the number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WideRows {
    pub(crate) next_docid: u32,
    totals: Totals,
}

/// The tree of a group, shaped as the group says.
fn spec_of(number: usize, group: &Group) -> TreeSpec {
    TreeSpec {
        merger: Some(FoldBytes::shared(CellMerger)),
        codec: group.codec.of_blocks(),
        block_bytes: group.block_bytes as usize,
        tier: group.tier,
        ..TreeSpec::new(GROUPS + number as u32, format!("group {}", group.name))
    }
}

/// The trees of a schema's groups. A group's tree is there before the group is.
pub(crate) fn group_specs(schema: &Schema) -> impl Iterator<Item = TreeSpec> {
    let groups = schema.groups.iter().enumerate();
    groups.map(|(number, group)| spec_of(number, group))
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
        ];
        let unnamed = |number: usize| spec_of(number, &Group::new(number.to_string()));
        trees.extend((0..GROUPS_MAX).map(unnamed));
        trees
    }

    fn new() -> WideRows {
        WideRows {
            next_docid: 0,
            totals: Totals::default(),
        }
    }

    /// Layout: version u8, next docid u32, rows u64 (little-endian).
    fn decode(state: &[u8]) -> Result<WideRows, String> {
        let state: [u8; STATE_BYTES] = state
            .try_into()
            .map_err(|_| "the state has a wrong length".to_string())?;
        let [version, d0, d1, d2, d3, n0, n1, n2, n3, n4, n5, n6, n7] = state;
        if version != STATE_VERSION {
            return Err(format!(
                "state version {version}; this program knows version {STATE_VERSION}"
            ));
        }
        Ok(WideRows {
            next_docid: u32::from_le_bytes([d0, d1, d2, d3]),
            totals: Totals {
                documents: u64::from_le_bytes([n0, n1, n2, n3, n4, n5, n6, n7]),
            },
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = vec![STATE_VERSION];
        out.extend_from_slice(&self.next_docid.to_le_bytes());
        out.extend_from_slice(&self.totals.documents.to_le_bytes());
        out
    }

    fn summary(&self) -> Totals {
        self.totals
    }

    fn apply(&mut self, bytes: &[u8], trees: &TreeWriter<'_>) -> Result<(), ApplyError> {
        let (head, changes) = self.decode_next(bytes).map_err(ApplyError::Record)?;
        let docid = cell_key::row(head.docid);
        for group in groups_of(head.cleared) {
            trees.delete_range(tree_of(group), &docid, &cell_key::row_end(head.docid))?;
        }
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
            self.next_docid = head.docid.0 + 1;
            self.totals.documents += 1;
        }
        let row = Row {
            version: trees.position(),
            time_micros: head.time_micros,
            groups: head.groups,
        };
        trees.put(ROWS, &docid, &row.encode())?;
        changes
            .iter()
            .try_for_each(|change| write_cell(&head, change, trees))
    }

    fn check(&self, first: Position, records: &[Bytes]) -> Result<(), (Position, String)> {
        let (mut state, mut position) = (*self, first);
        for bytes in records {
            let (head, _) = state.decode_next(bytes).map_err(|what| (position, what))?;
            if head.created {
                state.next_docid = head.docid.0 + 1;
            }
            position = position.next();
        }
        Ok(())
    }
}

impl WideRows {
    /// The record, if it can be the next.
    fn decode_next<'a>(&self, bytes: &'a [u8]) -> Result<(Head<'a>, Vec<CellChange<'a>>), String> {
        let (head, changes) = record::decode(bytes)?;
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
    let tree = tree_of(change.group);
    let key = cell_key::encode(head.docid, change.column, change.member);
    match change.op {
        CellOp::Put => trees.put(tree, &key, change.value),
        CellOp::Delete => trees.delete(tree, &key),
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
