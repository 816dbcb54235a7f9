//! Copies of the database: backups, restores, and repairs.

use super::World;
use super::trouble::Trouble;
use super::wide::check_wide_copy;
use crate::sim::compare::{check_documents, check_view, database_exists, positions_of};
use crate::sim::history::Name;
use crate::sim::model::State;
use crate::sim::wide::model::Wide;
use crate::sim::wide::row::Rows;
use quire_env::SimEnv;
use quiredb::operations::{BackupOptions, backup};
use quiredb::{Database, DatabaseBuilder, ErrorKind, Volumes};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

const BACKUP: &str = "/backup";
/// The most snapshots that a backup keeps.
const KEPT: u32 = 3;

/// The contents that a snapshot of the backup must have: the positions of each collection, and its
/// documents.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    pub(super) number: u64,
    pub(super) collections: BTreeMap<Name, (Vec<u64>, State)>,
    /// Of the wide collection.
    pub(super) rows: Option<Rows>,
}

impl World {
    pub(super) fn backup(&mut self) {
        let Some(database) = self.open() else { return };
        let options = BackupOptions {
            rate_bytes: None,
            keep: Some(KEPT),
        };
        let proceed = &mut |_, _| ControlFlow::Continue(());
        let made = backup(&database, Path::new(BACKUP), &options, proceed);
        // A failed backup may have made its snapshot all the same, and removed the oldest.
        self.snapshot_max = match &made {
            Ok(made) => made.snapshot.number,
            Err(_) => self.snapshot_max + 1,
        };
        let kept = self.snapshot_max.saturating_sub(KEPT.into());
        self.backups.retain(|snapshot| snapshot.number > kept);
        let Some(made) = self.accepted(made, "back up") else {
            return;
        };
        let mut collections = BTreeMap::new();
        let known: Vec<_> = self.collections.keys().copied().collect();
        for name in known {
            let of_this = made.snapshot.positions.iter();
            let of_this = of_this.filter(|one| one.collection == name.as_str());
            let positions: Vec<_> = of_this.map(|one| one.position).collect();
            // No record was written since.
            let view = match self.collection(name) {
                Some(collection) => self.observe(name, &collection),
                None => None,
            };
            let model = &self.collections[&name];
            if !model.certain && positions.is_empty() {
                continue;
            }
            match view.map(|view| positions_of(&view)) {
                Some(seen) if seen == positions => {
                    collections.insert(name, (positions.clone(), model.state_at(&positions)));
                }
                // It holds records that are not visible yet, or can't be read just now.
                _ if self.trouble != Trouble::None => return,
                seen => panic!("a snapshot of {name} at {positions:?}, and not {seen:?}"),
            }
        }
        let rows = match self.wide_rows() {
            Ok(rows) => rows,
            Err(()) => return,
        };
        self.backups.push(Snapshot {
            number: made.snapshot.number,
            collections,
            rows,
        });
    }

    /// A backup is not affected by what happens to the machine now.
    pub(super) fn restore(&mut self, seed: u64) {
        if !self.rotten.is_empty() || self.env.crashed() {
            return;
        }
        for snapshot in &self.backups {
            let env = roomy_copy(&self.env, seed);
            let to = Volumes::single("/restored");
            let from = Path::new(BACKUP);
            quiredb::operations::restore(
                env.clone(),
                from,
                Some(snapshot.number),
                &to,
                &mut |_, _| {},
            )
            .unwrap();
            self.check_copy(&env, to, snapshot, true, "restored");
        }
    }

    pub(super) fn repair(&mut self) {
        if self.env.crashed() || !database_exists(&self.env) {
            return;
        }
        // Opening again settles what is in doubt, such as a collection whose creation failed: a
        // copy has it or not.
        self.close();
        if self.env.crashed() {
            return;
        }
        self.recover("before a repair");
        self.close();
        if self.env.crashed() {
            return;
        }
        let env = roomy_copy(&self.env, 0);
        let to = Volumes::single("/repaired");
        let mut events = Vec::new();
        let report = quiredb::operations::repair(
            env.clone(),
            self.volumes.clone(),
            to.clone(),
            &mut |event| {
                events.push(format!("{event:?}"));
            },
        )
        .unwrap();
        assert!(report.is_whole(), "{report:?}: {events:?}");
        let collections = self.collections.iter().map(|(name, model)| {
            let partitions = model.partitions.iter();
            let positions: Vec<_> = partitions.map(|partition| partition.last()).collect();
            let state = model.state_at(&positions);
            (*name, (positions, state))
        });
        let whole = Snapshot {
            number: 0,
            collections: collections.collect(),
            rows: self.wide.as_ref().map(Wide::rows),
        };
        self.check_copy(&env, to, &whole, false, "repaired");
        self.recover("after a repair");
    }

    /// Checks that a database holds what a snapshot says, and nothing else. If it was rewritten,
    /// versions of documents differ.
    fn check_copy(
        &self,
        env: &Arc<SimEnv>,
        volumes: Volumes,
        expected: &Snapshot,
        exact: bool,
        what: &str,
    ) {
        let database = DatabaseBuilder::on(&volumes)
            .env(env.clone())
            .options(self.options.clone())
            .open()
            .unwrap();
        check_contents(&database, expected, exact, what);
        database.close().unwrap();
    }
}

/// Checks that an open database holds what a snapshot says, and nothing else.
pub(super) fn check_contents(database: &Database, expected: &Snapshot, exact: bool, what: &str) {
    for name in Name::ALL {
        match (
            database.collection(name.as_str()),
            expected.collections.get(&name),
        ) {
            (Ok(collection), Some((positions, state))) => {
                let view = collection.view().unwrap();
                if exact {
                    let found = positions_of(&view);
                    assert_eq!(&found, positions, "{what}: positions of {name}");
                    check_view(&view, state).unwrap();
                }
                check_documents(&view, state);
            }
            (Err(error), None) if error.kind() == ErrorKind::NotFound => {}
            (found, expected) => panic!("{what}: {name} is {found:?}, and not {expected:?}"),
        }
    }
    check_wide_copy(database, expected.rows.as_ref(), exact, what);
}

/// The machine as a crash would leave it, with space for copies.
fn roomy_copy(env: &SimEnv, seed: u64) -> Arc<SimEnv> {
    let copy = env.after_crash(seed);
    copy.set_capacity(1 << 40);
    copy
}
