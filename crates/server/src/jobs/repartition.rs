//! `_partitions`: splits or merges the partitions of a collection while it is read and written.
//!
//! # Invariants
//! 1. One split or merge runs at a time, beside the threads of reads and writes: it takes long.
//! 2. It goes on if its caller goes away. It ends when it is cancelled or the server stops, and the
//!    collection is then as it was.
//! 3. None runs once [`Repartitions::stop`] has returned, and none holds the database.

use std::sync::Arc;

use axum::http::StatusCode;
use quiredb::{CollectionSettings, Error, PartitionsProgress};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use crate::collections::api_settings::Use;
use crate::collections::selection::Searched;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::net::stop::StopFlag;
use crate::tasks::action::PARTITIONS;
use crate::tasks::listed::id_of;
use crate::tasks::progress::StageProgress;
use crate::tasks::task::Task;

/// The splits and merges of a server.
#[derive(Debug)]
pub(crate) struct Repartitions {
    /// Has one permit: that of the one that runs.
    turn: Arc<Semaphore>,
}

impl Default for Repartitions {
    fn default() -> Repartitions {
        Repartitions {
            turn: Arc::new(Semaphore::new(1)),
        }
    }
}

impl Repartitions {
    /// The turn of a split or a merge.
    ///
    /// # Errors
    /// 409 if another one has it; 503 once the server stops.
    pub(super) fn begin(&self) -> Outcome<OwnedSemaphorePermit> {
        let turn = Arc::clone(&self.turn).try_acquire_owned();
        turn.map_err(|why| match why {
            TryAcquireError::NoPermits => Failure::new(
                StatusCode::CONFLICT,
                "resource_already_exists_exception",
                format!(
                    "partitions are being split or merged, and this is done one at a time: wait \
                     until GET /_tasks?actions={PARTITIONS} shows none"
                ),
            ),
            TryAcquireError::Closed => stopped(),
        })
    }

    /// Waits until the one that runs has ended, and lets none begin. The server is stopping: that
    /// ends it.
    pub(crate) async fn stop(&self) {
        // The semaphore is closed only here.
        let turn = self.turn.acquire().await;
        self.turn.close();
        drop(turn);
    }
}

/// What a split or a merge uses of the server.
pub(crate) struct RepartitionState {
    pub(crate) engine: Engine,
    pub(crate) repartitions: Arc<Repartitions>,
    pub(crate) stopping: StopFlag,
}

/// `POST /{collection}/_partitions`: as many partitions as `count` says, or twice as many as there
/// are.
pub(crate) async fn repartition(call: Call<RepartitionState>) -> Outcome<Answer> {
    let waits = call.params.flag("wait_for_completion")?.unwrap_or(true);
    let (name, count) = (call.collection(), call.params.number("count")?);
    let RepartitionState {
        engine,
        repartitions,
        stopping,
    } = call.state;
    let look = move |engine: &Engine| -> Outcome<(String, u32)> {
        let collection = match engine.wide_for(&name, Use::Change)? {
            Some(wide) => Searched::Wide(wide),
            None => Searched::Plain(engine.collection_to_change(&name)?),
        };
        let (name, settings) = (collection.name().to_owned(), collection.settings());
        let count = checked(&name, &settings.unwrap_or_default(), count)?;
        Ok((name, count))
    };
    let (name, count) = engine.read(look).await??;
    let work = Work {
        engine: engine.clone(),
        stopping,
        name,
        count,
        turn: repartitions.begin()?,
    };
    let running = call.running;
    if waits {
        // The request stays listed for as long as the work takes.
        let done = tokio::task::spawn_blocking(move || work.run(running.task()));
        let done = done.await.map_err(|error| {
            tracing::error!(%error, "a split or a merge panicked");
            Failure::internal(
                "this request met a bug of the server; the server's log has the details",
            )
        })?;
        return done.map(|done| Answer::ok(&done));
    }
    let task = running.background(PARTITIONS, engine.clock());
    let id = id_of(task.id);
    tokio::task::spawn_blocking(move || {
        let done = work.run(task.task());
        let now = work.engine.now();
        task.finish(done.map_err(|failure| failure.cause()), now);
    });
    Ok(Answer::ok(&json!({"task": id})))
}

