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
//! 5. A record says when the document that it supersedes would have expired, so that applying it
//!    removes that time from the tree of expiries.
//! 6. A record of a beginning is the first one of a partition that others were merged into. It
//!    stays, so that a copy of a partition without documents is known by its last record.
//! 7. A record of another partition holds a position and changes nothing: the partition that it was
//!    split from had a record of a document there that the other one has now. Nothing needs it.
//!
//! # Layout (little-endian)
//! ```text
//! 0      1       2               10      14           16
//! | kind | flags | time (µs) i64 | docid | key bytes k | superseded | external | expiry |
//! | key | document |
//!   kind: 1 put, 2 patch, 3 delete, 4 of another partition, 5 of a beginning: these two have no
//!   flags, no key, no document
//!   flags: bit 0 the document was created by this record; bit 1 there is a superseded record;
//!   bit 2 there is an external version; bit 3 the document expires; bit 4 the one that it
//!   supersedes would have, only with bit 1
//!   superseded: if bit 1 is set, the position (u64) and the bytes (u32) of the document's record
//!   before this one, and if bit 4 is set, when that would have expired (i64, µs since 1970 UTC)
//!   external: if bit 2 is set, the version that a caller gave the document, or its deletion (u64)
//!   expiry: if bit 3 is set, when the document expires (i64, µs since 1970 UTC)
//!   key, k bytes, as `Key::encode` writes it; document as `Document` is encoded, to the end; a
//!   delete has none
//! ```

use bytes::Bytes;
use quire_model::{DocId, Position};
use smallvec::SmallVec;

const HEADER_BYTES: usize = 16;
const CREATED: u8 = 1;
const SUPERSEDES: u8 = 2;
const EXTERNAL: u8 = 4;
const EXPIRES: u8 = 8;
const SUPERSEDES_EXPIRING: u8 = 16;
const EXTERNAL_BYTES: usize = 8;
const EXPIRY_BYTES: usize = 8;

/// What a record did. Values are on disk and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Put = 1,
    Patch = 2,
    Delete = 3,
    /// Another partition has what was done at this position.
    Foreign = 4,
    /// A partition begins here, into which others were merged.
    Begin = 5,
}

/// A document's record: where it is, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) position: Position,
    pub(crate) bytes: u32,
    /// The document's external version; a row within a record has none.
    pub(crate) external: Option<u64>,
    /// When the document expires: microseconds since 1970 UTC.
    pub(crate) expires: Option<i64>,
}

const ROW_BYTES: usize = 12;
/// The longest row: a place, its flags, an external version and an expiry.
pub(crate) const ROW_BYTES_MAX: usize = ROW_BYTES + 1 + EXTERNAL_BYTES + EXPIRY_BYTES;
/// Comes before the expiry of a row, which has one more byte so than one with an external version.
const ROW_EXPIRES: u8 = 1;

impl Row {
    /// Layout (little-endian): position u64, bytes u32; of a document that expires a byte 1 and the
    /// expiry i64; of one that has an external version that, u64.
    pub(crate) fn encode(self) -> SmallVec<[u8; ROW_BYTES_MAX]> {
        let mut out = SmallVec::from_slice(&self.encode_place());
        if let Some(expires) = self.expires {
            out.push(ROW_EXPIRES);
            out.extend_from_slice(&expires.to_le_bytes());
        }
        if let Some(version) = self.external {
            out.extend_from_slice(&version.to_le_bytes());
        }
        out
    }

    /// Whether the document has expired at this time.
    pub(crate) fn has_expired(self, now_micros: i64) -> bool {
        has_expired(self.expires, now_micros)
    }

