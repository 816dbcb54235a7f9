//! Random histories of counters: a seed names one. Their tempers are like those of the histories of
//! documents.

use super::machine::Record;
use super::{History, Op};
use crate::sim::rng::Rng;
use quiredb::Durability;
use std::ops::Range;
use std::time::Duration;

/// How often each operation comes, in the order of [`Temper::op`].
const WEIGHTS: [u64; 15] = [30, 2, 6, 3, 5, 2, 2, 5, 1, 3, 2, 4, 4, 1, 2];

/// The history of this seed. With `faults`, the machine does not only crash.
pub fn generate(seed: u64, faults: bool) -> History {
    let mut rng = Rng::new(Rng::new(seed ^ 0xc0_4e7e).next() ^ u64::from(faults));
    let mut weights = WEIGHTS.map(|weight| weight * rng.one_of(&[0, 1, 2, 2, 2, 6]));
    weights[0] = WEIGHTS[0] * 2;
    if !faults {
        weights[12..].fill(0);
    }
    let temper = Temper {
        weights,
        counters: rng.one_of(&[3, 3, 12, 12, 100, 100, 1_000, 4_000]),
        batch_max: rng.one_of(&[1, 3, 8, 60]),
        durabilities: [2, 1, 1, 1, 1].map(|weight| weight * rng.one_of(&[0, 1, 1, 8]) + 1),
        wide_one_in: rng.one_of(&[4, 12, 100]),
    };
    let count = rng.within(1..=60);
    History {
        seed: rng.next(),
        // The smallest value is so small that a replay has to flush.
        memory_bytes: rng.one_of(&[2 << 20, 4 << 20, 16 << 20]),
        replay_bytes_max: rng.one_of(&[100, 2_000, u64::MAX]),
        block_bytes: rng.one_of(&[40, 64, 400, 16 << 10]),
        segment_bytes: rng.one_of(&[300, 2_000, 1 << 20]),
        ops: (0..count).map(|_| temper.op(&mut rng)).collect(),
    }
}

struct Temper {
    weights: [u64; WEIGHTS.len()],
    counters: u16,
    batch_max: u64,
    /// How often a write is under `sync`, under `async` with a short, a longer and a long delay,
    /// and under `none`.
    durabilities: [u64; 5],
    /// One in this number of records is about up to all counters.
    wide_one_in: u64,
}

impl Temper {
    fn op(&self, rng: &mut Rng) -> Op {
        let millis = |rng: &mut Rng, most| Duration::from_millis(rng.within(0..=most));
        match rng.weighted(self.weights.iter().copied()) {
            0 => self.write(rng),
            1 => Op::Sync,
            2 => Op::Flush,
            3 => Op::Compact,
            4 => Op::Check,
            5 => Op::View,
            6 => Op::LookAtViews,
            7 => Op::Run(millis(rng, 4_000)),
            8 => Op::Advance(millis(rng, 2_000)),
            9 => Op::Reopen {
                close: rng.one_in(2),
            },
            10 => Op::Crash { seed: rng.next() },
            11 => Op::CrashIn {
                steps: steps(rng),
                seed: rng.next(),
            },
            12 => Op::FailIn {
                steps: steps(rng),
                full: rng.one_in(3),
                lasting: rng.one_in(3),
            },
            13 => Op::FailSyncs,
            _ => Op::Heal,
        }
    }

    fn write(&self, rng: &mut Rng) -> Op {
        let timed = |millis| Durability::Async(Duration::from_millis(millis));
        let durability = match rng.weighted(self.durabilities.iter().copied()) {
            0 => Durability::Sync,
            1 => timed(5),
            2 => timed(500),
            3 => timed(30_000),
            _ => Durability::None,
        };
        let count = rng.within(1..=self.batch_max);
        Op::Write((0..count).map(|_| self.record(rng)).collect(), durability)
    }

    fn record(&self, rng: &mut Rng) -> Record {
        let keys = self.keys(rng);
        match rng.within(0..=9) {
            0..=6 => Record::Change {
                keys,
                times: rng.within(1..=3),
                plus: rng.within(0..=1_000),
            },
            7 => Record::Set {
                keys,
                value: rng.within(0..=1_000),
            },
            _ => Record::Forget { keys },
        }
    }

    fn keys(&self, rng: &mut Rng) -> Range<u16> {
        let first = rng.within(0..=u64::from(self.counters) - 1) as u16;
        let most = match rng.one_in(self.wide_one_in) {
            true => self.counters - first,
            false => (self.counters - first).min(3),
        };
        first..first + rng.within(1..=most.into()) as u16
    }
}

/// The number of steps before the trouble: a few, so that the next operations meet it.
fn steps(rng: &mut Rng) -> u64 {
    let most = rng.one_of(&[3, 12, 12, 60]);
    rng.within(0..=most)
}
