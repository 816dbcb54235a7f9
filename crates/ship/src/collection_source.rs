//! A collection's own log as a topic, in a database that this process has open.

use crate::change::{Change, Cursor};
use crate::error::{Error, Result};
use crate::topic::{Source, Topic};
use quiredb::{Collection, Key, Position};
use serde_json::{Value, json};
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
            collection: self.collection.clone(),
            reading: None,
        }))
    }
}

struct CollectionTopic {
    collection: Collection,
    /// A read that did not come to its end, and the cursor where it is.
    reading: Option<(quiredb::Tail, Cursor)>,
}

impl CollectionTopic {
    fn tail(&mut self, cursor: &Cursor) -> Result<quiredb::Tail> {
        if let Some((tail, at)) = self.reading.take()
            && at == *cursor
        {
            return Ok(tail);
        }
        self.collection
            .tail_after(&self.seen(cursor))
            .map_err(failed)
    }

    /// The cursor as one position of each partition.
    fn seen(&self, cursor: &Cursor) -> Vec<Position> {
        let partitions = self.collection.settings().partitions;
        (0..partitions)
            .map(|partition| Position(cursor.position(partition)))
            .collect()
    }
}

impl Topic for CollectionTopic {
    fn read(&mut self, cursor: &Cursor, bytes_max: usize, wait: Duration) -> Result<Vec<Change>> {
        if cursor.positions().len() > self.collection.settings().partitions as usize {
            return Err(Error::Source(
                "the stored position has more partitions than the collection".to_owned(),
            ));
        }
        let ends = self.collection.positions();
        if let Some(place) = (0..)
            .zip(&ends)
            .position(|(partition, end)| cursor.position(partition) > end.0)
        {
            return Err(past_the_end(place));
        }
        let mut tail = self.tail(cursor)?;
        let (mut changes, mut bytes) = (Vec::new(), 0);
        let mut at = cursor.clone();
        while bytes < bytes_max {
            let Some(change) = tail.next() else {
                if changes.is_empty() && !wait.is_zero() {
                    let seen = self.seen(cursor);
                    if self.collection.wait_for_change(&seen, wait) {
                        return self.read(cursor, bytes_max, Duration::ZERO);
                    }
                }
                return Ok(changes);
            };
            let change = of_log(&change.map_err(failed)?);
            bytes += change.bytes();
            at.advance(change.partition, change.position);
            changes.push(change);
        }
        self.reading = Some((tail, at));
        Ok(changes)
    }

    fn place(&self) -> Option<Value> {
        Some(place(&identity(&self.collection)))
    }

    fn end(&self) -> Option<Cursor> {
        let positions = self.collection.positions();
        Some(Cursor::new(
            positions.into_iter().map(|position| position.0).collect(),
        ))
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

/// The place of readers of a collection: a cursor says nothing of another one.
pub(crate) fn place(identity: &str) -> Value {
    json!({ "collection": identity })
}

/// Refuses a place of another collection.
///
/// # Errors
/// If it is of another one.
pub(crate) fn check(place: Option<&Value>, identity: &str) -> Result<()> {
    match place.and_then(|place| place["collection"].as_str()) {
        Some(stored) if stored != identity => Err(Error::Source(
            "the stored position is of another collection: it was made anew, or its alias stands \
             for another one now. Remove the sinks' documents and the stored positions, to begin \
             anew"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

/// The error of a cursor that the collection can't have given.
pub(crate) fn past_the_end(partition: usize) -> Error {
    Error::Source(format!(
        "the stored position is past the end of partition {partition}: the collection was made \
         anew or restored from an older backup. Remove the sinks' documents and the stored \
         positions, to begin anew"
    ))
}

fn failed(error: quiredb::Error) -> Error {
    Error::Source(error.to_string())
}
