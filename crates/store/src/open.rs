//! Making a store, and opening one: its manifest, its trees, then every record of the log after the
//! position where its trees agree.

use crate::damaged::is_tree_damage;
use crate::deriver::{Deriver, Group, ids};
use crate::follow::UNREAD_FOLLOWS;
use crate::log_holds::LogHolds;
use crate::manifest::{self, Manifest, Progress, TreeFiles};
use crate::publish::Publisher;
use crate::relief::Flushable;
use crate::segment_age::Sealing;
use crate::shared::Shared;
use crate::space::{Space, superseded_bytes_max};
use crate::store::{Counters, Inner, Store, Writer};
use crate::trees::{RebuiltTrees, Slot, TreeUse, Trees};
use crate::{
    DerivedTrees, Error, ErrorKind, Machine, Place, Rebuilt, Result, StoreOptions, TreeId,
};
use quire_env::{Env, Gate, IoClass, IoScope};
use quire_log::{ErrorKind as LogErrorKind, Log, LogIdentity, LogOptions};
use quire_lsm::{TableFiles, TableMeta, Tree, TreeContext};
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use quire_sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use quire_sync::{Mutex, RwLock};
use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

impl<M: Machine> Store<M> {
    /// Makes a new, empty store; [`open`](Store::open) it then. Durable when it returns.
    ///
    /// # Errors
    /// [`Error::Exists`] if one is there.
    pub fn create(shared: &Shared, place: &Place) -> Result<()> {
        Store::create_at(shared, place, Position(0), &M::new())
    }

    /// As [`create`](Store::create), one that has `machine` as its state at the position `applied`,
    /// after which its log begins. Its trees are empty: what they have there is
    /// [loaded](Store::load).
    ///
    /// # Errors
    /// As of [`create`](Store::create).
    ///
    /// # Panics
    /// If the log is what counts, and it does not begin at its beginning.
    pub fn create_at(shared: &Shared, place: &Place, applied: Position, machine: &M) -> Result<()> {
        assert!(
            !M::LOG_IS_KEPT || applied == Position(0),
            "a log that is kept has all records"
        );
        let env = shared.env();
        let dir = place.dir();
        if Store::<M>::exists(shared, place)? {
            return Err(Error::Exists { path: dir });
        }
        for volume in place.volumes.iter() {
            env.create_dir_all(&volume.path.join(place.tables_subdir()))?;
        }
        let trees = M::trees()
            .into_iter()
            .map(|spec| TreeFiles {
                id: TreeId(spec.id),
                name: spec.name,
                derived: None,
                runs: Vec::new(),
            })
            .collect();
        let manifest = Manifest {
            identity: place.identity,
            sequence: 1,
            applied,
            synced: applied,
            next_file: 1,
            state: machine.encode(),
            trees,
            space: Space::new([]),
        };
        Ok(env.replace(&manifest::path(&dir), &manifest.encode())?)
    }

    /// Whether a store was made at this place: it has a manifest, or a log, which is made after the
    /// manifest.
    ///
    /// # Errors
    /// Those of the machine.
    pub fn exists(shared: &Shared, place: &Place) -> Result<bool> {
        let env = shared.env();
        Ok(env.exists(&manifest::path(&place.dir()))? || env.exists(&place.log_dir())?)
    }

