//! Checking that a search index, its postings and its columns, says of the documents what they say
//! themselves.
//!
//! One pass over the documents and one over the postings, then one of each for the columns. Both
//! give pairs of an entry and a docid; of these their number and the sum of their hashes are kept,
//! in a bounded number of groups, which are equal if the pairs are the same. Where they differ,
//! a second pass looks at the pairs of one such group, to name some. Documents that changed
//! since the index's position are left out.

use super::column_blocks::{COLUMN_BLOCK_BITS, ColumnBlocks, FieldBlock, damaged};
use super::field_set::FieldSet;
use super::indexer::Indexer;
use super::key::{entry_words, is_of_list};
use super::postings::each_pair;
use super::state::SearchTree;
use super::tree_postings::tree_error;
use super::values::Values;
use super::view::IndexedView;
use super::{Error, Result};
use quire_index::DocSet;
use quire_model::{DocId, Position};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
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

/// Documents whose values must be read from themselves, by the beginning of the keys of a field.
type Marked = BTreeMap<Vec<u8>, DocSet>;

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

impl dyn IndexedView + '_ {
    /// Compares each complete search index with the documents. Gives what is wrong. An index of
    /// which something is wrong is built anew in the background.
    ///
    /// # Errors
    /// Damage to documents on disk, by file and offset.
    pub fn check_search(&self) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        for tree in self.indexes().trees() {
            let Some(built) = self.built(tree) else {
                continue;
            };
            let found = match self.check_search_tree(tree, built) {
                Err(Error::Index { what }) => Some(format!("the search index is damaged: {what}")),
                found => found?,
            };
            if let Some(what) = found {
                self.rebuild_tree(tree.id, &what);
                wrong.push(what);
            }
        }
        Ok(wrong)
    }

    fn check_search_tree(&self, tree: &SearchTree, built: Position) -> Result<Option<String>> {
        let changed = self.docs_changed(built)?;
        let postings = compare(
            "search index",
            &|see| self.pairs_of_documents(tree, &changed, see),
            &|see| self.pairs_of_postings(tree, &changed, see),
        )?;
        if postings.is_some() {
            return Ok(postings);
        }
        let marked = self.marked_in_columns(tree)?;
        compare(
            "columns of the search index",
            &|see| self.values_of_documents(tree, &changed, &marked, see),
            &|see| self.values_of_columns(tree, &changed, see),
        )
    }

    /// Shows what the documents say, without those that changed.
    fn pairs_of_documents(
        &self,
        tree: &SearchTree,
        changed: &BTreeSet<DocId>,
        see: &mut SeePair<'_>,
    ) -> Result<()> {
        self.each_values(tree, changed, &mut |indexer, values, docid| {
            indexer.each_entry(values, |entry| see(entry, docid));
        })
    }

    /// Shows the values of each document, without those that changed.
    fn each_values(
        &self,
        tree: &SearchTree,
        changed: &BTreeSet<DocId>,
        see: &mut dyn FnMut(&Indexer, &Values, DocId),
    ) -> Result<()> {
        let fields = FieldSet::of_tree(tree.fields.clone(), self.tree(tree.id)?)?;
        let mut indexer = Indexer::new(Arc::new(fields));
        self.each_document(&mut |docid, document, key| {
            if !changed.contains(&docid) {
                let values = indexer.values(document, key);
                see(&indexer, &values, docid);
            }
        })
    }

    /// Shows what the index says, without the documents that changed.
    fn pairs_of_postings(
        &self,
        tree: &SearchTree,
        changed: &BTreeSet<DocId>,
        see: &mut SeePair<'_>,
    ) -> Result<()> {
        let shown = each_pair(self.tree(tree.id)?, &mut |entry, docid| {
            if !changed.contains(&docid) && !is_of_list(entry) {
                see(entry, docid);
            }
        })?;
        shown.map_err(|what| Error::Index { what })
    }

    /// Shows the values of documents that columns are to have.
    fn values_of_documents(
        &self,
        tree: &SearchTree,
        changed: &BTreeSet<DocId>,
        marked: &Marked,
        see: &mut SeePair<'_>,
    ) -> Result<()> {
        self.each_values(tree, changed, &mut |indexer, values, docid| {
            for (slot, terms) in values.fields() {
                let field = indexer.field(slot).map_or(&[][..], |field| &field.key);
                let is_marked = marked.get(field).is_some_and(|docs| docs.contains(docid.0));
                for term in terms.iter().filter(|_| !is_marked) {
                    see(&[field, term].concat(), docid);
                }
            }
        })
    }

    /// Shows the values that columns have, without the documents that changed.
    fn values_of_columns(
        &self,
        tree: &SearchTree,
        changed: &BTreeSet<DocId>,
        see: &mut SeePair<'_>,
    ) -> Result<()> {
        let doc_end = self.doc_end();
        self.each_column_block(tree, &mut |field, block| {
            let end = block.first.saturating_add(1 << COLUMN_BLOCK_BITS);
            let docs: DocSet = (block.first..end.min(doc_end)).collect();
            let shown = block.each_term(&docs, &mut |doc, term| {
                if !changed.contains(&DocId(doc)) {
                    see(&[field, term].concat(), DocId(doc));
                }
            });
            shown.map_err(damaged)
        })
    }

    /// The documents of each field whose values columns do not have.
    fn marked_in_columns(&self, tree: &SearchTree) -> Result<Marked> {
        let mut marked = Marked::new();
        self.each_column_block(tree, &mut |field, block| {
            if !block.marked.is_empty() {
                *marked.entry(field.to_vec()).or_default() |= &block.marked;
            }
            Ok(())
        })?;
        Ok(marked)
    }

    /// Shows each block of the columns, with the field that it is of.
    fn each_column_block(
        &self,
        tree: &SearchTree,
        see: &mut dyn FnMut(&[u8], &FieldBlock) -> Result<()>,
    ) -> Result<()> {
        let columns = self.tree(tree.columns)?;
        let keys = columns.scan(Bound::Unbounded, Bound::Unbounded);
        for item in keys.map_err(tree_error)? {
            let (key, _) = item.map_err(tree_error)?;
            let Some((field, block)) = key.split_last_chunk() else {
                let what = "a key of a column is cut short".to_string();
                return Err(Error::Index { what });
            };
            let first = u32::from_be_bytes(*block) << COLUMN_BLOCK_BITS;
            see(field, &FieldBlock::new(columns.parts(&key)?, first)?)?;
        }
        Ok(())
    }
}

