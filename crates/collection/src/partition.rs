//! One partition of a collection: writes are decided here, one after the other; reads go through
//! views.

use crate::documents::{Documents, KEYS, ROWS, Totals};
use crate::index::DocumentIndex;
use crate::lookup::{AsOf, DocumentLookup};
use crate::making_ready::Records;
use crate::record::Record;
use crate::write::{Decider, GROUP_BYTES, Writer, key_of};
use crate::{Change, Error, Found, PartitionView, Result, Triggers, Within, Write, Written};
use bytes::Bytes;
use quire_env::{Env, Gate};
use quire_model::{Document, Key, Position};
use quire_search::{IndexSettings, PartitionIndexes};
use quire_seeded::{Bug, seeded};
use quire_store::{
    AnyStore, DerivedTrees, Durability, FileInspection, LogSettings, Place, Shared, Store,
    StoreFile, StoreOptions, StoreStats, TreeId, WeakStore,
};
use std::sync::Arc;

/// Makes a view of some trees.
type ViewOf =
    fn(&Store<Documents>, &[TreeId]) -> quire_store::Result<Arc<quire_store::View<Totals>>>;

/// One partition. Cheap to clone; any number of threads.
#[derive(Debug, Clone)]
pub struct Partition {
    number: u32,
    shared: Arc<Shared>,
    store: Store<Documents>,
    indexes: PartitionIndexes,
    /// The store, for views: one that is kept does not keep it open.
    weak: Arc<WeakStore<Documents>>,
}

impl Partition {
    /// Makes a new, empty partition on disk.
    ///
    /// # Errors
    /// As of [`Store::create`].
    pub fn create(shared: &Shared, place: &Place) -> Result<()> {
        Ok(Store::<Documents>::create(shared, place)?)
    }

    /// Opens a partition. A search index that it has by these settings is opened too;
    /// [`set_index`](Partition::set_index) makes it the one that it is to have.
    ///
    /// # Errors
    /// As of [`Store::open`].
    pub fn open(
        shared: Arc<Shared>,
        place: Place,
        number: u32,
        mut options: StoreOptions,
        index: Option<&IndexSettings>,
        changed: Arc<dyn Gate>,
    ) -> Result<Partition> {
        options.derived.extend(
            index.map(|index| Arc::new(DocumentIndex::new(index)) as Arc<dyn DerivedTrees>),
        );
        let store = Store::open(Arc::clone(&shared), place, options, changed)?;
        let indexes = PartitionIndexes::new(number, &shared, &store, index);
        Ok(Partition {
            number,
            shared,
            weak: Arc::new(store.downgrade()),
            store,
            indexes,
        })
    }

    /// The machine.
    pub fn env(&self) -> &Arc<dyn Env> {
        self.shared.env()
    }

    pub(crate) fn store(&self) -> &Store<Documents> {
        &self.store
    }

    pub(crate) fn indexes(&self) -> &PartitionIndexes {
        &self.indexes
    }

    /// A clock that never jumps. See [`Shared::steady_micros`].
    pub(crate) fn steady_micros(&self) -> i64 {
        self.shared.steady_micros()
    }

    /// Its number in the collection.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Decides writes from the beginning of the batch and does them: applied, but neither durable
    /// nor visible until [`acknowledge`](Partition::acknowledge) is called with the position. Gives
    /// one result for each write that was decided, at least one; call again with the rest. What one
    /// call did survives a crash whole or not at all. The triggers run with each write: what they
    /// change is in its record.
    ///
    /// # Errors
    /// The store's; then nothing was written. What is wrong with a single write is its own result.
    pub fn write(
        &self,
        writes: &[Write],
        triggers: Triggers<'_>,
    ) -> Result<(Vec<Result<Written>>, Position)> {
        if seeded(Bug::TriggerApart) && !triggers.is_empty() {
            let (_, position) = self.write(writes, Triggers::none())?;
            self.acknowledge(position, Durability::Sync)?;
        }
        self.write_by(Writer::Client, writes, triggers)
    }

