//! Closing a connection whose client may still be sending.
//!
//! If a socket is closed with unread bytes, the system resets the connection, and the client may
//! lose the answer. So after an answer to a request whose body was not read, the server says that it
//! closes, ends its side, and reads and discards for a while what the client still sends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How much is read and discarded, and for how long.
pub(crate) const LINGER_BYTES: usize = 64 << 20;
pub(crate) const LINGER_TIME: Duration = Duration::from_secs(5);

/// Whether a connection lingers when it is closed. In the extensions of each of its requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lingering(Arc<AtomicBool>);

impl Lingering {
    /// A body was not read to its end.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
