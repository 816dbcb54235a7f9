//! A database several times as large as the memory that its process may use, with page cache.

use crate::torture::book::Promise;
use crate::torture::cgroup::ControlGroup;
use crate::torture::client::{Allowed, Style};
use crate::torture::disk::need_room;
use crate::torture::process::text_of;
use crate::torture::round::Round;
use crate::torture::siege::{Siege, require_work};
use crate::torture::trouble::{Result, While, failed};

/// The memory that a process may use. A command that reads has half of that for its cache alone.
const LIMIT_MIB: u64 = 256;

/// The memory that Quire is configured to use: its own limit must hold beside code, stacks, and
/// requests under way.
const MEMORY: [&str; 2] = ["--memory", "64MiB"];

/// Documents loaded; on disk they take about half.
const LOADED_MIB: u64 = 800;

pub(super) fn run(round: &mut Round<'_>) -> Result<()> {
    let group = ControlGroup::memory(&round.group, LIMIT_MIB << 20)?;
    need_room(&round.dir, 4 * LOADED_MIB)?;
    let style = Style {
        keys: 200_000,
        words_max: 800,
        batch_max: 50,
    };
    let mut siege = Siege::new(round, round.dir.join("db"), "none", 3, style);
    siege.create(&round.quire)?;
    let inside = round.quire.under(group.wrapper());
    let database = siege.database.clone();
    let mut words = vec!["--durability", "none"];
    words.extend(MEMORY);
    let loaded = siege
        .loader
        .load(&inside, &database, &words, LOADED_MIB << 20, |process| {
            process.0.wait().during("wait for quire load").map(drop)
        })?;
    if !loaded.is_some_and(|status| status.success()) {
        return failed(format!(
            "quire load ended early: {loaded:?}; {}",
            round.quire.last_words()
        ));
    }
    // Its clients read and write; everything is read after they end.
    let mut server = inside.serve(&siege.database, &MEMORY)?;
    let lasts = round.random.millis(500, 1_500);
    siege.serve(&mut server, Allowed::Nothing, |server| {
        round.rest(lasts)?;
        server.kill()
    })?;
    round.tally.crashes += 1;
    // The recovery has no more memory than the rest.
    inside.ok(&["verify", text_of(&siege.database)?, "--json"])?;
    let contents = siege.contents(&inside)?;
    // A finished load is durable, under any durability setting; the writes of the clients are not.
    round.tally.operations += siege.loader.book.settle(&contents, Promise::All)?;
    siege.settle(round, &contents, Promise::Prefix)?;
    round.tally.recoveries += 1;
    match group.out_of_memory_kills()? {
        0 => require_work(round),
        kills => failed(format!("{kills} processes were killed for want of memory")),
    }
}
