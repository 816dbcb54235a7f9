//! The seams to where changes come from: [`Source`] and [`Topic`].

use crate::change::{Change, Cursor};
use crate::error::Result;
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// What can be read from the beginning by several readers, each with a cursor of its own.
pub trait Source: Send + Sync + fmt::Debug {
    /// What it reads, in a line that is stored with every cursor. A cursor of another source is
    /// refused.
    fn identity(&self) -> String;

    /// Whether changes may come after its end. If not, a run ends there.
    fn grows(&self) -> bool;

    /// How many documents it has at the moment; none if that is unknown.
    ///
    /// # Errors
    /// If it can't be read; [`SourceAway`](crate::Error::SourceAway) if another attempt may help.
    fn count(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Whether it has a document of this key at the moment; none if that is unknown.
    ///
    /// # Errors
    /// As [`count`](Source::count).
    fn has(&self, _key: &str) -> Result<Option<bool>> {
        Ok(None)
    }

    /// Lines that say what its documents are made of, and what is slow or doubtful about it.
    ///
    /// # Errors
    /// As [`count`](Source::count).
    fn describe(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Whether a cursor may be at any position up to the end, not only where a change ends.
    fn has_dense_positions(&self) -> bool;

    /// No reader will go on from this place: gives up what the source holds for it, but not what
    /// it holds for the place `used`. Does nothing if that was given up before.
    ///
    /// # Errors
    /// As [`count`](Source::count).
    fn release(&self, _place: &Value, _used: Option<&Value>) -> Result<()> {
        Ok(())
    }

    /// The collection that it reads, by its own name, if it is one of the server at `url`.
    ///
    /// # Errors
    /// As [`count`](Source::count).
    fn collection_at(&self, _url: &str) -> Result<Option<String>> {
        Ok(None)
    }

    /// The same source, which reads the collection of this name of its server, whatever an alias
    /// stands for by then.
    fn of_collection(&self, _name: &str) -> Option<Box<dyn Source>> {
        None
    }

    /// Has the source hold for a second reader what it holds for the one at this place, so that
    /// both go on from there. Returns the place of the second, the same each time until it is
    /// released; none if the source no longer has what comes after `place`.
    ///
    /// # Errors
    /// As [`count`](Source::count).
    fn fork(&self, place: &Value) -> Result<Option<Value>> {
        Ok(Some(place.clone()))
    }

    /// A new reader, at the beginning, or where another one was when it gave this
    /// [`place`](Topic::place).
    ///
    /// # Errors
    /// If there is nothing to read; [`SourceAway`](crate::Error::SourceAway) if another attempt may
    /// help.
    fn open(&self, place: Option<&Value>) -> Result<Box<dyn Topic>>;
}

/// A reader of keyed changes, in order within a partition, compacted or not: of changes of one key
/// only the last one must be there, and deletions always.
pub trait Topic: Send {
    /// The changes after `cursor`: about `bytes_max` bytes at most, but one change at least. If
    /// there is none, waits for one until `wait` is over. No change means that the cursor was at
    /// the end.
    ///
    /// # Errors
    /// [`SourceAway`](crate::Error::SourceAway) if another attempt may help;
    /// [`SourceSplit`](crate::Error::SourceSplit) if the partitions have other numbers than when
    /// the reader was opened; another error if no attempt would help, such as damage, or a cursor
    /// that the topic never gave.
    fn read(&mut self, cursor: &Cursor, bytes_max: usize, wait: Duration) -> Result<Vec<Change>>;

    /// A cursor that an earlier reader gave, and that is stored with the place of that time, as a
    /// cursor of this reader: the partitions of a source that was split have other numbers.
    ///
    /// # Errors
    /// If the source can't have given it.
    fn resumed(&self, cursor: Cursor, _place: Option<&Value>) -> Result<Cursor> {
        Ok(cursor)
    }

    /// What a later reader needs, beside the cursor, to go on after what was read so far; none if
    /// the cursor says it all. Then a reader gets the place that was stored, and the cursor, which
    /// is never before it: what lies between them was settled.
    /// The place before the first read is stored before anything is sent.
    fn place(&self) -> Option<Value> {
        None
    }

    /// This place is stored: no later reader needs what is before it. A place that is never
    /// reported so is of a reader that nobody takes up again.
    fn stored(&mut self, _place: &Value) {}

    /// Where the topic ends at the moment; none if that is unknown.
    fn end(&self) -> Option<Cursor> {
        None
    }
}
