//! The documents that match a query as of one moment, changed or copied batch by batch.
//!
//! # Invariants
//! 1. A document is changed on condition that it is still as it was found: one that was written
//!    meanwhile is a conflict.
//! 2. Each batch is read in a turn of a search, and written in one of a write. When the caller goes
//!    away, the work ends after the batch that is being done.
//! 3. A copy has the key and the bytes of the document, or of the fields that are copied. To a wide
//!    collection it is a row of the same fields.
//! 4. A slice has partitions of its own, so each document is in one slice, and slices together read
//!    each document once. As many batches are done at once as memory was reserved for.
//! 5. While documents are written, no memtable is held that writers may wait for: what is more
//!    than one batch of documents reads table files alone. Less is read to its end before it is
//!    written, unless it fills more than one page by its bytes.

mod act;
mod division;
mod manner;
mod memory;
mod places;
mod report;
mod slice;

use std::sync::Arc;

use axum::http::StatusCode;
use futures_util::future::try_join_all;
use quiredb::View;
use quiredb::query::{Prepared, Query, find};
use serde_json::json;
use tokio::time::Instant;

pub(super) use self::act::{Act, Target};
use self::division::Division;
pub(super) use self::manner::{Manner, batch, rate};
pub(super) use self::memory::BatchMemory;
use self::memory::SLICES_AUTO_MAX;
use self::report::Report;
use self::slice::{Job, Slice};
use crate::collections::api_settings::Use;
use crate::collections::coerce::Mappings;
use crate::collections::selection::{Selection, views};
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::failure::{Failure, Outcome};
use crate::search::derived::derive_types;
use crate::search::execute::{failed, options};
use crate::search::filter::WholeTexts;
use crate::search::limit::limit_to;
use crate::search::objects::find_objects;
use crate::tasks::listed::id_of;
use crate::tasks::registry::Running;
use crate::tasks::task::Task;

/// The work, in slices that are done side by side.
pub(super) struct Work {
    division: Arc<Division>,
    /// What is read.
    views: Arc<Vec<View>>,
    slices: Vec<Slice>,
    memory: BatchMemory,
}

