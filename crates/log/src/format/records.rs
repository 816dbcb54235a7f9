//! Payload of a block of records: the records one after another, then a table of where each ends.
//!
//! # Invariants
//! 1. A [`RecordBlock`] that was decoded from disk has a table that ascends and ends where the
//!    records do.
//! 2. Positions in a block as it was written are dense: the n-th record has position first + n.
//! 3. Positions in a *sparse* block, of a compacted segment, ascend strictly from the first
//!    position to the last.
//!
//! # Layout (little-endian)
//! ```text
//! | record bytes … | end of record 0, u32 | end of record 1 | … | number of records, u32 |
//!   ends are offsets in the payload; a record begins where the one before it ends, the first at 0
//! ```
//! A sparse block has a second table:
//! ```text
//! | record bytes … | end of record 0, u32 | … | delta of record 0, u32 | … | record count, u32 |
//!   delta: the record's position less the block's first, so 0 for record 0
//! ```
//! The tables come last, so that a block can grow in place and be passed on without a copy.

use crate::format::block::{BLOCK_HEADER_BYTES, BlockFault, BlockHeader, BlockKind, Salt};
use crate::format::le;
use bytes::Bytes;
use quire_model::Position;
use quire_pack::{Dictionary, Packer};

/// Bytes of the record count at the end of a payload.
pub(crate) const COUNT_BYTES: usize = 4;
/// Bytes of one table entry.
pub(crate) const TABLE_ENTRY_BYTES: usize = 4;

/// Records at ascending positions, raw. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct RecordBlock {
    first: Position,
    records: u32,
    payload: Bytes,
    /// The last group of records continues in the next block.
    group_continues: bool,
    /// There may be gaps between the positions.
    sparse: bool,
}

impl RecordBlock {
    /// Decompresses and checks the payload stored under `header`. The caller has checked its
    /// checksum. `dictionary` is that of the segment, if the header says that the payload needs it.
    pub(crate) fn decode(
        header: &BlockHeader,
        stored: Bytes,
        dictionary: Option<&Dictionary>,
    ) -> Result<RecordBlock, BlockFault> {
        let payload = header.decompress(stored, dictionary)?;
        let block = RecordBlock {
            first: header.first,
            records: header.records,
            payload,
            group_continues: header.group_continues,
            sparse: header.kind == BlockKind::Sparse,
        };
        if block.tables_hold(header.positions) {
            Ok(block)
        } else {
            Err(BlockFault::certain("block with an impossible record table"))
        }
    }

    /// A payload from the cache, which this type checked before it was cached. Where its groups end
    /// is not known.
    pub(crate) fn from_checked(
        first: Position,
        payload: Bytes,
        sparse: bool,
    ) -> Option<RecordBlock> {
        let records = le::u32_at(&payload, payload.len().checked_sub(COUNT_BYTES)?)?;
        Some(RecordBlock {
            first,
            records,
            payload,
            group_continues: false,
            sparse,
        })
    }

    /// Appends the block to `out`, with its header, compressed if that makes it smaller. `offset`
    /// is where in the segment the block begins. Returns its bytes in the file, at most those of
    /// the header and the raw payload.
    pub(crate) fn encode(
        &self,
        packer: &mut Packer,
        durable: u64,
        salt: Salt,
        offset: u64,
        out: &mut Vec<u8>,
    ) -> usize {
        let raw: &[u8] = self.payload();
        let start = out.len();
        let payload = start + BLOCK_HEADER_BYTES;
        out.resize(payload, 0);
        let (packing, with_dictionary) = packer.pack(raw, out);
        let header = BlockHeader {
            kind: self.kind(),
            packing,
            group_continues: self.group_continues(),
            with_dictionary,
            records: self.records(),
            positions: self.positions(),
            raw_length: raw.len() as u32,
            stored_length: (out.len() - payload) as u32,
            first: self.first(),
            durable,
            payload_crc: crc32c::crc32c(&out[payload..]),
        };
        out[start..payload].copy_from_slice(&header.encode(salt, offset));
        out.len() - start
    }

    /// Bytes of one table.
    fn table_bytes(&self) -> Option<usize> {
        (self.records as usize).checked_mul(TABLE_ENTRY_BYTES)
    }

