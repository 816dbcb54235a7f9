//! What a repair reports: events on the way, and numbers at the end.

use quire_database::Damage;
use serde::Serialize;

/// What a repair finds, in the order in which it does. As JSON: an object with its kind in
/// `event`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RepairEvent {
    /// Bytes that were read, of how many.
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
    /// A row of a wide collection of which these trees lost something: it may lack cells, have
    /// older ones, or have been deleted.
    Torn {
        /// The collection.
        collection: String,
        /// The partition.
        partition: u32,
        /// Its key.
        key: String,
        /// Column groups; `rows` and `names` for what is kept of every row.
        trees: Vec<String>,
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
    /// Rows of wide collections that may lack cells, have older ones, or have been deleted.
    pub rows_torn: u64,
    /// Table files of wide collections that are lost: nothing else has what was in them.
    pub tables_lost: u64,
}

impl RepairReport {
    /// Whether the new database holds exactly what the damaged one acknowledged.
    pub fn is_whole(&self) -> bool {
        self.positions_lost == 0
            && self.ends_unknown == 0
            && self.guesses == 0
            && self.rows_torn == 0
            && self.tables_lost == 0
    }
}
