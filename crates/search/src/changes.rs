//! [`IndexTrees`]: the trees of a search index, and [`IndexChanges`]: what a batch of documents
//! changes in them.
//!
//! # Invariants
//! 1. What was indexed of a document is what the caller says it was before: nothing else is kept.
//! 2. Changes are sets of docids that leave and enter, so writing one again changes nothing.

use super::column_blocks::{COLUMN_BLOCK_BITS, block_key};
use super::column_changes::ColumnChanges;
use super::column_merger::MergeColumns;
use super::inversion::Inversion;
use super::merger::MergePostings;
use super::new_documents::{NewChanges, NewDocuments};
use super::values::{Slot, Values, each_changed};
use super::{FieldSet, IndexSettings, Indexer};
use quire_lsm::{BlockCodec, TreeSpec};
use quire_model::{DocId, Document, Key, Position, ValueRef};
use quire_store::{Error, Result, TreeBatch, TreeId};
use smallvec::SmallVec;
use std::sync::Arc;

/// Changes of about this many bytes are written out.
const CHANGES_BYTES_MAX: usize = 4 << 20;

/// Values of a document that take no allocation.
const FOUND_INLINE: usize = 48;

/// The trees of a search index, for what [derives](quire_store::DerivedTrees) them.
#[derive(Debug)]
pub struct IndexTrees {
    tree: TreeId,
    columns: TreeId,
    fields: Arc<FieldSet>,
}

/// What the documents of one batch change. Each takes the values of a document before and after
/// all that happened to it, and writes its own trees.
#[derive(Debug)]
pub struct IndexChanges {
    indexer: Indexer,
    new: NewDocuments,
    inversion: Inversion,
    columns: ColumnChanges,
    /// Those of the last new document that was not taken value by value; their memory is used
    /// again.
    values: Values,
}

