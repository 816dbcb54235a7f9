//! What a change by query has done, and how it is answered.

use std::time::Duration;

use axum::http::StatusCode;
use quiredb::{Effect, ErrorKind, Found, Written};
use serde_json::{Value as Json, json};
use tokio::time::Instant;

use crate::documents::ack::write_failure;
use crate::http::failure::{Failure, Outcome};

/// Failures that an answer shows.
const SHOWN_MAX: usize = 100;

/// What was done.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) total: u64,
    created: u64,
    updated: u64,
    deleted: u64,
    pub(super) batches: u64,
    conflicts: u64,
    pub(super) throttled: Duration,
    failures: Vec<Json>,
    /// Whether somebody cancelled it.
    pub(super) is_cancelled: bool,
    /// The status of the first failure.
    pub(super) failed: Option<StatusCode>,
    /// What each slice has counted, if there are several.
    slices: Vec<Json>,
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Report {
    /// What slices did together, each at `rate`.
    pub(super) fn of_slices(slices: Vec<Report>, rate: Option<f64>) -> Report {
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
    pub(super) fn to_json(&self, begun: Instant, rate: Option<f64>) -> Json {
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

    /// Counts a document that was written.
    pub(super) fn count(&mut self, written: &Written) {
        match written.effect {
            Effect::Created => self.created += 1,
            Effect::Deleted => self.deleted += 1,
            _ => self.updated += 1,
        }
    }

    /// Counts a document that could not be written, and shows it if that ends the work.
    ///
    /// # Errors
    /// Of the machine, which are not about the document.
    pub(super) fn refuse(
        &mut self,
        error: &quiredb::Error,
        index: &str,
        found: &Found,
        proceeds: bool,
    ) -> Outcome<()> {
        let is_conflict = error.kind() == ErrorKind::Conflict;
        if !is_conflict && !matches!(error.kind(), ErrorKind::Invalid | ErrorKind::TooLarge) {
            return Err(Failure::engine(error, Some(index)));
        }
        self.conflicts += u64::from(is_conflict);
        if is_conflict && proceeds {
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
