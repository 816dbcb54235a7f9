//! Random histories: a seed names one, always the same.
//!
//! Bugs show when few things happen in an unlucky order. So keys are few, sizes lie near the limits
//! of sectors, blocks and segments, and faults come right before the operations that they can hurt.
//! Each history has its own temper: no, some, or many operations of each kind, so that one kind can
//! pile up without another that would undo it.
//!
//! Source, of the tempers: Groce et al. 2012, "Swarm testing".

use super::document::KEYS;
use super::history::{Action, Condition, End, History, Name, Op, VOLUMES_MAX, Write};
use super::rng::Rng;
use super::wide::{self, WideOp};
use quiredb::Durability;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The faults that a history may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Only crashes: then every error is a failure.
    Crashes,
    /// Also a disk that fills up: then every error is `Full`, and goes away with its cause.
    FullDisk,
    /// Everything: devices that fail at any call, syncs that fail.
    Faults,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Profile; 3] = [Profile::Crashes, Profile::FullDisk, Profile::Faults];

    /// A name of one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Profile::Crashes => "crashes",
            Profile::FullDisk => "full-disk",
            Profile::Faults => "faults",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Profile, String> {
        let found = Profile::ALL.into_iter().find(|one| one.as_str() == text);
        found.ok_or_else(|| format!("expected one of {:?}", Profile::ALL.map(Profile::as_str)))
    }
}

/// A kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Write,
    Sync,
    Flush,
    Compact,
    Create,
    Drop,
    Check,
    View,
    LookAtViews,
    Verify,
    VerifyRotten,
    Rebuild,
    Backup,
    Restore,
    Repair,
    RunDue,
    RunAll,
    Advance,
    Reopen,
    Crash,
    CrashIn,
    FailIn,
    FailReadIn,
    FailSyncs,
    Rot,
    Vanish,
    Slow,
    Fill,
    FillVolume,
    Heal,
}

/// How often each kind comes, in the order of [`Profile::ALL`].
const WEIGHTS: [(Kind, [u64; 3]); 30] = [
    (Kind::Write, [24, 24, 24]),
    (Kind::Sync, [2, 2, 2]),
    (Kind::Flush, [4, 4, 4]),
    (Kind::Compact, [2, 2, 2]),
    (Kind::Create, [1, 1, 1]),
    (Kind::Drop, [1, 1, 1]),
    (Kind::Check, [4, 4, 4]),
    (Kind::View, [2, 2, 2]),
    (Kind::LookAtViews, [2, 2, 2]),
    (Kind::Verify, [1, 1, 1]),
    (Kind::VerifyRotten, [1, 0, 1]),
    (Kind::Rebuild, [1, 1, 1]),
    (Kind::Backup, [2, 2, 2]),
    (Kind::Restore, [1, 1, 1]),
    (Kind::Repair, [1, 0, 1]),
    (Kind::RunDue, [3, 3, 3]),
    (Kind::RunAll, [2, 2, 2]),
    (Kind::Advance, [1, 1, 1]),
    (Kind::Reopen, [2, 2, 2]),
    (Kind::Crash, [1, 1, 1]),
    (Kind::CrashIn, [3, 3, 3]),
    (Kind::FailIn, [0, 0, 4]),
    (Kind::FailReadIn, [0, 0, 4]),
    (Kind::FailSyncs, [0, 0, 1]),
    (Kind::Rot, [0, 0, 2]),
    (Kind::Vanish, [0, 0, 1]),
    (Kind::Slow, [1, 1, 1]),
    (Kind::Fill, [0, 3, 1]),
    (Kind::FillVolume, [0, 2, 1]),
    (Kind::Heal, [0, 2, 3]),
];

/// The operations that change files of a database at many places: a fault right before hits one of
/// them.
const WORK: [Kind; 7] = [
    Kind::Backup,
    Kind::Flush,
    Kind::Compact,
    Kind::Create,
    Kind::Drop,
    Kind::RunAll,
    Kind::Reopen,
];

/// One in this number of histories has a wide collection.
const WIDE_ONE_IN: u64 = 4;

