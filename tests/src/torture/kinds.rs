//! The kinds of rounds.

mod calls;
mod full;
mod kill;
mod memory;
mod power;
mod repair;
mod rot;
mod slow;
mod space;
mod splits;
mod tail;

use super::client::Style;
use super::disk::FileSystem;
use super::random::Random;
use super::round::Round;
use super::trouble::Result;

/// One kind of round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// What it does, in a few words.
    pub(crate) about: &'static str,
    pub(crate) run: fn(&mut Round<'_>) -> Result<()>,
}

/// All of them, in the order in which they take turns.
pub(crate) const KINDS: [Kind; 12] = [
    Kind {
        name: "kill",
        about: "servers, loaders and recoveries killed by SIGKILL",
        run: kill::run,
    },
    Kind {
        name: "splits",
        about: "servers killed while they split and merge partitions",
        run: splits::run,
    },
    Kind {
        name: "ext4",
        about: "power cuts on ext4",
        run: |round| power::run(round, FileSystem::Ext4),
    },
    Kind {
        name: "xfs",
        about: "power cuts on xfs",
        run: |round| power::run(round, FileSystem::Xfs),
    },
    Kind {
        name: "calls",
        about: "system calls that fail, by strace",
        run: calls::run,
    },
    Kind {
        name: "full",
        about: "a disk that is full, and has room again",
        run: full::run,
    },
    Kind {
        name: "rot",
        about: "bits that flip on disk",
        run: rot::run,
    },
    Kind {
        name: "tail",
        about: "bits that flip in the newest bytes of a log, and in the catalog, after SIGKILL",
        run: tail::run,
    },
    Kind {
        name: "repair",
        about: "repairs that are killed, and a lock file that is removed",
        run: repair::run,
    },
    Kind {
        name: "slow",
        about: "a slow disk",
        run: slow::run,
    },
    Kind {
        name: "space",
        about: "room that what was overwritten gives back",
        run: space::run,
    },
    Kind {
        name: "memory",
        about: "a database several times as large as the memory",
        run: memory::run,
    },
];

/// What clients write: few keys many times, or enough keys to fill memtables, in small and in large
/// batches.
fn any_style(random: &mut Random) -> Style {
    Style {
        keys: random.pick(&[20, 200, 4_000]),
        words_max: random.pick(&[10, 100, 400]),
        batch_max: random.pick(&[3, 30, 300]),
    }
}

/// The memory of a database: the least that it accepts, so that it flushes and compacts all the
/// time, or the default.
fn any_memory(random: &mut Random) -> &'static [&'static str] {
    random.pick(&[&["--memory", "16MiB"] as &[&str], &[]])
}