impl Work {
    /// The documents of `selection` that match `query` now. Blocks.
    pub(super) fn new(
        engine: &Engine,
        selection: &Selection,
        (mut query, texts): (Query, WholeTexts),
        act: Act,
        manner: Manner,
        memory: BatchMemory,
    ) -> Outcome<Work> {
        let (sources, filter) = match &act {
            Act::Copy { .. } => selection.searched(engine)?,
            Act::Delete | Act::Rewrite => selection.changed(engine)?,
        };
        match &act {
            Act::Copy { to, versions, .. } => to.check(&sources, versions.is_some())?,
            Act::Delete | Act::Rewrite => {
                for collection in &sources {
                    engine.check_use(collection.name(), Use::Write)?;
                }
            }
        }
        let mappings = Mappings::of_searched(engine, &sources);
        limit_to(&mut query, &texts, filter, &mappings)?;
        let views = views(&sources)?;
        derive_types(&mut query, &mappings, &views, &|| false)?;
        find_objects(&mut query, &views, &|| false)?;
        let prepare = |query: Query| query.prepare().map_err(|error| failed(error.into()));
        let job = Arc::new(Job {
            query: prepare(find(query.filter.clone()))?,
            count: prepare(Query {
                count: true,
                limit: Some(0),
                ..find(query.filter.clone())
            })?,
            act,
            manner,
        });
        let of = (sources, views.as_slice());
        let division = Division::new(job, of, query, SLICES_AUTO_MAX)?;
        Ok(Work {
            slices: division.slices(&views, memory.buffers())?,
            views: Arc::new(views),
            division: Arc::new(division),
            memory,
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
        let Manner { waits, rate, .. } = self.division.job.manner;
        if waits {
            running.set_rate(rate);
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
        task.set_rate(rate);
        tokio::spawn(async move {
            let outcome = match self.run(&engine, &task).await {
                Ok(report) => Ok(report.to_json(begun, task.rate())),
                Err(failure) => Err(failure.cause()),
            };
            task.finish(outcome, engine.now());
        });
        Ok(Answer::ok(&json!({"task": id})))
    }

    /// Does all of it for a request that waits, and answers in its own way.
    ///
    /// # Errors
    /// Of the machine; if it was cancelled, or a document could not be written.
    pub(super) async fn finish(self, engine: &Engine, running: &Running) -> Outcome<()> {
        let report = self.run(engine, running).await?;
        match report.failed {
            None if !report.is_cancelled => Ok(()),
            None => Err(running.failure()),
            Some(_) => Err(Failure::internal("a document could not be written")),
        }
    }

    /// Does all of it, or what comes before `task` is cancelled.
    ///
    /// # Errors
    /// Of the machine, and how much was done before; if writes needed the memory that it held.
    async fn run(mut self, engine: &Engine, task: &Running) -> Outcome<Report> {
        task.set_views(&self.views);
        let count = self.count(engine, task).await;
        if !count.is_some_and(|count| self.is_one_batch(count, task)) {
            self.read_files_alone(engine).await?;
            self.count(engine, task).await;
        }
        drop(self.views);
        if self.slices.len() == 1
            && let Some(only) = self.slices.pop()
        {
            let report = only.run(engine, task, &self.memory).await?;
            return match report.is_cancelled && task.is_ended_for_memory() {
                true => Err(task.failure()),
                false => Ok(report),
            };
        }
        let count = self.slices.len();
        let children = self.slices.iter();
        let children = children.map(|_| task.background(task.action, engine.clock()));
        let children: Vec<Running> = children.collect();
        for child in &children {
            child.set_rate(shared_rate(task.rate(), count));
        }
        task.set_slices(
            children
                .iter()
                .map(|child| Arc::clone(child.task()))
                .collect(),
        );
        for (slice, child) in self.slices.iter().zip(&children) {
            child.set_progress(slice.report.progress.clone());
        }
        let slices = self.slices.into_iter().zip(&children);
        let slices = slices.map(|(slice, child)| slice.run(engine, child, &self.memory));
        let reports = try_join_all(slices).await?;
        Ok(Report::of_slices(reports, shared_rate(task.rate(), count)))
    }

    /// Whether `count` documents are read at once, before any of them is written.
    fn is_one_batch(&self, count: u64, task: &Task) -> bool {
        let is_one_part = matches!(self.slices.as_slice(), [one] if one.left.len() <= 1);
        let batch = self.division.job.manner.batch as u64;
        is_one_part && count < batch && task.rate().is_none()
    }

    /// Begins anew with views of table files: they may be kept for hours, as writers don't wait for
    /// what they hold.
    ///
    /// # Errors
    /// If a collection is gone, or there is no memory.
    async fn read_files_alone(&mut self, engine: &Engine) -> Outcome<()> {
        let division = Arc::clone(&self.division);
        self.slices.clear();
        self.views = Arc::default();
        let views = engine.read(move |_| division.flushed_views()).await??;
        self.slices = self.division.slices(&views, self.memory.buffers())?;
        self.views = Arc::new(views);
        Ok(())
    }

    /// Counts the documents that there are to do. Where that fails, the work begins all the same,
    /// and its total grows with what is done.
    async fn count(&mut self, engine: &Engine, task: &Running) -> Option<u64> {
        let views = |slice: &Slice| -> Vec<Vec<View>> {
            let parts = slice.left.iter().rev();
            parts.map(|part| part.views().to_vec()).collect()
        };
        let of: Vec<Vec<Vec<View>>> = self.slices.iter().map(views).collect();
        let job = Arc::clone(&self.division.job);
        let turn = self.memory.turn(task).await;
        let task = Arc::clone(task.task());
        let counted = engine.search(move |_, stop| {
            let stop = || stop() || task.is_cancelled();
            let count = |parts: &Vec<Vec<View>>| -> Outcome<u64> {
                let of_part = parts.iter().map(|views| count(views, &job.count, &stop));
                of_part.sum()
            };
            of.iter().map(count).collect::<Outcome<Vec<u64>>>()
        });
        let counted = counted.await;
        drop(turn);
        let counts = counted.ok()?.ok()?;
        for (slice, count) in self.slices.iter_mut().zip(&counts) {
            slice.report.progress.total = *count.min(&slice.most);
        }
        Some(counts.into_iter().sum())
    }
}

/// How many documents match.
fn count(views: &[View], query: &Prepared, stop: &(dyn Fn() -> bool + Sync)) -> Outcome<u64> {
    let answer = View::query_all(views, query, &options(stop)).map_err(failed)?;
    Ok(answer.count.unwrap_or_default())
}

/// What each of `count` slices may do of a rate.
pub(super) fn shared_rate(rate: Option<f64>, count: usize) -> Option<f64> {
    rate.map(|rate| rate / count as f64)
}
