//! The memory budget: one number of bytes that everything large in the process is drawn from.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A budget of bytes, shared by all that charge it. Charging never blocks and never fails: policy (who waits, who is
/// refused) is the caller's, who looks at [`used`](Budget::used) against [`limit`](Budget::limit).
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

    /// A charge of `bytes` that is given back when dropped.
    pub fn charge(self: &Arc<Self>, bytes: u64) -> Charge {
        let mut charge = Charge {
            budget: Arc::clone(self),
            bytes: 0,
        };
        charge.resize(bytes);
        charge
    }
}

/// Bytes drawn from a [`Budget`]; dropped, they are given back.
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

    /// Holds `bytes` from now on.
    pub fn resize(&mut self, bytes: u64) {
        if bytes > self.bytes {
            let grown = bytes - self.bytes;
            let used = self.budget.used.fetch_add(grown, Ordering::Relaxed) + grown;
            self.budget.peak.fetch_max(used, Ordering::Relaxed);
        } else {
            self.budget
                .used
                .fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.resize(0);
    }
}
