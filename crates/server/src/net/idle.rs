//! Connections that wait for their next request: the oldest of them gives its place to a newcomer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The connections of a port that have no request, by since when.
#[derive(Debug, Default)]
pub(crate) struct IdleConnections {
    waiting: Mutex<BTreeMap<u64, Arc<Notify>>>,
    next: AtomicU64,
}

/// One connection, from its beginning to its end.
#[derive(Debug)]
pub(crate) struct Presence {
    idle: Arc<IdleConnections>,
    /// Notified when it is to give up its place.
    leave: Arc<Notify>,
    /// Its place among the idle ones, if it is one.
    since: Mutex<Option<u64>>,
    requests: AtomicUsize,
    has_served: AtomicBool,
}

/// A request under way: its connection is not idle until this is dropped.
#[derive(Debug)]
pub(crate) struct InService(Arc<Presence>);

impl IdleConnections {
    /// Asks the connection that has been idle for longest to give up its place. False if none is
    /// idle.
    pub(crate) fn evict_oldest(&self) -> bool {
        let oldest = self.waiting.lock().pop_first();
        if let Some((_, leave)) = &oldest {
            leave.notify_one();
        }
        oldest.is_some()
    }

    /// A new connection, which has sent no request yet.
    pub(crate) fn begin(self: &Arc<Self>) -> Arc<Presence> {
        let presence = Arc::new(Presence {
            idle: Arc::clone(self),
            leave: Arc::default(),
            since: Mutex::new(None),
            requests: AtomicUsize::new(0),
            has_served: AtomicBool::new(false),
        });
        presence.rest();
        presence
    }
}

impl Presence {
    /// Returns when the connection is to give up its place.
    pub(crate) async fn evicted(&self) {
        self.leave.notified().await;
    }

    /// Whether it never sent a whole request.
    pub(crate) fn is_new(&self) -> bool {
        !self.has_served.load(Ordering::Acquire)
    }

    /// A request begins.
    pub(crate) fn serve(self: &Arc<Self>) -> InService {
        self.requests.fetch_add(1, Ordering::AcqRel);
        self.has_served.store(true, Ordering::Release);
        self.wake();
        InService(Arc::clone(self))
    }

    fn rest(&self) {
        let since = self.idle.next.fetch_add(1, Ordering::Relaxed);
        let mut place = self.since.lock();
        let mut waiting = self.idle.waiting.lock();
        waiting.insert(since, Arc::clone(&self.leave));
        if let Some(before) = place.replace(since) {
            waiting.remove(&before);
        }
    }

    fn wake(&self) {
        if let Some(since) = self.since.lock().take() {
            self.idle.waiting.lock().remove(&since);
        }
    }
}

impl Drop for InService {
    fn drop(&mut self) {
        if self.0.requests.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.rest();
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.wake();
    }
}
