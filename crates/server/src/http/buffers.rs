//! The room for requests: bodies as they arrive, documents that are handled, and long answers until
//! they are read. It is the part of the database's memory for work in progress, which background
//! work with large documents draws from too.
//!
//! # Invariants
//! 1. The bytes of all [`Held`] together never exceed the bound.
//! 2. A request waits for memory only while it holds none. A reservation grows at once or not at
//!    all. So requests never wait for each other in a circle (no deadlock).
//! 3. While requests wait, clients that have stalled for long are cut off, and what is kept between
//!    requests is given back: neither is waited for.
//! 4. A request that has waited long is next: no other heavy one takes memory before it.
//! 5. A heavy request leaves some memory to light ones, if there is ever so much.
//! 6. Under memory pressure one heavy request at a time takes memory. A search that is expected to
//!    be over at once is not heavy: it has no time to use what it reserves.
//! 7. A write waits for memtables before it takes memory: one that has memory can go on.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::http::StatusCode;
use bytes::Bytes;
use parking_lot::RwLock;
use quire_env::{Budget, Charge};
use quire_model::Document;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use super::failure::{Failure, Outcome};
use crate::net::idle::IdleConnections;

/// An answer up to this long reserves no memory: the operating system buffers that much at once.
pub(crate) const SMALL_BYTES: usize = 64 << 10;

/// A document whose record is longer has its memory reserved before it is read.
pub(crate) const LARGE_BYTES: u64 = 256 << 10;

/// What handling a large document holds of it at most: the block of the log that it lies in, the
/// same before decompression or the document that is made of it, and the answer or the new record.
pub(crate) const COPIES: usize = 3;

/// The most bytes that a large document takes while it is written, from its text on: the text, the
/// encoding and what its tables are made of; then the encoding and its record; then the record and
/// its block of the log.
pub(crate) fn written_bytes(json: &[u8]) -> usize {
    // A text that is no document is refused before it is encoded.
    let encoded = Document::encoded_bytes(json).unwrap_or(0);
    json.len().saturating_add(encoded.saturating_mul(2))
}

/// A request that wants more than this is heavy: it waits behind those that came before it, and
/// behind background work.
const HEAVY_BYTES: usize = 1 << 20;

/// How long a heavy request waits for its turn; then it takes what is free, too.
const TURN_TIME_MAX: Duration = Duration::from_millis(500);

/// How long a heavy write waits for memtables before it takes memory; then the database says why
/// they stay full.
const MEMTABLES_TIME_MAX: Duration = Duration::from_secs(10);

/// A heavy request whose turn it has been for so long has all other heavy ones wait.
const OVERDUE_AFTER: Duration = Duration::from_secs(1);

/// The most bytes that heavy requests leave to light ones; half of what is left, if that is less.
const LIGHT_BYTES: u64 = 2 << 20;

/// How often memory is looked for while it is not free.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The room for requests. A clone is another handle to the same.
#[derive(Debug, Clone)]
pub(crate) struct Buffers {
    budget: Arc<Budget>,
    /// What writes take memory of that only a flush frees.
    memtables: Arc<Budget>,
    line: Arc<WaitingLine>,
    turns: Arc<Turns>,
    /// More memory is resident than is counted.
    is_pressed: Arc<AtomicBool>,
    /// Those who may hold memory and not take what they hold it for.
    clients: Arc<RwLock<Vec<Weak<IdleConnections>>>>,
    /// Those who keep memory between requests.
    keepers: Arc<RwLock<Keepers>>,
}

/// Lines of those who want memory, by how much they want: none waits behind those who want much
/// more. Each has one permit, for the one whose turn it is.
#[derive(Debug)]
struct Turns {
    small: Semaphore,
    light: Semaphore,
    instant: Semaphore,
    heavy: Semaphore,
}

/// The line that a request waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Small,
    Light,
    /// Of searches that are over at once.
    Instant,
    Heavy,
}

