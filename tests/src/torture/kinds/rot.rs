//! Bit rot on disk: either `quire verify` finds it, or all answers are right; a damaged answer is
//! never given.

use super::any_style;
use crate::http::Connection;
use crate::torture::book::Contents;
use crate::torture::client::held;
use crate::torture::process::{Server, text_of};
use crate::torture::random::Random;
use crate::torture::round::Round;
use crate::torture::siege::{Siege, require_work};
use crate::torture::trouble::{Result, Trouble, While, failed};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const FLIPS: u32 = 8;

/// Documents loaded, so that there are table files beside the log.
const LOADED_BYTES: u64 = 6 << 20;

pub(super) fn run(round: &mut Round<'_>) -> Result<()> {
    let style = any_style(&mut round.random);
    let mut siege = Siege::new(round, round.dir.join("db"), "none", 0, style);
    siege.create(&round.quire)?;
    let database = siege.database.clone();
    let contents = siege.load_whole(round, &["--memory", "16MiB"], LOADED_BYTES)?;
    siege.database = round.dir.join("rotten");
    for _ in 0..FLIPS {
        let _ = std::fs::remove_dir_all(&siege.database);
        let files = copy(&database, &siege.database)?;
        let flipped = flip(&mut round.random, &files)?;
        round.tally.faults += 1;
        judge(round, &siege, &contents).map_err(|error| match error {
            Trouble::Failed(what) => Trouble::Failed(format!("{flipped}: {what}")),
            other => other,
        })?;
        round.tally.recoveries += 1;
        round.rest(std::time::Duration::ZERO)?;
    }
    require_work(round)
}

/// Reads everything in a database with a flipped bit, in every way.
fn judge(round: &mut Round<'_>, siege: &Siege, contents: &Contents) -> Result<()> {
    let verified = round
        .quire
        .run(&["verify", text_of(&siege.database)?, "--json"])?;
    // If the database is reported as whole, every answer must be right; otherwise none may be
    // wrong.
    let is_whole = verified.status.success();
    let (found, status) = siege.scan(&round.quire)?;
    if let Some((key, held)) = found
        .iter()
        .find(|(key, held)| contents.get(*key) != Some(held))
    {
        return failed(format!("a scan gave {key} as {held:?}"));
    }
    if status.success() && found.len() < contents.len() {
        return failed("a scan left documents out and did not say so");
    }
    if is_whole && !status.success() {
        return failed(format!(
            "verify found nothing, and a scan fails: {}",
            round.quire.last_words()
        ));
    }
    let Some(server) = round.quire.try_serve(&siege.database, &[])? else {
        return match is_whole {
            true => failed("verify found nothing, and yet it is not served"),
            false => Ok(()),
        };
    };
    read_all(round, &server, contents, is_whole)
}

/// Gets documents; each answer is right, or an error.
fn read_all(
    round: &mut Round<'_>,
    server: &Server,
    contents: &Contents,
    is_whole: bool,
) -> Result<()> {
    let mut connection = Connection::open(server.address).during("connect to the server")?;
    for (key, expected) in contents.iter().step_by(1 + contents.len() / 500) {
        let path = format!("/docs/_doc/{key}");
        let (status, answer) = connection.request("GET", &path, b"").during(&path)?;
        let answer = serde_json::from_slice(&answer).during(&path)?;
        round.tally.reads += 1;
        match status {
            200 if held(key, &answer)? == Some(*expected) => {}
            500..=599 if !is_whole => {}
            _ => {
                return failed(format!(
                    "{key} was {expected:?}, answered with {status} {answer}"
                ));
            }
        }
    }
    Ok(())
}

/// Copies a directory, and returns the files of the copy, in order.
pub(super) fn copy(from: &Path, to: &Path) -> Result<Vec<PathBuf>> {
    std::fs::create_dir(to).during(to.display())?;
    let entries = std::fs::read_dir(from).during(from.display())?;
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    let mut files = Vec::new();
    for name in names {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            files.extend(copy(&from, &to)?);
        } else {
            std::fs::copy(&from, &to).during(from.display())?;
            files.push(to);
        }
    }
    Ok(files)
}

/// Flips one bit in one of the files, small ones as likely as large ones. Returns which.
pub(super) fn flip(random: &mut Random, files: &[PathBuf]) -> Result<String> {
    let length = |path: &PathBuf| path.metadata().map_or(0, |metadata| metadata.len());
    let files: Vec<_> = files.iter().filter(|path| length(path) > 0).collect();
    let path = random.pick(&files);
    // The first and the last bytes say what the rest is, so they are chosen more often.
    let length = length(path);
    let offset = match random.below(4) {
        0 => random.below(length.min(64)),
        1 => length - 1 - random.below(length.min(64)),
        _ => random.below(length),
    };
    flip_at(path, offset, random.below(8))
}

/// Flips this bit of this byte. Returns which.
pub(super) fn flip_at(path: &Path, offset: u64, bit: u64) -> Result<String> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .during(path.display())?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset)
        .during(path.display())?;
    byte[0] ^= 1 << bit;
    file.write_all_at(&byte, offset).during(path.display())?;
    Ok(format!(
        "bit {bit} of byte {offset} of {} flipped",
        path.display()
    ))
}
