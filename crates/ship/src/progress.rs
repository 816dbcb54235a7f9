//! What is reported while shipping.

use crate::delays::Delays;
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
    /// Seconds from the commit of a change at the source until the sink acknowledged it, which half
    /// of the changes since the last report took at most; none if no time of commit is known.
    pub delay_p50_seconds: Option<f64>,
    /// As `delay_p50_seconds`, of 99 of 100 changes.
    pub delay_p99_seconds: Option<f64>,
    /// These delays of all changes of this run.
    #[serde(skip)]
    pub delays: Delays,
    /// Bytes that were read and wait to be sent. None, while bulks could be sent, means that the
    /// source is what limits.
    pub waiting_bytes: usize,
    /// Bulks that the sink has not answered yet.
    pub under_way: usize,
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
    /// Why shipping to this sink ended, if it failed. The others go on.
    pub failed: Option<String>,
    /// The best setting of bulks so far.
    pub best: Setting,
    /// What each setting of bulks gave.
    pub curve: Vec<Setting>,
}
