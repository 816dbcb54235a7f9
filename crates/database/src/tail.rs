//! The changes of a collection, from its partitions' logs.

use crate::Result;
use quire_collection::{Change, Partition};
use quire_model::Position;
use std::fmt;

type Changes = Box<dyn Iterator<Item = quire_collection::Result<Change>> + Send>;

/// Changes, each partition's in order, partitions interleaved by time. Ends where the logs ended
/// when it was made, or after the first error.
pub struct Tail {
    sources: Vec<Source>,
    seen: Vec<Position>,
}

struct Source {
    /// The last position that the partition had when the tail was made: `rest` has all up to it.
    end: Position,
    next: Option<quire_collection::Result<Change>>,
    rest: Changes,
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail")
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}

impl Tail {
    pub(crate) fn new(partitions: &[Partition], seen: &[Position]) -> Result<Tail> {
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
            let end = partition.position();
            let mut rest: Changes = Box::new(partition.tail(*seen)?);
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

    /// Bytes of the documents that it holds: of each partition, the next one.
    pub fn held_bytes(&self) -> u64 {
        let changes = self
            .sources
            .iter()
            .filter_map(|source| source.next.as_ref()?.as_ref().ok());
        let documents = changes.filter_map(|change| change.document.as_ref());
        documents
            .map(|document| document.as_bytes().len() as u64)
            .sum()
    }

    /// Bytes of the document that it returns next.
    pub fn next_bytes(&self) -> u64 {
        let source = self.oldest().and_then(|index| self.sources.get(index));
        let change = source.and_then(|source| source.next.as_ref()?.as_ref().ok());
        let document = change.and_then(|change| change.document.as_ref());
        document.map_or(0, |document| document.as_bytes().len() as u64)
    }

    /// The source whose next change is the oldest; one that failed comes first.
    fn oldest(&self) -> Option<usize> {
        let time = |source: &Source| match &source.next {
            None => None,
            Some(Err(_)) => Some(i64::MIN),
            Some(Ok(change)) => Some(change.time_micros),
        };
        let times = self
            .sources
            .iter()
            .enumerate()
            .filter_map(|(index, source)| Some((time(source)?, index)));
        times.min().map(|(_, index)| index)
    }
}

impl Iterator for Tail {
    type Item = Result<Change>;

    fn next(&mut self) -> Option<Result<Change>> {
        let index = self.oldest()?;
        let source = &mut self.sources[index];
        let next = source.next.take()?;
        match next {
            Ok(change) => {
                source.next = source.rest.next();
                self.seen[index] = change.version;
                self.note_end(index);
                Some(Ok(change))
            }
            Err(error) => {
                self.sources.clear();
                Some(Err(error.into()))
            }
        }
    }
}