    /// As [`encode`](Row::encode), the position and the bytes alone.
    fn encode_place(self) -> [u8; ROW_BYTES] {
        let mut out = [0; ROW_BYTES];
        let (position, bytes) = out.split_at_mut(8);
        position.copy_from_slice(&self.position.0.to_le_bytes());
        bytes.copy_from_slice(&self.bytes.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Row> {
        let (position, bytes) = bytes.split_first_chunk::<8>()?;
        let (bytes, rest) = bytes.split_first_chunk::<4>()?;
        let (expires, external) = match rest {
            [ROW_EXPIRES, rest @ ..] if rest.len().is_multiple_of(EXPIRY_BYTES) => {
                let (expires, external) = rest.split_first_chunk::<EXPIRY_BYTES>()?;
                (Some(i64::from_le_bytes(*expires)), external)
            }
            external => (None, external),
        };
        Some(Row {
            position: Position(u64::from_le_bytes(*position)),
            bytes: u32::from_le_bytes(*bytes),
            external: match external {
                [] => None,
                version => Some(u64::from_le_bytes(version.try_into().ok()?)),
            },
            expires,
        })
    }
}

/// Whether what expires at a time has expired at another.
pub(crate) fn has_expired(expires: Option<i64>, now_micros: i64) -> bool {
    expires.is_some_and(|at| at <= now_micros)
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
    /// When the document expires: microseconds since 1970 UTC.
    pub(crate) expires: Option<i64>,
    /// Encoded.
    pub(crate) key: &'a [u8],
    /// Encoded; empty for a delete.
    pub(crate) document: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record that holds the position of one that another partition has.
    pub(crate) fn foreign(time_micros: i64) -> Record<'a> {
        Record::without_key(Kind::Foreign, time_micros)
    }

    /// The first record of a partition that others are merged into.
    pub(crate) fn begin(time_micros: i64) -> Record<'a> {
        Record::without_key(Kind::Begin, time_micros)
    }

