//! One bound on the memory that requests hold: bodies as they arrive, and long answers.
//!
//! # Invariants
//! 1. The bytes of all [`Held`] together never exceed the bound.
//! 2. A request waits for memory only while it holds none. A reservation grows at once or not at
//!    all. So requests never wait for each other in a circle (no deadlock).

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::failure::{Failure, Outcome};

/// Memory is reserved in pieces of this many bytes.
const PIECE_BYTES: usize = 16 << 10;

/// The memory of all requests. A clone is another handle to the same.
#[derive(Debug, Clone)]
pub(crate) struct Buffers {
    free: Arc<Semaphore>,
    pieces: usize,
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
        }
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
}
