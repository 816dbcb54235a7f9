//! A gate over a condition variable.
//!
//! # Invariant
//! No wake-up is missed. A waiter reads the epoch before it calls `ready`, and sleeps only while
//! the epoch is unchanged. So a change that is made and notified after the call makes it call
//! `ready` again.

use crate::Gate;
use parking_lot::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// The real [`Gate`].
#[derive(Debug, Default)]
pub(super) struct OsGate {
    /// Counts calls of `notify`.
    epoch: Mutex<u64>,
    changed: Condvar,
}

impl Gate for OsGate {
    fn notify(&self) {
        *self.epoch.lock() += 1;
        self.changed.notify_all();
    }

    fn wait_until(&self, ready: &mut dyn FnMut() -> bool, timeout: Duration) -> bool {
        let start = Instant::now();
        loop {
            let seen = *self.epoch.lock();
            // `ready` may take locks whose holders call `notify`, so the lock of the epoch is not
            // held here.
            if ready() {
                return true;
            }
            let mut left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return false;
            }
            let mut epoch = self.epoch.lock();
            while *epoch == seen && !left.is_zero() {
                self.changed.wait_for(&mut epoch, left);
                left = timeout.saturating_sub(start.elapsed());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_is_ready_is_not_waited_for() {
        assert!(OsGate::default().wait_until(&mut || true, Duration::ZERO));
        assert!(!OsGate::default().wait_until(&mut || false, Duration::ZERO));
    }

    #[test]
    fn wait_ends_at_its_timeout_although_others_notify() {
        let gate = Arc::new(OsGate::default());
        let stop = Arc::new(AtomicU64::new(0));
        let notifier = std::thread::Builder::new().spawn({
            let (gate, stop) = (Arc::clone(&gate), Arc::clone(&stop));
            move || {
                while stop.load(Ordering::SeqCst) == 0 {
                    gate.notify();
                    std::thread::yield_now();
                }
            }
        });
        let mut looks = 0;
        let ready = &mut || {
            looks += 1;
            false
        };
        assert!(!gate.wait_until(ready, Duration::from_millis(50)));
        stop.store(1, Ordering::SeqCst);
        notifier.unwrap().join().unwrap();
        assert!(looks > 1);
    }

    #[test]
    fn change_between_a_look_and_the_wait_is_seen() {
        let gate = OsGate::default();
        let start = Instant::now();
        let mut looks = 0;
        let ready = &mut || {
            looks += 1;
            // As if by another thread, just after this call saw no change.
            gate.notify();
            looks > 1
        };
        assert!(gate.wait_until(ready, LONG));
        assert!(start.elapsed() < LONG);
    }

    /// Two threads pass a counter to and fro. One that misses a wake-up waits until its long
    /// timeout.
    #[test]
    fn no_wake_up_is_missed() {
        const TURNS: u64 = 20_000;
        let start = Instant::now();
        let gate = Arc::new(OsGate::default());
        let turn = Arc::new(AtomicU64::new(0));
        let play = |mine: u64| {
            let (gate, turn) = (Arc::clone(&gate), Arc::clone(&turn));
            move || {
                for round in 0..TURNS {
                    let next = round * 2 + mine;
                    assert!(gate.wait_until(&mut || turn.load(Ordering::SeqCst) == next, LONG));
                    turn.store(next + 1, Ordering::SeqCst);
                    gate.notify();
                }
            }
        };
        let players = [0, 1].map(|mine| std::thread::Builder::new().spawn(play(mine)).unwrap());
        for player in players {
            player.join().unwrap();
        }
        assert!(start.elapsed() < LONG);
    }
}
