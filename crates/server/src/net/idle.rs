//! Who gives up its place to a newcomer: strangers first, then those who keep the server waiting,
//! then those who wait for their next request; of each kind the one that has been so for longest.
//!
//! # Invariants
//! 1. A connection whose request the server is working on is never told to go.
//! 2. A connection that has sent no request that was admitted is a stranger, whatever it does. So
//!    strangers never take the places of admitted clients.
//! 3. Strangers of other machines go before those of this one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::unread::{FREE_BYTES, Seat, Unread};

/// One that keeps the server waiting for less than this is not told to go.
const STALLED_FOR: Duration = Duration::from_millis(500);

/// One that keeps the server waiting for less than this may hold memory that others wait for.
const HOLDS_MEMORY_FOR: Duration = Duration::from_secs(5);

/// The part of all places that is kept from strangers: one in this many.
pub(crate) const KEPT_PART: usize = 16;

/// How often strangers are told to go because too much of them is unread.
const TELL_EVERY: Duration = Duration::from_millis(10);

/// How often a request looks whether it may begin.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The connections of a port that may be told to go.
#[derive(Debug, Default)]
pub(crate) struct IdleConnections {
    waiting: Mutex<Waiting>,
    next: AtomicU64,
    unread: Unread,
    /// When strangers were told to go last because too much of them is unread.
    told: Mutex<Option<Instant>>,
}

/// By number: since when, and what is known of it.
type Line = BTreeMap<u64, (Instant, Arc<Seat>)>;

#[derive(Debug, Default)]
struct Waiting {
    strangers: Line,
    /// Strangers of this machine.
    locals: Line,
    stalled: Line,
    idle: Line,
}

/// In which line a connection waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stranger,
    Local,
    Stalled,
    Idle,
    /// In none: the server works for it.
    Busy,
}

/// One connection, from its beginning to its end.
#[derive(Debug)]
pub(crate) struct Presence {
    idle: Arc<IdleConnections>,
    seat: Arc<Seat>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Its line, and its number there.
    place: (Kind, u64),
    is_stranger: bool,
    /// Of this machine.
    is_local: bool,
    requests: usize,
    /// Requests that began, whether or not they have ended.
    begun: u64,
    /// Requests that wait for the rest of their bodies.
    stalled: usize,
    /// It reads nothing of what was written.
    reads_nothing: bool,
    /// A request of it works, while those that came later wait because memory is short.
    has_turn: bool,
}

/// A request under way: its connection is not idle until this is dropped.
#[derive(Debug)]
pub(crate) struct InService {
    presence: Arc<Presence>,
    /// The bytes of its head.
    head_bytes: usize,
}

/// The one request of a connection that works while memory is short, until this is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Option<Arc<Presence>>);

/// A request that waits for its client until this is dropped.
#[derive(Debug)]
pub(crate) struct Stalled(Arc<Presence>);

impl IdleConnections {
    /// Tells a connection to give up its place, but not the one that it is for. False if none is.
    pub(crate) fn evict_oldest(&self, newcomer: Option<&Presence>) -> bool {
        self.evict(Instant::now(), newcomer)
    }

    fn evict(&self, now: Instant, newcomer: Option<&Presence>) -> bool {
        self.evict_stranger(newcomer) || {
            let waiting = &mut *self.waiting.lock();
            let is_old = |entry: &(Instant, Arc<Seat>)| now >= entry.0 + STALLED_FOR;
            let stalled = waiting.stalled.first_entry();
            match stalled.filter(|stalled| is_old(stalled.get())) {
                Some(stalled) => {
                    stalled.remove().1.leave.notify_one();
                    true
                }
                None => tell_first(&mut waiting.idle, newcomer),
            }
        }
    }

