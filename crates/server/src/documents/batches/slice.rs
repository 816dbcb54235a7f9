//! A part of a change by query, whose documents are done one batch after the other.

use std::sync::Arc;
use std::time::Duration;

use quiredb::query::Prepared;
use quiredb::{Collection, Condition, Document, Found, Key, ValueRef, View, Write};
use tokio::time::Instant;

use super::manner::Manner;
use super::memory::BatchMemory;
use super::places::Places;
use super::report::Report;
use crate::engine::Engine;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::Fields;
use crate::search::by_key::{PageByKey, page_by_key};
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
        /// What of a document is copied.
        fields: Fields,
    },
}

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
    /// What was read since the task was told.
    pub(super) scanned: Scanned,
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
    /// Those that are copied from elsewhere.
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
    fn collection(&self) -> Option<&Collection> {
        match self {
            Part::Keys { collection, .. } => Some(collection),
            Part::Places(_) => None,
        }
    }

    /// The next documents, as of [`page_by_key`]. Those that it gives are done. Blocks.
    fn page(
        &mut self,
        query: &Prepared,
        size: usize,
        has_room: &dyn Fn(usize, u64) -> bool,
    ) -> Outcome<PageByKey> {
        match self {
            Part::Keys { view, after, .. } => {
                let page = page_by_key(view, query, after.as_ref(), size, has_room, &|| false)?;
                if let Some(last) = page.found.last() {
                    *after = Some(last.key.clone());
                }
                Ok(page)
            }
            Part::Places(places) => places.page(size, has_room),
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
        task: &Task,
        memory: &BatchMemory,
    ) -> Outcome<Report> {
        task.set_progress(self.report.progress.clone());
        while !self.is_done() {
            if task.is_cancelled() {
                self.report.is_cancelled = true;
                break;
            }
            let mut turn = memory.turn(task).await;
            let begun = Instant::now();
            let before = self.report.done;
            loop {
                let room = turn.room();
                let batch = engine.write(move |_| {
                    let done = self.batch(&room);
                    (self, done)
                });
                let done;
                (self, done) = batch.await?;
                let wants = done.map_err(|failure| {
                    let done = self.report.done;
                    failure.because(&format!("; {done} documents were done before"))
                })?;
                match wants {
                    Some(record) if !task.is_cancelled() => turn.grow(record, task).await,
                    _ => break,
                }
            }
            drop(turn);
            task.add_scanned(std::mem::take(&mut self.scanned));
            task.set_progress(self.report.progress.clone());
            let (count, took) = (self.report.done - before, begun.elapsed());
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
            self.report.progress.throttled += paused;
            task.set_progress(self.report.progress.clone());
        }
        Ok(self.report)
    }

    fn is_done(&self) -> bool {
        let is_over = self.report.failed.is_some() || self.report.done >= self.most;
        is_over || self.left.is_empty()
    }

    /// Does the next documents. If there is no room for the first of them, nothing is done: gives
    /// the bytes of its record. Blocks.
    fn batch(&mut self, room: &dyn Fn(usize, u64) -> bool) -> Outcome<Option<u64>> {
        let Slice {
            job,
            left,
            most,
            report,
            scanned,
        } = self;
        let Job {
            query, act, manner, ..
        } = &**job;
        let Some(part) = left.last_mut() else {
            return Ok(None);
        };
        let size = usize::try_from(*most - report.done.min(*most))
            .unwrap_or(usize::MAX)
            .min(manner.batch);
        let page = part.page(query, size, room)?;
        if let Some(record) = page.wants.filter(|_| page.found.is_empty()) {
            return Ok(Some(record));
        }
        scanned.read += page.read;
        scanned.matched += page.found.len() as u64;
        let (page, is_last) = (page.found, page.is_last);
        if !page.is_empty() {
            let writes: Vec<Write> = page
                .iter()
                .map(|found| act.write(found))
                .collect::<Outcome<_>>()?;
            let target = match act {
                Act::Copy { to, .. } => Some(to),
                Act::Delete | Act::Rewrite => part.collection(),
            };
            let target = target.ok_or_else(|| Failure::internal("only copies have places"))?;
            let results = target.batch().writes(writes).write();
            assert!(results.len() == page.len(), "each write has a result");
            for (found, result) in page.iter().zip(results) {
                report.did_one();
                match result {
                    Ok(written) => report.count(&written),
                    Err(error) => {
                        let (index, proceeds) = (target.name(), manner.proceeds);
                        report.refuse(&error, index, found, proceeds)?;
                    }
                }
            }
            report.progress.batches += 1;
        }
        if is_last {
            left.pop();
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
    ///
    /// # Errors
    /// If a part of the document is none.
    fn write(&self, found: &Found) -> Outcome<Write> {
        let key = found.key.clone();
        let put = |document| Write::put(key.clone(), document).expiring(found.expiry());
        Ok(match self {
            Act::Delete => Write::delete(key).if_version(found.version),
            Act::Rewrite => put(found.document.clone()).if_version(found.version),
            Act::Copy {
                only_create,
                versions,
                fields,
                ..
            } => {
                let write = put(part_of(&found.document, fields)?);
                match (only_create, versions) {
                    (true, _) => write.if_absent(),
                    (false, Some(versions)) => Write {
                        condition: versions(found.shown_version()),
                        ..write
                    },
                    (false, None) => write,
                }
            }
        })
    }
}

/// The fields of a document that are copied.
fn part_of(document: &Document, fields: &Fields) -> Outcome<Document> {
    if fields.is_all() {
        return Ok(document.clone());
    }
    let mut json = Vec::new();
    fields.write(ValueRef::Object(document.root()), "", &mut json);
    Document::from_json(&json).map_err(|error| Failure::illegal_argument(error.to_string()))
}
