//! Changes of a source taken at random.

use crate::change::{Change, Cursor};
use crate::error::{Error, Result};
use crate::topic::{Source, Topic};
use quire_env::Env;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Changes that are read at one place.
const AT_A_PLACE: usize = 16;

/// The most bytes of a read at a place, and of a read of the whole.
const PLACE_BYTES: usize = AT_A_PLACE * crate::change::CHANGE_BYTES_MIN;
const READ_BYTES: usize = 4 << 20;

/// A reader of a source, which is opened anew when that is split.
pub(crate) struct Reader<'s> {
    source: &'s dyn Source,
    topic: Box<dyn Topic>,
    /// How far it has read; of a sample at random the end, which stays.
    cursor: Cursor,
}

impl Reader<'_> {
    /// A reader of its own. The cursor may be another reader's, with the place that is stored
    /// beside it.
    ///
    /// # Errors
    /// Of the source.
    pub(crate) fn open<'s>(
        source: &'s dyn Source,
        cursor: Cursor,
        place: Option<&Value>,
    ) -> Result<Reader<'s>> {
        let topic = source.open(None)?;
        let cursor = topic.resumed(cursor, place)?;
        Ok(Reader {
            source,
            topic,
            cursor,
        })
    }

    /// The changes after the cursor that `from` makes of the reader's.
    fn read(&mut self, from: &dyn Fn(&Cursor) -> Cursor, bytes_max: usize) -> Result<Vec<Change>> {
        loop {
            let from = from(&self.cursor);
            match self.topic.read(&from, bytes_max, Duration::ZERO) {
                Err(Error::SourceSplit) => {
                    let place = self.topic.place();
                    let topic = self.source.open(place.as_ref())?;
                    self.cursor = topic.resumed(self.cursor.clone(), place.as_ref())?;
                    self.topic = topic;
                }
                done => return done,
            }
        }
    }

    /// The changes after what was read before. None at the end.
    fn read_on(&mut self) -> Result<Vec<Change>> {
        let changes = self.read(&Cursor::clone, READ_BYTES)?;
        for change in &changes {
            self.cursor.advance(change.partition, change.position);
        }
        Ok(changes)
    }

    /// Changes at random places before the cursor: about `count`, fewer of a small source, by key.
    ///
    /// # Errors
    /// Of the source.
    pub(crate) fn at_random(
        &mut self,
        env: &dyn Env,
        count: usize,
    ) -> Result<BTreeMap<String, Change>> {
        let mut sample = BTreeMap::new();
        if self.cursor.positions().iter().all(|end| *end == 0) {
            return Ok(sample);
        }
        for _ in 0..count.div_ceil(AT_A_PLACE) {
            let mut random = [0; 8];
            env.random(&mut random);
            let random = u64::from_le_bytes(random);
            let before = |end: &Cursor| {
                let total: u64 = end.positions().iter().sum();
                place(end, random % total.max(1))
            };
            for change in self.read(&before, PLACE_BYTES)? {
                sample.insert(change.key.to_string(), change);
            }
        }
        Ok(sample)
    }

    /// The last change of each of `count` documents, by reading the whole source: those whose keys
    /// have the least hashes. Moves to the end.
    ///
    /// # Errors
    /// Of the source.
    pub(crate) fn of_the_whole(
        &mut self,
        count: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<BTreeMap<String, Change>> {
        let mut sample: BTreeMap<(u64, String), Change> = BTreeMap::new();
        self.cursor = Cursor::default();
        loop {
            if stop() {
                return Err(Error::Stopped);
            }
            let changes = self.read_on()?;
            if changes.is_empty() {
                break;
            }
            for change in changes {
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

    /// Reads on to the end, and keeps the last change of each document of the sample. Adds the keys
    /// of those that were written.
    ///
    /// # Errors
    /// Of the source. Another call goes on.
    pub(crate) fn catch_up(
        &mut self,
        sample: &mut BTreeMap<String, Change>,
        written: &mut BTreeSet<String>,
    ) -> Result<()> {
        loop {
            let changes = self.read_on()?;
            if changes.is_empty() {
                return Ok(());
            }
            for change in changes {
                if let Some(known) = sample.get_mut(&*change.key) {
                    written.insert(change.key.to_string());
                    *known = change;
                }
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection_place;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn each_position_of_each_partition_may_be_a_place() {
        let end = Cursor::new(vec![2, 0, 3]);
        let places: Vec<String> = (0..5).map(|n| place(&end, n).to_string()).collect();
        assert_eq!(places, ["0,0,3", "1,0,3", "2,0,0", "2,0,1", "2,0,2"]);
    }

    /// A log of two partitions, which is split into four after some reads.
    #[derive(Debug, Default)]
    struct Splits {
        reads: Arc<AtomicU64>,
    }

    const SPLIT_AFTER: u64 = 3;

    impl Splits {
        fn partitions(&self) -> u32 {
            match self.reads.load(Ordering::Relaxed) {
                0..SPLIT_AFTER => 2,
                _ => 4,
            }
        }
    }

    impl Source for Splits {
        fn identity(&self) -> String {
            "splits".to_owned()
        }

        fn grows(&self) -> bool {
            true
        }

        fn has_dense_positions(&self) -> bool {
            true
        }

        fn open(&self, _place: Option<&Value>) -> Result<Box<dyn Topic>> {
            Ok(Box::new(SplitsTopic {
                reads: Arc::clone(&self.reads),
                partitions: self.partitions(),
            }))
        }
    }

    struct SplitsTopic {
        reads: Arc<AtomicU64>,
        partitions: u32,
    }

    impl Topic for SplitsTopic {
        fn read(&mut self, cursor: &Cursor, _: usize, _: Duration) -> Result<Vec<Change>> {
            let reads = self.reads.fetch_add(1, Ordering::Relaxed);
            if self.partitions == 2 && reads >= SPLIT_AFTER {
                return Err(Error::SourceSplit);
            }
            // Position 10 n + q is that of key n, which is in partition q of four.
            let change = |position: u64| {
                let (number, quarter) = (position / 10, (position % 10) as u32);
                let partition = quarter * self.partitions / 4;
                (cursor.position(partition) < position).then(|| Change {
                    partition,
                    position,
                    time_micros: 0,
                    key: format!("{number}-{quarter}").into(),
                    document: Some("{}".into()),
                })
            };
            let all = (1..=8).flat_map(|number| (0..4).map(move |quarter| 10 * number + quarter));
            Ok(all.filter_map(change).take(3).collect())
        }

        fn resumed(&self, cursor: Cursor, place: Option<&Value>) -> Result<Cursor> {
            collection_place::resumed(cursor, place, self.partitions as usize, &|_| Ok(None))
        }

        fn place(&self) -> Option<Value> {
            Some(collection_place::place("c", self.partitions as usize))
        }
    }

    #[test]
    fn a_sample_of_the_whole_has_all_though_the_source_is_split_meanwhile() {
        let source = Splits::default();
        let mut reader = Reader::open(&source, Cursor::default(), None).unwrap();
        let mut sample = reader.of_the_whole(1_000, &|| false).unwrap();
        assert_eq!(sample.len(), 32);
        assert_eq!(reader.cursor.to_string(), "80,81,82,83");
        // What is written then is read once.
        let mut written = BTreeSet::new();
        reader.cursor = Cursor::new(vec![80, 71, 82, 83]);
        reader.catch_up(&mut sample, &mut written).unwrap();
        assert_eq!(written, BTreeSet::from(["8-1".to_owned()]));
    }

    #[test]
    fn places_at_random_are_of_the_partitions_of_now() {
        let env = quire_env::SimEnv::new(7);
        for reads_before in [0, SPLIT_AFTER] {
            let source = Splits::default();
            source.reads.store(reads_before, Ordering::Relaxed);
            let stored = collection_place::place("c", 2);
            let end = Cursor::new(vec![81, 83]);
            let mut reader = Reader::open(&source, end, Some(&stored)).unwrap();
            let sample = reader.at_random(&*env, 20 * AT_A_PLACE).unwrap();
            assert!(sample.len() > 8, "{sample:?}");
            assert_eq!(reader.cursor.to_string(), "81,81,83,83");
        }
    }
}
