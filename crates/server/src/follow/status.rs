//! What a follower knows of following its leader, for its operator.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use quiredb::Delays;
use quiredb::operations::Lag;
use serde_json::{Value, json};

use crate::metrics::exposition::{Exposition, counter, gauge, histogram};
use crate::net::stop::StopFlag;

/// What a follower knows of following its leader.
#[derive(Debug)]
pub(crate) struct FollowStatus {
    /// The leader's address, as `http://HOST:PORT`.
    pub(crate) leader: String,
    state: Mutex<State>,
    pub(crate) connects: AtomicU64,
    pub(crate) copies: AtomicU64,
    pub(crate) copied_bytes: AtomicU64,
    pub(crate) records: AtomicU64,
    /// The time from when the leader reported records as durable until readers see them here.
    pub(crate) delays: Delays,
    /// Set when the follower is to stop.
    pub(crate) stopping: StopFlag,
}

#[derive(Debug, Default)]
struct State {
    activity: FollowerActivity,
    lag: Lag,
    /// When the lag was reported.
    reported: Duration,
    started_over: Option<String>,
    error: Option<String>,
}

/// What the follower does now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum FollowerActivity {
    /// It has no connection to its leader.
    #[default]
    Waiting,
    /// It receives records as the leader writes them.
    Following,
    /// It copies the leader's files.
    Copying,
}

impl FollowerActivity {
    fn word(self) -> &'static str {
        match self {
            FollowerActivity::Waiting => "waiting",
            FollowerActivity::Following => "following",
            FollowerActivity::Copying => "copying",
        }
    }
}

impl FollowStatus {
    pub(crate) fn new(leader: String) -> FollowStatus {
        FollowStatus {
            leader,
            state: Mutex::default(),
            connects: AtomicU64::new(0),
            copies: AtomicU64::new(0),
            copied_bytes: AtomicU64::new(0),
            records: AtomicU64::new(0),
            delays: Delays::default(),
            stopping: StopFlag::default(),
        }
    }

    /// Why a write is refused.
    pub(crate) fn refusal(&self) -> String {
        format!(
            "this is a follower and takes no writes; write to its leader, {}",
            self.leader
        )
    }

    /// Grows whenever anything comes from the leader.
    pub(crate) fn progress(&self) -> u64 {
        let counters = [&self.connects, &self.copied_bytes, &self.records];
        counters
            .map(|counter| counter.load(Ordering::Relaxed))
            .iter()
            .sum()
    }

    pub(crate) fn set_activity(&self, activity: FollowerActivity) {
        let mut state = self.state.lock();
        state.activity = activity;
        if activity == FollowerActivity::Following {
            state.error = None;
        }
    }

    /// Records why it starts over from a new copy.
    pub(crate) fn set_started_over(&self, why: &str) {
        self.state.lock().started_over = Some(why.to_owned());
    }

    /// Records an error; false if the error before was the same.
    pub(crate) fn set_error(&self, error: &str) -> bool {
        let mut state = self.state.lock();
        state.activity = FollowerActivity::Waiting;
        let is_new = state.error.as_deref() != Some(error);
        state.error = Some(error.to_owned());
        is_new
    }

    pub(crate) fn set_lag(&self, lag: Lag, now: Duration) {
        let mut state = self.state.lock();
        (state.lag, state.reported) = (lag, now);
    }

    /// How far it is behind: in records, as last reported by the leader, and in seconds, which grow
    /// while the leader reports nothing.
    pub(crate) fn lag(&self, now: Duration) -> (u64, Option<f64>) {
        let state = self.state.lock();
        let since = now.saturating_sub(state.reported);
        let time = state.lag.time.map(|time| (time + since).as_secs_f64());
        (state.lag.records, time)
    }

    /// As JSON, for the statistics.
    pub(crate) fn describe(&self, now: Duration) -> Value {
        let (records, seconds) = self.lag(now);
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let state = self.state.lock();
        json!({
            "leader": self.leader,
            "state": state.activity.word(),
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

    /// Appends it as metrics.
    pub(crate) fn render(&self, now: Duration, text: &mut Exposition) {
        let (records, seconds) = self.lag(now);
        let is_following = self.state.lock().activity == FollowerActivity::Following;
        let connected = gauge(
            "quire_follow_connected",
            "Whether the leader is followed now",
        );
        text.one(connected, u8::from(is_following));
        let lag_records = gauge(
            "quire_follow_lag_records",
            "Records that the leader has and this follower does not, as last reported by the \
             leader",
        );
        text.one(lag_records, records);
        let lag_seconds = gauge(
            "quire_follow_lag_seconds",
            "Time since this follower was last known to hold all that its leader had",
        );
        text.one(lag_seconds, seconds.unwrap_or(f64::NAN));
        let visible = histogram(
            "quire_follow_visible_seconds",
            "Time from when the leader reported records as durable until readers see them here",
        );
        text.head(visible);
        text.delays(
            visible.name,
            &[],
            &self.delays.counts(),
            self.delays.micros(),
        );
        let counters = [
            (
                counter(
                    "quire_follow_records_total",
                    "Records taken from the leader",
                ),
                &self.records,
            ),
            (
                counter("quire_follow_connects_total", "Times the leader answered"),
                &self.connects,
            ),
            (
                counter(
                    "quire_follow_copies_total",
                    "Copies taken of the leader: the first, and each time it had to start over",
                ),
                &self.copies,
            ),
            (
                counter(
                    "quire_follow_copied_bytes_total",
                    "Bytes of files taken from the leader",
                ),
                &self.copied_bytes,
            ),
        ];
        for (metric, value) in counters {
            text.one(metric, value.load(Ordering::Relaxed));
        }
    }
}
