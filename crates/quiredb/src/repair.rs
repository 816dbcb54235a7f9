//! Repairing: what is whole of a damaged database goes into a new one, and what is lost into a
//! report.
//!
//! # Invariants
//! 1. The damaged database is only read, under its lock; the new one is made through the ordinary
//!    write path.
//! 2. A document of the new database is one that was written under its key: the newest whole one
//!    that the log holds, unless the index, all of whose bytes are whole, says that it was deleted
//!    later.
//! 3. Everything that may be older than it was, or missing, is reported: by key where the index
//!    still knows it, else by position.
//! 4. Memory does not grow with the documents.

mod compare;
mod origins;
mod survey;

use crate::catalog::partition_dir;
use crate::database::LOCK_NAME;
use crate::verify::Damage;
use crate::{Collection, Database, Error, Options, Result};
use origins::Origins;
use quire_collection::{Effect, Salvage, Salvaged, SalvagedIndex, Write};
use quire_env::{Env, ErrorKind as EnvErrorKind, Volumes};
use quire_model::Position;
use quire_store::{Durability, Place, Shared};
use serde::Serialize;
use std::sync::Arc;
use survey::{Survey, Surveyed};

/// Writes that go into the new database at once.
const BATCH_WRITES: usize = 1024;
/// Bytes of documents that do.
const BATCH_BYTES: usize = 4 << 20;

/// What a repair comes upon, in the order that it does. As JSON: an object with its kind in
/// `event`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RepairEvent {
    /// So many bytes were read, of so many.
    Progress {
        /// Read so far.
        done: u64,
        /// Of all files.
        total: u64,
    },
    /// Something that the damaged catalog does not say for sure.
    Guess {
        /// The collection, by its name in the new database.
        collection: String,
        /// What was taken from where.
        what: String,
    },
    /// Something is wrong; with the positions that it loses.
    Damage {
        /// The collection; empty if it is not one's.
        collection: String,
        /// The partition.
        partition: u32,
        /// What and where.
        #[serde(flatten)]
        damage: Damage,
    },
    /// A document of which the newest version is lost.
    Key {
        /// The collection.
        collection: String,
        /// The partition.
        partition: u32,
        /// Its key.
        key: String,
        /// What became of it.
        #[serde(flatten)]
        outcome: LostKey,
    },
    /// Records are lost, and nothing says which documents they changed: those may be older than
    /// they were, or missing, or there although they were deleted.
    Unknown {
        /// The collection.
        collection: String,
        /// The partition.
        partition: u32,
        /// The first position.
        first: u64,
        /// The last; none if nothing says how far the log went: there may have been no such record
        /// at all.
        last: Option<u64>,
    },
    /// Writes that were done together, whole or not at all, of which only these are left.
    Part {
        /// The collection.
        collection: String,
        /// The partition.
        partition: u32,
        /// The first position.
        first: u64,
        /// The last.
        last: u64,
    },
}

/// What became of a document whose newest version is lost. Positions are those of the damaged
/// database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LostKey {
    /// An older version was kept.
    Older {
        /// The version that is lost.
        lost: u64,
        /// The version that was kept.
        kept: u64,
    },
    /// No version is whole.
    Lost {
        /// The version that is lost.
        lost: u64,
    },
    /// The log lost its deletion, and the index knows of it: it was deleted.
    Deleted {
        /// The newest version that the log holds.
        found: u64,
    },
}

/// What a repair did, in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RepairReport {
    /// Collections.
    pub collections: u64,
    /// Records that were whole.
    pub records: u64,
    /// Documents in the new database.
    pub documents: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Log bytes after the last whole write, as a crash leaves them: not acknowledged, so no
    /// damage.
    pub torn_bytes: u64,
    /// Things that are wrong with the files.
    pub damages: u64,
    /// Things that a damaged catalog did not say for sure.
    pub guesses: u64,
    /// Positions whose records are lost.
    pub positions_lost: u64,
    /// Of those: positions of which nothing says what documents they changed.
    pub positions_unknown: u64,
    /// Partitions of which nothing says how far their logs went.
    pub ends_unknown: u64,
    /// Documents of which an older version was kept.
    pub keys_older: u64,
    /// Documents of which no version is whole.
    pub keys_lost: u64,
    /// Documents whose deletion was lost, and that were deleted all the same.
    pub keys_deleted: u64,
}

impl RepairReport {
    /// Whether the new database holds exactly what the damaged one acknowledged.
    pub fn is_whole(&self) -> bool {
        self.positions_lost == 0 && self.ends_unknown == 0 && self.guesses == 0
    }
}