impl IndexChanges {
    /// Takes documents that were not there before, with their keys. Fields with one value in a
    /// document are taken field by field, so that the terms of a field stay in the processor's
    /// caches.
    pub fn add_new(&mut self, documents: &[(DocId, Document, Key)]) {
        let mut single: Vec<Vec<(DocId, ValueRef<'_>)>> = Vec::new();
        let mut found = SmallVec::<[(Slot, ValueRef<'_>); FOUND_INLINE]>::new();
        for (docid, document, key) in documents {
            self.inversion.add_document(*docid);
            found.clear();
            let (few_max, mut are_few) = (self.indexer.few_max(), true);
            self.indexer.each_value(document, key, &mut |slot, value| {
                are_few &= found.len() < few_max;
                if are_few {
                    found.push((slot, value));
                }
            });
            if !are_few {
                let mut values = std::mem::take(&mut self.values);
                self.indexer.take_values(document, key, &mut values);
                self.add_new_values(*docid, values);
                continue;
            }
            // Fields come in the order of their slots in most documents.
            if !found.is_sorted_by_key(|(slot, _)| *slot) {
                found.sort_by_key(|(slot, _)| *slot);
            }
            for of_field in found.chunk_by(|(a, _), (b, _)| a == b) {
                let [(slot, value)] = of_field else {
                    self.add_new_few(*docid, of_field);
                    continue;
                };
                while single.len() <= slot.index() {
                    single.push(Vec::with_capacity(documents.len()));
                }
                if let Some(of_slot) = single.get_mut(slot.index()) {
                    of_slot.push((*docid, *value));
                }
            }
        }
        for (slot, of_slot) in (0..).map(Slot).zip(&single) {
            for (docid, value) in self.new.add_single(slot, of_slot) {
                self.add_new_few(docid, &[(slot, value)]);
            }
        }
    }

    /// Takes what a document that was not there before has in a field.
    fn add_new_few(&mut self, docid: DocId, few: &[(Slot, ValueRef<'_>)]) {
        let mut values = std::mem::take(&mut self.values);
        self.indexer.take_few(few, &mut values);
        self.add_new_values(docid, values);
    }

    /// Takes fields of a document that was not there before.
    fn add_new_values(&mut self, docid: DocId, values: Values) {
        for (slot, terms) in values.fields() {
            if !self.new.add(slot, docid, terms) {
                self.inversion.add_field(slot, docid, terms);
                self.columns.add(slot.0, docid, terms.iter());
            }
        }
        self.values = values;
    }

    fn add(&mut self, docid: DocId, before: &Values, after: &Values) {
        self.inversion.add(docid, before, after);
        each_changed(before, after, |slot, _, after| {
            self.columns.add(slot.0, docid, after.iter());
        });
    }

    /// Takes a document that was there before, as it was and as it is, with its key; none if it is
    /// not there.
    pub fn add_changed(
        &mut self,
        docid: DocId,
        before: Option<(Document, Key)>,
        after: Option<(Document, Key)>,
    ) {
        let mut values = |found: Option<(Document, Key)>| {
            let found = found.map(|(document, key)| self.indexer.values(&document, &key));
            found.unwrap_or_default()
        };
        let [before, after] = match (before, after) {
            (Some((old, key)), Some((new, _))) => self.indexer.values_that_differ(&old, &new, &key),
            (old, new) => [values(old), values(new)],
        };
        self.add(docid, &before, &after);
    }

    /// Whether it is as large as one that is to be written.
    pub fn is_full(&self) -> bool {
        let of_values = self.new.bytes() + self.inversion.bytes() + self.columns.bytes();
        self.indexer.bytes() + of_values >= CHANGES_BYTES_MAX
    }

    /// Writes the changes of these trees.
    pub fn write(self, index: &IndexTrees, batch: &mut TreeBatch) {
        let IndexChanges {
            indexer,
            new,
            inversion,
            columns,
            ..
        } = self;
        index.fields.write(index.tree, batch);
        new.write(
            &indexer,
            &mut Written {
                indexer: &indexer,
                index,
                batch,
            },
        );
        let mut operand = Vec::new();
        inversion.each_change(&indexer, |key, change| {
            operand.clear();
            change.encode(&mut operand);
            batch.merge(index.tree, key, &operand);
        });
        columns.each_operand(|slot, block, operand| {
            if let Some(field) = indexer.field(Slot(slot)) {
                batch.merge(index.columns, &block_key(&field.key, block), operand);
            }
        });
    }
}

/// Writes what new documents change.
struct Written<'a> {
    indexer: &'a Indexer,
    index: &'a IndexTrees,
    batch: &'a mut TreeBatch,
}

impl NewChanges for Written<'_> {
    fn posting(&mut self, key: &[u8], operand: &[u8]) {
        self.batch.merge(self.index.tree, key, operand);
    }

    fn column(&mut self, slot: Slot, block: u32, operand: &[u8]) {
        if let Some(field) = self.indexer.field(slot) {
            let key = block_key(&field.key, block);
            self.batch.merge(self.index.columns, &key, operand);
        }
    }
}

impl IndexTrees {
    /// Those of these settings.
    pub fn new(index: &IndexSettings) -> IndexTrees {
        IndexTrees {
            tree: index.tree(),
            columns: index.columns(),
            fields: Arc::new(FieldSet::new(index.fields.clone())),
        }
    }

    /// What the trees are like.
    pub fn specs(&self) -> Vec<TreeSpec> {
        let search = TreeSpec {
            // Keys are long, and alike: a quarter to a third smaller than by LZ4, for as much CPU.
            codec: BlockCodec::Zstd { level: 1 },
            // A value is looked up in all clusters at once, by a range.
            filter_bits_per_key: 0,
            merger: Some(Arc::new(MergePostings)),
            ..TreeSpec::new(self.tree.0, format!("search-{}", self.tree))
        };
        let columns = TreeSpec {
            codec: BlockCodec::Lz4,
            merger: Some(Arc::new(MergeColumns)),
            ..TreeSpec::new(self.columns.0, format!("columns-{}", self.tree))
        };
        vec![search, columns]
    }

    /// The changes of a batch of trees that hold nothing yet.
    pub fn begin(&self) -> IndexChanges {
        self.fields.clear();
        self.changes()
    }

    /// The changes of a batch, by which fields the trees have.
    ///
    /// # Errors
    /// Damage on disk, by file and offset; `position` is that of the view that is read.
    pub fn go_on(&self, position: Position, batch: &TreeBatch) -> Result<IndexChanges> {
        let tree = batch.stored(self.tree);
        let loaded = tree.map_or(Ok(()), |tree| self.fields.load(tree));
        loaded.map_err(|error| Error::derived(position, error.to_string()))?;
        Ok(self.changes())
    }

    fn changes(&self) -> IndexChanges {
        IndexChanges {
            indexer: Indexer::new(Arc::clone(&self.fields)),
            new: NewDocuments::default(),
            values: Values::default(),
            inversion: Inversion::default(),
            columns: ColumnChanges::new(COLUMN_BLOCK_BITS),
        }
    }
}
