//! Loading: pairs go into a tree past log and memtables, all at once.
//!
//! A load (1) writes its tables and syncs them, beside everything else; (2) keeps writers waiting
//! while what they wrote is flushed, which after a flush just before is little; (3) replaces the
//! manifest by one that names the tables; (4) lets readers see them. So it is newer than all that
//! was written before, older than all that is written after, and a crash between any two steps
//! leaves all of it or nothing: files that no manifest names are orphans.

use crate::flush::ManifestChange;
use crate::store::Inner;
use crate::trees::Slot;
use crate::{Error, Machine, Result, Store, TreeId};
use quire_lsm::{Load, TreeEdit};
use std::sync::atomic::Ordering;

impl<M: Machine> Store<M> {
    /// Begins to load pairs into the tree `tree`. A memtable's share of the memory is for
    /// sorting them.
    ///
    /// # Errors
    /// `Closed`, `ReadOnly`; `Invalid` where the log is what counts, or for a tree that is not
    /// there.
    pub fn load(&self, tree: TreeId) -> Result<Load> {
        let inner = &*self.inner;
        inner.check_writable()?;
        let slot = inner.trees.get_applied(tree).ok();
        let slot = slot.filter(|_| !M::LOG_IS_KEPT);
        let slot = slot.ok_or_else(|| Error::Invalid("no tree to load pairs into".into()))?;
        Ok(slot.tree.load(inner.shared.memtables().limit() / 4))
    }

    /// Adds what was loaded for the tree `tree`, over everything that was written before.
    /// It is durable when this returns.
    ///
    /// # Errors
    /// As of [`flush`](Store::flush), and nothing of it was added; `Invalid` after a pair that
    /// could not be taken.
    pub fn finish_load(&self, tree: TreeId, load: Load) -> Result<()> {
        let inner = &*self.inner;
        inner.check_writable()?;
        if load.pairs() == 0 {
            return Ok(());
        }
        let stop = || inner.closed.load(Ordering::Acquire);
        let slot = inner.trees.get_applied(tree)?;
        match slot.tree.finish_load(load, &stop)? {
            Some(edit) => inner.add(slot, edit),
            None => Err(Error::Closed),
        }
    }
}

impl<M: Machine> Inner<M> {
    /// Adds a run over everything that was written before.
    fn add(&self, slot: &Slot, edit: TreeEdit) -> Result<()> {
        // Writers do not wait for this one.
        if let Err(error) = self.flush() {
            slot.tree.abandon(edit);
            return Err(error);
        }
        let added = {
            let _one = self.flushing.lock();
            let deriver = self.deriving.lock();
            let mut writer = self.writer.lock();
            let cut = self.freeze(&mut writer);
            let flushed = self.check_writable();
            match flushed.and_then(|()| self.flush_cut(cut, deriver)) {
                Ok(_) => self.commit(ManifestChange::edit(slot.id, edit)),
                Err(error) => {
                    slot.tree.abandon(edit);
                    Err(error)
                }
            }
        };
        self.shared.flush_ended();
        self.changed.notify();
        self.schedule_compaction();
        added
    }
}
