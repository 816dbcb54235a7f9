//! Runs many seeds, and keeps what fails.

use super::generate::{Profile, generate};
use super::history::History;
use super::reduce::reduce;
use super::run::{Failure, RunStats, run};
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The seeds in `QUIRE_SEEDS=FROM..TO`, or these.
///
/// # Panics
/// If the variable is not of this form.
pub fn seeds_wanted(otherwise: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var("QUIRE_SEEDS") else {
        return otherwise;
    };
    let range = text.split_once("..").and_then(|(from, to)| {
        let (from, to) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        Some(from..to)
    });
    range.unwrap_or_else(|| panic!("QUIRE_SEEDS={text}: expected FROM..TO, such as 0..10000"))
}

/// Runs the histories of these seeds, one per core at a time, and returns the totals.
///
/// # Panics
/// If one fails. It is then reduced, kept as `tests/histories/HASH.txt`, and shown.
pub fn check_seeds(seeds: Range<u64>, profile: Profile) -> RunStats {
    let (next, end) = (AtomicU64::new(seeds.start), seeds.end);
    let found: Mutex<(RunStats, Option<u64>)> = Mutex::default();
    let work = || {
        let mut stats = RunStats::default();
        let mut failed = None;
        while failed.is_none() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                break;
            }
            match run(&generate(seed, profile)) {
                Ok(done) => stats += done,
                Err(_) => failed = Some(seed),
            }
        }
        if failed.is_some() {
            next.store(end, Ordering::Relaxed);
        }
        let mut found = found.lock().unwrap();
        found.0 += stats;
        found.1 = found.1.into_iter().chain(failed).min();
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let (stats, failed) = found.into_inner().unwrap();
    if let Some(seed) = failed {
        panic!("{}", keep(seed, profile));
    }
    stats
}

/// Reduces a history that fails, keeps it, and prints where.
fn keep(seed: u64, profile: Profile) -> String {
    let history = generate(seed, profile);
    let Err(failure) = run(&history) else {
        return format!("seed {seed} of {profile} failed, and does not fail again");
    };
    // A failure in another place is another bug.
    let same = |history: &History| run(history).is_err_and(|other| other.place == failure.place);
    let short = reduce(&history, same);
    let failure = run(&short).err().unwrap_or(failure);
    let script = script(&short, &failure, seed, profile);
    let mut hasher = DefaultHasher::new();
    short.to_string().hash(&mut hasher);
    let name = format!("{:08x}.txt", hasher.finish() as u32);
    let path = histories().join(&name);
    let kept = match std::fs::write(&path, &script) {
        Ok(()) => format!("kept as {}", path.display()),
        Err(error) => format!("not kept as {}: {error}", path.display()),
    };
    format!(
        "seed {seed} of {profile} fails; reduced, {kept}; again: \
         QUIRE_HISTORY={name} cargo test -p quire-tests --test it histories::kept\n\n{script}"
    )
}

fn script(short: &History, failure: &Failure, seed: u64, profile: Profile) -> String {
    let mut script = format!("# Seed {seed} of {profile}, reduced. It failed at ");
    for (index, line) in failure.to_string().lines().take(20).enumerate() {
        let line: String = line.chars().take(300).collect();
        let _ = writeln!(script, "{}{line}", if index > 0 { "# " } else { "" });
    }
    script + &short.to_string()
}

/// Histories that failed once, by file name; below `short` those for
/// [`exhaustive`](super::exhaustive) runs. `QUIRE_HISTORY`, if set, selects one.
///
/// # Panics
/// If one can't be read.
pub fn kept_histories(below: &str) -> Vec<(String, History)> {
    let wanted = std::env::var("QUIRE_HISTORY").ok();
    let dir = histories().join(below);
    let mut histories = Vec::new();
    for entry in
        std::fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
    {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let wanted = wanted.as_ref().is_none_or(|wanted| *wanted == name);
        if !wanted || path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        match text.parse() {
            Ok(history) => histories.push((name, history)),
            Err(error) => panic!("{}: {error}", path.display()),
        }
    }
    histories.sort_by(|(one, _), (other, _)| one.cmp(other));
    histories
}

fn histories() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("histories")
}
