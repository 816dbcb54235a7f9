//! [`Dictionary`]: the distinct values of a field, in order. A value's index in it is its code.
//!
//! # Invariants
//! 1. Values are byte strings that ascend without repeats, of at most 2^32 - 1 bytes. So codes
//!    compare as values do, and a range of values is a range of codes.
//! 2. A dictionary is read in place and opened in constant time. A lookup reads about log2(n / 16)
//!    values and one block.
//! 3. Bytes that make no sense give an error or a wrong answer; a value that is decoded from them
//!    is never longer than the dictionary.
//!
//! # Layout (little-endian)
//! ```text
//! | blob | offsets: a column | blob's length (8) | values (8) | width (4) | kind (1) |
//!   kind 0, blocks    16 values each: the first as varint length, bytes; each other one as varint
//!                     shared, varint length, bytes: it begins with `shared` bytes of the one
//!                     before. The column has each block's offset in the blob
//!   kind 1, fixed     all values are `width` bytes long, one after another; the column is empty
//!   kind 2, integers  all values are terms of integers in the range of i64: the column has each,
//!                     its sign bit flipped
//! ```
//! Source of the blocks: front coding; Witten, Moffat, Bell 1999, "Managing Gigabytes", 4.1.

use crate::column::{Column, ColumnHead, ColumnWriter};
use crate::{IndexDamage, le, number_key, term, varint};
use quire_model::ordered::OrderedValue;
use std::ops::{Bound, ControlFlow, RangeInclusive};

/// Values of a block.
const BLOCK_VALUES: u64 = 16;
const FOOTER_BYTES: usize = 8 + 8 + 4 + 1;

/// How a dictionary stores its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DictionaryEncoding {
    /// Front-coded, in blocks.
    Blocks,
    /// Each in this number of bytes.
    Fixed(u32),
    /// Integers, as numbers in a column.
    Integers,
}

/// Writes a dictionary, value by value, in ascending order.
#[derive(Debug)]
pub struct DictionaryWriter {
    encoding: DictionaryEncoding,
    offsets: ColumnWriter,
    offset_bytes: Vec<u8>,
    last: Vec<u8>,
    blob: u64,
    values: u64,
}

impl DictionaryWriter {
    /// An empty dictionary. The caller knows that `encoding` suits all values.
    #[must_use]
    pub fn new(encoding: DictionaryEncoding) -> DictionaryWriter {
        DictionaryWriter {
            encoding,
            offsets: ColumnWriter::new(),
            offset_bytes: Vec::new(),
            last: Vec::new(),
            blob: 0,
            values: 0,
        }
    }

    /// Adds a value, which is greater than all before; appends its bytes to `out`.
    ///
    /// # Errors
    /// [`IndexDamage`] if `encoding` can't store it, or it is not greater; the dictionary is then
    /// unusable.
    pub fn push(&mut self, value: &[u8], out: &mut Vec<u8>) -> Result<(), IndexDamage> {
        let refused = |what| Err(IndexDamage::new(what, 0));
        if self.values > 0 && value <= self.last.as_slice() {
            return refused("order of values");
        }
        let start = out.len();
        match self.encoding {
            DictionaryEncoding::Blocks => {
                let mut rest = value;
                if self.values.is_multiple_of(BLOCK_VALUES) {
                    self.offsets.push(self.blob, &mut self.offset_bytes);
                } else {
                    let shared = shared(&self.last, value);
                    debug_assert!(
                        shared < value.len(),
                        "a greater value is no prefix of the last"
                    );
                    varint::put(out, shared);
                    rest = value.get(shared..).unwrap_or_default();
                }
                varint::put(out, rest.len());
                out.extend_from_slice(rest);
            }
            DictionaryEncoding::Fixed(width) if width as usize == value.len() => {
                out.extend_from_slice(value)
            }
            DictionaryEncoding::Fixed(_) => return refused("length of a value"),
            DictionaryEncoding::Integers => match integer(value) {
                Some(integer) => self.offsets.push(integer, &mut self.offset_bytes),
                None => return refused("value that is no integer"),
            },
        }
        self.blob += (out.len() - start) as u64;
        self.values += 1;
        self.last.clear();
        self.last.extend_from_slice(value);
        Ok(())
    }

