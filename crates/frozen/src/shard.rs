//! A frozen partition as a [`Shard`]: a leaf becomes ranges of codes, and these become documents.
//!
//! # Invariants
//! 1. A leaf whose bounds lie outside a field's values reads no section.
//! 2. Counts come from the counts of values, doc sets are used in place in the file, and only sets
//!    that an answer needs are built.

use crate::column::FrozenColumn;
use crate::file::FrozenField;
use crate::select::count_all;
use crate::table::SectionKind;
use crate::top::top;
use crate::{Error, FrozenFile, Result};
use quire_index::DocSet;
use quire_model::Document;
use quire_query::{Column, Cost, Estimate, FieldInfo, Found, Leaf, Order, Path, Shard, Test};
use std::borrow::Cow;

impl FrozenFile {
    /// The field of a leaf that can be answered.
    pub(crate) fn filterable(&self, path: &Path) -> Result<Option<FrozenField<'_>>> {
        match self.field_at(path)? {
            Some(field) if !field.entry.filterable => Err(Error::NotFilterable {
                path: path.to_string(),
            }),
            found => Ok(found),
        }
    }

    fn estimate_leaf(&self, leaf: &Leaf) -> Result<Estimate> {
        let Some(field) = self.filterable(&leaf.path)? else {
            return Ok(Estimate::exactly(0, Cost::Stored));
        };
        if leaf.test == Test::Exists {
            return Ok(Estimate::exactly(field.entry.present.into(), Cost::Stored));
        }
        let codes = field.codes_of(&leaf.test)?;
        let cost = match codes.is_empty() || codes.single().is_some() {
            true => Cost::Stored,
            false => Cost::Built,
        };
        let (at_least, at_most) = match field.count_of(&codes)? {
            Some(docs) => (docs, docs),
            None => (1, field.pairs(&codes)?.min(field.entry.docs.into())),
        };
        Ok(Estimate {
            found: codes.found(),
            ..Estimate::between(at_least, at_most, cost)
        })
    }

    fn count_leaf(&self, leaf: &Leaf) -> Result<Option<u64>> {
        let Some(field) = self.filterable(&leaf.path)? else {
            return Ok(Some(0));
        };
        match &leaf.test {
            Test::Exists => Ok(Some(field.entry.present.into())),
            Test::Eq(value) => field.count_of_term(value.term()).map(Some),
            _ => field.count_of(&field.codes_of(&leaf.test)?),
        }
    }

    fn set_of_leaf(&self, leaf: &Leaf, found: Found) -> Result<DocSet> {
        let Some(field) = self.filterable(&leaf.path)? else {
            return Ok(DocSet::empty());
        };
        match leaf.test {
            Test::Exists => field.present(),
            _ => field.set_of(&field.codes_found(&leaf.test, found)?),
        }
    }

    fn retain_leaf(&self, leaf: &Leaf, found: Found, docs: &mut DocSet) -> Result<()> {
        let Some(field) = self.filterable(&leaf.path)? else {
            *docs = DocSet::empty();
            return Ok(());
        };
        if leaf.test == Test::Exists {
            if field.entry.present < self.documents() {
                *docs &= &field.present()?;
            }
            return Ok(());
        }
        field.retain(&field.codes_found(&leaf.test, found)?, docs)
    }
}

impl Shard for FrozenFile {
    fn doc_end(&self) -> u32 {
        self.documents()
    }

    fn field(&self, path: &Path) -> quire_query::Result<Option<FieldInfo<'_>>> {
        let field = self.field_at(path)?;
        Ok(field.map(|FrozenField { entry, .. }| FieldInfo {
            filterable: entry.filterable,
            sortable: entry.sortable,
            many: entry.many,
            docs: entry.docs.into(),
            range: Some((
                Cow::Borrowed(&*entry.least),
                Cow::Borrowed(&*entry.greatest),
            )),
            distinct: Some(entry.distinct),
        }))
    }

    fn estimate(&self, leaf: &Leaf) -> quire_query::Result<Estimate> {
        Ok(self.estimate_leaf(leaf)?)
    }

    fn count(&self, leaves: &[&Leaf]) -> quire_query::Result<Option<u64>> {
        Ok(match leaves {
            [leaf] => self.count_leaf(leaf)?,
            leaves => count_all(leaves, |path| self.filterable(path))?,
        })
    }

    fn matches(&self, leaf: &Leaf, found: Found) -> quire_query::Result<DocSet> {
        Ok(self.set_of_leaf(leaf, found)?)
    }

    fn retain(&self, leaf: &Leaf, found: Found, docs: &mut DocSet) -> quire_query::Result<()> {
        Ok(self.retain_leaf(leaf, found, docs)?)
    }

    fn first(&self, order: &Order, docs: u64) -> quire_query::Result<Option<DocSet>> {
        match self.field_at(&order.path)? {
            Some(field) if field.has_postings() => {
                let codes = field.first_codes(order.direction, docs)?;
                Ok(Some(field.set_of(&codes)?))
            }
            _ => Ok(None),
        }
    }

    fn top(
        &self,
        leaves: &[&Leaf],
        order: &Order,
        hits_max: u64,
    ) -> quire_query::Result<Option<Vec<u32>>> {
        let find = |_, path: &Path| self.field_at(path);
        Ok(top(leaves, order, hits_max, self.documents(), find)?)
    }

    fn column(&self, path: &Path) -> quire_query::Result<Option<Box<dyn Column + '_>>> {
        match self.field_at(path)? {
            Some(field) if field.entry.sortable => Ok(Some(Box::new(FrozenColumn::new(&field)?))),
            Some(_) => Err(quire_query::Error::NotSortable {
                path: path.to_string(),
            }),
            None => Ok(None),
        }
    }

    fn document(&self, doc: u32) -> quire_query::Result<Option<Document>> {
        Ok(self.read_document(doc)?)
    }

    fn payload(&self, doc: u32, read: &mut dyn FnMut(&[u8])) -> quire_query::Result<bool> {
        Ok(self.read_row(SectionKind::Payloads, &self.payload_rows, doc, read)?)
    }
}
