//! Batches: writes that are decided and acknowledged together.

use crate::collection::Collection;
use crate::collection_state::CollectionState;
use crate::{Error, Result};
use quire_collection::{Write, Written};
use quire_model::{Document, Key};
use quire_seeded::{Bug, seeded};
use quire_store::Durability;
use std::collections::BTreeMap;

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
}

impl Collection {
    /// Begins a batch of writes.
    pub fn batch(&self) -> Batch<'_> {
        Batch {
            collection: self.state(),
            writes: Vec::new(),
            durability: None,
        }
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
    /// Writes to one key are done in their order.
    pub fn write(self) -> Vec<Result<Written>> {
        let durability = self.durability_or_default();
        let mut results: Vec<Option<Result<Written>>> = Vec::new();
        results.resize_with(self.writes.len(), || None);
        let mut by_partition: BTreeMap<u32, (Vec<usize>, Vec<Write>)> = BTreeMap::new();
        for (index, write) in self.writes.into_iter().enumerate() {
            let (indices, writes) = by_partition
                .entry(self.collection.partition_of(&write.key))
                .or_default();
            indices.push(match seeded(Bug::ResultsInOtherPlaces) {
                true => indices.len(),
                false => index,
            });
            writes.push(write);
        }
        let mut pending = Vec::new();
        for (number, (indices, writes)) in &by_partition {
            let partition = &self.collection.partitions[*number as usize];
            let mut done = 0;
            while done < writes.len() {
                match partition.write(&writes[done..]) {
                    Ok((part, position)) => {
                        assert!(!part.is_empty(), "a partition decides one write at least");
                        let indices = &indices[done..done + part.len()];
                        done += part.len();
                        for (index, result) in indices.iter().zip(part) {
                            results[*index] = Some(result.map_err(Error::from));
                        }
                        pending.push((partition, position, indices));
                    }
                    Err(error) => {
                        let error = Error::from(error);
                        for index in &indices[done..] {
                            results[*index] = Some(Err(error.clone()));
                        }
                        break;
                    }
                }
            }
        }
        for (partition, position, indices) in pending {
            if let Err(error) = partition.acknowledge(position, durability) {
                let error = Error::from(error);
                for index in indices {
                    results[*index] = Some(Err(error.clone()));
                }
            }
        }
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
    /// [`Collection::partition_of`] tells), `TooLarge` (more than about 32 MiB of records), or what
    /// is wrong with the first write that fails: `Conflict`, `NotFound`. Otherwise as of
    /// [`Collection::put`].
    pub fn write_atomic(self) -> Result<Vec<Written>> {
        let Some(first) = self.writes.first() else {
            return Ok(Vec::new());
        };
        let number = self.collection.partition_of(&first.key);
        let other = |write: &&Write| self.collection.partition_of(&write.key) != number;
        if let Some(other) = self.writes.iter().find(other) {
            return Err(Error::Invalid(format!(
                "an atomic batch is for one partition, and the keys {} and {} belong to two",
                first.key, other.key
            )));
        }
        let partition = &self.collection.partitions[number as usize];
        let (written, position) = partition.write_whole(&self.writes)?;
        assert_eq!(
            written.len(),
            self.writes.len(),
            "an atomic batch does each of its writes"
        );
        partition.acknowledge(position, self.durability_or_default())?;
        Ok(written)
    }

    fn durability_or_default(&self) -> Durability {
        let setting = || self.collection.settings.read().durability;
        self.durability.unwrap_or_else(setting)
    }
}