/// Salvages what is whole of the database on the volumes `from`, which no process has open, into a
/// new database on `to`. Everything else is told to `on_event`. The documents of an undamaged
/// database come out equal, versions included.
///
/// If it fails, what is there of the new database is not to be used.
///
/// # Errors
/// `NotFound` or `Invalid` if there is no database; `Locked`; `Invalid` if there is something at
/// `to`; `Full` or `Io` if the new one can't be written, or a file of the old one not be opened.
/// Damage is no error.
pub fn repair(
    env: Arc<dyn Env>,
    from: Volumes,
    to: Volumes,
    on_event: &mut dyn FnMut(RepairEvent),
) -> Result<RepairReport> {
    check_target(&*env, &from, &to)?;
    survey::require(&*env, &from)?;
    let lock = env.lock(&from.root().join(LOCK_NAME))?;
    let shared = Shared::new(
        Arc::clone(&env),
        Options::default().memory_bytes,
        Some(lock),
    );
    let survey = Survey::of(&*env, &from)?;
    let total = survey.total_bytes(&*env, &from)?;
    let mut repair = Repair {
        shared,
        from,
        report: RepairReport::default(),
        total,
        on_event,
    };
    let options = Options {
        // All that is whole is to come out of it.
        retention: false,
        ..Options::default()
    };
    let database = Database::open_with(env, to, options)?;
    for damage in survey.damage.clone() {
        repair.damage("", 0, damage);
    }
    for surveyed in &survey.collections {
        repair.collection(&database, &survey, surveyed)?;
    }
    for name in database.collections() {
        repair.report.documents += database.collection(&name)?.count()?;
    }
    database.flush()?;
    database.close()?;
    Ok(repair.report)
}

/// Fails unless the new database would be a new one, and somewhere else.
fn check_target(env: &dyn Env, from: &Volumes, to: &Volumes) -> Result<()> {
    for volume in to.iter() {
        let inside = |old: &quire_env::Volume| volume.path.starts_with(&old.path);
        if from.iter().any(inside) {
            let what = format!(
                "{} is within the damaged database, which is only read; give a new directory elsewhere",
                volume.path.display()
            );
            return Err(Error::Invalid(what));
        }
        match env.list(&volume.path) {
            Err(error) if error.kind() == EnvErrorKind::NotFound => {}
            Ok(names) if names.is_empty() => {}
            Ok(_) => {
                let what = format!(
                    "{} is not empty; give a new directory for what is salvaged",
                    volume.path.display()
                );
                return Err(Error::Invalid(what));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

struct Repair<'a> {
    shared: Arc<Shared>,
    from: Volumes,
    report: RepairReport,
    total: u64,
    on_event: &'a mut dyn FnMut(RepairEvent),
}

/// Where a partition's documents go, and what is known of them on the way.
struct Target<'a> {
    collection: &'a Collection,
    origins: &'a mut Origins,
    /// The partition that is read.
    partition: u32,
    writes: Vec<Write>,
    /// Where the writes were.
    positions: Vec<Position>,
    bytes: usize,
}

impl Repair<'_> {
    fn damage(&mut self, collection: &str, partition: u32, damage: Damage) {
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

    fn read(&mut self, bytes: u64) {
        self.report.bytes += bytes;
        (self.on_event)(RepairEvent::Progress {
            done: self.report.bytes,
            total: self.total.max(self.report.bytes),
        });
    }

    fn collection(
        &mut self,
        database: &Database,
        survey: &Survey,
        surveyed: &Surveyed,
    ) -> Result<()> {
        self.report.collections += 1;
        for what in &surveyed.guesses {
            self.report.guesses += 1;
            (self.on_event)(RepairEvent::Guess {
                collection: surveyed.name.clone(),
                what: what.clone(),
            });
        }
        let settings = surveyed.settings.clone();
        let collection = database.create_collection(&surveyed.name, settings)?;
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
                    let mut damage = crate::verify::damage(&place.dir(), 0, what, "the record");
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

    fn unknown(
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

impl Target<'_> {
    fn add(&mut self, position: Position, write: Write) -> Result<()> {
        self.bytes += match &write.action {
            quire_collection::Action::Put(document) => document.as_bytes().len(),
            _ => 0,
        };
        self.writes.push(write);
        self.positions.push(position);
        if self.writes.len() >= BATCH_WRITES || self.bytes >= BATCH_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// Writes what was added into the new database.
    fn write(&mut self) -> Result<()> {
        self.bytes = 0;
        let writes = std::mem::take(&mut self.writes);
        let results = self.collection.write_batch(writes, Some(Durability::None));
        for (result, position) in results.into_iter().zip(self.positions.drain(..)) {
            let written = result?;
            if written.effect != Effect::Unchanged {
                let origin = Some((self.partition, position));
                self.origins
                    .note(written.partition, written.version, origin);
            }
        }
        Ok(())
    }
}
