//! A wide collection: rows of declared columns by key, spread over partitions by a hash of the key.

use crate::attached::AttachedTriggers;
use crate::error::first_error;
use crate::partitions_before::Before;
use crate::query::Page;
use crate::settings::CollectionSettings;
use crate::stats::{CollectionStats, GroupStats};
use crate::usage::Usage;
use crate::view::{View, WideViews};
use crate::wide_found::found_of;
use crate::wide_layout::WideLayout;
use crate::write_gate::{Gated, read_current, write_current};
use crate::{Error, Result};
use arc_swap::ArcSwap;
use parking_lot::RwLock;
use quire_collection::{Action, Effect, Expiry, Found, Within, Write, Written};
use quire_coprocessor::{Code, Trigger, TriggerOptions};
use quire_env::{Env, Volumes};
use quire_model::{Document, Key, Position};
use quire_query::{Options, Query};
use quire_store::Durability;
use quire_wide::{
    Cell, ColumnBatch, ColumnScan, Condition, Members, RowCells, RowScan, RowWrite, Schema,
    TierPass, Triggers, WideIndex, WidePartition, WideView, WideWithin,
};
use std::sync::Arc;
use std::time::Duration;

/// An open wide collection. Cheap to clone; any number of threads write and read at once.
///
/// ```
/// use quiredb::wide::{Cell, Change, ColumnType, Operand, RowWrite, Schema};
/// use quiredb::{Database, Document, Key};
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path())?;
/// let schema = Schema::new()
///     .with_column("title", ColumnType::String, "meta")?
///     .with_column("html", ColumnType::Bytes, "content")?
///     .with_family("visits", ColumnType::Int, "visits")?;
/// let pages = database.create_wide_collection("pages", schema, Default::default())?;
///
/// let key = Key::parse("http://example.org/")?;
/// pages.put(&key, &Document::from_json(br#"{"title":"Example","html":"PGh0bWw+"}"#)?)?;
/// let visit = Change::merge("visits", Operand::Add(1)).of_member("2026-01-01");
/// pages.write(&RowWrite::patch(key.clone()).with(visit))?;
///
/// let title = pages.get_columns(&key, &["title"])?.expect("it was just written");
/// assert_eq!(title.document.to_json(), r#"{"_id":"http://example.org/","title":"Example"}"#);
/// assert_eq!(pages.cell(&key, "visits", Some("2026-01-01"))?, Some(Cell::Int(1)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct WideCollection {
    state: Arc<WideState>,
}

#[derive(Debug)]
struct WideState {
    name: String,
    /// What no other collection of any database has.
    identity: [u8; 16],
    usage: Arc<Usage>,
    env: Arc<dyn Env>,
    settings: RwLock<(Arc<CollectionSettings>, Arc<Schema>)>,
    triggers: AttachedTriggers,
    layout: ArcSwap<WideLayout>,
    volumes: Volumes,
}

impl WideState {
    /// See [`read_current`].
    fn read<T>(&self, read: impl Fn(&WideLayout) -> Result<T>) -> Result<T> {
        read_current(&self.layout, read)
    }

    /// See [`write_current`].
    fn write<T>(&self, write: impl FnOnce(&Arc<WideLayout>) -> T) -> T {
        write_current(&self.layout, write)
    }
}

/// What a pass over all rows has moved between tiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TierReport {
    /// Rows of which cells moved.
    pub rows: u64,
    /// Bytes of the cells.
    pub bytes: u64,
}

/// What has moved to other groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ColumnReport {
    /// Cells that moved.
    pub cells: u64,
    /// Bytes of the cells.
    pub bytes: u64,
}

