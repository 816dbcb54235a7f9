//! A collection: documents by key, spread over partitions by a hash of the key.

use crate::database::first_error;
use crate::read::{self, Scan, View};
use crate::retention::PartitionRetention;
use crate::tail::Tail;
use crate::{CollectionSettings, CollectionStats, Error, Result};
use parking_lot::RwLock;
use quire_collection::{Found, Partition, Write, Written};
use quire_env::{Env, Gate};
use quire_model::{Document, Key, Position};
use quire_seeded::{Bug, seeded};
use quire_store::Durability;
use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::Duration;

/// An open collection. Cheap to clone; any number of threads write and read at once.
///
/// ```
/// use quiredb::{CollectionSettings, Database, Document, ErrorKind, Key, Write};
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path())?;
/// let jobs = database.create_collection("jobs", CollectionSettings::default())?;
///
/// // A batch is acknowledged together: one sync for each partition it touches.
/// let batch = (0..100).map(|id| {
///     let json = format!(r#"{{"_id":{id},"title":"job {id}"}}"#);
///     Ok(Write::put(Key::from(id), Document::from_json(json.as_bytes())?))
/// });
/// for result in jobs.write_batch(batch.collect::<quiredb::Result<Vec<_>>>()?, None) {
///     result?;
/// }
///
/// // A write can depend on the version that its author saw.
/// let seen = jobs.get(&Key::from(7))?.expect("job 7 was written");
/// jobs.write(Write::delete(Key::from(7)).if_version(seen.version))?;
/// let again = jobs.write(Write::delete(Key::from(7)).if_version(seen.version));
/// assert_eq!(again.unwrap_err().kind(), ErrorKind::Conflict);
///
/// // A view stays as it is while others write.
/// let view = jobs.view()?;
/// jobs.delete(&Key::from(8))?;
/// assert_eq!((view.count(), jobs.count()?), (99, 98));
/// let first: Vec<_> = view.scan(..Key::from(3))?.map(|found| Ok(found?.key)).collect::<quiredb::Result<_>>()?;
/// assert_eq!(first, [Key::from(0), Key::from(1), Key::from(2)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Collection {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    settings: RwLock<Arc<CollectionSettings>>,
    partitions: Vec<Partition>,
    /// What deletes their documents in time; nothing where that is off.
    retention: Vec<Arc<PartitionRetention>>,
    /// Told whenever something new is visible in any partition; the database's, so in other
    /// collections too.
    changed: Arc<dyn Gate>,
}