impl Line {
    /// Of a request for `bytes`.
    fn of(bytes: usize) -> Line {
        match bytes {
            _ if bytes <= SMALL_BYTES => Line::Small,
            _ if bytes <= HEAVY_BYTES => Line::Light,
            _ => Line::Heavy,
        }
    }
}

/// One who keeps memory between requests, and can do without.
pub(crate) trait Keeper: Send + Sync {
    /// Requests wait for memory: gives back what is not used now. Called often.
    fn give_back(&self);
}

#[derive(Default)]
struct Keepers(Vec<Weak<dyn Keeper>>);

/// Who waits for memory.
#[derive(Debug, Default)]
struct WaitingLine {
    /// Requests that wait.
    count: AtomicUsize,
    /// The heavy one whose turn it is has waited long.
    is_overdue: AtomicBool,
}

/// One who waits for memory, until this is dropped.
pub(crate) struct Waiter<'a> {
    line: &'a WaitingLine,
    has_claimed: bool,
}

/// Memory reserved by one request; released on drop.
#[derive(Debug)]
pub(crate) struct Held(Charge);

impl Buffers {
    /// Requests draw from `budget`. Those that write wait while `memtables` are full.
    pub(crate) fn new(budget: &Arc<Budget>, memtables: &Arc<Budget>) -> Buffers {
        Buffers {
            budget: Arc::clone(budget),
            memtables: Arc::clone(memtables),
            line: Arc::default(),
            turns: Arc::new(Turns {
                small: Semaphore::new(1),
                light: Semaphore::new(1),
                instant: Semaphore::new(1),
                heavy: Semaphore::new(1),
            }),
            is_pressed: Arc::default(),
            clients: Arc::default(),
            keepers: Arc::default(),
        }
    }

    /// Has stalled clients of a port cut off while others wait for memory, and strangers under
    /// memory pressure.
    pub(crate) fn watch(&self, clients: &Arc<IdleConnections>) {
        self.clients.write().push(Arc::downgrade(clients));
    }

    /// Has memory given back that is kept between requests while others wait for memory.
    pub(crate) fn share_with(&self, keeper: Weak<dyn Keeper>) {
        self.keepers.write().0.push(keeper);
    }

    /// Whether more memory is resident than is counted.
    pub(crate) fn set_pressed(&self, is_pressed: bool) {
        self.is_pressed.store(is_pressed, Ordering::Relaxed);
        let clients = self.clients.read();
        for port in clients.iter().filter_map(Weak::upgrade) {
            port.set_pressed(is_pressed);
        }
    }

