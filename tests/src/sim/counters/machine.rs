//! The state machine of the store, and its plain model.

use bytes::Bytes;
use quire_lsm::{BytesMerger, FoldBytes, MergeError, TreeSpec};
use quire_model::Position;
use quire_store::{ApplyError, Machine, TreeId, TreeWriter};
use std::collections::BTreeMap;
use std::ops::Range;

/// The tree of values.
pub(super) const VALUES: TreeId = TreeId(1);
/// The tree of the position that last changed a counter.
pub(super) const LAST: TreeId = TreeId(2);

/// A change of a range of counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    /// Each counter becomes `times` itself plus `plus`. A missing one counts as 0.
    Change {
        keys: Range<u16>,
        times: u64,
        plus: u64,
    },
    Set {
        keys: Range<u16>,
        value: u64,
    },
    Forget {
        keys: Range<u16>,
    },
}

impl Record {
    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, keys, one, other) = match self {
            Record::Change { keys, times, plus } => (0, keys, *times, *plus),
            Record::Set { keys, value } => (1, keys, *value, 0),
            Record::Forget { keys } => (2, keys, 0, 0),
        };
        let mut out = vec![kind];
        out.extend_from_slice(&keys.start.to_le_bytes());
        out.extend_from_slice(&keys.end.to_le_bytes());
        out.extend_from_slice(&one.to_le_bytes());
        out.extend_from_slice(&other.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Record> {
        let (kind, rest) = bytes.split_first()?;
        let (first, rest) = rest.split_first_chunk()?;
        let (end, rest) = rest.split_first_chunk()?;
        let keys = u16::from_le_bytes(*first)..u16::from_le_bytes(*end);
        let (one, other) = pair(rest)?;
        match kind {
            0 => Some(Record::Change {
                keys,
                times: one,
                plus: other,
            }),
            1 => Some(Record::Set { keys, value: one }),
            2 => Some(Record::Forget { keys }),
            _ => None,
        }
    }
}

fn pair(bytes: &[u8]) -> Option<(u64, u64)> {
    let (one, other) = bytes.split_first_chunk()?;
    let other = other.try_into().ok()?;
    Some((u64::from_le_bytes(*one), u64::from_le_bytes(other)))
}

fn pair_bytes(one: u64, other: u64) -> [u8; 16] {
    (u128::from(other) << 64 | u128::from(one)).to_le_bytes()
}

pub(super) fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Keys of several lengths, in the order of the counters.
pub(super) fn key(counter: u16) -> Vec<u8> {
    let tail = "x".repeat(usize::from(counter % 5) * 20);
    format!("counter-{counter:05}{tail}").into_bytes()
}

/// An operand is a function `x → times · x + plus`. The composition of two is such a function
/// again, and depends on the order.
#[derive(Debug)]
struct Functions;

impl BytesMerger for Functions {
    fn name(&self) -> &str {
        "functions"
    }

    fn apply(
        &self,
        _: &[u8],
        base: Option<&[u8]>,
        operand: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), MergeError> {
        let wrong = || MergeError("not a counter and a function".into());
        let base = base.map_or(Some(0), number).ok_or_else(wrong)?;
        let (times, plus) = pair(operand).ok_or_else(wrong)?;
        out.extend_from_slice(&apply(base, times, plus).to_le_bytes());
        Ok(())
    }

    fn combine(
        &self,
        _: &[u8],
        older: &[u8],
        newer: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), MergeError> {
        let wrong = || MergeError("not two functions".into());
        let (first_times, first_plus) = pair(older).ok_or_else(wrong)?;
        let (times, plus) = pair(newer).ok_or_else(wrong)?;
        let combined = (
            first_times.wrapping_mul(times),
            apply(first_plus, times, plus),
        );
        out.extend_from_slice(&pair_bytes(combined.0, combined.1));
        Ok(())
    }
}

fn apply(value: u64, times: u64, plus: u64) -> u64 {
    value.wrapping_mul(times).wrapping_add(plus)
}

/// Counts the records applied.
#[derive(Debug)]
pub(super) struct Counters {
    applied: u64,
}

impl Machine for Counters {
    type Summary = u64;

    fn trees() -> Vec<TreeSpec> {
        vec![
            // Many tables of many blocks.
            TreeSpec {
                merger: Some(FoldBytes::shared(Functions)),
                block_bytes: 256,
                table_bytes_max: 2 << 10,
                ..TreeSpec::new(VALUES.0, "values")
            },
            // Filters of many pages.
            TreeSpec {
                block_bytes: 1 << 10,
                filter_bits_per_key: 64,
                ..TreeSpec::new(LAST.0, "last")
            },
        ]
    }

    fn new() -> Counters {
        Counters { applied: 0 }
    }

    fn decode(state: &[u8]) -> Result<Counters, String> {
        let applied = number(state).ok_or("not a count")?;
        Ok(Counters { applied })
    }

    fn encode(&self) -> Vec<u8> {
        self.applied.to_le_bytes().to_vec()
    }

    fn summary(&self) -> u64 {
        self.applied
    }

    fn check(&self, _: Position, _: &[Bytes]) -> Result<(), (Position, String)> {
        // No follower uses such a store.
        Ok(())
    }

    fn apply(&mut self, record: &[u8], trees: &TreeWriter<'_>) -> Result<(), ApplyError> {
        let record = Record::decode(record);
        let record = record.ok_or_else(|| ApplyError::Record("not of a counter".into()))?;
        self.applied += 1;
        let last = trees.position().0.to_le_bytes();
        match record {
            Record::Change { keys, times, plus } => keys.map(key).try_for_each(|key| {
                trees.merge(VALUES, &key, &pair_bytes(times, plus))?;
                trees.put(LAST, &key, &last)
            }),
            Record::Set { keys, value } => keys.map(key).try_for_each(|key| {
                trees.put(VALUES, &key, &value.to_le_bytes())?;
                trees.put(LAST, &key, &last)
            }),
            Record::Forget { keys } => {
                trees.delete_range(LAST, &key(keys.start), &key(keys.end))?;
                let mut keys = keys.map(key);
                keys.try_for_each(|key| trees.delete(VALUES, &key))
            }
        }
    }
}

/// Counter → its value and the position that last changed it.
pub(super) type State = BTreeMap<u16, (u64, u64)>;

/// The counters after these records.
pub(super) fn state_of(records: &[Record]) -> State {
    let mut state = State::new();
    for (record, position) in records.iter().zip(1..) {
        match record {
            Record::Change { keys, times, plus } => {
                for key in keys.clone() {
                    let entry = state.entry(key).or_default();
                    *entry = (apply(entry.0, *times, *plus), position);
                }
            }
            Record::Set { keys, value } => {
                state.extend(keys.clone().map(|key| (key, (*value, position))));
            }
            Record::Forget { keys } => state.retain(|key, _| !keys.contains(key)),
        }
    }
    state
}
