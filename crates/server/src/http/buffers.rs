//! One bound on the memory that requests hold: bodies as they arrive, and long answers.
//!
//! # Invariants
//! 1. The bytes of all [`Held`] together never exceed the bound.
//! 2. A request waits for memory only while it holds none. A reservation grows at once or not at
//!    all. So requests never wait for each other in a circle (no deadlock).

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::failure::{Failure, Outcome};

/// Memory is reserved in pieces of this many bytes.
const PIECE_BYTES: usize = 16 << 10;

/// A document whose record is longer has its memory reserved before it is read.
pub(crate) const LARGE_BYTES: u64 = 256 << 10;

/// What handling a large document holds of it at most: the block of the log that it lies in, the
/// same before decompression or the document that is made of it, and the answer or the new record.
pub(crate) const COPIES: usize = 3;

/// How often memory for a large document is looked for while it is not free.
const LARGE_EVERY: Duration = Duration::from_millis(5);

/// The memory of all requests. A clone is another handle to the same.
#[derive(Debug, Clone)]
pub(crate) struct Buffers {
    free: Arc<Semaphore>,
    pieces: usize,
    /// Has one permit: of the requests that wait for a large document's memory, the one whose turn
    /// it is.
    turn: Arc<Semaphore>,
}

/// Memory reserved by one request; released on drop.
#[derive(Debug)]
pub(crate) struct Held {
    free: Arc<Semaphore>,
    permit: OwnedSemaphorePermit,
}

