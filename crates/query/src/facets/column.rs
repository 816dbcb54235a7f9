//! [`FieldColumn`]: the values of a field of a segment, batch by batch.

use crate::terms::Terms;
use crate::{Cast, Column, Ordinals, Result};
use quire_index::term;
use std::ops::Range;

/// The values of a field of a segment. A batch is read once, for all facets.
pub(crate) struct FieldColumn<'c> {
    terms: Option<Terms<'c>>,
    /// The ordinals that stand for null.
    nulls: Range<u64>,
    ordinals: Ordinals,
    ordinal_end: u64,
}

/// Whether a cast leaves all values of a column but null as they are, as far as that is known.
pub(crate) fn is_kept(cast: &Cast, column: &dyn Column) -> Result<bool> {
    let Some(own) = cast.kept() else {
        return Ok(false);
    };
    let above: Vec<u8> = term::NULL.iter().map(|byte| byte + 1).collect();
    let has_lower = column.ordinal_of(&above)? < column.ordinal_of(&[own.start])?;
    Ok(!has_lower && column.ordinal_of(&[own.end])? >= column.ordinal_end())
}

impl<'c> FieldColumn<'c> {
    pub(crate) fn new(column: Option<Box<dyn Column + 'c>>) -> Result<FieldColumn<'c>> {
        let (mut nulls, mut ordinal_end) = (0..0, 0);
        if let Some(column) = &column {
            let above: Vec<u8> = term::NULL.iter().map(|byte| byte + 1).collect();
            nulls = column.ordinal_of(term::NULL)?..column.ordinal_of(&above)?;
            ordinal_end = column.ordinal_end();
        }
        Ok(FieldColumn {
            terms: column.map(Terms::new),
            nulls,
            ordinals: Ordinals::default(),
            ordinal_end,
        })
    }

    /// More than any ordinal.
    pub(crate) fn ordinal_end(&self) -> u64 {
        self.ordinal_end
    }

    /// Reads the ordinals of a batch.
    pub(crate) fn read(&mut self, batch: &[u32]) -> Result<()> {
        match &self.terms {
            Some(terms) => terms.column().ordinals(batch, &mut self.ordinals),
            None => {
                self.ordinals.clear();
                batch.iter().for_each(|_| self.ordinals.end_document());
                Ok(())
            }
        }
    }

    /// Whether a cast leaves all values but null as they are, as far as that is known.
    pub(crate) fn keeps(&self, cast: &Cast) -> Result<bool> {
        match &self.terms {
            Some(terms) => is_kept(cast, terms.column()),
            None => Ok(true),
        }
    }

    /// The ordinals of a document of the batch.
    pub(crate) fn all_of(&self, place: usize) -> &[u64] {
        let ends = &self.ordinals.ends;
        let start = place.checked_sub(1).and_then(|before| ends.get(before));
        let start = start.copied().unwrap_or(0) as usize;
        let end = ends.get(place).copied().unwrap_or_default() as usize;
        self.ordinals.ordinals.get(start..end).unwrap_or_default()
    }

    /// Those that are not null.
    pub(crate) fn of(&self, place: usize) -> &[u64] {
        let all = self.all_of(place);
        // Null is the least of all values.
        match all.split_first() {
            Some((first, others)) if self.nulls.contains(first) => others,
            _ => all,
        }
    }

    /// The term of an ordinal.
    pub(crate) fn term(&mut self, ordinal: u64) -> Result<&[u8]> {
        match &mut self.terms {
            Some(terms) => terms.term(ordinal),
            None => Ok(term::NULL),
        }
    }
}
