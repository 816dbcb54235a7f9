//! What a change by query has done, and how it is answered.

use axum::http::StatusCode;
use quiredb::{Effect, ErrorKind, Found, Written};
use serde_json::{Value as Json, json};
use tokio::time::Instant;

use crate::documents::ack::write_failure;
use crate::http::failure::{Failure, Outcome};
use crate::tasks::progress::Progress;

/// Failures that an answer shows.
const SHOWN_MAX: usize = 100;

/// What was done.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) progress: Progress,
    /// Documents that were done.
    pub(super) done: u64,
    failures: Vec<Json>,
    /// Whether somebody cancelled it.
    pub(super) is_cancelled: bool,
    /// The status of the first failure.
    pub(super) failed: Option<StatusCode>,
    /// What each slice has counted, if there are several.
    slices: Vec<Json>,
}

impl Report {
    /// What slices did together, each at `rate`.
    pub(super) fn of_slices(slices: Vec<Report>, rate: Option<f64>) -> Report {
        let mut all = Report::default();
        for (number, slice) in slices.into_iter().enumerate() {
            let mut shown = slice.progress.to_json(rate);
            shown["slice_id"] = number.into();
            all.slices.push(shown);
            all.progress.add(&slice.progress);
            all.done += slice.done;
            let room = SHOWN_MAX - all.failures.len();
            all.failures.extend(slice.failures.into_iter().take(room));
            all.is_cancelled |= slice.is_cancelled;
            all.failed = all.failed.or(slice.failed);
        }
        all
    }

    /// What a request that began at `begun` is answered.
    pub(super) fn to_json(&self, begun: Instant, rate: Option<f64>) -> Json {
        let mut answer = self.progress.to_json(rate);
        let took = u64::try_from(begun.elapsed().as_millis());
        answer["took"] = took.unwrap_or(u64::MAX).into();
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

    /// Counts a document, whatever becomes of it.
    pub(super) fn did_one(&mut self) {
        self.done += 1;
        self.progress.total = self.progress.total.max(self.done);
    }

    /// Counts a document that was written.
    pub(super) fn count(&mut self, written: &Written) {
        match written.effect {
            Effect::Created => self.progress.created += 1,
            Effect::Deleted => self.progress.deleted += 1,
            _ => self.progress.updated += 1,
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
        self.progress.conflicts += u64::from(is_conflict);
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