    /// Where the table of deltas begins. A dense block has none: its count begins there.
    fn deltas_start(&self) -> Option<usize> {
        let after = self.payload.len().checked_sub(COUNT_BYTES)?;
        match self.sparse {
            true => after.checked_sub(self.table_bytes()?),
            false => Some(after),
        }
    }

    fn ends_start(&self) -> Option<usize> {
        self.deltas_start()?.checked_sub(self.table_bytes()?)
    }

    fn tables_hold(&self, positions: u32) -> bool {
        self.ends_hold() == Some(true)
            && match self.sparse {
                true => self.deltas_hold(positions) == Some(true),
                false => positions == self.records,
            }
    }

    fn ends_hold(&self) -> Option<bool> {
        let start = self.ends_start()?;
        let table = self.payload.get(start..self.deltas_start()?)?;
        let count = le::u32_at(&self.payload, self.payload.len() - COUNT_BYTES)?;
        let mut end = 0;
        for entry in table.chunks_exact(TABLE_ENTRY_BYTES) {
            match le::u32_at(entry, 0)? {
                next if next >= end => end = next,
                _ => return Some(false),
            }
        }
        Some(count == self.records && end as usize == start)
    }

    fn deltas_hold(&self, positions: u32) -> Option<bool> {
        let start = self.deltas_start()?;
        let table = self.payload.get(start..start + self.table_bytes()?)?;
        let mut next = 0;
        for (at, entry) in table.chunks_exact(TABLE_ENTRY_BYTES).enumerate() {
            let delta = le::u32_at(entry, 0)?;
            if delta < next || (at == 0 && delta != 0) {
                return Some(false);
            }
            next = delta.checked_add(1)?;
        }
        Some(next == positions)
    }

    pub(crate) fn first(&self) -> Position {
        self.first
    }

    /// The last position.
    pub(crate) fn last(&self) -> Position {
        let delta = self.delta(self.records.saturating_sub(1));
        Position(self.first.0 + u64::from(delta.unwrap_or_default()))
    }

    /// Last position - first position + 1.
    pub(crate) fn positions(&self) -> u32 {
        (self.last().0 - self.first.0) as u32 + 1
    }

    /// Whether the last group of records continues in the next block.
    pub(crate) fn group_continues(&self) -> bool {
        self.group_continues
    }

    /// The number of records.
    pub(crate) fn records(&self) -> u32 {
        self.records
    }

    /// The kind that the header of the block names.
    pub(crate) fn kind(&self) -> BlockKind {
        match self.sparse {
            true => BlockKind::Sparse,
            false => BlockKind::Records,
        }
    }

    /// The raw payload, tables included.
    pub(crate) fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// The position of the record at `index`, less the block's first.
    fn delta(&self, index: u32) -> Option<u32> {
        match self.sparse {
            true => le::u32_at(
                &self.payload,
                self.deltas_start()? + index as usize * TABLE_ENTRY_BYTES,
            ),
            false => Some(index),
        }
    }

    /// The number of records before `delta`.
    fn records_before(&self, delta: u32) -> u32 {
        if !self.sparse {
            return delta.min(self.records);
        }
        let (mut low, mut high) = (0, self.records);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.delta(middle) {
                Some(found) if found < delta => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }

    /// The record at `position`, sharing the block's memory; `None` if it is not in this block.
    pub(crate) fn record(&self, position: Position) -> Option<Bytes> {
        let (found, record) = self.next_record(position)?;
        (found == position).then_some(record)
    }

    /// The first record at or after `position`, which must not be before the block. `None` if all
    /// records are before it.
    pub(crate) fn next_record(&self, position: Position) -> Option<(Position, Bytes)> {
        let wanted = u32::try_from(position.0.checked_sub(self.first.0)?).ok()?;
        let index = self.records_before(wanted);
        if index >= self.records {
            return None;
        }
        let entry = self.ends_start()? + index as usize * TABLE_ENTRY_BYTES;
        let start = match index {
            0 => 0,
            _ => le::u32_at(&self.payload, entry - TABLE_ENTRY_BYTES)? as usize,
        };
        let end = le::u32_at(&self.payload, entry)? as usize;
        let found = Position(self.first.0 + u64::from(self.delta(index)?));
        (start <= end && end <= self.payload.len()).then(|| (found, self.payload.slice(start..end)))
    }
}

/// A block being filled.
#[derive(Debug, Clone)]
pub(crate) struct BlockBuilder {
    first: Position,
    data: Vec<u8>,
    ends: Vec<u32>,
    /// Of a sparse block: one delta for each record.
    deltas: Option<Vec<u32>>,
}

impl BlockBuilder {
    /// An empty block whose first record will have position `first`, with memory for `bytes`.
    pub(crate) fn new(first: Position, bytes: usize) -> BlockBuilder {
        BlockBuilder {
            first,
            data: Vec::with_capacity(bytes),
            ends: Vec::new(),
            deltas: None,
        }
    }