/// The history of this seed.
pub fn generate(seed: u64, profile: Profile) -> History {
    // Profiles give different histories for the same seed.
    let mut rng = Rng::new(Rng::new(seed).next() ^ profile as u64);
    let temper = Temper::new(&mut rng, profile);
    let count = match rng.one_in(8) {
        true => rng.within(60..=200),
        false => rng.within(1..=60),
    };
    let mut history = History {
        seed: rng.next(),
        volumes: match rng.one_in(4) {
            true => rng.within(2..=VOLUMES_MAX.into()) as u32,
            false => 1,
        },
        partitions: rng.within(1..=3) as u32,
        memory_bytes: rng.one_of(&[16 << 20, 16 << 20, 64 << 20]),
        segment_bytes: rng.one_of(&[1, 4_096, 100_000, 1 << 20, 1 << 20]),
        replay_bytes_max: match rng.within(0..=4) {
            0 => 1,
            1 | 2 => rng.within(500..=20_000),
            3 => 1 << 20,
            _ => 256 << 20,
        },
        ..History::default()
    };
    // Drawn separately, so that they change nothing else of a history.
    let mut storage = Rng::new(!history.seed);
    if storage.one_in(3) {
        history.zstd_level = storage.within(1..=4);
        history.dictionary_bytes = storage.one_of(&[0, 1 << 10, 1 << 10, 16 << 10]);
    }
    if storage.one_in(4) {
        history.segment_age_secs = storage.within(1..=5);
    }
    while history.ops.len() < count as usize {
        temper.add(&mut rng, &mut history.ops);
    }
    if storage.one_in(3) {
        history.index = true;
        for _ in 0..storage.within(0..=2) {
            let at = storage.within(0..=history.ops.len() as u64) as usize;
            let name = storage.one_of(&Name::ALL);
            history.ops.insert(at, Op::Index(name, storage.one_in(2)));
        }
    }
    if storage.one_in(5) {
        for _ in 0..storage.within(1..=2) {
            let at = storage.within(0..=history.ops.len() as u64) as usize;
            history.ops.insert(
                at,
                Op::Split(storage.one_of(&[Name::Alpha, Name::Alpha, Name::Beta])),
            );
        }
    }
    if storage.one_in(WIDE_ONE_IN) {
        temper.add_wide(&mut storage, &mut history.ops);
    }
    if storage.one_in(6) {
        for _ in 0..storage.within(1..=2) {
            let at = storage.within(0..=history.ops.len() as u64) as usize;
            let name = storage.one_of(&[Name::Alpha, Name::Alpha, Name::Beta]);
            history.ops.insert(at, Op::Merge(name));
        }
    }
    history
}

/// The temper of one history.
struct Temper {
    weights: [u64; WEIGHTS.len()],
    keys: u64,
    batch_max: u64,
    /// How often a write is under `sync`, under `async` with a short and with a long delay, and
    /// under `none`.
    durabilities: [u64; 4],
    /// One in this number of documents is large.
    large_one_in: u64,
    /// One in this number of operations is on the other collection.
    beta_one_in: u64,
}

impl Temper {
    fn new(rng: &mut Rng, profile: Profile) -> Temper {
        let weights = WEIGHTS.map(|(kind, weights)| {
            let factor = match kind {
                Kind::Write => 4,
                _ => rng.one_of(&[0, 2, 4, 4, 4, 12]),
            };
            weights[profile as usize] * factor
        });
        Temper {
            weights,
            keys: rng.one_of(&[2, 6, KEYS.into(), KEYS.into()]),
            batch_max: rng.one_of(&[1, 3, 6, 6, 40]),
            durabilities: rng.one_of(&[[6, 1, 1, 2], [6, 1, 1, 2], [1, 8, 4, 1], [0, 4, 2, 1]]),
            large_one_in: rng.one_of(&[4, 30, 200]),
            beta_one_in: rng.one_of(&[2, 5, 5, 1_000]),
        }
    }

    /// Adds an operation. After one that plans a fault it often adds one that meets it.
    fn add(&self, rng: &mut Rng, ops: &mut Vec<Op>) {
        let kind = WEIGHTS[rng.weighted(self.weights.iter().copied())].0;
        ops.push(self.op(rng, kind));
        let planned = matches!(
            kind,
            Kind::CrashIn | Kind::FailIn | Kind::FailReadIn | Kind::Fill | Kind::FillVolume
        );
        if planned && !rng.one_in(3) {
            let kind = rng.one_of(&WORK);
            ops.push(self.op(rng, kind));
        }
    }