    /// Tells a connection to go that has kept the server waiting for long, as others wait for the
    /// memory that it may hold. False if there is none.
    pub(crate) fn evict_stalled(&self) -> bool {
        let waiting = &mut *self.waiting.lock();
        let first = waiting.stalled.first_entry();
        let is_old = |entry: &(Instant, Arc<Seat>)| entry.0.elapsed() >= HOLDS_MEMORY_FOR;
        let stalled = first.filter(|stalled| is_old(stalled.get()));
        stalled
            .map(|stalled| stalled.remove().1.leave.notify_one())
            .is_some()
    }

    /// Tells the stranger that came first to give up its place, if there is one of another machine
    /// such a one. False if there is none.
    fn evict_stranger(&self, newcomer: Option<&Presence>) -> bool {
        let waiting = &mut *self.waiting.lock();
        tell_first(&mut waiting.strangers, newcomer) || tell_first(&mut waiting.locals, newcomer)
    }

    /// Few places are `free`, fewer than the `kept` ones: a stranger gives up its. The last half of
    /// them is for admitted clients, the first one for clients of this machine too.
    pub(crate) fn keep_places(&self, free: usize, kept: usize, newcomer: Option<&Presence>) {
        if free < kept / 2 {
            self.evict_stranger(newcomer);
        } else if free < kept {
            tell_first(&mut self.waiting.lock().strangers, newcomer);
        }
    }

    /// Says whether more memory is resident than is counted. Then less may be unread, and strangers
    /// go that hold much.
    pub(crate) fn set_pressed(&self, is_pressed: bool) {
        self.unread.set_pressed(is_pressed);
        if self.unread.is_full() {
            self.make_room(Instant::now());
        }
    }

    /// Tells the strangers to go that have sent much of which nothing was taken, but those that may
    /// be about to be admitted.
    fn evict_holders(&self, now: Instant) {
        let waiting = &mut *self.waiting.lock();
        for line in [&mut waiting.strangers, &mut waiting.locals] {
            line.retain(|_, (since, seat)| {
                let goes = seat.unread() > FREE_BYTES && now >= *since + STALLED_FOR;
                if goes {
                    seat.leave.notify_one();
                }
                !goes
            });
        }
    }

    /// A connection may be read no further: strangers of whom much is unread are told to go.
    fn make_room(&self, now: Instant) {
        let told = &mut *self.told.lock();
        if told.is_none_or(|told| now >= told + TELL_EVERY) {
            *told = Some(now);
            self.evict_holders(now);
        }
    }

    /// A new connection, which has sent no request yet. `is_local`: of this machine.
    pub(crate) fn begin(self: &Arc<Self>, is_local: bool) -> Arc<Presence> {
        let presence = Arc::new(Presence {
            idle: Arc::clone(self),
            seat: Arc::default(),
            state: Mutex::new(State {
                place: (Kind::Busy, 0),
                is_stranger: true,
                is_local,
                requests: 0,
                begun: 0,
                stalled: 0,
                reads_nothing: false,
                has_turn: false,
            }),
        });
        presence.change(|_| {});
        presence
    }
}

/// Tells the first of a line to go that is not the newcomer. False if there is none.
fn tell_first(line: &mut Line, newcomer: Option<&Presence>) -> bool {
    let is_other = |seat| newcomer.is_none_or(|newcomer| !Arc::ptr_eq(&newcomer.seat, seat));
    let first = line.iter().find(|(_, (_, seat))| is_other(seat));
    let removed = first
        .map(|(&number, _)| number)
        .and_then(|number| line.remove(&number));
    if let Some((_, seat)) = &removed {
        seat.leave.notify_one();
    }
    removed.is_some()
}

impl Waiting {
    fn line(&mut self, kind: Kind) -> Option<&mut Line> {
        match kind {
            Kind::Stranger => Some(&mut self.strangers),
            Kind::Local => Some(&mut self.locals),
            Kind::Stalled => Some(&mut self.stalled),
            Kind::Idle => Some(&mut self.idle),
            Kind::Busy => None,
        }
    }
}

