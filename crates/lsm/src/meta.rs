//! What a manifest keeps of tables and runs: enough to open them, and to notice a wrong file.
//!
//! # Layout
//! All integers are variable-length (LEB128) except the digest; the manifest around them has the
//! checksum.
//! ```text
//! table: volume | number | bytes | entries | tombstones | operands
//!        | digest (8 bytes, little-endian) | length, smallest key | length, largest key
//! run:   id | length, first key | tables | that many tables
//! ```

use crate::{TableDamage, varint};
use quire_env::{FileId, VolumeId};

/// A table file, as it must be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMeta {
    /// Where it is.
    pub file: FileId,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its entries, tombstones and operands included.
    pub entries: u64,
    /// Entries that say a key has no value.
    pub tombstones: u64,
    /// Entries that are merge operands.
    pub operands: u64,
    /// Its first key.
    pub smallest: Vec<u8>,
    /// Its last key.
    pub largest: Vec<u8>,
    /// Over every block's checksum and the file's random salt: no two files share it.
    pub digest: u64,
}

impl TableMeta {
    /// Appends the encoding described above.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let numbers = [
            u64::from(self.file.volume.0),
            self.file.number,
            self.bytes,
            self.entries,
            self.tombstones,
            self.operands,
        ];
        for number in numbers {
            varint::put(out, number);
        }
        out.extend_from_slice(&self.digest.to_le_bytes());
        varint::put_bytes(out, &self.smallest);
        varint::put_bytes(out, &self.largest);
    }

    /// Takes an encoded table from `bytes` at `*at`, and moves `*at` past it.
    ///
    /// # Errors
    /// [`TableDamage`] if the bytes end first or make no table.
    pub fn decode(bytes: &[u8], at: &mut usize) -> Result<TableMeta, TableDamage> {
        let start = *at;
        let volume = varint::get(bytes, at)?;
        let volume = u16::try_from(volume)
            .map_err(|_| TableDamage::new("volume of a table", start, u16::MAX, volume))?;
        let number = varint::get(bytes, at)?;
        let length = varint::get(bytes, at)?;
        let entries = varint::get(bytes, at)?;
        let tombstones = varint::get(bytes, at)?;
        let operands = varint::get(bytes, at)?;
        let left = bytes.len() - *at;
        let digest = bytes
            .get(*at..)
            .and_then(|rest| rest.first_chunk::<8>())
            .ok_or_else(|| TableDamage::new("digest of a table", *at, 8u64, left))?;
        *at += digest.len();
        let smallest = varint::get_bytes(bytes, at)?.to_vec();
        let largest = varint::get_bytes(bytes, at)?.to_vec();
        Ok(TableMeta {
            file: FileId {
                volume: VolumeId(volume),
                number,
            },
            bytes: length,
            entries,
            tombstones,
            operands,
            smallest,
            largest,
            digest: u64::from_le_bytes(*digest),
        })
    }
}

/// A sorted run: tables in key order, no key in two of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunMeta {
    /// Its number, unique among the tree's runs.
    pub id: u64,
    /// What its tables have before this key is not the run's: a compaction that is not finished has
    /// put it into another. Empty if all is.
    pub from: Vec<u8>,
    /// Its tables, in key order.
    pub tables: Vec<TableMeta>,
}

impl RunMeta {
    /// Appends the encoding described above.
    pub fn encode(&self, out: &mut Vec<u8>) {
        varint::put(out, self.id);
        varint::put_bytes(out, &self.from);
        varint::put(out, self.tables.len() as u64);
        for table in &self.tables {
            table.encode(out);
        }
    }

    /// Takes an encoded run from `bytes` at `*at`, and moves `*at` past it.
    ///
    /// # Errors
    /// [`TableDamage`] if the bytes end first or make no run.
    pub fn decode(bytes: &[u8], at: &mut usize) -> Result<RunMeta, TableDamage> {
        let id = varint::get(bytes, at)?;
        let from = varint::get_bytes(bytes, at)?.to_vec();
        let tables = tables(bytes, at)?;
        Ok(RunMeta { id, from, tables })
    }

    /// As [`decode`](Self::decode), of a run encoded before runs had first keys.
    ///
    /// # Errors
    /// As for [`decode`](Self::decode).
    pub fn decode_whole(bytes: &[u8], at: &mut usize) -> Result<RunMeta, TableDamage> {
        let id = varint::get(bytes, at)?;
        let (from, tables) = (Vec::new(), tables(bytes, at)?);
        Ok(RunMeta { id, from, tables })
    }

    /// Bytes of its tables.
    pub fn bytes(&self) -> u64 {
        let bytes = self.tables.iter().map(|table| table.bytes);
        bytes.fold(0, u64::saturating_add)
    }
}

fn tables(bytes: &[u8], at: &mut usize) -> Result<Vec<TableMeta>, TableDamage> {
    let count = varint::get(bytes, at)?;
    // Grown table by table: a count is not worth an allocation before that many tables are seen.
    let mut tables = Vec::new();
    for _ in 0..count {
        tables.push(TableMeta::decode(bytes, at)?);
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn any_table() -> impl Strategy<Value = TableMeta> {
        (
            any::<(u16, u64, u64, u64, u64, u64, u64)>(),
            vec(any::<u8>(), 0..40),
            vec(any::<u8>(), 0..200),
        )
            .prop_map(
                |(
                    (volume, number, bytes, entries, tombstones, operands, digest),
                    smallest,
                    largest,
                )| TableMeta {
                    file: FileId {
                        volume: VolumeId(volume),
                        number,
                    },
                    bytes,
                    entries,
                    tombstones,
                    operands,
                    smallest,
                    largest,
                    digest,
                },
            )
    }

    proptest! {
        #[test]
        fn a_run_comes_back_and_every_cut_is_refused(
            id: u64,
            from in vec(any::<u8>(), 0..40),
            tables in vec(any_table(), 0..5),
        ) {
            let run = RunMeta { id, from, tables };
            let mut bytes = vec![0xaa; 3];
            run.encode(&mut bytes);
            let mut at = 3;
            prop_assert_eq!(RunMeta::decode(&bytes, &mut at), Ok(run));
            prop_assert_eq!(at, bytes.len());
            for length in 3..bytes.len() {
                prop_assert!(RunMeta::decode(&bytes[..length], &mut 3).is_err());
            }
        }

        #[test]
        fn foreign_bytes_are_refused_or_decoded_but_never_panic(bytes in vec(any::<u8>(), 0..200)) {
            let _ = RunMeta::decode(&bytes, &mut 0);
            let _ = RunMeta::decode_whole(&bytes, &mut 0);
        }
    }
}