    /// Appends the rest of the dictionary to `out`: all but the values themselves.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        let (kind, width) = match self.encoding {
            DictionaryEncoding::Blocks => (0, 0),
            DictionaryEncoding::Fixed(width) => (1, width),
            DictionaryEncoding::Integers => (2, 0),
        };
        let (rows, blob) = match self.encoding {
            DictionaryEncoding::Blocks => (self.values.div_ceil(BLOCK_VALUES), self.blob),
            DictionaryEncoding::Fixed(width) => (0, self.values * u64::from(width)),
            DictionaryEncoding::Integers => (self.values, 0),
        };
        assert!(
            self.offsets.rows() == rows,
            "the column has a row for each block or integer"
        );
        assert!(self.blob == blob, "the blob is as long as its values");
        self.offsets.finish(&mut self.offset_bytes);
        out.extend_from_slice(&self.offset_bytes);
        out.extend_from_slice(&self.blob.to_le_bytes());
        out.extend_from_slice(&self.values.to_le_bytes());
        out.extend_from_slice(&width.to_le_bytes());
        out.push(kind);
    }
}

/// How many bytes the common prefix of two values has.
#[must_use]
pub fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The integer of a term, such that it sorts as a u64.
fn integer(value: &[u8]) -> Option<u64> {
    match term::decode(value)? {
        OrderedValue::Int(integer) => Some(number_key::of_int(integer)),
        _ => None,
    }
}

/// What opening a dictionary reads of it: kept, so that one that is opened again and again is not
/// read for that.
#[derive(Debug, Clone, Copy)]
pub struct DictionaryHead {
    encoding: DictionaryEncoding,
    blob_bytes: usize,
    offset_bytes: usize,
    offsets: ColumnHead,
    values: u64,
}

/// A dictionary in the bytes of a file. Copying it copies slices.
#[derive(Debug, Clone, Copy)]
pub struct Dictionary<'a> {
    encoding: DictionaryEncoding,
    blob: &'a [u8],
    offsets: Column<'a>,
    values: u64,
}

impl<'a> Dictionary<'a> {
    /// The dictionary that `bytes` hold, all of them. Takes constant time.
    ///
    /// # Errors
    /// [`IndexDamage`] if its parts do not fit.
    pub fn new(bytes: &'a [u8]) -> Result<Dictionary<'a>, IndexDamage> {
        Self::parse(bytes).ok_or(IndexDamage::new("dictionary", bytes.len()))
    }

    fn parse(bytes: &'a [u8]) -> Option<Dictionary<'a>> {
        let (parts, footer) = bytes.split_at_checked(bytes.len().checked_sub(FOOTER_BYTES)?)?;
        let blob_bytes = usize::try_from(le::u64_at(footer, 0)?).ok()?;
        let (blob, offsets) = parts.split_at_checked(blob_bytes)?;
        let (values, width) = (le::u64_at(footer, 8)?, le::u32_at(footer, 16)?);
        let offsets = Column::new(offsets).ok()?;
        let (encoding, rows, blob_max) = match *footer.last()? {
            0 => (
                DictionaryEncoding::Blocks,
                values.div_ceil(BLOCK_VALUES),
                u64::MAX,
            ),
            1 => (
                DictionaryEncoding::Fixed(width),
                0,
                values.checked_mul(u64::from(width))?,
            ),
            2 => (DictionaryEncoding::Integers, values, 0),
            _ => return None,
        };
        let right_blob = blob_max == u64::MAX || blob.len() as u64 == blob_max;
        (offsets.rows() == rows && right_blob).then_some(Dictionary {
            encoding,
            blob,
            offsets,
            values,
        })
    }

    /// What is to be kept of it, for [`with_head`](Self::with_head).
    #[must_use]
    pub fn head(&self) -> DictionaryHead {
        DictionaryHead {
            encoding: self.encoding,
            blob_bytes: self.blob.len(),
            offset_bytes: self.offsets.bytes(),
            offsets: self.offsets.head(),
            values: self.values,
        }
    }

    /// The dictionary that has this head, in the same bytes.
    #[inline]
    #[must_use]
    pub fn with_head(bytes: &'a [u8], head: &'a DictionaryHead) -> Dictionary<'a> {
        let (blob, rest) = bytes.split_at_checked(head.blob_bytes).unwrap_or_default();
        let offsets = rest.get(..head.offset_bytes).unwrap_or_default();
        Dictionary {
            encoding: head.encoding,
            blob,
            offsets: Column::with_head(offsets, &head.offsets),
            values: head.values,
        }
    }

    /// How many values.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.values
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values == 0
    }

