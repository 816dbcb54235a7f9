//! A collection: documents by key, spread over partitions by a hash of the key.

use crate::attached::AttachedTriggers;
use crate::collection_state::{CollectionState, get_many};
use crate::error::first_error;
use crate::layout::Layout;
use crate::partitions_before::Before;
use crate::scan::Scan;
use crate::settings::CollectionSettings;
use crate::stats::CollectionStats;
use crate::tail::Tail;
use crate::usage::Usage;
use crate::view::View;
use crate::{Error, Result};
use arc_swap::ArcSwap;
use parking_lot::RwLock;
use quire_collection::{Found, IndexSettings, Partition, PartitionView, Within, Write};
use quire_coprocessor::{Code, Trigger, TriggerOptions};
use quire_env::Gate;
use quire_model::{Document, Key, Position};
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::Duration;

/// An open collection. Cheap to clone; any number of threads write and read at once.
///
/// ```
/// use quiredb::{CollectionSettings, Database, Document, ErrorKind, Key};
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path())?;
/// let jobs = database.create_collection("jobs", CollectionSettings::default())?;
///
/// // A batch is acknowledged together: one sync for each partition that it writes to.
/// let mut batch = jobs.batch();
/// for id in 0..100 {
///     let json = format!(r#"{{"_id":{id},"title":"job {id}"}}"#);
///     batch.put(&Document::from_json(json.as_bytes())?)?;
/// }
/// for result in batch.write() {
///     result?;
/// }
///
/// // A write can depend on the version that its author saw.
/// let seen = jobs.get(&Key::from(7))?.expect("job 7 was written");
/// jobs.write().if_version(seen.version).delete(&Key::from(7))?;
/// let again = jobs.write().if_version(seen.version).delete(&Key::from(7));
/// assert_eq!(again.unwrap_err().kind(), ErrorKind::Conflict);
///
/// // A view stays as it is while others write.
/// let view = jobs.view()?;
/// jobs.delete(&Key::from(8))?;
/// assert_eq!((view.count(), jobs.count()?), (99, 98));
/// let first = view.scan(..Key::from(3))?.map(|found| Ok(found?.key));
/// let first: Vec<Key> = first.collect::<quiredb::Result<_>>()?;
/// assert_eq!(first, [Key::from(0), Key::from(1), Key::from(2)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Collection {
    state: Arc<CollectionState>,
}

