//! Record: one write, of one change or of many that go together.
//!
//! # Layout
//! ```text
//! record: | change … |                                  at least one
//! change: | key length × 4 + kind v | value length v | key | value |
//! ```
//! `v` is a variable-length integer: seven bits a byte, lowest first, the top bit set on all but
//! the last.
//!
//! Kinds: 0 put, 1 delete (its value is empty), 2 merge (its value is the operand), 3 what the
//! first byte of the value says:
//! - 1: put the rest of it: a deadline, in microseconds since 1970 UTC (8 bytes, little-endian),
//!   and the value that the key has until then.
//! - 0: delete the keys from this one up to the one that is the rest of the value; if that is
//!   empty, all from this one on.
//!
//! Changes of one key take effect in their order.

use crate::{Error, KEY_BYTES_MAX, Result};
use quire_lsm::{DEADLINE_BYTES, Op};
use smallvec::SmallVec;
use std::time::Duration;

/// The longest value or operand, in bytes.
pub const VALUE_BYTES_MAX: usize = 32 << 20;

/// A record that is no longer than this needs no allocation.
const SHORT_BYTES: usize = 256;

/// A deadline, or for how long from when it is written on, and the value that the key has until
/// then.
pub(crate) fn timed(micros: u64, value: &[u8]) -> Record {
    let mut timed = Record::new();
    timed.extend_from_slice(&micros.to_le_bytes());
    timed.extend_from_slice(value);
    timed
}

/// Microseconds, as far as they can be told.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The first byte of the value of a change of kind 3.
const RANGE: u8 = 0;
const UNTIL: u8 = 1;

/// A record being made.
pub(crate) type Record = SmallVec<[u8; SHORT_BYTES]>;

/// One change of one key, or of a range of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) op: Op<'a>,
}

impl<'a> Change<'a> {
    /// A change, if key and value are such as can be stored.
    ///
    /// # Errors
    /// `Invalid` for an empty key, `TooLarge`.
    pub(crate) fn new(key: &'a [u8], op: Op<'a>) -> Result<Change<'a>> {
        let change = Change { key, op };
        if key.is_empty() {
            return Err(Error::Invalid("an empty key".into()));
        }
        check_length("key", KEY_BYTES_MAX, key.len())?;
        match op {
            Op::DeleteRange(to) => check_length("key", KEY_BYTES_MAX, to.len())?,
            Op::PutUntil(timed) => {
                let limit = VALUE_BYTES_MAX + DEADLINE_BYTES;
                check_length("value", limit, timed.len())?;
            }
            _ => check_length("value", VALUE_BYTES_MAX, change.value().len())?,
        }
        Ok(change)
    }

    fn kind(&self) -> u64 {
        match self.op {
            Op::Put(_) => 0,
            Op::Delete => 1,
            Op::Merge(_) => 2,
            Op::DeleteRange(_) | Op::PutUntil(_) => 3,
        }
    }

    /// What its value begins with in a record.
    fn lead(&self) -> &'static [u8] {
        match self.op {
            Op::DeleteRange(_) => &[RANGE],
            Op::PutUntil(_) => &[UNTIL],
            _ => &[],
        }
    }

    fn value(&self) -> &'a [u8] {
        match self.op {
            Op::Put(value) | Op::Merge(value) => value,
            Op::DeleteRange(value) | Op::PutUntil(value) => value,
            Op::Delete => &[],
        }
    }

    /// The bytes that it takes in a record, at most.
    pub(crate) fn encoded_bytes_max(&self) -> usize {
        self.key.len() + self.lead().len() + self.value().len() + 2 * LENGTH_BYTES_MAX
    }

    /// Appends it to a record.
    pub(crate) fn encode(&self, out: &mut impl Extend<u8>) {
        put_length(out, (self.key.len() as u64) << 2 | self.kind());
        put_length(out, (self.lead().len() + self.value().len()) as u64);
        out.extend(self.key.iter().copied());
        out.extend(self.lead().iter().copied());
        out.extend(self.value().iter().copied());
    }
}

pub(crate) fn check_length(what: &'static str, limit: usize, found: usize) -> Result<()> {
    match found <= limit {
        true => Ok(()),
        false => Err(Error::TooLarge { what, limit, found }),
    }
}

/// The changes of a record, one after the other; it ends after what makes no sense.
#[derive(Debug, Clone)]
pub(crate) struct Changes<'a> {
    rest: &'a [u8],
}

