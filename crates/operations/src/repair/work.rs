//! The work of a repair: each partition's log is read, and what is whole is written to the new
//! database.

use super::compare::compare;
use super::origins::Origins;
use super::report::{LostKey, RepairEvent, RepairReport};
use super::survey::{Survey, Surveyed};
use super::target::Target;
use quire_collection::{Salvage, Salvaged, SalvagedIndex};
use quire_database::catalog::partition_dir;
use quire_database::{Alias, AliasChange, Damage, Database, Result};
use quire_env::Volumes;
use quire_model::Position;
use quire_store::{Place, Shared};
use std::sync::Arc;

/// A repair under way.
pub(super) struct Repair<'a> {
    pub(super) shared: Arc<Shared>,
    pub(super) from: Volumes,
    pub(super) report: RepairReport,
    /// Bytes that there are to read.
    pub(super) total: u64,
    pub(super) on_event: &'a mut dyn FnMut(RepairEvent),
}

impl Repair<'_> {
    pub(super) fn damage(&mut self, collection: &str, partition: u32, damage: Damage) {
        self.report.damages += 1;
        if let Some((first, last)) = damage.positions {
            self.report.positions_lost += last.saturating_sub(first) + 1;
        }
        (self.on_event)(RepairEvent::Damage {
            collection: collection.to_string(),
            partition,
            damage,
        });
    }

    /// Counts a collection, and says what is not sure of it.
    pub(super) fn begin_collection(&mut self, surveyed: &Surveyed) {
        self.report.collections += 1;
        for what in &surveyed.guesses {
            self.report.guesses += 1;
            (self.on_event)(RepairEvent::Guess {
                collection: surveyed.name.clone(),
                what: what.clone(),
            });
        }
    }

    pub(super) fn read(&mut self, bytes: u64) {
        self.report.bytes += bytes;
        (self.on_event)(RepairEvent::Progress {
            done: self.report.bytes,
            total: self.total.max(self.report.bytes),
        });
    }

    pub(super) fn collection(
        &mut self,
        database: &Database,
        survey: &Survey,
        surveyed: &Surveyed,
    ) -> Result<()> {
        self.begin_collection(surveyed);
        let settings = surveyed.settings.clone();
        let collection = database.create_collection(&surveyed.name, settings)?;
        let aliases = surveyed.aliases.iter();
        let add = |(alias, options): (&String, &Alias)| AliasChange::Add {
            collection: surveyed.name.clone(),
            alias: alias.clone(),
            options: options.clone(),
        };
        database.change_aliases(&aliases.map(add).collect::<Vec<_>>())?;
        let mut origins = Origins::new(surveyed.settings.partitions);
        for partition in 0..surveyed.settings.partitions {
            let place = Place {
                volumes: self.from.clone(),
                subdir: partition_dir(surveyed.id, partition),
                identity: survey.identity(surveyed.id, partition),
            };
            let target = Target {
                collection: &collection,
                origins: &mut origins,
                partition,
                writes: Vec::new(),
                positions: Vec::new(),
                bytes: 0,
            };
            self.partition(&place, target)?;
        }
        Ok(())
    }

    fn partition(&mut self, place: &Place, mut target: Target<'_>) -> Result<()> {
        let (name, partition) = (target.collection.name().to_string(), target.partition);
        let shared = Arc::clone(&self.shared);
        let mut salvage = Salvage::begin(&shared, place, &mut |bytes| self.read(bytes))?;
        // What the index knows is compared with what the log gave when that has come to the same
        // position.
        let mut index = salvage.index();
        let known = index.as_ref().map_or(Position(0), SalvagedIndex::position);
        let mut lost: Vec<(Position, Position)> = Vec::new();
        for item in &mut salvage {
            match item? {
                Salvaged::Read(bytes) => self.read(bytes),
                Salvaged::Damage(found) => {
                    lost.extend(found.positions);
                    self.damage(&name, partition, found.into());
                }
                Salvaged::Senseless(position, what) => {
                    lost.push((position, position));
                    let mut damage = Damage::new(&place.dir(), 0, what, "the record");
                    damage.positions = Some((position.0, position.0));
                    self.damage(&name, partition, damage);
                }
                Salvaged::Part(first, last) => (self.on_event)(RepairEvent::Part {
                    collection: name.clone(),
                    partition,
                    first: first.0,
                    last: last.0,
                }),
                Salvaged::Write(position, write) => {
                    if position > known
                        && let Some(index) = index.take()
                    {
                        self.compare(&index, &lost, &mut target)?;
                    }
                    self.report.records += 1;
                    target.add(position, write)?;
                }
            }
        }
        self.report.torn_bytes += salvage.torn_bytes();
        if let Some(index) = index.take() {
            self.compare(&index, &lost, &mut target)?;
        }
        target.write()?;
        for (first, last) in lost {
            let first = first.max(known.next());
            if first <= last {
                self.report.positions_unknown += last.0 - first.0 + 1;
                self.unknown(&name, partition, first, Some(last));
            }
        }
        if let Some(last) = salvage.end_unknown() {
            self.report.ends_unknown += 1;
            self.unknown(&name, partition, last.next(), None);
        }
        Ok(())
    }

    /// Compares with the index, and reports the documents that differ.
    fn compare(
        &mut self,
        index: &SalvagedIndex,
        lost: &[(Position, Position)],
        target: &mut Target<'_>,
    ) -> Result<()> {
        let (name, partition) = (target.collection.name().to_string(), target.partition);
        compare(index, lost, target, &mut |key, outcome| {
            self.key(&name, partition, key, outcome);
        })
    }

    fn key(&mut self, collection: &str, partition: u32, key: String, outcome: LostKey) {
        let count = match outcome {
            LostKey::Older { .. } => &mut self.report.keys_older,
            LostKey::Lost { .. } => &mut self.report.keys_lost,
            LostKey::Deleted { .. } => &mut self.report.keys_deleted,
        };
        *count += 1;
        (self.on_event)(RepairEvent::Key {
            collection: collection.to_string(),
            partition,
            key,
            outcome,
        });
    }

    pub(super) fn unknown(
        &mut self,
        collection: &str,
        partition: u32,
        first: Position,
        last: Option<Position>,
    ) {
        (self.on_event)(RepairEvent::Unknown {
            collection: collection.to_string(),
            partition,
            first: first.0,
            last: last.map(|last| last.0),
        });
    }
}
