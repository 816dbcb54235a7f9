//! Repairs killed by SIGKILL: what they leave opens only if it is whole, and a repair can begin
//! anew. And a server whose file `LOCK` is removed: no other process gets in.

use super::any_style;
use crate::torture::book::Contents;
use crate::torture::process::{Killed, text_of};
use crate::torture::round::Round;
use crate::torture::siege::{Siege, require_work};
use crate::torture::trouble::{Result, While, failed};
use std::path::Path;
use std::time::Duration;

const KILLS: u32 = 8;

const LOADED_BYTES: u64 = 6 << 20;

pub(super) fn run(round: &mut Round<'_>) -> Result<()> {
    let style = any_style(&mut round.random);
    let mut siege = Siege::new(round, round.dir.join("db"), "none", 0, style);
    siege.create(&round.quire)?;
    let database = siege.database.clone();
    let contents = siege.load_whole(round, &[], LOADED_BYTES)?;
    siege.database = round.dir.join("repaired");
    for _ in 0..KILLS {
        let life = round.random.millis(1, 600);
        kill_repair(round, &database, &siege.database, life)?;
        if is_whole(round, &siege, &contents)? {
            std::fs::remove_dir_all(&siege.database).during("remove the repaired database")?;
        }
        round.tally.recoveries += 1;
    }
    let (from, to) = (text_of(&database)?, text_of(&siege.database)?);
    round.quire.ok(&["repair", from, to])?;
    if !is_whole(round, &siege, &contents)? {
        return failed("what was repaired to the end does not open");
    }
    without_lock_file(round, &siege.database)?;
    require_work(round)
}

fn kill_repair(round: &mut Round<'_>, from: &Path, to: &Path, life: Duration) -> Result<()> {
    let arguments = ["repair", text_of(from)?, text_of(to)?];
    let process = round.quire.command(&arguments)?.spawn();
    // Killed when it is dropped, also if the round is stopped.
    let mut process = Killed(process.during("start quire repair")?);
    round.rest(life)?;
    process.0.kill().during("kill quire repair")?;
    process.0.wait().during("wait for quire repair")?;
    round.tally.crashes += 1;
    Ok(())
}

/// Whether the repaired database opens. Then it must have all documents.
fn is_whole(round: &Round<'_>, siege: &Siege, contents: &Contents) -> Result<bool> {
    let (found, status) = siege.scan(&round.quire)?;
    match status.success() {
        true if found == *contents => Ok(true),
        true => failed(format!(
            "an interrupted repair left a database with {} of {} documents",
            found.len(),
            contents.len()
        )),
        false => Ok(false),
    }
}

/// Removes the file of the lock under a server: another process is refused all the same.
fn without_lock_file(round: &mut Round<'_>, database: &Path) -> Result<()> {
    let mut server = round.quire.serve(database, &[])?;
    std::fs::remove_file(database.join("LOCK")).during("remove LOCK")?;
    let second = round.quire.run(&["create", text_of(database)?, "second"])?;
    if second.status.success() {
        return failed("a second process wrote to a database whose file LOCK was removed");
    }
    server.stop().map(drop)
}
