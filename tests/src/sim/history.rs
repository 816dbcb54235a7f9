//! Histories: what is done to a database, and what the machine does to it, as plain data.

use proptest::collection::vec;
use proptest::prelude::*;
use quiredb::{Durability, Medium, Options, Volumes};
use std::path::PathBuf;
use std::time::Duration;

/// A database's options, its first collection, and what happens.
#[derive(Debug, Clone)]
pub struct History {
    pub seed: u64,
    /// Directories, each a disk to the database.
    pub volumes: usize,
    pub partitions: u32,
    pub replay_bytes_max: u64,
    pub ops: Vec<Op>,
}

impl History {
    pub fn volumes(&self) -> Volumes {
        let dirs = ["/db", "/disk2", "/disk3"].map(PathBuf::from).into_iter();
        Volumes::new(dirs.take(self.volumes).map(|dir| (dir, Medium::Hdd))).unwrap()
    }

    /// The least memory there can be, small segments and so on.
    pub fn options(&self) -> Options {
        Options {
            memory_bytes: 16 << 20,
            replay_bytes_max: self.replay_bytes_max,
            segment_bytes: 1 << 20,
            ..Options::default()
        }
    }
}

/// One thing that happens. `c` is the collection, 0 or 1; writing to one that does not exist makes it first.
#[derive(Debug, Clone)]
pub enum Op {
    /// A batch of writes.
    Write {
        c: u8,
        writes: Vec<Write>,
        durability: Durability,
    },
    Sync {
        c: u8,
    },
    Flush {
        c: u8,
    },
    Compact {
        c: u8,
    },
    Create {
        c: u8,
        partitions: u32,
    },
    Drop {
        c: u8,
    },
    /// Compares everything that can be read with the model.
    Check {
        c: u8,
    },
    /// Takes a view, to be looked at later.
    View {
        c: u8,
    },
    /// Compares all views held with the model as it was, and lets go of the first.
    LookAtViews,
    /// Background jobs that are due run.
    RunDue,
    /// Some seconds pass, with all background jobs that are due in them.
    RunAll,
    /// Time passes.
    Advance {
        millis: u16,
    },
    /// The database is opened again, after a close or after being dropped.
    Reopen {
        close: bool,
    },
    /// The machine stops now.
    Crash {
        seed: u64,
    },
    /// The machine stops at the n-th I/O step from now.
    CrashIn {
        steps: u16,
        seed: u64,
    },
    /// The n-th I/O step from now fails, and if `lasting` all later ones.
    FailIn {
        steps: u16,
        full: bool,
        lasting: bool,
    },
    /// Syncs fail from now on.
    FailSyncs,
    /// The disk has so much room left.
    Fill {
        spare: u32,
    },
    /// The machine is well again, and its disk large.
    Heal,
}

/// One write of a batch.
#[derive(Debug, Clone)]
pub struct Write {
    pub key: u8,
    pub action: Action,
    pub condition: Condition,
}

#[derive(Debug, Clone, Copy)]
pub enum Action {
    Put { bytes: usize },
    Patch { shape: u8 },
    Delete,
}

#[derive(Debug, Clone, Copy)]
pub enum Condition {
    Always,
    IfAbsent,
    /// The version that the document has.
    IfCurrent,
    /// One that it does not have.
    IfStale,
}

/// A put without condition.
pub fn put(key: u8, bytes: usize) -> Write {
    Write {
        key,
        action: Action::Put { bytes },
        condition: Condition::Always,
    }
}

/// A patch without condition.
pub fn patch(key: u8, shape: u8) -> Write {
    Write {
        key,
        action: Action::Patch { shape },
        condition: Condition::Always,
    }
}

/// A deletion without condition.
pub fn delete(key: u8) -> Write {
    Write {
        key,
        action: Action::Delete,
        condition: Condition::Always,
    }
}

impl Write {
    pub fn if_absent(self) -> Write {
        Write {
            condition: Condition::IfAbsent,
            ..self
        }
    }

    pub fn if_current(self) -> Write {
        Write {
            condition: Condition::IfCurrent,
            ..self
        }
    }

    pub fn if_stale(self) -> Write {
        Write {
            condition: Condition::IfStale,
            ..self
        }
    }
}

/// A batch under `sync`.
pub fn write(c: u8, writes: impl Into<Vec<Write>>) -> Op {
    Op::Write {
        c,
        writes: writes.into(),
        durability: Durability::Sync,
    }
}

