//! The state machine of a partition: records of document changes applied to `keys` and `rows`.

use crate::record::{Kind, Record, Row};
use bytes::Bytes;
use quire_lsm::{BlockCodec, SmallBytes, TreeSpec};
use quire_model::{DocId, Position};
use quire_seeded::{Bug, seeded};
use quire_store::{ApplyError, Machine, TreeId, TreeSnapshots, TreeWriter};

/// The tree from encoded key to docid (4 bytes, big-endian), or, where a document with an external
/// version was deleted, to that version (8 bytes, little-endian).
pub(crate) const KEYS: TreeId = TreeId(1);
/// The tree from docid (4 bytes, big-endian) to the position of its newest record (8 bytes,
/// little-endian), that record's length (4 bytes; rows of the first version have none), and when
/// the document expires and its external version, if it has these: see [`Row`].
pub(crate) const ROWS: TreeId = TreeId(2);
/// The tree of documents that expire, in the order of their times: the time (microseconds since
/// 1970 UTC, 8 bytes, big-endian, the sign bit flipped), then the docid (4 bytes, big-endian).
/// Values are empty.
///
/// Each document that expires has its entry. An entry may also be of a time that its document no
/// longer has: a follower of a leader whose log was compacted does not see each time that there
/// was.
pub(crate) const EXPIRIES: TreeId = TreeId(3);

/// The bit that is flipped, so that the bytes of times have their order.
const SIGN: u64 = 1 << 63;

const STATE_VERSION: u8 = 1;
/// Of a partition in which a document has had an external version.
const STATE_VERSION_EXTERNAL: u8 = 2;
/// Of a partition in which a document has had an expiry, whether or not external versions too.
const STATE_VERSION_EXPIRING: u8 = 3;

/// Totals of a partition at one position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Documents.
    pub documents: u64,
    /// Documents that there were and that have been deleted: the log keeps a record of each.
    pub deleted: u64,
    /// By how many bytes the newest records of all documents have grown, or shrunk, since the
    /// partition was opened. Kept in memory only, and right for records that say what they
    /// supersede.
    pub grown_bytes: i64,
    /// Whether a document has ever had an expiry.
    pub has_expiring: bool,
}

/// The state machine: its own state is the next docid, the number of documents, and whether any
/// has had an external version or an expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Documents {
    pub(crate) next_docid: u32,
    has_external: bool,
    totals: Totals,
}

impl Machine for Documents {
    type Summary = Totals;

    fn trees() -> Vec<TreeSpec> {
        vec![
            TreeSpec {
                codec: BlockCodec::Lz4,
                ..TreeSpec::new(KEYS.0, "keys")
            },
            // Docids are dense: a lookup of one that does not exist is rare, so a filter would not
            // earn its room.
            TreeSpec {
                codec: BlockCodec::Lz4,
                filter_bits_per_key: 0,
                ..TreeSpec::new(ROWS.0, "rows")
            },
            // Read from its beginning alone.
            TreeSpec {
                codec: BlockCodec::Lz4,
                filter_bits_per_key: 0,
                ..TreeSpec::new(EXPIRIES.0, "expiries")
            },
        ]
    }

    fn new() -> Documents {
        Documents {
            next_docid: 0,
            has_external: false,
            totals: Totals::default(),
        }
    }

