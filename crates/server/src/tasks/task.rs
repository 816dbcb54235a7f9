//! One running request, or work in the background.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use axum::http::{Method, StatusCode, Uri};
use parking_lot::Mutex;
use quiredb::View;
use quiredb::query::Explain;
use tokio::sync::Notify;

use super::action;
use super::progress::{Progress, StageProgress};
use crate::held_memtables::holds_memtables;
use crate::http::failure::Failure;
use crate::limits::Client;
use crate::slow::CpuTime;

/// The longest text of a body that is listed.
const BODY_BYTES_MAX: usize = 1 << 10;

/// One running request, or work in the background.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) id: u64,
    /// The task that began it, if it is work in the background.
    pub(crate) parent: Option<u64>,
    pub(crate) action: &'static str,
    pub(crate) request: Origin,
    /// When it began: microseconds since 1970 UTC, and by the monotonic clock.
    pub(crate) start_micros: i64,
    pub(crate) begun: Duration,
    pub(crate) is_cancellable: bool,
    /// The beginning of the body, once it was read.
    body: OnceLock<String>,
    /// How its search was executed, if that was noted.
    plan: Mutex<Option<Box<Explain>>>,
    /// The documents that it read in the order of their keys, and how many of them matched.
    scanned: Mutex<Option<Scanned>>,
    /// The CPU time of its threads, if that is measured.
    cpu: OnceLock<CpuTime>,
    /// The documents a second that it may do, as the bits of a float; infinite without a limit.
    rate: AtomicU64,
    /// How far it is, if it is a change by query in one part.
    progress: Mutex<Option<Progress>>,
    /// How far it is, if it is work in stages that has begun.
    stage: Mutex<Option<StageProgress>>,
    /// The parts of a change by query, if it has several.
    slices: OnceLock<Vec<Arc<Task>>>,
    /// What it reads, while it does.
    views: Mutex<Weak<Vec<View>>>,
    is_cancelled: AtomicBool,
    /// It is cancelled because writes wait for the memory that its views hold.
    is_for_memory: AtomicBool,
    cancelled: Notify,
}

/// The request that a task comes from.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) sent: Sent,
    /// The name of the caller's token; empty for that of the server, and without one.
    pub(crate) token: String,
    /// Of the client; none if the server is called in process.
    pub(crate) address: Option<SocketAddr>,
    /// The header by which a client names its requests.
    pub(crate) opaque_id: Option<String>,
}

/// Documents that were read in the order of their keys, each tested against the query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Scanned {
    pub(crate) read: u64,
    pub(crate) matched: u64,
}

impl Origin {
    /// Who sent it.
    pub(crate) fn client(&self) -> Client {
        Client::of(&self.token, self.address.map(|address| address.ip()))
    }
}

/// What was sent.
#[derive(Debug, Clone)]
pub(crate) enum Sent {
    Http(Method, Uri),
    /// Requests of memcached that arrived together: the first one, and their number.
    Memcached {
        first: String,
        count: usize,
    },
}

impl Task {
    /// A task that begins. `now` is the time since 1970, in microseconds, and by the monotonic
    /// clock.
    pub(super) fn new(
        id: u64,
        parent: Option<u64>,
        action: &'static str,
        request: Origin,
        now: (i64, Duration),
    ) -> Task {
        Task {
            id,
            parent,
            action,
            request,
            start_micros: now.0,
            begun: now.1,
            is_cancellable: parent.is_some() || action::is_cancellable(action),
            body: OnceLock::new(),
            plan: Mutex::default(),
            scanned: Mutex::default(),
            cpu: OnceLock::new(),
            rate: AtomicU64::new(f64::INFINITY.to_bits()),
            progress: Mutex::new(None),
            stage: Mutex::new(None),
            slices: OnceLock::new(),
            views: Mutex::default(),
            is_cancelled: AtomicBool::new(false),
            is_for_memory: AtomicBool::new(false),
            cancelled: Notify::new(),
        }
    }

    /// Keeps the beginning of the request's body, to be listed.
    pub(crate) fn set_body(&self, body: &[u8]) {
        let start = body.get(..BODY_BYTES_MAX).unwrap_or(body);
        if !start.is_empty() {
            // The body is read once, so nothing is lost if it was set.
            let _ = self.body.set(String::from_utf8_lossy(start).into_owned());
        }
    }

    /// Its CPU time is measured here.
    pub(crate) fn set_cpu(&self, cpu: &CpuTime) {
        // It is measured once.
        let _ = self.cpu.set(cpu.clone());
    }

    /// The CPU time of its threads, if that is measured.
    pub(crate) fn cpu(&self) -> Option<&CpuTime> {
        self.cpu.get()
    }

    /// Keeps how its search was executed. Of several searches, that of the longest.
    pub(crate) fn set_plan(&self, plan: Box<Explain>) {
        let took =
            |plan: &Explain| plan.planning + plan.filtering + plan.ordering + plan.aggregating;
        let mut kept = self.plan.lock();
        if kept.as_ref().is_none_or(|kept| took(kept) < took(&plan)) {
            *kept = Some(plan);
        }
    }

