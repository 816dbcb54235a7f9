//! The documents that match a query as of one moment, changed or copied batch by batch.
//!
//! # Invariants
//! 1. A document is changed on condition that it is still as it was found: one that was written
//!    meanwhile is a conflict.
//! 2. Each batch is one turn of a thread for writes. When the caller goes away, the work ends after
//!    the batch that is being done.
//! 3. A copy has the key and the bytes of the document, or of the fields that are copied.
//! 4. A slice has partitions of its own, so each document is in one slice, and slices together read
//!    each document once. As many batches are done at once as memory was reserved for.

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

pub(super) use self::manner::{Manner, batch, rate};
pub(super) use self::memory::BatchMemory;
use self::memory::SLICES_AUTO_MAX;
use self::places::Places;
use self::report::Report;
pub(super) use self::slice::Act;
use self::slice::{Job, Part, Slice};
use crate::collections::api_settings::Use;
use crate::collections::coerce::Mappings;
use crate::collections::selection::{Searched, Selection, views};
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
use crate::tasks::task::Scanned;

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
        let (searched, filter) = selection.searched(engine)?;
        let sources = match &act {
            Act::Copy { .. } => searched,
            _ => {
                let plain = selection.plain(engine)?.into_iter();
                plain.map(Searched::Plain).collect()
            }
        };
        if !matches!(act, Act::Copy { .. }) {
            for collection in &sources {
                engine.check_use(collection.name(), Use::Write)?;
            }
        }
        if let Act::Copy { to, .. } = &act
            && sources.iter().any(|from| from.name() == to.name())
        {
            return Err(Failure::validation(&format!(
                "reindex cannot write into an index its reading from [{}]",
                to.name()
            )));
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
        let partitions = sources
            .iter()
            .zip(&views)
            .map(|(source, view)| match source {
                Searched::Plain(_) => view.partition_count(),
                Searched::Wide(_) | Searched::Frozen(_) => 1,
            });
        let partitions = partitions.max().unwrap_or(1);
        let count = manner.slices.unwrap_or(partitions.min(SLICES_AUTO_MAX));
        let filled = u64::from(count.min(partitions));
        if manner.slices.is_some() && manner.most < filled {
            return Err(Failure::validation(&format!(
                "[max_docs] is [{}] and must be at least [slices], which is [{count}]",
                manner.most
            )));
        }
        let places = |views: Vec<View>, most: u64| -> Outcome<Part> {
            let places = Places::new(views, query.clone(), most, memory.buffers())?;
            Ok(Part::Places(Box::new(places)))
        };
        let slice = |number: u32| -> Outcome<Slice> {
            let most = share(manner.most, u64::from(number), filled);
            let mut left = Vec::new();
            if !query.order.is_empty() {
                left.push(places(views.clone(), most)?);
            } else {
                for (source, view) in sources.iter().zip(&views) {
                    let Searched::Plain(collection) = source else {
                        // These are not divided.
                        if number == 0 {
                            left.push(places(vec![view.clone()], most)?);
                        }
                        continue;
                    };
                    let of = |view: View| Part::Keys {
                        collection: collection.clone(),
                        view,
                        after: None,
                    };
                    if count == 1 {
                        left.push(of(view.clone()));
                        continue;
                    }
                    for partition in (number..view.partition_count()).step_by(count as usize) {
                        left.push(of(view.partition(partition).map_err(failed)?));
                    }
                }
            }
            left.reverse();
            Ok(Slice {
                job: Arc::clone(&job),
                left,
                most,
                report: Report::default(),
                scanned: Scanned::default(),
            })
        };
        Ok(Work {
            slices: (0..count).map(slice).collect::<Outcome<_>>()?,
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
            None => Err(running.failure()),
            Some(_) => Err(Failure::internal("a document could not be written")),
        }
    }

    /// Does all of it, or what comes before `task` is cancelled.
    ///
    /// # Errors
    /// Of the machine, and how much was done before.
    async fn run(mut self, engine: &Engine, task: &Running) -> Outcome<Report> {
        self.count(engine, task).await;
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

    /// Counts the documents that there are to do. Where that fails, the work begins all the same,
    /// and its total grows with what is done.
    async fn count(&mut self, engine: &Engine, task: &Running) {
        let views = |slice: &Slice| -> Vec<Vec<View>> {
            let parts = slice.left.iter().rev();
            parts.map(|part| part.views().to_vec()).collect()
        };
        let of: Vec<Vec<Vec<View>>> = self.slices.iter().map(views).collect();
        let Some(job) = self.slices.first().map(|slice| Arc::clone(&slice.job)) else {
            return;
        };
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
        if let Ok(Ok(counts)) = counted {
            for (slice, count) in self.slices.iter_mut().zip(counts) {
                slice.report.progress.total = count.min(slice.most);
            }
        }
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

/// The part of a number of documents that one of `count` slices does.
fn share(most: u64, slice: u64, count: u64) -> u64 {
    match slice < count {
        true => most / count + u64::from(slice < most % count),
        false => 0,
    }
}
