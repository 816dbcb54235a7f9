//! The real ones.

pub use arc_swap::{ArcSwap, Guard};
pub use parking_lot::{Mutex, MutexGuard, RwLock};
pub use std::sync::OnceLock;
pub use std::sync::atomic;

/// `real`; under a checker `checked`, a number small enough that a scenario uses more than that
/// many.
pub const fn sized(real: u32, checked: u32) -> u32 {
    let _ = checked;
    real
}