impl WideCollection {
    pub(crate) fn new(
        (name, identity, begun): (String, [u8; 16], Duration),
        settings: CollectionSettings,
        schema: Schema,
        triggers: AttachedTriggers,
        (partitions, before): (Vec<WidePartition>, Vec<Before>),
        volumes: Volumes,
        has_jobs: bool,
    ) -> WideCollection {
        let schema = Arc::new(schema);
        let was_empty = |partition: &WidePartition| partition.stats().position.0 == 0;
        let was_empty = partitions.iter().all(was_empty);
        let env = Arc::clone(partitions[0].env());
        let usage = Usage::new(&env, begun, was_empty);
        let layout = WideLayout::new((partitions, before), &schema, &settings, has_jobs);
        WideCollection {
            state: Arc::new(WideState {
                name,
                identity,
                usage: Arc::new(usage),
                env,
                settings: RwLock::new((Arc::new(settings), schema)),
                triggers,
                layout: ArcSwap::from_pointee(layout),
                volumes,
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
        Arc::clone(&self.state.settings.read().0)
    }

    /// Its columns, as they are now.
    pub fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.state.settings.read().1)
    }

    /// Takes settings over that are in the catalog.
    pub(crate) fn set_settings(&self, settings: CollectionSettings, schema: Schema) -> Result<()> {
        let (settings, schema) = (Arc::new(settings), Arc::new(schema));
        *self.state.settings.write() = (Arc::clone(&settings), Arc::clone(&schema));
        self.state.layout.load().set(&schema, &settings)
    }

    /// Has other partitions from now on, which these settings say the number of.
    pub(crate) fn replace(
        &self,
        (partitions, before): (Vec<WidePartition>, Vec<Before>),
        settings: CollectionSettings,
        schema: Schema,
        has_jobs: bool,
    ) {
        assert_eq!(
            partitions.len(),
            settings.partitions as usize,
            "a collection has the partitions that its settings say"
        );
        let schema = Arc::new(schema);
        let layout = WideLayout::new((partitions, before), &schema, &settings, has_jobs);
        *self.state.settings.write() = (Arc::new(settings), schema);
        self.state.layout.store(Arc::new(layout));
    }

    /// Makes this the search index of each partition, with rows by this schema.
    pub(crate) fn set_index(&self, schema: &Arc<Schema>, index: Option<&WideIndex>) -> Result<()> {
        self.state.read(|layout| {
            let partitions = layout.partitions().iter();
            first_error(partitions.map(|partition| Ok(partition.set_index(schema, index)?)))
        })
    }

    /// How many partitions it had at first, if it has had others.
    pub(crate) fn first_partitions(&self) -> Option<u32> {
        self.layout().first_partitions()
    }

    /// The partitions of now.
    pub(crate) fn layout(&self) -> Arc<WideLayout> {
        self.state.layout.load_full()
    }

    /// The triggers, in the order in which they run.
    pub(crate) fn triggers(&self) -> Arc<Vec<Arc<Trigger>>> {
        self.state.triggers.all()
    }

    /// Takes over the triggers that are in the catalog.
    pub(crate) fn set_triggers(&self, triggers: Vec<Arc<Trigger>>) {
        self.state.triggers.set_of_catalog(triggers);
    }

    /// As [`Collection::attach_trigger`](crate::Collection::attach_trigger). It sees the columns
    /// that the options name; no group of others is read for it.
    ///
    /// # Errors
    /// As of [`Collection::attach_trigger`](crate::Collection::attach_trigger).
    pub fn attach_trigger(&self, code: &Code, options: TriggerOptions) -> Result<()> {
        self.state.triggers.attach(Trigger::new(code, options)?)
    }

    /// As [`Collection::detach_trigger`](crate::Collection::detach_trigger).
    pub fn detach_trigger(&self, name: &str) -> bool {
        self.state.triggers.detach(name)
    }

    /// Moves all cells that are due between the tiers of their groups now, as fast as can be. An
    /// open database does this in the background.
    ///
    /// # Errors
    /// `Corrupt` if bytes on disk are damaged; `Full`, `ReadOnly` or `Io` as of
    /// [`write`](WideCollection::write): what has moved by then stays so.
    pub fn tier(&self) -> Result<TierReport> {
        let (settings, schema) = self.state.settings.read().clone();
        let mut report = TierReport::default();
        self.step_each(|partition, pass: &mut TierPass| {
            let step = partition.tier_step(&schema, pass, settings.durability)?;
            report.rows += step.rows;
            report.bytes += step.bytes;
            Ok(step.is_over)
        })?;
        Ok(report)
    }

    /// Calls `step` for each partition of now until it says that all is done there. Where others
    /// replace them it begins anew.
    fn step_each<S: Default>(
        &self,
        mut step: impl FnMut(&WidePartition, &mut S) -> quire_wide::Result<bool>,
    ) -> Result<()> {
        'of_now: loop {
            let layout = self.layout();
            for partition in layout.partitions().iter() {
                let mut done = S::default();
                loop {
                    let Some(_gate) = layout.gate().begin_write() else {
                        continue 'of_now;
                    };
                    if step(partition, &mut done)? {
                        break;
                    }
                }
            }
            return Ok(());
        }
    }

