//! The memory budget: the number of bytes that all large structures of the process share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A budget of bytes, shared by all that charge it. Charging never blocks and never fails. The
/// caller decides who waits and who is refused, from [`used`](Budget::used) and
/// [`limit`](Budget::limit).
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    used: AtomicU64,
    peak: AtomicU64,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Arc<Budget> {
        Arc::new(Budget {
            limit,
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        })
    }

    /// Bytes allowed.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes charged now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The most bytes ever charged at once.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// A charge of `bytes`, released when it is dropped.
    pub fn charge(self: &Arc<Self>, bytes: u64) -> Charge {
        let mut charge = Charge {
            budget: Arc::clone(self),
            bytes: 0,
        };
        charge.resize(bytes);
        charge
    }
}

/// Bytes charged to a [`Budget`], released when this is dropped.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Charge {
    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Changes the charge to `bytes`.
    pub fn resize(&mut self, bytes: u64) {
        if bytes > self.bytes {
            let grown = bytes - self.bytes;
            let used = self.budget.used.fetch_add(grown, Ordering::Relaxed) + grown;
            self.budget.peak.fetch_max(used, Ordering::Relaxed);
        } else {
            let shrunk = self.bytes - bytes;
            let used = self.budget.used.fetch_sub(shrunk, Ordering::Relaxed);
            debug_assert!(used >= shrunk, "a budget counts every charge once");
        }
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn charges_add_up_and_are_given_back() {
        let budget = Budget::new(100);
        let mut first = budget.charge(70);
        let second = budget.charge(60);
        assert_eq!(
            (budget.limit(), budget.used()),
            (100, 130),
            "charging is never refused"
        );
        first.resize(10);
        assert_eq!((first.bytes(), budget.used(), budget.peak()), (10, 70, 130));
        drop(second);
        first.resize(25);
        assert_eq!((budget.used(), budget.peak()), (25, 130));
        drop(first);
        assert_eq!((budget.used(), budget.peak()), (0, 130));
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let budget = Budget::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut charge = budget.charge(0);
                    for n in 0..10_000 {
                        charge.resize(n % 97);
                    }
                });
            }
        });
        assert_eq!(budget.used(), 0);
        assert!(
            budget.peak() >= 96 && budget.peak() <= 4 * 96,
            "{}",
            budget.peak()
        );
    }
}
