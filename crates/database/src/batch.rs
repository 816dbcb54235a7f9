//! Batches: writes that are decided and acknowledged together.

use crate::collection::Collection;
use crate::collection_state::CollectionState;
use crate::layout::Layout;
use crate::settings::CollectionSettings;
use crate::{Error, Result};
use quire_collection::{Triggers, Write, Written};
use quire_model::{Document, Key};
use quire_seeded::{Bug, seeded};
use quire_store::Durability;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Writes that are gathered, then done together. [`Collection::batch`] begins one.
///
/// What a partition gets of a batch is one group of records in its log: it survives a crash whole
/// or not at all. (A group is cut at about 32 MiB of records.) A batch over several partitions is
/// atomic in each of them, and not as a whole: after a crash one partition may have its part and
/// another not. [`write_atomic`](Batch::write_atomic) does all of a batch or nothing, for writes to
/// one partition.
///
/// ```
/// use quiredb::{CollectionSettings, Database, Document, ErrorKind, Key};
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path())?;
/// let one = CollectionSettings { partitions: 1, ..CollectionSettings::default() };
/// let accounts = database.create_collection("accounts", one)?;
///
/// let mut opening = accounts.batch();
/// for json in [r#"{"_id":"ann","euros":50}"#, r#"{"_id":"bob","euros":0}"#] {
///     opening.put(&Document::from_json(json.as_bytes())?)?;
/// }
/// for result in opening.write() {
///     result?; // each write has a result of its own
/// }
///
/// // Both writes are done, or none of them.
/// let mut transfer = accounts.batch();
/// transfer.patch(&Key::parse("ann")?, &Document::from_json(br#"{"euros":20}"#)?);
/// transfer.patch(&Key::parse("eve")?, &Document::from_json(br#"{"euros":30}"#)?);
/// assert_eq!(transfer.write_atomic().unwrap_err().kind(), ErrorKind::NotFound);
/// let ann = accounts.get(&Key::parse("ann")?)?.expect("it was written above");
/// assert_eq!(ann.document.to_json(), r#"{"_id":"ann","euros":50}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a batch does nothing until `write` or `write_atomic` is called"]
pub struct Batch<'c> {
    collection: &'c CollectionState,
    writes: Vec<Write>,
    durability: Option<Durability>,
    /// Documents may name another key than their own: they are copied as they are.
    is_copy: bool,
}

impl Collection {
    /// Begins a batch of writes.
    pub fn batch(&self) -> Batch<'_> {
        Batch {
            collection: self.state(),
            writes: Vec::new(),
            durability: None,
            is_copy: false,
        }
    }
}

/// Begins a batch of documents that were written before, and are copied whatever keys they name.
pub(crate) fn copies(collection: &Collection) -> Batch<'_> {
    Batch {
        is_copy: true,
        ..collection.batch()
    }
}

