//! The record of a document's change, as the log holds it.
//!
//! # Invariants
//! 1. A record says all that applying it needs: nothing is read, so the same records give the same
//!    trees.
//! 2. Put and patch hold the whole document as it was after the change: one read serves it.
//! 3. A record that makes an earlier one obsolete says which, and how long that was: what can be
//!    reclaimed is known without reading. Only records of the first version, and those that create
//!    a document, do not.
//! 4. A delete that created its document is the deletion of none: it keeps an external version.
//!
//! # Layout (little-endian)
//! ```text
//! 0      1       2               10      14           16
//! | kind | flags | time (µs) i64 | docid | key bytes k | superseded | external | key | document |
//!   kind: 1 put, 2 patch, 3 delete
//!   flags: bit 0 the document was created by this record; bit 1 there is a superseded record;
//!   bit 2 there is an external version
//!   superseded: if bit 1 is set, the position (u64) and the bytes (u32) of the document's record
//!   before this one; the document goes to the end, and a delete has none
//!   external: if bit 2 is set, the version that a caller gave the document, or its deletion (u64)
//!   key, k bytes, as `Key::encode` writes it; document as `Document` is encoded
//! ```

use bytes::Bytes;
use quire_model::{DocId, Position};

const HEADER_BYTES: usize = 16;
const CREATED: u8 = 1;
const SUPERSEDES: u8 = 2;
const EXTERNAL: u8 = 4;
const EXTERNAL_BYTES: usize = 8;

/// What a record did. Values are on disk and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Put = 1,
    Patch = 2,
    Delete = 3,
}

/// A document's record: where it is, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) position: Position,
    pub(crate) bytes: u32,
    /// The document's external version; a row within a record has none.
    pub(crate) external: Option<u64>,
}

const ROW_BYTES: usize = 12;
pub(crate) const ROW_BYTES_MAX: usize = ROW_BYTES + EXTERNAL_BYTES;

impl Row {
    /// Layout: position u64, bytes u32, and, if there is one, the external version u64
    /// (little-endian).
    pub(crate) fn encode(self, out: &mut [u8; ROW_BYTES_MAX]) -> &[u8] {
        let (place, external) = out.split_at_mut(ROW_BYTES);
        place.copy_from_slice(&self.encode_place());
        let bytes = match self.external {
            Some(version) => {
                external.copy_from_slice(&version.to_le_bytes());
                ROW_BYTES_MAX
            }
            None => ROW_BYTES,
        };
        &out[..bytes]
    }

