//! Splits partitions that are large or written fast, and merges small ones, by the settings
//! `split_bytes` and `split_rate`.
//!
//! # Invariants
//! 1. What is due runs as what a caller begins: it is listed, and can be cancelled.
//! 2. After one that failed, the collection is left alone for a while.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, Uri};
use parking_lot::Mutex;
use quiredb::WriteRates;
use tokio::time::Instant;

use super::repartition::{Repartitions, Work};
use crate::engine::Engine;
use crate::net::stop::StopFlag;
use crate::tasks::action::PARTITIONS;
use crate::tasks::registry::Tasks;
use crate::tasks::task::{Origin, Sent};

/// How often it is looked at how large partitions are, and how fast they are written.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a collection is left alone after one that failed, or was cancelled.
const RETRY_AFTER: Duration = Duration::from_secs(600);

/// Looks for what is due.
pub(crate) struct DuePartitions {
    pub(crate) engine: Engine,
    pub(crate) repartitions: Arc<Repartitions>,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) stopping: StopFlag,
}

impl DuePartitions {
    /// Looks until it is dropped. What it has begun goes on then.
    pub(crate) async fn watch(self) {
        let mut failed: BTreeMap<String, Instant> = BTreeMap::new();
        let rates = Arc::new(Mutex::new(WriteRates::default()));
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            failed.retain(|_, at| at.elapsed() < RETRY_AFTER);
            // A busy server looks again.
            let rates = Arc::clone(&rates);
            let due = self
                .engine
                .read(move |engine| engine.database().all_partitions_due(&mut rates.lock()));
            let due = due.await.unwrap_or_default();
            for (name, count) in due {
                if !failed.contains_key(&name) && !self.repartition(&name, count).await {
                    failed.insert(name, Instant::now());
                }
            }
        }
    }

    /// Has a collection get this number of partitions, unless another one is getting others.
    /// Returns false if that failed.
    async fn repartition(&self, name: &str, count: u32) -> bool {
        let Ok(turn) = self.repartitions.begin() else {
            return true;
        };
        let uri = Uri::try_from(format!("/{name}/_partitions?count={count}"));
        let origin = Origin {
            sent: Sent::Http(Method::POST, uri.unwrap_or_default()),
            token: String::new(),
            address: None,
            opaque_id: Some("settings".to_owned()),
        };
        let task = self
            .tasks
            .begin_own(PARTITIONS, origin, self.engine.clock());
        let work = Work {
            engine: self.engine.clone(),
            stopping: self.stopping.clone(),
            name: name.to_owned(),
            count,
            turn,
        };
        let done = tokio::task::spawn_blocking(move || {
            let done = work.run(task.task()).map_err(|failure| failure.cause());
            let is_done = done.is_ok();
            task.finish(done, work.engine.now());
            is_done
        });
        done.await.unwrap_or_default()
    }
}
