//! Adding derived trees to a store that is open, and dropping them.
//!
//! # Order
//! Trees are added (1) by a manifest that names them, with nothing built; (2) to the open store,
//! where a background job builds them. They are dropped (1) by a manifest that does not name them;
//! (2) from the open store: their files go with the last view that holds them, and what a crash
//! leaves of these is removed by the next opening.

use crate::deriver::{Group, ids};
use crate::flush::ManifestChange;
use crate::manifest::{Progress, TreeFiles};
use crate::trees::{Slot, TreeUse};
use crate::{DerivedTrees, Error, Machine, Result, Store, TreeFigures, TreeId, TreeState};
use quire_env::VolumeId;
use quire_lsm::Tree;
use quire_seeded::{Bug, seeded};
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl<M: Machine> Store<M> {
    /// Adds derived trees. They are there, empty and not complete, when this returns, durably, and
    /// are built in the background: [`tree_state`](Store::tree_state) says how far that is. Later
    /// openings are given the same by [`StoreOptions::derived`](crate::StoreOptions::derived).
    ///
    /// # Errors
    /// `Invalid` for an id or name of another tree; `ReadOnly`, `Full` or `Io` as the disk says:
    /// nothing was added.
    pub fn add_trees(&self, source: Arc<dyn DerivedTrees>) -> Result<()> {
        let inner = &*self.inner;
        let _flushing = inner.flushing.lock();
        inner.check_writable()?;
        let slots = inner.new_trees(&*source)?;
        let mut deriver = inner.deriving.lock();
        if deriver.view.is_none() {
            let view = inner.base_view()?;
            inner.derived.store(view.position().0, Ordering::Release);
            deriver.view = Some(view);
        }
        let files = |slot: &Slot| TreeFiles {
            id: slot.id,
            name: slot.tree.spec().name.clone(),
            derived: Some(Progress::none()),
            runs: Vec::new(),
        };
        let added = inner.commit(ManifestChange {
            added: slots.iter().map(files).collect(),
            ..ManifestChange::default()
        });
        if let Err(error) = added {
            if deriver.groups.is_empty() {
                deriver.view = None;
            }
            return Err(error);
        }
        for slot in slots {
            inner.trees.add(slot);
        }
        deriver.groups.push(Group::new(source, Some(Vec::new())));
        drop(deriver);
        inner.schedule_derive(Duration::ZERO);
        Ok(())
    }

    /// Drops a derived tree, and those that are derived together with it. Waits for compactions
    /// that are under way. Their files are removed as soon as no view holds them.
    ///
    /// # Errors
    /// `Invalid` if there is no such tree, or `apply` writes it; `ReadOnly`, `Full` or `Io` as the
    /// disk says, and nothing was dropped.
    pub fn drop_trees(&self, tree: TreeId) -> Result<()> {
        let inner = &*self.inner;
        inner.check_writable()?;
        let _compacting = inner.compacting.write();
        let _flushing = inner.flushing.lock();
        inner.check_writable()?;
        let mut deriver = inner.deriving.lock();
        let mut groups = deriver.groups.iter();
        let group = groups.position(|group| group.ids.contains(&tree));
        let dropped = match group.and_then(|at| deriver.groups.get(at)) {
            Some(group) => group.ids.clone(),
            // It may be one that the store was not opened with.
            None => vec![inner.unopened_tree(tree)?],
        };
        if seeded(Bug::DroppedTreeFilesRemovedFirst) {
            let slots = dropped.iter().filter_map(|id| inner.trees.find(*id));
            slots.for_each(|slot| drop(slot.tree.discard()));
        }
        inner.commit(ManifestChange {
            dropped,
            ..ManifestChange::default()
        })?;
        if let Some(at) = group {
            deriver.groups.remove(at);
        }
        if deriver.groups.is_empty() {
            deriver.view = None;
        }
        Ok(())
    }

    /// All trees that the manifest names, those too that the store was not opened with.
    pub fn trees(&self) -> Vec<TreeFigures> {
        let inner = &*self.inner;
        let manifest = inner.manifest.lock();
        let figures = |files: &TreeFiles| {
            let slot = inner.trees.find(files.id);
            TreeFigures {
                id: files.id,
                name: files.name.clone(),
                state: inner.tree_state(files.id).unwrap_or(TreeState::Building),
                figures: slot.map(|slot| slot.tree.stats()).unwrap_or_default(),
                volumes: volume_bytes(files),
                rebuilt: inner.rebuilt.lock().get(&files.id).cloned(),
            }
        };
        manifest.trees.iter().map(figures).collect()
    }

    /// The derived tree that is being built, and the cursor up to which it is; `None` if none is,
    /// or nothing of it was built since the store was opened.
    pub fn building(&self) -> Option<(TreeId, Vec<u8>)> {
        self.inner.building.lock().clone()
    }

    /// What a tree can be used for now; `None` if there is no such tree. A
    /// [`View`](crate::View::tree_state) says it of what it shows.
    pub fn tree_state(&self, tree: TreeId) -> Option<TreeState> {
        self.inner.tree_state(tree)
    }
}

impl<M: Machine> crate::store::Inner<M> {
    fn tree_state(&self, tree: TreeId) -> Option<TreeState> {
        let built = self.derived_position();
        Some(match self.trees.find(tree)?.used() {
            TreeUse::Applied => TreeState::Complete {
                built: self.publisher.position(),
            },
            TreeUse::Derived => TreeState::Complete { built },
            TreeUse::Building | TreeUse::Dropped => TreeState::Building,
        })
    }

    /// The trees of a group that is to be added, opened with nothing in them.
    fn new_trees(&self, source: &dyn DerivedTrees) -> Result<Vec<Slot>> {
        let specs = source.trees();
        let known: BTreeSet<_> = ids(source).into_iter().collect();
        if specs.is_empty() || known.len() < specs.len() {
            let what = "trees that are added are one or more, each with an id of its own";
            return Err(Error::Invalid(what.into()));
        }
        let manifest = self.manifest.lock();
        for spec in &specs {
            let mut trees = manifest.trees.iter();
            if trees.any(|tree| tree.id == TreeId(spec.id) || tree.name == spec.name) {
                let what = format!("there is a tree {}, or one of id {}", spec.name, spec.id);
                return Err(Error::Invalid(what));
            }
        }
        drop(manifest);
        let open = |spec| {
            let tree = Tree::open(spec, self.context.clone(), Vec::new())?;
            Ok(Slot::new(tree, TreeUse::Building))
        };
        specs.into_iter().map(open).collect()
    }

    /// A derived tree that the manifest names and that the store was not opened with.
    fn unopened_tree(&self, tree: TreeId) -> Result<TreeId> {
        let manifest = self.manifest.lock();
        let mut trees = manifest.trees.iter();
        let named = trees.any(|files| files.id == tree && files.derived.is_some());
        match named && self.trees.find(tree).is_none() {
            true => Ok(tree),
            false => Err(Error::Invalid(format!("there is no tree {tree} to drop"))),
        }
    }
}

/// Bytes of a tree's table files by volume.
fn volume_bytes(files: &TreeFiles) -> BTreeMap<VolumeId, u64> {
    let mut bytes = BTreeMap::new();
    for table in files.runs.iter().flat_map(|run| &run.tables) {
        *bytes.entry(table.file.volume).or_default() += table.bytes;
    }
    bytes
}
