//! The wide collections of a database: made, opened, altered.

use super::{Database, State};
use crate::alias::Alias;
use crate::attached::AttachedTriggers;
use crate::catalog::{Catalog, Entry};
use crate::settings::CollectionSettings;
use crate::stored_code::triggers_of;
use crate::wide::WideCollection;
use crate::{Error, Result};
use quire_collection::IndexedFields;
use quire_wide::{Schema, WidePartition};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All partitions of a wide collection together keep this many bytes of the log that their trees do
/// not need, for followers that come back.
const OBSOLETE_BYTES_KEPT: u64 = 256 << 20;

impl Database {
    /// Makes a wide collection with these settings, which have its schema.
    pub(crate) fn create_wide(
        &self,
        name: &str,
        settings: CollectionSettings,
        aliases: BTreeMap<String, Alias>,
    ) -> Result<WideCollection> {
        self.check_tiers(&settings)?;
        self.create_wide_copy(name, settings, aliases)
    }

    /// As [`create_wide`](Database::create_wide), of what another database has: where a tier has no
    /// volume, the first takes the tables.
    pub(crate) fn create_wide_copy(
        &self,
        name: &str,
        settings: CollectionSettings,
        aliases: BTreeMap<String, Alias>,
    ) -> Result<WideCollection> {
        let mut state = self.state()?;
        let entry = self.new_entry(&state, name, settings, aliases)?;
        self.make_wide_locked(&mut state, &entry)
    }

    pub(super) fn make_wide_locked(
        &self,
        state: &mut State,
        entry: &Entry,
    ) -> Result<WideCollection> {
        self.make_partitions(state, entry, &[], WidePartition::create)?;
        self.open_wide_locked(state, entry)
    }

    /// The wide collection of this name, which is no alias.
    pub(crate) fn open_wide(&self, name: &str) -> Result<WideCollection> {
        if let Some(collection) = self.inner.opened.read().wide_named(name) {
            return Ok(collection.clone());
        }
        let mut state = self.state()?;
        let entry = self.entry(&state, name)?;
        self.open_wide_locked(&mut state, &entry)
    }

    /// Gives a wide collection the schema that `alter` makes of the one that it has.
    pub(crate) fn change_schema(
        &self,
        name: &str,
        alter: impl FnOnce(Schema) -> quire_wide::Result<Schema>,
    ) -> Result<WideCollection> {
        let mut state = self.state()?;
        let entry = self.entry(&state, name)?;
        let collection = self.open_wide_locked(&mut state, &entry)?;
        let before = collection.schema();
        let schema = alter((*before).clone())?;
        schema.check_follows(&before)?;
        check_seen(&collection, &before, &schema)?;
        let settings = CollectionSettings {
            wide: Some(schema.clone()),
            ..entry.settings.clone()
        };
        self.check_tiers(&settings)?;
        self.replace_schema(&mut state, &entry, (settings, schema), Schema::adds_to)
    }

    /// Changes for how long a wide collection keeps its changes for those who tail them; see
    /// [`CollectionSettings::log_retention_secs`]. Durable when it returns. What was written before
    /// there was a retention can't be tailed.
    ///
    /// # Errors
    /// As of [`wide_collection`](Database::wide_collection).
    pub fn set_log_retention(&self, name: &str, secs: u64) -> Result<WideCollection> {
        self.change_wide(name, ", which keeps its log", |settings| {
            settings.log_retention_secs = secs;
        })
    }

