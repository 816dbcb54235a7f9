//! The bound on the bytes between the reader and the last write.

use parking_lot::{Condvar, Mutex};

/// Counts the bytes in flight, and makes the reader wait for room. A batch that is larger than the
/// bound passes when nothing else is in flight, so every wait ends.
#[derive(Debug)]
pub(crate) struct InFlight {
    bytes_max: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bytes: usize,
    closed: bool,
}

impl InFlight {
    /// At most `bytes_max`.
    pub(crate) fn new(bytes_max: usize) -> InFlight {
        InFlight {
            bytes_max,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Waits for room and takes it; false if the pipeline has stopped.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let mut state = self.state.lock();
        while !state.closed && state.bytes > 0 && state.bytes.saturating_add(bytes) > self.bytes_max
        {
            self.changed.wait(&mut state);
        }
        state.bytes = state.bytes.saturating_add(bytes);
        !state.closed
    }

    /// Gives back what was taken.
    pub(crate) fn release(&self, bytes: usize) {
        let mut state = self.state.lock();
        assert!(state.bytes >= bytes, "what is released was taken before");
        state.bytes -= bytes;
        self.changed.notify_all();
    }

    /// Whether nothing is in flight, or the pipeline has stopped.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.bytes == 0 || state.closed
    }

    /// Ends all waits: the pipeline has stopped.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }
}
