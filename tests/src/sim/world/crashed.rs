//! A crashed machine, to be restarted more than once.

use super::World;
use super::backup::Snapshot;
use super::trouble::{Reads, Trouble};
use crate::sim::compare::database_exists;
use crate::sim::history::Name;
use crate::sim::model::Collection;
use crate::sim::run::RunStats;
use crate::sim::wide::model::Wide;
use quire_env::SimEnv;
use quiredb::{CollectionSettings, DatabaseOptions, Volumes};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A world whose machine has crashed.
#[derive(Debug)]
pub(crate) struct Crashed {
    env: Arc<SimEnv>,
    options: DatabaseOptions,
    volumes: Volumes,
    settings: CollectionSettings,
    collections: BTreeMap<Name, Collection>,
    wide: Option<Wide>,
    backups: Vec<Snapshot>,
    snapshot_max: u64,
    serial: u64,
    step: usize,
}

impl World {
    /// For many restarts of one machine.
    pub(crate) fn into_crashed(self) -> Crashed {
        let World {
            env,
            options,
            volumes,
            settings,
            database,
            collections,
            wide,
            views,
            backups,
            snapshot_max,
            serial,
            step,
            ..
        } = self;
        drop(views);
        drop(database);
        Crashed {
            env,
            options,
            volumes,
            settings,
            collections,
            wide,
            backups,
            snapshot_max,
            serial,
            step,
        }
    }
}

impl Crashed {
    /// The machine as it starts again.
    pub(crate) fn world(&self, seed: u64) -> World {
        World {
            env: self.env.after_crash(seed),
            options: self.options.clone(),
            volumes: self.volumes.clone(),
            settings: self.settings.clone(),
            database: None,
            collections: self.collections.clone(),
            wide: self.wide.clone(),
            views: Vec::new(),
            backups: self.backups.clone(),
            follower: None,
            snapshot_max: self.snapshot_max,
            trouble: Trouble::None,
            reads: Reads::Whole,
            rotten: Vec::new(),
            vanished: false,
            filled: false,
            excused: Cell::new(0),
            crash_seed: seed,
            watched: false,
            serial: self.serial,
            step: self.step,
            past: RunStats {
                histories: 1,
                crashes: 1,
                recoveries: 1,
                ..RunStats::default()
            },
            traces: Vec::new(),
        }
    }
}

impl World {
    /// After a restart: checks everything; every other time also before the database is opened.
    pub(crate) fn recover_and_check(&mut self, seed: u64) {
        if seed.is_multiple_of(2) && database_exists(&self.env) {
            // What a crash left is no damage, and reading it removes nothing.
            let report = quiredb::operations::verify(
                self.env.clone(),
                self.volumes.clone(),
                &Default::default(),
                &mut |_, _| {},
            );
            assert_eq!(report.unwrap().damage, [], "after a crash");
        }
        self.recover("after a crash");
        self.check_all();
        self.finish();
    }

    /// After a restart: the machine crashes at a step of the recovery, if it has that many, and is
    /// restarted again.
    pub(crate) fn recover_and_crash_at(&mut self, step: u64, seed: u64) {
        self.env.crash_at(step);
        self.recover("after a crash");
        self.restart(seed);
        self.check_all();
        self.finish();
    }
}
