//! One round: a seed, a directory of its own, and what it counts.

use super::process::Quire;
use super::random::Random;
use super::tally::Tally;
use super::trouble::{Result, Trouble};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Round<'a> {
    pub(crate) random: Random,
    /// Everything that the round makes is in here, except control groups. The directory of a failed
    /// round is kept.
    pub(crate) dir: PathBuf,
    /// The prefix of the names of its control groups.
    pub(crate) group: String,
    pub(crate) quire: Quire,
    pub(crate) tally: Tally,
    /// Set when the run is to stop.
    pub(crate) stop: &'a AtomicBool,
}

impl Round<'_> {
    /// Sleeps.
    ///
    /// # Errors
    /// The run is to stop.
    pub(crate) fn rest(&self, time: Duration) -> Result<()> {
        let begun = Instant::now();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Trouble::Stopped);
            }
            let left = time.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }
}