    /// Layout: version u8, next docid u32, documents u64 (little-endian).
    fn decode(state: &[u8]) -> Result<Documents, String> {
        let [version, d0, d1, d2, d3, rest @ ..] = state else {
            return Err("the state is cut short".into());
        };
        if !(STATE_VERSION..=STATE_VERSION_EXPIRING).contains(version) {
            return Err(format!(
                "state version {version}; this program knows {STATE_VERSION} to \
                 {STATE_VERSION_EXPIRING}"
            ));
        }
        let documents = rest
            .try_into()
            .map_err(|_| "the state has a wrong length".to_string())?;
        let next_docid = u32::from_le_bytes([*d0, *d1, *d2, *d3]);
        let documents = u64::from_le_bytes(documents);
        Ok(Documents {
            next_docid,
            has_external: *version == STATE_VERSION_EXTERNAL,
            totals: Totals {
                documents,
                deleted: u64::from(next_docid).saturating_sub(documents),
                grown_bytes: 0,
                has_expiring: *version == STATE_VERSION_EXPIRING,
            },
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = vec![match (self.totals.has_expiring, self.has_external) {
            (true, _) => STATE_VERSION_EXPIRING,
            (false, true) => STATE_VERSION_EXTERNAL,
            (false, false) => STATE_VERSION,
        }];
        out.extend_from_slice(&self.next_docid.to_le_bytes());
        out.extend_from_slice(&self.totals.documents.to_le_bytes());
        out
    }

    fn summary(&self) -> Totals {
        self.totals
    }

    fn apply(&mut self, bytes: &[u8], trees: &TreeWriter<'_>) -> Result<(), ApplyError> {
        let record = self
            .decode_next(trees.position(), bytes)
            .map_err(ApplyError::Record)?;
        let docid = docid_bytes(record.docid);
        self.has_external |= record.external.is_some();
        self.totals.has_expiring |= record.expires.is_some();
        if record.created {
            self.next_docid = record.docid.0 + 1;
        }
        if let Some(row) = record.superseded {
            trees.supersede(row.position, row.bytes.into());
            self.totals.grown_bytes -= i64::from(row.bytes);
            if let Some(expires) = row.expires
                && !seeded(Bug::ExpiryLeft)
            {
                trees.delete(EXPIRIES, &expiry_key(expires, record.docid))?;
            }
        } else if !record.created && !record.has_no_key() {
            // A record of the first version.
            trees.supersede_unknown();
        }
        match record.kind {
            Kind::Put | Kind::Patch => {
                if record.created {
                    trees.put(KEYS, record.key, &docid)?;
                    self.totals.documents += 1;
                }
                let row = Row {
                    position: trees.position(),
                    bytes: bytes.len() as u32,
                    external: record.external,
                    expires: record.expires,
                };
                self.totals.grown_bytes += i64::from(row.bytes);
                if let Some(expires) = record.expires {
                    trees.put(EXPIRIES, &expiry_key(expires, record.docid), &[])?;
                }
                trees.put(ROWS, &docid, &row.encode())
            }
            Kind::Delete => {
                self.totals.deleted += 1;
                match record.external {
                    Some(version) if !seeded(Bug::DeletedVersionForgotten) => {
                        trees.put(KEYS, record.key, &version.to_le_bytes())?;
                    }
                    _ => trees.delete(KEYS, record.key)?,
                }
                if record.created {
                    return Ok(());
                }
                if !seeded(Bug::RowLeft) {
                    trees.delete(ROWS, &docid)?;
                }
                self.totals.documents = self.totals.documents.saturating_sub(1);
                Ok(())
            }
            Kind::Begin => Ok(()),
            Kind::Foreign => {
                // Nothing needs it from the beginning.
                trees.supersede(trees.position(), bytes.len() as u64);
                Ok(())
            }
        }
    }

    fn check(&self, first: Position, records: &[Bytes]) -> Result<(), (Position, String)> {
        let (mut state, mut position) = (*self, first);
        for bytes in records {
            let record = state
                .decode_next(position, bytes)
                .map_err(|what| (position, what))?;
            if record.created {
                state.next_docid = record.docid.0 + 1;
            }
            position = position.next();
        }
        Ok(())
    }

    /// A document's newest record is needed, and the record of each deletion: a follower that saw
    /// the document needs it, and so does a rebuild of the trees from a log that still has an
    /// older record of the document.
    fn needed(
        records: &[(Position, Bytes)],
        trees: &TreeSnapshots,
    ) -> Result<Vec<bool>, ApplyError> {
        let decoded: Vec<_> = records
            .iter()
            .map(|(_, bytes)| Record::decode(bytes).map_err(ApplyError::Record))
            .collect::<Result<_, _>>()?;
        let docids: Vec<_> = decoded
            .iter()
            .map(|record| docid_bytes(record.docid))
            .collect();
        let docids: Vec<_> = docids.iter().map(<[u8; 4]>::as_slice).collect();
        let rows = trees
            .get(ROWS)
            .ok_or_else(|| ApplyError::Record(format!("no tree {ROWS}")))?
            .get_many(&docids)?;
        let needed = |((position, _), (record, row)): (
            &(Position, Bytes),
            (&Record<'_>, Option<SmallBytes>),
        )| {
            (record.kind == Kind::Delete && !seeded(Bug::DeletionForgotten))
                || record.kind == Kind::Begin
                || row.as_deref().and_then(parse_position) == Some(*position)
        };
        let answers = records.iter().zip(decoded.iter().zip(rows));
        Ok(answers.map(needed).collect())
    }
}

impl Documents {
    /// Whether a document has ever had an expiry.
    pub(crate) fn has_expiring(&self) -> bool {
        self.totals.has_expiring
    }

    /// The record, if it can be the next, at `position`.
    fn decode_next<'a>(&self, position: Position, bytes: &'a [u8]) -> Result<Record<'a>, String> {
        let record = Record::decode(bytes)?;
        if record.created && record.docid.0 != self.next_docid {
            return Err(format!(
                "it creates document number {}, expected {}",
                record.docid, self.next_docid
            ));
        }
        if record.created && record.docid.0 == u32::MAX {
            return Err("no docid comes after its own".into());
        }
        match record.superseded {
            Some(row) if row.position >= position => Err(format!(
                "it supersedes the one at position {}",
                row.position
            )),
            _ => Ok(record),
        }
    }
}

/// What the keys tree has under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyEntry {
    Document(DocId),
    /// No document: one with this external version was deleted.
    Deleted(u64),
}

