//! The room for requests: bodies as they arrive, documents that are handled, and long answers until
//! they are read. It is the part of the database's memory for work in progress, which background
//! work with large documents draws from too.
//!
//! # Invariants
//! 1. The bytes of all [`Held`] together never exceed the bound.
//! 2. A request waits for memory only while it holds none. A reservation grows at once or not at
//!    all. So requests never wait for each other in a circle (no deadlock).
//! 3. While requests wait, clients that have stalled for long are cut off: what they hold is not
//!    waited for.

use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::http::StatusCode;
use bytes::Bytes;
use parking_lot::RwLock;
use quire_env::{Budget, Charge};
use quire_model::Document;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::failure::{Failure, Outcome};
use crate::net::idle::IdleConnections;

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

/// A request that wants more than this waits behind those that came before it, and behind
/// background work.
const HEAVY_BYTES: usize = 1 << 20;

/// How long a heavy request waits for its turn; then it takes what is free, too.
const TURN_TIME_MAX: Duration = Duration::from_millis(500);

/// How often memory is looked for while it is not free.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The room for requests. A clone is another handle to the same.
#[derive(Debug, Clone)]
pub(crate) struct Buffers {
    budget: Arc<Budget>,
    /// Each has one permit: of the requests that wait, the one whose turn it is.
    turn: Arc<Semaphore>,
    heavy_turn: Arc<Semaphore>,
    /// Those who may hold memory and not take what they hold it for.
    clients: Arc<RwLock<Vec<Weak<IdleConnections>>>>,
}

/// Memory reserved by one request; released on drop.
#[derive(Debug)]
pub(crate) struct Held(Charge);

impl Buffers {
    pub(crate) fn new(budget: &Arc<Budget>) -> Buffers {
        Buffers {
            budget: Arc::clone(budget),
            turn: Arc::new(Semaphore::new(1)),
            heavy_turn: Arc::new(Semaphore::new(1)),
            clients: Arc::default(),
        }
    }

    /// Has stalled clients of a port cut off while others wait for memory.
    pub(crate) fn watch(&self, clients: &Arc<IdleConnections>) {
        self.clients.write().push(Arc::downgrade(clients));
    }

    /// Bytes that can be reserved in all.
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(self.budget.limit()).unwrap_or(usize::MAX)
    }

    /// Bytes reserved now.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.budget.used()
    }

    /// Reserves `bytes`, waiting up to `timeout` for them. Smaller requests do not wait behind one
    /// that wants more than a MiB.
    ///
    /// # Errors
    /// 413 if there is never room for them, 429 if they are not free in time.
    pub(crate) async fn hold(&self, bytes: usize, time: Duration) -> Outcome<Held> {
        if bytes > self.bytes() {
            return Err(self.no_memory(bytes));
        }
        let found = async {
            let turn = match bytes > HEAVY_BYTES {
                // The semaphores are never closed.
                true => timeout(TURN_TIME_MAX, self.heavy_turn.acquire()).await.ok(),
                false => Some(self.turn.acquire().await),
            };
            loop {
                let is_free = bytes <= HEAVY_BYTES || !self.budget.is_claimed();
                if let Some(held) = is_free.then(|| self.hold_now(bytes).ok()).flatten() {
                    drop(turn);
                    return held;
                }
                self.cut_stalled();
                sleep(LOOK_EVERY).await;
            }
        };
        timeout(time, found)
            .await
            .map_err(|_| self.no_memory(bytes))
    }

    /// Reserves what handling a document of `document_bytes` takes, waiting up to `timeout` for it.
    ///
    /// # Errors
    /// 429 if it is not free in time.
    pub(crate) async fn hold_large(&self, document_bytes: u64, timeout: Duration) -> Outcome<Held> {
        self.hold(self.large(document_bytes), timeout).await
    }

    /// As [`hold_large`](Self::hold_large), if the memory is free.
    ///
    /// # Errors
    /// 429 if it is not.
    pub(crate) fn hold_large_now(&self, document_bytes: u64) -> Outcome<Held> {
        self.hold_now(self.large(document_bytes))
    }

    /// The bytes that handling a document takes: no more than there are.
    pub(crate) fn large(&self, document_bytes: u64) -> usize {
        let bytes = usize::try_from(document_bytes).unwrap_or(usize::MAX);
        bytes.saturating_mul(COPIES).min(self.bytes())
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
    /// Bytes reserved.
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(self.0.bytes()).unwrap_or(usize::MAX)
    }

    /// Changes the reservation to what handling a document of `document_bytes` takes.
    ///
    /// # Errors
    /// As [`resize`](Self::resize).
    pub(crate) fn resize_large(&mut self, of: &Buffers, document_bytes: u64) -> Outcome<()> {
        self.resize(of.large(document_bytes))
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

    #[tokio::test]
    async fn memory_is_bounded_and_released() {
        let buffers = Buffers::new(&Budget::new(10 * PIECE_BYTES as u64));
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
        let buffers = Buffers::new(&Budget::new(10 * PIECE_BYTES as u64));
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
        // More than there is in all is as much as there is.
        drop(buffers.hold_large_now(u64::MAX).unwrap());
        assert_eq!(buffers.used_bytes(), 0);
    }
}
