//! [`ModelShard`]: documents in memory, without any index.
//!
//! Other shards are tested against it, so it is as simple as can be: every answer reads every
//! document.

use crate::values::{Values, values};
use crate::{
    Column, Cost, End, Estimate, FieldInfo, Found, Leaf, NO_ORDINAL, Order, Ordinals, Path, Result,
    Shard, Value,
};
use quire_index::DocSet;
use quire_model::Document;
use quire_model::ordered::Direction;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// A shard of documents in memory. A docid is an index, which may have no document.
#[derive(Debug, Clone, Default)]
pub struct ModelShard {
    documents: Vec<Option<Document>>,
}

impl FromIterator<Document> for ModelShard {
    fn from_iter<I: IntoIterator<Item = Document>>(documents: I) -> ModelShard {
        documents.into_iter().map(Some).collect()
    }
}

impl FromIterator<Option<Document>> for ModelShard {
    fn from_iter<I: IntoIterator<Item = Option<Document>>>(documents: I) -> ModelShard {
        let documents = documents.into_iter().collect();
        ModelShard { documents }
    }
}

impl ModelShard {
    /// Values of each document, by docid; empty for a docid without a document.
    fn values(&self, path: &Path) -> Vec<Values> {
        let documents = self.documents.iter();
        documents
            .map(|document| Some(values(path, document.as_ref()?.root(), &mut Vec::new())))
            .map(Option::unwrap_or_default)
            .collect()
    }
}

impl Shard for ModelShard {
    fn doc_end(&self) -> u32 {
        u32::try_from(self.documents.len()).unwrap_or(u32::MAX)
    }

    fn docs(&self) -> Result<DocSet> {
        Ok((0..self.doc_end())
            .zip(&self.documents)
            .filter_map(|(doc, document)| document.is_some().then_some(doc))
            .collect())
    }

    fn doc_count(&self) -> Result<u64> {
        Ok(self.docs()?.len())
    }

    fn field(&self, path: &Path) -> Result<Option<FieldInfo<'_>>> {
        let values = self.values(path);
        let all: BTreeSet<_> = values.iter().flatten().collect();
        let owned = |value: Option<&&Value>| Some(Cow::Owned(value?.term().to_vec()));
        Ok((!all.is_empty()).then(|| FieldInfo {
            filterable: true,
            sortable: true,
            many: values.iter().any(|values| values.len() > 1),
            docs: values.iter().filter(|values| !values.is_empty()).count() as u64,
            range: owned(all.first()).zip(owned(all.last())),
            distinct: Some(all.len() as u64),
        }))
    }

    fn estimate(&self, leaf: &Leaf) -> Result<Estimate> {
        let matching = self.matches(leaf, Found::default())?;
        Ok(Estimate::exactly(matching.len(), Cost::Scanned))
    }

    fn matches(&self, leaf: &Leaf, _: Found) -> Result<DocSet> {
        let values = self.values(&leaf.path).into_iter();
        Ok((0..)
            .zip(values)
            .filter(|(_, values)| values.iter().any(|value| leaf.test.accepts(value.term())))
            .map(|(doc, _)| doc)
            .collect())
    }

    fn first(&self, order: &Order, docs: u64) -> Result<Option<DocSet>> {
        let best = |values: &Values| match order.direction {
            Direction::Ascending => values.first().cloned(),
            Direction::Descending => values.last().cloned(),
        };
        let of_docs: Vec<_> = self.values(&order.path).iter().map(best).collect();
        let mut in_order: Vec<_> = of_docs.iter().flatten().collect();
        in_order.sort();
        if order.direction == Direction::Descending {
            in_order.reverse();
        }
        let place = usize::try_from(docs).unwrap_or(usize::MAX);
        let Some(last) = in_order.get(place.min(in_order.len()).saturating_sub(1)) else {
            return Ok(Some(DocSet::empty()));
        };
        let is_first = |value: &Value| match order.direction {
            Direction::Ascending => value <= *last,
            Direction::Descending => value >= *last,
        };
        let of_docs = (0..).zip(&of_docs);
        let first = of_docs.filter(|(_, value)| value.as_ref().is_some_and(is_first));
        Ok(Some(first.map(|(doc, _)| doc).collect()))
    }

    fn column(&self, path: &Path) -> Result<Option<Box<dyn Column + '_>>> {
        Ok(Some(Box::new(ModelColumn::new(self.values(path)))))
    }

    fn document(&self, doc: u32) -> Result<Option<Document>> {
        Ok(self.documents.get(doc as usize).cloned().flatten())
    }
}

/// A value's ordinal is its index among all distinct ones.
pub(crate) struct ModelColumn {
    of_docs: Vec<Values>,
    values: Vec<Value>,
}

impl ModelColumn {
    /// The column of these values, by docid.
    pub(crate) fn new(of_docs: Vec<Values>) -> ModelColumn {
        let mut values: Vec<Value> = of_docs.iter().flatten().cloned().collect();
        values.sort_unstable();
        values.dedup();
        ModelColumn { of_docs, values }
    }

    fn ordinals_of(&self, doc: u32) -> impl DoubleEndedIterator<Item = u64> {
        let values = self.of_docs.get(doc as usize).into_iter().flatten();
        let places = values.filter_map(|value| self.values.binary_search(value).ok());
        places.map(|place| place as u64)
    }
}

impl Column for ModelColumn {
    fn ordinal_end(&self) -> u64 {
        self.values.len() as u64
    }

    fn ends(&self, docs: &[u32], end: End, out: &mut Vec<u64>) -> Result<()> {
        out.clear();
        out.extend(docs.iter().map(|doc| {
            let mut ordinals = self.ordinals_of(*doc);
            let ordinal = match end {
                End::Smallest => ordinals.next(),
                End::Largest => ordinals.next_back(),
            };
            ordinal.unwrap_or(NO_ORDINAL)
        }));
        Ok(())
    }

    fn ordinals(&self, docs: &[u32], out: &mut Ordinals) -> Result<()> {
        out.clear();
        for doc in docs {
            out.ordinals.extend(self.ordinals_of(*doc));
            out.end_document();
        }
        Ok(())
    }

    fn term(&self, ordinal: u64, out: &mut Vec<u8>) -> Result<()> {
        let value = usize::try_from(ordinal).ok();
        let value = value.and_then(|ordinal| self.values.get(ordinal));
        out.extend_from_slice(value.map_or(&[], Value::term));
        Ok(())
    }

    fn ordinal_of(&self, term: &[u8]) -> Result<u64> {
        Ok(self.values.partition_point(|value| value.term() < term) as u64)
    }
}
