//! Fields of numbers of a live shard, which are followed instead of being read at each position of
//! the index.

use super::number_column::{First, NumberColumn};
use super::shard::LiveShard;
use crate::Error;
use quire_query::{Batches, Column, End, NO_ORDINAL, Order, Path, Result, Segment, Shard};

impl LiveShard<'_> {
    /// The numbers of a field, one for each document as it is now, if an earlier query read them.
    pub(super) fn kept_numbers(&self, path: &Path) -> Option<NumberColumn> {
        let numbers = self.numbers.as_ref()?;
        let mut needed = self.needed_numbers.lock();
        if let Some((_, known)) = needed.iter().find(|(known, _)| known == path) {
            return known.clone();
        }
        let (changed, at) = (self.all_changed(), numbers.at);
        let kept = numbers.followed.column(path, changed, at);
        needed.push((path.clone(), kept.clone()));
        kept
    }

    /// The first documents of a field by an order, if it is one of numbers that are kept.
    pub(super) fn first_numbers(&self, order: &Order, docs_min: u64) -> Option<First> {
        let numbers = self.numbers.as_ref()?;
        let changed = (self.all_changed(), numbers.at);
        let docs_min = usize::try_from(docs_min).unwrap_or(usize::MAX);
        let followed = &numbers.followed;
        followed.first(&order.path, changed, order.direction, docs_min)
    }

    /// The same; they are read if enough queries needed them.
    pub(super) fn numbers(&self, path: &Path) -> Result<Option<NumberColumn>> {
        let Some(numbers) = &self.numbers else {
            return Ok(None);
        };
        if let Some(kept) = self.kept_numbers(path) {
            return Ok(Some(kept));
        }
        let at = (numbers.at, numbers.built);
        let read = || self.read_numbers(path);
        let followed = &numbers.followed;
        let read = followed.column_if_due(path, at, self.doc_end(), read)?;
        if read.is_some() {
            self.needed_numbers
                .lock()
                .retain(|(known, _)| known != path);
        }
        Ok(read)
    }

    /// One segment of all documents with the columns of fields, if these are numbers and kept, or
    /// read now.
    pub(super) fn segment_of_numbers(&self, paths: &[&Path]) -> Result<Option<Segment<'_>>> {
        let mut columns: Vec<Option<Box<dyn Column + '_>>> = Vec::with_capacity(paths.len());
        for path in paths {
            match self.numbers(path)? {
                Some(column) => columns.push(Some(Box::new(column))),
                None => return Ok(None),
            }
        }
        Ok(Some(Segment {
            docs: None,
            columns,
        }))
    }

    /// The numbers of all documents; none if the field has other values.
    fn read_numbers(&self, path: &Path) -> Result<Option<NumberColumn>> {
        let all = self.all_docs().map_err(|error| self.failed(error))?;
        let segments = match self.segments_of(&[path], all) {
            // They are of many values, or long ones.
            Err(Error::ValuesTooLarge { .. }) => return Ok(None),
            segments => segments.map_err(|error| self.failed(error))?,
        };
        let mut numbers = NumberColumn::default();
        let (mut ends, mut term) = (Vec::new(), Vec::new());
        for segment in segments {
            let Some(Some(column)) = segment.columns.first() else {
                continue;
            };
            if column.has_many() {
                return Ok(None);
            }
            let of_numbers = column.numbers();
            let mut batches = Batches::new(segment.docs.as_ref().unwrap_or(all));
            while let Some(docs) = batches.next_batch() {
                column.ends(docs, End::Smallest, &mut ends)?;
                if let Some(of_numbers) = &of_numbers {
                    if numbers.set_numbers(docs, &ends, of_numbers).is_err() {
                        return Ok(None);
                    }
                    continue;
                }
                let there = docs.iter().zip(&ends);
                for (doc, ordinal) in there.filter(|(_, ordinal)| **ordinal != NO_ORDINAL) {
                    term.clear();
                    column.term(*ordinal, &mut term)?;
                    if numbers.set_term(*doc, &term).is_err() {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(Some(numbers))
    }
}