impl Collection {
    pub(crate) fn new(
        (name, identity, begun): (String, [u8; 16], Duration),
        settings: CollectionSettings,
        triggers: AttachedTriggers,
        (partitions, before): (Vec<Partition>, Vec<Before>),
        changed: Arc<dyn Gate>,
        retention: bool,
    ) -> Collection {
        assert_eq!(
            partitions.len(),
            settings.partitions as usize,
            "a collection opens the partitions that its settings say"
        );
        let rule = retention.then(|| settings.retention());
        let was_empty = |partition: &Partition| partition.stats().position.0 == 0;
        let was_empty = partitions.iter().all(was_empty);
        let env = Arc::clone(partitions[0].env());
        let usage = Usage::new(&env, begun, was_empty);
        Collection {
            state: Arc::new(CollectionState {
                name,
                identity,
                env,
                usage: Arc::new(usage),
                settings: RwLock::new(Arc::new(settings)),
                triggers,
                layout: ArcSwap::from_pointee(Layout::new(partitions, before, rule)),
                changed,
            }),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// What no other collection has, also none that had its name before. That of a copy of the
    /// database (a backup, a follower) is the same.
    pub fn identity(&self) -> [u8; 16] {
        self.state.identity
    }

    /// What was done with it since it was opened, as those that serve it count.
    pub fn usage(&self) -> &Usage {
        &self.state.usage
    }

    /// Its settings, as they are now.
    pub fn settings(&self) -> Arc<CollectionSettings> {
        self.state.settings()
    }

    /// Takes settings over that are in the catalog.
    pub(crate) fn set_settings(&self, settings: CollectionSettings) -> Result<()> {
        let (log, rule) = (settings.log(), settings.retention());
        *self.state.settings.write() = Arc::new(settings);
        self.each(|partition| partition.set_log(log))?;
        for retention in self.state.layout.load().retention() {
            retention.set(rule);
        }
        Ok(())
    }

    /// Has other partitions from now on, which these settings say the number of.
    pub(crate) fn replace(&self, layout: Layout, settings: CollectionSettings) {
        assert_eq!(
            layout.partitions().len(),
            settings.partitions as usize,
            "a collection has the partitions that its settings say"
        );
        *self.state.settings.write() = Arc::new(settings);
        self.state.layout.store(Arc::new(layout));
    }

    /// Takes over the triggers that are in the catalog.
    pub(crate) fn set_triggers(&self, triggers: Vec<Arc<Trigger>>) {
        self.state.triggers.set_of_catalog(triggers);
    }

    /// Makes code a trigger: it runs with each write from now on, after those of the catalog, until
    /// it is detached or the database is closed. A closure is attached anew after each opening.
    ///
    /// # Errors
    /// `Invalid` if the code is no trigger or does not start, if a trigger of this name was
    /// attached before, or columns are named.
    pub fn attach_trigger(&self, code: &Code, options: TriggerOptions) -> Result<()> {
        if options.columns.is_some() {
            let what = "columns are named of wide collections alone, and this is a plain one";
            return Err(Error::Invalid(what.into()));
        }
        self.state.triggers.attach(Trigger::new(code, options)?)
    }

    /// Detaches code that [`attach_trigger`](Collection::attach_trigger) attached; whether there
    /// was some of this name.
    pub fn detach_trigger(&self, name: &str) -> bool {
        self.state.triggers.detach(name)
    }

    /// Makes this the search index of each partition.
    pub(crate) fn set_index(&self, index: Option<&IndexSettings>) -> Result<()> {
        self.each(|partition| partition.set_index(index))
    }

    /// The key that a document carries in the collection's key field.
    ///
    /// # Errors
    /// `Invalid` if it has none, or one that can't be a key.
    pub fn key_of(&self, document: &Document) -> Result<Key> {
        self.state.key_of(document)
    }

    /// Refuses a write whose document, or patch, names another key than the write's, as every write
    /// does.
    ///
    /// # Errors
    /// `Invalid` if the key field of the collection, or `_id`, is there and is another key.
    pub fn check_key(&self, write: &Write) -> Result<()> {
        self.settings().check_key(write)
    }

    /// The partition that a key belongs to, until the collection is split.
    pub fn partition_of(&self, key: &Key) -> u32 {
        self.state.layout.load().partition_of(key)
    }

    pub(crate) fn state(&self) -> &CollectionState {
        &self.state
    }

    pub(crate) fn partitions(&self) -> Arc<[Partition]> {
        Arc::clone(self.state.layout.load().partitions())
    }

    /// The document under `key`.
    ///
    /// # Errors
    /// `Corrupt` if the bytes on disk are damaged: the error names file and offset.
    pub fn get(&self, key: &Key) -> Result<Option<Found>> {
        self.state.read(|layout| Ok(layout.of(key).get(key)?))
    }

    /// The documents under many keys, in the order of the keys, each partition as of now. A
    /// [`view`](Collection::view) gives them as of the moment when it was made.
    ///
    /// # Errors
    /// As of [`get`](Collection::get).
    pub fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Found>>> {
        self.state.read(|layout| {
            let partitions = layout.partitions();
            let get = |partition: usize, keys: &[&Key]| partitions[partition].get_many(keys);
            get_many(partitions.len(), keys, || None, get)
        })
    }

    /// The document under `key`, unless it takes more than `bytes_max` in the log: a document of
    /// unknown length is not read before there is memory for it.
    ///
    /// # Errors
    /// As of [`get`](Collection::get).
    pub fn get_up_to(&self, key: &Key, bytes_max: u64) -> Result<Within> {
        self.state
            .read(|layout| Ok(layout.of(key).get_up_to(key, bytes_max)?))
    }

    /// As [`get_many`](Collection::get_many), as far as the documents fit in `bytes_max` together.
    /// The others are not read.
    ///
    /// # Errors
    /// As of [`get`](Collection::get).
    pub fn get_within(&self, keys: &[Key], bytes_max: u64) -> Result<Vec<Within>> {
        self.state.read(|layout| {
            let (partitions, mut left) = (layout.partitions(), bytes_max);
            let get = |partition: usize, keys: &[&Key]| {
                let partition: &Partition = &partitions[partition];
                partition.get_within(keys, &mut left)
            };
            get_many(partitions.len(), keys, || Within::Absent, get)
        })
    }

    /// The documents in a range of keys, in key order, as of now.
    ///
    /// # Errors
    /// As of [`get`](Collection::get).
    pub fn scan(&self, range: impl RangeBounds<Key>) -> Result<Scan> {
        self.view()?.scan(range)
    }

    /// How many documents there are.
    ///
    /// # Errors
    /// `Closed`.
    pub fn count(&self) -> Result<u64> {
        Ok(self.view()?.count())
    }

    /// A consistent read as of now: each partition at one position. It pins memory and files while
    /// it is held.
    ///
    /// # Errors
    /// `Closed`.
    pub fn view(&self) -> Result<View> {
        self.view_by(Partition::view)
    }

    /// As [`view`](Collection::view), of table files alone, after memtables have been written out.
    /// It holds no memory that writers may wait for: for reads that take long.
    ///
    /// # Errors
    /// As of [`flush`](Collection::flush).
    pub fn flushed_view(&self) -> Result<View> {
        self.view_by(Partition::flushed_view)
    }

    fn view_by(
        &self,
        view: fn(&Partition) -> quire_collection::Result<PartitionView>,
    ) -> Result<View> {
        self.state.read(|layout| {
            let partitions = layout.partitions().iter().map(view);
            let partitions = partitions.collect::<quire_collection::Result<_>>()?;
            Ok(View::new(Arc::clone(&self.state), partitions))
        })
    }

    /// The changes from position `from` on, in every partition, as far as they are visible now:
    /// each partition's in order, partitions interleaved by time. A change that a later one of the
    /// same document superseded may be missing, if it was compacted away.
    ///
    /// ```
    /// use quiredb::{Database, Document, Position};
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path())?;
    /// let jobs = database.collection_or_create("jobs", Default::default)?;
    /// jobs.put(&Document::from_json(br#"{"_id":"a"}"#)?)?;
    /// let mut tail = jobs.tail(Position(1))?;
    /// let change = tail.next().expect("job a was written")?;
    /// assert_eq!(change.key.to_string(), "a");
    ///
    /// // Later, go on where it ended.
    /// assert!(jobs.tail_after(&tail.seen())?.next().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Gone` if a log no longer holds that position.
    pub fn tail(&self, from: Position) -> Result<Tail> {
        let seen = Position(from.0.saturating_sub(1));
        self.tail_after(&vec![seen; self.positions().len()])
    }

    /// The changes after one position per partition, as [`Tail::seen`] gives them. Positions of a
    /// time when the collection had fewer partitions, before it was split, may be given: each holds
    /// for all partitions that its own has become.
    ///
    /// # Errors
    /// As of [`tail`](Collection::tail); `Invalid` if there is not one position per partition of
    /// now, or of before.
    pub fn tail_after(&self, seen: &[Position]) -> Result<Tail> {
        self.state
            .read(|layout| Tail::new(layout.partitions(), &layout.spread(seen)?))
    }

    /// Positions as of [`tail_after`](Collection::tail_after) as one of each partition of now.
    ///
    /// # Errors
    /// `Invalid` as there.
    pub fn spread(&self, seen: &[Position]) -> Result<Vec<Position>> {
        self.state.layout.load().spread(seen)
    }

    /// How many partitions it had at first, if it was split or merged since.
    pub(crate) fn first_partitions(&self) -> Option<u32> {
        self.state.layout.load().first_partitions()
    }

    /// The last position that is visible of each partition.
    pub fn positions(&self) -> Vec<Position> {
        let layout = self.state.layout.load();
        layout
            .partitions()
            .iter()
            .map(Partition::position)
            .collect()
    }

    /// Waits until something newer than `seen` (positions as of
    /// [`tail_after`](Collection::tail_after)) is visible, and says whether it is; false when the
    /// time is over or the collection is closed.
    pub fn wait_for_change(&self, seen: &[Position], timeout: Duration) -> bool {
        let newer = || {
            let seen = self.spread(seen).unwrap_or_else(|_| seen.to_vec());
            let positions = self.positions();
            positions.iter().zip(seen).any(|(now, seen)| *now > seen)
        };
        let mut closed = false;
        self.state.changed.wait_until(
            &mut || {
                closed = self.view().is_err();
                closed || newer()
            },
            timeout,
        );
        !closed && newer()
    }

    /// Makes everything written so far durable and visible.
    ///
    /// # Errors
    /// `ReadOnly` or `Io`.
    pub fn sync(&self) -> Result<()> {
        self.each(Partition::sync)
    }

    /// Writes all memtables out.
    ///
    /// # Errors
    /// `Full` or `Io`.
    pub fn flush(&self) -> Result<()> {
        self.each(Partition::flush)
    }

    /// Merges every tree into one run. Long: reads and writes all table files.
    ///
    /// # Errors
    /// `Full` or `Io`.
    pub fn compact(&self) -> Result<()> {
        self.compact_while(&|| true)
    }

    /// As [`compact`](Collection::compact), for as long as `goes_on` returns true. It is called
    /// before each partition.
    ///
    /// # Errors
    /// `Stopped` if it returned false, `Full` or `Io`.
    pub fn compact_while(&self, goes_on: &dyn Fn() -> bool) -> Result<()> {
        self.state.read(|layout| {
            let partitions = layout.partitions().iter();
            first_error(partitions.map(|partition| match goes_on() {
                true => Ok(partition.compact()?),
                false => Err(Error::Stopped),
            }))
        })
    }

    /// Whether this is the only handle to it.
    pub(crate) fn is_unshared(&self) -> bool {
        Arc::strong_count(&self.state) == 1
    }

    pub(crate) fn close(&self) -> Result<()> {
        self.each(Partition::close)
    }

    fn each(&self, act: impl Fn(&Partition) -> quire_collection::Result<()>) -> Result<()> {
        self.state.read(|layout| {
            let partitions = layout.partitions().iter();
            first_error(partitions.map(|partition| Ok(act(partition)?)))
        })
    }

    /// Figures.
    ///
    /// # Errors
    /// `Closed`.
    pub fn stats(&self) -> Result<CollectionStats> {
        let mut stats = CollectionStats {
            name: self.state.name.clone(),
            documents: self.count()?,
            partitions: self.settings().partitions,
            ..CollectionStats::default()
        };
        let layout = self.state.layout.load_full();
        for partition in layout.partitions().iter() {
            let figures = partition.stats();
            stats.add(&figures);
            stats.add_index(partition.index_figures(&figures));
        }
        for retention in layout.retention() {
            stats.retention_deleted += retention.deleted();
            stats.background_errors.extend(retention.error());
        }
        Ok(stats)
    }

    /// Figures of each partition, in the order of their numbers; without those of retention.
    ///
    /// # Errors
    /// `Closed`.
    pub fn partition_stats(&self) -> Result<Vec<CollectionStats>> {
        self.state.read(|layout| {
            let partitions = layout.partitions().iter();
            partitions.map(|one| self.stats_of(one)).collect()
        })
    }

    fn stats_of(&self, partition: &Partition) -> Result<CollectionStats> {
        let mut stats = CollectionStats {
            name: self.state.name.clone(),
            documents: partition.view()?.count(),
            partitions: 1,
            ..CollectionStats::default()
        };
        let figures = partition.stats();
        stats.add(&figures);
        stats.add_index(partition.index_figures(&figures));
        Ok(stats)
    }
}
