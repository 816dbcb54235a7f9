//! Wide collections of a database.

use crate::Result;
use crate::database::Database;
use crate::settings::CollectionSettings;
use crate::wide::WideCollection;
use quire_collection::IndexedFields;
use quire_wide::Schema;

impl Database {
    /// Makes a wide collection of these columns. Of the settings those are used that concern the
    /// key field, partitions, durability and the log; it has no search index. Durable when it
    /// returns.
    ///
    /// # Errors
    /// `AlreadyExists`; `Invalid` for a bad name or setting.
    pub fn create_wide_collection(
        &self,
        name: &str,
        schema: Schema,
        settings: CollectionSettings,
    ) -> Result<WideCollection> {
        let settings = CollectionSettings {
            index: IndexedFields::none(),
            wide: Some(schema),
            ..settings
        };
        self.create_wide(name, settings)
    }

    /// The wide collection of this name.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for a plain collection; `Corrupt` if its files are damaged so that it
    /// can't be opened.
    pub fn wide_collection(&self, name: &str) -> Result<WideCollection> {
        self.open_wide(name)
    }

    /// Changes the columns of a wide collection while it is served: `alter` makes the new schema of
    /// the one that it has, and the change is one small write, whatever the collection holds. A
    /// codec or block size of a group is used from the next opening on. Durable when it returns.
    ///
    /// ```
    /// use quiredb::Database;
    /// use quiredb::wide::{ColumnType, Schema};
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path())?;
    /// let schema = Schema::new().with_column("title", ColumnType::String, "meta")?;
    /// database.create_wide_collection("pages", schema, Default::default())?;
    /// let pages = database.alter_wide_collection("pages", |schema| {
    ///     schema
    ///         .with_renamed("title", "heading")?
    ///         .with_column("links", ColumnType::Json, "meta")
    /// })?;
    /// assert_eq!(pages.schema().columns().len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`wide_collection`](Database::wide_collection), and what `alter` says.
    pub fn alter_wide_collection(
        &self,
        name: &str,
        alter: impl FnOnce(Schema) -> quire_wide::Result<Schema>,
    ) -> Result<WideCollection> {
        self.change_schema(name, alter)
    }
}
