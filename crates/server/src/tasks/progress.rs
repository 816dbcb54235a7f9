//! How far a change by query or a split is, as the list of tasks shows it; and how the change is
//! answered.

use std::time::Duration;

use serde_json::{Value, json};

/// What was done of the documents.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    /// Those that there are to do, or those that were done if that is not known.
    pub(crate) total: u64,
    pub(crate) created: u64,
    pub(crate) updated: u64,
    pub(crate) deleted: u64,
    pub(crate) batches: u64,
    pub(crate) conflicts: u64,
    /// How long it paused for its rate.
    pub(crate) throttled: Duration,
}

impl Progress {
    /// Adds what another part did.
    pub(crate) fn add(&mut self, other: &Progress) {
        self.total += other.total;
        self.created += other.created;
        self.updated += other.updated;
        self.deleted += other.deleted;
        self.batches += other.batches;
        self.conflicts += other.conflicts;
        self.throttled += other.throttled;
    }

    /// The numbers, of work that is done at `rate`.
    pub(crate) fn to_json(&self, rate: Option<f64>) -> Value {
        json!({
            "total": self.total,
            "created": self.created,
            "updated": self.updated,
            "deleted": self.deleted,
            "batches": self.batches,
            "version_conflicts": self.conflicts,
            "noops": 0,
            "retries": {"bulk": 0, "search": 0},
            "throttled_millis": u64::try_from(self.throttled.as_millis()).unwrap_or(u64::MAX),
            "requests_per_second": rate.unwrap_or(-1.0),
            "throttled_until_millis": 0,
        })
    }
}

/// How far work in stages is, one stage after another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StageProgress {
    pub(crate) stage: &'static str,
    /// What is done of the stage, and all that there is to do in it, as far as that is known.
    pub(crate) done: u64,
    pub(crate) total: u64,
}

impl StageProgress {
    pub(crate) fn to_json(self) -> Value {
        json!({"stage": self.stage, "done": self.done, "total": self.total})
    }
}