impl KeyEntry {
    pub(crate) const WRONG_LENGTH: &str = "an entry of the keys tree has a wrong length";

    pub(crate) fn decode(bytes: &[u8]) -> Option<KeyEntry> {
        match bytes.try_into() {
            Ok(version) => Some(KeyEntry::Deleted(u64::from_le_bytes(version))),
            Err(_) => Some(KeyEntry::Document(parse_docid(bytes)?)),
        }
    }
}

pub(crate) fn docid_bytes(docid: DocId) -> [u8; 4] {
    docid.0.to_be_bytes()
}

pub(crate) fn parse_docid(bytes: &[u8]) -> Option<DocId> {
    Some(DocId(u32::from_be_bytes(bytes.try_into().ok()?)))
}

/// The key of a document in the tree of expiries.
pub(crate) fn expiry_key(expires: i64, docid: DocId) -> [u8; 12] {
    let mut key = [0; 12];
    let (time, number) = key.split_at_mut(8);
    time.copy_from_slice(&(expires as u64 ^ SIGN).to_be_bytes());
    number.copy_from_slice(&docid_bytes(docid));
    key
}

/// The time and the document of a key of the tree of expiries.
pub(crate) fn parse_expiry_key(key: &[u8]) -> Option<(i64, DocId)> {
    let (time, docid) = key.split_first_chunk::<8>()?;
    let time = (u64::from_be_bytes(*time) ^ SIGN) as i64;
    Some((time, parse_docid(docid)?))
}

/// The position in a row, with or without a length after it.
pub(crate) fn parse_position(bytes: &[u8]) -> Option<Position> {
    Some(parse_row(bytes)?.position)
}

/// A row; the length is 0 if it has none.
pub(crate) fn parse_row(bytes: &[u8]) -> Option<Row> {
    match bytes.try_into() {
        Ok(position) => Some(Row {
            position: Position(u64::from_le_bytes(position)),
            bytes: 0,
            external: None,
            expires: None,
        }),
        Err(_) => Row::decode(bytes),
    }
}