    /// Bytes that can be reserved in all.
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(self.budget.limit()).unwrap_or(usize::MAX)
    }

    /// Bytes reserved now.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.budget.used()
    }

    /// Whether requests wait for memory.
    pub(crate) fn are_short(&self) -> bool {
        self.line.count.load(Ordering::Relaxed) > 0
    }

    /// Says that a request waits for memory.
    pub(crate) fn waiter(&self) -> Waiter<'_> {
        self.line.count.fetch_add(1, Ordering::Relaxed);
        Waiter {
            line: &self.line,
            has_claimed: false,
        }
    }

    /// Reserves `bytes`, waiting up to `timeout` for them. Requests for up to 64 KiB do not wait
    /// behind larger ones, nor those for up to a MiB behind heavy ones.
    ///
    /// # Errors
    /// 413 if there is never room for them, 429 if they are not free in time.
    pub(crate) async fn hold(&self, bytes: usize, time: Duration) -> Outcome<Held> {
        self.hold_when(bytes, Line::of(bytes), time, || true).await
    }

    /// As [`hold`](Self::hold), for a search that is expected to be over at once: it does not wait
    /// behind heavy requests.
    ///
    /// # Errors
    /// As [`hold`](Self::hold).
    pub(crate) async fn hold_instant(&self, bytes: usize, time: Duration) -> Outcome<Held> {
        self.hold_when(bytes, Line::Instant, time, || true).await
    }

    /// As [`hold`](Self::hold), for a write: it waits while memtables are full, too, but not for
    /// ever. A writer that waited for them later would keep the memory from those who free them.
    ///
    /// # Errors
    /// As [`hold`](Self::hold).
    pub(crate) async fn hold_to_write(&self, bytes: usize, time: Duration) -> Outcome<Held> {
        let memtables = &self.memtables;
        let have_room = || bytes <= HEAVY_BYTES || memtables.used() < memtables.limit();
        self.hold_when(bytes, Line::of(bytes), time, have_room)
            .await
    }

    async fn hold_when(
        &self,
        bytes: usize,
        line: Line,
        time: Duration,
        may_begin: impl Fn() -> bool,
    ) -> Outcome<Held> {
        if bytes > self.bytes() {
            return Err(self.no_memory(bytes));
        }
        let found = async {
            let begun = Instant::now();
            while !may_begin() && begun.elapsed() < MEMTABLES_TIME_MAX {
                sleep(LOOK_EVERY).await;
            }
            let turns = &self.turns;
            // The semaphores are never closed.
            let turn = match line {
                Line::Small => Some(turns.small.acquire().await),
                Line::Light => Some(turns.light.acquire().await),
                Line::Instant => Some(turns.instant.acquire().await),
                Line::Heavy => timeout(TURN_TIME_MAX, turns.heavy.acquire()).await.ok(),
            };
            let (begun, mut waiter) = (Instant::now(), None::<Waiter<'_>>);
            loop {
                let is_next = waiter.as_ref().is_some_and(|waiter| waiter.has_claimed);
                if let Some(held) = self.take(bytes, line, is_next) {
                    drop(turn);
                    return held;
                }
                let waiter = waiter.get_or_insert_with(|| self.waiter());
                let is_overdue = line == Line::Heavy && begun.elapsed() >= OVERDUE_AFTER;
                if turn.is_some() && is_overdue {
                    waiter.claim();
                }
                self.cut_stalled();
                sleep(LOOK_EVERY).await;
            }
        };
        timeout(time, found)
            .await
            .map_err(|_| self.no_memory(bytes))
    }

    /// Takes memory if it is free, and nobody comes first. `is_next`: no other request does.
    fn take(&self, bytes: usize, line: Line, is_next: bool) -> Option<Held> {
        if matches!(line, Line::Small | Line::Light) {
            return self.hold_now(bytes).ok();
        }
        let is_overdue = self.line.is_overdue.load(Ordering::Relaxed);
        if self.budget.is_claimed() || is_overdue && !is_next {
            return None;
        }
        let bytes = bytes as u64;
        let is_pressed = self.is_pressed.load(Ordering::Relaxed) && line == Line::Heavy;
        if is_pressed && self.budget.used() > LIGHT_BYTES {
            return None;
        }
        let beside = LIGHT_BYTES.min((self.budget.limit() - bytes) / 2);
        self.budget.try_charge_beside(bytes, beside).map(Held)
    }

    /// Reserves what handling a document of `document_bytes` takes, waiting up to `timeout` for it.
    ///
    /// # Errors
    /// 413 if there is never room for them, 429 if it is not free in time.
    pub(crate) async fn hold_large(&self, document_bytes: u64, timeout: Duration) -> Outcome<Held> {
        self.hold(self.large(document_bytes), timeout).await
    }

    /// As [`hold_large`](Self::hold_large), for a document that is written.
    ///
    /// # Errors
    /// 413 if there is never room for them, 429 if it is not free in time.
    pub(crate) async fn hold_large_to_write(
        &self,
        document_bytes: u64,
        timeout: Duration,
    ) -> Outcome<Held> {
        let bytes = self.large(document_bytes);
        self.hold_to_write(bytes, timeout).await
    }

    /// As [`hold_large`](Self::hold_large), if the memory is free.
    ///
    /// # Errors
    /// 413 if there is never so much, 429 if it is not free.
    pub(crate) fn hold_large_now(&self, document_bytes: u64) -> Outcome<Held> {
        self.hold_now(self.large(document_bytes))
    }

    /// The bytes that handling a document takes, which may be more than there are.
    pub(crate) fn large(&self, document_bytes: u64) -> usize {
        let bytes = usize::try_from(document_bytes).unwrap_or(usize::MAX);
        bytes.saturating_mul(COPIES)
    }

    /// The same, no more than there are: for work that can't refuse a document.
    pub(crate) fn large_at_most(&self, document_bytes: u64) -> usize {
        self.large(document_bytes).min(self.bytes())
    }

    /// Reserves `bytes` if they are free.
    ///
    /// # Errors
    /// 429 if they are not.
    pub(crate) fn hold_now(&self, bytes: usize) -> Outcome<Held> {
        let charge = self.budget.try_charge(bytes as u64);
        charge.map(Held).ok_or_else(|| self.no_memory(bytes))
    }

    fn no_memory(&self, bytes: usize) -> Failure {
        no_memory(bytes, self.budget.limit())
    }

    fn cut_stalled(&self) {
        let clients = self.clients.read();
        for port in clients.iter().filter_map(Weak::upgrade) {
            port.evict_stalled();
        }
        for keeper in self.keepers.read().0.iter().filter_map(Weak::upgrade) {
            keeper.give_back();
        }
    }
}

