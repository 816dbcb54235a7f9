//! Histories: what is done to a database, and what the machine does to it, as plain data.

use quiredb::{Codec, CollectionSettings, DatabaseOptions, Durability, Medium, Volumes};
use std::path::PathBuf;

/// The most volumes of a history.
pub const VOLUMES_MAX: u32 = VOLUME_DIRS.len() as u32;
const VOLUME_DIRS: [&str; 3] = ["/db", "/disk2", "/disk3"];

/// A machine, a database's options, and what happens. As text it is a script: see
/// [`text`](super::text).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// Of the machine: it decides the order of background jobs, and what becomes of unsynced bytes.
    pub seed: u64,
    /// How many directories the database lives on, each a disk to it; 1 to [`VOLUMES_MAX`].
    pub volumes: u32,
    /// Of a collection that is made by the first write to it.
    pub partitions: u32,
    /// As of [`Options`].
    pub memory_bytes: u64,
    /// As of [`Options`].
    pub segment_bytes: u64,
    /// As of [`Options`].
    pub replay_bytes_max: u64,
    /// Of collections: the level of zstd; 0 for the default codec.
    pub zstd_level: u64,
    /// As of [`CollectionSettings`], with zstd.
    pub dictionary_bytes: u64,
    /// As of [`CollectionSettings`].
    pub segment_age_secs: u64,
    /// What happens, in order.
    pub ops: Vec<Op>,
}

impl Default for History {
    /// The least memory, one volume, one partition, and nothing happens.
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
            ops: Vec::new(),
        }
    }
}

impl History {
    /// The directories.
    pub(crate) fn volumes(&self) -> Volumes {
        let dirs = VOLUME_DIRS.map(PathBuf::from).into_iter();
        let dirs = dirs.take(self.volumes as usize);
        Volumes::new(dirs.map(|dir| (dir, Medium::Hdd))).unwrap()
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

/// Which collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// The one that most is done to.
    Alpha,
    /// The other one.
    Beta,
}

impl Name {
    /// Both.
    pub const ALL: [Name; 2] = [Name::Alpha, Name::Beta];

    /// As the database knows it.
    pub fn as_str(self) -> &'static str {
        match self {
            Name::Alpha => "alpha",
            Name::Beta => "beta",
        }
    }
}

/// One thing that happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// A batch of writes; a collection that does not exist is made first.
    Write {
        /// Where.
        name: Name,
        /// When they are acknowledged.
        durability: Durability,
        /// At least one.
        writes: Vec<Write>,
    },
    /// Makes everything written so far durable.
    Sync(Name),
    /// Writes the memtables out.
    Flush(Name),
    /// Merges every tree into one run.
    Compact(Name),
    /// Makes a collection with so many partitions.
    Create(Name, u32),
    /// Drops a collection.
    Drop(Name),
    /// Compares everything that can be read with the model.
    Check(Name),
    /// Takes a view, to be looked at later.
    View(Name),
    /// Compares all views held with the model as it was, and lets go of the first.
    LookAtViews,
    /// Closes the database, reads and checks every byte of it, compares the counts, and opens it
    /// again. Nothing on a machine that is not well.
    Verify,
    /// As [`Op::Verify`], of a copy with one bit changed, chosen by the seed: that is found, or it
    /// does no harm. Whatever the copy answers is right.
    VerifyRotten {
        /// See above.
        seed: u64,
    },
    /// Writes all that the log holds, in its order, to a new database, and compares that with the
    /// model.
    Rebuild(Name),
    /// Backs the database up, into a backup that grows by a snapshot each time.
    Backup,
    /// Restores what was backed up, each on a copy of the machine as a crash would leave it, and
    /// compares it with the model as it was.
    Restore {
        /// Of the crash.
        seed: u64,
    },
    /// Closes the database and repairs a copy, although nothing is damaged: what comes out is the
    /// same. Nothing on a machine that is not well.
    Repair,
    /// Background jobs that are due run.
    RunDue,
    /// Some seconds pass, with all background jobs that are due in them.
    RunAll,
    /// So many milliseconds pass.
    Advance(u32),
    /// The database is opened again, after a close or after being dropped.
    Reopen(End),
    /// The machine stops now; the seed decides what is left of what was not synced.
    Crash {
        /// See above.
        seed: u64,
    },
    /// The machine stops at an I/O step to come.
    CrashIn {
        /// So many steps are carried out before.
        steps: u32,
        /// As of [`Op::Crash`].
        seed: u64,
    },
    /// An I/O step to come fails.
    FailIn {
        /// So many steps are carried out before.
        steps: u32,
        /// For want of room, rather than by a failing device.
        full: bool,
        /// With all that come after it.
        lasting: bool,
    },
    /// A read to come fails.
    FailReadIn {
        /// So many are carried out before.
        reads: u32,
        /// It finds less than it asked for, rather than a failing device.
        short: bool,
        /// With all that come after it.
        lasting: bool,
    },
    /// A bit changes in a file, both chosen by the seed. Healing undoes it, as do opening again and
    /// a crash.
    Rot {
        /// See above.
        seed: u64,
    },
    /// The disk of a volume, counted from 1, fails at every call. Healing brings it back with what
    /// was synced; files that were open fail until the database is opened again.
    Vanish(u32),
    /// Calls take so many microseconds more, and up to as many again.
    Slow(u32),
    /// Syncs fail from now on.
    FailSyncs,
    /// The disk has so many bytes of room left.
    Fill(u32),
    /// The disk of a volume, counted from 1, has so many bytes of room left.
    FillVolume(u32, u32),
    /// The machine is well again, and its disk large.
    Heal,
}

/// How a database ends before it is opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It is closed, and the close is asked whether it succeeded.
    Close,
    /// It is dropped, with all handles to it.
    Drop,
}

/// One write of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// The number of a key, below [`KEYS`](super::KEYS).
    pub key: u8,
    /// What is done to its document.
    pub action: Action,
    /// If what holds.
    pub condition: Condition,
}

/// What a write does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Puts a document with a text of so many bytes; no two that a history puts are the same.
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

/// What must hold for a write to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    Always,
    /// There is no such document.
    IfAbsent,
    /// It has the version that it has.
    IfCurrent,
    /// It has a version that it does not have.
    IfStale,
}
