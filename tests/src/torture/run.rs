//! A run: rounds of all kinds in turn until the time is up, then a summary.

use super::kinds::{KINDS, Kind};
use super::leftovers;
use super::process::Quire;
use super::random::{Random, mixed};
use super::round::Round;
use super::simulated;
use super::tally::{Tally, head};
use super::trouble::{Result, Trouble, While, failed};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A run ends after this number of failures: each keeps its files.
const FAILURES_MAX: u64 = 10;

/// The settings of a run.
#[derive(Debug)]
pub struct Plan {
    /// The `quire` binary.
    pub quire: PathBuf,
    /// The directory to work in.
    pub dir: PathBuf,
    /// How long to run; rounds begin until then.
    pub time: Duration,
    /// The most rounds.
    pub rounds: u64,
    /// The kinds, by name; none means all.
    pub kinds: Vec<String>,
    /// The seed of the first round; those of later rounds follow from it.
    pub seed: u64,
}

/// The result of a run.
#[derive(Debug)]
pub struct Summary {
    seconds: f64,
    tallies: BTreeMap<&'static str, Tally>,
    /// Why kinds were skipped.
    skipped: BTreeMap<&'static str, String>,
    failures: Vec<Failure>,
    is_stopped: bool,
}

/// A round that failed.
#[derive(Debug, serde::Serialize)]
struct Failure {
    kind: &'static str,
    seed: u64,
    what: String,
    /// Its directory.
    kept: PathBuf,
}

