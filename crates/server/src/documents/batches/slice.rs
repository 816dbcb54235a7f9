//! A part of a change by query, whose documents are done one batch after the other.

use std::sync::Arc;
use std::time::Duration;

use quiredb::query::Prepared;
use quiredb::{Collection, Condition, Found, Key, View, Write};
use tokio::time::Instant;

use super::manner::Manner;
use super::memory::BatchMemory;
use super::report::Report;
use crate::engine::Engine;
use crate::http::failure::Outcome;
use crate::search::by_key::page_by_key;
use crate::tasks::task::{Scanned, Task};

/// The longest pause that a rate can lead to, after one batch.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A pause is looked at again after this time: the work may be cancelled meanwhile.
const PAUSE_STEP: Duration = Duration::from_millis(100);

/// What is done with each document.
pub(crate) enum Act {
    Delete,
    /// Writes it again as it is, as a new version.
    Rewrite,
    /// Puts it into another collection.
    Copy {
        to: Collection,
        only_create: bool,
        /// What a document must be under at its destination, given the version that it has.
        versions: Option<fn(u64) -> Condition>,
    },
}

/// What is done to which documents.
pub(super) struct Job {
    pub(super) query: Prepared,
    pub(super) act: Act,
    pub(super) manner: Manner,
}

/// Documents that are done one batch after the other, and how far that is.
pub(super) struct Slice {
    pub(super) job: Arc<Job>,
    /// What is not done yet, the next one last.
    pub(super) left: Vec<Part>,
    /// The last key that was done in the next one.
    pub(super) after: Option<Key>,
    /// The most documents.
    pub(super) most: u64,
    pub(super) report: Report,
    /// What was read since the task was told.
    pub(super) scanned: Scanned,
}

/// The documents of a collection, or of one partition of it.
pub(super) struct Part {
    pub(super) collection: Collection,
    pub(super) view: View,
    pub(super) partition: Option<u32>,
}

impl Slice {
    /// Does all of it, or what comes before `task` is cancelled.
    ///
    /// # Errors
    /// Of the machine, and how much was done before.
    pub(super) async fn run(
        mut self,
        engine: &Engine,
        task: &Task,
        memory: &BatchMemory,
    ) -> Outcome<Report> {
        while !self.is_done() {
            if task.is_cancelled() {
                self.report.is_cancelled = true;
                break;
            }
            let mut turn = memory.turn(task).await;
            let begun = Instant::now();
            let before = self.report.total;
            loop {
                let room = turn.room();
                let batch = engine.write(move |_| {
                    let done = self.batch(&room);
                    (self, done)
                });
                let done;
                (self, done) = batch.await?;
                let wants = done.map_err(|failure| {
                    let total = self.report.total;
                    failure.because(&format!("; {total} documents were done before"))
                })?;
                match wants {
                    Some(record) if !task.is_cancelled() => turn.grow(record, task).await,
                    _ => break,
                }
            }
            drop(turn);
            task.add_scanned(std::mem::take(&mut self.scanned));
            let (count, took) = (self.report.total - before, begun.elapsed());
            let mut paused = Duration::ZERO;
            while !self.is_done() && !task.is_cancelled() {
                // The rate may have changed meanwhile.
                let left = pause(task.rate(), count, took).saturating_sub(paused);
                if left.is_zero() {
                    break;
                }
                let step = left.min(PAUSE_STEP);
                tokio::time::sleep(step).await;
                paused += step;
            }
            self.report.throttled += paused;
        }
        Ok(self.report)
    }

    fn is_done(&self) -> bool {
        let is_over = self.report.failed.is_some() || self.report.total >= self.most;
        is_over || self.left.is_empty()
    }

    /// Does the next documents. If there is no room for the first of them, nothing is done: gives
    /// the bytes of its record. Blocks.
    fn batch(&mut self, room: &dyn Fn(usize, u64) -> bool) -> Outcome<Option<u64>> {
        let Some(Part {
            collection,
            view,
            partition,
        }) = self.left.last()
        else {
            return Ok(None);
        };
        let Job { query, act, manner } = &*self.job;
        let most = self.most - self.report.total.min(self.most);
        let size = usize::try_from(most)
            .unwrap_or(usize::MAX)
            .min(manner.batch);
        let after = self.after.as_ref();
        let page = page_by_key(view, *partition, query, after, size, room, &|| false)?;
        if let Some(record) = page.wants.filter(|_| page.found.is_empty()) {
            return Ok(Some(record));
        }
        self.scanned.read += page.read;
        self.scanned.matched += page.found.len() as u64;
        let (page, is_last) = (page.found, page.is_last);
        if !page.is_empty() {
            let writes = page.iter().map(|found| act.write(found));
            let target = match act {
                Act::Copy { to, .. } => to,
                Act::Delete | Act::Rewrite => collection,
            };
            let results = target.batch().writes(writes).write();
            assert!(results.len() == page.len(), "each write has a result");
            for (found, result) in page.iter().zip(results) {
                self.report.total += 1;
                match result {
                    Ok(written) => self.report.count(&written),
                    Err(error) => {
                        let (index, proceeds) = (target.name(), manner.proceeds);
                        self.report.refuse(&error, index, found, proceeds)?;
                    }
                }
            }
            self.report.batches += 1;
            self.after = page.last().map(|found| found.key.clone());
        }
        if is_last {
            self.left.pop();
            self.after = None;
        }
        Ok(None)
    }
}

/// How long to wait after a batch of `count` documents that took a time, at a rate in documents a
/// second.
fn pause(rate: Option<f64>, count: u64, took: Duration) -> Duration {
    let Some(rate) = rate else {
        return Duration::ZERO;
    };
    let wanted = Duration::try_from_secs_f64(count as f64 / rate).unwrap_or(PAUSE_MAX);
    wanted.saturating_sub(took).min(PAUSE_MAX)
}

impl Act {
    /// The write that does it to one document.
    fn write(&self, found: &Found) -> Write {
        let key = found.key.clone();
        let put = || Write::put(key.clone(), found.document.clone()).expiring(found.expiry());
        match self {
            Act::Delete => Write::delete(found.key.clone()).if_version(found.version),
            Act::Rewrite => put().if_version(found.version),
            Act::Copy {
                only_create: true, ..
            } => put().if_absent(),
            Act::Copy { versions, .. } => {
                let condition = versions.map(|versions| versions(found.shown_version()));
                let condition = condition.unwrap_or_default();
                Write { condition, ..put() }
            }
        }
    }
}