    /// As [`write`](Partition::write), for a client or the engine itself.
    pub(crate) fn write_by(
        &self,
        writer: Writer,
        writes: &[Write],
        triggers: Triggers<'_>,
    ) -> Result<(Vec<Result<Written>>, Position)> {
        self.write_decided(writer, writes, triggers, Ok)
    }

    /// Decides writes and does them, if `accept` takes what was decided, and makes ready what
    /// queries will need of them.
    fn write_decided<R>(
        &self,
        writer: Writer,
        writes: &[Write],
        triggers: Triggers<'_>,
        accept: impl FnOnce(Vec<Result<Written>>) -> Result<R>,
    ) -> Result<(R, Position)> {
        let time_micros = self.shared.env().now_micros();
        let mut written = Records::default();
        let accepted = self.store.write_unsynced(|transaction| {
            let first = transaction.next_position();
            let decider = Decider::new(self.number, time_micros, triggers, writer, transaction);
            let accepted = accept(decider.decide(writes))?;
            written = Records::to_make_ready(self.indexes.state(), transaction, first)?;
            Ok::<_, Error>(accepted)
        })?;
        written.make_ready(self.indexes.state());
        Ok(accepted)
    }

    /// Decides all writes and does them as one group of records, or does none: as
    /// [`write`](Partition::write) otherwise.
    ///
    /// # Errors
    /// The store's, `TooLarge` if the records are more than one group may have, and what is wrong
    /// with the first write that fails. Nothing was written then.
    pub fn write_whole(
        &self,
        writes: &[Write],
        triggers: Triggers<'_>,
    ) -> Result<(Vec<Written>, Position)> {
        self.write_decided(Writer::Client, writes, triggers, |decided| {
            let is_whole = decided.len() == writes.len();
            let written = decided.into_iter().collect::<Result<Vec<_>>>()?;
            match is_whole {
                true => Ok(written),
                false => Err(Error::BatchTooLarge {
                    bytes_max: GROUP_BYTES,
                }),
            }
        })
    }

    /// Makes everything up to `position` as durable as `durability` says, and visible.
    ///
    /// # Errors
    /// As of [`Store::acknowledge`].
    pub fn acknowledge(&self, position: Position, durability: Durability) -> Result<()> {
        Ok(self.store.acknowledge(position, durability)?)
    }

    /// A consistent read of what is acknowledged.
    ///
    /// # Errors
    /// When the store is closed.
    pub fn view(&self) -> Result<PartitionView> {
        self.view_with(&[KEYS, ROWS])
    }

    /// As [`view`](Partition::view), of these trees that `apply` writes.
    pub(crate) fn view_with(&self, applied: &[TreeId]) -> Result<PartitionView> {
        self.view_by(applied, Store::view_of)
    }

    /// As [`view`](Partition::view), after a flush, of table files alone: it holds no memtable, so
    /// no writer waits for its end. For reads that take long.
    ///
    /// # Errors
    /// As of [`Store::flush`].
    pub fn flushed_view(&self) -> Result<PartitionView> {
        self.view_by(&[KEYS, ROWS], Store::flushed_view_of)
    }

    /// A view of these trees that `apply` writes, and of the search trees, made by `view_of`.
    fn view_by(&self, applied: &[TreeId], view_of: ViewOf) -> Result<PartitionView> {
        let (view, indexes) = self.indexes.view(&self.store, applied, &view_of)?;
        let store = Arc::clone(&self.weak);
        Ok(PartitionView::new(self.number, view, indexes, store))
    }

    /// The document under `key`, as of now.
    ///
    /// # Errors
    /// Damage on disk, by file and offset; or when the store is closed.
    pub fn get(&self, key: &Key) -> Result<Option<Found>> {
        self.lookup()?.get(key)
    }

    /// The documents under many keys as of now, in the order of `keys`; each step is done for all
    /// of them at once.
    ///
    /// # Errors
    /// As of [`get`](Partition::get).
    pub fn get_many(&self, keys: &[&Key]) -> Result<Vec<Option<Found>>> {
        self.lookup()?.get_many(keys)
    }

