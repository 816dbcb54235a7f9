//! The memory budget: the number of bytes that all large structures of the process share.
//!
//! # Invariants
//! 1. A charge counts from when it is made or grown until it is dropped or shrunk, once.
//! 2. [`try_charge`](Budget::try_charge) and [`try_resize`](Charge::try_resize) never take the
//!    budget past its limit. `charge` and `resize` may.
//! 3. A [`Claim`] charges nothing: who sees one should not take much before the claimant.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A budget of bytes, shared by all that charge it. Charging never blocks. The caller decides who
/// waits and who is refused.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    used: AtomicU64,
    peak: AtomicU64,
    claims: AtomicU64,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Arc<Budget> {
        Arc::new(Budget {
            limit,
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            claims: AtomicU64::new(0),
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

    /// A charge of `bytes`, released when it is dropped; `None` if they are not free.
    pub fn try_charge(self: &Arc<Self>, bytes: u64) -> Option<Charge> {
        let mut charge = self.charge(0);
        charge.try_resize(bytes).then_some(charge)
    }

    /// A charge of `bytes`, released when it is dropped; `None` if fewer are free than these and
    /// `beside` for others.
    pub fn try_charge_beside(self: &Arc<Self>, bytes: u64, beside: u64) -> Option<Charge> {
        let mut charge = self.try_charge(bytes.checked_add(beside)?)?;
        charge.resize(bytes);
        Some(charge)
    }

    /// Says that the caller waits for much of the budget, until the claim is dropped.
    pub fn claim(&self) -> Claim<'_> {
        self.claims.fetch_add(1, Ordering::Relaxed);
        Claim(self)
    }

    /// Whether somebody waits for much of it.
    pub fn is_claimed(&self) -> bool {
        self.claims.load(Ordering::Relaxed) > 0
    }

    /// Takes `bytes` if they are free.
    fn try_take(&self, bytes: u64) -> bool {
        let taken = |used: u64| {
            let used = used.checked_add(bytes)?;
            (used <= self.limit).then_some(used)
        };
        let order = Ordering::Relaxed;
        match self.used.fetch_update(order, order, taken) {
            Ok(before) => {
                self.peak.fetch_max(before + bytes, order);
                true
            }
            Err(_) => false,
        }
    }
}

/// Somebody waits for much of a [`Budget`].
#[derive(Debug)]
pub struct Claim<'a>(&'a Budget);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.claims.fetch_sub(1, Ordering::Relaxed);
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

    /// Bytes that the budget allows in all.
    pub fn limit(&self) -> u64 {
        self.budget.limit
    }

    /// Changes the charge to `bytes`; false, and no change, if it would grow by more than is free.
    pub fn try_resize(&mut self, bytes: u64) -> bool {
        if bytes <= self.bytes {
            self.resize(bytes);
            return true;
        }
        let is_free = self.budget.try_take(bytes - self.bytes);
        if is_free {
            self.bytes = bytes;
        }
        is_free
    }

    /// Changes the charge to `bytes`, past the limit if need be.
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
    fn what_is_tried_never_goes_past_the_limit() {
        let budget = Budget::new(100);
        let mut first = budget.try_charge(60).unwrap();
        assert!(budget.try_charge(41).is_none());
        assert!(!first.try_resize(101));
        assert_eq!((first.bytes(), budget.used(), budget.peak()), (60, 60, 60));
        assert!(first.try_resize(100) && first.try_resize(10));
        // What was charged without a limit is in the way.
        let second = budget.charge(500);
        assert!(budget.try_charge(1).is_none() && budget.try_charge(0).is_some());
        drop((first, second));
        assert_eq!(budget.used(), 0);
        assert!(budget.try_charge(u64::MAX).is_none());
        assert!(budget.try_charge_beside(60, 41).is_none());
        assert!(budget.try_charge_beside(1, u64::MAX).is_none());
        let third = budget.try_charge_beside(60, 40).unwrap();
        assert_eq!((third.bytes(), budget.used()), (60, 60));
        drop(third);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..10_000 {
                        drop(budget.try_charge(n % 97));
                        assert!(budget.used() <= 100);
                    }
                });
            }
        });
        assert_eq!(budget.used(), 0);
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
