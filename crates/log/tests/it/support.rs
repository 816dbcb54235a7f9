//! What the tests share: a log whose records are computed from their positions.

use bytes::Bytes;
use quire_env::{BlockCache, Budget, Charge, Env, SimEnv};
use quire_log::{
    Codec, Log, LogDamage, LogIdentity, LogOptions, Recovery, Result, VerifySummary, verify,
};
use quire_model::Position;
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

pub(crate) const IDENTITY: LogIdentity = LogIdentity([0x5A; 16]);

pub(crate) fn dir() -> &'static Path {
    Path::new("/log")
}

/// zstd with a dictionary, of a size that suits the tests' segments.
pub(crate) const DICTIONARY: Codec = Codec::Zstd {
    level: 3,
    dictionary_bytes: 300,
};

thread_local! {
    static CODEC: Cell<Codec> = const { Cell::new(Codec::Lz4) };
    static ROTATE_UNSYNCED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a test over these logs, and over logs that rotate unsynced.
pub(crate) fn in_all_kinds(test: impl Fn()) {
    in_both_codecs(&test);
    lazily(test);
}

/// Runs a test over logs that rotate unsynced, with LZ4.
pub(crate) fn lazily(test: impl Fn()) {
    CODEC.set(Codec::Lz4);
    ROTATE_UNSYNCED.set(true);
    test();
    ROTATE_UNSYNCED.set(false);
}

/// Runs a test over logs of LZ4, and of zstd with a dictionary.
pub(crate) fn in_both_codecs(test: impl Fn()) {
    for codec in [Codec::Lz4, DICTIONARY] {
        CODEC.set(codec);
        test();
    }
}

/// Blocks of a few records, segments of a few blocks.
pub(crate) fn tiny() -> LogOptions {
    LogOptions {
        block_bytes: 120,
        segment_bytes: 1500,
        codec: CODEC.get(),
        pending_bytes_max: 400,
        reserve_bytes: 300,
        rotate_unsynced: ROTATE_UNSYNCED.get(),
        obsolete_bytes_kept: 0,
    }
}

/// The record that the tests write at `position`: 0 to 60 bytes, some of which compress. A few
/// records do not compress and are longer than a sector of the disk.
pub(crate) fn record(position: u64) -> Vec<u8> {
    if position % 7 == 5 {
        let step = |seed: &mut u64| {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            Some((*seed >> 56) as u8)
        };
        return std::iter::repeat_n((), 700)
            .scan(position, |seed, ()| step(seed))
            .collect();
    }
    let length = (position * 37 % 61) as usize;
    let seed = position.to_string();
    seed.bytes().cycle().take(length).collect()
}

pub(crate) fn open_with(env: &Arc<SimEnv>, options: LogOptions) -> Result<(Log, Recovery)> {
    let env: Arc<dyn Env> = env.clone();
    Log::open(env, dir(), IDENTITY, BlockCache::new(1 << 20), options)
}

pub(crate) fn open(env: &Arc<SimEnv>) -> Result<(Log, Recovery)> {
    open_with(env, tiny())
}

/// Appends a group of the next `count` records, and returns the last position.
pub(crate) fn append(log: &Log, count: u64) -> Result<Position> {
    // An error here fails the checks below.
    let _ = log.train_dictionary();
    let next = log.last().0 + 1;
    let records: Vec<Vec<u8>> = (next..next + count).map(record).collect();
    let group: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    assert_eq!(log.append(&group)?, Position(next));
    Ok(Position(next + count - 1))
}

/// Appends records one by one, each synced, up to `last`: each in a block of its own.
pub(crate) fn append_synced(log: &Log, last: u64) {
    while log.last().0 < last {
        let position = append(log, 1).unwrap();
        assert_eq!(log.sync(position).unwrap(), position);
    }
}

/// Every record from first to last is right, by every way of reading.
pub(crate) fn check_all(log: &Log) {
    let positions: Vec<Position> = (log.first().0..=log.last().0).map(Position).collect();
    for position in &positions {
        assert_eq!(
            log.read(*position).unwrap(),
            record(position.0),
            "position {position}"
        );
    }
    let scanned: Vec<(Position, Bytes)> = log.scan(log.first()).map(|item| item.unwrap()).collect();
    assert_eq!(
        scanned
            .iter()
            .map(|(position, _)| *position)
            .collect::<Vec<_>>(),
        positions
    );
    let backwards: Vec<Position> = positions.iter().rev().copied().collect();
    let many = log.read_many(&backwards).unwrap();
    for ((position, scanned), many) in scanned.iter().zip(many.iter().rev()) {
        assert_eq!(*scanned, record(position.0), "position {position}");
        assert_eq!(scanned, many, "position {position}");
    }
}

/// Verifies the log on the disk of the machine: the summary, and the damages.
pub(crate) fn verify_all(env: &Arc<SimEnv>) -> (VerifySummary, Vec<LogDamage>) {
    let (mut damages, mut bytes) = (Vec::new(), 0);
    let summary = verify(
        env.as_ref(),
        dir(),
        Some(IDENTITY),
        &mut |damage| damages.push(damage),
        &mut |read| bytes += read,
    )
    .unwrap();
    assert_eq!(summary.damages, damages.len() as u64);
    assert_eq!(
        bytes, summary.disk_bytes,
        "progress accounts for every byte"
    );
    (summary, damages)
}

/// Whether a byte of a segment is of its dictionary.
pub(crate) fn is_of_dictionary(env: &SimEnv, path: &Path, byte: u64) -> bool {
    let bytes = env.read_all(path).unwrap();
    let Some(header) = bytes.get(48..96) else {
        return false;
    };
    let length = u32::from_le_bytes(header[20..24].try_into().unwrap());
    let is_one = bytes[8] >= 3 && header[4] == 4;
    is_one && (48..96 + u64::from(length)).contains(&byte)
}

/// The segment files on the machine's disk, oldest first.
pub(crate) fn segments(env: &SimEnv) -> Vec<std::path::PathBuf> {
    env.files()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "log"))
        .collect()
}

/// Room for a compaction that has all that it wants.
pub(crate) fn room(bytes: u64) -> Charge {
    Budget::new(bytes).charge(bytes)
}
