//! Flow: bounds the bytes in flight between the reader and the last write.

use parking_lot::{Condvar, Mutex};

/// Room for so many bytes. What is larger than all of it passes when nothing else is in flight, so
/// nothing waits for ever.
#[derive(Debug)]
pub(super) struct Flow {
    bytes_max: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bytes: usize,
    closed: bool,
}

impl Flow {
    /// Room for `bytes_max`.
    pub(super) fn new(bytes_max: usize) -> Flow {
        Flow {
            bytes_max,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Waits for room and takes it; false when the flow has been closed.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let mut state = self.state.lock();
        while !state.closed && state.bytes > 0 && state.bytes.saturating_add(bytes) > self.bytes_max
        {
            self.changed.wait(&mut state);
        }
        state.bytes = state.bytes.saturating_add(bytes);
        !state.closed
    }

    /// Gives room back.
    pub(super) fn give(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
        self.changed.notify_all();
    }

    /// Whether nothing is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.state.lock().bytes == 0
    }

    /// Lets nothing more in.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }
}
