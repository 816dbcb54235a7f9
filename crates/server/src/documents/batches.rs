//! The documents that match a query as of one moment, changed or copied batch by batch.
//!
//! # Invariants
//! 1. A document is changed on condition that it is still as it was found: one that was written
//!    meanwhile is a conflict.
//! 2. Each batch is one turn of a thread for writes. When the caller goes away, the work ends after
//!    the batch that is being done.
//! 3. A copy has the key and the bytes of the document.
//! 4. A slice has partitions of its own, so each document is in one slice, and slices together read
//!    each document once. As many batches are done at once as memory was reserved for.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use futures_util::future::try_join_all;
use quiredb::query::Prepared;
use quiredb::{Collection, Condition, Effect, ErrorKind, Found, Key, View, Write};
use serde_json::{Value as Json, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::ack::write_failure;
use crate::collections::coerce::Mappings;
use crate::collections::selection::Selection;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::buffers::Held;
use crate::http::failure::{Failure, Outcome};
use crate::http::params::Params;
use crate::search::by_key::page_by_key;
use crate::search::execute::failed;
use crate::search::state::SearchState;
use crate::search::{hold, hold_now, limit_to};
use crate::tasks::listed::id_of;
use crate::tasks::registry::Running;
use crate::tasks::task::Task;

/// Documents of a batch, unless the request says fewer.
const BATCH: usize = 1000;

/// Failures that an answer shows.
const SHOWN_MAX: usize = 100;

/// The most slices, and the most of them without a number.
const SLICES_MAX: u32 = 1024;
const SLICES_AUTO_MAX: u32 = 20;

/// The longest pause that a rate can lead to, after one batch.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A pause is looked at again after this time: the work may be cancelled meanwhile.
const PAUSE_STEP: Duration = Duration::from_millis(100);

/// What is done with each document.
pub(super) enum Act {
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

/// How the work is done.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// The most documents.
    pub(super) most: u64,
    /// Documents of a batch.
    pub(super) batch: usize,
    /// Whether conflicts are counted only, and do not end the work.
    pub(super) proceeds: bool,
    /// Documents a second.
    pub(super) rate: Option<f64>,
    /// Whether the caller waits for the end.
    pub(super) waits: bool,
    /// In how many parts it is done; none is one for each partition.
    pub(super) slices: Option<u32>,
}

impl Manner {
    /// Reads the parameters, and the members of the body, which are taken out.
    pub(super) fn of(params: &Params, body: &mut serde_json::Map<String, Json>) -> Outcome<Manner> {
        let in_body = |body: &mut serde_json::Map<String, Json>, name: &str| {
            body.remove(name).filter(|value| !value.is_null())
        };
        let conflicts = in_body(body, "conflicts");
        let conflicts = params
            .text("conflicts")
            .or(conflicts.as_ref().and_then(Json::as_str));
        let proceeds = match conflicts {
            None | Some("abort") => false,
            Some("proceed") => true,
            Some(other) => {
                return Err(Failure::illegal_argument(format!(
                    "conflicts may only be \"proceed\" or \"abort\" but was [{other}]"
                )));
            }
        };
        params.only(
            "refresh",
            &["", "true", "false"],
            "only [true] and [false] are allowed",
        )?;
        let most = match (params.number("max_docs")?, in_body(body, "max_docs")) {
            (Some(most), _) => most,
            (None, None) => u64::MAX,
            (None, Some(most)) => most.as_u64().ok_or_else(|| {
                Failure::illegal_argument("[max_docs] must be a whole number from 0 on")
            })?,
        };
        Ok(Manner {
            most,
            batch: match params.number::<usize>("scroll_size")? {
                Some(0) => return Err(no_batch("scroll_size")),
                size => size.unwrap_or(BATCH).min(BATCH),
            },
            proceeds,
            rate: rate(params)?,
            waits: params.flag("wait_for_completion")?.unwrap_or(true),
            slices: slices(params)?,
        })
    }

    /// Checks that it can be done to one slice of the documents, if that is what the query is
    /// about.
    ///
    /// # Errors
    /// 400 if it has slices itself.
    pub(super) fn check_slice(&self, is_of_slice: bool) -> Outcome<()> {
        match is_of_slice && self.slices != Some(1) {
            true => Err(Failure::validation(
                "can't specify both a [slice] of the documents and [slices]",
            )),
            false => Ok(()),
        }
    }
}

/// The documents of a batch, as a body says it; by default as parameters do.
///
/// # Errors
/// 400 if it is no positive number.
pub(super) fn batch(size: Option<&Json>, default: usize) -> Outcome<usize> {
    match size {
        None | Some(Json::Null) => Ok(default),
        Some(size) => match size.as_u64().filter(|size| *size > 0) {
            Some(size) => Ok(usize::try_from(size).unwrap_or(BATCH).min(BATCH)),
            None => Err(no_batch("size")),
        },
    }
}

fn no_batch(name: &str) -> Failure {
    Failure::illegal_argument(format!("[{name}] must be a positive number"))
}

/// `slices`: none for `auto`.
fn slices(params: &Params) -> Outcome<Option<u32>> {
    let text = match params.text("slices") {
        None => return Ok(Some(1)),
        Some("auto") => return Ok(None),
        Some(text) => text,
    };
    let number = text.parse().ok();
    match number.filter(|number| (1..=SLICES_MAX).contains(number)) {
        Some(number) => Ok(Some(number)),
        None => Err(Failure::illegal_argument(format!(
            "[slices] must be [auto] or a number from 1 to {SLICES_MAX}, not [{text}]"
        ))),
    }
}

/// Reserves the memory of a batch, and of one more for each core that slices may keep busy, where
/// that is free.
///
/// # Errors
/// As [`hold`].
pub(super) async fn hold_batches(state: &SearchState, manner: &Manner) -> Outcome<Vec<Held>> {
    let first = hold(&state.buffers, state.memory_timeout).await?;
    let cores = state.engine.database().env().cores();
    let slices = manner.slices.unwrap_or(SLICES_AUTO_MAX) as usize;
    let others = (1..cores.min(slices)).map_while(|_| hold_now(&state.buffers).ok());
    Ok([first].into_iter().chain(others).collect())
}

/// `requests_per_second`: none if it is -1.
pub(super) fn rate(params: &Params) -> Outcome<Option<f64>> {
    match params.number::<f64>("requests_per_second")? {
        None | Some(-1.0) => Ok(None),
        Some(rate) if rate.is_finite() && rate > 0.0 => Ok(Some(rate)),
        Some(rate) => Err(Failure::illegal_argument(format!(
            "[requests_per_second] must be a float greater than 0, or -1 to disable throttling; it \
             is [{rate}]"
        ))),
    }
}

/// What was done.
#[derive(Debug, Default)]
struct Report {
    total: u64,
    created: u64,
    updated: u64,
    deleted: u64,
    batches: u64,
    conflicts: u64,
    throttled: Duration,
    failures: Vec<Json>,
    /// Whether somebody cancelled it.
    is_cancelled: bool,
    /// The status of the first failure.
    failed: Option<StatusCode>,
    /// What each slice has counted, if there are several.
    slices: Vec<Json>,
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Report {
    /// What slices did together, each at `rate`.
    fn of_slices(slices: Vec<Report>, rate: Option<f64>) -> Report {
        let mut all = Report::default();
        for (number, slice) in slices.into_iter().enumerate() {
            let mut shown = slice.counts(rate);
            shown["slice_id"] = number.into();
            all.slices.push(shown);
            all.total += slice.total;
            all.created += slice.created;
            all.updated += slice.updated;
            all.deleted += slice.deleted;
            all.batches += slice.batches;
            all.conflicts += slice.conflicts;
            all.throttled += slice.throttled;
            let room = SHOWN_MAX - all.failures.len();
            all.failures.extend(slice.failures.into_iter().take(room));
            all.is_cancelled |= slice.is_cancelled;
            all.failed = all.failed.or(slice.failed);
        }
        all
    }

    /// The numbers, of work that was done at `rate`.
    fn counts(&self, rate: Option<f64>) -> Json {
        json!({
            "total": self.total,
            "created": self.created,
            "updated": self.updated,
            "deleted": self.deleted,
            "batches": self.batches,
            "version_conflicts": self.conflicts,
            "noops": 0,
            "retries": {"bulk": 0, "search": 0},
            "throttled_millis": millis(self.throttled),
            "requests_per_second": rate.unwrap_or(-1.0),
            "throttled_until_millis": 0,
        })
    }

    /// What a request that began at `begun` is answered.
    fn to_json(&self, begun: Instant, rate: Option<f64>) -> Json {
        let mut answer = self.counts(rate);
        answer["took"] = millis(begun.elapsed()).into();
        answer["timed_out"] = false.into();
        answer["failures"] = self.failures.as_slice().into();
        if !self.slices.is_empty() {
            answer["slices"] = self.slices.as_slice().into();
        }
        if self.is_cancelled {
            answer["canceled"] = "by user request".into();
        }
        answer
    }
}

/// The work, in slices that are done side by side.
pub(super) struct Work {
    slices: Vec<Slice>,
    manner: Manner,
    /// The memory of each batch that is done at once.
    held: Vec<Held>,
}

/// What is done to which documents.
struct Job {
    query: Prepared,
    act: Act,
    manner: Manner,
}

/// Documents that are done one batch after the other, and how far that is.
struct Slice {
    job: Arc<Job>,
    /// What is not done yet, the next one last.
    left: Vec<Part>,
    /// The last key that was done in the next one.
    after: Option<Key>,
    /// The most documents.
    most: u64,
    report: Report,
}

/// The documents of a collection, or of one partition of it.
struct Part {
    collection: Collection,
    view: View,
    partition: Option<u32>,
}

impl Work {
    /// The documents of `selection` that match `query` now. `held` is the memory of the batches
    /// that may be done at once, at least one. Blocks.
    pub(super) fn new(
        engine: &Engine,
        selection: &Selection,
        mut query: quiredb::query::Query,
        act: Act,
        manner: Manner,
        held: Vec<Held>,
    ) -> Outcome<Work> {
        assert!(!held.is_empty(), "a batch has memory");
        let filter = selection.searched(engine)?.1;
        let collections = selection.plain(engine)?;
        if let Act::Copy { to, .. } = &act
            && collections.iter().any(|from| from.name() == to.name())
        {
            return Err(Failure::validation(&format!(
                "reindex cannot write into an index its reading from [{}]",
                to.name()
            )));
        }
        limit_to(&mut query, filter, &Mappings::of(engine, &collections))?;
        let views = collections.iter().map(|collection| collection.view());
        let views: Vec<View> = views.collect::<Result<_, _>>().map_err(failed)?;
        let job = Arc::new(Job {
            query: query.prepare().map_err(|error| failed(error.into()))?,
            act,
            manner,
        });
        let partitions = views.iter().map(View::partition_count).max().unwrap_or(1);
        let count = manner.slices.unwrap_or(partitions.min(SLICES_AUTO_MAX));
        let filled = u64::from(count.min(partitions));
        if manner.slices.is_some() && manner.most < filled {
            return Err(Failure::validation(&format!(
                "[max_docs] is [{}] and must be at least [slices], which is [{count}]",
                manner.most
            )));
        }
        let slices = (0..count).map(|slice| {
            let parts = collections.iter().zip(&views);
            let parts = parts.flat_map(|(collection, view)| {
                let partitions = match count {
                    1 => vec![None],
                    _ => (slice..view.partition_count())
                        .step_by(count as usize)
                        .map(Some)
                        .collect(),
                };
                partitions.into_iter().map(|partition| Part {
                    collection: collection.clone(),
                    view: view.clone(),
                    partition,
                })
            });
            let mut left: Vec<Part> = parts.collect();
            left.reverse();
            Slice {
                job: Arc::clone(&job),
                left,
                after: None,
                most: share(manner.most, u64::from(slice), filled),
                report: Report::default(),
            }
        });
        Ok(Work {
            slices: slices.collect(),
            manner,
            held,
        })
    }

    /// Does all of it for a request that began at `begun`, and answers. Where the caller does not
    /// wait, the answer is the id of a task that goes on with it and keeps the result.
    ///
    /// # Errors
    /// Of the machine, and how much was done before.
    pub(super) async fn answer(
        self,
        engine: Engine,
        running: Arc<Running>,
        begun: Instant,
    ) -> Outcome<Answer> {
        if self.manner.waits {
            running.set_rate(self.manner.rate);
            let report = self.run(&engine, &running).await?;
            let status = report.failed.unwrap_or(StatusCode::OK);
            return Ok(Answer::value(
                status,
                &report.to_json(begun, running.rate()),
            ));
        }
        let task = running.background(running.action, engine.clock());
        let id = id_of(task.id);
        // Before the caller knows the task, and may change its rate.
        task.set_rate(self.manner.rate);
        tokio::spawn(async move {
            let outcome = match self.run(&engine, &task).await {
                Ok(report) => Ok(report.to_json(begun, task.rate())),
                Err(failure) => Err(failure.cause()),
            };
            task.finish(outcome, engine.now());
        });
        Ok(Answer::ok(&json!({"task": id})))
    }

    /// Does all of it, or what comes before `task` is cancelled.
    ///
    /// # Errors
    /// Of the machine, and how much was done before.
    async fn run(mut self, engine: &Engine, task: &Running) -> Outcome<Report> {
        let at_once = Semaphore::new(self.held.len());
        if self.slices.len() == 1
            && let Some(only) = self.slices.pop()
        {
            return only.run(engine, task, &at_once).await;
        }
        let count = self.slices.len();
        let children = self.slices.iter();
        let children = children.map(|_| task.background(task.action, engine.clock()));
        let children: Vec<Running> = children.collect();
        for child in &children {
            child.set_rate(shared_rate(task.rate(), count));
        }
        let slices = self.slices.into_iter().zip(&children);
        let slices = slices.map(|(slice, child)| slice.run(engine, child, &at_once));
        let reports = try_join_all(slices).await?;
        Ok(Report::of_slices(reports, shared_rate(task.rate(), count)))
    }
}

/// What each of `count` slices may do of a rate.
pub(super) fn shared_rate(rate: Option<f64>, count: usize) -> Option<f64> {
    rate.map(|rate| rate / count as f64)
}

/// The part of a number of documents that one of `count` slices does.
fn share(most: u64, slice: u64, count: u64) -> u64 {
    match slice < count {
        true => most / count + u64::from(slice < most % count),
        false => 0,
    }
}

impl Slice {
    /// As [`Work::run`], each batch with a permit of `at_once`.
    async fn run(mut self, engine: &Engine, task: &Task, at_once: &Semaphore) -> Outcome<Report> {
        while !self.is_done() {
            if task.is_cancelled() {
                self.report.is_cancelled = true;
                break;
            }
            // The semaphore is never closed.
            let permit = at_once.acquire().await;
            let begun = Instant::now();
            let before = self.report.total;
            let batch = engine.write(move |_| {
                let done = self.batch();
                (self, done)
            });
            let done;
            (self, done) = batch.await?;
            drop(permit);
            done.map_err(|failure| {
                let total = self.report.total;
                failure.because(&format!("; {total} documents were done before"))
            })?;
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

    /// Does the next documents. Blocks.
    fn batch(&mut self) -> Outcome<()> {
        let Some(Part {
            collection,
            view,
            partition,
        }) = self.left.last()
        else {
            return Ok(());
        };
        let Job { query, act, manner } = &*self.job;
        let most = self.most - self.report.total.min(self.most);
        let size = usize::try_from(most)
            .unwrap_or(usize::MAX)
            .min(manner.batch);
        let after = self.after.as_ref();
        let page = page_by_key(view, *partition, query, after, size, &|_| true, &|| false)?;
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
                    Ok(written) => match written.effect {
                        Effect::Created => self.report.created += 1,
                        Effect::Deleted => self.report.deleted += 1,
                        _ => self.report.updated += 1,
                    },
                    Err(error) => self.report.refuse(&error, target.name(), found, *manner)?,
                }
            }
            self.report.batches += 1;
            self.after = page.last().map(|found| found.key.clone());
        }
        if is_last {
            self.left.pop();
            self.after = None;
        }
        Ok(())
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
        let put = || Write::put(key.clone(), found.document.clone());
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

impl Report {
    /// Counts a document that could not be written, and shows it if that ends the work.
    ///
    /// # Errors
    /// Of the machine, which are not about the document.
    fn refuse(
        &mut self,
        error: &quiredb::Error,
        index: &str,
        found: &Found,
        manner: Manner,
    ) -> Outcome<()> {
        let is_conflict = error.kind() == ErrorKind::Conflict;
        if !is_conflict && !matches!(error.kind(), ErrorKind::Invalid | ErrorKind::TooLarge) {
            return Err(Failure::engine(error, Some(index)));
        }
        self.conflicts += u64::from(is_conflict);
        if is_conflict && manner.proceeds {
            return Ok(());
        }
        let id = found.key.to_string();
        let failure = write_failure(error, index, &id);
        self.failed.get_or_insert(failure.status);
        if self.failures.len() < SHOWN_MAX {
            self.failures.push(json!({
                "index": index,
                "id": id,
                "cause": failure.cause(),
                "status": failure.status.as_u16(),
            }));
        }
        Ok(())
    }
}
