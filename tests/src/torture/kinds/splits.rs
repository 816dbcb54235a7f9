//! SIGKILL to servers that split and merge partitions, of a plain collection or a wide one.

use super::{any_memory, any_style};
use crate::http::Connection;
use crate::torture::client::Allowed;
use crate::torture::process::Server;
use crate::torture::round::Round;
use crate::torture::siege::{Siege, promise, require_work};
use crate::torture::trouble::{Result, While, failed};
use std::time::Instant;

const LIVES: u32 = 6;

/// The numbers of partitions: each is a multiple of all before it.
const COUNTS: [u32; 4] = [1, 2, 4, 8];

pub(super) fn run(round: &mut Round<'_>) -> Result<()> {
    let durability = round.random.pick(&["sync", "sync", "async(50)", "none"]);
    let (style, memory) = (any_style(&mut round.random), any_memory(&mut round.random));
    let (clients, database) = (1 + round.random.below(3), round.dir.join("db"));
    let most = COUNTS[COUNTS.len() - 1];
    let siege = Siege::of_partitions(round, database, durability, clients, style, most);
    let siege = siege.may_be_wide(round);
    let mut siege = siege.begin_with(round.random.pick(&COUNTS));
    siege.create(&round.quire)?;
    for _ in 0..LIVES {
        let mut server = round.quire.serve(&siege.database, memory)?;
        siege.serve(&mut server, Allowed::Nothing, |server| {
            for _ in 0..1 + round.random.below(3) {
                let pause = round.random.millis(1, 300);
                round.rest(pause)?;
                repartition(server, round.random.pick(&COUNTS))?;
            }
            let pause = round.random.millis(1, 400);
            round.rest(pause)?;
            match round.random.one_in(4) {
                true => server.stop().map(drop),
                false => server.kill(),
            }
        })?;
        round.tally.crashes += 1;
        siege.check(round, promise(durability, Instant::now()))?;
    }
    match durability {
        "sync" => require_work(round),
        _ => Ok(()),
    }
}

/// Begins a split or a merge, unless there are as many partitions already, or one goes on.
fn repartition(server: &Server, count: u32) -> Result<()> {
    let mut connection = Connection::open(server.address).during("connect to the server")?;
    let path = format!("/docs/_partitions?count={count}&wait_for_completion=false");
    let answer = connection.request("POST", &path, b"");
    let (status, answer) = answer.during("begin a split or a merge")?;
    match status {
        200 | 400 | 409 => Ok(()),
        _ => failed(format!(
            "{path} was answered with {status} {}",
            String::from_utf8_lossy(&answer)
        )),
    }
}
