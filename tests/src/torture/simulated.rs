//! Simulated histories with new seeds, as long as there is time. See [`sim`](crate::sim).

use super::tally::Tally;
use crate::sim::{History, Profile, generate, reduce, run};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Its name among the kinds.
pub(crate) const NAME: &str = "simulated";

/// What it does, in a few words.
pub(crate) const ABOUT: &str = "histories on the simulated machine, beside all others";

/// It ends after this number of failures: each takes long to reduce.
const FAILURES_MAX: usize = 3;

/// Runs the histories of `seed` and of those that follow, until there are enough of them or the
/// time is over. Returns the totals, and the seeds that failed with their errors; their reduced
/// histories are [`kept`].
pub(crate) fn work(
    seed: u64,
    histories_max: u64,
    base: &Path,
    over: &AtomicBool,
) -> (Tally, Vec<(u64, String)>) {
    let (mut tally, mut failures) = (Tally::default(), Vec::new());
    for seed in (seed..=u64::MAX).take(usize::try_from(histories_max).unwrap_or(usize::MAX)) {
        if over.load(Ordering::Relaxed) || failures.len() >= FAILURES_MAX {
            break;
        }
        let profile = profile_of(seed);
        let history = generate(seed, profile);
        tally.rounds += 1;
        match run(&history) {
            Ok(done) => {
                tally += Tally {
                    histories: done.histories,
                    crashes: done.crashes,
                    faults: done.faults,
                    recoveries: done.recoveries,
                    operations: done.operations,
                    bytes: done.bytes_written,
                    ..Tally::default()
                };
            }
            Err(failure) => {
                tally.failures += 1;
                // A failure in another place is another bug.
                let same = |history: &History| {
                    run(history).is_err_and(|other| other.place == failure.place)
                };
                let short = reduce(&history, same);
                let kept = kept(base, seed);
                let head = format!(
                    "# Seed {seed} of {profile}: {}\n",
                    failure.to_string().replace('\n', "\n# ")
                );
                let _ = std::fs::create_dir_all(&kept);
                let _ = std::fs::write(kept.join("history.txt"), format!("{head}{short}"));
                failures.push((seed, format!("{profile}: {failure}")));
            }
        }
    }
    (tally, failures)
}

/// Seeds take turns among the profiles.
fn profile_of(seed: u64) -> Profile {
    Profile::ALL[(seed % Profile::ALL.len() as u64) as usize]
}

/// The file of the history of a seed that failed.
pub(crate) fn kept(base: &Path, seed: u64) -> PathBuf {
    base.join(format!("failed-{NAME}-{seed}"))
}
