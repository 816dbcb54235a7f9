//! Wide collections of a database.

use crate::Result;
use crate::alias::Alias;
use crate::database::Database;
use crate::settings::CollectionSettings;
use crate::wide::WideCollection;
use quire_collection::IndexedFields;
use quire_wide::Schema;
use std::collections::BTreeMap;

impl Database {
    /// Makes a wide collection of these columns. Of the settings those are used that concern the
    /// key field, partitions, durability and the log. It has no search index until
    /// [`set_wide_index`](Database::set_wide_index) says of which columns. Durable when it returns.
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
            ..settings
        };
        self.create_wide_with_aliases(name, schema, settings, BTreeMap::new())
    }

    /// As [`create_wide_collection`](Database::create_wide_collection), with aliases and the search
    /// index of the settings from the start.
    ///
    /// # Errors
    /// As there; `Invalid` for aliases that break a rule, and for an index of a column family.
    pub fn create_wide_with_aliases(
        &self,
        name: &str,
        schema: Schema,
        settings: CollectionSettings,
        aliases: BTreeMap<String, Alias>,
    ) -> Result<WideCollection> {
        let settings = CollectionSettings {
            wide: Some(schema),
            ..settings
        };
        self.create_wide(name, settings, aliases)
    }

    /// The wide collection of this name, or the only one that has it as an alias without a filter.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for a plain collection, an alias of several collections, or with a
    /// filter; `Corrupt` if its files are damaged so that it can't be opened.
    pub fn wide_collection(&self, name: &str) -> Result<WideCollection> {
        match self.alias(name) {
            Some(alias) => self.open_wide(alias.only_unfiltered(name)?),
            None => self.open_wide(name),
        }
    }

    /// The wide collection that writes to this name go to: it, or that of an alias.
    ///
    /// # Errors
    /// As of [`wide_collection`](Database::wide_collection); `Invalid` for an alias without a
    /// collection for writes.
    pub fn wide_collection_for_writes(&self, name: &str) -> Result<WideCollection> {
        match self.alias(name) {
            Some(alias) => self.open_wide(alias.write_target(name)?),
            None => self.open_wide(name),
        }
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
