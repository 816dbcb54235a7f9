//! The manifest: which files make up a partition, and the one position at which its trees agree.
//!
//! # Invariants
//! 1. It is replaced whole ([`Env::replace`]): after any crash it is the old one or the new one.
//! 2. Every table file it names was synced, with its directory, before it was written.
//! 3. The log held every record up to `synced`, durably, before it was written, and `applied` is at
//!    most that, unless the log rotates unsynced and needs no records that the tables have. So a
//!    log that ends sooner has lost its end: after a clean close no cut goes unnoticed.
//! 4. A tree is named before anything is written to its files. Its runs hold what the records up to
//!    `applied` make of it; of a derived tree, what those up to `built` make of what lies before
//!    its cursor. Where `built` is not `applied`, the tree was not opened by who wrote the
//!    manifest, or has nothing that could be used: it is built anew.
//!
//! # Layout (little-endian)
//! ```text
//! 0          8         12        20                     20+n   20+n+4
//! | "QUIREMAN" | version | length n | body (n bytes)       | crc  |
//!   crc is CRC-32C of all bytes before it
//! body: identity 16 | sequence u64 | applied u64 | synced u64 | next file number u64
//!       | state length u32, state | tree count u32, trees | segment count u32, segments
//! tree: id u32 | name length u16, name | state u8 | derived, if state is 1 or 2
//!       | run count u32, runs (newest first, as quire-lsm encodes them)
//! state: 0 written by apply | 1 derived, being built | 2 derived, complete
//! derived: built u64 | cursor length u32, cursor (empty if complete)
//! segment: base u64 | superseded bytes u64 | counted u8 (see `space.rs`)
//! ```
//! Up to version 3 trees have no state: apply writes all. Up to version 2 runs have no first keys;
//! version 1 has no segments either.

use crate::space::{Space, SupersededBytes};
use crate::{Error, Place, Result, TreeId};
use quire_env::Env;
use quire_lsm::RunMeta;
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"QUIREMAN";
pub(crate) const VERSION: u32 = 4;
/// The last version without states of trees, which is read still.
const VERSION_OF_APPLIED_TREES: u32 = 3;
/// The last version without first keys of runs, which is read still.
const VERSION_OF_WHOLE_RUNS: u32 = 2;
/// The version without segments too.
const VERSION_WITHOUT_SEGMENTS: u32 = 1;
const HEADER_BYTES: usize = 20;
/// Where the identity is in the file.
const IDENTITY_OFFSET: u64 = HEADER_BYTES as u64;
const NUMBER_MAX: u64 = 1 << 62;
const CRC_BYTES: usize = 4;

/// A million tables of 64 MiB make a manifest of about this size.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 256 << 20;

/// The name of the manifest in a partition's directory.
pub(crate) const MANIFEST_NAME: &str = "MANIFEST";

/// The longest cursor of a tree that is being built.
pub(crate) const CURSOR_BYTES_MAX: usize = 1 << 20;

/// How far a derived tree is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The records up to here are in it.
    pub(crate) built: Position,
    /// Only what lies before this is in it; none if all is.
    pub(crate) cursor: Option<Vec<u8>>,
}

impl Progress {
    /// Nothing is built.
    pub(crate) fn none() -> Progress {
        Progress {
            built: Position(0),
            cursor: Some(Vec::new()),
        }
    }
}

/// The files of one tree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TreeFiles {
    pub(crate) id: TreeId,
    pub(crate) name: String,
    /// How far it is, if it is derived; none if apply writes it.
    pub(crate) derived: Option<Progress>,
    /// Newest first.
    pub(crate) runs: Vec<RunMeta>,
}

/// One version of a partition's set of files.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Manifest {
    /// Whose it is: the same bytes are in every log segment of the partition.
    pub(crate) identity: [u8; 16],
    /// Counts the versions.
    pub(crate) sequence: u64,
    /// The trees' files hold exactly the records up to here.
    pub(crate) applied: Position,
    /// The log was durable up to here when this was written.
    pub(crate) synced: Position,
    /// No table file has this number or a higher one, unless it is an orphan.
    pub(crate) next_file: u64,
    /// The machine's own state at `applied`.
    pub(crate) state: Vec<u8>,
    pub(crate) trees: Vec<TreeFiles>,
    /// What was superseded in each log segment by the records up to `applied`.
    pub(crate) space: Space,
}