    /// How its search was executed, if that was noted.
    pub(crate) fn plan(&self) -> Option<Box<Explain>> {
        self.plan.lock().clone()
    }

    /// Counts documents that it read in the order of their keys.
    pub(crate) fn add_scanned(&self, scanned: Scanned) {
        let kept = &mut *self.scanned.lock();
        let before = kept.unwrap_or_default();
        *kept = Some(Scanned {
            read: before.read + scanned.read,
            matched: before.matched + scanned.matched,
        });
    }

    /// The documents that it read in the order of their keys, if it did.
    pub(crate) fn scanned(&self) -> Option<Scanned> {
        *self.scanned.lock()
    }

    /// What it does, for people: the request, and the beginning of its body.
    pub(crate) fn description(&self) -> String {
        let (method, uri) = match &self.request.sent {
            Sent::Http(method, uri) => (method, uri),
            Sent::Memcached { first, count: 1 } => return first.clone(),
            Sent::Memcached { first, count } => return format!("{first}, and {} more", count - 1),
        };
        let path = uri.path_and_query().map_or("", |path| path.as_str());
        match self.body.get() {
            Some(body) => format!("{method} {path} {}", body.trim_end()),
            None => format!("{method} {path}"),
        }
    }

    /// Whether it does documents at a rate.
    pub(crate) fn has_rate(&self) -> bool {
        action::has_rate(self.action)
    }

    /// Limits it to a rate in documents a second, or not any more.
    pub(crate) fn set_rate(&self, rate: Option<f64>) {
        let rate = rate.unwrap_or(f64::INFINITY);
        self.rate.store(rate.to_bits(), Ordering::Relaxed);
    }

    /// The rate that it is limited to.
    pub(crate) fn rate(&self) -> Option<f64> {
        let rate = f64::from_bits(self.rate.load(Ordering::Relaxed));
        rate.is_finite().then_some(rate)
    }

    /// Says how far it is.
    pub(crate) fn set_progress(&self, progress: Progress) {
        *self.progress.lock() = Some(progress);
    }

    /// Says how far work in stages is.
    pub(crate) fn set_stage(&self, stage: StageProgress) {
        *self.stage.lock() = Some(stage);
    }

    /// How far it is, if it is work in stages that has begun.
    pub(super) fn stage(&self) -> Option<StageProgress> {
        *self.stage.lock()
    }

    /// It is done in these parts.
    pub(crate) fn set_slices(&self, slices: Vec<Arc<Task>>) {
        // It is divided once.
        let _ = self.slices.set(slices);
    }

    /// The parts that it is done in; none if it is not divided.
    pub(super) fn slices(&self) -> &[Arc<Task>] {
        self.slices.get().map_or(&[], Vec::as_slice)
    }

    /// How far it is, with all its parts, if it is a change by query that has begun.
    pub(super) fn progress(&self) -> Option<Progress> {
        let mut all = self.progress.lock().clone();
        // A part has no parts.
        for slice in self.slices() {
            if let Some(progress) = slice.progress.lock().as_ref() {
                all.get_or_insert_default().add(progress);
            }
        }
        all
    }

    /// It reads these views, until they are dropped.
    pub(crate) fn set_views(&self, views: &Arc<Vec<View>>) {
        *self.views.lock() = Arc::downgrade(views);
    }

    /// Whether what it reads holds memtables that are free without it. Not of a task that was told
    /// to end.
    pub(crate) fn holds_memtables(&self) -> bool {
        let views = self.views.lock().upgrade();
        !self.is_cancelled() && views.is_some_and(|views| holds_memtables(&views))
    }

    /// Tells it to end, because writes wait for the memory that it holds.
    pub(crate) fn end_for_memory(&self) {
        self.is_for_memory.store(true, Ordering::Release);
        self.cancel();
    }

    /// Whether it was told to end for the memory that it held.
    pub(crate) fn is_ended_for_memory(&self) -> bool {
        self.is_for_memory.load(Ordering::Acquire)
    }

    /// Tells it to end.
    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
        self.cancelled.notify_waiters();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire)
    }

    /// Returns once it is to end at once. A task that ends itself is never told so.
    pub(crate) async fn cancelled(&self) {
        if action::ends_itself(self.action) {
            return std::future::pending().await;
        }
        let mut cancelled = pin!(self.cancelled.notified());
        // From here on no notice is missed.
        cancelled.as_mut().enable();
        if !self.is_cancelled() {
            cancelled.await;
        }
    }

    /// Checks that it may go on.
    ///
    /// # Errors
    /// If it was cancelled.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.is_cancelled() {
            false => Ok(()),
            true => Err(self.failure()),
        }
    }

    /// The answer to a request that was cancelled.
    pub(crate) fn failure(&self) -> Failure {
        if self.is_ended_for_memory() {
            return Failure::new(
                StatusCode::TOO_MANY_REQUESTS,
                "circuit_breaking_exception",
                "writes waited for the memory that this request held: send it again later, or \
                 read its answer faster",
            );
        }
        Failure::new(
            StatusCode::BAD_REQUEST,
            "task_cancelled_exception",
            "cancelled task with reason: by user request",
        )
    }
}