impl State {
    fn kind(&self) -> Kind {
        match self.requests {
            _ if self.is_stranger && self.is_local => Kind::Local,
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
        self.seat.leave.notified().await;
    }

    /// How long it may take to end, once it is told to: one that keeps the server waiting has had
    /// its time, and one that waits for its next request takes none.
    pub(crate) fn time_to_end(&self) -> Option<Duration> {
        let state = self.state.lock();
        match state.kind() {
            // Its token is being checked: it gets its answer.
            Kind::Stranger | Kind::Local if state.requests > 0 => Some(STALLED_FOR),
            Kind::Stranger | Kind::Local | Kind::Stalled => Some(Duration::ZERO),
            Kind::Idle | Kind::Busy => None,
        }
    }

    /// A request begins, whose head has about `head_bytes`.
    pub(crate) fn serve(self: &Arc<Self>, head_bytes: usize) -> InService {
        self.change(|state| {
            state.requests += 1;
            state.begun += 1;
        });
        InService {
            presence: Arc::clone(self),
            head_bytes,
        }
    }

    /// Returns when a request may begin to work: while memory is short, one of each connection
    /// works at a time.
    pub(crate) async fn turn(self: &Arc<Self>) -> Turn {
        while self.idle.unread.is_pressed() {
            if !std::mem::replace(&mut self.state.lock().has_turn, true) {
                return Turn(Some(Arc::clone(self)));
            }
            sleep(LOOK_EVERY).await;
        }
        Turn(None)
    }

    /// The bytes that may be read of its socket now; none while too much of the port is unread.
    pub(crate) fn room(&self) -> usize {
        let room = self.seat.room(&self.idle.unread);
        if room == 0 {
            self.idle.make_room(Instant::now());
        }
        room
    }

    /// Bytes were read of its socket.
    pub(crate) fn received(&self, bytes: usize) {
        self.seat.received(bytes, &self.idle.unread);
    }

    /// Bytes that were read have been taken by a handler, or nobody needs them.
    pub(crate) fn taken(&self, bytes: usize) {
        self.seat.taken(bytes, &self.idle.unread);
    }

    /// Wakes a reader once bytes were taken.
    pub(crate) fn wake_when_taken(&self, reader: &Waker) {
        self.seat.wake_when_taken(reader);
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
            line.insert(number, (Instant::now(), Arc::clone(&self.seat)));
        }
        state.place = (kind, number);
    }
}

impl InService {
    /// The request was admitted.
    pub(crate) fn admit(&self) {
        self.presence.admit();
    }

    /// The request waits for the rest of its body.
    pub(crate) fn stall(&self) -> Stalled {
        self.presence.change(|state| state.stalled += 1);
        Stalled(Arc::clone(&self.presence))
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        self.0.change(|state| state.stalled -= 1);
    }
}