    /// An empty sparse block; its first record decides where it begins.
    pub(crate) fn sparse(bytes: usize) -> BlockBuilder {
        BlockBuilder {
            deltas: Some(Vec::new()),
            ..BlockBuilder::new(Position(0), bytes)
        }
    }

    /// Raw bytes that `bytes` of `records` records add to a dense block.
    pub(crate) fn added_bytes(bytes: usize, records: usize) -> usize {
        bytes + records * TABLE_ENTRY_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The length that the payload would have now.
    pub(crate) fn raw_bytes(&self) -> usize {
        let tables = 1 + usize::from(self.deltas.is_some());
        self.data.len() + self.ends.len() * TABLE_ENTRY_BYTES * tables + COUNT_BYTES
    }

    /// Adds a record. The caller keeps blocks within their limit.
    pub(crate) fn push(&mut self, record: &[u8]) {
        self.data.extend_from_slice(record);
        self.ends.push(self.data.len() as u32);
    }

    /// As [`push`](Self::push). The memory of the record becomes the block's, if it is the first.
    pub(crate) fn push_owned(&mut self, record: Vec<u8>) {
        match self.data.is_empty() {
            true => {
                self.ends.push(record.len() as u32);
                self.data = record;
            }
            false => self.push(&record),
        }
    }

    /// Adds the record at `position` to a sparse block. Returns false, and changes nothing, if
    /// `position` is too far from the first one.
    pub(crate) fn push_at(&mut self, position: Position, record: &[u8]) -> bool {
        if self.is_empty() {
            self.first = position;
        }
        let delta = position.0.checked_sub(self.first.0).map(u32::try_from);
        match (&mut self.deltas, delta) {
            (Some(deltas), Some(Ok(delta))) if delta < u32::MAX => deltas.push(delta),
            _ => return false,
        }
        self.push(record);
        true
    }

    /// A copy of the record at `position` of a dense block; `None` if it is not in this block.
    pub(crate) fn record(&self, position: Position) -> Option<Bytes> {
        let index = usize::try_from(position.0.checked_sub(self.first.0)?).ok()?;
        let end = *self.ends.get(index)? as usize;
        let start = match index {
            0 => 0,
            _ => *self.ends.get(index - 1)? as usize,
        };
        self.data.get(start..end).map(Bytes::copy_from_slice)
    }

    /// Ends the block. `group_continues` says whether its last group does.
    pub(crate) fn finish(self, group_continues: bool) -> RecordBlock {
        let BlockBuilder {
            first,
            mut data,
            ends,
            deltas,
        } = self;
        let records = ends.len() as u32;
        let sparse = deltas.is_some();
        let table = ends.into_iter().chain(deltas.into_iter().flatten());
        data.reserve_exact(table.size_hint().0 * TABLE_ENTRY_BYTES + COUNT_BYTES);
        for entry in table {
            data.extend_from_slice(&entry.to_le_bytes());
        }
        data.extend_from_slice(&records.to_le_bytes());
        RecordBlock {
            first,
            records,
            payload: Bytes::from(data),
            group_continues,
            sparse,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Codec, LogIdentity};
    use quire_pack::Packing;

    #[test]
    fn sparse_blocks_give_each_record_at_its_place_and_the_next_across_gaps() {
        let mut builder = BlockBuilder::sparse(0);
        for (position, record) in [(7, "a"), (9, "bc"), (10, ""), (500, "d")] {
            assert!(builder.push_at(Position(position), record.as_bytes()));
        }
        let raw_bytes = builder.raw_bytes();
        let block = builder.finish(false);
        assert_eq!(block.payload().len(), raw_bytes);
        assert_eq!((block.records(), block.positions()), (4, 494));
        assert!(block.tables_hold(494) && !block.tables_hold(493));
        let next = |at| block.next_record(Position(at)).map(|(found, _)| found.0);
        assert_eq!(
            [6, 7, 8, 9, 10, 11, 500, 501].map(next),
            [
                None,
                Some(7),
                Some(9),
                Some(9),
                Some(10),
                Some(500),
                Some(500),
                None
            ]
        );
        assert_eq!(block.record(Position(9)).unwrap().as_ref(), b"bc");
        assert_eq!(block.record(Position(8)), None);
        let again = RecordBlock::from_checked(Position(7), block.payload().clone(), true).unwrap();
        assert_eq!(again.record(Position(500)).unwrap().as_ref(), b"d");
    }

    fn block(records: &[&[u8]]) -> RecordBlock {
        let mut builder = BlockBuilder::new(Position(10), 0);
        for record in records {
            builder.push(record);
        }
        builder.finish(false)
    }

    fn decode(
        bytes: &[u8],
        salt: Salt,
        offset: u64,
        dictionary: Option<&Dictionary>,
    ) -> Result<RecordBlock, BlockFault> {
        let header = BlockHeader::decode(bytes, salt, offset)?;
        let stored = bytes.get(BLOCK_HEADER_BYTES..).unwrap_or_default();
        header.check_payload(stored)?;
        RecordBlock::decode(&header, Bytes::copy_from_slice(stored), dictionary)
    }

    #[test]
    fn blocks_come_back_and_any_changed_byte_or_place_is_refused() {
        let salt = Salt::new(LogIdentity([1; 16]), Position(1));
        let zstd = Codec::Zstd {
            level: 3,
            dictionary_bytes: 256,
        };
        let trained = Dictionary::train(b"aaaabcdaaaabcd", &[7, 7], 256).unwrap();
        for (codec, packing, dictionary) in [
            (Codec::None, Packing::None, None),
            (Codec::Lz4, Packing::Lz4, None),
            (zstd, Packing::Zstd, None),
            (zstd, Packing::Zstd, Some(&trained)),
        ] {
            let decode = |bytes: &[u8], salt, offset| decode(bytes, salt, offset, dictionary);
            let original = block(&[b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", b"", b"bcd"]);
            let mut bytes = Vec::new();
            let mut packer = Packer::new(codec, dictionary);
            original.encode(&mut packer, 48, salt, 480, &mut bytes);
            let header = BlockHeader::decode(&bytes, salt, 480).unwrap();
            assert_eq!(
                (header.packing, header.with_dictionary),
                (packing, dictionary.is_some())
            );
            let back = decode(&bytes, salt, 480).unwrap();
            assert_eq!(
                back.record(Position(10)).unwrap(),
                original.record(Position(10)).unwrap()
            );
            assert_eq!(back.record(Position(11)).unwrap().len(), 0);
            assert_eq!(back.record(Position(12)).unwrap().as_ref(), b"bcd");
            assert!(back.record(Position(13)).is_none() && back.record(Position(9)).is_none());

            assert!(decode(&bytes, salt, 481).is_err(), "another offset");
            assert!(
                decode(&bytes, Salt::new(LogIdentity([1; 16]), Position(2)), 480).is_err(),
                "another segment"
            );
            assert!(
                decode(&bytes, Salt::new(LogIdentity([2; 16]), Position(1)), 480).is_err(),
                "another log"
            );
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                assert!(decode(&changed, salt, 480).is_err(), "byte {at}");
                assert!(decode(&bytes[..at], salt, 480).is_err(), "cut at {at}");
            }
        }
    }

    #[test]
    fn what_does_not_compress_is_stored_as_it_is() {
        let salt = Salt::new(LogIdentity([1; 16]), Position(1));
        let original = block(&[&[1, 93, 27, 201, 5, 77]]);
        let mut bytes = Vec::new();
        let mut packer = Packer::new(Codec::Lz4, None);
        let length = original.encode(&mut packer, 0, salt, 48, &mut bytes);
        assert_eq!(length, BLOCK_HEADER_BYTES + original.payload().len());
        assert_eq!(
            BlockHeader::decode(&bytes, salt, 48).unwrap().packing,
            Packing::None
        );
    }
}
