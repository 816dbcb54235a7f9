//! Checking that a search index says of the documents what they say themselves.
//!
//! One pass over the documents and one over the postings. Both give pairs of an entry and a docid;
//! of these their number and the sum of their hashes are kept, in a bounded number of groups, which
//! are equal if the pairs are the same. Only where they differ, a second pass looks at the pairs of
//! one group that differs, to name some. Documents that changed since the index's position are left
//! out. Then the same of the columns: fields with values, and docids.

use crate::search::{
    FieldSet, Indexer, SearchTree, Values, each_column_value, each_pair, entry_words, is_of_list,
};
use crate::{Error, PartitionView, Result};
use quire_index::DocSet;
use quire_model::{DocId, Position};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Groups of pairs.
const GROUPS: usize = 4096;

/// Pairs of a group that are compared one by one.
const PAIRS_MAX: usize = 100_000;

/// Differences that are named.
const NAMED_MAX: usize = 3;

/// Shown an entry and a document that has it.
type SeePair<'a> = dyn FnMut(&[u8], DocId) + 'a;

/// The number of the pairs of each group, and the sum of their hashes.
#[derive(Debug, PartialEq, Eq)]
struct Pairs(Vec<(u64, u64)>);

impl Pairs {
    fn new() -> Pairs {
        Pairs(vec![(0, 0); GROUPS])
    }

    fn add(&mut self, entry: &[u8], docid: DocId) {
        let hash = hash(entry, docid);
        if let Some((count, sum)) = self.0.get_mut(group(hash)) {
            *count += 1;
            *sum = sum.wrapping_add(hash);
        }
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|(count, _)| count).sum()
    }

    /// The least group that is another one in `other`.
    fn difference(&self, other: &Pairs) -> Option<usize> {
        let differ = |group: &usize| self.0.get(*group) != other.0.get(*group);
        let groups = (0..GROUPS).filter(differ);
        groups.min_by_key(|group| self.0.get(*group).map(|(count, _)| *count))
    }
}

fn hash(entry: &[u8], docid: DocId) -> u64 {
    xxh3_64_with_seed(entry, docid.0.into())
}

fn group(hash: u64) -> usize {
    (hash >> 32) as usize % GROUPS
}