    /// Opens a store: its manifest, then every record of the log after the position where its trees
    /// agree. Its trees are those that the manifest names, shaped as `options` say.
    ///
    /// `changed` is notified when something new is visible.
    ///
    /// # Errors
    /// Damage to the manifest, the log or a table's index is an error that names the file; nothing
    /// is changed then. `Invalid` if the manifest names a tree that `apply` writes and that neither
    /// the machine nor `options` know.
    pub fn open(
        shared: Arc<Shared>,
        place: Place,
        options: StoreOptions,
        changed: Arc<dyn Gate>,
    ) -> Result<Store<M>> {
        let dir = place.dir();
        let mut manifest = read_manifest(&**shared.env(), &place)?;
        let machine = M::decode(&manifest.state).map_err(|what| Error::Manifest {
            path: manifest::path(&dir),
            what: format!("the state at position {}: {what}", manifest.applied),
            offset: 20,
        })?;
        name_new_trees::<M>(&mut manifest);
        let context = open_files(&shared, &place, &manifest)?;
        let lost = context.files.lost(tables(&manifest.trees)).cloned();
        if let Some(volume) = &lost {
            let error = volume.missing();
            tracing::error!(partition = %dir.display(), %error, "a partition is read-only");
        }
        let applied = open_applied::<M>(&options, &manifest, &context)?;
        let (derived, groups, rebuilt) = open_derived(&options, &mut manifest, &context)?;
        let log = open_log::<M>(&shared, &place, &options, &manifest)?;
        let segments = log.segments();
        manifest.space.open(&segments, manifest.applied);
        let sealing = Sealing::new(options.segment_age);
        let log_holds = Arc::new(LogHolds::default());
        let opening_hold = options.log_held.then(|| log_holds.hold(Position(0)));
        let deriver = Deriver { view: None, groups };
        let inner = Arc::new_cyclic(|me| Inner {
            me: Weak::clone(me),
            publisher: Publisher::new(manifest.applied, machine.summary()),
            writer: Mutex::new(Writer {
                machine,
                applied: manifest.applied,
                unflushed_bytes: 0,
                underived_bytes: 0,
                unwritten_bytes: 0,
                superseded_bytes: 0,
                superseded_bytes_max: superseded_bytes_max(
                    options.log_live_percent,
                    &manifest.space,
                    &segments,
                ),
                space: manifest.space.clone(),
            }),
            derived: AtomicU64::new(manifest.applied.0),
            deriving: Mutex::new(deriver),
            derive_due: AtomicBool::new(false),
            derive_retry_due: AtomicBool::new(false),
            follow_due: AtomicBool::new(false),
            follows_unread: AtomicU32::new(UNREAD_FOLLOWS),
            derive_error: Mutex::new(None),
            rebuilt: Mutex::new(rebuilt),
            manifest: Mutex::new(manifest),
            shared,
            dir,
            options,
            log: Arc::new(log),
            log_holds,
            opening_hold: Mutex::new(opening_hold),
            trees: Trees::new(applied, derived),
            context,
            changed,
            flushing: Mutex::new(()),
            compacting: RwLock::new(()),
            compacting_log: Mutex::new(()),
            uncounted_until: AtomicU64::new(0),
            unreadable: Mutex::new(BTreeSet::new()),
            flush_due: AtomicBool::new(false),
            compaction_due: AtomicBool::new(false),
            compaction_failed: AtomicBool::new(false),
            log_compaction_held: AtomicBool::new(false),
            sync_due: Mutex::new(None),
            write_back_due: AtomicBool::new(false),
            sealing: Mutex::new(sealing),
            dead_look_due: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            read_only: AtomicBool::new(lost.is_some()),
            lost,
            counters: Counters::default(),
            building: Mutex::new(None),
            background_error: Mutex::new(None),
        });
        inner.begin_deriving()?;
        {
            // Much is read: what users of other partitions read goes first.
            let _io = IoScope::enter(IoClass::Log);
            inner.replay()?;
        }
        let flushable: Weak<dyn Flushable> = inner.me.clone();
        inner.shared.relief.register(flushable);
        inner.schedule_compaction();
        // What an earlier opening left dead.
        inner.note_dead();
        if inner.deriving.lock().view.is_some() {
            inner.schedule_derive(Duration::ZERO);
        }
        Ok(Store { inner })
    }
}

fn read_manifest(env: &dyn Env, place: &Place) -> Result<Manifest> {
    let dir = place.dir();
    let manifest = Manifest::read(env, &dir)?;
    // One whose writer could not sync its name must not give way to the one before it: files that
    // only that one names are removed later.
    if !seeded(Bug::FoundManifestBelieved) {
        env.sync_dir(&dir)?;
    }
    manifest.checked(place)
}

/// Names trees that the machine has, and that it did not have when the store was made: no record of
/// then writes them, so they begin empty. The next manifest has them.
fn name_new_trees<M: Machine>(manifest: &mut Manifest) {
    for spec in M::trees() {
        if manifest.trees.iter().all(|tree| tree.id.0 != spec.id) {
            manifest.trees.push(TreeFiles {
                id: TreeId(spec.id),
                name: spec.name,
                derived: None,
                runs: Vec::new(),
            });
        }
    }
}