impl Collection {
    pub(crate) fn new(
        name: String,
        settings: CollectionSettings,
        partitions: Vec<Partition>,
        changed: Arc<dyn Gate>,
        retention: bool,
    ) -> Collection {
        let retained = partitions.iter().filter(|_| retention);
        let rule = settings.retention();
        let retention = retained.map(|partition| PartitionRetention::start(partition, rule));
        Collection {
            inner: Arc::new(Inner {
                name,
                settings: RwLock::new(Arc::new(settings)),
                retention: retention.collect(),
                partitions,
                changed,
            }),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The machine.
    pub(crate) fn env(&self) -> &Arc<dyn Env> {
        // A collection has one partition at least.
        self.inner.partitions[0].env()
    }

    /// Its settings, as they are now.
    pub fn settings(&self) -> Arc<CollectionSettings> {
        Arc::clone(&self.inner.settings.read())
    }

    /// Takes settings over that are in the catalog.
    pub(crate) fn set_settings(&self, settings: CollectionSettings) -> Result<()> {
        let (log, rule) = (settings.log(), settings.retention());
        *self.inner.settings.write() = Arc::new(settings);
        for partition in self.partitions() {
            partition.set_log(log)?;
        }
        for retention in &self.inner.retention {
            retention.set(rule);
        }
        Ok(())
    }

    /// The key that a document carries in the collection's key field.
    ///
    /// # Errors
    /// `Invalid` if it has none, or one that can't be a key.
    pub fn key_of(&self, document: &Document) -> Result<Key> {
        let settings = self.settings();
        let field = &settings.key_field;
        match document.get(field) {
            Some(value) => Ok(Key::from_value(value)?),
            None => Err(Error::Invalid(format!(
                "the document has no field {field:?} to take its key from"
            ))),
        }
    }

    /// The partition that a key belongs to.
    pub fn partition_of(&self, key: &Key) -> u32 {
        // The hash's range is cut into equal parts: u64 hash × partitions / 2^64.
        let scaled = u128::from(key.hash64()) * self.inner.partitions.len() as u128;
        (scaled >> 64) as u32
    }

    pub(crate) fn partitions(&self) -> &[Partition] {
        &self.inner.partitions
    }

    fn partition(&self, key: &Key) -> &Partition {
        &self.inner.partitions[self.partition_of(key) as usize]
    }

    /// Makes `document` the document under `key`, whole.
    ///
    /// # Errors
    /// As of [`write`](Collection::write).
    pub fn put(&self, key: &Key, document: &Document) -> Result<Written> {
        self.write(Write::put(key.clone(), document.clone()))
    }

    /// Changes the document under `key` by a JSON merge patch (RFC 7396).
    ///
    /// # Errors
    /// As of [`write`](Collection::write); `NotFound` if there is none.
    pub fn patch(&self, key: &Key, patch: &Document) -> Result<Written> {
        self.write(Write::patch(key.clone(), patch.clone()))
    }

    /// Removes the document under `key`; the effect is `Unchanged` if there is none.
    ///
    /// # Errors
    /// As of [`write`](Collection::write).
    pub fn delete(&self, key: &Key) -> Result<Written> {
        self.write(Write::delete(key.clone()))
    }

    /// Does one write, acknowledged as the collection's durability says.
    ///
    /// # Errors
    /// `Conflict` if its condition does not hold; `NotFound` for a patch of nothing; `Full` when
    /// disk or memory has no room; `ReadOnly` after a failed sync.
    pub fn write(&self, write: Write) -> Result<Written> {
        let number = self.partition_of(&write.key);
        let mut results = self.write_groups(&[(number, std::slice::from_ref(&write))], None);
        results
            .pop()
            .and_then(|mut group| group.pop())
            .unwrap_or_else(|| Err(Error::Invalid("an empty write".into())))
    }

    /// Does many writes, acknowledged together; `durability` overrides the collection's. Results
    /// are in the order of the writes, each judged on its own: one that fails does not keep the
    /// others from being done. Writes to one key are done in their order. What a partition gets of
    /// the batch survives a crash whole or not at all (in parts of about 32 MiB); the batch as a
    /// whole is not atomic across partitions.
    pub fn write_batch(
        &self,
        writes: Vec<Write>,
        durability: Option<Durability>,
    ) -> Vec<Result<Written>> {
        let count = writes.len();
        let mut by_partition: BTreeMap<u32, (Vec<usize>, Vec<Write>)> = BTreeMap::new();
        for (index, write) in writes.into_iter().enumerate() {
            let (indices, writes) = by_partition
                .entry(self.partition_of(&write.key))
                .or_default();
            indices.push(match seeded(Bug::ResultsInOtherPlaces) {
                true => indices.len(),
                false => index,
            });
            writes.push(write);
        }
        let groups: Vec<(u32, &[Write])> = by_partition
            .iter()
            .map(|(number, (_, writes))| (*number, writes.as_slice()))
            .collect();
        let grouped = self.write_groups(&groups, durability);
        let mut results: Vec<Option<Result<Written>>> = Vec::new();
        results.resize_with(count, || None);
        for ((indices, _), group) in by_partition.values().zip(grouped) {
            for (index, result) in indices.iter().zip(group) {
                results[*index] = Some(result);
            }
        }
        results
            .into_iter()
            .map(|result| result.unwrap_or(Err(Error::Closed)))
            .collect()
    }

    /// Does writes that the caller has grouped by [`partition`](Collection::partition_of), as
    /// [`write_batch`](Collection::write_batch) does. Each group is the number of a partition and
    /// writes to it in their order; a partition may have several groups. Returns the results of
    /// each group, in the order of its writes. If a key is not of the partition of its group,
    /// nothing is written and all results are `Invalid`.
    pub fn write_grouped(
        &self,
        groups: &[(u32, &[Write])],
        durability: Option<Durability>,
    ) -> Vec<Vec<Result<Written>>> {
        let is_misplaced = |(number, writes): &(u32, &[Write])| {
            let mut keys = writes.iter().map(|write| &write.key);
            keys.any(|key| self.partition_of(key) != *number)
        };
        if groups.iter().any(is_misplaced) {
            let error = || {
                Err(Error::Invalid(
                    "a key is not of its group's partition".into(),
                ))
            };
            let refused = |(_, writes): &(u32, &[Write])| writes.iter().map(|_| error()).collect();
            return groups.iter().map(refused).collect();
        }
        self.write_groups(groups, durability)
    }

    /// Writes all groups, then acknowledges all, so the syncs of several partitions are not taken
    /// in turn with the work. Each key is of the partition of its group.
    fn write_groups(
        &self,
        groups: &[(u32, &[Write])],
        durability: Option<Durability>,
    ) -> Vec<Vec<Result<Written>>> {
        let durability = durability.unwrap_or(self.settings().durability);
        let mut results: Vec<Vec<Result<Written>>> = Vec::with_capacity(groups.len());
        let mut pending = Vec::with_capacity(groups.len());
        for (group, (number, writes)) in groups.iter().enumerate() {
            let mut done: Vec<Result<Written>> = Vec::with_capacity(writes.len());
            let partition = &self.inner.partitions[*number as usize];
            while done.len() < writes.len() {
                match partition.write(&writes[done.len()..]) {
                    Ok((part, position)) => {
                        pending.push((group, done.len()..done.len() + part.len(), position));
                        done.extend(part.into_iter().map(|result| result.map_err(Error::from)));
                    }
                    Err(error) => {
                        let error = Error::from(error);
                        done.resize_with(writes.len(), || Err(error.clone()));
                    }
                }
            }
            results.push(done);
        }
        for (group, written, position) in pending {
            let partition = &self.inner.partitions[groups[group].0 as usize];
            if let Err(error) = partition.acknowledge(position, durability) {
                let error = Error::from(error);
                results[group][written].fill_with(|| Err(error.clone()));
            }
        }
        results
    }

    /// The document under `key`.
    ///
    /// # Errors
    /// `Corrupt` if the bytes on disk are damaged: the error names file and offset.
    pub fn get(&self, key: &Key) -> Result<Option<Found>> {
        Ok(self.partition(key).get(key)?)
    }

    /// The documents under many keys, in the order asked for, each partition as of now. A
    /// [`view`](Collection::view) gives them as of the moment when it was made.
    ///
    /// # Errors
    /// As of [`get`](Collection::get).
    pub fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Found>>> {
        read::get_many(self, keys, |partition, keys| {
            self.inner.partitions[partition].get_many(keys)
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
        let partitions = self
            .inner
            .partitions
            .iter()
            .map(Partition::view)
            .collect::<quire_collection::Result<_>>()?;
        Ok(View::new(self.clone(), partitions))
    }

    /// The changes from position `from` on, in every partition, as far as they are visible now:
    /// each partition's in order, partitions interleaved by time. A change that a later one of the
    /// same document superseded may be missing, if it was compacted away.
    ///
    /// # Errors
    /// `Gone` if a log no longer holds that position.
    pub fn tail(&self, from: Position) -> Result<Tail> {
        let seen = Position(from.0.saturating_sub(1));
        self.tail_after(&vec![seen; self.inner.partitions.len()])
    }

    /// The changes after one position per partition, as [`Tail::seen`] gives them.
    ///
    /// # Errors
    /// As of [`tail`](Collection::tail); `Invalid` if there is not one position per partition.
    pub fn tail_after(&self, seen: &[Position]) -> Result<Tail> {
        if seen.len() != self.inner.partitions.len() {
            let what = format!(
                "{} positions for {} partitions",
                seen.len(),
                self.inner.partitions.len()
            );
            return Err(Error::Invalid(what));
        }
        Tail::new(&self.inner.partitions, seen)
    }

    /// The last position that is visible of each partition.
    pub fn positions(&self) -> Vec<Position> {
        let partitions = self.inner.partitions.iter();
        partitions.map(Partition::position).collect()
    }

    /// Waits until something newer than `seen` (one position per partition) is visible, and says
    /// whether it is; false when the time is over or the collection is closed.
    pub fn wait_for_change(&self, seen: &[Position], timeout: Duration) -> bool {
        let newer = || {
            self.inner
                .partitions
                .iter()
                .zip(seen)
                .any(|(partition, seen)| partition.position() > *seen)
        };
        let mut closed = false;
        self.inner.changed.wait_until(
            &mut || {
                closed = self
                    .inner
                    .partitions
                    .iter()
                    .any(|partition| partition.view().is_err());
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
        self.each(Partition::compact)
    }

    /// Whether this is the only handle to it.
    pub(crate) fn is_unshared(&self) -> bool {
        Arc::strong_count(&self.inner) == 1
    }

    pub(crate) fn close(&self) -> Result<()> {
        self.each(Partition::close)
    }

    fn each(&self, act: impl Fn(&Partition) -> quire_collection::Result<()>) -> Result<()> {
        first_error(
            self.inner
                .partitions
                .iter()
                .map(|partition| Ok(act(partition)?)),
        )
    }

    /// Figures.
    ///
    /// # Errors
    /// `Closed`.
    pub fn stats(&self) -> Result<CollectionStats> {
        let mut stats = CollectionStats {
            name: self.inner.name.clone(),
            documents: self.count()?,
            partitions: self.settings().partitions,
            ..CollectionStats::default()
        };
        for partition in &self.inner.partitions {
            stats.add(&partition.stats());
        }
        for retention in &self.inner.retention {
            stats.retention_deleted += retention.deleted();
            stats.background_errors.extend(retention.error());
        }
        Ok(stats)
    }
}
