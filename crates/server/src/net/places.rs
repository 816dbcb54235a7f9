//! The places of a port for connections. A newcomer waits for one; another connection is told to
//! give up its place for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::idle::{IdleConnections, KEPT_PART, Presence};

/// How often a connection is told to go while no place is free.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// A connection holds its place until this is dropped.
pub(crate) type Place = OwnedSemaphorePermit;

/// The places of a port.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    count: usize,
    idle: Arc<IdleConnections>,
}

impl Places {
    /// `count` places for the connections of `idle`.
    pub(crate) fn new(count: usize, idle: &Arc<IdleConnections>) -> Places {
        let count = count.min(Semaphore::MAX_PERMITS);
        Places {
            free: Arc::new(Semaphore::new(count)),
            count,
            idle: Arc::clone(idle),
        }
    }

    /// A place. If none is free, another connection is told to go. While few are, a stranger is:
    /// the last places are kept for admitted clients.
    pub(crate) async fn take(&self) -> Place {
        self.take_for(None).await
    }

    /// A further place for a connection that has one. None if the port has but one in all.
    pub(crate) async fn take_second(&self, connection: &Presence) -> Option<Place> {
        match self.count {
            0 | 1 => None,
            _ => Some(self.take_for(Some(connection)).await),
        }
    }

    async fn take_for(&self, connection: Option<&Presence>) -> Place {
        if let Ok(place) = Arc::clone(&self.free).try_acquire_owned() {
            let kept = self.count / KEPT_PART;
            self.idle
                .keep_places(self.free.available_permits(), kept, connection);
            return place;
        }
        loop {
            self.idle.evict_oldest(connection);
            let place = Arc::clone(&self.free).acquire_owned();
            // The semaphore is never closed: an error can only be that of the time.
            if let Ok(Ok(place)) = timeout(TELL_EVERY, place).await {
                return place;
            }
        }
    }
}
