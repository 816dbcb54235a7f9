//! A collection's own log as a topic, in a database that this process has open.

use crate::change::{Change, Cursor};
use crate::collection_place::{check, past_the_end, place, resumed, too_many_partitions};
use crate::error::{Error, Result};
use crate::topic::{Source, Topic};
use quiredb::{Collection, Key, Position};
use serde_json::Value;
use std::time::Duration;

/// A collection of an open database: its current documents, the deletions that are left in its log,
/// then what is written while it is read.
#[derive(Debug)]
pub struct CollectionSource {
    collection: Collection,
    name: String,
    grows: bool,
}

impl CollectionSource {
    /// The collection's log. `name` names it in stored positions; `grows` says whether a run waits
    /// for changes after the end.
    pub fn new(collection: Collection, name: impl Into<String>, grows: bool) -> CollectionSource {
        CollectionSource {
            collection,
            name: name.into(),
            grows,
        }
    }
}

impl Source for CollectionSource {
    fn identity(&self) -> String {
        self.name.clone()
    }

    fn grows(&self) -> bool {
        self.grows
    }

    fn count(&self) -> Result<Option<u64>> {
        self.collection.count().map(Some).map_err(failed)
    }

    fn has(&self, key: &str) -> Result<Option<bool>> {
        let key = Key::parse(key).map_err(|error| Error::Source(error.to_string()))?;
        let found = self.collection.get(&key).map_err(failed)?;
        Ok(Some(found.is_some()))
    }

    fn has_dense_positions(&self) -> bool {
        true
    }

    fn open(&self, place: Option<&Value>) -> Result<Box<dyn Topic>> {
        check(place, &identity(&self.collection))?;
        Ok(Box::new(CollectionTopic {
            partitions: self.collection.positions().len(),
            collection: self.collection.clone(),
            last: None,
        }))
    }
}

struct CollectionTopic {
    collection: Collection,
    /// How many there were when it was opened. All cursors of this reader are of that many.
    partitions: usize,
    last: Option<LastRead>,
}

/// Where a read ended.
struct LastRead {
    /// The cursor after its changes.
    at: Cursor,
    /// How far it saw each partition. There is no change between the cursor and that: since a
    /// split, a partition has places of records that are in another one.
    seen: Vec<Position>,
    /// What comes after it, if it did not come to the end.
    rest: Option<quiredb::Tail>,
}

impl CollectionTopic {
    /// One position of each partition: there is no change between the cursor and these.
    fn seen(&self, cursor: &Cursor) -> Vec<Position> {
        match &self.last {
            Some(last) if last.at == *cursor => last.seen.clone(),
            _ => (0..)
                .take(self.partitions)
                .map(|partition| Position(cursor.position(partition)))
                .collect(),
        }
    }

    fn tail(&mut self, cursor: &Cursor) -> Result<quiredb::Tail> {
        let seen = self.seen(cursor);
        if let Some(last) = self.last.take()
            && last.at == *cursor
            && let Some(rest) = last.rest
        {
            return Ok(rest);
        }
        let tail = self.collection.tail_after(&seen).map_err(failed)?;
        // Its changes have the numbers of the partitions that it was made of.
        match tail.seen().len() == self.partitions {
            true => Ok(tail),
            false => Err(Error::SourceSplit),
        }
    }

    fn read_on(&mut self, cursor: &Cursor, bytes_max: usize) -> Result<Vec<Change>> {
        let mut tail = self.tail(cursor)?;
        let (mut changes, mut bytes, mut is_over) = (Vec::new(), 0, false);
        let mut at = cursor.clone();
        while bytes < bytes_max {
            let Some(change) = tail.next() else {
                is_over = true;
                break;
            };
            let change = of_log(&change.map_err(failed)?);
            bytes += change.bytes();
            at.advance(change.partition, change.position);
            changes.push(change);
        }
        self.last = Some(LastRead {
            at,
            seen: tail.seen(),
            rest: (!is_over).then_some(tail),
        });
        Ok(changes)
    }
}

impl Topic for CollectionTopic {
    fn read(&mut self, cursor: &Cursor, bytes_max: usize, wait: Duration) -> Result<Vec<Change>> {
        if cursor.positions().len() > self.partitions {
            return Err(too_many_partitions());
        }
        let ends = self.collection.positions();
        if ends.len() != self.partitions {
            return Err(Error::SourceSplit);
        }
        if let Some(partition) = (0..)
            .zip(&ends)
            .position(|(partition, end)| cursor.position(partition) > end.0)
        {
            return Err(past_the_end(partition));
        }
        let mut read = self.read_on(cursor, bytes_max);
        if matches!(&read, Ok(changes) if changes.is_empty())
            && !wait.is_zero()
            && self.collection.wait_for_change(&self.seen(cursor), wait)
        {
            read = self.read_on(cursor, bytes_max);
        }
        // A read that failed may be of partitions that a split or a merge has closed.
        match self.collection.positions().len() == self.partitions {
            true => read,
            false => Err(Error::SourceSplit),
        }
    }

