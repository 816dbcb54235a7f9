//! Columns of a live shard in memory, which are followed instead of being read at each position of
//! the index.

use super::followed_columns::FollowedColumn;
use super::number_column::{First, NumberColumn};
use super::shard::LiveShard;
use super::term_column::{Codes, TermColumn};
use crate::Error;
use quire_index::DocSet;
use quire_query::{Batches, Column, End, NO_ORDINAL, Order, Path, Result, Segment, Shard};

impl LiveShard<'_> {
    /// The numbers of a field, one for each document as it is now, if an earlier query read them.
    pub(super) fn kept_numbers(&self, path: &Path) -> Option<NumberColumn> {
        let kept = self.kept_columns.as_ref()?;
        let mut needed = self.needed_numbers.lock();
        if let Some((_, known)) = needed.iter().find(|(known, _)| known == path) {
            return known.clone();
        }
        let numbers = kept.numbers.column(path, self.all_changed(), kept.at);
        needed.push((path.clone(), numbers.clone()));
        numbers
    }

    /// What `find` finds of the first documents of a field by an order, if it is one of numbers
    /// that are kept.
    pub(super) fn first_numbers(
        &self,
        order: &Order,
        find: impl FnOnce(&mut NumberColumn) -> First,
    ) -> Option<First> {
        let kept = self.kept_columns.as_ref()?;
        let changed = (self.all_changed(), kept.at);
        kept.numbers.with_column(&order.path, changed, find)
    }

    /// The numbers of a field at this position; they are read if enough queries needed them.
    pub(super) fn numbers(&self, path: &Path) -> Result<Option<NumberColumn>> {
        let Some(kept) = &self.kept_columns else {
            return Ok(None);
        };
        if let Some(numbers) = self.kept_numbers(path) {
            return Ok(Some(numbers));
        }
        let at = (kept.at, kept.built);
        let read = || self.read_numbers(path);
        let numbers = &kept.numbers;
        let read = numbers.column_if_due(path, at, self.doc_end(), read)?;
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
        segment_by(paths, |path| {
            Ok(self.numbers(path)?.map(|numbers| Box::new(numbers) as _))
        })
    }

    /// The terms of a field, one for each document as it is now, if they are kept, or read now.
    fn terms(&self, path: &Path) -> Result<Option<TermColumn>> {
        let Some(kept) = &self.kept_columns else {
            return Ok(None);
        };
        let (at, terms) = ((kept.at, kept.built), &kept.terms);
        let found = match terms.column(path, self.all_changed(), kept.at) {
            Some(found) => Some(found),
            None => {
                let read = || self.read_terms(path);
                terms.column_if_due(path, at, self.doc_end(), read)?
            }
        };
        Ok(found.map(|found| match self.doc_count {
            Some(count) => found.of_docs(count),
            None => found,
        }))
    }

    /// One segment of all documents with the columns of fields, if all of these are kept, or read
    /// now.
    pub(super) fn segment_of_kept(&self, paths: &[&Path]) -> Result<Option<Segment<'_>>> {
        segment_by(paths, |path| match self.terms(path)? {
            Some(terms) => Ok(Some(Box::new(terms) as _)),
            None => Ok(self.numbers(path)?.map(|numbers| Box::new(numbers) as _)),
        })
    }

    /// The terms of all documents; none if a document has several values, or if these are too many.
    fn read_terms(&self, path: &Path) -> Result<Option<TermColumn>> {
        let mut terms = TermColumn::default();
        let is_read = self.read_column(path, &mut |column, docs| {
            let is_number = column.numbers().is_some();
            let (mut codes, mut ends) = (Codes::of(column), Vec::new());
            let mut batches = Batches::new(docs);
            while let Some(docs) = batches.next_batch() {
                column.ends(docs, End::Smallest, &mut ends)?;
                let set = terms.set_ordinals(docs, &ends, &mut codes)?;
                let is_number_of_many =
                    is_number && terms.ordinal_end() > self.numbers_as_terms_max;
                if set.is_err() || is_number_of_many {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        Ok(is_read.then_some(terms))
    }

    /// The numbers of all documents; none if the field has other values.
    fn read_numbers(&self, path: &Path) -> Result<Option<NumberColumn>> {
        let mut numbers = NumberColumn::default();
        let is_read = self.read_column(path, &mut |column, docs| {
            let (mut ends, mut term) = (Vec::new(), Vec::new());
            let of_numbers = column.numbers();
            let mut batches = Batches::new(docs);
            while let Some(docs) = batches.next_batch() {
                column.ends(docs, End::Smallest, &mut ends)?;
                if let Some(of_numbers) = &of_numbers {
                    if numbers.set_numbers(docs, &ends, of_numbers).is_err() {
                        return Ok(false);
                    }
                    continue;
                }
                let there = docs.iter().zip(&ends);
                for (doc, ordinal) in there.filter(|(_, ordinal)| **ordinal != NO_ORDINAL) {
                    term.clear();
                    column.term(*ordinal, &mut term)?;
                    if numbers.set_term(*doc, Some(&term)).is_err() {
                        return Ok(false);
                    }
                }
            }
            Ok(true)
        })?;
        Ok(is_read.then_some(numbers))
    }

    /// Shows the columns of a field that together have the values of all documents, and of which
    /// documents each does, until one is refused. Whether none was: a column is refused too if
    /// documents have several values, or values that are too long to be read at once.
    fn read_column(
        &self,
        path: &Path,
        see: &mut dyn FnMut(&dyn Column, &DocSet) -> Result<bool>,
    ) -> Result<bool> {
        let all = self.all_docs().map_err(|error| self.failed(error))?;
        let segments = match self.segments_of(&[path], all) {
            Err(Error::ValuesTooLarge { .. }) => return Ok(false),
            segments => segments.map_err(|error| self.failed(error))?,
        };
        for segment in segments {
            let Some(Some(column)) = segment.columns.first() else {
                continue;
            };
            let docs = segment.docs.as_ref().unwrap_or(all);
            if column.has_many() || !see(column.as_ref(), docs)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// One segment of all documents with the columns that `column_of` gives, if it gives each.
fn segment_by<'s>(
    paths: &[&Path],
    column_of: impl Fn(&Path) -> Result<Option<Box<dyn Column + 's>>>,
) -> Result<Option<Segment<'s>>> {
    let mut columns = Vec::with_capacity(paths.len());
    for path in paths {
        match column_of(path)? {
            Some(column) => columns.push(Some(column)),
            None => return Ok(None),
        }
    }
    Ok(Some(Segment {
        docs: None,
        columns,
    }))
}
