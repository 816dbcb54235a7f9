//! The checkers' ones: with the faces of the real ones, made of what both checkers have.

#[cfg(all(feature = "loom", feature = "shuttle"))]
compile_error!("one checker at a time");

#[cfg(feature = "loom")]
pub use loom as checker;
#[cfg(feature = "shuttle")]
pub use shuttle as checker;

use checker::sync as shared;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, PoisonError};

pub use atomic::Ordering;
pub use shared::{MutexGuard, RwLockReadGuard, RwLockWriteGuard, atomic};

/// `checked`; without a checker `real`.
pub const fn sized(real: u32, checked: u32) -> u32 {
    let _ = real;
    checked
}

/// As of `parking_lot`: it does not poison.
#[derive(Debug, Default)]
pub struct Mutex<T>(shared::Mutex<T>);

impl<T> Mutex<T> {
    /// Holds `value`.
    pub fn new(value: T) -> Mutex<T> {
        Mutex(shared::Mutex::new(value))
    }

    /// Waits until nobody holds it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes it if nobody holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}

/// As of `parking_lot`: it does not poison.
#[derive(Debug, Default)]
pub struct RwLock<T>(shared::RwLock<T>);

impl<T> RwLock<T> {
    /// Holds `value`.
    pub fn new(value: T) -> RwLock<T> {
        RwLock(shared::RwLock::new(value))
    }

    /// Takes it, beside others, if nobody holds it alone.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.0.try_read().ok()
    }

    /// Waits until nobody holds it.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As of the standard library. Whether the value is there, the checker decides; where it lies is
/// left to the real one.
#[derive(Debug)]
pub struct OnceLock<T> {
    is_set: atomic::AtomicBool,
    value: std::sync::OnceLock<T>,
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

impl<T> OnceLock<T> {
    /// Without a value.
    pub fn new() -> OnceLock<T> {
        OnceLock {
            is_set: atomic::AtomicBool::new(false),
            value: std::sync::OnceLock::new(),
        }
    }

    /// The value, if this thread sees that there is one.
    pub fn get(&self) -> Option<&T> {
        let is_set = self.is_set.load(Ordering::Acquire);
        self.value.get().filter(|_| is_set)
    }

    /// Gives it a value, or back what it was to be if it has one.
    pub fn set(&self, value: T) -> Result<(), T> {
        self.value.set(value)?;
        self.is_set.store(true, Ordering::Release);
        Ok(())
    }

    /// The value; what `make` makes if there is none.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        let mut made = false;
        let value = self.value.get_or_init(|| {
            made = true;
            make()
        });
        if made {
            self.is_set.store(true, Ordering::Release);
        }
        value
    }
}

/// What [`ArcSwap::load`] gives.
#[derive(Debug)]
pub struct Guard<P>(P);

impl<P> Deref for Guard<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.0
    }
}

/// As of `arc_swap`. Under loom a thread may see an old pointer, unless it knows of something that
/// came after the new one was stored; so none is dropped. Under shuttle it sees the newest, and
/// with it the older ones go when their last holder does.
pub struct ArcSwap<T> {
    #[cfg(feature = "loom")]
    stored: std::sync::Mutex<Vec<Arc<T>>>,
    #[cfg(feature = "loom")]
    current: atomic::AtomicUsize,
    #[cfg(feature = "shuttle")]
    current: Mutex<Arc<T>>,
}

impl<T: fmt::Debug> fmt::Debug for ArcSwap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArcSwap").finish_non_exhaustive()
    }
}

impl<T> ArcSwap<T> {
    /// Holds `value`.
    pub fn from_pointee(value: T) -> ArcSwap<T> {
        ArcSwap::new(Arc::new(value))
    }

    /// A pointer to the value, for a moment.
    pub fn load(&self) -> Guard<Arc<T>> {
        Guard(self.load_full())
    }

    /// Puts another in its place.
    pub fn store(&self, value: Arc<T>) {
        drop(self.swap(value));
    }
}

#[cfg(feature = "loom")]
impl<T> ArcSwap<T> {
    /// Holds `value`.
    pub fn new(value: Arc<T>) -> ArcSwap<T> {
        ArcSwap {
            stored: std::sync::Mutex::new(vec![value]),
            current: atomic::AtomicUsize::new(0),
        }
    }

    /// A pointer to the value.
    pub fn load_full(&self) -> Arc<T> {
        let current = self.current.load(Ordering::Acquire);
        let stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&stored[current])
    }

    /// Puts another in its place, and gives the one before. One caller at a time.
    pub fn swap(&self, value: Arc<T>) -> Arc<T> {
        let (number, before) = {
            let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
            let before = Arc::clone(&stored[stored.len() - 1]);
            stored.push(value);
            (stored.len() - 1, before)
        };
        self.current.store(number, Ordering::Release);
        before
    }
}

#[cfg(feature = "shuttle")]
impl<T> ArcSwap<T> {
    /// Holds `value`.
    pub fn new(value: Arc<T>) -> ArcSwap<T> {
        ArcSwap {
            current: Mutex::new(value),
        }
    }

    /// A pointer to the value.
    pub fn load_full(&self) -> Arc<T> {
        Arc::clone(&self.current.lock())
    }

    /// Puts another in its place, and gives the one before.
    pub fn swap(&self, value: Arc<T>) -> Arc<T> {
        std::mem::replace(&mut *self.current.lock(), value)
    }
}

/// Runs a scenario this many times, each time with the threads' steps in another order: half of
/// them with a step of any thread next, half with threads that go on until they wait, but for a few
/// changes of which goes first (PCT: Burckhardt and others 2010, "A randomized scheduler with
/// probabilistic guarantees of finding bugs"). The same every time: what failed fails again.
///
/// # Panics
/// As the scenario does.
#[cfg(feature = "shuttle")]
pub fn explore(times: usize, scenario: impl Fn() + Send + Sync + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    const SEED: u64 = 1;
    const CHANGES: usize = 3;
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    config.silence_warnings = true;
    // Orders are thousands of steps long, and run again anyway.
    config.failure_persistence = shuttle::FailurePersistence::None;
    let scenario = Arc::new(scenario);
    let again = Arc::clone(&scenario);
    let random = RandomScheduler::new_from_seed(SEED, times / 2);
    shuttle::Runner::new(random, config.clone()).run(move || again());
    let by_priority = PctScheduler::new_from_seed(SEED, CHANGES, times / 2);
    shuttle::Runner::new(by_priority, config).run(move || scenario());
}