impl std::fmt::Debug for Keepers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} keepers", self.0.len())
    }
}

impl Waiter<'_> {
    /// Has the other heavy requests wait. Called by the one whose turn it is.
    fn claim(&mut self) {
        self.has_claimed = true;
        self.line.is_overdue.store(true, Ordering::Relaxed);
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.line.count.fetch_sub(1, Ordering::Relaxed);
        if self.has_claimed {
            self.line.is_overdue.store(false, Ordering::Relaxed);
        }
    }
}

impl Held {
    /// Changes the reservation to `bytes`.
    ///
    /// # Errors
    /// 413 if there is never so much, 429 if it is not free; the reservation is then as it was.
    pub(crate) fn resize(&mut self, bytes: usize) -> Outcome<()> {
        match self.0.try_resize(bytes as u64) {
            true => Ok(()),
            false => Err(no_memory(bytes, self.0.limit())),
        }
    }
}

/// Bytes of an answer with the memory reserved for them.
struct HeldBytes {
    bytes: Vec<u8>,
    _held: Held,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Held {
    /// Whether it is more than light requests take.
    pub(crate) fn is_heavy(&self) -> bool {
        self.bytes() > HEAVY_BYTES
    }

    /// Bytes reserved.
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(self.0.bytes()).unwrap_or(usize::MAX)
    }

    /// Whether the reservation is as large as what handling one more document of `document_bytes`
    /// takes beside `written` bytes that were made before.
    pub(crate) fn has_large(&self, of: &Buffers, written: usize, document_bytes: u64) -> bool {
        let bytes = written.saturating_add(of.large(document_bytes));
        bytes as u64 <= self.0.bytes()
    }

    /// Grows the reservation to that, if it is smaller.
    ///
    /// # Errors
    /// As [`resize`](Self::resize).
    pub(crate) fn grow_large(
        &mut self,
        of: &Buffers,
        written: usize,
        document_bytes: u64,
    ) -> Outcome<()> {
        match self.has_large(of, written, document_bytes) {
            true => Ok(()),
            false => self.resize(written.saturating_add(of.large(document_bytes))),
        }
    }

