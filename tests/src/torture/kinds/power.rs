//! Power cuts on a real file system, under a server with clients or under a loader.

use super::{any_memory, any_style};
use crate::torture::book::Promise;
use crate::torture::client::Allowed;
use crate::torture::disk::{Disk, FileSystem};
use crate::torture::round::Round;
use crate::torture::siege::{Siege, require_work};
use crate::torture::trouble::{Result, While};
use std::time::Instant;

const LIVES: u32 = 5;

/// xfs needs at least this.
const DISK_MIB: u64 = 400;

pub(super) fn run(round: &mut Round<'_>, file_system: FileSystem) -> Result<()> {
    let disk = Disk::make(&round.dir, file_system, DISK_MIB)?;
    let durability = round
        .random
        .pick(&["sync", "sync", "sync", "async(50)", "none"]);
    let promise = |cut| match durability {
        "sync" => Promise::Before(cut),
        _ => Promise::Prefix,
    };
    let (style, memory) = (any_style(&mut round.random), any_memory(&mut round.random));
    let clients = 1 + round.random.below(4);
    let siege = Siege::new(round, disk.mount.join("db"), durability, clients, style);
    let mut siege = siege.may_be_wide(round);
    // A collection that was made must survive any cut after it.
    siege.create(&round.quire)?;
    if round.random.one_in(2) {
        let cut = disk.cut(round.random.one_in(2))?;
        round.tally.crashes += 1;
        disk.restart()?;
        siege.check(round, promise(cut))?;
    }
    for _ in 0..LIVES {
        let life = round.random.millis(1, 600);
        let (aftermath, flushes_journal) = (round.random.millis(0, 60), round.random.one_in(2));
        let mut cut = Instant::now();
        if round.random.one_in(4) {
            siege.load(&round.quire, memory, |process| {
                round.rest(life)?;
                cut = disk.cut(flushes_journal)?;
                round.rest(aftermath)?;
                process.0.kill().during("kill quire load")
            })?;
        } else {
            let mut server = round.quire.serve(&siege.database, memory)?;
            let is_stopped = round.random.one_in(3);
            siege.serve(&mut server, Allowed::Errors, |server| {
                round.rest(life)?;
                cut = disk.cut(flushes_journal)?;
                // Its answers without a disk are checked too.
                round.rest(aftermath)?;
                match is_stopped {
                    true => server.stop().map(drop),
                    false => server.kill(),
                }
            })?;
        }
        round.tally.crashes += 1;
        disk.restart()?;
        siege.check(round, promise(cut))?;
    }
    match durability {
        "sync" => require_work(round),
        _ => Ok(()),
    }
}
