//! Operations on databases: what is done with a database as a whole.
//!
//! - [`backup()`] and [`restore()`]: snapshots of an open database in a directory, and databases
//!   made of them.
//! - [`replace_volumes`]: what lost volumes held, from a snapshot.
//! - [`verify()`], [`verify_open`], [`repair()`]: what is damaged, and what is whole of it.
//! - [`serve_follower`], [`copy_for_follower`], [`Replica`], [`FollowerDir`]: a database that
//!   follows another.
//! - [`freeze()`], [`freeze_by_partition`], [`FrozenView`]: what a view sees as immutable files,
//!   and queries of them.
//!
//! Each is a function of a database, a view or a directory. They are built on what
//! `quire-database` has beyond its public face, and nothing there knows them.

mod backup;
mod file_source;
mod follow;
mod freeze;
mod rate_limiter;
mod repair;
mod replace;
mod restore;
mod verify;

pub use backup::{BackupOptions, BackupReport, PartitionPosition, SnapshotInfo, backup, snapshots};
pub use follow::{
    Applied, FollowerDir, Frame, Head, IncomingCopy, Lag, LeaderCopy, LeaderStream, Records,
    Replica, copy_for_follower, serve_follower,
};
pub use freeze::{
    FIELDS_MAX, FreezeOptions, FreezeProgress, FreezeReport, freeze, freeze_by_partition,
};
pub use quire_database::{FrozenDocument, FrozenView, Origin};
pub use quire_store::LogHold;
pub use repair::{LostKey, RepairEvent, RepairReport, repair};
pub use replace::{
    ReplaceOptions, ReplaceReport, ReplacedPartition, ReplacedVolume, replace_volumes,
};
pub use restore::{RestoreReport, restore};
pub use verify::{VerifyOptions, VerifyReport, verify, verify_open};
