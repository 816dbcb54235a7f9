//! Bugs that tests seed into the engine, to show that they would be found.
//!
//! Each [`Bug`] is a mistake that a programmer could make, at the one place in the engine where it
//! would be made: `if !seeded(Bug::LogUnsynced) { file.sync()?; }`. Without the feature `on`, which
//! only tests switch on, [`seeded`] is a constant `false`, and no code of a bug is compiled.

/// Makes the enum, the list of all its values, and the sentence that describes each.
macro_rules! bugs {
    ($($(#[doc = $words:literal])+ $name:ident,)+) => {
        /// A mistake, seeded at one place in the engine.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Bug {
            $($(#[doc = $words])+ $name,)+
        }

        impl Bug {
            /// Every bug.
            pub const ALL: &[Bug] = &[$(Bug::$name,)+];

            /// A sentence that describes it.
            pub const fn words(self) -> &'static str {
                match self {
                    $(Bug::$name => concat!($($words),+).trim_ascii(),)+
                }
            }
        }
    };
}

bugs! {
    // env: small files and directories.
    /// A file that replaces another one is renamed before its bytes are synced.
    ReplacementUnsynced,
    /// The directory is not synced after the rename of a file that replaces another one.
    ReplacementNameUnsynced,
    /// The name of a new directory is not synced in its parent.
    DirectoryNameUnsynced,
    /// The lock on a directory is held on the file `LOCK` alone, which can be removed.
    LockOnFileAlone,

    // log: bytes.
    /// The log does not check the checksums of blocks, headers and footers.
    LogChecksumUnchecked,
    /// A block of the log says that the file was durable up to the block itself.
    DurableOffsetTooFar,
    /// The footer of a segment says that the segment ends one record early.
    FooterOneRecordShort,

    // log: durability and recovery.
    /// A write under `sync` does not sync the file of the log.
    LogUnsynced,
    /// A position counts as durable before the sync, also if the sync fails.
    DurableBeforeSync,
    /// A failed sync is ignored: the success of the next one is trusted.
    FailedSyncForgotten,
    /// No disk space is reserved before a record is accepted, so a full disk is noticed too late.
    RoomNotReserved,
    /// A new segment gets its name before its bytes are synced.
    SegmentUnsynced,
    /// The name of a new segment is not synced.
    SegmentNameUnsynced,
    /// Recovery relies on names of segments that may not be synced.
    FoundSegmentNameBelieved,
    /// Recovery relies on blocks of a file whose sync may have failed.
    FoundBlocksBelieved,
    /// Blocks that recovery had no disk space to carry over count as durable.
    UnprovenBelieved,
    /// Recovery cuts the log at a damaged block that a later block proves durable.
    DamageTakenForTornTail,
    /// Recovery does not compare the log with its end-of-log record.
    EndOfLogUnread,
    /// The end-of-log record is written before the log is synced.
    EndOfLogEarly,
    /// Recovery keeps the first blocks of a group whose last block is missing.
    HalfGroupKept,
    /// After recovery, the next record gets the position of the last one.
    PositionUsedTwice,

    // log: compaction.
    /// A compacted segment gets its name before its bytes are synced.
    CompactedUnsynced,
    /// Segments are removed before the segment that replaces them has its name.
    CompactedRemovedFirst,
    /// Recovery keeps segments that were compacted into another one and not removed yet.
    LeftoversBelieved,
    /// Blocks are carried over to a new segment without the dictionary that they need.
    DictionaryNotCarried,
    /// A view reads the present segments of the log, not those of when it was made.
    ViewReadsNewestLog,

    // lsm: tables.
    /// The checksums of the blocks and footers of tables are not checked.
    TableChecksumUnchecked,
    /// A manifest names a table before the bytes of the table are synced.
    TableUnsynced,
    /// A manifest names a table before the name of the table is synced in its directory.
    TableNameUnsynced,
    /// A key that does not fit in a block of a table any more is in no block.
    FirstKeyOfBlockLost,
    /// An index key is that of the next block, so the first key of a block is searched in the block
    /// before.
    SeparatorOneTooFar,
    /// A search in a block starts one restart point late, or ends one entry late.
    RestartOneTooFar,
    /// A filter is built with one bit per key fewer than requested.
    FilterBitMissing,
    /// A filter is searched in the page before the right one.
    FilterPageOneOff,
    /// The block cache identifies a table by its file number, which tables of other partitions have
    /// too.
    CacheKeyedByFileNumber,

    // lsm: merging, flushing, scanning.
    /// A merge drops a tombstone though older runs have the key.
    TombstoneDroppedEarly,
    /// A flush or a merge drops a range tombstone though older runs have keys of the range.
    RangeDroppedEarly,
    /// A compaction takes the oldest of its runs for the newest.
    RunsMergedOldestFirst,
    /// Two merge operands are folded in the wrong order.
    OperandsSwapped,
    /// A fold of several merge operands leaves the oldest out.
    OldestOperandSkipped,
    /// A merge operand is taken for the whole value though older runs have the key.
    OperandResolvedEarly,
    /// A flush after a failed one writes only the newest memtable.
    OlderMemtableNotFlushed,
    /// A scan that should include its last key ends before it.
    ScanEndsOneShort,

    // lsm: the memtable, between threads.
    /// A version is published without memory ordering: readers may find it before its contents.
    VersionPublishedUnordered,
    /// A reader loads the newest version without memory ordering, and may miss its contents.
    VersionFoundUnordered,
    /// A key is counted without memory ordering: a reader may visit it before it is there.
    KeyCountedUnordered,
    /// A reader checks a filter page without memory ordering: it may have read another page.
    FilterPageFoundUnordered,
    /// A larger hash index replaces the old one before it is filled.
    LargerIndexEmpty,

    // lsm: the switch from one version of a tree to the next, between threads.
    /// The memtables of a flush are dropped before their run is published.
    MemtablesDroppedBeforeRun,
    /// A flush chooses memtables before it claims them: another may have written them.
    FlushLooksBeforeClaim,
    /// Replaced files are removed at once, and not with their last holder.
    ReplacedFilesRemovedAtOnce,

    // frozen: the file.
    /// The checksums of the parts of a frozen partition are not checked.
    FrozenChecksumUnchecked,

    // store: manifest, flush, close.
    /// The checksums of manifests and catalogs are not checked.
    ManifestChecksumUnchecked,
    /// A flush does not sync the log first: the tables hold records that a crash removes from the
    /// log.
    FlushAheadOfLog,
    /// A flush records the last position of the log, not the last one in the tables.
    FlushNamesLogEnd,
    /// A manifest says that its tables hold one record more than they do.
    AppliedOneTooFar,
    /// A replay begins with the last record that is already in the tables.
    RecordAppliedTwice,
    /// A flush leaves the old state of the state machine in the manifest.
    StateNotReplaced,
    /// Files of a manifest whose replacement failed are removed, though it may be in place.
    DoubtfulManifestGivenUp,
    /// Opening removes files that the manifest does not name before the manifest is durable.
    FoundManifestBelieved,
    /// A log that ends before a position that the manifest calls durable is opened.
    ShortLogAccepted,
    /// Closing does not sync the log.
    CloseWithoutSync,

    // store: acknowledging and reading.
    /// A write under `sync` is visible before it is durable.
    PublishedBeforeDurable,
    /// A timed sync runs once and is never due again.
    TimedSyncOnlyOnce,
    /// A timed write does not bring forward a sync that is due later.
    SoonerSyncIgnored,
    /// A view reads the newest memtable entries, not those of its position.
    ViewSeesLaterWrites,
    /// A view takes the current files, though a flush has put later writes into them.
    ViewOfLaterFlush,

    // store: compaction of the log.
    /// A compaction of the log finds live records by the newest writes, not by the trees' files.
    LivenessOfNewestTrees,
    /// Segments are compacted whose records the next opening has to replay.
    UnflushedSegmentCompacted,
    /// The manifest stores the present dead bytes of the log, not those at its position.
    DeadBytesOfNow,

    // store: trees that are added to it and dropped.
    /// A tree that is being built is read as if it were complete.
    BuildingTreeRead,
    /// A flush names the new runs of the trees that `apply` writes alone.
    RunsOfAddedTreeLost,
    /// A manifest says that more of a tree is built than its files hold.
    ProgressAheadOfData,
    /// A derived tree follows changes by the new values alone, not by the old ones.
    ChangesOfNewView,
    /// Files of a dropped tree are removed before its manifest entry.
    DroppedTreeFilesRemovedFirst,

    // collection: the search index.
    /// A value that a document does not have any more stays in its posting.
    OldValueKept,
    /// A changed document counts twice: by its posting, and by its test.
    ChangedCountedTwice,
    /// The first record after the position of an index is not looked at.
    ChangeMissed,
    /// Queries go on with what was read of an index before it moved on.
    OlderReadsShared,
    /// Documents that fulfilled a predicate once are taken as those that do now.
    FollowedNotBroughtUp,
    /// What fulfilled a predicate once is brought up to date by a part of what changed.
    FollowedOverGap,
    /// Numbers that documents had once are taken as those that they have now.
    NumbersNotBroughtUp,
    /// Terms that documents had once are taken as those that they have now.
    TermsNotBroughtUp,
    /// Documents that came first in an order once are taken as those that do now.
    FirstNumbersNotBroughtUp,
    /// What a writer made ready for queries misses the changes of a write before.
    ReadyOverGap,
    /// An index answers queries about fields that its collection leaves out.
    LeftOutFieldSearched,
    /// An index answers queries about fields that it refused.
    RefusedFieldSearched,
    /// An index takes a document with more values than are indexed for one without these values.
    ManyValuesForgotten,
    /// A damaged index that is built anew is still used.
    DamagedIndexUsed,

    // collection and quiredb.
    /// A write of a batch is decided without the writes before it in the batch.
    BatchDecidedApart,
    /// Two documents that one batch creates get the same number.
    DocidGivenTwice,
    /// The row of a document stays after the document is deleted.
    RowLeft,
    /// A compaction of the log drops the records of deletions.
    DeletionForgotten,
    /// A deletion does not keep the external version of its document.
    DeletedVersionForgotten,
    /// The expiry that a document no longer has stays in the tree of expiries.
    ExpiryLeft,
    /// A document that has expired is read until it is deleted.
    ExpiredDocumentRead,
    /// A document that has expired is there for writes until it is deleted.
    ExpiredDocumentWritten,
    /// Results of a batch are returned in the order of their partition, not of the batch.
    ResultsInOtherPlaces,
    /// A scan ends when the first partition has no more documents.
    ScanEndsWithFirstPartition,
    /// Of several changes of a column's block that become one, the newest is left out.
    ColumnPatchLost,
    /// The least and greatest value of a changed part of a column are those of before the change.
    ColumnZoneStale,
    /// The files of a dropped collection are removed before its name.
    DroppedFilesRemovedFirst,
    /// Opening relies on a catalog whose name may not be synced.
    FoundCatalogBelieved,
    /// The second copy of the catalog is not replaced with the first.
    CatalogCopyStale,

    // splits of partitions.
    /// A partition that was split off does not hold the positions of the records of the others.
    SplitPositionNotHeld,
    /// New partitions replace the old ones before they have the last writes.
    SplitNotLevel,
    /// The catalog names new partitions before they are synced.
    SplitNamedUnsynced,
    /// A split deals keys out by another hash range than reads look for them in.
    SplitBoundaryMoved,
    /// A column that moves on in a row of another partition does not move on in this one.
    SplitColumnNotPassed,

    // merges of partitions.
    /// A partition that others are merged into begins at the position where they end.
    MergeWithoutRoom,
    /// A position of one old partition counts for all that were merged with it.
    MergedReaderAhead,
    /// A row of a wide partition keeps its version in the one that it is merged into.
    MergedVersionKept,
    /// A change is taken over into the group to which its column has moved meanwhile.
    MergedColumnStrays,

    // indexes of wide partitions.
    /// What a row had before it changed stays in a search index.
    RowValueKept,
    /// A search index does not look for cells in the group that their column has moved to.
    IndexedGroupMissed,

    // triggers.
    /// What a trigger changes is a record of its own, after that of the write.
    TriggerApart,

    // volumes.
    /// A tree with tables on a lost volume is opened without them.
    LostTablesForgotten,
    /// The mount point of a disk that is not there is taken for the volume.
    MountPointTaken,

    // wide.
    /// The changes of a row in several groups are a record each.
    WideGroupsApart,
    /// A move between tiers leaves the cells where they were, too.
    MovedCopyLeft,
    /// A move between tiers sets the entry of a row before its cells are there.
    ColdBeforeCells,
    /// A write to a row whose cells are cold forgets that they are.
    ColdCellsForgotten,
    /// A cell that has expired is read until it is removed.
    ExpiredCellRead,
    /// An operand is folded into a cell that has expired, as if it had not.
    ExpiredCellMerged,
    /// A cell is removed at a time of expiry that it no longer has.
    NewerCellExpired,
    /// A column that moves to another group leaves its cells where they were, too.
    MovedColumnLeft,
    /// A column that moves passes a row in which a cell of it was written meanwhile.
    MovePassesWritten,

    // operations.
    /// A repair leaves no marker until it is done: half a repaired database is opened.
    RepairUnmarked,
}

impl Bug {
    /// Those of trees that are added to a store and dropped: its tests find them, with a crash and
    /// a fault at every step.
    pub const OF_ADDED_TREES: &[Bug] = &[
        Bug::BuildingTreeRead,
        Bug::RunsOfAddedTreeLost,
        Bug::ProgressAheadOfData,
        Bug::ChangesOfNewView,
        Bug::DroppedTreeFilesRemovedFirst,
    ];

    /// Those of search indexes, which operations texts with queries find.
    pub const OF_LIVE_INDEXES: &[Bug] = &[
        Bug::OldValueKept,
        Bug::ChangedCountedTwice,
        Bug::ChangeMissed,
        Bug::OlderReadsShared,
        Bug::LeftOutFieldSearched,
    ];

    /// Those of the columns of a live partition: the tests of `collection` find them, with queries.
    pub const OF_COLUMNS: &[Bug] = &[Bug::ColumnPatchLost, Bug::ColumnZoneStale];

    /// Those of the documents that predicates found before: the tests of `collection` find them.
    pub const OF_FOLLOWED: &[Bug] = &[
        Bug::FollowedNotBroughtUp,
        Bug::FollowedOverGap,
        Bug::NumbersNotBroughtUp,
        Bug::TermsNotBroughtUp,
        Bug::FirstNumbersNotBroughtUp,
        Bug::ReadyOverGap,
    ];

    /// Those of lost volumes: the tests of `quiredb` find them.
    pub const OF_VOLUMES: &[Bug] = &[Bug::LostTablesForgotten, Bug::MountPointTaken];

    /// Those of splits of partitions: the tests of `database` find them, with a crash at every
    /// step.
    pub const OF_SPLITS: &[Bug] = &[
        Bug::SplitPositionNotHeld,
        Bug::SplitNotLevel,
        Bug::SplitNamedUnsynced,
        Bug::SplitBoundaryMoved,
    ];

    /// Those of splits of wide partitions, beside [`OF_SPLITS`](Bug::OF_SPLITS): the tests of
    /// `wide` find them.
    pub const OF_WIDE_SPLITS: &[Bug] = &[Bug::SplitColumnNotPassed];

    /// Those of merges of partitions, beside [`OF_SPLITS`](Bug::OF_SPLITS): the tests of `database`
    /// find them.
    pub const OF_MERGES: &[Bug] = &[
        Bug::SplitNotLevel,
        Bug::SplitNamedUnsynced,
        Bug::MergeWithoutRoom,
        Bug::MergedReaderAhead,
    ];

    /// Those of merges of wide partitions: the tests of `wide` find them.
    pub const OF_WIDE_MERGES: &[Bug] = &[Bug::MergedVersionKept, Bug::MergedColumnStrays];

    /// Those of indexes of wide partitions: the tests of `wide` find them.
    pub const OF_ROW_INDEXES: &[Bug] = &[Bug::RowValueKept, Bug::IndexedGroupMissed];

    /// Those of triggers: the tests of `database` find them, with a crash at every step.
    pub const OF_TRIGGERS: &[Bug] = &[Bug::TriggerApart];

    /// Those of documents that expire: the tests of `database` find them.
    pub const OF_EXPIRY: &[Bug] = &[
        Bug::ExpiryLeft,
        Bug::ExpiredDocumentRead,
        Bug::ExpiredDocumentWritten,
    ];

    /// Those of wide collections: the tests of `wide` find them, with a crash at every step.
    pub const OF_WIDE: &[Bug] = &[Bug::WideGroupsApart];

    /// Those of moves between tiers: the tests of `wide` find them, with a crash at every step.
    pub const OF_TIERS: &[Bug] = &[
        Bug::MovedCopyLeft,
        Bug::ColdBeforeCells,
        Bug::ColdCellsForgotten,
    ];

    /// Those of cells that expire: the tests of `wide` find them, with a crash at every step.
    pub const OF_CELL_EXPIRY: &[Bug] = &[
        Bug::ExpiredCellRead,
        Bug::ExpiredCellMerged,
        Bug::NewerCellExpired,
    ];

    /// Those of columns that move between groups: the tests of `wide` find them.
    pub const OF_COLUMN_MOVES: &[Bug] = &[Bug::MovedColumnLeft, Bug::MovePassesWritten];

    /// The bugs that only show between threads, and that `loom` finds: of the memtable, and of the
    /// frames of filter pages.
    pub const UNDER_LOOM: [&[Bug]; 2] = [
        &[
            Bug::VersionPublishedUnordered,
            Bug::VersionFoundUnordered,
            Bug::KeyCountedUnordered,
            Bug::LargerIndexEmpty,
        ],
        &[Bug::FilterPageFoundUnordered],
    ];

    /// The bugs that only show between threads, and that `shuttle` finds: in the tests of `lsm`,
    /// and in those of `store`.
    pub const UNDER_SHUTTLE: [&[Bug]; 2] = [
        &[
            Bug::MemtablesDroppedBeforeRun,
            Bug::FlushLooksBeforeClaim,
            Bug::ReplacedFilesRemovedAtOnce,
        ],
        &[Bug::ViewOfLaterFlush],
    ];
}

/// Whether this thread runs with this bug.
#[cfg(not(feature = "on"))]
#[inline(always)]
pub const fn seeded(_bug: Bug) -> bool {
    false
}

#[cfg(feature = "on")]
pub use on::{Seeded, assert_each_is_found, seed_bug, seeded};

#[cfg(feature = "on")]
mod on {
    use super::Bug;
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    thread_local! {
        /// One bit for each bug.
        static SEEDED: Cell<u128> = const { Cell::new(0) };
    }

    /// Whether this thread runs with this bug.
    #[inline]
    pub fn seeded(bug: Bug) -> bool {
        SEEDED.get() & bit(bug) != 0
    }

    const fn bit(bug: Bug) -> u128 {
        1 << bug as u128
    }

    /// Seeds a bug on this thread until the returned guard is dropped. Under simulation the whole
    /// engine runs on one thread.
    #[must_use = "the bug goes when this is dropped"]
    pub fn seed_bug(bug: Bug) -> Seeded {
        SEEDED.set(SEEDED.get() | bit(bug));
        Seeded(bug)
    }

    /// Runs `check` with each of these bugs alone, and expects it to panic.
    ///
    /// # Panics
    /// If `check` does not panic with one of them.
    pub fn assert_each_is_found(bugs: &[Bug], check: impl Fn()) {
        for bug in bugs {
            let _seeded = seed_bug(*bug);
            let found = catch_unwind(AssertUnwindSafe(&check));
            assert!(found.is_err(), "not found: {bug:?}");
        }
    }

    /// Keeps a bug seeded.
    #[derive(Debug)]
    pub struct Seeded(Bug);

    impl Drop for Seeded {
        fn drop(&mut self) {
            SEEDED.set(SEEDED.get() & !bit(self.0));
        }
    }
}
