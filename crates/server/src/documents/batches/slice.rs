//! A part of a change by query, whose documents are done one batch after the other.

use std::sync::Arc;
use std::time::Duration;

use quiredb::query::Prepared;
use quiredb::{Collection, Key, View};
use tokio::time::Instant;

use super::act::{Act, Target};
use super::manner::Manner;
use super::memory::{BatchMemory, Turn};
use super::places::Places;
use super::report::Report;
use crate::engine::Engine;
use crate::http::failure::{Failure, Outcome};
use crate::search::by_key::{PageByKey, page_by_key};
use crate::tasks::registry::Running;

/// The longest pause that a rate can lead to, after one batch.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A pause is looked at again after this time: the work may be cancelled meanwhile.
const PAUSE_STEP: Duration = Duration::from_millis(100);

/// What is done to which documents.
pub(super) struct Job {
    pub(super) query: Prepared,
    /// How many documents it is about.
    pub(super) count: Prepared,
    pub(super) act: Act,
    pub(super) manner: Manner,
}

/// Documents that are done one batch after the other, and how far that is.
pub(super) struct Slice {
    pub(super) job: Arc<Job>,
    /// What is not done yet, the next one last.
    pub(super) left: Vec<Part>,
    /// The most documents.
    pub(super) most: u64,
    pub(super) report: Report,
}

/// Documents that are done in one order.
pub(super) enum Part {
    /// Those of a plain collection, or of one partition of it, in the order of their keys.
    Keys {
        collection: Collection,
        view: View,
        /// The last key that was done.
        after: Option<Key>,
    },
    /// Those that are found first.
    Places(Box<Places>),
}

impl Part {
    /// What is read.
    pub(super) fn views(&self) -> &[View] {
        match self {
            Part::Keys { view, .. } => std::slice::from_ref(view),
            Part::Places(places) => &places.views,
        }
    }

    /// The collection whose documents are changed in place.
    fn target(&self) -> Option<Target> {
        match self {
            Part::Keys { collection, .. } => Some(Target::Plain(collection.clone())),
            Part::Places(places) => places.of.clone().map(Target::Wide),
        }
    }

    /// The next documents, as of [`page_by_key`]. Those that it gives are done. Blocks.
    fn page(
        &mut self,
        query: &Prepared,
        size: usize,
        has_room: &dyn Fn(usize, u64) -> bool,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Outcome<PageByKey> {
        match self {
            Part::Keys { view, after, .. } => {
                let page = page_by_key(view, query, after.as_ref(), size, has_room, stop)?;
                if let Some(last) = page.found.last() {
                    *after = Some(last.key.clone());
                }
                Ok(page)
            }
            Part::Places(places) => places.page(size, has_room, stop),
        }
    }
}

impl Slice {
    /// Does all of it, or what comes before `task` is cancelled.
    ///
    /// # Errors
    /// Of the machine, and how much was done before.
    pub(super) async fn run(
        mut self,
        engine: &Engine,
        task: &Running,
        memory: &BatchMemory,
    ) -> Outcome<Report> {
        task.set_progress(self.report.progress.clone());
        while !self.is_done() {
            let begun = Instant::now();
            let before = self.report.done;
            let batch = self.batch(engine, task, memory).await;
            let is_cancelled = batch.map_err(|failure| {
                let done = self.report.done;
                failure.because(&format!("; {done} documents were done before"))
            })?;
            if is_cancelled {
                self.report.is_cancelled = true;
                break;
            }
            task.set_progress(self.report.progress.clone());
            let (count, took) = (self.report.done - before, begun.elapsed());
            let mut paused = Duration::ZERO;
            while !self.is_done() && !task.is_cancelled() {
                // The rate may have changed meanwhile.
                let left = pause(task.rate(), count, took).saturating_sub(paused);
                if left.is_zero() {
                    break;
                }
                memory.rest();
                let step = left.min(PAUSE_STEP);
                tokio::time::sleep(step).await;
                paused += step;
            }
            self.report.progress.throttled += paused;
            task.set_progress(self.report.progress.clone());
        }
        Ok(self.report)
    }