    /// The document under `key` as of now, unless its record is longer than `bytes_max`.
    ///
    /// # Errors
    /// As of [`get`](Partition::get).
    pub fn get_up_to(&self, key: &Key, bytes_max: u64) -> Result<Within> {
        self.lookup()?.get_up_to(key, bytes_max)
    }

    /// As [`get_many`](Partition::get_many), as far as the documents fit in `bytes_left`, which is
    /// reduced by the bytes of those read.
    ///
    /// # Errors
    /// As of [`get`](Partition::get).
    pub fn get_within(&self, keys: &[&Key], bytes_left: &mut u64) -> Result<Vec<Within>> {
        self.lookup()?.get_within(keys, bytes_left)
    }

    fn lookup(&self) -> Result<DocumentLookup<'_>> {
        let trees = self.store.point_view(&[KEYS, ROWS])?;
        let as_of = AsOf::Now(&**self.shared.env());
        Ok(DocumentLookup::new(self.number, trees, as_of))
    }

    /// The last position that views see.
    pub fn position(&self) -> Position {
        self.store.position()
    }

    /// The changes after `seen` that are visible now, in order.
    ///
    /// # Errors
    /// When the log no longer holds the first of them, or the store is closed.
    pub fn tail(&self, seen: Position) -> Result<impl Iterator<Item = Result<Change>> + use<>> {
        let partition = self.number;
        let records = self.store.tail(seen)?;
        Ok(records.filter_map(move |item| change_of(partition, item).transpose()))
    }

    /// Its store, for backups and followers.
    pub fn any_store(&self) -> Arc<dyn AnyStore> {
        Arc::new(self.store.clone())
    }

    /// The files that make up the partition now.
    pub fn files(&self) -> Vec<StoreFile> {
        self.store.files()
    }

    /// Begins to read a file; `None` if it is gone.
    ///
    /// # Errors
    /// As of [`Store::inspect`].
    pub fn inspect(&self, file: &StoreFile) -> Result<Option<FileInspection>> {
        Ok(self.store.inspect(file)?)
    }

    /// Makes everything written durable and visible.
    ///
    /// # Errors
    /// As of [`Store::sync`].
    pub fn sync(&self) -> Result<()> {
        Ok(self.store.sync()?)
    }

    /// Writes memtables out.
    ///
    /// # Errors
    /// As of [`Store::flush`].
    pub fn flush(&self) -> Result<()> {
        Ok(self.store.flush()?)
    }

    /// Merges every tree into one run, and removes from the log what no document needs.
    ///
    /// # Errors
    /// As of [`Store::compact`].
    pub fn compact(&self) -> Result<()> {
        Ok(self.store.compact()?)
    }

    /// Changes settings of the log. What is on disk stays as it is.
    ///
    /// # Errors
    /// As of [`Store::set_log`].
    pub fn set_log(&self, settings: LogSettings) -> Result<()> {
        Ok(self.store.set_log(settings)?)
    }

    /// Syncs and closes.
    ///
    /// # Errors
    /// As of [`Store::close`].
    pub fn close(&self) -> Result<()> {
        Ok(self.store.close()?)
    }

    /// Figures.
    pub fn stats(&self) -> StoreStats {
        self.store.stats()
    }
}

/// The change that a record of the log is; `None` if another partition has it.
fn change_of(
    partition: u32,
    item: quire_store::Result<(Position, Bytes)>,
) -> Result<Option<Change>> {
    let (version, bytes) = item?;
    let record = Record::decode(&bytes).map_err(|what| Error::Corrupt {
        partition,
        position: version,
        what,
    })?;
    if record.has_no_key() {
        return Ok(None);
    }
    let document = match record.document {
        [] => None,
        _ => Some(Document::from_stored(record.document_bytes(&bytes))?),
    };
    Ok(Some(Change {
        version,
        partition,
        time_micros: record.time_micros,
        external: record.external,
        expires_micros: record.expires,
        key: key_of(&record)?,
        document,
    }))
}
