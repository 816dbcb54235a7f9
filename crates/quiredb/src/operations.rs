//! What is done with a database as a whole: back up and restore, verify and repair, follow, freeze.

pub use quire_operations::{
    Applied, BackupOptions, BackupReport, FIELDS_MAX, FollowerDir, Frame, FreezeOptions,
    FreezeProgress, FreezeReport, FrozenDocument, FrozenView, Head, IncomingCopy, Lag, LeaderCopy,
    LeaderStream, LogHold, LostKey, Origin, PartitionPosition, Records, RepairEvent, RepairReport,
    ReplaceOptions, ReplaceReport, ReplacedPartition, ReplacedVolume, Replica, RestoreReport,
    SnapshotInfo, VerifyOptions, VerifyReport, backup, copy_for_follower, freeze,
    freeze_by_partition, repair, replace_volumes, restore, serve_follower, snapshots, verify,
    verify_open,
};