fn any_action() -> impl Strategy<Value = Action> {
    let bytes =
        prop_oneof![30 => 0..300_usize, 6 => 2_000..20_000_usize, 1 => 100_000..300_000_usize];
    prop_oneof![
        5 => bytes.prop_map(|bytes| Action::Put { bytes }),
        2 => (0..16_u8).prop_map(|shape| Action::Patch { shape }),
        2 => Just(Action::Delete),
    ]
}

fn any_write() -> impl Strategy<Value = Write> {
    let condition = prop_oneof![
        6 => Just(Condition::Always),
        1 => Just(Condition::IfAbsent),
        1 => Just(Condition::IfCurrent),
        1 => Just(Condition::IfStale),
    ];
    (any::<u8>(), any_action(), condition).prop_map(|(key, action, condition)| Write {
        key,
        action,
        condition,
    })
}

fn any_durability() -> impl Strategy<Value = Durability> {
    prop_oneof![
        3 => Just(Durability::Sync),
        1 => prop_oneof![1..50_u64, Just(10_000)]
            .prop_map(|millis| Durability::Async(Duration::from_millis(millis))),
        1 => Just(Durability::None),
    ]
}

/// Which trouble a history may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Crashes alone: then every error is a failure.
    Crashes,
    /// A disk that fills up, too: then every error is `Full`, and goes away with its cause.
    FullDisk,
    /// Everything: devices that fail at any call, syncs that fail.
    Faults,
}

fn any_op(trouble: Trouble) -> BoxedStrategy<Op> {
    let c = || prop_oneof![4 => Just(0_u8), 1 => Just(1_u8)];
    let steps = || prop_oneof![3 => 0..12_u16, 1 => 0..80_u16];
    let calm = prop_oneof![
        24 => (c(), vec(any_write(), 1..6), any_durability())
            .prop_map(|(c, writes, durability)| Op::Write { c, writes, durability }),
        2 => c().prop_map(|c| Op::Sync { c }),
        4 => c().prop_map(|c| Op::Flush { c }),
        2 => c().prop_map(|c| Op::Compact { c }),
        1 => (c(), 1..4_u32).prop_map(|(c, partitions)| Op::Create { c, partitions }),
        1 => Just(Op::Drop { c: 1 }),
        4 => c().prop_map(|c| Op::Check { c }),
        2 => c().prop_map(|c| Op::View { c }),
        2 => Just(Op::LookAtViews),
        3 => Just(Op::RunDue),
        2 => Just(Op::RunAll),
        1 => (0..2_000_u16).prop_map(|millis| Op::Advance { millis }),
        2 => any::<bool>().prop_map(|close| Op::Reopen { close }),
        1 => any::<u64>().prop_map(|seed| Op::Crash { seed }),
        3 => (steps(), any::<u64>()).prop_map(|(steps, seed)| Op::CrashIn { steps, seed }),
    ];
    let fill = prop_oneof![2 => 0..4_000_u32, 1 => 0..9_000_000_u32];
    match trouble {
        Trouble::Crashes => calm.boxed(),
        Trouble::FullDisk => prop_oneof![
            50 => calm,
            3 => fill.prop_map(|spare| Op::Fill { spare }),
            2 => Just(Op::Heal),
        ]
        .boxed(),
        Trouble::Faults => prop_oneof![
            50 => calm,
            1 => fill.prop_map(|spare| Op::Fill { spare }),
            4 => (steps(), any::<bool>(), any::<bool>())
                .prop_map(|(steps, full, lasting)| Op::FailIn { steps, full, lasting }),
            1 => Just(Op::FailSyncs),
            3 => Just(Op::Heal),
        ]
        .boxed(),
    }
}

/// Histories of up to `ops_max` operations.
pub fn any_history(trouble: Trouble, ops_max: usize) -> impl Strategy<Value = History> {
    let replay_bytes_max =
        prop_oneof![Just(1_u64), 500..20_000_u64, Just(1 << 20), Just(256 << 20)];
    (
        any::<u64>(),
        prop_oneof![3 => Just(1_usize), 1 => 2..4_usize],
        1..4_u32,
        replay_bytes_max,
        vec(any_op(trouble), 1..ops_max),
    )
        .prop_map(
            |(seed, volumes, partitions, replay_bytes_max, ops)| History {
                seed,
                volumes,
                partitions,
                replay_bytes_max,
                ops,
            },
        )
}