impl Batch<'_> {
    /// How durable the writes are when they are acknowledged. The collection's setting if `None`,
    /// the default.
    pub fn durability(mut self, durability: impl Into<Option<Durability>>) -> Self {
        self.durability = durability.into();
        self
    }

    /// Adds writes that are made already, with their conditions. The order is kept.
    pub fn writes(mut self, writes: impl IntoIterator<Item = Write>) -> Self {
        match self.writes.is_empty() {
            // The allocation of a vector is taken over.
            true => self.writes = writes.into_iter().collect(),
            false => self.writes.extend(writes),
        }
        self
    }

    /// Adds a write that is made already, with its condition.
    pub fn push(&mut self, write: Write) {
        self.writes.push(write);
    }

    /// Adds: the document is put under the key in its key field.
    ///
    /// # Errors
    /// `Invalid` if that field is missing or can't be a key; the batch is then as it was.
    pub fn put(&mut self, document: &Document) -> Result<()> {
        let key = self.collection.key_of(document)?;
        self.push(Write::put(key, document.clone()));
        Ok(())
    }

    /// Adds: the document is put under `key`.
    pub fn put_at(&mut self, key: &Key, document: &Document) {
        self.push(Write::put(key.clone(), document.clone()));
    }

    /// Adds: the document under `key` is changed by a JSON merge patch (RFC 7396).
    pub fn patch(&mut self, key: &Key, patch: &Document) {
        self.push(Write::patch(key.clone(), patch.clone()));
    }

    /// Adds: the document under `key` is removed.
    pub fn delete(&mut self, key: &Key) {
        self.push(Write::delete(key.clone()));
    }

    /// How many writes it has.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether it has no writes.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Does the writes and acknowledges them together. Returns a result for each write, in their
    /// order. Each is judged on its own: one that fails does not keep the others from being done.
    /// Writes to one key are done in their order. One whose document names another key in the key
    /// field, or in `_id`, or contradicts the mapping, is `Invalid`.
    pub fn write(self) -> Vec<Result<Written>> {
        let durability = self.durability_or_default();
        let rules = self.rules();
        let attached = match self.is_copy {
            true => Arc::default(),
            false => self.collection.triggers.all(),
        };
        let settings = self.collection.settings();
        let check = |write: &Write| checked(&settings, write);
        let triggers = Triggers::new(&attached, &check);
        let mut results: Vec<Option<Result<Written>>> = Vec::new();
        results.resize_with(self.writes.len(), || None);
        let right = self
            .writes
            .into_iter()
            .enumerate()
            .filter(|(index, write)| {
                let checked = rules.as_ref().map(|rules| rules.check_write(write));
                match checked {
                    Some(Err(error)) => results[*index] = Some(Err(error)),
                    Some(Ok(())) | None => return true,
                }
                false
            });
        let written = self.collection.write(|layout| {
            let (places, groups) = by_partition(layout, right);
            (places, write_groups(layout, groups, triggers, durability))
        });
        scatter(written, &mut results);
        results
            .into_iter()
            .map(|result| result.unwrap_or(Err(Error::Closed)))
            .collect()
    }

    /// Does all writes or none of them, also over a crash: they are one group of records in the log
    /// of one partition. Returns what each did, in their order.
    ///
    /// # Errors
    /// Nothing was written if it is `Invalid` (the keys belong to several partitions:
    /// [`Collection::partition_of`] tells; or a document names another key than its own),
    /// `TooLarge` (more than about 32 MiB of records), or what is wrong with the first write that
    /// fails: `Conflict`, `NotFound`. Otherwise as of
    /// [`Collection::put`].
    pub fn write_atomic(self) -> Result<Vec<Written>> {
        let Some(first) = self.writes.first() else {
            return Ok(Vec::new());
        };
        if let Some(rules) = self.rules() {
            let mut checks = self.writes.iter().map(|write| rules.check_write(write));
            checks.try_for_each(|checked| checked)?;
        }
        let attached = self.collection.triggers.all();
        let settings = self.collection.settings();
        let check = |write: &Write| checked(&settings, write);
        let triggers = Triggers::new(&attached, &check);
        let durability = self.durability_or_default();
        self.collection.write(|layout| {
            let number = layout.partition_of(&first.key);
            let other = |write: &&Write| layout.partition_of(&write.key) != number;
            if let Some(other) = self.writes.iter().find(other) {
                return Err(Error::Invalid(format!(
                    "an atomic batch is for one partition, and the keys {} and {} belong to two",
                    first.key, other.key
                )));
            }
            layout.expect_expired(number, &self.writes);
            let partition = layout.of(&first.key);
            let (written, position) = partition.write_whole(&self.writes, triggers)?;
            assert_eq!(
                written.len(),
                self.writes.len(),
                "an atomic batch does each of its writes"
            );
            partition.acknowledge(position, durability)?;
            Ok(written)
        })
    }

    /// The settings that documents are checked against, if they are checked.
    fn rules(&self) -> Option<Arc<CollectionSettings>> {
        (!self.is_copy).then(|| self.collection.settings.read().clone())
    }

    fn durability_or_default(&self) -> Durability {
        let setting = || self.collection.settings.read().durability;
        self.durability.unwrap_or_else(setting)
    }
}

impl Collection {
    /// Does writes that the caller has grouped by [`partition`](Collection::partition_of), as
    /// [`Batch::write`] does. Each group is the number of a partition and writes to it in their
    /// order; a partition may have several groups. Returns the results of each group, in the order
    /// of its writes. A group with a key of another partition, as there is after a split, is dealt
    /// out by its keys. A write whose document names another key in the key field, or in `_id`, is
    /// `Invalid` alone. Owned groups are dropped before their records are compressed and synced:
    /// then a large document is not held beside them.
    pub fn write_grouped<W: AsRef<[Write]>>(
        &self,
        groups: Vec<(u32, W)>,
        durability: Option<Durability>,
    ) -> Vec<Vec<Result<Written>>> {
        let settings = self.settings();
        let durability = durability.unwrap_or(settings.durability);
        let attached = self.state().triggers.all();
        let check = |write: &Write| checked(&settings, write);
        let triggers = Triggers::new(&attached, &check);
        let is_right = |write: &Write| settings.check_write(write).is_ok();
        let are_right = |(_, writes): &(u32, W)| writes.as_ref().iter().all(is_right);
        if !groups.iter().all(are_right) {
            return self.write_right_ones(&groups, durability, &settings, triggers);
        }
        self.state()
            .write(|layout| write_placed(layout, groups, triggers, durability))
    }

