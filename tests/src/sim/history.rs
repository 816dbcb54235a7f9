//! Histories: the operations on a database, and the faults of the machine, as plain data.

use super::wide::WideOp;
use quiredb::{
    Codec, CollectionSettings, DatabaseOptions, Durability, IndexedFields, Medium, Volumes,
};
use std::path::PathBuf;

/// The most volumes of a history.
pub const VOLUMES_MAX: u32 = VOLUME_DIRS.len() as u32;
const VOLUME_DIRS: [&str; 3] = ["/db", "/disk2", "/disk3"];
/// Of the hot tier of the wide collection.
const SSD_DIR: &str = "/ssd";

/// A machine, the options of a database, and the operations. As text it is a script: see
/// [`text`](super::text).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The seed of the machine: it decides the order of background jobs, and what a crash does to
    /// unsynced bytes.
    pub seed: u64,
    /// The number of directories of the database, each a disk; 1 to [`VOLUMES_MAX`].
    pub volumes: u32,
    /// Of a collection that is made by the first write to it.
    pub partitions: u32,
    /// As of [`DatabaseOptions`](quiredb::DatabaseOptions).
    pub memory_bytes: u64,
    /// As of [`DatabaseOptions`](quiredb::DatabaseOptions).
    pub segment_bytes: u64,
    /// As of [`DatabaseOptions`](quiredb::DatabaseOptions).
    pub replay_bytes_max: u64,
    /// Of collections: the level of zstd; 0 for the default codec.
    pub zstd_level: u64,
    /// As of [`CollectionSettings`], with zstd.
    pub dictionary_bytes: u64,
    /// As of [`CollectionSettings`].
    pub segment_age_secs: u64,
    /// Of collections: whether all fields are indexed; else none is.
    pub index: bool,
    /// The operations, in order.
    pub ops: Vec<Op>,
}

impl Default for History {
    /// The least memory, one volume, one partition, and no operations.
    fn default() -> History {
        History {
            seed: 0,
            volumes: 1,
            partitions: 1,
            memory_bytes: 16 << 20,
            segment_bytes: 1 << 20,
            replay_bytes_max: 256 << 20,
            zstd_level: 0,
            dictionary_bytes: 0,
            segment_age_secs: 0,
            index: false,
            ops: Vec::new(),
        }
    }
}

impl History {
    /// Whether there are operations on the wide collection.
    pub fn has_wide(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Wide(_)))
    }

    /// The directories. With a wide collection there is one more, on another medium.
    pub(crate) fn volumes(&self) -> Volumes {
        let dirs = VOLUME_DIRS.into_iter().take(self.volumes as usize);
        let ssd = self
            .has_wide()
            .then_some((PathBuf::from(SSD_DIR), Medium::Ssd));
        let hdds = dirs.map(|dir| (PathBuf::from(dir), Medium::Hdd));
        Volumes::new(hdds.chain(ssd)).unwrap()
    }

    /// Of a collection that is made.
    pub(crate) fn settings(&self) -> CollectionSettings {
        let (codec, dictionary_bytes) = match self.zstd_level {
            0 => (Codec::default(), 0),
            level => (Codec::Zstd(level as u8), self.dictionary_bytes as u32),
        };
        CollectionSettings {
            partitions: self.partitions,
            codec,
            dictionary_bytes,
            segment_age_secs: self.segment_age_secs,
            index: indexed_fields(self.index),
            ..CollectionSettings::default()
        }
    }

    pub(crate) fn options(&self) -> DatabaseOptions {
        DatabaseOptions {
            memory_bytes: self.memory_bytes,
            replay_bytes_max: self.replay_bytes_max,
            segment_bytes: self.segment_bytes,
            ..DatabaseOptions::default()
        }
    }
}

/// All fields, or none.
pub(crate) fn indexed_fields(all: bool) -> IndexedFields {
    match all {
        true => IndexedFields::all(),
        false => IndexedFields::none(),
    }
}

/// Which collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// The collection of most operations.
    Alpha,
    /// The other collection.
    Beta,
}

impl Name {
    /// Both.
    pub const ALL: [Name; 2] = [Name::Alpha, Name::Beta];

    /// Its name in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Name::Alpha => "alpha",
            Name::Beta => "beta",
        }
    }
}

