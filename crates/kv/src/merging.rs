//! Merging: operands of a batch, tried on the newest values before they are written.

use crate::pairs::{PAIRS, Pairs};
use crate::record::{Change, Changes, VALUE_BYTES_MAX, check_length, timed};
use crate::{Error, Merger, Result, SmallBytes};
use quire_log::RECORD_BYTES_MAX;
use quire_lsm::{DEADLINE_BYTES, Op, RangeTombstones};
use quire_store::Transaction;
use std::collections::HashMap;

/// What a key has: a value and its deadline, if it has one.
type Newest = Option<(SmallBytes, Option<u64>)>;

/// Tries the changes of a record on the newest values. Returns the record to write: an operand over
/// a value that has a deadline is replaced by the merged value, with the deadline. If the deadline
/// has passed, the operand is merged with no value, and the merged value has no deadline.
pub(crate) fn with_merges(
    merger: &dyn Merger,
    record: &[u8],
    transaction: &Transaction<'_, Pairs>,
    now: u64,
) -> Result<Vec<u8>> {
    let mut newest: HashMap<&[u8], Newest> = HashMap::new();
    // Of keys that no change named since.
    let mut deleted = RangeTombstones::default();
    let mut out = Vec::with_capacity(record.len());
    for change in Changes::of(record) {
        let change = change.map_err(Error::Invalid)?;
        let key = change.key;
        let value: Newest = match change.op {
            Op::Put(value) => Some((value.to_vec().into(), None)),
            Op::PutUntil(timed) => timed
                .split_first_chunk::<DEADLINE_BYTES>()
                .map(|(until, value)| (value.to_vec().into(), Some(u64::from_le_bytes(*until)))),
            Op::Delete => None,
            Op::DeleteRange(to) => {
                let mut range = RangeTombstones::default();
                range.add(key, to, 0);
                newest.retain(|key, _| range.mark(key).is_none());
                deleted.add(key, to, 0);
                change.encode(&mut out);
                continue;
            }
            Op::Merge(operand) => {
                let before = match newest.remove(key) {
                    Some(before) => before,
                    None if deleted.mark(key).is_some() => None,
                    None => transaction.get_with_deadline(PAIRS, key)?,
                };
                // The value it is over, and if that has a deadline, the one that the merged value
                // gets.
                let (base, timed_over) = match before {
                    Some((_, Some(until))) if until <= now => (None, Some(None)),
                    Some((value, until)) => (Some(value), until.map(Some)),
                    None => (None, None),
                };
                let merged = try_merge(merger, key, base.as_deref(), operand)?;
                match timed_over {
                    None => change.encode(&mut out),
                    Some(None) => Change::new(key, Op::Put(&merged))?.encode(&mut out),
                    Some(Some(until)) => {
                        let timed = timed(until, &merged);
                        Change::new(key, Op::PutUntil(&timed))?.encode(&mut out);
                    }
                }
                check_length("batch", RECORD_BYTES_MAX, out.len())?;
                newest.insert(key, Some((merged, timed_over.flatten())));
                continue;
            }
        };
        newest.insert(key, value);
        change.encode(&mut out);
    }
    Ok(out)
}

fn try_merge(
    merger: &dyn Merger,
    key: &[u8],
    before: Option<&[u8]>,
    operand: &[u8],
) -> Result<SmallBytes> {
    let mut merged = Vec::new();
    let refused = |reason| Error::Merge {
        merger: merger.name().to_string(),
        key: String::from_utf8_lossy(key).chars().take(100).collect(),
        reason,
    };
    let applied = merger.apply(key, before, operand, &mut merged);
    applied.map_err(|error| refused(error.to_string()))?;
    match merged.len() <= VALUE_BYTES_MAX {
        true => Ok(merged.into()),
        false => Err(refused(format!("{} bytes would come of it", merged.len()))),
    }
}