/// A split or a merge that has its turn.
pub(super) struct Work {
    pub(super) engine: Engine,
    pub(super) stopping: StopFlag,
    /// The collection.
    pub(super) name: String,
    /// How many partitions it is to have.
    pub(super) count: u32,
    /// Dropped last: a server that stops closes the database then.
    #[expect(dead_code, reason = "it is held, and given back by being dropped")]
    pub(super) turn: OwnedSemaphorePermit,
}

impl Work {
    /// Splits or merges the partitions. Blocks.
    ///
    /// # Errors
    /// Of the machine; if `task` was cancelled, or the server stops.
    pub(super) fn run(&self, task: &Task) -> Outcome<Value> {
        let Work {
            engine,
            stopping,
            name,
            count,
            ..
        } = self;
        let collection = Searched::open(engine, name)?;
        let before = collection.partitions();
        tracing::info!(
            collection = name,
            partitions = before,
            to = count,
            "changing the number of partitions"
        );
        let begun = engine.now();
        let watch = |progress: PartitionsProgress| {
            task.set_stage(stage(&progress));
            !task.is_cancelled() && !stopping.is_set()
        };
        let done = match *count < before {
            true => engine.database().merge_collection(name, *count, &watch),
            false => engine.database().split_collection(name, *count, &watch),
        };
        match done {
            Ok(()) => {
                let partitions = collection.partitions();
                tracing::info!(collection = name, partitions, "partitions changed");
                let took = engine.now().saturating_sub(begun).as_millis();
                Ok(json!({
                    "acknowledged": true,
                    "index": name,
                    "partitions_before": before,
                    "partitions": partitions,
                    "took": u64::try_from(took).unwrap_or(u64::MAX),
                }))
            }
            Err(Error::Stopped) if task.is_cancelled() => Err(task.failure()),
            Err(Error::Stopped) => Err(stopped()),
            Err(error) => {
                tracing::error!(collection = name, %error, "a split or a merge failed");
                let failure = Failure::engine(&error, Some(name));
                Err(failure.because("; the collection is as it was"))
            }
        }
    }
}

fn stage(progress: &PartitionsProgress) -> StageProgress {
    StageProgress {
        stage: progress.stage.name(),
        done: progress.done,
        total: progress.total,
    }
}

/// The number of partitions that a collection can get by a split or a merge; twice as many as there
/// are where none is given.
///
/// # Errors
/// 400 if there can't be that number.
fn checked(name: &str, settings: &CollectionSettings, count: Option<u32>) -> Outcome<u32> {
    let now = settings.partitions;
    let count = count.unwrap_or(now.saturating_mul(2));
    let is_split = count > now && count.is_multiple_of(now);
    let is_merge = count > 0 && count < now && now.is_multiple_of(count);
    if !is_split && !is_merge {
        let [one, two] = [2, 3].map(|times| now.saturating_mul(times));
        let fewer: Vec<String> = (1..now)
            .filter(|fewer| now.is_multiple_of(*fewer))
            .map(|fewer| fewer.to_string())
            .collect();
        let fewer = match fewer.is_empty() {
            true => String::new(),
            false => format!("; or for fewer {}", fewer.join(", ")),
        };
        return Err(Failure::illegal_argument(format!(
            "parameter [count] is [{count}], and must be a multiple of the [{now}] partitions that \
             [{name}] has: {one}, {two} and so on{fewer}"
        )));
    }
    let mut wanted = settings.clone();
    wanted.partitions = count;
    let checked = wanted.check();
    checked.map_err(|error| Failure::illegal_argument(error.to_string()))?;
    Ok(count)
}

/// The failure of one of a server that stops.
fn stopped() -> Failure {
    Failure::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "node_closed_exception",
        "the server stops: the collection is as it was",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_multiple_of_the_partitions_afterwards_or_a_part_of_them() {
        let mut settings = CollectionSettings::default();
        for (now, count, expected) in [
            (2, None, Some(4)),
            (2, Some(6), Some(6)),
            (1, Some(1024), Some(1024)),
            (2, Some(2), None),
            (4, Some(2), Some(2)),
            (6, Some(2), Some(2)),
            (6, Some(4), None),
            (4, Some(6), None),
            (2, Some(0), None),
            (1, Some(1025), None),
            (1024, None, None),
        ] {
            settings.partitions = now;
            let found = checked("c", &settings, count);
            assert_eq!(found.ok(), expected, "{now} {count:?}");
        }
    }
}
