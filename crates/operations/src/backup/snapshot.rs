//! A snapshot: one small file that names all that a backup at one moment is made of.
//!
//! A sealed text file (see `sealed.rs`) of the kind `quire-snapshot`, version 1, whose JSON is a
//! [`Snapshot`].

use quire_database::catalog::{Catalog, partition_dir};
use quire_env::{FileId, VolumeId};
use quire_model::Position;
use quire_store::{FileName, seal, unseal};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const KIND: &str = "quire-snapshot";
const VERSION: u32 = 1;

/// The directory of pieces, below the backup's.
pub(super) const FILES: &str = "files";

/// A partition's directory of pieces, below the backup's.
pub(crate) fn partition_path(collection: u32, partition: u32) -> PathBuf {
    Path::new(FILES).join(partition_dir(collection, partition))
}

/// A database at one moment: all its partitions at one vector of positions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Snapshot {
    /// Counted from 1 in a backup, never used again.
    pub(crate) number: u64,
    /// When it was taken: microseconds since 1970 UTC.
    pub(crate) time_micros: i64,
    /// The database's catalog then.
    pub(crate) catalog: Catalog,
    /// Every partition of every collection of it, in order.
    pub(crate) partitions: Vec<PartitionFiles>,
}

/// A partition's part of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartitionFiles {
    pub(crate) collection: u32,
    pub(crate) partition: u32,
    /// Its last record.
    pub(crate) position: u64,
    /// The manifest first.
    pub(crate) files: Vec<StoredFile>,
}

/// A file of a partition: its pieces, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredFile {
    pub(crate) kind: FileKind,
    /// Sequence of a manifest, number of a table, first position of a segment.
    pub(crate) number: u64,
    /// The volume that a table was on.
    #[serde(default, skip_serializing_if = "is_first")]
    pub(crate) volume: u16,
    pub(crate) pieces: Vec<Piece>,
}

/// What kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FileKind {
    Manifest,
    Table,
    Log,
}

/// Bytes `start` to `end` of a file, in a file of their own in the backup.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// As the store tells it: tells these bytes from others of the same file and range.
    #[serde(with = "hex")]
    pub(crate) digest: u64,
    /// CRC-32C of the bytes.
    pub(crate) crc32c: u32,
}

fn is_first(volume: &u16) -> bool {
    *volume == 0
}

impl Piece {
    pub(crate) fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

impl StoredFile {
    /// The entry of a file with no pieces yet.
    pub(crate) fn of(name: FileName) -> StoredFile {
        let (kind, number, volume) = match name {
            FileName::Manifest(sequence) => (FileKind::Manifest, sequence, 0),
            FileName::Table(file) => (FileKind::Table, file.number, file.volume.0),
            FileName::Segment(base) => (FileKind::Log, base.0, 0),
        };
        StoredFile {
            kind,
            number,
            volume,
            pieces: Vec::new(),
        }
    }

    /// Which file of a store it is.
    pub(crate) fn name(&self) -> FileName {
        match self.kind {
            FileKind::Manifest => FileName::Manifest(self.number),
            FileKind::Table => FileName::Table(FileId {
                volume: VolumeId(self.volume),
                number: self.number,
            }),
            FileKind::Log => FileName::Segment(Position(self.number)),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.end)
    }

    /// The name of a piece: other bytes never have the same.
    pub(crate) fn piece_name(&self, piece: &Piece) -> String {
        let range = self.range_name(piece.start, piece.end);
        format!("{range}{:016x}", piece.digest)
    }

    /// What the names of all pieces of this range begin with.
    pub(crate) fn range_name(&self, start: u64, end: u64) -> String {
        let kind = match self.kind {
            FileKind::Manifest => "manifest",
            FileKind::Table => "table",
            FileKind::Log => "log",
        };
        format!("{kind}-{}-{start}-{end}-", self.number)
    }

    fn check(&self) -> Result<(), String> {
        let mut end = 0;
        for piece in &self.pieces {
            if piece.start != end || piece.end <= piece.start {
                return Err("pieces of a file do not follow each other".into());
            }
            end = piece.end;
        }
        match end {
            0 => Err("a file of no bytes".into()),
            _ => Ok(()),
        }
    }
}

impl PartitionFiles {
    /// Every piece, with its path below the backup's directory.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (PathBuf, &StoredFile, &Piece)> {
        let dir = partition_path(self.collection, self.partition);
        self.files.iter().flat_map(move |file| {
            let dir = dir.clone();
            file.pieces
                .iter()
                .map(move |piece| (dir.join(file.piece_name(piece)), file, piece))
        })
    }
}

