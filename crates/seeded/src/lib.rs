//! Bugs that tests seed into the engine, to show that they would be found.
//!
//! Each [`Bug`] is a mistake that somebody could make, at the one place in the engine where it
//! would be made: `if !seeded(Bug::LogUnsynced) { file.sync()?; }`. Without the feature `on`,
//! which tests alone switch on, [`seeded`] is a constant `false`, and nothing of a bug is
//! compiled.

/// Makes the enum, the list of all that it holds, and what each is in words.
macro_rules! bugs {
    ($($(#[doc = $words:literal])+ $name:ident,)+) => {
        /// A mistake, seeded at one place in the engine.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Bug {
            $($(#[doc = $words])+ $name,)+
        }

        impl Bug {
            /// Every bug there is.
            pub const ALL: &[Bug] = &[$(Bug::$name,)+];

            /// What it is, in a sentence.
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
    /// A file that replaces another is renamed before its bytes are synced.
    ReplacementUnsynced,
    /// A file that replaced another: its directory is not synced after the rename.
    ReplacementNameUnsynced,
    /// A new directory's name is not synced in its parent.
    DirectoryNameUnsynced,

    // log: bytes.
    /// Blocks, headers and footers of the log are taken as they are, whatever their checksums.
    LogChecksumUnchecked,
    /// A block of the log says that the file was durable up to the block itself.
    DurableOffsetTooFar,
    /// The footer of a segment names the position of its last record where the next one's should
    /// be.
    FooterOneRecordShort,

    // log: durability and recovery.
    /// The log's file is not synced for a write under `sync`.
    LogUnsynced,
    /// A position counts as durable before the sync, whatever the sync says then.
    DurableBeforeSync,
    /// A sync that failed is forgotten: the next one's success is believed.
    FailedSyncForgotten,
    /// No room is reserved before a record is accepted, so a full disk shows when it is too late.
    RoomNotReserved,
    /// A new segment gets its name before its bytes are synced.
    SegmentUnsynced,
    /// A new segment's name is not synced.
    SegmentNameUnsynced,
    /// Recovery relies on the names of segments that it found, synced or not.
    FoundSegmentNameBelieved,
    /// Recovery relies on the blocks that it found, though a sync of their file may have failed.
    FoundBlocksBelieved,
    /// Blocks that recovery had no room to carry over count as durable.
    UnprovenBelieved,
    /// Recovery cuts the log at a damaged block, though a later one proves that it was durable.
    DamageTakenForTornTail,
    /// Recovery keeps the first blocks of a group whose end is not there.
    HalfGroupKept,
    /// After recovery, the last record's position is given out again.
    PositionUsedTwice,

    // log: compaction.
    /// A compacted segment gets its name before its bytes are synced.
    CompactedUnsynced,
    /// Segments are removed before the one that they were compacted into has its name.
    CompactedRemovedFirst,
    /// Recovery takes segments that a compaction was kept from removing for segments of the log.
    LeftoversBelieved,
    /// Blocks of the log that are carried over to a new segment leave the dictionary that they need
    /// behind.
    DictionaryNotCarried,
    /// A view reads the log's segments of now, and not those of when it was made.
    ViewReadsNewestLog,

    // lsm: tables.
    /// Blocks and ends of a table are taken as they are, whatever their checksums.
    TableChecksumUnchecked,
    /// A table is named by a manifest before its bytes are synced.
    TableUnsynced,
    /// A table is named by a manifest before its name is synced in its directory.
    TableNameUnsynced,
    /// A key that does not fit in a block of a table any more is in no block.
    FirstKeyOfBlockLost,
    /// An index key is that of the next block: the block's first key is looked for in the one
    /// before.
    SeparatorOneTooFar,
    /// A search in a block goes on one restart, or ends one entry, after the right one.
    RestartOneTooFar,
    /// A filter is built with a bit fewer per key than it is asked for.
    FilterBitMissing,
    /// A filter is asked on the page before the right one.
    FilterPageOneOff,
    /// The block cache knows a table by its number, which tables of other partitions have too.
    CacheKeyedByFileNumber,

    // lsm: merging, flushing, scanning.
    /// A merge drops a tombstone though older runs have the key.
    TombstoneDroppedEarly,
    /// A flush or a merge drops the deletion of a range though older runs have keys of it.
    RangeDroppedEarly,
    /// A compaction takes the oldest of its runs for the newest.
    RunsMergedOldestFirst,
    /// Two merge operands are folded in the wrong order.
    OperandsSwapped,
    /// A fold of several merge operands leaves the oldest out.
    OldestOperandSkipped,
    /// A merge operand is taken for the whole value though older runs have the key.
    OperandResolvedEarly,
    /// A flush after one that failed writes the newest memtable alone.
    OlderMemtableNotFlushed,
    /// A scan up to and with a key ends before it.
    ScanEndsOneShort,

    // lsm: the memtable, between threads.
    /// A version of a key is published without order: a reader may find it before what it holds.
    VersionPublishedUnordered,
    /// A reader finds the newest version of a key without order: it may not see what the version
    /// holds.
    VersionFoundUnordered,
    /// A key is counted without order: a reader may go through it before it is there.
    KeyCountedUnordered,
    /// A reader looks whether a filter page is still there without order: its words may be
    /// another's.
    FilterPageFoundUnordered,
    /// A larger table takes the place of the hash index before it is filled.
    LargerIndexEmpty,

    // lsm: the switch from one version of a tree to the next, between threads.
    /// The memtables of a flush are dropped before their run is there.
    MemtablesDroppedBeforeRun,
    /// A flush looks for memtables before it claims them: another may have written them out
    /// meanwhile.
    FlushLooksBeforeClaim,
    /// Files that were replaced are removed at once, and not with their last holder.
    ReplacedFilesRemovedAtOnce,

    // frozen: the file.
    /// The parts of a frozen partition are taken as they are, whatever their checksums.
    FrozenChecksumUnchecked,

    // store: manifest, flush, close.
    /// A manifest or a catalog is taken as it is, whatever its checksum.
    ManifestChecksumUnchecked,
    /// A flush does not sync the log first: the tables hold records that a crash takes from the
    /// log.
    FlushAheadOfLog,
    /// A flush names the log's last position, and not the last that is in the tables.
    FlushNamesLogEnd,
    /// A manifest says that its tables hold one record more than they do.
    AppliedOneTooFar,
    /// A replay begins with the last record that is in the tables already.
    RecordAppliedTwice,
    /// A flush leaves the machine's state in the manifest as it was.
    StateNotReplaced,
    /// The files of a manifest whose replacement failed are removed, though it may be in place.
    DoubtfulManifestGivenUp,
    /// Opening removes files that the manifest does not name before that manifest is durable.
    FoundManifestBelieved,
    /// A log that ends before what the manifest knows durable is opened all the same.
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
    /// A view is made of what it finds, though a flush has put later writes into files meanwhile.
    ViewOfLaterFlush,

    // store: compaction of the log.
    /// What a compaction of the log keeps is judged by the newest writes, and not by those in the
    /// trees' files.
    LivenessOfNewestTrees,
    /// Segments are compacted whose records the next opening has to replay.
    UnflushedSegmentCompacted,
    /// The end of the log is noted with the dead bytes of now, and not with those of the manifest's
    /// position.
    DeadBytesOfNow,

    // collection and quiredb.
    /// A write is decided without the writes before it in its batch.
    BatchDecidedApart,
    /// Two documents that one batch creates get the same number.
    DocidGivenTwice,
    /// A document's row outlives it.
    RowLeft,
    /// A compaction of the log drops the records of deletions.
    DeletionForgotten,
    /// Results of a batch are put where they stand in their partition's part.
    ResultsInOtherPlaces,
    /// A scan ends when the first partition has no more.
    ScanEndsWithFirstPartition,
    /// A dropped collection's files go before its name does.
    DroppedFilesRemovedFirst,
    /// Opening relies on a catalog whose name may not be synced.
    FoundCatalogBelieved,
}

impl Bug {
    /// Those that only show between threads, where `loom` finds them: of the memtable, and of the
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

    /// Those that only show between threads, where `shuttle` finds them: in the tests of `lsm`, and
    /// in those of `store`.
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
        /// A bit for each bug.
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

    /// Seeds a bug on this thread until the answer is dropped. Under simulation the whole engine
    /// runs on one thread.
    #[must_use = "the bug goes when this is dropped"]
    pub fn seed_bug(bug: Bug) -> Seeded {
        SEEDED.set(SEEDED.get() | bit(bug));
        Seeded(bug)
    }

    /// Runs `check` with each of these bugs alone.
    ///
    /// # Panics
    /// If it does not with one of them.
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
