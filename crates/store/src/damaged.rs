//! Derived trees that turn out to be damaged: nobody reads them from then on, and they are built
//! anew.
//!
//! # Invariants
//! 1. What is reported is the tree as it was when it was read: one that was built anew since stays.
//! 2. From the report on no new view has the tree, and a capture leaves its files out.
//! 3. Trees that `apply` writes are never given up: their damage is an error.

use crate::deriver::Group;
use crate::store::Inner;
use crate::trees::{SeenUse, Slot, TreeUse};
use crate::verify::damaged;
use crate::{Error, Machine, Store, TreeId, View};
use quire_seeded::{Bug, seeded};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Whether the bytes of a tree are wrong, and not the machine.
pub fn is_damage(error: &quire_lsm::Error) -> bool {
    damaged(error) || error.kind() == quire_lsm::ErrorKind::Merge
}

/// Whether the bytes of a tree are wrong, and not the machine.
pub(crate) fn is_tree_damage(error: &Error) -> bool {
    matches!(error, Error::Tree(error) if is_damage(error))
}

/// A store that may be gone: this keeps nothing open.
pub struct WeakStore<M: Machine>(Weak<Inner<M>>);

impl<M: Machine> fmt::Debug for WeakStore<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakStore")
    }
}

impl<M: Machine> WeakStore<M> {
    /// The store, if it is still there.
    pub fn upgrade(&self) -> Option<Store<M>> {
        let inner = self.0.upgrade()?;
        Some(Store { inner })
    }
}

/// Told of damage to a file of a derived tree.
#[derive(Clone)]
pub struct DamageReport(Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for DamageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DamageReport")
    }
}

impl DamageReport {
    pub(crate) fn tell(&self, what: &str) {
        (self.0)(what);
    }
}

impl<M: Machine> Store<M> {
    /// The same store, not kept open.
    pub fn downgrade(&self) -> WeakStore<M> {
        WeakStore(self.inner.me.clone())
    }

    /// Has a derived tree built anew in the background, with those that are derived together with
    /// it, because what `view` shows of it is damaged. Nothing happens if it is another tree by
    /// now, or one that `apply` writes.
    pub fn rebuild_tree(&self, view: &View<M::Summary>, tree: TreeId, what: &str) {
        let mut derived = view.derived.iter();
        if let Some(found) = derived.find(|found| found.id == tree) {
            self.inner.rebuild_derived(tree, found.seen, what);
        }
    }
}

impl<M: Machine> Inner<M> {
    /// Has a derived tree built anew that was found damaged when it was like `seen`.
    pub(crate) fn rebuild_derived(&self, tree: TreeId, seen: SeenUse, what: &str) {
        {
            let mut deriver = self.deriving.lock();
            let is_seen = |slot: &Slot| slot.seen() == seen && seen.used() != TreeUse::Applied;
            if !self.trees.find(tree).is_some_and(is_seen) {
                return;
            }
            let mut groups = deriver.groups.iter_mut();
            let Some(group) = groups.find(|group| group.ids.contains(&tree) && !group.broken)
            else {
                return;
            };
            if !seeded(Bug::DamagedIndexUsed) {
                self.break_group(group);
            }
            self.note_rebuilt(group, what);
        }
        self.schedule_derive(Duration::ZERO);
    }

    /// Says that the trees of a group are built anew, and why.
    pub(crate) fn note_rebuilt(&self, group: &Group, what: &str) {
        tracing::error!(
            partition = %self.dir.display(),
            tree = ?group.ids.first(),
            what,
            "a derived tree is built anew"
        );
        let mut rebuilt = self.rebuilt.lock();
        for id in &group.ids {
            let rebuilt = rebuilt.entry(*id).or_default();
            rebuilt.count += 1;
            rebuilt.why = what.into();
        }
    }

    /// Who is told if a file of this tree is found damaged; `None` for a tree that `apply` writes.
    pub(crate) fn damage_report(&self, slot: &Slot) -> Option<DamageReport> {
        let (me, id, seen) = (Weak::clone(&self.me), slot.id, slot.seen());
        let tell = move |what: &str| {
            if let Some(inner) = me.upgrade() {
                inner.rebuild_derived(id, seen, what);
            }
        };
        (seen.used() != TreeUse::Applied).then(|| DamageReport(Arc::new(tell)))
    }

    /// The trees that are to be built anew.
    pub(crate) fn broken_trees(&self) -> Vec<TreeId> {
        let deriver = self.deriving.lock();
        let broken = deriver.groups.iter().filter(|group| group.broken);
        broken.flat_map(|group| group.ids.clone()).collect()
    }
}
