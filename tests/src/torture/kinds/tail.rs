//! Bit rot after a SIGKILL: in the newest bytes of a log, where a torn tail may be, and in one copy
//! of the catalog. What was acknowledged is there, or is reported as damaged.

use super::any_style;
use super::rot::{copy, flip, flip_at};
use crate::torture::client::Allowed;
use crate::torture::process::text_of;
use crate::torture::round::Round;
use crate::torture::siege::{Siege, promise, require_work};
use crate::torture::trouble::{Result, Trouble, While, failed};
use std::path::PathBuf;
use std::time::Instant;

const LIVES: u32 = 4;

/// A flip is within this many of the last bytes of a log.
const NEWEST_BYTES: u64 = 4 << 10;

pub(super) fn run(round: &mut Round<'_>) -> Result<()> {
    let style = any_style(&mut round.random);
    let clients = 1 + round.random.below(3);
    let mut siege = Siege::new(round, round.dir.join("db"), "sync", clients, style);
    siege.create(&round.quire)?;
    for life in 0..LIVES {
        let mut server = round.quire.serve(&siege.database, &[])?;
        let time = round.random.millis(50, 400);
        siege.serve(&mut server, Allowed::Nothing, |server| {
            round.rest(time)?;
            server.kill()
        })?;
        round.tally.crashes += 1;
        let crashed = Instant::now();
        let rotten = round.dir.join(format!("rotten-{life}"));
        let files = copy(&siege.database, &rotten)?;
        let is_catalog = round.random.one_in(4);
        let flipped = match is_catalog {
            true => flip_catalog(round, &files)?,
            false => flip_newest(round, &files)?,
        };
        round.tally.faults += 1;
        let whole = std::mem::replace(&mut siege.database, rotten);
        let database = text_of(&siege.database)?.to_owned();
        // It opens the database first, and writes a damaged copy of the catalog anew.
        let (found, status) = siege.scan(&round.quire)?;
        let verified = round.quire.run(&["verify", &database, "--json"])?;
        if verified.status.success() && status.success() {
            // What passes for whole is whole; the clients go on with it.
            let settled = siege.settle(round, &found, promise("sync", crashed));
            settled.map_err(|error| after(&flipped, error))?;
            round.tally.recoveries += 1;
            continue;
        }
        if is_catalog {
            return failed(format!(
                "{flipped}: one copy is damaged, and that costs something"
            ));
        }
        siege.database = whole;
        siege.check(round, promise("sync", crashed))?;
    }
    require_work(round)
}

fn after(flipped: &str, error: Trouble) -> Trouble {
    match error {
        Trouble::Failed(what) => Trouble::Failed(format!("{flipped}: {what}")),
        other => other,
    }
}

/// Flips a bit in one copy of the catalog.
fn flip_catalog(round: &mut Round<'_>, files: &[PathBuf]) -> Result<String> {
    let name = round.random.pick(&["CATALOG", "CATALOG-2"]);
    let files: Vec<_> = files.iter().filter(|file| file.ends_with(name)).collect();
    let Some(file) = files.first() else {
        return failed(format!("the database has no {name}"));
    };
    flip(&mut round.random, std::slice::from_ref(*file))
}

/// Flips a bit in the newest bytes of a log.
fn flip_newest(round: &mut Round<'_>, files: &[PathBuf]) -> Result<String> {
    let is_log = |file: &&PathBuf| file.extension().is_some_and(|end| end == "log");
    let logs: Vec<_> = files.iter().filter(is_log).collect();
    // The newest segment of each partition has the greatest name.
    let newest = logs.iter().filter(|file| {
        let others = logs.iter().filter(|other| other.parent() == file.parent());
        others.max() == Some(file)
    });
    let newest: Vec<_> = newest.collect();
    if newest.is_empty() {
        return failed("the database has no log");
    }
    let file = round.random.pick(&newest);
    let bytes = std::fs::read(file).during(file.display())?;
    // Behind its last byte a log may have room that was not written.
    let written = bytes.iter().rposition(|byte| *byte != 0);
    let written = written.map_or(0, |at| at as u64 + 1);
    let from = written.saturating_sub(NEWEST_BYTES);
    let at = from + round.random.below((written - from).max(1));
    flip_at(file, at, round.random.below(8))
}