impl<'a> Changes<'a> {
    pub(crate) fn of(record: &'a [u8]) -> Changes<'a> {
        Changes { rest: record }
    }

    /// Checks a whole record.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn check(record: &[u8]) -> std::result::Result<(), String> {
        if record.is_empty() {
            return Err("a record without a change".into());
        }
        Changes::of(record).try_for_each(|change| change.map(|_| ()))
    }

    fn decode(&mut self) -> std::result::Result<Change<'a>, String> {
        let tag = self.length()?;
        let value_bytes = self.length()?;
        let key = self.bytes(tag >> 2)?;
        let value = self.bytes(value_bytes)?;
        let op = match tag & 3 {
            0 => Op::Put(value),
            1 if value.is_empty() => Op::Delete,
            2 => Op::Merge(value),
            3 => match value.split_first() {
                Some((&RANGE, to)) => Op::DeleteRange(to),
                Some((&UNTIL, timed)) if timed.len() >= DEADLINE_BYTES => Op::PutUntil(timed),
                _ => {
                    return Err(format!(
                        "a change of no known kind with {value_bytes} bytes"
                    ));
                }
            },
            kind => return Err(format!("a change of kind {kind} with {value_bytes} bytes")),
        };
        Change::new(key, op).map_err(|error| error.to_string())
    }

    fn length(&mut self) -> std::result::Result<u64, String> {
        let mut value = 0;
        for at in 0..LENGTH_BYTES_MAX {
            let (&byte, rest) = self
                .rest
                .split_first()
                .ok_or("a record that ends in a change")?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a length of too many bytes".into())
    }

    fn bytes(&mut self, length: u64) -> std::result::Result<&'a [u8], String> {
        let split = usize::try_from(length)
            .ok()
            .and_then(|length| self.rest.split_at_checked(length));
        let (bytes, rest) = split.ok_or("a record that ends in a change")?;
        self.rest = rest;
        Ok(bytes)
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = std::result::Result<Change<'a>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let change = self.decode();
        if change.is_err() {
            self.rest = &[];
        }
        Some(change)
    }
}

/// No length that is allowed takes more.
const LENGTH_BYTES_MAX: usize = 5;
const _: () = assert!((KEY_BYTES_MAX as u64) << 2 < 1 << 34 && (VALUE_BYTES_MAX as u64) < 1 << 34);

fn put_length(out: &mut impl Extend<u8>, mut length: u64) {
    while length >= 0x80 {
        out.extend([length as u8 | 0x80]);
        length >>= 7;
    }
    out.extend([length as u8]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn any_change() -> impl Strategy<Value = (Vec<u8>, u8, Vec<u8>)> {
        (vec(any::<u8>(), 1..200), 0u8..5, vec(any::<u8>(), 8..200))
    }

    fn op(kind: u8, value: &[u8]) -> Op<'_> {
        match kind {
            0 => Op::Put(value),
            1 => Op::Delete,
            2 => Op::Merge(value),
            3 => Op::PutUntil(value),
            _ => Op::DeleteRange(value),
        }
    }

    #[test]
    fn a_put_of_short_bytes_takes_two_bytes_more() {
        let mut record = Record::new();
        Change::new(b"01234567", Op::Put(b"v"))
            .unwrap()
            .encode(&mut record);
        assert_eq!(record.as_slice(), b"\x20\x0101234567v");
    }

    proptest! {
        #[test]
        fn changes_come_back_and_a_cut_or_any_bytes_never_panic(
            all in vec(any_change(), 1..5), cut: usize, noise in vec(any::<u8>(), 0..60),
        ) {
            let mut record = Record::new();
            let changes: Vec<_> = all
                .iter()
                .map(|(key, kind, value)| Change::new(key, op(*kind, value)).unwrap())
                .collect();
            let mut ends = vec![0];
            for change in &changes {
                change.encode(&mut record);
                ends.push(record.len());
            }
            prop_assert_eq!(Changes::check(&record), Ok(()));
            let back: std::result::Result<Vec<_>, _> = Changes::of(&record).collect();
            prop_assert_eq!(back.unwrap(), changes);
            let cut = cut % record.len();
            prop_assert_eq!(Changes::check(&record[..cut]).is_ok(), cut > 0 && ends.contains(&cut));
            let _ = Changes::check(&noise);
        }
    }
}