/// Compares what documents say with what an index says. Gives what is wrong.
fn compare(
    index: &str,
    documents: &dyn Fn(&mut SeePair<'_>) -> Result<()>,
    indexed: &dyn Fn(&mut SeePair<'_>) -> Result<()>,
) -> Result<Option<String>> {
    let (mut wanted, mut found) = (Pairs::new(), Pairs::new());
    documents(&mut |entry, docid| wanted.add(entry, docid))?;
    indexed(&mut |entry, docid| found.add(entry, docid))?;
    let Some(differs) = wanted.difference(&found) else {
        return Ok(None);
    };
    let (here, there) = (found.count(), wanted.count());
    let mut what = match here == there {
        true => format!("the {index} has other entries than the documents"),
        false => format!("the {index} has {here} entries, and the documents have {there}"),
    };
    for one in name_differences(documents, indexed, differs)? {
        what.push_str("; ");
        what.push_str(&one);
    }
    Ok(Some(what))
}

/// Says of some pairs of a group which of the two does not have them.
fn name_differences(
    documents: &dyn Fn(&mut SeePair<'_>) -> Result<()>,
    indexed: &dyn Fn(&mut SeePair<'_>) -> Result<()>,
    differs: usize,
) -> Result<Vec<String>> {
    let pairs = |all: &dyn Fn(&mut SeePair<'_>) -> Result<()>| {
        let mut pairs = BTreeSet::new();
        all(&mut |entry, docid| {
            if group(hash(entry, docid)) == differs && pairs.len() < PAIRS_MAX {
                pairs.insert((entry.to_vec(), docid));
            }
        })?;
        Ok::<_, Error>(pairs)
    };
    let (wanted, found) = (pairs(documents)?, pairs(indexed)?);
    if wanted.len().max(found.len()) == PAIRS_MAX {
        return Ok(Vec::new());
    }
    let missing = wanted.difference(&found).map(|pair| ("lacks", pair));
    let extra = found.difference(&wanted).map(|pair| ("has", pair));
    let name = |(how, (entry, docid)): (&str, &(Vec<u8>, DocId))| {
        let words = entry_words(entry);
        format!("it {how} document number {docid} under {words}")
    };
    Ok(missing.chain(extra).take(NAMED_MAX).map(name).collect())
}
