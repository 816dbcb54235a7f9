//! Sends a bulk until each of its changes is settled: the sink has it, or refused it.

use crate::backoff;
use crate::batcher::Bulk;
use crate::change::Change;
use crate::dead_letters::DeadLetters;
use crate::error::{Error, Result};
use crate::sink::{Failure, Sink, Verdict};
use parking_lot::Mutex;
use quire_env::Env;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A wait is cut into parts of this length, to notice that the run was stopped.
const NAP: Duration = Duration::from_millis(50);

/// What the workers of a lane share.
pub(crate) struct Delivery<'a> {
    pub(crate) env: &'a dyn Env,
    pub(crate) name: &'a str,
    pub(crate) sink: &'a dyn Sink,
    pub(crate) dead_letters: &'a DeadLetters,
    pub(crate) dead_letters_max: u64,
    pub(crate) stop: &'a (dyn Fn() -> bool + Sync),
    /// Set when a worker failed: the others stop.
    pub(crate) failed: AtomicBool,
    pub(crate) tally: Tally,
    pub(crate) waiting_for: Mutex<Option<String>>,
}

/// What happened so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) retries: AtomicU64,
    pub(crate) rejections: AtomicU64,
    pub(crate) had: AtomicU64,
    pub(crate) dead_letters: AtomicU64,
    /// The sink has taken a change in this run.
    has_taken: AtomicBool,
}

/// Changes that a sink refuses, with the reasons.
type Refused<'c> = Vec<(&'c Change, String)>;

impl Delivery<'_> {
    /// Sends a bulk until it is settled.
    ///
    /// # Errors
    /// If the sink will take nothing, too much was refused, or the run was stopped.
    pub(crate) fn deliver(&self, bulk: &Bulk) -> Result<()> {
        let mut alone = Refused::new();
        self.settle(bulk.changes.iter().collect(), &mut alone)?;
        let (count, all) = (alone.len(), bulk.changes.len());
        match alone.pop() {
            // It may refuse whatever it is sent.
            Some((_, why)) if count == all && count > 1 && !self.has_taken() => {
                Err(self.refuses_all(why))
            }
            Some(last) => {
                alone.push(last);
                self.bury(&alone)
            }
            None => Ok(()),
        }
    }

    fn has_taken(&self) -> bool {
        self.tally.has_taken.load(Ordering::Relaxed)
    }

    /// Sends changes until they are settled, but for those that are refused though they are sent
    /// alone, which are added to `alone`.
    fn settle<'c>(&self, mut left: Vec<&'c Change>, alone: &mut Refused<'c>) -> Result<()> {
        let mut attempts = 0;
        while !left.is_empty() {
            let why = match self.sink.send(&left) {
                Ok(verdicts) => {
                    let (again, why) = self.sort(&left, verdicts)?;
                    if again.len() < left.len() {
                        attempts = 0;
                    }
                    left = again;
                    why
                }
                Err(Failure::Busy(why)) => {
                    self.tally.rejections.fetch_add(1, Ordering::Relaxed);
                    Some(why)
                }
                Err(Failure::NoAnswer(why)) => Some(why),
                Err(Failure::TooLarge(why)) => match &*left {
                    [one] => return self.bury(&[(*one, why)]),
                    many => return self.halve(many, alone),
                },
                Err(Failure::Refused(why)) => match &*left {
                    [one] => {
                        alone.push((one, why));
                        break;
                    }
                    many => return self.halve(many, alone),
                },
                Err(Failure::Final(why)) => return Err(self.refuses_all(why)),
            };
            if left.is_empty() {
                break;
            }
            attempts += 1;
            self.tally.retries.fetch_add(1, Ordering::Relaxed);
            *self.waiting_for.lock() = why;
            self.wait(attempts)?;
        }
        *self.waiting_for.lock() = None;
        Ok(())
    }

    /// Sorts a bulk by its verdicts. Returns what must be sent again, and why.
    fn sort<'c>(
        &self,
        bulk: &[&'c Change],
        verdicts: Vec<Verdict>,
    ) -> Result<(Vec<&'c Change>, Option<String>)> {
        assert_eq!(bulk.len(), verdicts.len(), "a sink has a verdict of each");
        let (mut again, mut why, mut refused) = (Vec::new(), None, Vec::new());
        for (change, verdict) in bulk.iter().zip(verdicts) {
            match verdict {
                Verdict::Done => self.tally.has_taken.store(true, Ordering::Relaxed),
                Verdict::Had => {
                    self.tally.has_taken.store(true, Ordering::Relaxed);
                    self.tally.had.fetch_add(1, Ordering::Relaxed);
                }
                Verdict::Again(reason) => {
                    again.push(*change);
                    why = Some(reason);
                }
                Verdict::Refused(reason) => refused.push((*change, reason)),
            }
        }
        if why.is_some() {
            self.tally.rejections.fetch_add(1, Ordering::Relaxed);
        }
        self.bury(&refused)?;
        Ok((again, why))
    }

    /// Sends a bulk that the sink does not take as a whole in halves.
    fn halve<'c>(&self, bulk: &[&'c Change], alone: &mut Refused<'c>) -> Result<()> {
        let (first, second) = bulk.split_at(bulk.len() / 2);
        self.settle(first.to_vec(), alone)?;
        self.settle(second.to_vec(), alone)
    }

    /// Puts refused changes aside, durably.
    fn bury(&self, refused: &[(&Change, String)]) -> Result<()> {
        let Some((_, last)) = refused.last() else {
            return Ok(());
        };
        self.dead_letters.append(refused)?;
        let count = refused.len() as u64;
        let before = self.tally.dead_letters.fetch_add(count, Ordering::Relaxed);
        if before + count > self.dead_letters_max {
            return Err(Error::DeadLetters {
                sink: self.name.to_owned(),
                max: self.dead_letters_max,
                reason: last.clone(),
                file: self.dead_letters.path().display().to_string(),
            });
        }
        Ok(())
    }

    /// Calls the sink until it answers.
    ///
    /// # Errors
    /// If another attempt would not help, or the run was stopped.
    pub(crate) fn until_answer<T>(
        &self,
        mut call: impl FnMut() -> Result<T, Failure>,
    ) -> Result<T> {
        let mut attempts = 0;
        loop {
            match call() {
                Ok(done) => {
                    *self.waiting_for.lock() = None;
                    return Ok(done);
                }
                Err(Failure::Busy(why) | Failure::NoAnswer(why)) => {
                    attempts += 1;
                    *self.waiting_for.lock() = Some(why);
                    self.wait(attempts)?;
                }
                Err(Failure::TooLarge(why) | Failure::Refused(why) | Failure::Final(why)) => {
                    return Err(self.refuses_all(why));
                }
            }
        }
    }

    fn refuses_all(&self, reason: String) -> Error {
        Error::Sink {
            sink: self.name.to_owned(),
            reason,
        }
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// If the run was stopped.
    pub(crate) fn wait(&self, attempts: u32) -> Result<()> {
        let mut random = [0; 2];
        self.env.random(&mut random);
        let wait = backoff::wait(attempts, u16::from_le_bytes(random));
        let end = self.env.monotonic() + wait;
        loop {
            if self.is_stopped() {
                return Err(Error::Stopped);
            }
            let left = end.saturating_sub(self.env.monotonic());
            if left.is_zero() {
                return Ok(());
            }
            self.env.sleep(left.min(NAP));
        }
    }

    /// Whether the lane must end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || (self.stop)()
    }
}