/// Runs rounds until the time is up, or `stop` is set. Passes a line about each round to `tell`.
///
/// # Errors
/// The run can't begin: a kind is unknown, or its directory can't be made. Failures of a round are
/// in the summary.
pub fn run(plan: &Plan, stop: &AtomicBool, tell: &dyn Fn(&str)) -> Result<Summary> {
    let kinds = chosen(&plan.kinds)?;
    std::fs::create_dir_all(&plan.dir).during(plan.dir.display())?;
    let base = plan.dir.canonicalize().during(plan.dir.display())?;
    for removed in leftovers::remove(&base)? {
        tell(&format!("removed what an earlier run left: {removed}"));
    }
    let work = WorkDir(base.join(leftovers::own_name()));
    std::fs::create_dir_all(&work.0).during(work.0.display())?;
    let begun = Instant::now();
    let mut summary = Summary {
        seconds: 0.0,
        tallies: kinds
            .iter()
            .map(|kind| (kind.name, Tally::default()))
            .collect(),
        skipped: BTreeMap::new(),
        failures: Vec::new(),
        is_stopped: false,
    };
    let simulates = is_wanted(&plan.kinds, simulated::NAME);
    // Histories in the remaining time; or, if nothing else is selected, in all of the time.
    let over = AtomicBool::new(false);
    let limit = match kinds.is_empty() {
        true => plan.rounds,
        false => u64::MAX,
    };
    let histories = std::thread::scope(|threads| {
        let simulating =
            simulates.then(|| threads.spawn(|| simulated::work(plan.seed, limit, &base, &over)));
        rounds(plan, &kinds, &base, &work.0, stop, tell, &mut summary);
        while let Some(simulating) = &simulating
            && kinds.is_empty()
            && begun.elapsed() < plan.time
        {
            if stop.load(Ordering::Relaxed) || simulating.is_finished() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        over.store(true, Ordering::Relaxed);
        simulating.map(std::thread::ScopedJoinHandle::join)
    });
    if let Some(histories) = histories {
        let (tally, failures) = histories.unwrap_or_else(|_| {
            (
                Tally::default(),
                vec![(plan.seed, "its thread panicked".into())],
            )
        });
        summary.tallies.insert(simulated::NAME, tally);
        for (seed, what) in failures {
            let kept = simulated::kept(&base, seed);
            summary.failures.push(Failure {
                kind: simulated::NAME,
                seed,
                what,
                kept,
            });
        }
    }
    summary.is_stopped = stop.load(Ordering::Relaxed);
    summary.seconds = begun.elapsed().as_secs_f64();
    Ok(summary)
}

/// Rounds until it is time to end.
fn rounds(
    plan: &Plan,
    kinds: &[Kind],
    base: &Path,
    work: &Path,
    stop: &AtomicBool,
    tell: &dyn Fn(&str),
    summary: &mut Summary,
) {
    let begun = Instant::now();
    let mut seed = plan.seed;
    for (at, kind) in (0..plan.rounds).zip(kinds.iter().cycle()) {
        let is_over = begun.elapsed() >= plan.time && at > 0;
        if is_over
            || summary.failures.len() as u64 >= FAILURES_MAX
            || summary.skipped.len() == kinds.len()
        {
            break;
        }
        if !summary.skipped.contains_key(kind.name) {
            one(kind, seed, plan, base, work, stop, tell, summary);
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        // Short enough to type.
        seed = mixed(seed.wrapping_add(1)) >> 32;
    }
}

fn chosen(names: &[String]) -> Result<Vec<Kind>> {
    let mut known: Vec<_> = KINDS.iter().map(|kind| (kind.name, kind.about)).collect();
    known.push((simulated::NAME, simulated::ABOUT));
    for name in names {
        if known.iter().all(|(known, _)| known != name) {
            let known = known
                .iter()
                .map(|(name, about)| format!("\n  {name:<10} {about}"));
            return failed(format!(
                "there is no kind {name}; there are:{}",
                known.collect::<String>()
            ));
        }
    }
    let is_chosen = |kind: &Kind| is_wanted(names, kind.name);
    Ok(KINDS.into_iter().filter(is_chosen).collect())
}

fn is_wanted(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|wanted| wanted == name)
}

/// Runs one round, and notes its result.
#[expect(clippy::too_many_arguments, reason = "all of a run, taken apart")]
fn one(
    kind: &Kind,
    seed: u64,
    plan: &Plan,
    base: &Path,
    work: &Path,
    stop: &AtomicBool,
    tell: &dyn Fn(&str),
    summary: &mut Summary,
) {
    let begun = Instant::now();
    let dir = work.join(format!("{}-{seed}", kind.name));
    let mut round = Round {
        random: Random::new(seed),
        group: format!("{}-{}-{seed}", leftovers::own_name(), kind.name),
        quire: Quire::new(&plan.quire, dir.join("messages")),
        dir,
        tally: Tally::default(),
        stop,
    };
    let result = std::fs::create_dir_all(&round.dir)
        .during(round.dir.display())
        .and_then(|()| (kind.run)(&mut round))
        .and_then(|()| round.quire.check_messages());
    let seconds = begun.elapsed().as_secs_f64();
    match result {
        Err(Trouble::Stopped) => return,
        // A request that was under way at a stop may have failed by it.
        Err(_) if stop.load(Ordering::Relaxed) => return,
        Err(Trouble::Skipped(why)) => {
            tell(&format!("{:<8} skipped: {why}", kind.name));
            round.tally.skipped = 1;
            summary.skipped.insert(kind.name, why);
        }
        Err(Trouble::Failed(what)) => {
            round.tally.rounds = 1;
            round.tally.failures = 1;
            let kept = base.join(format!("failed-{}-{seed}", kind.name));
            let _ = std::fs::remove_dir_all(&kept);
            let _ = std::fs::rename(&round.dir, &kept);
            let _ = std::fs::write(
                kept.join("failure"),
                format!("{} --seed {seed}: {what}\n", kind.name),
            );
            tell(&format!(
                "{:<8} seed {seed} FAILED after {seconds:.1} s: {what}",
                kind.name
            ));
            summary.failures.push(Failure {
                kind: kind.name,
                seed,
                what,
                kept,
            });
        }
        Ok(()) => {
            round.tally.rounds = 1;
            let Tally {
                crashes,
                faults,
                recoveries,
                operations,
                ..
            } = round.tally;
            tell(&format!(
                "{:<8} seed {seed}: {seconds:.1} s, {crashes} crashes, {faults} faults, \
                 {recoveries} recoveries, {operations} writes checked",
                kind.name
            ));
        }
    }
    if let Some(tally) = summary.tallies.get_mut(kind.name) {
        *tally += round.tally;
    }
    let _ = std::fs::remove_dir_all(&round.dir);
}

/// The directory of a run, cleaned up and removed at its end.
struct WorkDir(PathBuf);

impl Drop for WorkDir {
    fn drop(&mut self) {
        leftovers::take_down(&self.0);
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Summary {
    /// Whether nothing failed.
    pub fn is_clean(&self) -> bool {
        self.failures.is_empty()
    }

    /// Why kinds were skipped, by kind.
    pub fn skipped(&self) -> &BTreeMap<&'static str, String> {
        &self.skipped
    }

    fn total(&self) -> Tally {
        let mut total = Tally::default();
        for tally in self.tallies.values() {
            total += *tally;
        }
        total
    }

    /// The text for people: a table, what was skipped, and how to repeat what failed.
    pub fn text(&self) -> String {
        let mut lines = vec![head()];
        lines.extend(self.tallies.iter().map(|(name, tally)| tally.row(name)));
        lines.push(self.total().row("total"));
        for (kind, why) in &self.skipped {
            lines.push(format!("{kind} was skipped: {why}"));
        }
        for failure in &self.failures {
            lines.push(format!("{} FAILED: {}", failure.kind, failure.what));
            lines.push(format!(
                "  its files: {}; again: make torture KIND={} SEED={} ROUNDS=1",
                failure.kept.display(),
                failure.kind,
                failure.seed
            ));
        }
        let verdict = match (self.is_clean(), self.is_stopped) {
            (true, false) => "clean",
            (true, true) => "clean until it was stopped",
            (false, _) => "FAILED",
        };
        lines.push(format!("{verdict} after {:.0} s", self.seconds));
        lines.join("\n")
    }

    /// The JSON for programs.
    pub fn json(&self) -> serde_json::Value {
        json!({
            "clean": self.is_clean(),
            "stopped": self.is_stopped,
            "seconds": self.seconds,
            "total": self.total(),
            "kinds": self.tallies,
            "skipped": self.skipped,
            "failures": self.failures,
        })
    }
}
