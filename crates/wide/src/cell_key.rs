//! The keys of a group's tree: cells of a row lie together, those of a column family in the order
//! of their members.
//!
//! # Layout (big-endian, so that bytes sort as the numbers do)
//! ```text
//! | docid u32 | column u32 | member |
//!   member: bytes of a family's member; none of a plain column
//! ```

use quire_model::DocId;

/// The longest name of a family's member, in bytes.
pub const MEMBER_BYTES_MAX: usize = 16 << 10;

const HEAD_BYTES: usize = 8;

/// The key of a cell.
pub(crate) fn encode(docid: DocId, column: u32, member: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(HEAD_BYTES + member.len());
    key.extend_from_slice(&docid.0.to_be_bytes());
    key.extend_from_slice(&column.to_be_bytes());
    key.extend_from_slice(member);
    key
}

/// Docid, column and member of a key.
pub(crate) fn decode(key: &[u8]) -> Option<(DocId, u32, &[u8])> {
    let (docid, rest) = key.split_first_chunk()?;
    let (column, member) = rest.split_first_chunk()?;
    let docid = DocId(u32::from_be_bytes(*docid));
    Some((docid, u32::from_be_bytes(*column), member))
}

/// Before the first cell of a row.
pub(crate) fn row(docid: DocId) -> [u8; 4] {
    docid.0.to_be_bytes()
}

/// Past the last cell of a row. No row has the last docid, so there is always one.
pub(crate) fn row_end(docid: DocId) -> [u8; 4] {
    debug_assert!(docid.0 < u32::MAX, "no row has the last docid");
    docid.0.saturating_add(1).to_be_bytes()
}

/// Past the last cell of a column of a row.
pub(crate) fn column_end(docid: DocId, column: u32) -> Vec<u8> {
    debug_assert!(column < u32::MAX, "no column has the last number");
    encode(docid, column.saturating_add(1), &[])
}