    fn op(&self, rng: &mut Rng, kind: Kind) -> Op {
        let name = match rng.one_in(self.beta_one_in) {
            true => Name::Beta,
            false => Name::Alpha,
        };
        match kind {
            Kind::Write => self.write(rng, name),
            Kind::Sync => Op::Sync(name),
            Kind::Flush => Op::Flush(name),
            Kind::Compact => Op::Compact(name),
            Kind::Create => Op::Create(name, rng.within(1..=3) as u32),
            Kind::Drop => Op::Drop(rng.one_of(&[Name::Beta, Name::Beta, Name::Beta, name])),
            Kind::Check => Op::Check(name),
            Kind::View => Op::View(name),
            Kind::LookAtViews => Op::LookAtViews,
            Kind::Verify => Op::Verify,
            Kind::VerifyRotten => Op::VerifyRotten { seed: seed(rng) },
            Kind::Rebuild => Op::Rebuild(name),
            Kind::Backup => Op::Backup,
            Kind::Restore => Op::Restore { seed: seed(rng) },
            Kind::Repair => Op::Repair,
            Kind::RunDue => Op::RunDue,
            Kind::RunAll => Op::RunAll,
            Kind::Advance => Op::Advance(rng.within(0..=2_000) as u32),
            Kind::Reopen => Op::Reopen(rng.one_of(&[End::Close, End::Drop])),
            Kind::Crash => Op::Crash { seed: seed(rng) },
            Kind::CrashIn => Op::CrashIn {
                steps: steps(rng),
                seed: seed(rng),
            },
            Kind::FailIn => Op::FailIn {
                steps: steps(rng),
                full: rng.one_in(2),
                lasting: rng.one_in(2),
            },
            Kind::FailReadIn => Op::FailReadIn {
                reads: steps(rng),
                short: rng.one_in(2),
                lasting: rng.one_in(3),
            },
            Kind::FailSyncs => Op::FailSyncs,
            Kind::Rot => Op::Rot { seed: seed(rng) },
            Kind::Vanish => Op::Vanish(volume(rng)),
            Kind::Slow => Op::Slow(rng.one_of(&[0, 100, 5_000])),
            Kind::Fill => Op::Fill(room(rng)),
            Kind::FillVolume => Op::FillVolume(volume(rng), room(rng)),
            Kind::Heal => Op::Heal,
        }
    }

    /// Adds operations on the wide collection at any places.
    fn add_wide(&self, rng: &mut Rng, ops: &mut Vec<Op>) {
        for _ in 0..rng.within(4..=20) {
            let at = rng.within(0..=ops.len() as u64) as usize;
            let op = wide::random(rng, |rng| self.batch(rng));
            // Time passes, so that there are cells to move.
            let waits = (op == WideOp::Tier).then_some(Op::Advance(2_000));
            ops.splice(at..at, waits.into_iter().chain([Op::Wide(op)]));
        }
        for _ in 0..rng.one_of(&[0, 0, 2]) {
            let at = rng.within(0..=ops.len() as u64) as usize;
            ops.insert(at, Op::Follow);
        }
    }

    fn write(&self, rng: &mut Rng, name: Name) -> Op {
        let (durability, writes) = self.batch(rng);
        Op::Write {
            name,
            durability,
            writes,
        }
    }

    fn batch(&self, rng: &mut Rng) -> (Durability, Vec<Write>) {
        let durability = match rng.weighted(self.durabilities.iter().copied()) {
            0 => Durability::Sync,
            1 => Durability::Async(Duration::from_millis(rng.within(1..=50))),
            2 => Durability::Async(Duration::from_millis(10_000)),
            _ => Durability::None,
        };
        let count = rng.within(1..=self.batch_max);
        let writes = (0..count).map(|_| self.one_write(rng)).collect();
        (durability, writes)
    }

    fn one_write(&self, rng: &mut Rng) -> Write {
        let action = match rng.within(0..=8) {
            0..=4 => Action::Put {
                bytes: self.bytes(rng),
            },
            5 | 6 => Action::Patch {
                shape: rng.within(0..=15) as u8,
            },
            _ => Action::Delete,
        };
        let condition = match rng.within(0..=10) {
            0..=5 => Condition::Always,
            6 => Condition::IfAbsent,
            7 => Condition::IfCurrent,
            8 => Condition::IfStale,
            9 => Condition::External {
                step: rng.within(0..=4) as u8,
            },
            _ => Condition::ExternalOrEqual {
                step: rng.within(0..=4) as u8,
            },
        };
        Write {
            key: rng.within(0..=self.keys - 1) as u8,
            action,
            condition,
        }
    }

    /// The size of the text of a document.
    fn bytes(&self, rng: &mut Rng) -> u32 {
        let bytes = if rng.one_in(self.large_one_in) {
            match rng.within(0..=9) {
                0 => rng.within(100_000..=300_000),
                _ => rng.within(2_000..=20_000),
            }
        } else if rng.one_in(8) {
            // Around the sizes of a sector, a block of a table and a block of the log, less the
            // rest of the document.
            rng.one_of(&[512, 4_096, 16_384]) - rng.within(0..=250)
        } else {
            rng.within(0..=300)
        };
        bytes as u32
    }
}

/// The number of steps before the trouble: a few, so that the next operations meet it.
fn steps(rng: &mut Rng) -> u32 {
    let max = rng.one_of(&[4, 12, 12, 80]);
    rng.within(0..=max) as u32
}

/// Usually less than the next few writes need.
fn room(rng: &mut Rng) -> u32 {
    let max = rng.one_of(&[4_000, 4_000, 9_000_000]);
    rng.within(0..=max) as u32
}

/// A fault that a history can't have does nothing in it.
fn volume(rng: &mut Rng) -> u32 {
    rng.one_of(&[1, 1, 2, 3])
}

/// Short to write in a script.
fn seed(rng: &mut Rng) -> u64 {
    rng.within(0..=999)
}