    /// As [`encode`](Row::encode), without an external version.
    fn encode_place(self) -> [u8; ROW_BYTES] {
        let mut out = [0; ROW_BYTES];
        let (position, bytes) = out.split_at_mut(8);
        position.copy_from_slice(&self.position.0.to_le_bytes());
        bytes.copy_from_slice(&self.bytes.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Row> {
        let (position, bytes) = bytes.split_first_chunk::<8>()?;
        let (bytes, external) = bytes.split_first_chunk::<4>()?;
        Some(Row {
            position: Position(u64::from_le_bytes(*position)),
            bytes: u32::from_le_bytes(*bytes),
            external: match external {
                [] => None,
                version => Some(u64::from_le_bytes(version.try_into().ok()?)),
            },
        })
    }
}

/// A record's parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) kind: Kind,
    /// This record gave the document its docid.
    pub(crate) created: bool,
    pub(crate) time_micros: i64,
    pub(crate) docid: DocId,
    /// The document's record before this one.
    pub(crate) superseded: Option<Row>,
    /// The version that a caller gave the document, or its deletion.
    pub(crate) external: Option<u64>,
    /// Encoded.
    pub(crate) key: &'a [u8],
    /// Encoded; empty for a delete.
    pub(crate) document: &'a [u8],
}

impl<'a> Record<'a> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let bytes = HEADER_BYTES + ROW_BYTES_MAX + self.key.len() + self.document.len();
        let mut out = Vec::with_capacity(bytes);
        out.push(self.kind as u8);
        let created = if self.created { CREATED } else { 0 };
        let supersedes = self.superseded.map_or(0, |_| SUPERSEDES);
        let external = self.external.map_or(0, |_| EXTERNAL);
        out.push(created | supersedes | external);
        out.extend_from_slice(&self.time_micros.to_le_bytes());
        out.extend_from_slice(&self.docid.0.to_le_bytes());
        // A key is at most 1,024 bytes of text, so its encoding fits.
        out.extend_from_slice(&(self.key.len() as u16).to_le_bytes());
        if let Some(row) = self.superseded {
            out.extend_from_slice(&row.encode_place());
        }
        if let Some(version) = self.external {
            out.extend_from_slice(&version.to_le_bytes());
        }
        out.extend_from_slice(self.key);
        out.extend_from_slice(self.document);
        out
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Record<'a>, String> {
        let short = || format!("a record of {} bytes is cut short", bytes.len());
        let (header, rest) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or_else(short)?;
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
            k0,
            k1,
        ] = *header;
        let kind = match kind {
            1 => Kind::Put,
            2 => Kind::Patch,
            3 => Kind::Delete,
            other => return Err(format!("unknown kind of record {other}")),
        };
        if flags & !(CREATED | SUPERSEDES | EXTERNAL) != 0 {
            return Err(format!("unknown flags {flags:#x} in a record"));
        }
        let key_bytes = usize::from(u16::from_le_bytes([k0, k1]));
        let (superseded, rest) = match flags & SUPERSEDES {
            0 => (None, rest),
            _ => {
                let (row, rest) = rest.split_at_checked(ROW_BYTES).ok_or_else(short)?;
                (Row::decode(row), rest)
            }
        };
        let (external, rest) = match flags & EXTERNAL {
            0 => (None, rest),
            _ => {
                let (version, rest) = rest
                    .split_first_chunk::<EXTERNAL_BYTES>()
                    .ok_or_else(short)?;
                (Some(u64::from_le_bytes(*version)), rest)
            }
        };
        let (key, document) = rest.split_at_checked(key_bytes).ok_or_else(short)?;
        if key.is_empty() || (kind == Kind::Delete) != document.is_empty() {
            return Err("a record without its key or its document".into());
        }
        Ok(Record {
            kind,
            created: flags & CREATED != 0,
            time_micros: i64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]),
            docid: DocId(u32::from_le_bytes([d0, d1, d2, d3])),
            superseded,
            external,
            key,
            document,
        })
    }

    /// Where the document lies in the record that `self` was decoded from, without copying it.
    pub(crate) fn document_bytes(&self, record: &Bytes) -> Bytes {
        record.slice(record.len() - self.document.len()..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_every_cut_of_the_header_or_key_is_an_error() {
        let row = Row {
            position: Position(1 << 40),
            bytes: 70_000,
            external: None,
        };
        let with_row = HEADER_BYTES + ROW_BYTES;
        for (superseded, external, header) in [
            (None, None, HEADER_BYTES),
            (None, Some(0), HEADER_BYTES + EXTERNAL_BYTES),
            (Some(row), None, with_row),
            (Some(row), Some(u64::MAX), with_row + EXTERNAL_BYTES),
        ] {
            let record = Record {
                kind: Kind::Patch,
                created: superseded.is_none(),
                time_micros: -5,
                docid: DocId(77),
                superseded,
                external,
                key: b"key",
                document: b"document",
            };
            let bytes = record.encode();
            assert_eq!(Record::decode(&bytes), Ok(record));
            for end in 0..=header + 3 {
                assert!(Record::decode(&bytes[..end]).is_err(), "cut at {end}");
            }
        }
        let record = Record {
            kind: Kind::Put,
            created: false,
            time_micros: 9,
            docid: DocId(1),
            superseded: Some(row),
            external: None,
            key: b"key",
            document: b"document",
        };
        let delete = Record {
            kind: Kind::Delete,
            created: false,
            document: b"",
            ..record
        };
        assert_eq!(Record::decode(&delete.encode()), Ok(delete));
    }

    #[test]
    fn unknown_kinds_and_flags_are_refused() {
        let mut bytes = Record {
            kind: Kind::Put,
            created: false,
            time_micros: 0,
            docid: DocId(0),
            superseded: None,
            external: None,
            key: b"k",
            document: b"d",
        }
        .encode();
        bytes[0] = 9;
        assert!(Record::decode(&bytes).is_err());
        bytes[0] = 1;
        bytes[1] = 8;
        assert!(Record::decode(&bytes).is_err());
    }
}
