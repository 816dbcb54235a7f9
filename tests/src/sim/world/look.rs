//! Reading, and comparing what was read with the model.

use super::{HeldView, World};
use crate::sim::compare::{
    check_tail, check_view, database_exists, positions_of, rebuild, records_after, verify_env,
};
use crate::sim::history::Name;
use quiredb::{Collection, View};

impl World {
    /// A view of now, which decides some of the batches in doubt. `None` if it can't be read.
    pub(super) fn observe(&mut self, name: Name, collection: &Collection) -> Option<View> {
        let view = self.accepted(collection.view(), "take a view")?;
        for (number, position) in positions_of(&view).into_iter().enumerate() {
            let last = self.collections[&name].partitions[number].last();
            assert!(
                position >= last,
                "a view at {position} misses what was acknowledged, up to {last}"
            );
            let more = records_after(collection, number, last, position);
            let more = self.accepted(more, "read the log")?;
            let model = self.collections.get_mut(&name).unwrap();
            model.partitions[number].found(&more, true, "a view");
        }
        Some(view)
    }

    pub(super) fn take_view(&mut self, name: Name) {
        if let Some((_, held)) = self.hold_view(name) {
            self.views.push(held);
        }
    }

    /// A view of the collection as it is now, and what it must show as long as it is held.
    fn hold_view(&mut self, name: Name) -> Option<(Collection, HeldView)> {
        let collection = self.collection(name)?;
        let view = self.observe(name, &collection)?;
        let positions = positions_of(&view);
        let state = self.collections[&name].state_at(&positions);
        let held = HeldView {
            name,
            view,
            positions,
            state,
        };
        Some((collection, held))
    }

    pub(super) fn look_at_views(&self) {
        for held in &self.views {
            assert_eq!(
                positions_of(&held.view),
                held.positions,
                "a view's positions"
            );
            self.accepted(check_view(&held.view, &held.state), "read a view");
        }
    }

    pub(super) fn check_all(&mut self) {
        for name in Name::ALL {
            self.check(name);
        }
        self.check_wide();
    }

    /// Compares all that can be read of a collection with the model.
    pub(super) fn check(&mut self, name: Name) {
        let Some(collection) = self.collection(name) else {
            return;
        };
        assert!(
            self.collections.contains_key(&name),
            "collection {name} was never made"
        );
        let Some(view) = self.observe(name, &collection) else {
            return;
        };
        let positions = positions_of(&view);
        let model = &self.collections[&name];
        let read = check_view(&view, &model.state_at(&positions));
        self.accepted(read, "read a view");
        if let Some(count) = self.accepted(collection.count(), "count") {
            assert_eq!(count, view.count(), "count");
        }
        let read = check_tail(&collection, model, &positions, false);
        self.accepted(read, "read the log");
    }

    /// Writes the contents of the log to another database, and compares that.
    pub(super) fn rebuild(&mut self, name: Name) {
        if let Some((collection, held)) = self.hold_view(name) {
            let rebuilt = rebuild(&collection, &held.positions, &held.state);
            self.accepted(rebuilt, "read the log");
        }
    }

    /// Checks that the log of a collection that was compacted just now holds only what is needed,
    /// and that its figures say so.
    pub(super) fn check_compacted(&mut self, name: Name) {
        let Some(collection) = self.collection(name) else {
            return;
        };
        let Some(view) = self.observe(name, &collection) else {
            return;
        };
        let model = &self.collections[&name];
        let read = check_tail(&collection, model, &positions_of(&view), true);
        self.accepted(read, "read the log");
        if let Some(stats) = self.accepted(collection.stats(), "figures") {
            assert_eq!(stats.log_dead_bytes, 0, "dead bytes after a compaction");
        }
    }

    /// Closes the database, verifies every byte of it and opens it again.
    pub(super) fn verify(&mut self) {
        self.close();
        if self.env.crashed() || !database_exists(&self.env) {
            return;
        }
        let rows = self.wide.as_ref().map_or(0, |wide| wide.rows().len());
        let verified = verify_env(&self.env, &self.volumes, self.collections.values(), rows);
        self.accepted(verified, "verify");
        if !self.env.crashed() {
            self.recover("after a verification");
        }
    }
}