    /// Moves the cells of all columns that are to be in other groups there now, as fast as can be.
    /// An open database does this in the background.
    ///
    /// # Errors
    /// `Corrupt` if bytes on disk are damaged; `Full`, `ReadOnly` or `Io` as of
    /// [`write`](WideCollection::write): what has moved by then stays so.
    pub fn move_columns(&self) -> Result<ColumnReport> {
        let (settings, schema) = self.state.settings.read().clone();
        let mut report = ColumnReport::default();
        self.step_each(|partition, ()| {
            let step = partition.column_step(&schema, settings.durability)?;
            report.cells += step.cells;
            report.bytes += step.bytes;
            Ok(step.is_over)
        })?;
        Ok(report)
    }

    /// Reads the partitions of now: see [`read_current`].
    pub(crate) fn read<T>(&self, read: impl Fn(&WideLayout) -> Result<T>) -> Result<T> {
        self.state.read(read)
    }

    pub(crate) fn partitions(&self) -> Arc<[WidePartition]> {
        Arc::clone(self.state.layout.load().partitions())
    }

    /// The partition that a key belongs to.
    pub fn partition_of(&self, key: &Key) -> u32 {
        self.state.layout.load().of(key).number()
    }

    /// The last visible position of each partition.
    pub fn positions(&self) -> Vec<Position> {
        let partitions = self.partitions();
        partitions.iter().map(WidePartition::position).collect()
    }

    fn view_of(&self, key: &Key) -> Result<WideView> {
        let schema = self.schema();
        self.state.read(|layout| Ok(layout.of(key).view(&schema)?))
    }

    /// Does a write of one row. It is visible, and as durable as the collection's settings say,
    /// when this returns.
    ///
    /// # Errors
    /// Nothing was written: `Invalid` for what the schema does not allow, `TooLarge`, `Conflict` if
    /// a condition does not hold, `NotFound` for a patch of no row, `Full`. `ReadOnly` or `Io` if
    /// the log could not be synced: whether the write survives is then unknown.
    pub fn write(&self, write: &RowWrite) -> Result<Written> {
        self.write_as(write, self.settings().durability)
    }

    pub(crate) fn write_as(&self, write: &RowWrite, durability: Durability) -> Result<Written> {
        let (written, _) = self.apply(write.key(), |partition, schema, triggers| {
            partition.write(schema, write, triggers, durability)
        })?;
        Ok(written_of(written))
    }

    /// As [`write`](WideCollection::write), neither durable nor visible until the position is
    /// acknowledged in its partition, or a split has replaced the partitions that it was written
    /// to.
    pub(crate) fn write_unsynced(
        &self,
        write: &RowWrite,
    ) -> Result<(Written, Position, Arc<WideLayout>)> {
        let written = self.apply(write.key(), |partition, schema, triggers| {
            partition.write_unsynced(schema, write, triggers)
        })?;
        let ((written, position), layout) = written;
        Ok((written_of(written), position, layout))
    }

