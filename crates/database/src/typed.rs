//! Documents as values of Rust types, by serde.

mod from_document;
mod path;
mod to_document;

use crate::Result;
use crate::collection::Collection;
use crate::view::View;
use quire_collection::Written;
use quire_model::Key;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use from_document::from_document;
pub use to_document::to_document;

impl Collection {
    /// Makes a value the document under the key that it has in the collection's key field.
    ///
    /// ```
    /// use quiredb::{CollectionSettings, Database, Key};
    /// use serde::{Deserialize, Serialize};
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path())?;
    ///
    /// #[derive(Serialize, Deserialize, PartialEq, Debug)]
    /// struct Book {
    ///     #[serde(rename = "_id")]
    ///     id: String,
    ///     title: String,
    ///     year: Option<u16>,
    /// }
    ///
    /// let books = database.create_collection("books", CollectionSettings::default())?;
    /// let emma = Book { id: "emma".into(), title: "Emma".into(), year: Some(1815) };
    /// books.put_as(&emma)?;
    /// assert_eq!(books.get_as::<Book>(&Key::parse("emma")?)?, Some(emma));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Invalid` if the value can't be a document: the error names the field; otherwise as of
    /// [`put`](Collection::put).
    pub fn put_as<T: Serialize + ?Sized>(&self, value: &T) -> Result<Written> {
        self.write().put_as(value)
    }

    /// The document under `key`, as a value.
    ///
    /// # Errors
    /// `Invalid` if the document is no such value: the error names the field; otherwise as of
    /// [`get`](Collection::get).
    pub fn get_as<T: DeserializeOwned>(&self, key: &Key) -> Result<Option<T>> {
        let found = self.get(key)?;
        found
            .map(|found| from_document(&found.document))
            .transpose()
    }
}

impl View {
    /// The document under `key`, as a value.
    ///
    /// # Errors
    /// As of [`Collection::get_as`].
    pub fn get_as<T: DeserializeOwned>(&self, key: &Key) -> Result<Option<T>> {
        let found = self.get(key)?;
        found
            .map(|found| from_document(&found.document))
            .transpose()
    }
}

#[cfg(test)]
mod tests;
