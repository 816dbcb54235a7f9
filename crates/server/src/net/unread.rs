//! What was read off the sockets of a port and has not been taken by a handler: how much it is, and
//! how much more may be read.
//!
//! # Invariants
//! 1. All unread bytes of a port together are at most [`UNREAD_BYTES_MAX`], what each thread reads
//!    at once beyond it, and [`FREE_BYTES`] for each connection.
//! 2. A connection of which little is unread may be read in any case: a client that sends an
//!    ordinary request never waits for others.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Unread bytes of a port, beside those that each connection may have.
const UNREAD_BYTES_MAX: usize = 4 << 20;

/// The same while memory is short.
const PRESSED_BYTES_MAX: usize = 1 << 20;

/// Unread bytes that a connection may have whatever the others have.
pub(crate) const FREE_BYTES: usize = 8 << 10;

/// What protocols allow to be unread of one connection. What is counted beyond it are bytes of
/// their frames, which no handler takes.
const CONNECTION_BYTES_MAX: usize = (1 << 20) + (128 << 10);

/// The unread bytes of a port.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    bytes: AtomicUsize,
    /// Memory is short.
    is_pressed: AtomicBool,
}

/// What a port knows of a connection: its unread bytes, and how it is told to go.
#[derive(Debug, Default)]
pub(super) struct Seat {
    pub(super) leave: Notify,
    unread: AtomicUsize,
    /// Its reader, while it may not read.
    reader: Mutex<Option<Waker>>,
}

impl Unread {
    pub(super) fn is_full(&self) -> bool {
        let most = match self.is_pressed() {
            true => PRESSED_BYTES_MAX,
            false => UNREAD_BYTES_MAX,
        };
        self.bytes.load(Ordering::Relaxed) > most
    }

    pub(super) fn is_pressed(&self) -> bool {
        self.is_pressed.load(Ordering::Relaxed)
    }

    pub(super) fn set_pressed(&self, is_pressed: bool) {
        self.is_pressed.store(is_pressed, Ordering::Relaxed);
    }
}

impl Seat {
    pub(super) fn unread(&self) -> usize {
        self.unread.load(Ordering::Relaxed)
    }

    /// The bytes that may be read of it now.
    pub(super) fn room(&self, all: &Unread) -> usize {
        match all.is_full() {
            true => FREE_BYTES.saturating_sub(self.unread()),
            false => usize::MAX,
        }
    }

    pub(super) fn received(&self, bytes: usize, all: &Unread) {
        self.change(all, |unread| {
            unread.saturating_add(bytes).min(CONNECTION_BYTES_MAX)
        });
    }

    /// A handler has taken bytes, or nobody needs them.
    pub(super) fn taken(&self, bytes: usize, all: &Unread) {
        self.change(all, |unread| unread.saturating_sub(bytes));
        if let Some(reader) = self.reader.lock().take() {
            reader.wake();
        }
    }

    pub(super) fn wake_when_taken(&self, reader: &Waker) {
        *self.reader.lock() = Some(reader.clone());
    }

    fn change(&self, all: &Unread, change: impl Fn(usize) -> usize) {
        let order = Ordering::Relaxed;
        let changed = |unread| Some(change(unread));
        // It always changes.
        let (Ok(before) | Err(before)) = self.unread.fetch_update(order, order, changed);
        let after = change(before);
        if after >= before {
            all.bytes.fetch_add(after - before, order);
        } else {
            all.bytes.fetch_sub(before - after, order);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_reads_on_while_little_is_unread_and_a_connection_in_any_case() {
        let all = Unread::default();
        let [long, other] = [(); 2].map(|()| Seat::default());
        for _ in 0..4 {
            assert_eq!(long.room(&all), usize::MAX);
            long.received(UNREAD_BYTES_MAX, &all);
        }
        let more: Vec<Seat> = (0..4).map(|_| Seat::default()).collect();
        more.iter().for_each(|one| one.received(1 << 20, &all));
        assert!(all.is_full());
        assert_eq!((long.room(&all), other.room(&all)), (0, FREE_BYTES));
        other.received(1_000, &all);
        assert_eq!(other.room(&all), FREE_BYTES - 1_000);
        more.iter().for_each(|one| one.taken(usize::MAX, &all));
        long.taken(usize::MAX, &all);
        assert_eq!(other.room(&all), usize::MAX);
        assert_eq!(all.bytes.load(Ordering::Relaxed), 1_000);
        all.set_pressed(true);
        assert_eq!(long.room(&all), usize::MAX);
        other.received(PRESSED_BYTES_MAX, &all);
        assert_eq!((long.room(&all), other.room(&all)), (FREE_BYTES, 0));
    }
}