    /// Writes to the partition of a key, by the schema and the triggers of now. Gives the layout
    /// that has the partition, too.
    fn apply<T>(
        &self,
        key: &Key,
        write: impl FnOnce(&WidePartition, &Arc<Schema>, Triggers<'_>) -> quire_wide::Result<T>,
    ) -> Result<(T, Arc<WideLayout>)> {
        self.state.write(|layout| {
            let partition = layout.of(key);
            let (settings, schema) = self.state.settings.read().clone();
            let list = self.state.triggers.all();
            let triggers = Triggers {
                list: &list,
                key_field: &settings.key_field,
            };
            let written = write(partition, &schema, triggers)?;
            layout.expect_expiry(partition);
            Ok((written, Arc::clone(layout)))
        })
    }

    /// Makes `document` the row under `key`.
    ///
    /// # Errors
    /// As of [`write`](WideCollection::write).
    pub fn put(&self, key: &Key, document: &Document) -> Result<Written> {
        self.write(&self.put_write(key, document)?)
    }

    /// Changes the row under `key` by a JSON merge patch of its columns, and of the members of
    /// column families: the cost is that of the cells that it names.
    ///
    /// # Errors
    /// As of [`write`](WideCollection::write).
    pub fn patch(&self, key: &Key, patch: &Document) -> Result<Written> {
        self.write(&self.patch_write(key, patch)?)
    }

    /// Removes the row under `key`; the effect is `Unchanged` if there is none.
    ///
    /// # Errors
    /// As of [`write`](WideCollection::write).
    pub fn delete(&self, key: &Key) -> Result<Written> {
        self.write(&RowWrite::delete(key.clone()))
    }

    /// The write that [`put`](WideCollection::put) does: to add a condition, or changes.
    ///
    /// # Errors
    /// `Invalid` for what the schema does not allow.
    pub fn put_write(&self, key: &Key, document: &Document) -> Result<RowWrite> {
        self.row_write(RowWrite::put(key.clone()), document, false)
    }

    /// The write that [`patch`](WideCollection::patch) does.
    ///
    /// # Errors
    /// As of [`put_write`](WideCollection::put_write).
    pub fn patch_write(&self, key: &Key, patch: &Document) -> Result<RowWrite> {
        self.row_write(RowWrite::patch(key.clone()), patch, true)
    }

    fn row_write(&self, write: RowWrite, document: &Document, is_patch: bool) -> Result<RowWrite> {
        let (settings, schema) = self.state.settings.read().clone();
        let changes = schema.changes_of(write.key(), &settings.key_field, document, is_patch)?;
        Ok(write.with_all(changes))
    }

    /// The write of a row that does what a write of a document does.
    ///
    /// # Errors
    /// As of [`put_write`](WideCollection::put_write); `Invalid` for an external version, or a time
    /// of expiry: rows have none.
    pub fn write_of(&self, write: &Write) -> Result<RowWrite> {
        if matches!(write.expiry, Expiry::At(_)) {
            let what = "rows of a wide collection do not expire: their cells may";
            return Err(Error::Invalid(what.into()));
        }
        let row = match &write.action {
            Action::Put(document) => self.put_write(&write.key, document)?,
            Action::Patch(patch) => self.patch_write(&write.key, patch)?,
            Action::Delete => RowWrite::delete(write.key.clone()),
        };
        Ok(row.condition(WideCollection::condition_of(write.condition)?))
    }

    /// The condition of a write of a document, as one of a row.
    ///
    /// # Errors
    /// `Invalid` for an external version: rows have none.
    pub fn condition_of(condition: quire_collection::Condition) -> Result<Condition> {
        use quire_collection::Condition as Of;
        match condition {
            Of::Always => Ok(Condition::Always),
            Of::IfAbsent => Ok(Condition::IfAbsent),
            Of::IfVersion(version) => Ok(Condition::IfVersion(version)),
            Of::External(_) | Of::ExternalOrEqual(_) => {
                let what = "rows of a wide collection have no external versions";
                Err(Error::Invalid(what.into()))
            }
        }
    }

    /// The row under `key`, whole.
    ///
    /// # Errors
    /// `TooLarge` if it is larger than a document may be; `Corrupt` if the bytes on disk are
    /// damaged: the error names file and offset.
    pub fn get(&self, key: &Key) -> Result<Option<Found>> {
        let found = self
            .view_of(key)?
            .get(key, &self.settings().key_field, None)?;
        Ok(found.map(found_of))
    }

    /// Some columns of the row under `key`. No group of others is read.
    ///
    /// # Errors
    /// As of [`get`](WideCollection::get); `Invalid` for a column that there is not.
    pub fn get_columns(&self, key: &Key, columns: &[&str]) -> Result<Option<Found>> {
        let key_field = &self.settings().key_field;
        let found = self.view_of(key)?.get(key, key_field, Some(columns))?;
        Ok(found.map(found_of))
    }

    /// The rows under many keys, in the order of the keys: some columns of them, or all. In each
    /// partition group after group is read, in the order of the disk. Rows are left out, as
    /// `Longer`, if all in a partition would have more than `bytes_max` by them.
    ///
    /// # Errors
    /// Of each row, as of [`get`](WideCollection::get). As of
    /// [`get_columns`](WideCollection::get_columns), for all.
    pub fn get_many(
        &self,
        keys: &[Key],
        columns: Option<&[&str]>,
        bytes_max: usize,
    ) -> Result<Vec<Result<Within>>> {
        self.state
            .read(|layout| self.get_many_of(layout, keys, columns, bytes_max))
    }

    fn get_many_of(
        &self,
        layout: &WideLayout,
        keys: &[Key],
        columns: Option<&[&str]>,
        bytes_max: usize,
    ) -> Result<Vec<Result<Within>>> {
        let (settings, schema) = self.state.settings.read().clone();
        let mut found: Vec<_> = keys.iter().map(|_| Ok(Within::Absent)).collect();
        for partition in layout.partitions().iter() {
            let is_here = |key: &Key| layout.of(key).number() == partition.number();
            let places: Vec<usize> = (0..keys.len()).filter(|at| is_here(&keys[*at])).collect();
            if places.is_empty() {
                continue;
            }
            let here: Vec<&Key> = places.iter().map(|at| &keys[*at]).collect();
            let view = partition.view(&schema)?;
            let rows = view.get_many(&here, &settings.key_field, columns, bytes_max)?;
            for (at, row) in places.into_iter().zip(rows) {
                found[at] = match row {
                    Ok(WideWithin::Absent) => Ok(Within::Absent),
                    Ok(WideWithin::Found(row)) => Ok(Within::Found(found_of(*row))),
                    Ok(WideWithin::Longer(bytes)) => Ok(Within::Longer(bytes)),
                    Err(error) => Err(error.into()),
                };
            }
        }
        Ok(found)
    }

    /// One cell: of a column, or of a member of a family.
    ///
    /// # Errors
    /// As of [`get_columns`](WideCollection::get_columns).
    pub fn cell(&self, key: &Key, column: &str, member: Option<&str>) -> Result<Option<Cell>> {
        Ok(self.view_of(key)?.cell(key, column, member)?)
    }

    /// As [`cell`](WideCollection::cell), and when it expires, if it does: microseconds since 1970
    /// UTC.
    ///
    /// # Errors
    /// As of [`get_columns`](WideCollection::get_columns).
    pub fn cell_until(
        &self,
        key: &Key,
        column: &str,
        member: Option<&str>,
    ) -> Result<Option<(Cell, Option<i64>)>> {
        Ok(self.view_of(key)?.cell_until(key, column, member)?)
    }

    /// The cells of some plain columns of a row, all as of one moment; `None` if there is no row.
    ///
    /// # Errors
    /// As of [`get_columns`](WideCollection::get_columns); `Invalid` for a family.
    pub fn cells(&self, key: &Key, columns: &[&str]) -> Result<Option<RowCells>> {
        Ok(self.view_of(key)?.cells(key, columns)?)
    }

    /// The members of a family from `from` up to `to`, which is left out, in the order of their
    /// bytes, as of now. They are read as they are taken.
    ///
    /// # Errors
    /// As of [`get_columns`](WideCollection::get_columns).
    pub fn members(
        &self,
        key: &Key,
        column: &str,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<Members> {
        Ok(self.view_of(key)?.members(key, column, from, to)?)
    }

    /// Columns of all rows that have a cell in one of them, as of now, in batches. Only the groups
    /// of these columns are read, each from its beginning to its end in every partition.
    ///
    /// # Errors
    /// As of [`get_columns`](WideCollection::get_columns).
    pub fn scan_columns(&self, columns: &[&str]) -> Result<WideScan> {
        let schema = self.schema();
        let scan = |partition: &WidePartition| partition.view(&schema)?.scan_columns(columns);
        self.state.read(|layout| {
            let partitions = layout.partitions().iter().rev();
            let scans = partitions.map(scan).collect::<quire_wide::Result<_>>()?;
            Ok(WideScan { scans })
        })
    }

    /// A consistent read of all partitions, for queries.
    ///
    /// # Errors
    /// `Closed`.
    pub fn view(&self) -> Result<View> {
        self.view_by(WidePartition::indexed_view)
    }

    /// As [`view`](WideCollection::view), of table files alone, after memtables have been written
    /// out. It holds no memory that writers may wait for: for reads that take long.
    ///
    /// # Errors
    /// As of [`flush`](WideCollection::flush).
    pub fn flushed_view(&self) -> Result<View> {
        self.view_by(WidePartition::flushed_view)
    }

    fn view_by(
        &self,
        view: fn(&WidePartition, &Arc<Schema>) -> quire_wide::Result<WideView>,
    ) -> Result<View> {
        let (settings, schema) = self.state.settings.read().clone();
        let partitions = self.state.read(|layout| {
            let partitions = layout.partitions().iter();
            let views = partitions.map(|partition| view(partition, &schema));
            Ok(views.collect::<quire_wide::Result<_>>()?)
        })?;
        Ok(View::of_wide(WideViews {
            name: self.state.name.clone(),
            key_field: settings.key_field.clone(),
            env: Arc::clone(&self.state.env),
            usage: Arc::clone(&self.state.usage),
            partitions,
        }))
    }

    /// Answers a query as of now: by the search index, if there is one of the fields that the query
    /// names, or by reading every row, of these columns alone.
    ///
    /// # Errors
    /// As of [`Collection::query`](crate::Collection::query).
    pub fn query(&self, query: Query) -> Result<Page> {
        let query = query.prepare()?;
        self.view()?.page(&query, &Options::default())
    }

    /// All rows, as of now, partition after partition, in the order of their first writes.
    ///
    /// # Errors
    /// As of [`get`](WideCollection::get).
    pub fn rows(&self) -> Result<WideRows> {
        let (settings, schema) = self.state.settings.read().clone();
        let scan = |partition: &WidePartition| {
            let view = partition.view(&schema)?;
            view.rows(&settings.key_field, None)
        };
        self.state.read(|layout| {
            let partitions = layout.partitions().iter().rev();
            let scans = partitions.map(scan).collect::<quire_wide::Result<_>>()?;
            Ok(WideRows { scans })
        })
    }

    /// How many rows there are.
    ///
    /// # Errors
    /// `Closed`.
    pub fn count(&self) -> Result<u64> {
        let schema = self.schema();
        self.state.read(|layout| {
            let partitions = layout.partitions().iter();
            let counts = partitions.map(|partition| Ok(partition.view(&schema)?.count()));
            counts.sum()
        })
    }

    /// Makes everything written so far durable and visible.
    ///
    /// # Errors
    /// `ReadOnly` or `Io`.
    pub fn sync(&self) -> Result<()> {
        self.each(WidePartition::sync)
    }

    /// Writes all memtables out.
    ///
    /// # Errors
    /// `Full` or `Io`.
    pub fn flush(&self) -> Result<()> {
        self.each(WidePartition::flush)
    }

    /// Merges every tree into one run. Long: reads and writes all table files.
    ///
    /// # Errors
    /// `Full` or `Io`.
    pub fn compact(&self) -> Result<()> {
        self.each(WidePartition::compact)
    }

    pub(crate) fn close(&self) -> Result<()> {
        self.each(WidePartition::close)
    }

    /// Whether this is the only handle to it.
    pub(crate) fn is_unshared(&self) -> bool {
        Arc::strong_count(&self.state) == 1
    }

    fn each(&self, act: impl Fn(&WidePartition) -> quire_wide::Result<()>) -> Result<()> {
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
        self.state.read(|layout| self.stats_of(layout))
    }

    fn stats_of(&self, layout: &WideLayout) -> Result<CollectionStats> {
        let mut stats = CollectionStats {
            name: self.state.name.clone(),
            documents: self.count()?,
            partitions: self.settings().partitions,
            ..CollectionStats::default()
        };
        let schema = self.schema();
        stats.groups = schema.groups().iter().map(GroupStats::of).collect();
        for partition in layout.partitions().iter() {
            let figures = partition.stats();
            stats.add(&figures);
            stats.add_index(partition.index_figures(&figures));
            stats.cells_expired += partition.cells_expired();
            let (cells, bytes) = partition.column_cells_moved();
            stats.column_cells_moved += cells;
            stats.column_bytes_moved += bytes;
            stats.add_column_moves(partition.column_progress(&schema)?);
            let volumes = partition.group_volumes(&schema);
            let figures = partition.tier_figures(&schema)?;
            let of_partition = stats.groups.iter_mut().zip(volumes).zip(figures);
            for ((group, [hot, cold]), figures) in of_partition {
                group.add_tiers(&figures, &cold, &self.state.volumes);
                group.add(&hot, &self.state.volumes);
                group.add(&cold, &self.state.volumes);
            }
        }
        stats.column_moves.retain(|moved| !moved.is_done);
        let (pauses, of_tiers) = layout.pauses();
        let moves = stats.column_moves.iter_mut();
        moves.for_each(|moved| moved.pauses = pauses);
        let tiers = stats.groups.iter_mut();
        for tiers in tiers.filter_map(|group| group.tiers.as_mut()) {
            tiers.rows_hot = stats.documents.saturating_sub(tiers.rows_cold);
            tiers.pauses = of_tiers;
            let mut partitions = layout.partitions().iter();
            tiers.stopped = partitions.find_map(WidePartition::tiers_stopped);
        }
        stats.background_errors.extend(layout.errors());
        Ok(stats)
    }
}

fn written_of(written: quire_wide::Written) -> Written {
    Written {
        effect: match written.effect {
            quire_wide::Effect::Created => Effect::Created,
            quire_wide::Effect::Updated => Effect::Updated,
            quire_wide::Effect::Deleted => Effect::Deleted,
            quire_wide::Effect::Unchanged => Effect::Unchanged,
        },
        version: written.version,
        external: None,
        partition: written.partition,
    }
}

/// Rows, partition after partition.
#[derive(Debug)]
pub struct WideRows {
    /// The next one last.
    scans: Vec<RowScan>,
}

impl Iterator for WideRows {
    type Item = Result<Found>;

    fn next(&mut self) -> Option<Result<Found>> {
        while let Some(scan) = self.scans.last_mut() {
            if let Some(row) = scan.next() {
                let found = row.map(|(_, found)| found_of(found));
                return Some(found.map_err(Error::from));
            }
            self.scans.pop();
        }
        None
    }
}

/// Batches of columns, partition after partition.
#[derive(Debug)]
pub struct WideScan {
    /// The next one last.
    scans: Vec<ColumnScan>,
}

impl Iterator for WideScan {
    type Item = Result<ColumnBatch>;

    fn next(&mut self) -> Option<Result<ColumnBatch>> {
        while let Some(scan) = self.scans.last_mut() {
            if let Some(batch) = scan.next() {
                return Some(batch.map_err(Error::from));
            }
            self.scans.pop();
        }
        None
    }
}
