//! Properties: what a table says of itself.
//!
//! # Layout (variable-length integers)
//! ```text
//! tree | entries | tombstones | operands | key bytes | value bytes | data blocks
//! | filter offset | filter lines | filter probes | index offset
//! | length, smallest key | length, largest key
//! | ranges | ranges offset       only of a table that deletes ranges, or has deadlines
//! | timed | soonest              only of a table that has deadlines
//! ```
//! Key and value bytes are of all entries, before prefixes are cut and blocks compressed.

use super::filter::Shape;
use crate::{TableDamage, deadline, varint};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Properties {
    pub(crate) tree: u32,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    pub(crate) operands: u64,
    pub(crate) key_bytes: u64,
    pub(crate) value_bytes: u64,
    pub(crate) data_blocks: u64,
    pub(crate) filter_offset: u64,
    pub(crate) filter: Shape,
    pub(crate) index_offset: u64,
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
    /// How many ranges of keys it deletes.
    pub(crate) ranges: u64,
    /// Where they are; the filter comes next. 0 if there are none.
    pub(crate) ranges_offset: u64,
    /// How many of its values have a deadline.
    pub(crate) timed: u64,
    /// The first of these deadlines; 0 if there are none.
    pub(crate) soonest: u64,
}

impl Properties {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let numbers = [
            u64::from(self.tree),
            self.entries,
            self.tombstones,
            self.operands,
            self.key_bytes,
            self.value_bytes,
            self.data_blocks,
            self.filter_offset,
            u64::from(self.filter.lines),
            u64::from(self.filter.probes),
            self.index_offset,
        ];
        for number in numbers {
            varint::put(&mut out, number);
        }
        varint::put_bytes(&mut out, &self.smallest);
        varint::put_bytes(&mut out, &self.largest);
        if self.ranges > 0 || self.timed > 0 {
            varint::put(&mut out, self.ranges);
            varint::put(&mut out, self.ranges_offset);
        }
        if self.timed > 0 {
            varint::put(&mut out, self.timed);
            varint::put(&mut out, self.soonest);
        }
        out
    }

    /// Notes an entry with a deadline.
    pub(crate) fn note_deadline(&mut self, timed: &[u8]) {
        let (deadline, _) = deadline::split(timed);
        self.soonest = match self.timed {
            0 => deadline,
            _ => self.soonest.min(deadline),
        };
        self.timed += 1;
    }

    /// Those in a file of format `version`.
    ///
    /// # Errors
    /// [`TableDamage`] for bytes that [`encode`](Self::encode) does not give.
    pub(crate) fn decode(bytes: &[u8], version: u32) -> Result<Properties, TableDamage> {
        let mut at = 0;
        let small = |at: &mut usize| {
            let start = *at;
            let number = varint::get(bytes, at)?;
            u32::try_from(number).map_err(|_| TableDamage::new("property", start, u32::MAX, number))
        };
        let mut properties = Properties {
            tree: small(&mut at)?,
            entries: varint::get(bytes, &mut at)?,
            tombstones: varint::get(bytes, &mut at)?,
            operands: varint::get(bytes, &mut at)?,
            key_bytes: varint::get(bytes, &mut at)?,
            value_bytes: varint::get(bytes, &mut at)?,
            data_blocks: varint::get(bytes, &mut at)?,
            filter_offset: varint::get(bytes, &mut at)?,
            filter: Shape::read(small(&mut at)?, small(&mut at)?, version),
            index_offset: varint::get(bytes, &mut at)?,
            smallest: varint::get_bytes(bytes, &mut at)?.to_vec(),
            largest: varint::get_bytes(bytes, &mut at)?.to_vec(),
            ranges: 0,
            ranges_offset: 0,
            timed: 0,
            soonest: 0,
        };
        if at != bytes.len() {
            properties.ranges = varint::get(bytes, &mut at)?;
            properties.ranges_offset = varint::get(bytes, &mut at)?;
        }
        if at != bytes.len() {
            properties.timed = varint::get(bytes, &mut at)?;
            properties.soonest = varint::get(bytes, &mut at)?;
        }
        if at != bytes.len() || (properties.ranges == 0) != (properties.ranges_offset == 0) {
            return Err(TableDamage::new(
                "length of the properties",
                0,
                at,
                bytes.len(),
            ));
        }
        Ok(properties)
    }
}
