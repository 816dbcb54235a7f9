//! Statistics as JSON, and metrics.

use std::sync::Arc;

use quiredb::DatabaseStats;

use crate::audit::Audit;
use crate::engine::Engine;
use crate::follow::status::FollowStatus;
use crate::http::answer::Answer;
use crate::http::buffers::Buffers;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::limits::Limits;
use crate::memcached::port_state::PortState;
use crate::metrics::exposition::{Exposition, counter, gauge};
use crate::metrics::requests::RequestMetrics;
use crate::metrics::{database, port};
use crate::net::connections::Connections;
use crate::slow::SlowLog;
use crate::tasks::registry::Tasks;

/// What the statistics use of the server.
pub(crate) struct StatsState {
    pub(crate) engine: Engine,
    /// If this is a follower.
    pub(crate) following: Option<Arc<FollowStatus>>,
}

/// What the metrics use of the server.
pub(crate) struct MetricsState {
    pub(crate) audit: Option<Audit>,
    pub(crate) slow_log: Option<SlowLog>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) engine: Engine,
    pub(crate) connections: Arc<Connections>,
    pub(crate) requests: Arc<RequestMetrics>,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) buffers: Buffers,
    /// If the memcached protocol is served.
    pub(crate) memcached: Option<Arc<PortState>>,
    /// If this is a follower.
    pub(crate) following: Option<Arc<FollowStatus>>,
}

/// `GET /_quire/stats`
pub(crate) async fn stats(call: Call<StatsState>) -> Outcome<Answer> {
    let StatsState { engine, following } = call.state;
    let work = move |engine: &Engine| {
        let stats = database_stats(engine)?;
        let mut stats =
            serde_json::to_value(&stats).map_err(|error| Failure::internal(error.to_string()))?;
        if let Some(following) = &following {
            stats["following"] = following.describe(engine.now());
        }
        Ok(Answer::ok(&stats))
    };
    engine.read(work).await?
}

/// `GET /metrics`
pub(crate) async fn metrics(call: Call<MetricsState>) -> Outcome<Answer> {
    let state = call.state;
    let engine = state.engine.clone();
    let work = move |engine: &Engine| {
        let stats = database_stats(engine)?;
        let mut text = Exposition::default();
        port::render(&state.connections, state.buffers.used_bytes(), &mut text);
        let metric = gauge(
            "quire_requests_running",
            "Requests running now, this one included",
        );
        text.one(metric, state.tasks.count());
        state.requests.render_bulk(&mut text);
        state.requests.render_routes(&mut text);
        if let Some(memcached) = &state.memcached {
            memcached.counters.render(&mut text);
        }
        if let Some(audit) = &state.audit {
            let (written, lost) = audit.counts();
            let metric = counter("quire_audit_lines_total", "Lines of the audit log written");
            text.one(metric, written);
            let metric = counter(
                "quire_audit_lost_total",
                "Lines of the audit log that could not be written",
            );
            text.one(metric, lost);
        }
        if let Some(slow) = &state.slow_log {
            let (seen, lost) = slow.counts();
            let metric = counter(
                "quire_slow_requests_total",
                "Requests that took longer than the slow log allows",
            );
            text.one(metric, seen);
            let metric = counter(
                "quire_slow_log_lost_total",
                "Lines of the slow log that could not be written",
            );
            text.one(metric, lost);
        }
        let metric = counter(
            "quire_limited_total",
            "Requests and connections refused because their client is over a limit",
        );
        text.one(metric, state.limits.refused());
        database::render(&stats, &mut text);
        if let Some(following) = &state.following {
            following.render(engine.now(), &mut text);
        }
        Ok(Answer::text(
            "text/plain; version=0.0.4; charset=utf-8",
            text.text(),
        ))
    };
    engine.read(work).await?
}

fn database_stats(engine: &Engine) -> Outcome<DatabaseStats> {
    let stats = engine.database().stats();
    stats.map_err(|error| Failure::engine(&error, None))
}