/// The table files, without those that no manifest names: what a crash left of a flush, of a
/// compaction or of a tree that was dropped.
fn open_files(shared: &Shared, place: &Place, manifest: &Manifest) -> Result<TreeContext> {
    let env = Arc::clone(shared.env());
    let files = TableFiles::new(
        Arc::clone(&env),
        place.volumes_there(&*env),
        place.tables_subdir(),
        manifest.next_file,
    );
    remove_orphans(&files, manifest)?;
    Ok(TreeContext {
        files: Arc::new(files),
        env,
        cache: Arc::clone(shared.cache()),
        filters: Arc::clone(shared.filters()),
        budget: Arc::clone(shared.memtables()),
    })
}

fn tables<'a>(
    trees: impl IntoIterator<Item = &'a TreeFiles>,
) -> impl Iterator<Item = &'a TableMeta> {
    let runs = trees.into_iter().flat_map(|tree| &tree.runs);
    runs.flat_map(|run| &run.tables)
}

fn remove_orphans(files: &TableFiles, manifest: &Manifest) -> Result<()> {
    let named: HashSet<_> = tables(&manifest.trees).map(|table| table.file).collect();
    for file in files.list()? {
        if !named.contains(&file) {
            files.remove(file)?;
        }
    }
    Ok(())
}

/// The trees that `apply` writes; first those of the machine, in its order.
fn open_applied<M: Machine>(
    options: &StoreOptions,
    manifest: &Manifest,
    context: &TreeContext,
) -> Result<Vec<Slot>> {
    let mut specs = M::trees();
    for shaped in &options.trees {
        match specs.iter_mut().find(|spec| spec.id == shaped.id) {
            Some(spec) => *spec = shaped.clone(),
            None => specs.push(shaped.clone()),
        }
    }
    let is_applied = |tree: &&TreeFiles| tree.derived.is_none();
    let named = || manifest.trees.iter().filter(is_applied);
    if let Some(unknown) = named().find(|tree| specs.iter().all(|spec| spec.id != tree.id.0)) {
        return Err(Error::Invalid(format!(
            "the partition has a tree {}, of which its settings say nothing",
            unknown.name
        )));
    }
    let mut slots = Vec::new();
    for spec in specs {
        // One that only the options have, and that was not there when the store was made, is not
        // written.
        let Some(tree) = named().find(|tree| tree.id.0 == spec.id) else {
            continue;
        };
        let tree = Tree::open(spec, context.clone(), tree.runs.clone())?;
        slots.push(Slot::new(tree, TreeUse::Applied));
    }
    Ok(slots)
}

/// The derived trees that the manifest names and the options have. Those that can't be gone on with
/// have no runs in `manifest` any more: they are built anew. Those of them whose files are damaged
/// are told too.
fn open_derived(
    options: &StoreOptions,
    manifest: &mut Manifest,
    context: &TreeContext,
) -> Result<(Vec<Slot>, Vec<Group>, RebuiltTrees)> {
    let (mut slots, mut groups) = (Vec::new(), Vec::new());
    let mut rebuilt = RebuiltTrees::new();
    for source in &options.derived {
        let known = ids(&**source);
        let is_known = |id: &TreeId| manifest.trees.iter().any(|tree| tree.id == *id);
        if !known.iter().any(is_known) {
            continue;
        }
        let named = manifest
            .trees
            .iter()
            .filter(|tree| known.contains(&tree.id));
        if context.files.lost(tables(named)).is_some() {
            // Answers do not need it, and nothing can be built while the store is read-only.
            continue;
        }
        if !known.iter().all(is_known) {
            return Err(Error::Invalid(format!(
                "of the trees {known:?}, which are derived together, the partition has only some"
            )));
        }
        let mut cursor = match progress_of(manifest, &known) {
            Some(progress) => progress.cursor,
            None => {
                forget(manifest, &known);
                Some(Vec::new())
            }
        };
        let opened = match open_group(&**source, manifest, context, cursor.is_none()) {
            Err(error) if is_tree_damage(&error) => {
                let (count, why) = (1, error.to_string());
                tracing::error!(tree = ?known.first(), why, "a derived tree is built anew");
                let note = Rebuilt { count, why };
                rebuilt.extend(known.iter().map(|id| (*id, note.clone())));
                forget(manifest, &known);
                cursor = Some(Vec::new());
                open_group(&**source, manifest, context, false)?
            }
            opened => opened?,
        };
        slots.extend(opened);
        groups.push(Group::new(Arc::clone(source), cursor));
    }
    Ok((slots, groups, rebuilt))
}

