//! The log of slow requests as the server has it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use quiredb::Env;
use serde::Serialize;
use serde_json::Value;

use super::gate::Gate;
use crate::log_file::{LogFile, LogFileError, LogFileOptions};

/// The log of slow requests of a server. A clone is another handle to the same.
#[derive(Debug, Clone)]
pub struct SlowLog {
    file: LogFile,
    over: Duration,
    gate: Arc<Mutex<Gate>>,
    seen: Arc<AtomicU64>,
}

/// A request that took long. What is not known is left out.
#[derive(Debug, Serialize)]
pub(crate) struct SlowRequest<'a> {
    /// `http` or `memcached`.
    pub(crate) protocol: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<SocketAddr>,
    /// The name of the token; empty for that of `--token-file`, and without one.
    pub(crate) token: &'a str,
    /// The method, the path with its parameters, and the beginning of a small body.
    pub(crate) request: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    /// Until the answer began.
    pub(crate) took_millis: u64,
    /// CPU time of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_micros: Option<u64>,
    /// How a search was executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<Value>,
}

/// The line of a request.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    request: &'a SlowRequest<'a>,
    /// Slow requests since the last line that have none.
    #[serde(skip_serializing_if = "is_zero")]
    left_out: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl SlowLog {
    /// Begins to write requests that take `over` or longer, after what is in the file.
    ///
    /// # Errors
    /// If the file can't be opened, or the thread not be started.
    pub fn open(
        env: Arc<dyn Env>,
        options: LogFileOptions,
        over: Duration,
    ) -> Result<SlowLog, LogFileError> {
        Ok(SlowLog {
            file: LogFile::open(env, options)?,
            over,
            gate: Arc::default(),
            seen: Arc::default(),
        })
    }

    /// Whether a request that took this long is slow.
    pub(crate) fn is_slow(&self, took: Duration) -> bool {
        took >= self.over
    }

    /// Writes a slow request, later. `now` is by the monotonic clock. Never waits.
    pub(crate) fn note(&self, request: &SlowRequest<'_>, now: Duration) {
        self.seen.fetch_add(1, Ordering::Relaxed);
        let passed = self.gate.lock().pass(now);
        if let Some(left_out) = passed {
            self.file.note(&Line { request, left_out });
        }
    }

    /// Slow requests since the server began, and lines that could not be written.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.seen.load(Ordering::Relaxed), self.file.counts().1)
    }

    /// Waits until all lines before are written, or could not be.
    pub fn flush(&self) {
        self.file.flush();
    }
}