/// One operation or fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// A batch of writes; a collection that does not exist is made first.
    Write {
        /// Where.
        name: Name,
        /// Their durability.
        durability: Durability,
        /// At least one.
        writes: Vec<Write>,
    },
    /// An operation on the wide collection.
    Wide(WideOp),
    /// Makes everything written so far durable.
    Sync(Name),
    /// Writes the memtables out.
    Flush(Name),
    /// Merges every tree into one run.
    Compact(Name),
    /// Indexes all fields of a collection, or none. Does nothing while the machine has faults.
    Index(Name, bool),
    /// Splits each partition of a collection in two, unless it has many, or writes in doubt.
    Split(Name),
    /// Merges each two partitions of a collection, unless their number is odd, or writes are in
    /// doubt.
    Merge(Name),
    /// Makes a collection with this number of partitions.
    Create(Name, u32),
    /// Drops a collection.
    Drop(Name),
    /// Compares everything that can be read with the model.
    Check(Name),
    /// Takes a view, to be read later.
    View(Name),
    /// Compares all held views with the model of their time, and drops the first.
    LookAtViews,
    /// Closes the database, reads and checks every byte of it, compares the counts, and opens it
    /// again. Does nothing while the machine has faults.
    Verify,
    /// As [`Op::Verify`], on a copy with one bit changed, chosen by the seed: either the
    /// verification finds it, or it does no harm. Every answer of the copy is right.
    VerifyRotten {
        /// See above.
        seed: u64,
    },
    /// Writes all that the log holds, in order, to a new database, and compares that with the
    /// model.
    Rebuild(Name),
    /// Backs the database up, into a backup that grows by a snapshot each time.
    Backup,
    /// Restores the backups, each on a copy of the machine as a crash would leave it, and compares
    /// them with the model of their time.
    Restore {
        /// Of the crash.
        seed: u64,
    },
    /// Closes the database and repairs a copy, although nothing is damaged: the result is the same.
    /// Does nothing while the machine has faults.
    Repair,
    /// A follower takes what is there; the first time as a copy, later as records. Does nothing
    /// while the machine has faults.
    Follow,
    /// Background jobs that are due run.
    RunDue,
    /// Some seconds pass, with all background jobs that are due in them.
    RunAll,
    /// This number of milliseconds pass.
    Advance(u32),
    /// The database is opened again, after a close or after being dropped.
    Reopen(End),
    /// The machine stops now; the seed decides what is left of unsynced data.
    Crash {
        /// See above.
        seed: u64,
    },
    /// The machine stops at a later I/O step.
    CrashIn {
        /// The number of steps before it.
        steps: u32,
        /// As of [`Op::Crash`].
        seed: u64,
    },
    /// A later I/O step fails.
    FailIn {
        /// The number of steps before it.
        steps: u32,
        /// Whether the disk is full, rather than failing.
        full: bool,
        /// Whether all later ones fail too.
        lasting: bool,
    },
    /// A later read fails.
    FailReadIn {
        /// The number of reads before it.
        reads: u32,
        /// Whether the read ends early, rather than failing with an I/O error.
        short: bool,
        /// Whether all later ones fail too.
        lasting: bool,
    },
    /// A bit changes in a file, both chosen by the seed. Healing, opening again and a crash undo
    /// it.
    Rot {
        /// See above.
        seed: u64,
    },
    /// The disk of a volume, counted from 1, fails at every call. Healing brings it back with what
    /// was synced; files that were open fail until the database is opened again.
    Vanish(u32),
    /// Calls take this number of microseconds more, and up to as many again.
    Slow(u32),
    /// Syncs fail from now on.
    FailSyncs,
    /// The disk has this number of free bytes left.
    Fill(u32),
    /// The disk of a volume, counted from 1, has this number of free bytes left.
    FillVolume(u32, u32),
    /// All faults end, and the disk is large.
    Heal,
}

/// How a database is left before it is opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It is closed, and the close must report whether it succeeded.
    Close,
    /// It is dropped, with all handles to it.
    Drop,
}

/// One write of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// The number of a key, below [`KEYS`](super::KEYS).
    pub key: u8,
    /// The change of its document.
    pub action: Action,
    /// The condition of the write.
    pub condition: Condition,
}

/// The change that a write makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Puts a document with a text of this number of bytes. All documents that a history puts
    /// differ.
    Put {
        /// See above.
        bytes: u32,
    },
    /// Patches four parts of the document, as the bits of `shape` say; 0 is an empty patch.
    Patch {
        /// Below 16.
        shape: u8,
    },
    /// Deletes it.
    Delete,
}

/// The condition of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    Always,
    /// There is no such document.
    IfAbsent,
    /// It has its present version.
    IfCurrent,
    /// It has another version than its present one.
    IfStale,
    /// Its external version is less than one that is given.
    External {
        /// The one given is the present one plus this, less one.
        step: u8,
    },
    /// As `External`, or it is equal.
    ExternalOrEqual {
        /// As of `External`.
        step: u8,
    },
}
