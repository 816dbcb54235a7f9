//! Changes of a source taken at random.

use crate::change::{Change, Cursor};
use crate::error::{Error, Result};
use crate::topic::Topic;
use quire_env::Env;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Changes that are read at one place.
const AT_A_PLACE: usize = 16;

/// The most bytes of a read at a place, and of a read of the whole.
const PLACE_BYTES: usize = AT_A_PLACE * crate::change::CHANGE_BYTES_MIN;
const READ_BYTES: usize = 4 << 20;

/// Changes at random places before `end`: about `count`, fewer of a small source, by key.
///
/// # Errors
/// Of the source.
pub(crate) fn at_random(
    env: &dyn Env,
    topic: &mut dyn Topic,
    end: &Cursor,
    count: usize,
) -> Result<BTreeMap<String, Change>> {
    let mut sample = BTreeMap::new();
    let total: u64 = end.positions().iter().sum();
    if total == 0 {
        return Ok(sample);
    }
    for _ in 0..count.div_ceil(AT_A_PLACE) {
        let mut random = [0; 8];
        env.random(&mut random);
        let before = place(end, u64::from_le_bytes(random) % total);
        for change in topic.read(&before, PLACE_BYTES, Duration::ZERO)? {
            sample.insert(change.key.to_string(), change);
        }
    }
    Ok(sample)
}

/// The cursor before the `ordinal`-th position of all partitions, past all others.
fn place(end: &Cursor, ordinal: u64) -> Cursor {
    let (mut left, mut found) = (ordinal, false);
    let positions = end.positions().iter().map(|end| {
        if !found && left < *end {
            found = true;
            return left;
        }
        left = if found { left } else { left - end };
        *end
    });
    Cursor::new(positions.collect())
}

/// The last change of each of `count` documents, by reading the whole source: those whose keys
/// have the least hashes. Sets `cursor` to the end.
///
/// # Errors
/// Of the source.
pub(crate) fn of_the_whole(
    topic: &mut dyn Topic,
    cursor: &mut Cursor,
    count: usize,
    stop: &dyn Fn() -> bool,
) -> Result<BTreeMap<String, Change>> {
    let mut sample: BTreeMap<(u64, String), Change> = BTreeMap::new();
    *cursor = Cursor::default();
    loop {
        if stop() {
            return Err(Error::Stopped);
        }
        let changes = topic.read(cursor, READ_BYTES, Duration::ZERO)?;
        if changes.is_empty() {
            break;
        }
        for change in changes {
            cursor.advance(change.partition, change.position);
            let mut hasher = DefaultHasher::new();
            change.key.hash(&mut hasher);
            sample.insert((hasher.finish(), change.key.to_string()), change);
            if sample.len() > count {
                sample.pop_last();
            }
        }
    }
    Ok(sample
        .into_iter()
        .map(|((_, key), change)| (key, change))
        .collect())
}

/// Reads from `cursor` to the end, and keeps the last change of each document of the sample.
/// Returns the keys of those that were written.
///
/// # Errors
/// Of the source.
pub(crate) fn catch_up(
    topic: &mut dyn Topic,
    cursor: &mut Cursor,
    sample: &mut BTreeMap<String, Change>,
) -> Result<BTreeSet<String>> {
    let mut written = BTreeSet::new();
    loop {
        let changes = topic.read(cursor, READ_BYTES, Duration::ZERO)?;
        if changes.is_empty() {
            return Ok(written);
        }
        for change in changes {
            cursor.advance(change.partition, change.position);
            if let Some(known) = sample.get_mut(&*change.key) {
                written.insert(change.key.to_string());
                *known = change;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_position_of_each_partition_may_be_a_place() {
        let end = Cursor::new(vec![2, 0, 3]);
        let places: Vec<String> = (0..5).map(|n| place(&end, n).to_string()).collect();
        assert_eq!(places, ["0,0,3", "1,0,3", "2,0,0", "2,0,1", "2,0,2"]);
    }
}
