//! [`Documents`]: documents without an index, some at a time, as columns.

use super::plan::FacetPlan;
use super::state::{FacetState, Segment};
use crate::hit::Hit;
use crate::meter::Meter;
use crate::model::ModelColumn;
use crate::values::{Values, metered_values};
use crate::{Column, Result};
use quire_index::DocSet;
use quire_model::ObjectRef;

/// Documents that are gathered, and values of them.
const DOCUMENTS_MAX: usize = 256;
const VALUES_MAX: usize = 4096;

/// Documents that were gathered and not added yet.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    hits: Vec<Hit>,
    /// By field, then by document.
    values: Vec<Vec<Values>>,
    /// By filter: the places of documents that match.
    matching: Vec<Vec<u32>>,
    value_count: usize,
    /// What they take of the memory of the query.
    bytes: usize,
}

impl Documents {
    /// Gathers a document, and adds those that were gathered if they are many.
    pub(crate) fn see(
        &mut self,
        plan: &FacetPlan,
        state: &mut FacetState,
        (hit, root): (Hit, ObjectRef<'_>),
        scratch: &mut Vec<u8>,
        meter: &mut Meter,
    ) -> Result<()> {
        self.values.resize_with(plan.fields.len(), Vec::new);
        self.matching.resize_with(plan.filters.len(), Vec::new);
        let place = self.hits.len() as u32;
        for (path, of_field) in plan.fields.iter().zip(&mut self.values) {
            let values = metered_values(path, root, scratch, meter, &mut self.bytes)?;
            self.value_count += values.len();
            of_field.push(values);
        }
        for (node, matching) in plan.filters.iter().zip(&mut self.matching) {
            if node.accepts(root, scratch) {
                matching.push(place);
            }
        }
        self.hits.push(hit);
        match self.hits.len() >= DOCUMENTS_MAX || self.value_count >= VALUES_MAX {
            true => self.flush(plan, state, meter),
            false => Ok(()),
        }
    }

    /// Adds the documents that were gathered.
    pub(crate) fn flush(
        &mut self,
        plan: &FacetPlan,
        state: &mut FacetState,
        meter: &mut Meter,
    ) -> Result<()> {
        let gathered = std::mem::take(self);
        let columns = gathered.values.into_iter().map(|of_documents| {
            let column: Box<dyn Column> = Box::new(ModelColumn::new(of_documents));
            Some(column)
        });
        let matching = gathered.matching.into_iter();
        let filters: Vec<DocSet> = matching
            .map(|places| places.into_iter().collect())
            .collect();
        let docs: DocSet = (0..gathered.hits.len() as u32).collect();
        let segment = Segment {
            columns: columns.collect(),
            docs: &docs,
            filters: &filters,
            hit: &|place| gathered.hits.get(place as usize).copied(),
        };
        state.add(plan, segment, meter)?;
        meter.give(gathered.bytes);
        Ok(())
    }
}