impl Manifest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend_from_slice(&self.identity);
        body.extend_from_slice(&self.sequence.to_le_bytes());
        body.extend_from_slice(&self.applied.0.to_le_bytes());
        body.extend_from_slice(&self.synced.0.to_le_bytes());
        body.extend_from_slice(&self.next_file.to_le_bytes());
        put_bytes_u32(&mut body, &self.state);
        body.extend_from_slice(&(self.trees.len() as u32).to_le_bytes());
        for tree in &self.trees {
            body.extend_from_slice(&tree.id.0.to_le_bytes());
            body.extend_from_slice(&(tree.name.len() as u16).to_le_bytes());
            body.extend_from_slice(tree.name.as_bytes());
            put_state(&mut body, tree.derived.as_ref());
            body.extend_from_slice(&(tree.runs.len() as u32).to_le_bytes());
            for run in &tree.runs {
                run.encode(&mut body);
            }
        }
        body.extend_from_slice(&(self.space.iter().len() as u32).to_le_bytes());
        for (base, superseded) in self.space.iter() {
            body.extend_from_slice(&base.0.to_le_bytes());
            body.extend_from_slice(&superseded.bytes.to_le_bytes());
            body.push(u8::from(superseded.counted));
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len() + CRC_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&body);
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<Manifest> {
        let total = bytes.len();
        let bad = |what: String, offset: usize| Error::Manifest {
            path: path.to_path_buf(),
            what,
            offset: offset as u64,
        };
        let mut header = Reader { rest: bytes, total };
        if header
            .array::<8>()
            .map_err(|at| bad("the manifest is cut short".into(), at))?
            != *MAGIC
        {
            return Err(bad("this is not a manifest of Quire".into(), 0));
        }
        let version = header
            .u32()
            .map_err(|at| bad("the manifest is cut short".into(), at))?;
        if !(VERSION_WITHOUT_SEGMENTS..=VERSION).contains(&version) {
            return Err(bad(
                format!("manifest version {version}; this program knows versions up to {VERSION}"),
                8,
            ));
        }
        let length = header
            .u64()
            .map_err(|at| bad("the manifest is cut short".into(), at))?;
        let expected = length.saturating_add((HEADER_BYTES + CRC_BYTES) as u64);
        if total as u64 != expected {
            return Err(bad(
                format!("the manifest holds {total} bytes, expected {expected}"),
                12,
            ));
        }
        let (checked, crc) = bytes.split_at(total - CRC_BYTES);
        if crc32c::crc32c(checked).to_le_bytes() != *crc && !seeded(Bug::ManifestChecksumUnchecked)
        {
            return Err(bad(
                "the manifest's checksum does not match".into(),
                total - CRC_BYTES,
            ));
        }
        let body = checked.get(HEADER_BYTES..).unwrap_or_default();
        let mut reader = Reader {
            rest: body,
            total: HEADER_BYTES + body.len(),
        };
        let manifest = reader.body(version).map_err(|(what, at)| bad(what, at))?;
        Ok(manifest)
    }

    pub(crate) fn read(env: &dyn Env, dir: &Path) -> Result<Manifest> {
        let path = path(dir);
        let bytes = env.read(&path, MANIFEST_BYTES_MAX)?;
        Manifest::decode(&path, &bytes)
    }

    /// It, if it is that of the store at `place`.
    ///
    /// # Errors
    /// `Corrupt` if it is that of another store.
    pub(crate) fn checked(self, place: &Place) -> Result<Manifest> {
        match self.identity == place.identity {
            true => Ok(self),
            false => Err(Error::Manifest {
                path: path(&place.dir()),
                what: "the manifest belongs to another partition or database".into(),
                offset: IDENTITY_OFFSET,
            }),
        }
    }
}

pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join(MANIFEST_NAME)
}

const APPLIED: u8 = 0;
const BUILDING: u8 = 1;
const COMPLETE: u8 = 2;

fn put_state(out: &mut Vec<u8>, derived: Option<&Progress>) {
    let Some(Progress { built, cursor }) = derived else {
        return out.push(APPLIED);
    };
    out.push(match cursor {
        Some(_) => BUILDING,
        None => COMPLETE,
    });
    out.extend_from_slice(&built.0.to_le_bytes());
    put_bytes_u32(out, cursor.as_deref().unwrap_or_default());
}

fn put_bytes_u32(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn cut_short(at: usize) -> (String, usize) {
    ("the manifest's body is cut short".to_string(), at)
}

/// Reads a byte string from its beginning to its end; errors give the offset in the file.
struct Reader<'a> {
    rest: &'a [u8],
    /// Offset of the end of `rest` in the file.
    total: usize,
}