impl Snapshot {
    pub(crate) fn encode(&self) -> Vec<u8> {
        seal(KIND, VERSION, &serde_json::json!(self).to_string())
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Snapshot, String> {
        let json = unseal(KIND, VERSION, "snapshot", bytes)?;
        let snapshot: Snapshot = serde_json::from_str(json)
            .map_err(|error| format!("the snapshot is damaged: {error}"))?;
        let checked = snapshot.check();
        checked.map_err(|what| format!("the snapshot is damaged: {what}"))?;
        Ok(snapshot)
    }

    /// What a checksum does not say: that the parts belong together.
    pub(super) fn check(&self) -> Result<(), String> {
        self.catalog.check()?;
        let expected = self.catalog.partitions();
        let found = self
            .partitions
            .iter()
            .map(|files| (files.collection, files.partition));
        if !expected.eq(found) {
            return Err("its partitions are not those of its catalog".into());
        }
        for files in &self.partitions {
            let manifests = files.files.iter().filter(|f| f.kind == FileKind::Manifest);
            if manifests.count() != 1 {
                return Err("a partition without one manifest".into());
            }
            files.files.iter().try_for_each(StoredFile::check)?;
        }
        Ok(())
    }

    /// Files, and bytes of them.
    pub(crate) fn size(&self) -> (u64, u64) {
        let files = self.partitions.iter().flat_map(|files| &files.files);
        files.fold((0, 0), |(count, bytes), file| {
            (count + 1, bytes + file.bytes())
        })
    }
}

mod hex {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{number:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quire_database::CollectionSettings;
    use quire_database::catalog::Entry;

    fn sample() -> Snapshot {
        let piece = |start, end| Piece {
            start,
            end,
            digest: u64::MAX - 3,
            crc32c: 7,
        };
        let file = |kind, volume, pieces| StoredFile {
            kind,
            number: 12,
            volume,
            pieces,
        };
        Snapshot {
            number: 3,
            time_micros: 1_764_000_000_000_000,
            catalog: Catalog {
                number: 1,
                database: "00ff00ff00ff00ff".into(),
                volumes: 2,
                named_volumes: Vec::new(),
                next_collection: 3,
                collections: vec![Entry {
                    origin: None,
                    partitions_before: Vec::new(),
                    id: 2,
                    name: "jobs".into(),
                    settings: CollectionSettings {
                        partitions: 1,
                        ..CollectionSettings::default()
                    },
                    index_generation: 0,
                    triggers: Default::default(),
                    aliases: std::collections::BTreeMap::new(),
                }],
                templates: Default::default(),
                coprocessors: Default::default(),
            },
            partitions: vec![PartitionFiles {
                collection: 2,
                partition: 0,
                position: 9,
                files: vec![
                    file(FileKind::Manifest, 0, vec![piece(0, 90)]),
                    file(FileKind::Table, 1, vec![piece(0, 5000)]),
                    file(FileKind::Log, 0, vec![piece(0, 48), piece(48, 900)]),
                ],
            }],
        }
    }

    #[test]
    fn round_trips() {
        assert_eq!(Snapshot::decode(&sample().encode()), Ok(sample()));
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_an_error() {
        let bytes = sample().encode();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(Snapshot::decode(&damaged).is_err(), "byte {at}");
            assert!(Snapshot::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let changes: [fn(&mut Snapshot); 5] = [
            |snapshot| snapshot.partitions.clear(),
            |snapshot| snapshot.partitions[0].partition = 1,
            |snapshot| drop(snapshot.partitions[0].files.remove(0)),
            |snapshot| snapshot.partitions[0].files[2].pieces[1].start = 47,
            |snapshot| snapshot.partitions[0].files[1].pieces.clear(),
        ];
        for (at, change) in changes.iter().enumerate() {
            let mut snapshot = sample();
            change(&mut snapshot);
            assert!(Snapshot::decode(&snapshot.encode()).is_err(), "change {at}");
        }
    }
}
