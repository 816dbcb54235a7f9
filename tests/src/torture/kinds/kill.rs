//! SIGKILL at random moments: to a server with clients, to a loader, to a recovery.

use super::{any_memory, any_style};
use crate::torture::client::Allowed;
use crate::torture::round::Round;
use crate::torture::siege::{Siege, promise, require_work};
use crate::torture::trouble::{Result, While, failed};
use std::time::Instant;

const LIVES: u32 = 6;

pub(super) fn run(round: &mut Round<'_>) -> Result<()> {
    let durability = round.random.pick(&["sync", "sync", "async(50)", "none"]);
    let (style, memory) = (any_style(&mut round.random), any_memory(&mut round.random));
    let clients = 1 + round.random.below(4);
    let siege = Siege::new(round, round.dir.join("db"), durability, clients, style);
    let mut siege = siege.may_be_wide(round);
    siege.create(&round.quire)?;
    for _ in 0..LIVES {
        let life = round.random.millis(1, 800);
        if round.random.one_in(4) {
            let ended = siege.load(&round.quire, memory, |process| {
                round.rest(life)?;
                process.0.kill().during("kill quire load")
            })?;
            if let Some(status) = ended {
                return failed(format!(
                    "quire load ended by itself: {status}; {}",
                    round.quire.last_words()
                ));
            }
        } else {
            let mut server = round.quire.serve(&siege.database, memory)?;
            siege.serve(&mut server, Allowed::Nothing, |server| {
                round.rest(life)?;
                server.kill()
            })?;
        }
        round.tally.crashes += 1;
        siege.check(round, promise(durability, Instant::now()))?;
    }
    match durability {
        "sync" => require_work(round),
        _ => Ok(()),
    }
}