impl PartitionView {
    /// Compares each complete search index with the documents. Gives what is wrong. An index of
    /// which something is wrong is built anew in the background.
    ///
    /// # Errors
    /// Damage to documents on disk, by file and offset.
    pub(crate) fn check_search(&self) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        for tree in self.search_trees() {
            let Some(built) = self.built(tree) else {
                continue;
            };
            let found = match self.check_search_tree(tree, built) {
                Err(Error::Index { what }) => Some(format!("the search index is damaged: {what}")),
                found => found?,
            };
            if let Some(what) = found {
                self.rebuild_search_tree(tree.id, &what);
                wrong.push(what);
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
        let (mut documents, mut postings) = (Pairs::new(), Pairs::new());
        self.pairs_of_documents(tree, &changed, &mut |entry, docid| {
            documents.add(entry, docid);
        })?;
        self.pairs_of_postings(tree, &changed, &mut |entry, docid| {
            postings.add(entry, docid);
        })?;
        let Some(differs) = documents.difference(&postings) else {
            return self.check_columns(tree, &changed);
        };
        let named = self.name_differences(tree, &changed, differs)?;
        let (here, there) = (postings.count(), documents.count());
        let mut what = match here == there {
            true => "the search index has other entries than the documents".to_string(),
            false => {
                format!("the search index has {here} entries, and the documents have {there}")
            }
        };
        for one in named {
            what.push_str("; ");
            what.push_str(&one);
        }
        Ok(Some(what))
    }

    /// Compares the columns with the documents.
    fn check_columns(
        &self,
        tree: &SearchTree,
        changed: &BTreeSet<DocId>,
    ) -> Result<Option<String>> {
        let (mut columns, mut documents) = (Pairs::new(), Pairs::new());
        let mut marked = BTreeMap::<Vec<u8>, DocSet>::new();
        let of_columns = self.store_view().tree(tree.columns)?;
        let shown = each_column_value(of_columns, &mut |field, docid, term| match term {
            _ if changed.contains(&docid) => {}
            Some(term) => columns.add(&[field, term].concat(), docid),
            // Queries read the values of these from the documents.
            None => {
                let of_field = marked.entry(field.to_vec()).or_default();
                of_field.insert(docid.0);
            }
        })?;
        shown.map_err(|what| Error::Index { what })?;
        self.values_of_documents(tree, changed, &mut |indexer, values, docid| {
            for (slot, terms) in values.fields() {
                let field = indexer.field(slot).map_or(&[][..], |field| &field.key);
                let is_marked = marked.get(field).is_some_and(|docs| docs.contains(docid.0));
                for term in terms.iter().filter(|_| !is_marked) {
                    documents.add(&[field, term].concat(), docid);
                }
            }
        })?;
        let (here, there) = (columns.count(), documents.count());
        Ok((columns != documents).then(|| {
            format!("the columns have {here} values, and the documents have {there}, or others")
        }))
    }

    /// Shows what the documents say, without those that changed.
    fn pairs_of_documents(
        &self,
        tree: &SearchTree,
        changed: &BTreeSet<DocId>,
        see: &mut SeePair<'_>,
    ) -> Result<()> {
        self.values_of_documents(tree, changed, &mut |indexer, values, docid| {
            indexer.each_entry(values, |entry| see(entry, docid));
        })
    }

    /// Shows the values of the documents, without those that changed.
    fn values_of_documents(
        &self,
        tree: &SearchTree,
        changed: &BTreeSet<DocId>,
        see: &mut dyn FnMut(&Indexer, &Values, DocId),
    ) -> Result<()> {
        let fields = FieldSet::of_tree(tree.fields.clone(), self.store_view().tree(tree.id)?)?;
        let mut indexer = Indexer::new(Arc::new(fields));
        let mut rows = self.rows()?;
        loop {
            let batch = rows.next_batch()?;
            if batch.is_empty() {
                return Ok(());
            }
            for (docid, found) in batch.iter().filter(|(docid, _)| !changed.contains(docid)) {
                let values = indexer.values(&found.document, &found.key.to_string());
                see(&indexer, &values, *docid);
            }
        }
    }

    /// Shows what the index says, without the documents that changed.
    fn pairs_of_postings(
        &self,
        tree: &SearchTree,
        changed: &BTreeSet<DocId>,
        see: &mut SeePair<'_>,
    ) -> Result<()> {
        let shown = each_pair(self.store_view().tree(tree.id)?, &mut |entry, docid| {
            if !changed.contains(&docid) && !is_of_list(entry) {
                see(entry, docid);
            }
        })?;
        shown.map_err(|what| Error::Index { what })
    }

    /// Says of some pairs of a group which of the two does not have them.
    fn name_differences(
        &self,
        tree: &SearchTree,
        changed: &BTreeSet<DocId>,
        differs: usize,
    ) -> Result<Vec<String>> {
        type Found = BTreeSet<(Vec<u8>, DocId)>;
        let (mut documents, mut postings) = (Found::new(), Found::new());
        let into = |found: &mut Found, entry: &[u8], docid: DocId| {
            if group(hash(entry, docid)) == differs && found.len() < PAIRS_MAX {
                found.insert((entry.to_vec(), docid));
            }
        };
        self.pairs_of_documents(tree, changed, &mut |entry, docid| {
            into(&mut documents, entry, docid);
        })?;
        self.pairs_of_postings(tree, changed, &mut |entry, docid| {
            into(&mut postings, entry, docid);
        })?;
        if documents.len().max(postings.len()) == PAIRS_MAX {
            return Ok(Vec::new());
        }
        let missing = documents.difference(&postings).map(|pair| ("lacks", pair));
        let extra = postings.difference(&documents).map(|pair| ("has", pair));
        let name = |(how, (entry, docid)): (&str, &(Vec<u8>, DocId))| {
            let words = entry_words(entry);
            format!("it {how} document number {docid} under {words}")
        };
        Ok(missing.chain(extra).take(NAMED_MAX).map(name).collect())
    }
}