    /// How the values are stored.
    #[must_use]
    pub fn encoding(&self) -> DictionaryEncoding {
        self.encoding
    }

    /// How many values are less than `wanted`, which may be any bytes, and whether it is a value:
    /// then that is its code.
    ///
    /// # Errors
    /// [`IndexDamage`] if a block makes no sense.
    pub fn search(&self, wanted: &[u8]) -> Result<(u64, bool), IndexDamage> {
        match self.encoding {
            DictionaryEncoding::Blocks => self.search_blocks(wanted),
            DictionaryEncoding::Fixed(width) => {
                let at = |code: u64| self.fixed(code, width);
                self.binary_search(|code| Ok(at(code)?.cmp(wanted)))
            }
            DictionaryEncoding::Integers => match integer(wanted) {
                Some(wanted) => {
                    let code = self.offsets.lower_bound(wanted)?;
                    let found = code < self.values && self.offsets.get(code)? == wanted;
                    Ok((code, found))
                }
                // A bound between integers, or of another type.
                None => {
                    let mut value = Vec::new();
                    self.binary_search(|code| {
                        value.clear();
                        self.append_value(code, &mut value)?;
                        Ok(value.as_slice().cmp(wanted))
                    })
                }
            },
        }
    }

    /// The integers of two bounds, if all values are integers and the bounds are, too: values can
    /// then be [compared](Self::is_in) without a search.
    #[must_use]
    pub fn integers(&self, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> Option<RangeInclusive<u64>> {
        (self.encoding == DictionaryEncoding::Integers).then_some(())?;
        let low = match bounds.0 {
            Bound::Included(term) => integer(term)?,
            Bound::Excluded(term) => integer(term)?.checked_add(1)?,
            Bound::Unbounded => 0,
        };
        let high = match bounds.1 {
            Bound::Included(term) => integer(term)?,
            Bound::Excluded(term) => integer(term)?.checked_sub(1)?,
            Bound::Unbounded => u64::MAX,
        };
        Some(low..=high)
    }

    /// Whether the integer of a code is among `integers`.
    ///
    /// # Errors
    /// [`IndexDamage`] if there is no such code.
    #[inline]
    pub fn is_in(&self, code: u64, integers: &RangeInclusive<u64>) -> Result<bool, IndexDamage> {
        Ok(integers.contains(&self.offsets.get(code)?))
    }

    fn binary_search(
        &self,
        mut compare: impl FnMut(u64) -> Result<std::cmp::Ordering, IndexDamage>,
    ) -> Result<(u64, bool), IndexDamage> {
        let (mut low, mut high) = (0, self.values);
        while low < high {
            let middle = low + (high - low) / 2;
            match compare(middle)? {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok((middle, true)),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok((low, false))
    }

    fn fixed(&self, code: u64, width: u32) -> Result<&'a [u8], IndexDamage> {
        let width = width as usize;
        let start = usize::try_from(code)
            .ok()
            .and_then(|code| code.checked_mul(width));
        start
            .and_then(|start| self.blob.get(start..start.checked_add(width)?))
            .ok_or(IndexDamage::new("value of a dictionary", self.blob.len()))
    }

    /// The bytes of the blob from a block on, and the first value in it, which they are moved past.
    fn block(&self, block: u64) -> Result<(&'a [u8], &'a [u8]), IndexDamage> {
        let offset = self.offsets.get(block)?;
        let damaged = IndexDamage::new("block of a dictionary", offset as usize);
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|at| self.blob.get(at..));
        let mut bytes = bytes.ok_or(damaged)?;
        let first = varint::take(&mut bytes).and_then(|length| bytes.split_at_checked(length));
        let (first, rest) = first.ok_or(damaged)?;
        Ok((rest, first))
    }

    fn search_blocks(&self, wanted: &[u8]) -> Result<(u64, bool), IndexDamage> {
        // The last block whose first value is not greater.
        let (mut low, mut high) = (0, self.offsets.rows());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.block(middle)?.1.cmp(wanted) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok((middle * BLOCK_VALUES, true)),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        let Some(block) = low.checked_sub(1) else {
            return Ok((0, false));
        };
        let (mut bytes, first) = self.block(block)?;
        let start = block * BLOCK_VALUES;
        // No value is decoded: `same` is how many bytes of `wanted` the last one began with, and it
        // was less.
        let mut same = shared(first, wanted);
        for code in start + 1..self.values.min(start + BLOCK_VALUES) {
            let (kept, rest) = next(&mut bytes)?;
            if kept > same {
                continue;
            }
            // If it differs from the last one at a byte where that one still equals `wanted`, it is
            // greater than `wanted`. Otherwise the comparison continues from there.
            if kept < same {
                return Ok((code, false));
            }
            let left = wanted.get(same..).unwrap_or_default();
            match rest.cmp(left) {
                std::cmp::Ordering::Less => same += shared(rest, left),
                std::cmp::Ordering::Equal => return Ok((code, true)),
                std::cmp::Ordering::Greater => return Ok((code, false)),
            }
        }
        Ok((self.values.min(start + BLOCK_VALUES), false))
    }

    /// Appends the value of a code to `out`.
    ///
    /// # Errors
    /// [`IndexDamage`] if there is no such code, or its block makes no sense.
    pub fn append_value(&self, code: u64, out: &mut Vec<u8>) -> Result<(), IndexDamage> {
        let start = out.len();
        if code >= self.values {
            return Err(IndexDamage::new("code of a dictionary", self.blob.len()));
        }
        match self.encoding {
            DictionaryEncoding::Blocks => {
                let (mut bytes, first) = self.block(code / BLOCK_VALUES)?;
                out.extend_from_slice(first);
                for _ in 0..code % BLOCK_VALUES {
                    let (kept, rest) = next(&mut bytes)?;
                    out.truncate(start.saturating_add(kept));
                    out.extend_from_slice(rest);
                }
            }
            DictionaryEncoding::Fixed(width) => out.extend_from_slice(self.fixed(code, width)?),
            DictionaryEncoding::Integers => {
                let value = OrderedValue::Int(number_key::to_int(self.offsets.get(code)?));
                term::encode_ordered(value, out);
            }
        }
        Ok(())
    }

    /// Shows the values of codes, ascending, until `see` breaks. Each block is read once.
    ///
    /// # Errors
    /// As of [`append_value`](Self::append_value).
    pub fn each_value(
        &self,
        codes: &[u64],
        see: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), IndexDamage> {
        let (mut value, mut rest) = (Vec::new(), [].as_slice());
        // The code of `value`; the values behind it are in `rest`.
        let mut at = None;
        for code in codes {
            let block = code / BLOCK_VALUES;
            if self.encoding != DictionaryEncoding::Blocks || *code >= self.values {
                value.clear();
                self.append_value(*code, &mut value)?;
            } else {
                let is_behind = |at: &u64| at <= code && at / BLOCK_VALUES == block;
                let from = match at.filter(is_behind) {
                    Some(at) => at,
                    None => {
                        let first;
                        (rest, first) = self.block(block)?;
                        value.clear();
                        value.extend_from_slice(first);
                        block * BLOCK_VALUES
                    }
                };
                for _ in from..*code {
                    let (kept, own) = next(&mut rest)?;
                    value.truncate(kept);
                    value.extend_from_slice(own);
                }
                at = Some(*code);
            }
            if see(&value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// The next value of a block: how many bytes it shares with the one before, and the rest. Moves
/// `bytes` past it.
#[inline]
fn next<'a>(bytes: &mut &'a [u8]) -> Result<(usize, &'a [u8]), IndexDamage> {
    let mut take = || {
        let kept = varint::take(bytes)?;
        let length = varint::take(bytes)?;
        let (rest, behind) = bytes.split_at_checked(length)?;
        *bytes = behind;
        Some((kept, rest))
    };
    take().ok_or(IndexDamage::new("value of a dictionary", 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn integers(integers: &BTreeSet<i64>) -> BTreeSet<Vec<u8>> {
        let encode = |integer: &i64| {
            let mut out = Vec::new();
            term::encode_ordered(OrderedValue::Int(*integer), &mut out);
            out
        };
        integers.iter().map(encode).collect()
    }

    /// Values of which many share a prefix, of one length, or of integers.
    fn values() -> impl Strategy<Value = (DictionaryEncoding, BTreeSet<Vec<u8>>)> {
        let prefixes = btree_set(
            vec(
                prop_oneof![Just(7u8), Just(0), Just(255), any::<u8>()],
                0..9,
            ),
            0..200,
        );
        let fixed = btree_set(vec(0u8..4, 5..6), 0..200);
        let numbers = prop_oneof![
            btree_set(any::<i64>(), 0..200),
            btree_set(-50i64..9_000, 0..200)
        ];
        prop_oneof![
            prefixes.prop_map(|values| (DictionaryEncoding::Blocks, values)),
            fixed.prop_map(|values| (DictionaryEncoding::Fixed(5), values)),
            numbers.prop_map(|numbers| (DictionaryEncoding::Integers, integers(&numbers))),
        ]
    }

    fn encoded(encoding: DictionaryEncoding, values: &BTreeSet<Vec<u8>>) -> Vec<u8> {
        let (mut writer, mut bytes) = (DictionaryWriter::new(encoding), Vec::new());
        for value in values {
            writer.push(value, &mut bytes).unwrap();
        }
        if let Some(last) = values.last() {
            assert!(
                writer.push(last, &mut bytes).is_err(),
                "not greater than the last"
            );
        }
        writer.finish(&mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn it_answers_as_a_sorted_list(
            (encoding, values) in values(),
            others in vec(vec(prop_oneof![Just(7u8), any::<u8>()], 0..6), 0..20),
        ) {
            let bytes = encoded(encoding, &values);
            let dictionary = Dictionary::new(&bytes).unwrap();
            prop_assert_eq!(
                (dictionary.len(), dictionary.is_empty()),
                (values.len() as u64, values.is_empty())
            );
            let mut value = vec![7];
            for (code, expected) in (0u64..).zip(&values) {
                value.truncate(1);
                dictionary.append_value(code, &mut value).unwrap();
                prop_assert_eq!(&value[1..], expected.as_slice());
                prop_assert_eq!(dictionary.search(expected), Ok((code, true)));
            }
            prop_assert!(
                dictionary
                    .append_value(values.len() as u64, &mut value)
                    .is_err()
            );
            let all: Vec<&Vec<u8>> = values.iter().collect();
            let some = others.iter().flatten().map(|at| u64::from(*at) % 200);
            let some: BTreeSet<u64> = some.filter(|code| *code < values.len() as u64).collect();
            let codes: Vec<u64> = some.into_iter().collect();
            let mut left = codes.iter();
            let see = &mut |value: &[u8]| {
                assert_eq!(all[*left.next().unwrap() as usize], value);
                ControlFlow::Continue(())
            };
            dictionary.each_value(&codes, see).unwrap();
            prop_assert_eq!(left.len(), 0);
            let prefixes = values.iter().flat_map(|value| {
                [
                    value[..value.len() / 2].to_vec(),
                    [&value[..], &[0]].concat(),
                ]
            });
            for bound in others.into_iter().chain(prefixes) {
                let below = |bound: &[u8]| {
                    values
                        .iter()
                        .filter(|value| value.as_slice() < bound)
                        .count() as u64
                };
                let found = (below(&bound), values.contains(&bound));
                prop_assert_eq!(dictionary.search(&bound), Ok(found));
                let head = dictionary.head();
                let again = Dictionary::with_head(&bytes, &head);
                prop_assert_eq!(again.search(&bound), Ok(found));
            }
        }

        #[test]
        fn integers_are_among_bounds_as_their_terms_are(
            numbers in btree_set(-300i64..300, 1..60),
            bounds in any::<[i8; 2]>(),
            kinds in [0..3, 0..3],
        ) {
            let values = integers(&numbers);
            let bytes = encoded(DictionaryEncoding::Integers, &values);
            let dictionary = Dictionary::new(&bytes).unwrap();
            let terms = bounds.map(|bound| {
                let mut term = Vec::new();
                term::encode_ordered(OrderedValue::Int(bound.into()), &mut term);
                term
            });
            let bound = |at: usize| match kinds[at] {
                0 => Bound::Included(terms[at].as_slice()),
                1 => Bound::Excluded(terms[at].as_slice()),
                _ => Bound::Unbounded,
            };
            let among = dictionary.integers((bound(0), bound(1))).unwrap();
            for (code, value) in (0..).zip(&values) {
                let range = (bound(0), bound(1));
                let expected = std::ops::RangeBounds::<[u8]>::contains(&range, &value[..]);
                prop_assert_eq!(dictionary.is_in(code, &among), Ok(expected));
            }
            prop_assert!(dictionary.is_in(values.len() as u64, &among).is_err());
            let text = Bound::Included(&b"text"[..]);
            prop_assert_eq!(dictionary.integers((text, Bound::Unbounded)), None);
        }

        #[test]
        fn bytes_that_are_no_dictionary_are_refused_or_harmless(
            (encoding, values) in values(),
            damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            wanted: Vec<u8>,
        ) {
            let mut bytes = encoded(encoding, &values);
            for (at, to) in damage {
                let at = at.index(bytes.len());
                bytes[at] = to;
            }
            let Ok(dictionary) = Dictionary::new(&bytes) else {
                return Ok(());
            };
            let mut value = Vec::new();
            for code in 0..values.len() as u64 + 1 {
                value.clear();
                if dictionary.append_value(code, &mut value).is_ok() {
                    prop_assert!(value.len() <= bytes.len());
                }
            }
            for wanted in values.iter().take(20).chain([&wanted]) {
                let _ = dictionary.search(wanted);
            }
            let codes: Vec<u64> = (0..values.len() as u64 + 1).collect();
            let _ = dictionary.each_value(&codes, &mut |value| {
                assert!(value.len() <= bytes.len());
                ControlFlow::Continue(())
            });
        }
    }

    #[test]
    fn values_that_do_not_fit_the_encoding_are_refused() {
        let mut out = Vec::new();
        assert!(
            DictionaryWriter::new(DictionaryEncoding::Fixed(3))
                .push(b"four", &mut out)
                .is_err()
        );
        assert!(
            DictionaryWriter::new(DictionaryEncoding::Integers)
                .push(term::NULL, &mut out)
                .is_err()
        );
    }
}