impl Drop for InService {
    fn drop(&mut self) {
        let mut is_last = false;
        self.presence.change(|state| {
            state.requests -= 1;
            is_last = state.requests == 0;
        });
        self.presence.taken(self.head_bytes);
        if is_last {
            // What is left are bytes of the protocol, or requests that are read next.
            self.presence.taken(self.presence.seat.unread() / 2);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(presence) = &self.0 {
            presence.state.lock().has_turn = false;
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.taken(usize::MAX);
        let (kind, number) = self.state.lock().place;
        if let Some(line) = self.idle.waiting.lock().line(kind) {
            line.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::task::Poll;

    async fn is_told(presence: &Presence) -> bool {
        let mut evicted = pin!(presence.evicted());
        poll_fn(|cx| Poll::Ready(evicted.as_mut().poll(cx).is_ready())).await
    }

    #[tokio::test]
    async fn strangers_go_before_those_who_stall_and_these_before_the_idle() {
        let all = Arc::new(IdleConnections::default());
        let [idle, busy, stalled, deaf, local, guesser] = [(); 6].map(|()| all.begin(true));
        let stranger = all.begin(false);
        for known in [&idle, &busy, &stalled, &deaf] {
            drop(known.serve(0));
            known.admit();
        }
        let _request = busy.serve(0);
        let request = stalled.serve(0);
        let _stalled = request.stall();
        let _answer = deaf.serve(0);
        deaf.set_reads_nothing(true);
        // A stranger stays one while its token is checked.
        let _guess = guesser.serve(0);
        let later = Instant::now() + STALLED_FOR;
        for next in [&stranger, &local, &guesser, &stalled, &deaf, &idle] {
            assert!(!is_told(next).await);
            assert!(all.evict(later, None));
            assert!(is_told(next).await);
        }
        assert!(!all.evict(later, None));
        assert!(!is_told(&busy).await);
    }

    #[tokio::test]
    async fn nobody_is_told_to_go_for_itself() {
        let all = Arc::new(IdleConnections::default());
        let [first, second] = [(); 2].map(|()| all.begin(true));
        assert!(all.evict_oldest(Some(&first)));
        assert!(is_told(&second).await && !is_told(&first).await);
        assert!(!all.evict_oldest(Some(&first)));
        all.keep_places(0, 8, Some(&first));
        assert!(!is_told(&first).await);
    }

    #[tokio::test]
    async fn one_who_pauses_for_a_moment_or_goes_on_keeps_its_place() {
        let all = Arc::new(IdleConnections::default());
        let sender = all.begin(true);
        sender.admit();
        let request = sender.serve(0);
        let pause = request.stall();
        let begun = Instant::now();
        assert!(!all.evict(begun, None));
        drop(pause);
        assert!(!all.evict(begun + STALLED_FOR, None));
        drop(request);
        assert!(all.evict(begun, None));
        drop(sender);
        assert!(!all.evict(begun, None));
    }

    #[tokio::test]
    async fn the_last_places_are_kept_from_strangers_and_the_very_last_from_local_ones() {
        let all = Arc::new(IdleConnections::default());
        let [local, remote] = [true, false].map(|is_local| all.begin(is_local));
        all.keep_places(8, 8, None);
        assert!(!is_told(&remote).await && !is_told(&local).await);
        all.keep_places(7, 8, None);
        assert!(is_told(&remote).await && !is_told(&local).await);
        all.keep_places(4, 8, None);
        assert!(!is_told(&local).await);
        all.keep_places(3, 8, None);
        assert!(is_told(&local).await);
    }

    #[tokio::test]
    async fn strangers_that_hold_much_go_when_a_port_is_read_no_further() {
        let all = Arc::new(IdleConnections::default());
        let [holder, sender, other] = [(); 3].map(|()| all.begin(false));
        sender.admit();
        for one in [&holder, &sender] {
            (0..8).for_each(|_| one.received(512 << 10));
        }
        (0..4).for_each(|_| all.begin(false).received(1 << 20));
        assert_eq!(other.room(), usize::MAX, "those have ended");
        let more: Vec<_> = (0..4).map(|_| all.begin(false)).collect();
        more.iter().for_each(|one| one.received(1 << 20));
        assert_eq!((other.room(), sender.room()), (FREE_BYTES, 0));
        assert!(!is_told(&holder).await, "it may be about to be admitted");
        all.make_room(Instant::now() + STALLED_FOR);
        assert!(is_told(&holder).await && !is_told(&sender).await && !is_told(&other).await);
    }

    #[tokio::test]
    async fn under_pressure_a_connection_works_on_one_request() {
        let all = Arc::new(IdleConnections::default());
        let client = all.begin(false);
        drop((client.turn().await, client.turn().await));
        all.set_pressed(true);
        let first = client.turn().await;
        let mut second = pin!(client.turn());
        assert!(poll_fn(|cx| Poll::Ready(second.as_mut().poll(cx).is_pending())).await);
        drop(first);
        drop(second.await);
        all.set_pressed(false);
        let _first = client.turn().await;
        drop(client.turn().await);
    }
}
