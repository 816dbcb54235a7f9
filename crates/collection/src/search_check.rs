//! Checking that a search index says of the documents what they say themselves.
//!
//! One pass over the documents, one over the postings, and one over the columns. All give pairs: of
//! an entry and a docid, or of a field with a value and a docid;
//! of these their number and the sum of their hashes are kept, which are equal if the pairs are the
//! same. Documents that changed since the index's position are left out of both.

use crate::search::{Indexer, SearchTree, each_column_value, each_pair};
use crate::{PartitionView, Result};
use quire_index::DocSet;
use quire_model::{DocId, Position};
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A number of pairs, and the sum of their hashes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Pairs {
    count: u64,
    sum: u64,
}

impl Pairs {
    fn add(&mut self, entry: &[u8], docid: DocId) {
        self.count += 1;
        let hash = xxh3_64_with_seed(entry, docid.0.into());
        self.sum = self.sum.wrapping_add(hash);
    }

    fn add_value(&mut self, field: &[u8], term: &[u8], docid: DocId) {
        self.count += 1;
        let field = xxh3_64_with_seed(field, docid.0.into());
        self.sum = self.sum.wrapping_add(xxh3_64_with_seed(term, field));
    }
}

impl PartitionView {
    /// Compares each complete search index with the documents. Gives what is wrong.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub(crate) fn check_search(&self) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        for tree in self.search_trees() {
            if let Some(built) = self.built(tree) {
                wrong.extend(self.check_search_tree(tree, built)?);
            }
        }
        Ok(wrong)
    }

    fn check_search_tree(&self, tree: &SearchTree, built: Position) -> Result<Option<String>> {
        let mut changed = BTreeSet::new();
        for item in self.store_view().log_from(built.next()) {
            let (position, bytes) = item?;
            changed.insert(self.record(position, &bytes)?.docid);
        }
        let (mut columns, mut marked) = (Pairs::default(), BTreeMap::<Vec<u8>, DocSet>::new());
        let of_columns = self.store_view().tree(tree.columns)?;
        let shown = each_column_value(of_columns, &mut |field, docid, term| match term {
            _ if changed.contains(&docid) => {}
            Some(term) => columns.add_value(field, term, docid),
            None => {
                let of_field = marked.entry(field.to_vec()).or_default();
                of_field.insert(docid.0);
            }
        })?;
        if let Err(what) = shown {
            return Ok(Some(format!("the columns are damaged: {what}")));
        }
        let (mut indexer, mut documents) = (Indexer::new(tree.fields.clone()), Pairs::default());
        let mut values_of_documents = Pairs::default();
        let mut rows = self.rows()?;
        loop {
            let batch = rows.next_batch()?;
            if batch.is_empty() {
                break;
            }
            for (docid, found) in batch.iter().filter(|(docid, _)| !changed.contains(docid)) {
                let values = indexer.values(&found.document, &found.key.to_string());
                indexer.each_entry(&values, |entry| documents.add(entry, *docid));
                for (slot, terms) in values.fields() {
                    let field = indexer.field(slot).map_or(&[][..], |field| &field.key);
                    // Queries read the values of these from the documents.
                    let of_field = marked.get(field);
                    if of_field.is_none_or(|docs| !docs.contains(docid.0)) {
                        let values = &mut values_of_documents;
                        terms
                            .iter()
                            .for_each(|term| values.add_value(field, term, *docid));
                    }
                }
            }
        }
        let mut postings = Pairs::default();
        let shown = each_pair(self.store_view().tree(tree.id)?, &mut |entry, docid| {
            if !changed.contains(&docid) {
                postings.add(entry, docid);
            }
        })?;
        let counts = || {
            let (here, there) = (postings.count, documents.count);
            format!("the search index has {here} entries, and the documents have {there}")
        };
        Ok(match shown {
            Err(what) => Some(format!("the search index is damaged: {what}")),
            Ok(()) if postings.count != documents.count => Some(counts()),
            Ok(()) if postings != documents => {
                Some("the search index has other entries than the documents".into())
            }
            Ok(()) if columns != values_of_documents => {
                let (here, there) = (columns.count, values_of_documents.count);
                Some(format!(
                    "the columns have {here} values, and the documents have {there}, or others"
                ))
            }
            Ok(()) => None,
        })
    }
}