    /// The bytes, for which the reservation is kept until the client has taken them.
    ///
    /// # Errors
    /// 429 if it was too small for them, and more is not free.
    pub(crate) fn keep(mut self, bytes: Vec<u8>) -> Outcome<Bytes> {
        self.resize(bytes.capacity())?;
        let _held = self;
        Ok(Bytes::from_owner(HeldBytes { bytes, _held }))
    }
}

/// The refusal of a request that wants `bytes`, of `limit` that there are.
fn no_memory(bytes: usize, limit: u64) -> Failure {
    let (status, reason) = match bytes as u64 > limit {
        true => (
            StatusCode::PAYLOAD_TOO_LARGE,
            format!(
                "this request needs {bytes} bytes of memory, and there are {limit} for requests: \
                 send it in smaller parts, or give the server more (--memory)"
            ),
        ),
        false => (
            StatusCode::TOO_MANY_REQUESTS,
            format!(
                "no memory for {bytes} bytes of this request: other requests hold it; send this \
                 one again later, or in smaller parts"
            ),
        ),
    };
    Failure::new(status, "circuit_breaking_exception", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE_BYTES: usize = 1 << 20;

    fn buffers(bytes: usize) -> Buffers {
        Buffers::new(&Budget::new(bytes as u64), &Budget::new(u64::MAX))
    }

    /// One request of each size waits for ever, and smaller ones are served beside it.
    #[tokio::test]
    async fn smaller_requests_do_not_wait_behind_larger_ones() {
        let buffers = buffers(2 * PIECE_BYTES);
        let _most = buffers.hold_now(2 * PIECE_BYTES - SMALL_BYTES).unwrap();
        for waits in [2 * PIECE_BYTES, PIECE_BYTES] {
            let buffers = buffers.clone();
            tokio::spawn(async move { buffers.hold(waits, Duration::from_secs(600)).await });
        }
        while buffers.line.count.load(Ordering::Relaxed) < 2 {
            sleep(LOOK_EVERY).await;
        }
        for _ in 0..100 {
            buffers.hold(SMALL_BYTES, Duration::MAX).await.unwrap();
        }
    }

    #[tokio::test]
    async fn memory_is_bounded_and_released() {
        let buffers = buffers(10 * PIECE_BYTES);
        let mut first = buffers.hold(6 * PIECE_BYTES, Duration::ZERO).await.unwrap();
        let refused = buffers
            .hold(5 * PIECE_BYTES, Duration::from_millis(5))
            .await
            .unwrap_err();
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
        let never = buffers
            .hold(11 * PIECE_BYTES, Duration::MAX)
            .await
            .unwrap_err();
        assert_eq!(never.status, StatusCode::PAYLOAD_TOO_LARGE);
        assert!(never.to_json().to_string().contains("--memory"));
        let never = first.resize(11 * PIECE_BYTES).unwrap_err();
        assert_eq!(never.status, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(buffers.used_bytes(), 6 * PIECE_BYTES as u64);
        first.resize(10 * PIECE_BYTES).unwrap();
        first.resize(1).unwrap();
        assert_eq!(buffers.used_bytes(), 1);
        drop(buffers.hold(9 * PIECE_BYTES, Duration::ZERO).await.unwrap());
        drop(first);
        assert_eq!(buffers.used_bytes(), 0);
    }

    #[tokio::test]
    async fn a_large_document_waits_for_its_memory_and_no_small_request_waits_behind_it() {
        let buffers = buffers(10 * PIECE_BYTES);
        let answer = buffers.hold_now(5 * PIECE_BYTES).unwrap();
        let document_bytes = 2 * PIECE_BYTES as u64;
        let mut large = std::pin::pin!(buffers.hold_large(document_bytes, Duration::MAX));
        let none = tokio::time::timeout(Duration::ZERO, large.as_mut()).await;
        assert!(none.is_err(), "the answer has the memory");
        let small = buffers.hold(1, Duration::ZERO).await.unwrap();
        drop(answer);
        let large = large.await.unwrap();
        assert_eq!(buffers.used_bytes(), 6 * PIECE_BYTES as u64 + 1);
        drop((large, small));
        // More than there is in all is refused, and none of it is taken.
        for document_bytes in [4 * PIECE_BYTES as u64, u64::MAX] {
            let never = buffers.hold_large_now(document_bytes).unwrap_err();
            assert_eq!(never.status, StatusCode::PAYLOAD_TOO_LARGE);
            let never = buffers.hold_large(document_bytes, Duration::MAX).await;
            assert_eq!(never.unwrap_err().status, StatusCode::PAYLOAD_TOO_LARGE);
        }
        assert_eq!(buffers.used_bytes(), 0);
    }

    #[tokio::test]
    async fn the_largest_request_is_served_however_many_smaller_ones_come() {
        let buffers = buffers(52 * PIECE_BYTES);
        // Four have 12 MiB each, and the next ones wait.
        let endless = (0..8).map(|_| {
            let buffers = buffers.clone();
            tokio::spawn(async move {
                loop {
                    let held = buffers.hold(12 * PIECE_BYTES, Duration::MAX).await;
                    sleep(Duration::from_millis(50)).await;
                    drop(held);
                }
            })
        });
        let endless: Vec<_> = endless.collect();
        while buffers.used_bytes() < 48 * PIECE_BYTES as u64 {
            sleep(LOOK_EVERY).await;
        }
        let largest = buffers.hold(48 * PIECE_BYTES, Duration::from_secs(60));
        let largest = largest.await.unwrap();
        // Light requests have room beside it.
        drop(buffers.hold_now(PIECE_BYTES).unwrap());
        assert_eq!(
            buffers.used_bytes(),
            48 * PIECE_BYTES as u64,
            "the others wait"
        );
        drop(largest);
        while buffers.used_bytes() == 0 {
            sleep(LOOK_EVERY).await;
        }
        endless.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test]
    async fn an_instant_search_waits_for_the_overdue_alone() {
        let buffers = buffers(52 * PIECE_BYTES);
        let time = Duration::from_millis(20);
        // Under pressure others wait for the first one.
        buffers.set_pressed(true);
        let first = buffers.hold_now(12 * PIECE_BYTES).unwrap();
        assert!(buffers.hold(12 * PIECE_BYTES, time).await.is_err());
        drop(buffers.hold_instant(12 * PIECE_BYTES, time).await.unwrap());
        buffers.set_pressed(false);
        // What instant ones leave free is never enough for the largest one, until they wait for it.
        let short = {
            let buffers = buffers.clone();
            tokio::spawn(async move {
                loop {
                    let held = buffers.hold_instant(12 * PIECE_BYTES, Duration::MAX).await;
                    let next = buffers.hold_instant(12 * PIECE_BYTES, Duration::MAX).await;
                    drop(held);
                    sleep(LOOK_EVERY).await;
                    drop(next);
                }
            })
        };
        drop(first);
        let largest = buffers.hold(48 * PIECE_BYTES, Duration::from_secs(60));
        drop(largest.await.unwrap());
        short.abort();
    }

    #[tokio::test]
    async fn a_heavy_write_takes_no_memory_while_memtables_are_full() {
        let memtables = Budget::new(100);
        let buffers = Buffers::new(&Budget::new(10 * PIECE_BYTES as u64), &memtables);
        let full = memtables.charge(100);
        let time = Duration::from_millis(20);
        let refused = buffers.hold_to_write(2 * PIECE_BYTES, time).await;
        assert_eq!(refused.unwrap_err().status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(buffers.used_bytes(), 0);
        drop(buffers.hold_to_write(100, time).await.unwrap());
        drop(buffers.hold(2 * PIECE_BYTES, time).await.unwrap());
        drop(full);
        drop(buffers.hold_to_write(2 * PIECE_BYTES, time).await.unwrap());
        assert!(!buffers.are_short());
    }
}