    /// Does the writes that keep the rules of the collection; the others are refused.
    fn write_right_ones<W: AsRef<[Write]>>(
        &self,
        groups: &[(u32, W)],
        durability: Durability,
        rules: &CollectionSettings,
        triggers: Triggers<'_>,
    ) -> Vec<Vec<Result<Written>>> {
        let check = |write: &Write| rules.check_write(write);
        let right = |(number, writes): &(u32, W)| {
            let right = writes.as_ref().iter().filter(|write| check(write).is_ok());
            (*number, right.cloned().collect::<Vec<Write>>())
        };
        let right = groups.iter().map(right).collect();
        let done = self
            .state()
            .write(|layout| write_placed(layout, right, triggers, durability));
        assert_eq!(done.len(), groups.len(), "each group has its results");
        let merged = groups.iter().zip(done).map(|((_, writes), done)| {
            let mut done = done.into_iter();
            let result =
                |write| check(write).and_then(|()| done.next().unwrap_or(Err(Error::Closed)));
            writes.as_ref().iter().map(result).collect()
        });
        merged.collect()
    }
}

/// Where writes were in what the caller gave, by group.
type Places = Vec<Vec<usize>>;

/// Writes by the partitions of their keys, each group in their order, and where each was.
fn by_partition(
    layout: &Layout,
    writes: impl Iterator<Item = (usize, Write)>,
) -> (Places, Vec<(u32, Vec<Write>)>) {
    let mut by_partition: BTreeMap<u32, (Vec<usize>, Vec<Write>)> = BTreeMap::new();
    for (place, write) in writes {
        let number = layout.partition_of(&write.key);
        let (places, writes) = by_partition.entry(number).or_default();
        places.push(match seeded(Bug::ResultsInOtherPlaces) {
            true => places.len(),
            false => place,
        });
        writes.push(write);
    }
    let by_partition = by_partition.into_iter();
    by_partition
        .map(|(number, (places, writes))| (places, (number, writes)))
        .unzip()
}

/// Puts the results of groups where their writes were.
fn scatter(
    (places, results): (Places, Vec<Vec<Result<Written>>>),
    to: &mut [Option<Result<Written>>],
) {
    for (places, results) in places.into_iter().zip(results) {
        assert_eq!(
            places.len(),
            results.len(),
            "each write of a group has a result"
        );
        for (place, result) in places.into_iter().zip(results) {
            to[place] = Some(result);
        }
    }
}

/// Writes groups; if they were made when the collection had other partitions, by their keys.
fn write_placed<W: AsRef<[Write]>>(
    layout: &Layout,
    groups: Vec<(u32, W)>,
    triggers: Triggers<'_>,
    durability: Durability,
) -> Vec<Vec<Result<Written>>> {
    let is_misplaced = |(number, writes): &(u32, W)| {
        let mut keys = writes.as_ref().iter().map(|write| &write.key);
        keys.any(|key| layout.partition_of(key) != *number)
    };
    if !groups.iter().any(is_misplaced) {
        return write_groups(layout, groups, triggers, durability);
    }
    let lengths = groups.iter().map(|(_, writes)| writes.as_ref().len());
    let lengths: Vec<usize> = lengths.collect();
    let writes = groups.iter().flat_map(|(_, writes)| writes.as_ref());
    let (places, dealt) = by_partition(layout, writes.cloned().enumerate());
    drop(groups);
    let mut results = Vec::new();
    results.resize_with(lengths.iter().sum(), || None);
    let written = write_groups(layout, dealt, triggers, durability);
    scatter((places, written), &mut results);
    let mut results = results.into_iter();
    let of_group = |length: usize| {
        let results = results.by_ref().take(length);
        results
            .map(|one| one.unwrap_or(Err(Error::Closed)))
            .collect()
    };
    lengths.into_iter().map(of_group).collect()
}

/// Checks what a trigger makes of a document, as writes are checked.
fn checked(settings: &CollectionSettings, write: &Write) -> std::result::Result<(), String> {
    settings
        .check_write(write)
        .map_err(|error| error.to_string())
}

/// Writes all groups, then acknowledges all, so the syncs of several partitions are not taken in
/// turn with the work. Each key is of the partition of its group. Returns the results by group. A
/// group is dropped once its records are made.
fn write_groups<W: AsRef<[Write]>>(
    layout: &Layout,
    groups: Vec<(u32, W)>,
    triggers: Triggers<'_>,
    durability: Durability,
) -> Vec<Vec<Result<Written>>> {
    let mut results: Vec<Vec<Result<Written>>> = Vec::with_capacity(groups.len());
    let mut pending = Vec::with_capacity(groups.len());
    for (group, (number, writes)) in groups.into_iter().enumerate() {
        let writes = writes.as_ref();
        layout.expect_expired(number, writes);
        let mut done: Vec<Result<Written>> = Vec::with_capacity(writes.len());
        let partition = &layout.partitions()[number as usize];
        while done.len() < writes.len() {
            match partition.write(&writes[done.len()..], triggers) {
                Ok((part, position)) => {
                    assert!(!part.is_empty(), "a partition decides one write at least");
                    let written = done.len()..done.len() + part.len();
                    pending.push((group, partition, written, position));
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
    for (group, partition, written, position) in pending {
        if let Err(error) = partition.acknowledge(position, durability) {
            let error = Error::from(error);
            results[group][written].fill_with(|| Err(error.clone()));
        }
    }
    results
}