    fn without_key(kind: Kind, time_micros: i64) -> Record<'a> {
        Record {
            kind,
            created: false,
            time_micros,
            docid: DocId(0),
            superseded: None,
            external: None,
            expires: None,
            key: &[],
            document: &[],
        }
    }

    /// Whether it is of no document, and holds a position alone.
    pub(crate) fn has_no_key(&self) -> bool {
        matches!(self.kind, Kind::Foreign | Kind::Begin)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let (external, superseded) = (self.external, self.superseded);
        let ended = superseded.and_then(|row| row.expires);
        let bytes = HEADER_BYTES + 2 * ROW_BYTES_MAX + self.key.len() + self.document.len();
        let mut out = Vec::with_capacity(bytes);
        out.push(self.kind as u8);
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        out.push(
            flag(self.created, CREATED)
                | flag(superseded.is_some(), SUPERSEDES)
                | flag(external.is_some(), EXTERNAL)
                | flag(self.expires.is_some(), EXPIRES)
                | flag(ended.is_some(), SUPERSEDES_EXPIRING),
        );
        out.extend_from_slice(&self.time_micros.to_le_bytes());
        out.extend_from_slice(&self.docid.0.to_le_bytes());
        // A key is at most 1,024 bytes of text, so its encoding fits.
        out.extend_from_slice(&(self.key.len() as u16).to_le_bytes());
        if let Some(row) = superseded {
            out.extend_from_slice(&row.encode_place());
        }
        if let Some(ended) = ended {
            out.extend_from_slice(&ended.to_le_bytes());
        }
        if let Some(version) = external {
            out.extend_from_slice(&version.to_le_bytes());
        }
        if let Some(expires) = self.expires {
            out.extend_from_slice(&expires.to_le_bytes());
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
            4 => Kind::Foreign,
            5 => Kind::Begin,
            other => return Err(format!("unknown kind of record {other}")),
        };
        let unknown = flags & !(CREATED | SUPERSEDES | EXTERNAL | EXPIRES | SUPERSEDES_EXPIRING);
        let is_of_none = flags & SUPERSEDES_EXPIRING != 0 && flags & SUPERSEDES == 0;
        if unknown != 0 || is_of_none {
            return Err(format!("unknown flags {flags:#x} in a record"));
        }
        let key_bytes = usize::from(u16::from_le_bytes([k0, k1]));
        let number = |flag: u8, rest: &'a [u8]| match flags & flag {
            0 => Ok((None, rest)),
            _ => {
                let (number, rest) = rest.split_first_chunk::<8>().ok_or_else(short)?;
                Ok::<_, String>((Some(*number), rest))
            }
        };
        let (superseded, rest) = match flags & SUPERSEDES {
            0 => (None, rest),
            _ => {
                let (row, rest) = rest.split_at_checked(ROW_BYTES).ok_or_else(short)?;
                (Row::decode(row), rest)
            }
        };
        let (ended, rest) = number(SUPERSEDES_EXPIRING, rest)?;
        let (external, rest) = number(EXTERNAL, rest)?;
        let (expires, rest) = number(EXPIRES, rest)?;
        let superseded = superseded.map(|row| Row {
            expires: ended.map(i64::from_le_bytes),
            ..row
        });
        let (key, document) = rest.split_at_checked(key_bytes).ok_or_else(short)?;
        let time_micros = i64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]);
        let docid = DocId(u32::from_le_bytes([d0, d1, d2, d3]));
        let placeholder = Record::without_key(kind, time_micros);
        if placeholder.has_no_key() {
            let is_empty = key.is_empty() && document.is_empty();
            return match flags == 0 && docid.0 == 0 && is_empty {
                true => Ok(placeholder),
                false => Err("a record that holds a position, and says more".into()),
            };
        }
        if key.is_empty() || (kind == Kind::Delete) != document.is_empty() {
            return Err("a record without its key or its document".into());
        }
        if kind == Kind::Delete && expires.is_some() {
            return Err("a deletion that expires".into());
        }
        Ok(Record {
            kind,
            created: flags & CREATED != 0,
            time_micros,
            docid,
            superseded,
            external: external.map(u64::from_le_bytes),
            expires: expires.map(i64::from_le_bytes),
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
            expires: None,
        };
        let expiring = Row {
            expires: Some(-1),
            ..row
        };
        let with_row = HEADER_BYTES + ROW_BYTES;
        for (superseded, external, expires, header) in [
            (None, None, None, HEADER_BYTES),
            (None, Some(0), None, HEADER_BYTES + 8),
            (None, None, Some(i64::MAX), HEADER_BYTES + 8),
            (Some(row), None, None, with_row),
            (Some(row), Some(u64::MAX), None, with_row + 8),
            (Some(expiring), None, None, with_row + 8),
            (Some(expiring), Some(1), Some(i64::MIN), with_row + 24),
        ] {
            let record = Record {
                kind: Kind::Patch,
                created: superseded.is_none(),
                time_micros: -5,
                docid: DocId(77),
                superseded,
                external,
                expires,
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
            expires: None,
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
        let foreign = Record::foreign(7);
        assert_eq!(Record::decode(&foreign.encode()), Ok(foreign));
        assert!(Record::decode(&[foreign.encode(), vec![1]].concat()).is_err());
    }

    #[test]
    fn rows_round_trip_and_a_row_of_another_length_is_none() {
        for external in [None, Some(1), Some(0x0101_0101_0101_0101), Some(u64::MAX)] {
            for expires in [None, Some(1), Some(0x0101_0101_0101_0101), Some(i64::MIN)] {
                let row = Row {
                    position: Position(1 << 40),
                    bytes: 70_000,
                    external,
                    expires,
                };
                let bytes = row.encode();
                assert_eq!(Row::decode(&bytes), Some(row));
                let without = bytes.len() - 1;
                assert_ne!(Row::decode(&bytes[..without]), Some(row));
            }
        }
        assert_eq!(Row::decode(&[1; 12 + 10]), None);
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
            expires: None,
            key: b"k",
            document: b"d",
        }
        .encode();
        bytes[0] = 9;
        assert!(Record::decode(&bytes).is_err());
        bytes[0] = 1;
        for flags in [16, 32] {
            bytes[1] = flags;
            assert!(Record::decode(&bytes).is_err());
        }
    }
}
