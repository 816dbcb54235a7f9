//! Frozen collections that are served: files that are new are opened while they are.

use std::collections::BTreeSet;
use std::time::Duration;

use quiredb::FrozenCollection;

use crate::engine::WeakEngine;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Opens files of a frozen collection that are new, and logs what has changed. If one can't be
/// opened, the one that had its name before stays in use. Returns why files can't be opened, of
/// which those that are `reported` already are not logged again.
pub fn refresh_frozen(
    collection: &FrozenCollection,
    reported: &BTreeSet<String>,
) -> BTreeSet<String> {
    let name = collection.name();
    let failures: BTreeSet<String> = match collection.refresh() {
        Ok(refreshed) => {
            let (opened, dropped) = (refreshed.opened.len(), refreshed.dropped.len());
            if opened > 0 || dropped > 0 {
                tracing::info!(name, opened, dropped, "frozen files have changed");
            }
            let failures = refreshed.failures.iter();
            failures.map(|failure| failure.error.to_string()).collect()
        }
        Err(error) => BTreeSet::from([error.to_string()]),
    };
    for error in failures.difference(reported) {
        tracing::warn!(name, "{error}; what was open before is served");
    }
    failures
}

/// Refreshes all frozen collections from time to time, until it is dropped.
pub(crate) async fn watch(engine: WeakEngine) {
    let mut reported = BTreeSet::new();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(engine) = engine.upgrade() else {
            return;
        };
        let look = move || {
            let all = engine.database().frozen_collections();
            let failures = all.iter().map(|one| refresh_frozen(one, &reported));
            failures.reduce(|all, of_one| &all | &of_one)
        };
        // An error of the task says that it panicked: then nothing has changed.
        let failures = tokio::task::spawn_blocking(look).await;
        reported = failures.ok().flatten().unwrap_or_default();
    }
}