impl<'a> Reader<'a> {
    fn offset(&self) -> usize {
        self.total - self.rest.len()
    }

    fn take(&mut self, count: usize) -> std::result::Result<&'a [u8], usize> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(self.offset())?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> std::result::Result<[u8; N], usize> {
        let at = self.offset();
        self.take(N)?.try_into().map_err(|_| at)
    }

    fn u16(&mut self) -> std::result::Result<u16, usize> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> std::result::Result<u32, usize> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> std::result::Result<u64, usize> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number that is counted up: no store lives to see one past [`NUMBER_MAX`].
    fn number(&mut self) -> std::result::Result<u64, (String, usize)> {
        let at = self.offset();
        match self.u64().map_err(cut_short)? {
            number if number > NUMBER_MAX => Err((format!("{number} is past any count"), at)),
            number => Ok(number),
        }
    }

    fn body(&mut self, version: u32) -> std::result::Result<Manifest, (String, usize)> {
        let identity = self.array().map_err(cut_short)?;
        let sequence = self.number()?;
        let applied = Position(self.number()?);
        let synced = Position(self.number()?);
        let next_file = self.number()?;
        let state_bytes = self.u32().map_err(cut_short)? as usize;
        let state = self.take(state_bytes).map_err(cut_short)?.to_vec();
        let tree_count = self.u32().map_err(cut_short)?;
        let mut trees = Vec::new();
        for _ in 0..tree_count {
            let at = self.offset();
            let id = TreeId(self.u32().map_err(cut_short)?);
            if trees.iter().any(|tree: &TreeFiles| tree.id == id) {
                return Err((format!("tree {id} is named twice"), at));
            }
            let name_bytes = self.u16().map_err(cut_short)?;
            let at = self.offset();
            let name = self.take(usize::from(name_bytes)).map_err(cut_short)?;
            let name = String::from_utf8(name.to_vec())
                .map_err(|_| ("a tree's name is not UTF-8".to_string(), at))?;
            let derived = match version {
                ..=VERSION_OF_APPLIED_TREES => None,
                _ => self.state()?,
            };
            let run_count = self.u32().map_err(cut_short)?;
            let mut runs = Vec::new();
            for _ in 0..run_count {
                let mut used = 0;
                let run = match version {
                    ..=VERSION_OF_WHOLE_RUNS => RunMeta::decode_whole(self.rest, &mut used),
                    _ => RunMeta::decode(self.rest, &mut used),
                };
                runs.push(run.map_err(|damage| {
                    (
                        damage.what.to_string(),
                        self.offset() + damage.offset as usize,
                    )
                })?);
                self.rest = self.rest.get(used..).unwrap_or_default();
            }
            trees.push(TreeFiles {
                id,
                name,
                derived,
                runs,
            });
        }
        let space = match version {
            VERSION_WITHOUT_SEGMENTS => Space::new([]),
            _ => self.space()?,
        };
        if !self.rest.is_empty() {
            return Err(("bytes after the last field".to_string(), self.offset()));
        }
        Ok(Manifest {
            identity,
            sequence,
            applied,
            synced,
            next_file,
            state,
            trees,
            space,
        })
    }

    fn state(&mut self) -> std::result::Result<Option<Progress>, (String, usize)> {
        let at = self.offset();
        let [state] = self.array::<1>().map_err(cut_short)?;
        if state == APPLIED {
            return Ok(None);
        }
        if state != BUILDING && state != COMPLETE {
            return Err((format!("{state} is no state of a tree"), at));
        }
        let built = Position(self.number()?);
        let at = self.offset();
        let cursor_bytes = self.u32().map_err(cut_short)? as usize;
        if cursor_bytes > CURSOR_BYTES_MAX {
            return Err((format!("a cursor of {cursor_bytes} bytes"), at));
        }
        let cursor = self.take(cursor_bytes).map_err(cut_short)?.to_vec();
        let cursor = (state == BUILDING).then_some(cursor);
        Ok(Some(Progress { built, cursor }))
    }

    fn space(&mut self) -> std::result::Result<Space, (String, usize)> {
        let mut segments = Vec::new();
        for _ in 0..self.u32().map_err(cut_short)? {
            let base = Position(self.number()?);
            let bytes = self.number()?;
            let counted = self.array::<1>().map_err(cut_short)? != [0];
            segments.push((base, SupersededBytes { bytes, counted }));
        }
        Ok(Space::new(segments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Manifest {
        Manifest {
            identity: *b"0123456789abcdef",
            sequence: 7,
            applied: Position(42),
            synced: Position(45),
            next_file: 9,
            state: vec![1, 2, 3],
            trees: vec![
                TreeFiles {
                    id: TreeId(1),
                    name: "keys".into(),
                    derived: None,
                    runs: vec![RunMeta {
                        id: 3,
                        from: b"key".to_vec(),
                        tables: Vec::new(),
                    }],
                },
                TreeFiles {
                    id: TreeId(2),
                    name: "rows".into(),
                    derived: None,
                    runs: Vec::new(),
                },
                TreeFiles {
                    id: TreeId(7),
                    name: "index".into(),
                    derived: Some(Progress {
                        built: Position(42),
                        cursor: Some(b"cursor".to_vec()),
                    }),
                    runs: Vec::new(),
                },
                TreeFiles {
                    id: TreeId(8),
                    name: "complete".into(),
                    derived: Some(Progress {
                        built: Position(42),
                        cursor: None,
                    }),
                    runs: Vec::new(),
                },
            ],
            space: Space::new(
                [(1, 90, true), (30, 7, false)].map(|(base, bytes, counted)| {
                    (Position(base), SupersededBytes { bytes, counted })
                }),
            ),
        }
    }

    /// The bytes of a manifest of an older version, written out as that version wrote them.
    fn of_version(version: u32, manifest: &Manifest) -> Vec<u8> {
        let mut body = manifest.identity.to_vec();
        let numbers = [
            manifest.sequence,
            manifest.applied.0,
            manifest.synced.0,
            manifest.next_file,
        ];
        body.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        put_bytes_u32(&mut body, &manifest.state);
        body.extend((manifest.trees.len() as u32).to_le_bytes());
        for tree in &manifest.trees {
            body.extend(tree.id.0.to_le_bytes());
            body.extend((tree.name.len() as u16).to_le_bytes());
            body.extend(tree.name.as_bytes());
            body.extend((tree.runs.len() as u32).to_le_bytes());
            for run in &tree.runs {
                match version {
                    // Id and count of tables; both are below 128.
                    1 | 2 => body.extend([run.id as u8, run.tables.len() as u8]),
                    _ => run.encode(&mut body),
                }
            }
        }
        if version > 1 {
            body.extend((manifest.space.iter().len() as u32).to_le_bytes());
            for (base, superseded) in manifest.space.iter() {
                body.extend(base.0.to_le_bytes());
                body.extend(superseded.bytes.to_le_bytes());
                body.push(u8::from(superseded.counted));
            }
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend(version.to_le_bytes());
        bytes.extend((body.len() as u64).to_le_bytes());
        bytes.extend(body);
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    #[test]
    fn manifests_of_older_versions_are_read_and_their_trees_are_complete() {
        for version in 1..VERSION {
            let mut manifest = sample();
            manifest.trees.truncate(2);
            if version < 3 {
                manifest.trees[0].runs[0].from.clear();
            }
            if version < 2 {
                manifest.space = Space::new([]);
            }
            let bytes = of_version(version, &manifest);
            let read = Manifest::decode(Path::new("MANIFEST"), &bytes).unwrap();
            assert_eq!(read, manifest, "version {version}");
        }
    }

    #[test]
    fn round_trips() {
        let manifest = sample();
        assert_eq!(
            Manifest::decode(Path::new("MANIFEST"), &manifest.encode()).unwrap(),
            manifest
        );
    }

    #[test]
    fn a_tree_that_is_named_twice_is_an_error() {
        let mut manifest = sample();
        manifest.trees[1].id = manifest.trees[0].id;
        let read = Manifest::decode(Path::new("MANIFEST"), &manifest.encode());
        assert_eq!(read.unwrap_err().kind(), crate::ErrorKind::Corrupt);
    }

    #[test]
    fn length_past_all_bounds_is_an_error() {
        let mut bytes = sample().encode();
        bytes[12..20].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(Manifest::decode(Path::new("MANIFEST"), &bytes).is_err());
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_an_error() {
        let bytes = sample().encode();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let error = Manifest::decode(Path::new("MANIFEST"), &damaged).unwrap_err();
                assert_eq!(
                    error.kind(),
                    crate::ErrorKind::Corrupt,
                    "byte {at} bit {bit}"
                );
            }
            assert!(
                Manifest::decode(Path::new("MANIFEST"), &bytes[..at]).is_err(),
                "cut at {at}"
            );
        }
    }
}
