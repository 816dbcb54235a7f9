//! Single writes, and their options.

use crate::collection::Collection;
use crate::typed::to_document;
use crate::{Error, Result};
use quire_collection::{Condition, Expiry, Write, Written};
use quire_model::{Document, Key, Position};
use quire_store::Durability;
use serde::Serialize;

/// A single write with options. [`Collection::write`] begins one; `put`, `patch` or `delete` does
/// it.
///
/// ```
/// use quiredb::{CollectionSettings, Database, Document, Durability, ErrorKind, Key};
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path())?;
/// let books = database.create_collection("books", CollectionSettings::default())?;
/// let emma = Document::from_json(br#"{"_id":"emma","price":8.00}"#)?;
///
/// let written = books.write().if_absent().durability(Durability::None).put(&emma)?;
/// let again = books.write().if_absent().put(&emma);
/// assert_eq!(again.unwrap_err().kind(), ErrorKind::Conflict);
/// books.write().if_version(written.version).delete(&Key::parse("emma")?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is written until `put`, `patch` or `delete` is called"]
pub struct WriteBuilder<'c> {
    collection: &'c Collection,
    condition: Condition,
    expiry: Expiry,
    durability: Option<Durability>,
}

impl WriteBuilder<'_> {
    /// How durable the write is when it is acknowledged. The collection's setting if `None`, the
    /// default.
    pub fn durability(mut self, durability: impl Into<Option<Durability>>) -> Self {
        self.durability = durability.into();
        self
    }

    /// What must hold for the write to be done; otherwise it is a `Conflict`.
    pub fn condition(mut self, condition: Condition) -> Self {
        self.condition = condition;
        self
    }

    /// Only if no document has the key.
    pub fn if_absent(self) -> Self {
        self.condition(Condition::IfAbsent)
    }

    /// Only if the document's version is this one.
    pub fn if_version(self, version: Position) -> Self {
        self.condition(Condition::IfVersion(version))
    }

    /// Gives the document an external version, which must be greater than the one it has. See
    /// [`Condition::External`].
    pub fn external(self, version: u64) -> Self {
        self.condition(Condition::External(version))
    }

    /// When the document expires. [`Expiry::Usual`] by default: one that is put never does.
    ///
    /// ```
    /// use quiredb::{CollectionSettings, Database, Document, Expiry, Key};
    /// use std::time::{Duration, SystemTime, UNIX_EPOCH};
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path())?;
    /// let sessions = database.create_collection("sessions", CollectionSettings::default())?;
    /// let session = Document::from_json(br#"{"_id":"s1","user":7}"#)?;
    ///
    /// let in_an_hour = SystemTime::now() + Duration::from_secs(3600);
    /// let micros = in_an_hour.duration_since(UNIX_EPOCH)?.as_micros() as i64;
    /// sessions.write().expiry(Expiry::At(micros)).put(&session)?;
    /// let found = sessions.get(&Key::parse("s1")?)?.expect("it has not expired yet");
    /// assert_eq!(found.expires_micros, Some(micros));
    ///
    /// sessions.write().expiry(Expiry::At(0)).put(&session)?;
    /// assert_eq!(sessions.get(&Key::parse("s1")?)?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn expiry(mut self, expiry: Expiry) -> Self {
        self.expiry = expiry;
        self
    }

    /// As [`Collection::put`].
    ///
    /// # Errors
    /// As of [`Collection::put`].
    pub fn put(self, document: &Document) -> Result<Written> {
        let key = self.collection.key_of(document)?;
        self.run(Write::put(key, document.clone()))
    }

    /// As [`Collection::put_at`].
    ///
    /// # Errors
    /// As of [`Collection::put`].
    pub fn put_at(self, key: &Key, document: &Document) -> Result<Written> {
        self.run(Write::put(key.clone(), document.clone()))
    }

    /// As [`Collection::put_as`].
    ///
    /// # Errors
    /// As of [`Collection::put_as`].
    pub fn put_as<T: Serialize + ?Sized>(self, value: &T) -> Result<Written> {
        self.put(&to_document(value)?)
    }

    /// As [`Collection::patch`].
    ///
    /// # Errors
    /// As of [`Collection::patch`].
    pub fn patch(self, key: &Key, patch: &Document) -> Result<Written> {
        self.run(Write::patch(key.clone(), patch.clone()))
    }

    /// As [`Collection::delete`].
    ///
    /// # Errors
    /// As of [`Collection::put`].
    pub fn delete(self, key: &Key) -> Result<Written> {
        self.run(Write::delete(key.clone()))
    }

    /// Does a write that is made already. Its own condition and expiry hold where none was set
    /// here.
    ///
    /// # Errors
    /// As of [`Collection::put`]; `NotFound` for a patch of nothing.
    pub fn run(self, mut write: Write) -> Result<Written> {
        if self.condition != Condition::Always {
            write.condition = self.condition;
        }
        if self.expiry != Expiry::Usual {
            write.expiry = self.expiry;
        }
        let batch = self.collection.batch().durability(self.durability);
        let mut results = batch.writes([write]).write();
        assert_eq!(results.len(), 1, "a batch has a result for each write");
        results.pop().unwrap_or(Err(Error::Closed))
    }
}

impl Collection {
    /// Begins a write with options: a condition, another durability.
    pub fn write(&self) -> WriteBuilder<'_> {
        WriteBuilder {
            collection: self,
            condition: Condition::Always,
            expiry: Expiry::Usual,
            durability: None,
        }
    }

    /// Makes `document` the document under the key that it has in the collection's key field
    /// (`_id` by default). It is visible, and as durable as the collection's settings say, when
    /// this returns.
    ///
    /// # Errors
    /// `Invalid` if the key field is missing or can't be a key; `Full` when disk or memory has no
    /// room; `ReadOnly` after a failed sync; `Conflict` if a condition does not hold.
    pub fn put(&self, document: &Document) -> Result<Written> {
        self.write().put(document)
    }

    /// Makes `document` the document under `key`. If it has the collection's key field, or `_id`,
    /// that is this key.
    ///
    /// # Errors
    /// As of [`put`](Collection::put); `Invalid` if it has another key in one of these fields.
    pub fn put_at(&self, key: &Key, document: &Document) -> Result<Written> {
        self.write().put_at(key, document)
    }

    /// Changes the document under `key` by a JSON merge patch (RFC 7396).
    ///
    /// # Errors
    /// As of [`put`](Collection::put); `NotFound` if there is none; `Invalid` if the patch has
    /// another key in the key field or in `_id`.
    pub fn patch(&self, key: &Key, patch: &Document) -> Result<Written> {
        self.write().patch(key, patch)
    }

    /// Removes the document under `key`; the effect is `Unchanged` if there is none.
    ///
    /// # Errors
    /// As of [`put`](Collection::put).
    pub fn delete(&self, key: &Key) -> Result<Written> {
        self.write().delete(key)
    }
}