    fn is_done(&self) -> bool {
        let is_over = self.report.failed.is_some() || self.report.done >= self.most;
        is_over || self.left.is_empty()
    }

    /// Does the next documents. True if `task` was cancelled before they were written.
    async fn batch(
        &mut self,
        engine: &Engine,
        task: &Running,
        memory: &BatchMemory,
    ) -> Outcome<bool> {
        let views = self.left.last().map_or(&[][..], Part::views);
        let views = Arc::new(views.to_vec());
        task.set_views(&views);
        let mut turn = memory.turn(task).await;
        let target = match (&self.job.act, self.left.last()) {
            (Act::Copy { to, .. }, _) => Some(to.clone()),
            (_, part) => part.and_then(Part::target),
        };
        let what = "frozen documents are copied alone";
        let target = target.ok_or_else(|| Failure::internal(what))?;
        let (found, is_last) = loop {
            let Some(page) = self.page(engine, task, &turn).await? else {
                return Ok(true);
            };
            match page.wants.filter(|_| page.found.is_empty()) {
                Some(record) => turn.grow(record, task).await,
                None => break (page.found, page.is_last),
            }
        };
        // What is read to its end is not held while writes wait for memory.
        let _views = (!is_last).then_some(views);
        if found.is_empty() {
            return Ok(false);
        }
        let Some(thread) = turn_of(task, || engine.write_turn()).await else {
            return Ok(true);
        };
        let job = Arc::clone(&self.job);
        let name = target.name().to_owned();
        let written = engine.write_in(thread, move |_| {
            let results = target.write(&job.act, &found)?;
            assert!(results.len() == found.len(), "each write has a result");
            Ok((found, results))
        });
        let (found, results) = written.await??;
        for (found, result) in found.iter().zip(results) {
            self.report.did_one();
            match result {
                Ok(written) => self.report.count(&written),
                Err(error) => {
                    let proceeds = self.job.manner.proceeds;
                    self.report.refuse(&error, &name, found, proceeds)?;
                }
            }
        }
        self.report.progress.batches += 1;
        Ok(false)
    }

    /// Reads the next documents; none if `task` is cancelled. If there is no memory for the first
    /// of them, nothing is read.
    async fn page(
        &mut self,
        engine: &Engine,
        task: &Running,
        turn: &Turn<'_>,
    ) -> Outcome<Option<PageByKey>> {
        let Some(thread) = turn_of(task, || engine.search_turn()).await else {
            return Ok(None);
        };
        let Some(mut part) = self.left.pop() else {
            return Err(Failure::internal("what is done is not read"));
        };
        let wanted = self.most - self.report.done.min(self.most);
        let size = usize::try_from(wanted).unwrap_or(usize::MAX);
        let size = size.min(self.job.manner.batch);
        let (job, room, ends) = (Arc::clone(&self.job), turn.room(), Arc::clone(task.task()));
        let read = engine.search_in(thread, move |_, stop| {
            let page = part.page(&job.query, size, &room, &|| stop() || ends.is_cancelled());
            (part, page)
        });
        let (part, page) = read.await?;
        let page = match page {
            Err(_) if task.is_cancelled() => return Ok(None),
            page => page?,
        };
        task.add_scanned(page.scanned());
        if !page.is_last {
            self.left.push(part);
        }
        Ok(Some(page))
    }
}

/// Waits for a turn that `take` gives, until `task` is cancelled. That others are in turn is no
/// reason to end half-way.
async fn turn_of<T, F: Future<Output = Outcome<T>>>(
    task: &Running,
    take: impl Fn() -> F,
) -> Option<T> {
    let taken = async {
        loop {
            match take().await {
                Ok(turn) => break turn,
                Err(_) => tokio::time::sleep(PAUSE_STEP).await,
            }
        }
    };
    let cancelled = async {
        while !task.is_cancelled() {
            tokio::time::sleep(PAUSE_STEP).await;
        }
    };
    tokio::select! {
        biased;
        () = cancelled => None,
        turn = taken => Some(turn),
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
