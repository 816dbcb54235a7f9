//! Reading a partition as of one position.

use crate::documents::{Documents, KEYS, ROWS, Totals};
use crate::lookup::{AsOf, DocumentLookup};
use crate::{Found, Result, Within};
use quire_model::{DocId, Key, Position};
use quire_search::ViewIndexes;
use quire_store::WeakStore;
use std::sync::Arc;

/// A consistent read of one partition. It pins memory and files while it is held. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PartitionView {
    partition: u32,
    view: Arc<quire_store::View<Totals>>,
    indexes: ViewIndexes,
    store: Arc<WeakStore<Documents>>,
}

impl PartitionView {
    pub(crate) fn new(
        partition: u32,
        view: Arc<quire_store::View<Totals>>,
        indexes: ViewIndexes,
        store: Arc<WeakStore<Documents>>,
    ) -> PartitionView {
        PartitionView {
            partition,
            view,
            indexes,
            store,
        }
    }

    pub(crate) fn view_indexes(&self) -> &ViewIndexes {
        &self.indexes
    }

    /// The store that it is of.
    pub(crate) fn store(&self) -> &WeakStore<Documents> {
        &self.store
    }

    /// Which partition it is of.
    pub(crate) fn number(&self) -> u32 {
        self.partition
    }

    /// The last record that it sees.
    pub fn position(&self) -> Position {
        self.view.position()
    }

    /// Bytes of memtables that views alone hold still.
    pub fn held_memtable_bytes(&self) -> u64 {
        self.view.held_memtable_bytes()
    }

    pub(crate) fn totals(&self) -> Totals {
        *self.view.summary()
    }

    /// Documents in it.
    pub fn count(&self) -> u64 {
        self.view.summary().documents
    }

    /// The document under `key`.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub fn get(&self, key: &Key) -> Result<Option<Found>> {
        self.lookup()?.get(key)
    }

    /// The documents under many keys, in the order of `keys`; each step is done for all of them at
    /// once.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub fn get_many(&self, keys: &[&Key]) -> Result<Vec<Option<Found>>> {
        self.lookup()?.get_many(keys)
    }

    /// The documents of docids that this view gave, in the order of `docids`.
    ///
    /// # Errors
    /// Damage on disk, by file and offset; so too a docid without a document.
    pub fn documents(&self, docids: &[DocId]) -> Result<Vec<Found>> {
        let lookup = self.lookup()?;
        let versions = lookup.versions(docids)?;
        let records = lookup.records(&versions)?;
        let found = docids.iter().zip(versions).zip(&records);
        found
            .map(|((docid, version), record)| lookup.found_by_docid(*docid, version, record))
            .collect()
    }

    /// The documents under many keys, in the order of `keys`, as far as they fit in `bytes_left`,
    /// which is reduced by the bytes of those read.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub fn get_within(&self, keys: &[&Key], bytes_left: &mut u64) -> Result<Vec<Within>> {
        self.lookup()?.get_within(keys, bytes_left)
    }

    /// The documents of docids that this view gave, as far as they fit in `bytes_left`, which is
    /// reduced by the bytes of those read.
    ///
    /// # Errors
    /// As of [`documents`](PartitionView::documents).
    pub fn documents_within(&self, docids: &[DocId], bytes_left: &mut u64) -> Result<Vec<Within>> {
        self.lookup()?.documents_within(docids, bytes_left)
    }

    pub(crate) fn store_view(&self) -> &quire_store::View<Totals> {
        &self.view
    }

    pub(crate) fn lookup(&self) -> Result<DocumentLookup<'_>> {
        let trees = self.view.point_view(&[KEYS, ROWS])?;
        let as_of = AsOf::View(self.view.base().time_micros());
        Ok(DocumentLookup::new(self.partition, trees, as_of))
    }
}
