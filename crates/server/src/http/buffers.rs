//! One bound on the memory that requests hold: bodies as they arrive, and the answers to bulk
//! requests.
//!
//! # Invariants
//! 1. The bytes of all [`Held`] together never pass the bound.
//! 2. A request waits for room only while it holds none. What it holds grows at once or not at all,
//!    so requests never wait for each other in a circle.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::failure::{Failure, Outcome};

/// Room is given out in pieces of this many bytes.
const PIECE_BYTES: usize = 16 << 10;

/// The room of all requests.
#[derive(Debug)]
pub(crate) struct Buffers {
    room: Arc<Semaphore>,
    pieces: usize,
}

/// Room that one request holds; given back on drop.
#[derive(Debug)]
pub(crate) struct Held {
    room: Arc<Semaphore>,
    permit: OwnedSemaphorePermit,
}

impl Buffers {
    pub(crate) fn new(bytes: usize) -> Buffers {
        let pieces = (bytes / PIECE_BYTES).min(Semaphore::MAX_PERMITS);
        Buffers {
            room: Arc::new(Semaphore::new(pieces)),
            pieces,
        }
    }

    /// Bytes held now.
    pub(crate) fn used_bytes(&self) -> u64 {
        let used = self.pieces.saturating_sub(self.room.available_permits());
        (used * PIECE_BYTES) as u64
    }

    /// Takes room for `bytes`, waiting up to `timeout` for it.
    pub(crate) async fn hold(&self, bytes: usize, timeout: Duration) -> Outcome<Held> {
        let wanted = Arc::clone(&self.room).acquire_many_owned(pieces_of(bytes));
        match tokio::time::timeout(timeout, wanted).await {
            Ok(Ok(permit)) => Ok(Held {
                room: Arc::clone(&self.room),
                permit,
            }),
            _ => Err(no_room(bytes)),
        }
    }

    /// Takes room for `bytes` if there is some.
    pub(crate) fn hold_now(&self, bytes: usize) -> Outcome<Held> {
        let permit = Arc::clone(&self.room)
            .try_acquire_many_owned(pieces_of(bytes))
            .map_err(|_| no_room(bytes))?;
        Ok(Held {
            room: Arc::clone(&self.room),
            permit,
        })
    }
}

impl Held {
    /// Makes the room `bytes` large: gives back what is over, takes what is missing.
    ///
    /// # Errors
    /// 429 if there is not that much; the room is then as it was.
    pub(crate) fn resize(&mut self, bytes: usize) -> Outcome<()> {
        let (has, wanted) = (self.permit.num_permits(), pieces_of(bytes) as usize);
        if wanted < has {
            drop(self.permit.split(has - wanted));
        } else if wanted > has {
            let more = pieces_of(bytes.saturating_sub(has * PIECE_BYTES));
            let more = Arc::clone(&self.room)
                .try_acquire_many_owned(more)
                .map_err(|_| no_room(bytes))?;
            self.permit.merge(more);
        }
        Ok(())
    }
}

fn pieces_of(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PIECE_BYTES)).unwrap_or(u32::MAX)
}

fn no_room(bytes: usize) -> Failure {
    let reason = format!(
        "no memory for {bytes} bytes of this request now: too many or too large requests at once; send it again later, \
         or in smaller parts"
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
    async fn room_is_bounded_and_given_back() {
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
