//! The changes of a collection, plain or wide, from its partitions' logs.

use crate::{Error, Result};
use quire_collection::{Change, Partition};
use quire_model::{Key, Position, ValueRef};
use quire_wide::{RowChange, Schema, WidePartition};
use std::fmt;
use std::sync::Arc;

type Changes<C> = Box<dyn Iterator<Item = Result<C>> + Send>;

/// A change of a document or of a row, as a [`Tail`] gives it.
pub trait Logged {
    /// Its position in the log of its partition.
    fn position(&self) -> Position;

    /// The partition.
    fn partition(&self) -> u32;

    /// When it was written: microseconds since 1970 UTC, by the writer's clock.
    fn time_micros(&self) -> i64;

    /// The key of the document or row.
    fn key(&self) -> &Key;

    /// Bytes that it holds, about.
    fn held_bytes(&self) -> u64;

    /// Appends it as a JSON object. The key is in the field `key_field` of documents that are made
    /// of rows.
    fn write_json(&self, key_field: &str, out: &mut Vec<u8>);
}

impl Logged for Change {
    fn position(&self) -> Position {
        self.version
    }

    fn partition(&self) -> u32 {
        self.partition
    }

    fn time_micros(&self) -> i64 {
        self.time_micros
    }

    fn key(&self) -> &Key {
        &self.key
    }

    fn held_bytes(&self) -> u64 {
        let document = self.document.as_ref();
        document.map_or(0, |document| document.as_bytes().len() as u64)
    }

    fn write_json(&self, _key_field: &str, out: &mut Vec<u8>) {
        let head = format!(
            "{{\"partition\":{},\"position\":{},\"time_micros\":{},",
            self.partition, self.version, self.time_micros
        );
        out.extend_from_slice(head.as_bytes());
        if let Some(external) = self.external {
            out.extend_from_slice(format!("\"version\":{external},").as_bytes());
        }
        if let Some(expires) = self.expires_micros {
            out.extend_from_slice(format!("\"expires_micros\":{expires},").as_bytes());
        }
        out.extend_from_slice(b"\"key\":");
        match self.key.as_str() {
            Some(text) => ValueRef::String(text).write_json(out),
            None => out.extend_from_slice(self.key.to_string().as_bytes()),
        }
        match &self.document {
            Some(document) => {
                out.extend_from_slice(b",\"document\":");
                ValueRef::Object(document.root()).write_json(out);
            }
            None => out.extend_from_slice(b",\"deleted\":true"),
        }
        out.push(b'}');
    }
}

impl Logged for RowChange {
    fn position(&self) -> Position {
        self.version
    }

    fn partition(&self) -> u32 {
        self.partition
    }

    fn time_micros(&self) -> i64 {
        self.time_micros
    }

    fn key(&self) -> &Key {
        &self.key
    }

    fn held_bytes(&self) -> u64 {
        // Bytes of cells are base64 in JSON.
        self.bytes.saturating_mul(4).div_ceil(3)
    }

    fn write_json(&self, key_field: &str, out: &mut Vec<u8>) {
        RowChange::write_json(self, key_field, out);
    }
}

/// Changes, each partition's in order, partitions interleaved by time. Ends where the logs ended
/// when it was made, or after the first error.
pub struct Tail<C = Change> {
    sources: Vec<Source<C>>,
    seen: Vec<Position>,
}

struct Source<C> {
    /// The last position that the partition had when the tail was made: `rest` has all up to it.
    end: Position,
    next: Option<Result<C>>,
    rest: Changes<C>,
}

impl<C> fmt::Debug for Tail<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail")
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}

impl Tail {
    pub(crate) fn new(partitions: &[Partition], seen: &[Position]) -> Result<Tail> {
        let of = |partition: &Partition, seen| {
            let end = partition.position();
            let rest = partition.tail(seen)?;
            let rest: Changes<Change> = Box::new(rest.map(|change| change.map_err(Error::from)));
            Ok((end, rest))
        };
        Tail::of(partitions, seen, of)
    }
}

impl Tail<RowChange> {
    pub(crate) fn of_rows(
        partitions: &[WidePartition],
        seen: &[Position],
        (schema, key_field): (&Arc<Schema>, &str),
    ) -> Result<Tail<RowChange>> {
        let of = |partition: &WidePartition, seen| {
            let end = partition.position();
            let rest = partition.tail(schema, key_field, seen)?;
            let rest: Changes<RowChange> = Box::new(rest.map(|change| change.map_err(Error::from)));
            Ok((end, rest))
        };
        Tail::of(partitions, seen, of)
    }
}

impl<C: Logged> Tail<C> {
    /// Of each partition the changes after one position, as `of` gives them behind the last
    /// position of the partition.
    fn of<P>(
        partitions: &[P],
        seen: &[Position],
        of: impl Fn(&P, Position) -> Result<(Position, Changes<C>)>,
    ) -> Result<Tail<C>> {
        assert_eq!(
            partitions.len(),
            seen.len(),
            "a tail has one position per partition"
        );
        let mut tail = Tail {
            sources: Vec::new(),
            seen: seen.to_vec(),
        };
        for (index, (partition, seen)) in partitions.iter().zip(seen).enumerate() {
            let (end, mut rest) = of(partition, *seen)?;
            tail.sources.push(Source {
                end,
                next: rest.next(),
                rest,
            });
            tail.note_end(index);
        }
        Ok(tail)
    }

    /// A partition of which all was returned was seen to its end: the last positions may be of
    /// records that another partition has, since a split.
    fn note_end(&mut self, index: usize) {
        let source = &self.sources[index];
        if source.next.is_none() {
            self.seen[index] = self.seen[index].max(source.end);
        }
    }

    /// The last position that it has seen of each partition: where to continue, with
    /// [`Collection::tail_after`](crate::Collection::tail_after).
    pub fn seen(&self) -> Vec<Position> {
        self.seen.clone()
    }

    /// Bytes of the changes that it holds: of each partition, the next one.
    pub fn held_bytes(&self) -> u64 {
        let changes = self
            .sources
            .iter()
            .filter_map(|source| source.next.as_ref()?.as_ref().ok());
        changes.map(Logged::held_bytes).sum()
    }

    /// Bytes of the change that it returns next.
    pub fn next_bytes(&self) -> u64 {
        let source = self.oldest().and_then(|index| self.sources.get(index));
        let change = source.and_then(|source| source.next.as_ref()?.as_ref().ok());
        change.map_or(0, Logged::held_bytes)
    }

    /// The source whose next change is the oldest; one that failed comes first.
    fn oldest(&self) -> Option<usize> {
        let time = |source: &Source<C>| match &source.next {
            None => None,
            Some(Err(_)) => Some(i64::MIN),
            Some(Ok(change)) => Some(change.time_micros()),
        };
        let times = self
            .sources
            .iter()
            .enumerate()
            .filter_map(|(index, source)| Some((time(source)?, index)));
        times.min().map(|(_, index)| index)
    }
}

impl<C: Logged> Iterator for Tail<C> {
    type Item = Result<C>;

    fn next(&mut self) -> Option<Result<C>> {
        let index = self.oldest()?;
        let source = &mut self.sources[index];
        let next = source.next.take()?;
        match next {
            Ok(change) => {
                source.next = source.rest.next();
                self.seen[index] = change.position();
                self.note_end(index);
                Some(Ok(change))
            }
            Err(error) => {
                self.sources.clear();
                Some(Err(error))
            }
        }
    }
}
