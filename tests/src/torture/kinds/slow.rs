//! A slow disk: every write waits for it, none is abandoned, and none is lost when the process is
//! killed.

use crate::torture::book::Promise;
use crate::torture::cgroup::ControlGroup;
use crate::torture::client::{Allowed, Style};
use crate::torture::disk::{Disk, FileSystem};
use crate::torture::round::Round;
use crate::torture::siege::{Siege, require_work};
use crate::torture::trouble::{Result, failed};

const DISK_MIB: u64 = 400;

pub(super) fn run(round: &mut Round<'_>) -> Result<()> {
    let file_system = round.random.pick(&[FileSystem::Ext4, FileSystem::Xfs]);
    let disk = Disk::make(&round.dir, file_system, DISK_MIB)?;
    let (per_second, bytes_per_second) =
        round
            .random
            .pick(&[(20, 4 << 20), (100, 1 << 20), (400, 8 << 20)]);
    let group =
        ControlGroup::slow_writes(&round.group, &disk.numbers()?, per_second, bytes_per_second)?;
    let style = Style {
        keys: 300,
        words_max: 200,
        batch_max: 20,
    };
    let mut siege = Siege::new(round, disk.mount.join("db"), "sync", 3, style);
    siege.create(&round.quire)?;
    let inside = round.quire.under(group.wrapper());
    for _ in 0..2 {
        let told = siege.told().writes;
        let mut server = inside.serve(&siege.database, &["--memory", "16MiB"])?;
        let lasts = round.random.millis(1_000, 2_500);
        siege.serve(&mut server, Allowed::Nothing, |server| {
            round.rest(lasts)?;
            server.kill()
        })?;
        round.tally.crashes += 1;
        if siege.told().writes == told {
            return failed(format!("no write was answered within {lasts:?}"));
        }
        siege.check(round, Promise::All)?;
    }
    require_work(round)
}
