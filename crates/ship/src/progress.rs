//! What is reported while shipping.

use crate::tuner::Setting;
use serde::Serialize;

/// The state of the way to one sink.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Progress {
    /// The sink's name.
    pub sink: String,
    /// Changes that were settled in this run.
    pub changes: u64,
    /// Bytes of these, as they were sent.
    pub bytes: u64,
    /// Changes a second since the last report.
    pub changes_per_second: f64,
    /// Bytes a second since the last report.
    pub bytes_per_second: f64,
    /// Changes that the sink is behind the source; none if that is unknown.
    pub lag_changes: Option<u64>,
    /// How long ago the newest change at the sink was committed, if there are later ones; 0 when
    /// level; none if that is unknown.
    pub lag_seconds: Option<f64>,
    /// Whether the sink had all that the source had, when the source was last read.
    pub is_level: bool,
    /// Bytes of a bulk.
    pub bulk_bytes: usize,
    /// Bulks at once.
    pub concurrency: usize,
    /// Requests that were sent again, whole or in part.
    pub retries: u64,
    /// Changes that the sink had already.
    pub had: u64,
    /// Changes that it refused.
    pub dead_letters: u64,
    /// Why the last attempt failed, if none has succeeded since.
    pub waiting_for: Option<String>,
    /// The best setting of bulks so far.
    pub best: Setting,
    /// What each setting of bulks gave.
    pub curve: Vec<Setting>,
}
