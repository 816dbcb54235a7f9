//! Payload of a block of records: the records one after another, then a table of where each ends.
//!
//! # Invariants
//! 1. A [`RecordBlock`] that was decoded from disk has a table that ascends and ends where the records do.
//! 2. Positions in a block are dense: the n-th record has position first + n.
//!
//! # Layout (little-endian)
//! ```text
//! | record bytes … | end of record 0, u32 | end of record 1 | … | number of records, u32 |
//!   ends are offsets in the payload; a record begins where the one before it ends, the first at 0
//! ```
//! The table comes last so that a block grows in place, and is handed on without a copy.

use crate::block::{BlockHeader, Fault};
use crate::le;
use bytes::Bytes;
use quire_model::Position;

/// Bytes of a payload that are not of a record: the table's count.
pub(crate) const COUNT_BYTES: usize = 4;
/// Bytes of the table for each record.
pub(crate) const TABLE_ENTRY_BYTES: usize = 4;

/// Records at consecutive positions, raw. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct RecordBlock {
    first: Position,
    records: u32,
    payload: Bytes,
    /// The last group of records goes on in the next block.
    goes_on: bool,
}

impl RecordBlock {
    /// Decompresses and checks the payload that was stored under `header`, its checksum already checked.
    pub(crate) fn decode(header: &BlockHeader, stored: Bytes) -> Result<RecordBlock, Fault> {
        let payload = header.decompress(stored)?;
        let block = RecordBlock {
            first: header.first,
            records: header.records,
            payload,
            goes_on: header.goes_on,
        };
        if block.table_holds() {
            Ok(block)
        } else {
            Err(Fault::certain("block with an impossible record table"))
        }
    }

    /// A payload that this type checked before, from the cache; where its groups end is not known.
    pub(crate) fn from_checked(first: Position, payload: Bytes) -> Option<RecordBlock> {
        let records = le::u32_at(&payload, payload.len().checked_sub(COUNT_BYTES)?)?;
        Some(RecordBlock {
            first,
            records,
            payload,
            goes_on: false,
        })
    }

    fn table_start(&self) -> Option<usize> {
        let table = (self.records as usize)
            .checked_mul(TABLE_ENTRY_BYTES)?
            .checked_add(COUNT_BYTES)?;
        self.payload.len().checked_sub(table)
    }

    fn table_holds(&self) -> bool {
        let Some(start) = self.table_start() else {
            return false;
        };
        let (Some(table), Some(count)) = (
            self.payload.get(start..self.payload.len() - COUNT_BYTES),
            le::u32_at(&self.payload, self.payload.len() - COUNT_BYTES),
        ) else {
            return false;
        };
        let mut end = 0;
        for entry in table.chunks_exact(TABLE_ENTRY_BYTES) {
            match le::u32_at(entry, 0) {
                Some(next) if next >= end => end = next,
                _ => return false,
            }
        }
        count == self.records && end as usize == start
    }

    pub(crate) fn first(&self) -> Position {
        self.first
    }

    /// The last position.
    pub(crate) fn last(&self) -> Position {
        Position(self.first.0 + u64::from(self.records).saturating_sub(1))
    }

    /// Whether the last group of records goes on in the next block.
    pub(crate) fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// How many records.
    pub(crate) fn records(&self) -> u32 {
        self.records
    }

    /// The raw payload, table included.
    pub(crate) fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// The record at `position`, sharing the block's memory; `None` if it is not in this block.
    pub(crate) fn record(&self, position: Position) -> Option<Bytes> {
        let index = u32::try_from(position.0.checked_sub(self.first.0)?).ok()?;
        if index >= self.records {
            return None;
        }
        let entry = self.table_start()? + index as usize * TABLE_ENTRY_BYTES;
        let start = match index {
            0 => 0,
            _ => le::u32_at(&self.payload, entry - TABLE_ENTRY_BYTES)? as usize,
        };
        let end = le::u32_at(&self.payload, entry)? as usize;
        (start <= end && end <= self.payload.len()).then(|| self.payload.slice(start..end))
    }
}

/// A block being filled.
#[derive(Debug, Clone)]
pub(crate) struct BlockBuilder {
    first: Position,
    data: Vec<u8>,
    ends: Vec<u32>,
}

impl BlockBuilder {
    /// An empty block whose first record will have position `first`, with memory for `bytes`.
    pub(crate) fn new(first: Position, bytes: usize) -> BlockBuilder {
        BlockBuilder {
            first,
            data: Vec::with_capacity(bytes),
            ends: Vec::new(),
        }
    }

    /// Raw bytes that `bytes` of `records` records add to a block.
    pub(crate) fn added_bytes(bytes: usize, records: usize) -> usize {
        bytes + records * TABLE_ENTRY_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Length of the payload, as it would be now.
    pub(crate) fn raw_bytes(&self) -> usize {
        self.data.len() + self.ends.len() * TABLE_ENTRY_BYTES + COUNT_BYTES
    }

    /// Adds a record. The caller keeps blocks within their limit.
    pub(crate) fn push(&mut self, record: &[u8]) {
        self.data.extend_from_slice(record);
        self.ends.push(self.data.len() as u32);
    }

    /// A copy of the record at `position`; `None` if it is not in this block.
    pub(crate) fn record(&self, position: Position) -> Option<Bytes> {
        let index = usize::try_from(position.0.checked_sub(self.first.0)?).ok()?;
        let end = *self.ends.get(index)? as usize;
        let start = match index {
            0 => 0,
            _ => *self.ends.get(index - 1)? as usize,
        };
        self.data.get(start..end).map(Bytes::copy_from_slice)
    }

    /// The block, full; `goes_on` says whether its last group does.
    pub(crate) fn finish(self, goes_on: bool) -> RecordBlock {
        let BlockBuilder {
            first,
            mut data,
            ends,
        } = self;
        let records = ends.len() as u32;
        data.reserve_exact(ends.len() * TABLE_ENTRY_BYTES + COUNT_BYTES);
        for end in ends {
            data.extend_from_slice(&end.to_le_bytes());
        }
        data.extend_from_slice(&records.to_le_bytes());
        RecordBlock {
            first,
            records,
            payload: Bytes::from(data),
            goes_on,
        }
    }
}
