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

mod manner;
mod memory;
mod report;
mod slice;

use std::sync::Arc;

use axum::http::StatusCode;
use futures_util::future::try_join_all;
use quiredb::View;
use quiredb::query::Query;
use serde_json::json;
use tokio::time::Instant;

pub(super) use self::manner::{Manner, batch, rate};
pub(super) use self::memory::BatchMemory;
use self::memory::SLICES_AUTO_MAX;
use self::report::Report;
pub(super) use self::slice::Act;
use self::slice::{Job, Part, Slice};
use crate::collections::api_settings::Use;
use crate::collections::coerce::Mappings;
use crate::collections::selection::Selection;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::failure::{Failure, Outcome};
use crate::search::derived::derive_types;
use crate::search::execute::failed;
use crate::search::filter::WholeTexts;
use crate::search::limit::limit_to;
use crate::search::objects::find_objects;
use crate::tasks::listed::id_of;
use crate::tasks::registry::Running;
use crate::tasks::task::Task;

/// The work, in slices that are done side by side.
pub(super) struct Work {
    slices: Vec<Slice>,
    manner: Manner,
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
        let filter = selection.searched(engine)?.1;
        let collections = selection.plain(engine)?;
        if !matches!(act, Act::Copy { .. }) {
            for collection in &collections {
                engine.check_use(collection.name(), Use::Write)?;
            }
        }
        if let Act::Copy { to, .. } = &act
            && collections.iter().any(|from| from.name() == to.name())
        {
            return Err(Failure::validation(&format!(
                "reindex cannot write into an index its reading from [{}]",
                to.name()
            )));
        }
        let mappings = Mappings::of(engine, &collections);
        limit_to(&mut query, &texts, filter, &mappings)?;
        let views = collections.iter().map(|collection| collection.view());
        let views: Vec<View> = views.collect::<Result<_, _>>().map_err(failed)?;
        derive_types(&mut query, &mappings, &views, &|| false)?;
        find_objects(&mut query, &views, &|| false)?;
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

    /// Does all of it for a request that waits, and answers in its own way.
    ///
    /// # Errors
    /// Of the machine; if it was cancelled, or a document could not be written.
    pub(super) async fn finish(self, engine: &Engine, running: &Running) -> Outcome<()> {
        let report = self.run(engine, running).await?;
        match report.failed {
            None if !report.is_cancelled => Ok(()),
            None => Err(Task::failure()),
            Some(_) => Err(Failure::internal("a document could not be written")),
        }
    }

    /// Does all of it, or what comes before `task` is cancelled.
    ///
    /// # Errors
    /// Of the machine, and how much was done before.
    async fn run(mut self, engine: &Engine, task: &Running) -> Outcome<Report> {
        if self.slices.len() == 1
            && let Some(only) = self.slices.pop()
        {
            return only.run(engine, task, &self.memory).await;
        }
        let count = self.slices.len();
        let children = self.slices.iter();
        let children = children.map(|_| task.background(task.action, engine.clock()));
        let children: Vec<Running> = children.collect();
        for child in &children {
            child.set_rate(shared_rate(task.rate(), count));
        }
        let slices = self.slices.into_iter().zip(&children);
        let slices = slices.map(|(slice, child)| slice.run(engine, child, &self.memory));
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
