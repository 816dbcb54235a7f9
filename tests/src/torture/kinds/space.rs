//! Space: what was overwritten gives its room back within a minute while the database is served, to
//! twice what is live and 64 MiB, without a command.

use crate::torture::client::Style;
use crate::torture::process::text_of;
use crate::torture::round::Round;
use crate::torture::siege::{Siege, require_work};
use crate::torture::trouble::{Result, While, failed};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of the documents that are written, most of which are overwritten soon.
const WRITTEN_BYTES: u64 = 200 << 20;

const BESIDE_BYTES: u64 = 64 << 20;

/// The promise is a minute; the rest is for a machine that has other work.
const WAIT_MAX: Duration = Duration::from_secs(120);

pub(super) fn run(round: &mut Round<'_>) -> Result<()> {
    let style = Style {
        keys: round.random.pick(&[20, 200, 2_000]),
        words_max: 400,
        batch_max: round.random.pick(&[30, 300]),
    };
    let mut siege = Siege::new(round, round.dir.join("db"), "none", 0, style);
    siege.create(&round.quire)?;
    let contents = siege.load_whole(round, &["--memory", "64MiB"], WRITTEN_BYTES)?;
    let database = text_of(&siege.database)?;
    let live_bytes = round.quire.ok(&["scan", database, "docs"])?.len() as u64;
    let bound = 2 * live_bytes + BESIDE_BYTES;
    let mut server = round.quire.serve(&siege.database, &[])?;
    // A collection is opened, and gives room back, from when it is first used.
    let url = format!("http://{}", server.address);
    round.quire.ok(&["count", &url, "docs"])?;
    let begun = Instant::now();
    loop {
        let taken = taken_bytes(&siege.database)?;
        if taken <= bound {
            break;
        }
        if begun.elapsed() > WAIT_MAX {
            return failed(format!(
                "{WAIT_MAX:?} after the last write {taken} bytes are taken, of {live_bytes} live"
            ));
        }
        round.rest(Duration::from_millis(500))?;
    }
    server.stop()?;
    let (found, status) = siege.scan(&round.quire)?;
    if !status.success() || found != contents {
        return failed("what gave its room back has other documents");
    }
    round.tally.recoveries += 1;
    require_work(round)
}

/// Bytes that the system has allocated below a directory, reserved room included. Files come and go
/// meanwhile.
fn taken_bytes(dir: &Path) -> Result<u64> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        entries => entries.during("list a directory")?,
    };
    let mut bytes = 0;
    for entry in entries {
        let entry = entry.during("list a directory")?;
        bytes += match entry.metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            Ok(metadata) if metadata.is_dir() => taken_bytes(&entry.path())?,
            metadata => metadata.during("look at a file")?.blocks() * 512,
        };
    }
    Ok(bytes)
}
