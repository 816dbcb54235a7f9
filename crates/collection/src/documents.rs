//! The state machine of a partition: records of document changes applied to `keys` and `rows`.

use crate::record::{Kind, Record};
use quire_lsm::{Codec, TreeSpec};
use quire_model::{DocId, Position};
use quire_planted::{Bug, planted};
use quire_store::{ApplyError, Machine, TreeWriter};

/// The tree from encoded key to docid (4 bytes, big-endian).
pub(crate) const KEYS: usize = 0;
/// The tree from docid (4 bytes, big-endian) to position (8 bytes, little-endian).
pub(crate) const ROWS: usize = 1;

const STATE_VERSION: u8 = 1;

/// Totals of a partition at one position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Documents.
    pub documents: u64,
}

/// The state machine: its own state is the next docid and the number of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Documents {
    pub(crate) next_docid: u32,
    totals: Totals,
}

impl Machine for Documents {
    type Summary = Totals;

    fn trees() -> Vec<TreeSpec> {
        vec![
            TreeSpec {
                codec: Codec::Lz4,
                ..TreeSpec::new(1, "keys")
            },
            // Docids are dense: a lookup of one that does not exist is rare, so a filter would not earn its room.
            TreeSpec {
                codec: Codec::Lz4,
                filter_bits_per_key: 0,
                ..TreeSpec::new(2, "rows")
            },
        ]
    }

    fn new() -> Documents {
        Documents {
            next_docid: 0,
            totals: Totals::default(),
        }
    }

    /// Layout: version u8, next docid u32, documents u64 (little-endian).
    fn decode(state: &[u8]) -> Result<Documents, String> {
        let [version, d0, d1, d2, d3, rest @ ..] = state else {
            return Err("the state is cut short".into());
        };
        if *version != STATE_VERSION {
            return Err(format!(
                "state version {version}; this program knows version {STATE_VERSION}"
            ));
        }
        let documents = rest
            .try_into()
            .map_err(|_| "the state has a wrong length".to_string())?;
        Ok(Documents {
            next_docid: u32::from_le_bytes([*d0, *d1, *d2, *d3]),
            totals: Totals {
                documents: u64::from_le_bytes(documents),
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

    fn apply(&mut self, record: &[u8], trees: &TreeWriter<'_>) -> Result<(), ApplyError> {
        let record = Record::decode(record).map_err(ApplyError::Record)?;
        let docid = docid_bytes(record.docid);
        if record.created && record.docid.0 != self.next_docid {
            let what = format!(
                "it creates document number {}, expected {}",
                record.docid, self.next_docid
            );
            return Err(ApplyError::Record(what));
        }
        match record.kind {
            Kind::Put | Kind::Patch => {
                if record.created {
                    let next = record.docid.0.checked_add(1);
                    self.next_docid = next
                        .ok_or_else(|| ApplyError::Record("no docid comes after its own".into()))?;
                    trees.put(KEYS, record.key, &docid)?;
                    self.totals.documents += 1;
                }
                trees.put(ROWS, &docid, &position_bytes(trees.position()))
            }
            Kind::Delete => {
                trees.delete(KEYS, record.key)?;
                if !planted(Bug::RowLeft) {
                    trees.delete(ROWS, &docid)?;
                }
                self.totals.documents = self.totals.documents.saturating_sub(1);
                Ok(())
            }
        }
    }
}

pub(crate) fn docid_bytes(docid: DocId) -> [u8; 4] {
    docid.0.to_be_bytes()
}

pub(crate) fn parse_docid(bytes: &[u8]) -> Option<DocId> {
    Some(DocId(u32::from_be_bytes(bytes.try_into().ok()?)))
}

pub(crate) fn position_bytes(position: Position) -> [u8; 8] {
    position.0.to_le_bytes()
}

pub(crate) fn parse_position(bytes: &[u8]) -> Option<Position> {
    Some(Position(u64::from_le_bytes(bytes.try_into().ok()?)))
}