    /// Gives a wide collection a search index of these fields, or none. It is built in the
    /// background; until it is complete, queries read rows. Durable when it returns.
    ///
    /// ```
    /// use quiredb::wide::{ColumnType, Schema};
    /// use quiredb::{Database, IndexedFields};
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path())?;
    /// let schema = Schema::new()
    ///     .with_column("host", ColumnType::String, "meta")?
    ///     .with_column("html", ColumnType::Bytes, "content")?;
    /// database.create_wide_collection("pages", schema, Default::default())?;
    /// database.set_wide_index("pages", IndexedFields::none().with("host", true))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`wide_collection`](Database::wide_collection); `Invalid` for a column family.
    pub fn set_wide_index(&self, name: &str, index: IndexedFields) -> Result<WideCollection> {
        self.change_wide(name, ": change its setting index", |settings| {
            settings.index = index;
        })
    }

    /// Changes settings of a wide collection, but not its schema. `of_plain` says what holds for a
    /// plain one, which is refused.
    fn change_wide(
        &self,
        name: &str,
        of_plain: &str,
        change: impl FnOnce(&mut CollectionSettings),
    ) -> Result<WideCollection> {
        let mut state = self.state()?;
        let entry = match self.alias(name) {
            Some(alias) => self.entry(&state, alias.only_unfiltered(name)?)?,
            None => self.entry(&state, name)?,
        };
        let Some(schema) = entry.settings.wide.clone() else {
            let what = format!("collection {name:?} is a plain one{of_plain}");
            return Err(Error::Invalid(what));
        };
        let mut settings = entry.settings.clone();
        change(&mut settings);
        self.replace_schema(&mut state, &entry, (settings, schema), Schema::adds_to)
    }

    /// Gives a wide collection these settings, which have this schema. An index that is there goes
    /// on by it if `keeps_index` says so of the schema and the one before; else it is made anew.
    pub(super) fn replace_schema(
        &self,
        state: &mut State,
        entry: &Entry,
        (settings, schema): (CollectionSettings, Schema),
        keeps_index: fn(&Schema, &Schema) -> bool,
    ) -> Result<WideCollection> {
        settings.check()?;
        let collection = self.open_wide_locked(state, entry)?;
        let mut catalog = state.catalog.clone();
        let mut entries = catalog.collections.iter_mut();
        let mut index = None;
        if let Some(entry) = entries.find(|other| other.id == entry.id) {
            let before = entry.settings.wide.as_ref();
            let is_kept = before.is_none_or(|before| keeps_index(&schema, before));
            if entry.settings.index != settings.index || !is_kept {
                entry.index_generation = entry.index_generation.saturating_add(1);
            }
            entry.settings = settings.clone();
            index = entry.wide_index();
        }
        self.replace_catalog(state, catalog)?;
        // Before anybody uses the schema: an index has what is written by it.
        let indexed = collection.set_index(&Arc::new(schema.clone()), index.as_ref());
        collection.set_settings(settings, schema)?;
        indexed?;
        Ok(collection)
    }

    pub(super) fn open_wide_locked(
        &self,
        state: &mut State,
        entry: &Entry,
    ) -> Result<WideCollection> {
        let Some(schema) = &entry.settings.wide else {
            let what = format!("collection {:?} is a plain one, and not wide", entry.name);
            return Err(Error::Invalid(what));
        };
        if let Some(collection) = self.inner.opened.read().wide.get(&entry.id) {
            return Ok(collection.clone());
        }
        if state.in_doubt.contains(&entry.id) {
            self.replace_catalog(state, state.catalog.clone())?;
        }
        let begun = self.env().monotonic();
        let open = |number| self.open_wide_partition(&state.catalog, entry, number);
        let partitions = (0..entry.settings.partitions).map(open);
        let identity = state.catalog.identity_of(entry);
        let collection = WideCollection::new(
            (entry.name.clone(), identity, begun),
            entry.settings.clone(),
            schema.clone(),
            AttachedTriggers::new(triggers_of(&state.catalog, entry)?),
            (
                partitions.collect::<quire_wide::Result<_>>()?,
                entry.partitions_before.clone(),
            ),
            self.volumes(),
            self.inner.options.retention,
        );
        let (schema, index) = (collection.schema(), entry.wide_index());
        if let Err(error) = collection.set_index(&schema, index.as_ref()) {
            tracing::error!(collection = entry.name, %error, "an index could not be added");
        }
        let mut opened = self.inner.opened.write();
        opened.wide.insert(entry.id, collection.clone());
        Ok(collection)
    }

    /// Opens a partition of a wide collection.
    pub(super) fn open_wide_partition(
        &self,
        catalog: &Catalog,
        entry: &Entry,
        number: u32,
    ) -> quire_wide::Result<WidePartition> {
        let Some(schema) = &entry.settings.wide else {
            let what = format!("collection {:?} has no schema", entry.name);
            return Err(quire_wide::Error::Invalid(what));
        };
        let mut options = self.store_options(&entry.settings);
        options.log.obsolete_bytes_kept =
            OBSOLETE_BYTES_KEPT / u64::from(entry.settings.partitions.max(1));
        options.log_held = entry.settings.log_retention().is_some();
        WidePartition::open(
            Arc::clone(&self.inner.shared),
            self.place(catalog, entry, number),
            number,
            options,
            (schema, entry.wide_index().as_ref()),
            Arc::clone(&self.inner.changed),
        )
    }

    /// Whether this is the name of a wide collection, or an alias of one alone.
    pub fn is_wide(&self, name: &str) -> bool {
        let alias = self.alias(name);
        let only = alias.as_ref().and_then(|alias| alias.only(name).ok());
        let opened = self.inner.opened.read();
        opened.is_wide(only.unwrap_or(name)) == Some(true)
    }

    /// The names of the wide collections, sorted.
    pub fn wide_collections(&self) -> Vec<String> {
        self.inner.opened.read().names(true)
    }
}

/// Refuses a schema by which triggers would see other columns than those that they name.
fn check_seen(collection: &WideCollection, before: &Schema, after: &Schema) -> Result<()> {
    for trigger in collection.triggers().iter() {
        let mut named = trigger.options().columns.iter().flatten();
        let is_other = |name: &&String| {
            let column = before.column(name);
            column.is_some_and(|column| !column.is_same(after.column(name)))
        };
        if let Some(name) = named.find(is_other) {
            let trigger = trigger.name();
            return Err(Error::Invalid(format!(
                "trigger {trigger} names column {name:?}, which can't be renamed or dropped \
                 meanwhile: detach it first"
            )));
        }
    }
    Ok(())
}
