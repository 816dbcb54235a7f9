//! What is known of following: what a follower's operator wants to see.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use quiredb::Delays;
use quiredb::operations::Lag;
use serde_json::{Value, json};

use crate::metrics::Exposition;

/// What is known of following.
#[derive(Debug)]
pub(crate) struct Following {
    /// The leader's address, as `http://HOST:PORT`.
    pub(crate) leader: String,
    state: Mutex<State>,
    pub(crate) connects: AtomicU64,
    pub(crate) copies: AtomicU64,
    pub(crate) copied_bytes: AtomicU64,
    pub(crate) records: AtomicU64,
    /// From when records were seen durable at the leader until readers see them here.
    pub(crate) delays: Delays,
    pub(crate) stopping: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    doing: Doing,
    lag: Lag,
    /// When the lag was looked at.
    looked: Duration,
    started_over: Option<String>,
    error: Option<String>,
}

/// What the follower does now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It has no connection to its leader.
    #[default]
    Waiting,
    /// It takes records as the leader has them.
    Following,
    /// It takes a copy of the leader's files.
    Copying,
}

impl Doing {
    fn word(self) -> &'static str {
        match self {
            Doing::Waiting => "waiting",
            Doing::Following => "following",
            Doing::Copying => "copying",
        }
    }
}

impl Following {
    pub(crate) fn new(leader: String) -> Following {
        Following {
            leader,
            state: Mutex::default(),
            connects: AtomicU64::new(0),
            copies: AtomicU64::new(0),
            copied_bytes: AtomicU64::new(0),
            records: AtomicU64::new(0),
            delays: Delays::default(),
            stopping: AtomicBool::new(false),
        }
    }

    /// Why a write is refused.
    pub(crate) fn refusal(&self) -> String {
        format!(
            "this is a follower and takes no writes; write to its leader, {}",
            self.leader
        )
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Grows with whatever has come from the leader.
    pub(crate) fn progress(&self) -> u64 {
        let counters = [&self.connects, &self.copied_bytes, &self.records];
        counters
            .map(|counter| counter.load(Ordering::Relaxed))
            .iter()
            .sum()
    }

    pub(crate) fn does(&self, doing: Doing) {
        let mut state = self.state.lock();
        state.doing = doing;
        if doing == Doing::Following {
            state.error = None;
        }
    }

    /// Notes why it starts over.
    pub(crate) fn starts_over(&self, why: &str) {
        self.state.lock().started_over = Some(why.to_owned());
    }

    /// Notes what went wrong; false if it is what went wrong before.
    pub(crate) fn failed(&self, error: &str) -> bool {
        let mut state = self.state.lock();
        state.doing = Doing::Waiting;
        let is_new = state.error.as_deref() != Some(error);
        state.error = Some(error.to_owned());
        is_new
    }

    pub(crate) fn lags(&self, lag: Lag, now: Duration) {
        let mut state = self.state.lock();
        (state.lag, state.looked) = (lag, now);
    }

    /// How far it is behind: records as far as it was told, and seconds, which grow while it is
    /// told nothing.
    pub(crate) fn lag(&self, now: Duration) -> (u64, Option<f64>) {
        let state = self.state.lock();
        let since = now.saturating_sub(state.looked);
        let time = state.lag.time.map(|time| (time + since).as_secs_f64());
        (state.lag.records, time)
    }

    /// As in the statistics.
    pub(crate) fn describe(&self, now: Duration) -> Value {
        let (records, seconds) = self.lag(now);
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let state = self.state.lock();
        json!({
            "leader": self.leader,
            "state": state.doing.word(),
            "records_behind": records,
            "seconds_behind": seconds,
            "records": load(&self.records),
            "connects": load(&self.connects),
            "copies": load(&self.copies),
            "copied_bytes": load(&self.copied_bytes),
            "started_over": state.started_over,
            "error": state.error,
        })
    }

    /// As in the metrics.
    pub(crate) fn render(&self, now: Duration, text: &mut Exposition) {
        let (records, seconds) = self.lag(now);
        let is_following = self.state.lock().doing == Doing::Following;
        let name = "quire_follow_connected";
        text.one(
            name,
            "gauge",
            "Whether the leader is followed now",
            u8::from(is_following),
        );
        let help = "Records that the leader has and this follower does not, as far as it was told";
        text.one("quire_follow_lag_records", "gauge", help, records);
        let help = "Time since this follower was last known to hold all that its leader had";
        let seconds = seconds.unwrap_or(f64::NAN);
        text.one("quire_follow_lag_seconds", "gauge", help, seconds);
        let name = "quire_follow_visible_seconds";
        let help =
            "Time from when records were seen durable at the leader until readers see them here";
        text.head(name, "histogram", help);
        text.delays(name, &[], &self.delays.counts(), self.delays.micros());
        let mut counter = |name, help, counter: &AtomicU64| {
            text.one(name, "counter", help, counter.load(Ordering::Relaxed));
        };
        counter(
            "quire_follow_records_total",
            "Records taken from the leader",
            &self.records,
        );
        counter(
            "quire_follow_connects_total",
            "Times the leader answered",
            &self.connects,
        );
        let help = "Copies taken of the leader: the first, and each time it had to start over";
        counter("quire_follow_copies_total", help, &self.copies);
        counter(
            "quire_follow_copied_bytes_total",
            "Bytes of files taken",
            &self.copied_bytes,
        );
    }
}
