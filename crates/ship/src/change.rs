//! A change of a document, and the cursor that says how far a topic was read.

use std::fmt;
use std::iter::{repeat, repeat_n};
use std::sync::Arc;

/// What a change occupies beside its key and its document, in bytes, about.
pub(crate) const CHANGE_BYTES_MIN: usize = 128;

/// One change of one document, as a topic gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The partition of the topic. All changes of a key are in one partition.
    pub partition: u32,
    /// Its place in the partition. It grows with every change, and is the document's version in
    /// sinks that have external versions.
    pub position: u64,
    /// When it was committed at the source: microseconds since 1970 UTC; 0 if that is unknown.
    pub time_micros: i64,
    /// The document's key.
    pub key: Arc<str>,
    /// The document after the change, as JSON without line ends; none when it was deleted.
    pub document: Option<Box<str>>,
}

impl Change {
    /// About the memory that it holds, which is about its size in a bulk.
    pub fn bytes(&self) -> usize {
        let document = self.document.as_ref().map_or(0, |text| text.len());
        CHANGE_BYTES_MIN + self.key.len() + document
    }
}

/// The last position that was read of each partition of a topic. A partition that is not listed
/// was not read yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor(Vec<u64>);

impl Cursor {
    /// A cursor after these positions, one of each partition.
    pub fn new(positions: Vec<u64>) -> Cursor {
        Cursor(positions)
    }

    /// Reads what [`Display`](fmt::Display) wrote; none if it is no cursor.
    pub fn parse(text: &str) -> Option<Cursor> {
        if text.is_empty() {
            return Some(Cursor::default());
        }
        let positions = text.split(',').map(|part| part.parse().ok());
        positions.collect::<Option<Vec<u64>>>().map(Cursor)
    }

    /// The positions, by partition.
    pub fn positions(&self) -> &[u64] {
        &self.0
    }

    /// The last position read of a partition.
    pub fn position(&self, partition: u32) -> u64 {
        self.0.get(partition as usize).copied().unwrap_or(0)
    }

    /// Moves past a change. A position never goes back.
    pub fn advance(&mut self, partition: u32, position: u64) {
        let index = partition as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        if let Some(place) = self.0.get_mut(index) {
            *place = position.max(*place);
        }
    }

    /// A cursor of `partitions`, after each of these became `times` partitions: its position holds
    /// for all of them.
    pub(crate) fn spread(&self, partitions: usize, times: usize) -> Cursor {
        let positions = self.0.iter().copied().chain(repeat(0)).take(partitions);
        Cursor(positions.flat_map(|one| repeat_n(one, times)).collect())
    }

    /// Of both, the earlier position of each partition.
    pub(crate) fn earliest(&self, other: &Cursor) -> Cursor {
        let both = self.0.iter().zip(&other.0);
        // What only one of them lists is 0 in the other.
        Cursor(both.map(|(one, other)| *one.min(other)).collect())
    }

    /// The changes from here to `end`, if no position is empty.
    pub fn distance(&self, end: &Cursor) -> u64 {
        let ends = end.0.iter().enumerate();
        ends.map(|(index, end)| end.saturating_sub(self.0.get(index).copied().unwrap_or(0)))
            .sum()
    }
}

/// The positions between commas, as `_changes` takes them.
impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, position) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{position}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_moves_forward_only_and_survives_as_text() {
        let mut cursor = Cursor::default();
        cursor.advance(2, 7);
        cursor.advance(0, 3);
        cursor.advance(2, 5);
        assert_eq!(cursor.to_string(), "3,0,7");
        assert_eq!(Cursor::parse("3,0,7"), Some(cursor.clone()));
        assert_eq!(cursor.distance(&Cursor::new(vec![4, 2, 6])), 3);
        assert_eq!(Cursor::parse("3,x"), None);
        assert_eq!(Cursor::parse(""), Some(Cursor::default()));
    }

    #[test]
    fn a_position_holds_for_all_that_its_partition_became() {
        let cursor = Cursor::new(vec![7, 0, 3]);
        assert_eq!(cursor.spread(3, 2).to_string(), "7,7,0,0,3,3");
        assert_eq!(cursor.spread(4, 1).to_string(), "7,0,3,0");
        assert_eq!(Cursor::default().spread(2, 2).to_string(), "0,0,0,0");
        let other = Cursor::new(vec![5, 9]);
        assert_eq!(cursor.earliest(&other).to_string(), "5,0");
        assert_eq!(other.earliest(&cursor).to_string(), "5,0");
    }
}
