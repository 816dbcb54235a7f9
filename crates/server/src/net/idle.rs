//! Who gives up its place to a newcomer: strangers first, then those who keep the server waiting,
//! then those who wait for their next request; of each kind the one that has been so for longest.
//!
//! # Invariants
//! 1. A connection whose request the server is working on is never told to go.
//! 2. A connection that has sent no request that was admitted is a stranger, whatever it does. So
//!    strangers never take the places of admitted clients.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// One that keeps the server waiting for less than this is not told to go.
const STALLED_FOR: Duration = Duration::from_millis(500);

/// One that keeps the server waiting for less than this may hold memory that others wait for.
const HOLDS_MEMORY_FOR: Duration = Duration::from_secs(5);

/// The connections of a port that may be told to go.
#[derive(Debug, Default)]
pub(crate) struct IdleConnections {
    waiting: Mutex<Waiting>,
    next: AtomicU64,
}

/// By number: since when, and how it is told.
type Line = BTreeMap<u64, (Instant, Arc<Notify>)>;

#[derive(Debug, Default)]
struct Waiting {
    strangers: Line,
    stalled: Line,
    idle: Line,
}

/// In which line a connection waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stranger,
    Stalled,
    Idle,
    /// In none: the server works for it.
    Busy,
}

/// One connection, from its beginning to its end.
#[derive(Debug)]
pub(crate) struct Presence {
    idle: Arc<IdleConnections>,
    /// Notified when it is to give up its place.
    leave: Arc<Notify>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Its line, and its number there.
    place: (Kind, u64),
    is_stranger: bool,
    requests: usize,
    /// Requests that began, whether or not they have ended.
    begun: u64,
    /// Requests that wait for the rest of their bodies.
    stalled: usize,
    /// It reads nothing of what was written.
    reads_nothing: bool,
}

/// A request under way: its connection is not idle until this is dropped.
#[derive(Debug)]
pub(crate) struct InService(Arc<Presence>);

/// A request that waits for its client until this is dropped.
#[derive(Debug)]
pub(crate) struct Stalled(Arc<Presence>);

impl IdleConnections {
    /// Tells a connection to give up its place. False if none is to.
    pub(crate) fn evict_oldest(&self) -> bool {
        self.evict(Instant::now())
    }

    fn evict(&self, now: Instant) -> bool {
        self.evict_stranger() || {
            let waiting = &mut *self.waiting.lock();
            let is_old = |entry: &(Instant, Arc<Notify>)| now >= entry.0 + STALLED_FOR;
            let stalled = waiting.stalled.first_entry();
            match stalled.filter(|stalled| is_old(stalled.get())) {
                Some(stalled) => {
                    stalled.remove().1.notify_one();
                    true
                }
                None => tell_first(&mut waiting.idle),
            }
        }
    }

    /// Tells a connection to go that has kept the server waiting for long, as others wait for the
    /// memory that it may hold. False if there is none.
    pub(crate) fn evict_stalled(&self) -> bool {
        let waiting = &mut *self.waiting.lock();
        let first = waiting.stalled.first_entry();
        let is_old = |entry: &(Instant, Arc<Notify>)| entry.0.elapsed() >= HOLDS_MEMORY_FOR;
        let stalled = first.filter(|stalled| is_old(stalled.get()));
        stalled
            .map(|stalled| stalled.remove().1.notify_one())
            .is_some()
    }

    /// Tells the stranger that came first to give up its place. False if there is none.
    pub(crate) fn evict_stranger(&self) -> bool {
        tell_first(&mut self.waiting.lock().strangers)
    }

    /// A new connection, which has sent no request yet.
    pub(crate) fn begin(self: &Arc<Self>) -> Arc<Presence> {
        let presence = Arc::new(Presence {
            idle: Arc::clone(self),
            leave: Arc::default(),
            state: Mutex::new(State {
                place: (Kind::Busy, 0),
                is_stranger: true,
                requests: 0,
                begun: 0,
                stalled: 0,
                reads_nothing: false,
            }),
        });
        presence.change(|_| {});
        presence
    }
}

fn tell_first(line: &mut Line) -> bool {
    let first = line.pop_first();
    if let Some((_, (_, leave))) = &first {
        leave.notify_one();
    }
    first.is_some()
}

impl Waiting {
    fn line(&mut self, kind: Kind) -> Option<&mut Line> {
        match kind {
            Kind::Stranger => Some(&mut self.strangers),
            Kind::Stalled => Some(&mut self.stalled),
            Kind::Idle => Some(&mut self.idle),
            Kind::Busy => None,
        }
    }
}