impl Buffers {
    pub(crate) fn new(bytes: usize) -> Buffers {
        let pieces = (bytes / PIECE_BYTES).min(Semaphore::MAX_PERMITS);
        Buffers {
            free: Arc::new(Semaphore::new(pieces)),
            pieces,
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// Bytes that can be reserved in all.
    pub(crate) fn bytes(&self) -> usize {
        self.pieces * PIECE_BYTES
    }

    /// Bytes reserved now.
    pub(crate) fn used_bytes(&self) -> u64 {
        let free = self.free.available_permits();
        assert!(free <= self.pieces, "memory is released once at most");
        let used = self.pieces.saturating_sub(free);
        (used * PIECE_BYTES) as u64
    }

    /// Reserves `bytes`, waiting up to `timeout` for them.
    ///
    /// # Errors
    /// 429 if they are not free in time.
    pub(crate) async fn hold(&self, bytes: usize, timeout: Duration) -> Outcome<Held> {
        let wanted = Arc::clone(&self.free).acquire_many_owned(pieces_of(bytes));
        match tokio::time::timeout(timeout, wanted).await {
            Ok(Ok(permit)) => Ok(Held {
                free: Arc::clone(&self.free),
                permit,
            }),
            _ => Err(no_memory(bytes)),
        }
    }

    /// Reserves what handling a document of `document_bytes` takes, waiting up to `timeout` for it.
    /// Smaller requests do not wait behind this one.
    ///
    /// # Errors
    /// 429 if it is not free in time.
    pub(crate) async fn hold_large(&self, document_bytes: u64, timeout: Duration) -> Outcome<Held> {
        let found = async {
            // The semaphore is never closed.
            let _turn = self.turn.acquire().await;
            loop {
                if let Ok(held) = self.hold_large_now(document_bytes) {
                    return held;
                }
                tokio::time::sleep(LARGE_EVERY).await;
            }
        };
        let found = tokio::time::timeout(timeout, found).await;
        found.map_err(|_| no_memory(self.large(document_bytes)))
    }

    /// As [`hold_large`](Self::hold_large), if the memory is free.
    ///
    /// # Errors
    /// 429 if it is not.
    pub(crate) fn hold_large_now(&self, document_bytes: u64) -> Outcome<Held> {
        self.hold_now(self.large(document_bytes))
    }

    /// The bytes that handling a document takes: no more than there are.
    fn large(&self, document_bytes: u64) -> usize {
        let bytes = usize::try_from(document_bytes).unwrap_or(usize::MAX);
        bytes.saturating_mul(COPIES).min(self.bytes())
    }

    /// Reserves `bytes` if they are free.
    ///
    /// # Errors
    /// 429 if they are not.
    pub(crate) fn hold_now(&self, bytes: usize) -> Outcome<Held> {
        let permit = Arc::clone(&self.free)
            .try_acquire_many_owned(pieces_of(bytes))
            .map_err(|_| no_memory(bytes))?;
        Ok(Held {
            free: Arc::clone(&self.free),
            permit,
        })
    }
}

impl Held {
    /// Changes the reservation to `bytes`.
    ///
    /// # Errors
    /// 429 if that many are not free; the reservation is then as it was.
    pub(crate) fn resize(&mut self, bytes: usize) -> Outcome<()> {
        let (has, wanted) = (self.permit.num_permits(), pieces_of(bytes) as usize);
        if wanted < has {
            drop(self.permit.split(has - wanted));
        } else if wanted > has {
            let more = pieces_of(bytes.saturating_sub(has * PIECE_BYTES));
            let more = Arc::clone(&self.free)
                .try_acquire_many_owned(more)
                .map_err(|_| no_memory(bytes))?;
            self.permit.merge(more);
        }
        debug_assert!(
            self.permit.num_permits() == wanted,
            "a reservation has the size that was set"
        );
        Ok(())
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
    /// Changes the reservation to what handling a document of `document_bytes` takes.
    ///
    /// # Errors
    /// As [`resize`](Self::resize).
    pub(crate) fn resize_large(&mut self, of: &Buffers, document_bytes: u64) -> Outcome<()> {
        self.resize(of.large(document_bytes))
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

fn pieces_of(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PIECE_BYTES)).unwrap_or(u32::MAX)
}

fn no_memory(bytes: usize) -> Failure {
    let reason = format!(
        "no memory for {bytes} bytes of this request: other requests hold it; send this one \
         again later, or in smaller parts"
    );
    Failure::new(
        StatusCode::TOO_MANY_REQUESTS,
        "circuit_breaking_exception",
        reason,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn memory_is_bounded_and_released() {
        let buffers = Buffers::new(10 * PIECE_BYTES);
        let mut first = buffers.hold(6 * PIECE_BYTES, Duration::ZERO).await.unwrap();
        let refused = buffers
            .hold(5 * PIECE_BYTES, Duration::from_millis(5))
            .await
            .unwrap_err();
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
        assert!(first.resize(11 * PIECE_BYTES).is_err());
        assert_eq!(buffers.used_bytes(), 6 * PIECE_BYTES as u64);
        first.resize(10 * PIECE_BYTES).unwrap();
        first.resize(1).unwrap();
        assert_eq!(buffers.used_bytes(), PIECE_BYTES as u64);
        drop(buffers.hold(9 * PIECE_BYTES, Duration::ZERO).await.unwrap());
        drop(first);
        assert_eq!(buffers.used_bytes(), 0);
    }

    #[tokio::test]
    async fn a_large_document_waits_for_its_memory_and_no_small_request_waits_behind_it() {
        let buffers = Buffers::new(10 * PIECE_BYTES);
        let answer = buffers.hold_now(5 * PIECE_BYTES).unwrap();
        let document_bytes = 2 * PIECE_BYTES as u64;
        let mut large = std::pin::pin!(buffers.hold_large(document_bytes, Duration::MAX));
        let none = tokio::time::timeout(Duration::ZERO, large.as_mut()).await;
        assert!(none.is_err(), "the answer has the memory");
        let small = buffers.hold(1, Duration::ZERO).await.unwrap();
        drop(answer);
        let large = large.await.unwrap();
        assert_eq!(buffers.used_bytes(), 7 * PIECE_BYTES as u64);
        drop((large, small));
        // More than there is in all is as much as there is.
        drop(buffers.hold_large_now(u64::MAX).unwrap());
        assert_eq!(buffers.used_bytes(), 0);
    }
}
