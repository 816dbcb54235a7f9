//! How often the values of a column occur: by ordinal, so that each value is read once.

use crate::batches::Batches;
use crate::{Column, End, NO_ORDINAL, Ordinals, Result};
use quire_index::DocSet;
use std::ops::ControlFlow;

/// Ordinals below this are counted in an array.
const ARRAY_ORDINALS_MAX: u64 = 1 << 16;

/// Larger ordinals are gathered up to this number, sorted, and counted by runs.
const GATHERED_ORDINALS_MAX: usize = 1 << 16;

/// Shown a term, and how many documents have it. One term may be shown several times, for
/// different documents.
pub(crate) type EachTerm<'a> = dyn FnMut(&[u8], u64) -> Result<()> + 'a;

/// Counts the documents of `docs` by each of their values.
///
/// # Errors
/// Of the column, and of `each`.
pub(crate) fn count_terms(
    column: &dyn Column,
    docs: &DocSet,
    each: &mut EachTerm<'_>,
) -> Result<()> {
    let mut counter = OrdinalCounter::new(column);
    if counter.has_array() && column.count(docs, &mut counter.counts)? {
        return counter.finish(each);
    }
    let (mut batches, mut values) = (Batches::new(docs), FlatValues::default());
    while let Some(batch) = batches.next_batch() {
        counter.count(values.read(column, batch)?, each)?;
    }
    counter.finish(each)
}

/// The values of a batch of documents, one behind the other.
#[derive(Default)]
pub(crate) struct FlatValues {
    ends: Vec<u64>,
    ordinals: Ordinals,
}

impl FlatValues {
    /// The ordinals, with [`NO_ORDINAL`] here and there where a document has no value.
    pub(crate) fn read(&mut self, column: &dyn Column, batch: &[u32]) -> Result<&[u64]> {
        if column.has_many() {
            column.ordinals(batch, &mut self.ordinals)?;
            return Ok(&self.ordinals.ordinals);
        }
        column.ends(batch, End::Smallest, &mut self.ends)?;
        Ok(&self.ends)
    }
}

/// Counts how often each ordinal of a column occurs.
struct OrdinalCounter<'c> {
    column: &'c dyn Column,
    /// By ordinal; empty if ordinals are too large for it.
    counts: Vec<u64>,
    /// Ordinals that were not counted yet.
    gathered: Vec<u64>,
}

impl<'c> OrdinalCounter<'c> {
    fn new(column: &'c dyn Column) -> OrdinalCounter<'c> {
        let end = column.ordinal_end();
        OrdinalCounter {
            column,
            counts: match end {
                0..=ARRAY_ORDINALS_MAX => vec![0; end as usize],
                _ => Vec::new(),
            },
            gathered: Vec::new(),
        }
    }

    fn has_array(&self) -> bool {
        self.column.ordinal_end() <= ARRAY_ORDINALS_MAX
    }

    fn count(&mut self, ordinals: &[u64], each: &mut EachTerm<'_>) -> Result<()> {
        if self.has_array() {
            for ordinal in ordinals {
                if let Some(count) = self.counts.get_mut(*ordinal as usize) {
                    *count += 1;
                }
            }
            return Ok(());
        }
        let there = ordinals.iter().filter(|ordinal| **ordinal != NO_ORDINAL);
        self.gathered.extend(there);
        match self.gathered.len() >= GATHERED_ORDINALS_MAX {
            true => self.flush(each),
            false => Ok(()),
        }
    }

    fn flush(&mut self, each: &mut EachTerm<'_>) -> Result<()> {
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.sort_unstable();
        let runs = gathered.chunk_by(|one, next| one == next);
        let counted = runs.filter_map(|run| Some((*run.first()?, run.len() as u64)));
        self.show(counted, each)?;
        debug_assert!(gathered.is_sorted(), "runs are of sorted ordinals");
        gathered.clear();
        self.gathered = gathered;
        Ok(())
    }

    fn finish(mut self, each: &mut EachTerm<'_>) -> Result<()> {
        self.flush(each)?;
        let counts = std::mem::take(&mut self.counts);
        let counted = (0..).zip(counts).filter(|(_, count)| *count > 0);
        self.show(counted, each)
    }

    /// Shows how often ordinals occur, ascending.
    fn show(
        &self,
        counted: impl Iterator<Item = (u64, u64)>,
        each: &mut EachTerm<'_>,
    ) -> Result<()> {
        let (ordinals, counts): (Vec<u64>, Vec<u64>) = counted.unzip();
        let (mut counts, mut shown) = (counts.into_iter(), Ok(()));
        self.column.each_term(&ordinals, &mut |term| {
            shown = each(term, counts.next().unwrap_or(0));
            match shown {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        shown
    }
}