/// How far trees that are derived together are; `None` if they are not at the position of the trees
/// that `apply` writes, all at the same point.
fn progress_of(manifest: &Manifest, known: &[TreeId]) -> Option<Progress> {
    let mut trees = manifest
        .trees
        .iter()
        .filter(|tree| known.contains(&tree.id));
    let first = trees.next()?.derived.clone()?;
    let alike = trees.all(|tree| tree.derived.as_ref() == Some(&first));
    (alike && first.built == manifest.applied).then_some(first)
}

/// Forgets what derived trees hold. The next manifest says so; their files are removed by the
/// opening after it.
fn forget(manifest: &mut Manifest, known: &[TreeId]) {
    let trees = manifest.trees.iter_mut();
    for tree in trees.filter(|tree| known.contains(&tree.id)) {
        tree.derived = Some(Progress::none());
        tree.runs.clear();
    }
}

fn open_group(
    source: &dyn DerivedTrees,
    manifest: &Manifest,
    context: &TreeContext,
    is_complete: bool,
) -> Result<Vec<Slot>> {
    let used = match is_complete {
        true => TreeUse::Derived,
        false => TreeUse::Building,
    };
    let open = |spec: quire_lsm::TreeSpec| {
        let tree = manifest.trees.iter().find(|tree| tree.id.0 == spec.id);
        let runs = tree.map(|tree| tree.runs.clone()).unwrap_or_default();
        Ok(Slot::new(Tree::open(spec, context.clone(), runs)?, used))
    };
    source.trees().into_iter().map(open).collect()
}

fn open_log<M: Machine>(
    shared: &Shared,
    place: &Place,
    options: &StoreOptions,
    manifest: &Manifest,
) -> Result<Log> {
    let obsolete = match M::LOG_IS_KEPT {
        true => Position(0),
        false => manifest.applied,
    };
    let mut log_options = options.log.clone();
    if options.log_held {
        log_options.obsolete_bytes_kept = u64::MAX;
    }
    let open = |options: LogOptions| {
        let identity = LogIdentity(place.identity);
        let (env, cache) = (Arc::clone(shared.env()), Arc::clone(shared.cache()));
        Log::open_after(env, &place.log_dir(), identity, cache, options, obsolete)
    };
    let (log, _recovery) = match open(log_options.clone()) {
        // What is damaged may be kept for followers, and those who tail the log, alone.
        Err(error)
            if error.kind() == LogErrorKind::Corrupt && log_options.obsolete_bytes_kept > 0 =>
        {
            open(LogOptions {
                obsolete_bytes_kept: 0,
                ..log_options
            })?
        }
        opened => opened?,
    };
    if log.last() < manifest.synced && !seeded(Bug::ShortLogAccepted) {
        return Err(Error::LogTooShort {
            path: place.dir(),
            last: log.last(),
            synced: manifest.synced,
        });
    }
    Ok(log)
}

impl<M: Machine> Inner<M> {
    /// Holds the trees as they are at the manifest's position, where derived trees are. Called
    /// before anything is replayed.
    fn begin_deriving(&self) -> Result<()> {
        let mut deriver = self.deriving.lock();
        if !deriver.groups.is_empty() {
            deriver.view = Some(self.base_view()?);
        }
        Ok(())
    }

    /// Applies what the log holds after the manifest's position.
    fn replay(&self) -> Result<()> {
        let applied = self.manifest.lock().applied;
        let from = match seeded(Bug::RecordAppliedTwice) {
            true => applied.max(Position(1)),
            false => applied.next(),
        };
        let memtables = self.shared.memtables();
        let mut flush_at = memtables.limit() / 4;
        let most = memtables.limit() + flush_at;
        for item in self.log.scan(from) {
            let (position, record) = item?;
            let full = {
                let mut writer = self.writer.lock();
                self.apply(&mut writer, position, &record)?;
                let summary = writer.machine.summary();
                self.publisher.applied(position, summary, None);
                self.memtable_bytes() >= flush_at
            };
            if full {
                self.publish(position);
                match self.flush() {
                    // A full disk can be read all the same. What wrote this had no more memory,
                    // but for a last batch.
                    Err(error) if error.kind() == ErrorKind::Full && memtables.used() < most => {
                        flush_at = self.memtable_bytes() + memtables.limit() / 8;
                    }
                    flushed => drop(flushed?),
                }
            }
        }
        self.publish(self.log.last());
        Ok(())
    }
}
