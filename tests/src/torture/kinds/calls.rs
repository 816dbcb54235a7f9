//! System calls that fail under a server or a loader: errors are reported, nothing panics, no
//! acknowledged write is lost.

use super::{any_memory, any_style};
use crate::torture::book::Promise;
use crate::torture::client::Allowed;
use crate::torture::round::Round;
use crate::torture::siege::Siege;
use crate::torture::strace::Faults;
use crate::torture::trouble::{Result, Trouble, While};
use std::time::Instant;

const LIVES: u32 = 5;

pub(super) fn run(round: &mut Round<'_>) -> Result<()> {
    let (style, memory) = (any_style(&mut round.random), any_memory(&mut round.random));
    let clients = 1 + round.random.below(4);
    let mut siege = Siege::new(round, round.dir.join("db"), "sync", clients, style);
    siege.create(&round.quire)?;
    for life in 0..LIVES {
        let dir = round.dir.join(format!("life-{life}"));
        std::fs::create_dir(&dir).during("make a directory")?;
        let faults = Faults::any(&mut round.random, &dir)?;
        let lived = live(round, &mut siege, memory, &faults);
        round.tally.faults += faults.count();
        // Without the faults everything is as it should be.
        let checked = lived.and_then(|()| siege.check(round, Promise::All));
        checked.map_err(|error| match error {
            Trouble::Failed(what) => Trouble::Failed(format!("after {}: {what}", faults.shown())),
            other => other,
        })?;
    }
    Ok(())
}

/// One process that meets the faults, until it is killed, stopped, or ends by itself.
fn live(round: &mut Round<'_>, siege: &mut Siege, memory: &[&str], faults: &Faults) -> Result<()> {
    let quire = round.quire.under(faults.wrapper());
    let life = round.random.millis(100, 1_000);
    if round.random.one_in(3) {
        siege.load(&quire, memory, |process| {
            let begun = Instant::now();
            while begun.elapsed() < life {
                if process
                    .0
                    .try_wait()
                    .during("wait for quire load")?
                    .is_some()
                {
                    return Ok(());
                }
                round.rest(std::time::Duration::from_millis(10))?;
            }
            process.0.kill().during("kill quire load")
        })?;
        return Ok(());
    }
    // It may refuse to start, too.
    let Some(mut server) = quire.try_serve(&siege.database, memory)? else {
        return Ok(());
    };
    let is_killed = round.random.one_in(2);
    siege.serve(&mut server, Allowed::Errors, |server| {
        round.rest(life)?;
        match is_killed {
            true => server.kill(),
            false => server.stop().map(drop),
        }
    })
}
