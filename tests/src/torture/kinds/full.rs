//! A full disk: writes are refused and do no harm, reads succeed, and writes succeed again when
//! there is space.

use crate::http::Connection;
use crate::torture::book::Promise;
use crate::torture::client::{Allowed, Style};
use crate::torture::disk::{Disk, FileSystem};
use crate::torture::process::Server;
use crate::torture::round::Round;
use crate::torture::siege::{Siege, require_work};
use crate::torture::trouble::{Result, While, failed};
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

const DISK_MIB: u64 = 128;

/// How long a disk is filled.
const FILLING: Duration = Duration::from_secs(8);

/// Once there is space, writes must succeed within this time.
const PATIENCE: Duration = Duration::from_secs(60);

/// The memory of the servers: so little that it has to be flushed while the disk is full.
const MEMORY: [&str; 2] = ["--memory", "16MiB"];

pub(super) fn run(round: &mut Round<'_>) -> Result<()> {
    let disk = Disk::make(&round.dir, FileSystem::Ext4, DISK_MIB)?;
    let style = Style {
        keys: round.random.pick(&[100, 2_000]),
        words_max: round.random.pick(&[3_000, 10_000]),
        batch_max: round.random.pick(&[10, 50]),
    };
    let clients = 1 + round.random.below(4);
    let mut siege = Siege::new(round, disk.mount.join("db"), "sync", clients, style);
    siege.create(&round.quire)?;
    let mut server = round.quire.serve(&siege.database, &MEMORY)?;
    for _ in 0..2 {
        let ballast = disk.mount.join("ballast");
        fill_up(&disk.mount, &ballast, 2 + round.random.below(8))?;
        let told = siege.told().full;
        fill(round, &mut siege, &mut server)?;
        round.tally.faults += siege.told().full - told;
        std::fs::remove_file(&ballast).during("remove the ballast")?;
        wait_for_room(round, &server)?;
        // Once there is space, no write may be refused.
        let lasts = round.random.millis(50, 300);
        siege.serve(&mut server, Allowed::Nothing, |_| round.rest(lasts))?;
    }
    let ballast = disk.mount.join("ballast");
    fill_up(&disk.mount, &ballast, 2)?;
    fill(round, &mut siege, &mut server)?;
    server.kill()?;
    round.tally.crashes += 1;
    // Every byte can be read while the disk is full. To open it for writing, recovery may need some
    // space.
    round.quire.ok(&[
        "verify",
        siege.database.to_str().unwrap_or_default(),
        "--json",
    ])?;
    if let Some(mut server) = round.quire.try_serve(&siege.database, &MEMORY)? {
        siege.serve(&mut server, Allowed::Full, |_| {
            round.rest(Duration::from_millis(100))
        })?;
        server.kill()?;
        round.tally.crashes += 1;
    }
    std::fs::remove_file(&ballast).during("remove the ballast")?;
    siege.check(round, Promise::All)?;
    if round.tally.faults == 0 {
        return failed("the disk was never full");
    }
    require_work(round)
}

/// Fills the disk until `leave_mib` MiB are free.
fn fill_up(mount: &Path, ballast: &Path, leave_mib: u64) -> Result<()> {
    let room = rustix::fs::statvfs(mount).during("get the free space")?;
    // Space reserved for root is available to us too.
    let free = room.f_bfree.saturating_mul(room.f_frsize);
    let file = File::create(ballast).during("make the ballast")?;
    let bytes = free.saturating_sub(leave_mib << 20);
    if bytes == 0 {
        return Ok(());
    }
    let flags = rustix::fs::FallocateFlags::empty();
    match rustix::fs::fallocate(&file, flags, 0, bytes) {
        // The server used some space meanwhile: now none is left.
        Err(rustix::io::Errno::NOSPC) => Ok(()),
        made => made.during("make the ballast"),
    }
}

/// Lets clients write until the disk has refused some, and a little longer; or for a while, if the
/// reserved space of the logs lasts that long. Reads must succeed all the time.
fn fill(round: &Round<'_>, siege: &mut Siege, server: &mut Server) -> Result<()> {
    let begun = Instant::now();
    let full = siege.told().full;
    while siege.told().full < full + 20 && begun.elapsed() < FILLING {
        siege.serve(server, Allowed::Full, |_| {
            round.rest(Duration::from_millis(300))
        })?;
    }
    Ok(())
}

/// Waits until the server takes writes again: it may first have to flush its memory.
fn wait_for_room(round: &Round<'_>, server: &Server) -> Result<()> {
    let begun = Instant::now();
    loop {
        let mut connection = Connection::open(server.address).during("connect to the server")?;
        let put = connection.request("PUT", "/other/_doc/1", b"{\"text\":\"is there room?\"}");
        let (status, answer) = put.during("write to a disk with room")?;
        match status {
            200 | 201 => return Ok(()),
            429 if begun.elapsed() < PATIENCE => round.rest(Duration::from_millis(50))?,
            _ => {
                return failed(format!(
                    "there is room, and a write is answered with {status} {}",
                    String::from_utf8_lossy(&answer)
                ));
            }
        }
    }
}