impl State {
    fn kind(&self) -> Kind {
        match self.requests {
            _ if self.is_stranger => Kind::Stranger,
            _ if self.reads_nothing => Kind::Stalled,
            0 => Kind::Idle,
            requests if self.stalled >= requests => Kind::Stalled,
            _ => Kind::Busy,
        }
    }
}

impl Presence {
    /// Returns when the connection is to give up its place.
    pub(crate) async fn evicted(&self) {
        self.leave.notified().await;
    }

    /// How long it may take to end, once it is told to: one that keeps the server waiting has had
    /// its time, and one that waits for its next request takes none.
    pub(crate) fn time_to_end(&self) -> Option<Duration> {
        match self.state.lock().kind() {
            Kind::Stranger => Some(STALLED_FOR),
            Kind::Stalled => Some(Duration::ZERO),
            Kind::Idle | Kind::Busy => None,
        }
    }

    /// A request begins.
    pub(crate) fn serve(self: &Arc<Self>) -> InService {
        self.change(|state| {
            state.requests += 1;
            state.begun += 1;
        });
        InService(Arc::clone(self))
    }

    /// How many requests of it have begun, if none is under way and it reads what it is sent.
    pub(crate) fn resting(&self) -> Option<u64> {
        let state = self.state.lock();
        (state.requests == 0 && !state.reads_nothing).then_some(state.begun)
    }

    /// A request of it was admitted: it is no stranger.
    pub(crate) fn admit(&self) {
        self.change(|state| state.is_stranger = false);
    }

    /// Whether it reads nothing of what was written.
    pub(crate) fn set_reads_nothing(&self, reads_nothing: bool) {
        self.change(|state| state.reads_nothing = reads_nothing);
    }

    /// Changes what is known of it, and its place with that.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let state = &mut *self.state.lock();
        change(state);
        let (before, number) = state.place;
        let kind = state.kind();
        // One that waits for its next request goes to the end of its line with each.
        if kind == before {
            return;
        }
        let waiting = &mut *self.idle.waiting.lock();
        if let Some(line) = waiting.line(before) {
            line.remove(&number);
        }
        let number = self.idle.next.fetch_add(1, Ordering::Relaxed);
        if let Some(line) = waiting.line(kind) {
            line.insert(number, (Instant::now(), Arc::clone(&self.leave)));
        }
        state.place = (kind, number);
    }
}

impl InService {
    /// The request was admitted.
    pub(crate) fn admit(&self) {
        self.0.admit();
    }

    /// The request waits for the rest of its body.
    pub(crate) fn stall(&self) -> Stalled {
        self.0.change(|state| state.stalled += 1);
        Stalled(Arc::clone(&self.0))
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        self.0.change(|state| state.stalled -= 1);
    }
}

impl Drop for InService {
    fn drop(&mut self) {
        self.0.change(|state| state.requests -= 1);
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let (kind, number) = self.state.lock().place;
        if let Some(line) = self.idle.waiting.lock().line(kind) {
            line.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    async fn is_told(presence: &Presence) -> bool {
        let mut evicted = pin!(presence.evicted());
        poll_fn(|cx| Poll::Ready(evicted.as_mut().poll(cx).is_ready())).await
    }

    #[tokio::test]
    async fn strangers_go_before_those_who_stall_and_these_before_the_idle() {
        let all = Arc::new(IdleConnections::default());
        let [idle, busy, stalled, deaf, stranger, guesser] = [(); 6].map(|()| all.begin());
        for known in [&idle, &busy, &stalled, &deaf] {
            drop(known.serve());
            known.admit();
        }
        let _request = busy.serve();
        let request = stalled.serve();
        let _stalled = request.stall();
        let _answer = deaf.serve();
        deaf.set_reads_nothing(true);
        // A stranger stays one while its token is checked.
        let _guess = guesser.serve();
        let later = Instant::now() + STALLED_FOR;
        for next in [&stranger, &guesser, &stalled, &deaf, &idle] {
            assert!(!is_told(next).await);
            assert!(all.evict(later));
            assert!(is_told(next).await);
        }
        assert!(!all.evict(later));
        assert!(!is_told(&busy).await);
    }

    #[tokio::test]
    async fn one_who_pauses_for_a_moment_or_goes_on_keeps_its_place() {
        let all = Arc::new(IdleConnections::default());
        let sender = all.begin();
        sender.admit();
        let request = sender.serve();
        let pause = request.stall();
        let begun = Instant::now();
        assert!(!all.evict(begun));
        drop(pause);
        assert!(!all.evict(begun + STALLED_FOR));
        drop(request);
        assert!(all.evict(begun));
        drop(sender);
        assert!(!all.evict(begun));
    }
}
