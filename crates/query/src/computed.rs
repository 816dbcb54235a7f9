//! [`Computed`]: the results of a [`Formula`] for documents of a shard, by its columns.

use crate::batches::Batches;
use crate::formula::{Formula, Operand, Operands};
use crate::terms::Terms;
use crate::values::Values;
use crate::{Column, Ordinals, Result};
use quire_index::{DocSet, Numbers, term};

/// A formula and the columns of its fields.
pub(crate) struct Computed<'c> {
    formula: &'c Formula,
    /// By field; none if no document here has a value.
    fields: Option<Vec<Field<'c>>>,
    numbers: Vec<Operands>,
}

struct Field<'c> {
    terms: Terms<'c>,
    numbers: Option<Numbers>,
    /// Of the batch.
    ordinals: Ordinals,
}

impl<'c> Computed<'c> {
    /// `columns` has one column for each field of the formula.
    pub(crate) fn new(
        formula: &'c Formula,
        columns: impl Iterator<Item = Option<Box<dyn Column + 'c>>>,
    ) -> Computed<'c> {
        // All are taken, also those after one that is not there.
        let columns: Vec<_> = columns.collect();
        let fields = columns.into_iter().map(|column| {
            let terms = Terms::new(column?);
            let numbers = terms.column().numbers();
            Some(Field {
                terms,
                numbers,
                ordinals: Ordinals::default(),
            })
        });
        Computed {
            formula,
            fields: fields.collect(),
            numbers: vec![Operands::new(); formula.paths.len()],
        }
    }

    /// Reads the values of a batch of documents.
    pub(crate) fn read(&mut self, batch: &[u32]) -> Result<()> {
        for field in self.fields.iter_mut().flatten() {
            field.terms.column().ordinals(batch, &mut field.ordinals)?;
        }
        Ok(())
    }

    /// The results for the document at a place of the batch.
    pub(crate) fn results(&mut self, place: usize) -> Result<Values> {
        let Some(fields) = &mut self.fields else {
            return Ok(Values::new());
        };
        for (field, numbers) in fields.iter_mut().zip(&mut self.numbers) {
            field.numbers_at(place, numbers)?;
        }
        self.formula.results(&self.numbers)
    }

    /// Shows the results for each of some documents.
    pub(crate) fn each(
        &mut self,
        docs: &DocSet,
        see: &mut dyn FnMut(Values) -> Result<()>,
    ) -> Result<()> {
        if self.fields.is_none() {
            return Ok(());
        }
        let mut batches = Batches::new(docs);
        while let Some(batch) = batches.next_batch() {
            self.read(batch)?;
            for place in 0..batch.len() {
                see(self.results(place)?)?;
            }
        }
        Ok(())
    }
}

impl Field<'_> {
    /// Replaces `out` by the numbers of the document at a place of the batch.
    fn numbers_at(&mut self, place: usize, out: &mut Operands) -> Result<()> {
        out.clear();
        for ordinal in self.ordinals.of(place) {
            out.extend(match &self.numbers {
                Some(numbers) => numbers.number(*ordinal).and_then(Operand::of_number),
                None => {
                    let value = term::decode(self.terms.term(*ordinal)?);
                    value.as_ref().and_then(Operand::of)
                }
            });
        }
        Ok(())
    }
}