    fn resumed(&self, cursor: Cursor, place: Option<&Value>) -> Result<Cursor> {
        let spread = |cursor: &Cursor| {
            let seen: Vec<Position> = cursor.positions().iter().copied().map(Position).collect();
            let spread = self.collection.spread(&seen).ok();
            let spread = spread.filter(|spread| spread.len() == self.partitions);
            Ok(spread.map(|spread| Cursor::new(spread.iter().map(|one| one.0).collect())))
        };
        resumed(cursor, place, self.partitions, &spread)
    }

    fn place(&self) -> Option<Value> {
        Some(place(&identity(&self.collection), self.partitions))
    }

    /// Without the places that were seen to have no change.
    fn end(&self) -> Option<Cursor> {
        let ends = self.collection.positions();
        let empty = |partition: u32| match &self.last {
            None => 0,
            Some(last) => {
                let seen = last.seen.get(partition as usize).map_or(0, |seen| seen.0);
                seen.saturating_sub(last.at.position(partition))
            }
        };
        (ends.len() == self.partitions).then(|| {
            let ends = (0..).zip(&ends);
            let ends = ends.map(|(partition, end)| end.0.saturating_sub(empty(partition)));
            Cursor::new(ends.collect())
        })
    }
}

fn of_log(change: &quiredb::Change) -> Change {
    Change {
        partition: change.partition,
        position: change.version.0,
        time_micros: change.time_micros,
        key: change.key.to_string().into(),
        document: change
            .document
            .as_ref()
            .map(|document| document.to_json().into_boxed_str()),
    }
}

/// What no other collection has.
fn identity(collection: &Collection) -> String {
    let bytes = collection.identity();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn failed(error: quiredb::Error) -> Error {
    Error::Source(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiredb::{CollectionSettings, Database, Document, Env, OsEnv};
    use std::collections::BTreeMap;

    const SHORT: Duration = Duration::from_millis(300);

    fn write(collection: &Collection, keys: std::ops::Range<u64>, value: u64) {
        for key in keys {
            let json = format!("{{\"_id\":{key},\"value\":{value}}}");
            let document = Document::from_json(json.as_bytes()).unwrap();
            collection.put(&document).unwrap();
        }
    }

    /// Reads to the end. Returns the last position of each key.
    fn read_all(topic: &mut dyn Topic, cursor: &mut Cursor) -> BTreeMap<String, u64> {
        let mut last = BTreeMap::new();
        loop {
            let changes = topic.read(cursor, 200, Duration::ZERO).unwrap();
            if changes.is_empty() {
                return last;
            }
            for change in changes {
                cursor.advance(change.partition, change.position);
                last.insert(change.key.to_string(), change.position);
            }
        }
    }

    #[test]
    fn a_reader_of_a_collection_that_is_split_says_so_and_another_one_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open(dir.path()).unwrap();
        let settings = CollectionSettings {
            partitions: 2,
            ..CollectionSettings::default()
        };
        let collection = database.create_collection("tracks", settings).unwrap();
        write(&collection, 0..100, 1);
        let source = CollectionSource::new(collection.clone(), "db/tracks", true);
        let (mut topic, mut cursor) = (source.open(None).unwrap(), Cursor::default());
        // It stops in the middle of a read.
        let first = topic.read(&cursor, 2_000, Duration::ZERO).unwrap();
        assert!(first.len() < 50);
        for change in &first {
            cursor.advance(change.partition, change.position);
        }
        let place = topic.place();
        database.split_collection("tracks", 6, &|_| true).unwrap();
        for _ in 0..2 {
            let end = topic.read(&cursor, 200, Duration::ZERO);
            assert!(matches!(end, Err(Error::SourceSplit)), "{end:?}");
            assert_eq!(topic.end(), None);
        }
        write(&collection, 50..60, 2);

        let mut topic = source.open(place.as_ref()).unwrap();
        let mut cursor = topic.resumed(cursor, place.as_ref()).unwrap();
        assert_eq!(cursor.positions().len(), 6);
        let rest = read_all(&mut *topic, &mut cursor);
        for key in 0..100_u64 {
            let key = Key::from(key);
            let found = collection.get(&key).unwrap().unwrap();
            let is_first = first.iter().any(|change| *change.key == *key.to_string());
            match rest.get(&key.to_string()) {
                Some(position) => assert_eq!(*position, found.version.0, "{key}"),
                None => assert!(is_first, "{key} is left out"),
            }
        }
        assert_eq!(topic.end(), Some(cursor.clone()), "it is level");

        // Partitions end after their last changes; it waits all the same.
        let env = OsEnv::new().unwrap();
        let began = env.monotonic();
        assert_eq!(topic.read(&cursor, 200, SHORT).unwrap(), []);
        assert!(env.monotonic() - began >= SHORT);
        write(&collection, 7..8, 3);
        let changes = topic.read(&cursor, 200, SHORT).unwrap();
        assert_eq!(changes.len(), 1);
        assert_eq!(&*changes[0].key, "7");
        cursor.advance(changes[0].partition, changes[0].position);
        assert_eq!(topic.end(), Some(cursor.clone()));

        // The place says that the cursor is one of now.
        let place = topic.place();
        let again = source.open(place.as_ref()).unwrap();
        assert_eq!(
            again.resumed(cursor.clone(), place.as_ref()).unwrap(),
            cursor
        );
    }
}
