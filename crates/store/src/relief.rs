//! What is done when memtables take more than half of their memory: which stores are flushed, and
//! how much their writers are held back.
//!
//! A store whose flush would free most is flushed first, one at a time. Where disks have I/O
//! managers, as many are flushed at a time as there are disks of a medium: each disk has work, and
//! slow ones hold up no flush to a fast one. A store that holds little waits until others have
//! been flushed: else each would be flushed again and again, with hardly anything to write.
//!
//! There a writer is also held back by what its own store holds, and not by what all stores hold
//! together: else the stores of a slow disk would fill the memory, and hold the writers of a fast
//! one to the rate of the slow one. Each store has an equal part of what memtables hold, and the
//! number of parts is that of the stores which hold much of it.

use quire_env::{Budget, Env, Medium};
use quire_sync::Mutex;
use quire_sync::atomic::{AtomicU64, Ordering};
use std::cmp::Reverse;
use std::sync::{Arc, Weak};

/// A store, as the one who frees memory sees it.
pub(crate) trait Flushable: Send + Sync {
    /// What its memtables hold.
    fn memory(&self) -> Memory;
    /// Starts a flush in the background, unless one is due.
    fn start_flush(&self);
}

/// Memtables of a store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    /// Bytes of all of them.
    pub(crate) bytes: u64,
    /// The slowest that a flush writes to.
    pub(crate) medium: Medium,
    /// Bytes that the flush will free which is due or under way. None if there is none, or if it
    /// has failed and is tried again.
    pub(crate) flushing: Option<u64>,
    /// Whether a flush can be started now.
    pub(crate) can_flush: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Relief {
    env: Arc<dyn Env>,
    memtables: Arc<Budget>,
    stores: Mutex<Stores>,
    /// How many stores hold much, as the bits of an `f64`.
    holders: AtomicU64,
    /// Bytes of the memory that no store's memtables hold, when they were last looked at.
    beside: AtomicU64,
}

#[derive(Debug, Default)]
struct Stores {
    all: Vec<Weak<dyn Flushable>>,
    /// Bytes of memtables when they were last looked at.
    looked_at: u64,
}

impl std::fmt::Debug for dyn Flushable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Flushable").field(&self.memory()).finish()
    }
}

impl Relief {
    pub(crate) fn new(env: Arc<dyn Env>, memtables: Arc<Budget>) -> Relief {
        Relief {
            env,
            memtables,
            stores: Mutex::default(),
            holders: AtomicU64::new(1.0_f64.to_bits()),
            beside: AtomicU64::new(0),
        }
    }

    pub(crate) fn register(&self, store: Weak<dyn Flushable>) {
        let mut stores = self.stores.lock();
        stores.all.retain(|store| store.strong_count() > 0);
        stores.all.push(store);
    }

    /// A flush has ended, or can be started again.
    pub(crate) fn look_again(&self) {
        self.stores.lock().looked_at = 0;
    }

    /// Past half of the memory, starts flushes of the stores that free most, until what they will
    /// free takes the rest below half, or as many are under way as may be. Flushes to hard disks,
    /// which take long, are started until the rest is below a quarter, if several may be under way.
    pub(crate) fn relieve(&self) {
        let (used, limit) = (self.memtables.used(), self.memtables.limit());
        if used <= limit / 2 {
            return;
        }
        // Who has the lock looks.
        let Some(mut stores) = self.stores.try_lock() else {
            return;
        };
        // Not with each write: there may be many stores. But where writers wait, what is held may
        // be held by others than at the last time, although it is as much.
        if used < limit && used.abs_diff(stores.looked_at) < limit / 64 {
            return;
        }
        stores.looked_at = used;
        let all: Vec<_> = stores.all.iter().filter_map(Weak::upgrade).collect();
        let mut held: Vec<_> = all.iter().map(|store| (store.memory(), store)).collect();
        let holders = holders(held.iter().map(|(memory, _)| memory.bytes));
        self.holders.store(holders.to_bits(), Ordering::Relaxed);
        let of_stores: u64 = held.iter().map(|(memory, _)| memory.bytes).sum();
        let beside = used.saturating_sub(of_stores);
        self.beside.store(beside, Ordering::Relaxed);

        let flushing = held.iter().filter_map(|(memory, _)| memory.flushing);
        let mut left = used.saturating_sub(flushing.sum());
        let mut more = self.flushes_max();
        let has_many = more.has_many();
        // Memory that is half full with one large flush under way would leave other disks idle.
        let enough = |medium| match (has_many, medium) {
            (true, Medium::Hdd) => limit / 4,
            _ => limit / 2,
        };
        // Half of what each of the stores holds that hold much.
        let worth_it = (of_stores as f64 / holders / 2.0) as u64;
        for (memory, _) in &held {
            if memory.flushing.is_some() {
                more.take(memory.medium);
            }
        }
        held.retain(|(memory, _)| memory.can_flush && memory.bytes > 0);
        held.sort_by_key(|(memory, _)| Reverse(memory.bytes));
        for (memory, store) in held {
            let is_under_way = left < used;
            if is_under_way && memory.bytes < worth_it {
                break;
            }
            if left > enough(memory.medium) && more.take(memory.medium) {
                store.start_flush();
                left -= memory.bytes.min(left);
            }
        }
        // The last holder of a store may call this when it is dropped.
        drop(stores);
    }

    /// How full the memory is for a writer whose store holds `own` bytes, as bytes in use.
    pub(crate) fn felt(&self, own: impl FnOnce() -> u64) -> u64 {
        let used = self.memtables.used();
        let max = self.flushes_max();
        if !max.has_many() {
            return used;
        }
        let holders = f64::from_bits(self.holders.load(Ordering::Relaxed));
        let beside = self.beside.load(Ordering::Relaxed);
        used.min((own() as f64 * holders) as u64 + beside)
    }

    fn flushes_max(&self) -> Flushes {
        let [ssd, hdd] = [Medium::Ssd, Medium::Hdd].map(|medium| self.env.managed_disks(medium));
        match ssd + hdd {
            0 => Flushes {
                by_medium: false,
                ssd: 1,
                hdd: 0,
            },
            _ => Flushes {
                by_medium: true,
                ssd,
                hdd,
            },
        }
    }
}

/// How many flushes may be under way at once.
struct Flushes {
    by_medium: bool,
    ssd: usize,
    hdd: usize,
}

impl Flushes {
    /// Whether several may be under way at once.
    fn has_many(&self) -> bool {
        self.ssd + self.hdd > 1
    }

    /// Whether there may be one more; then it is counted.
    fn take(&mut self, medium: Medium) -> bool {
        let count = match (self.by_medium, medium) {
            (true, Medium::Hdd) => &mut self.hdd,
            _ => &mut self.ssd,
        };
        let may = *count > 0;
        *count = count.saturating_sub(1);
        may
    }
}

/// How many of those who hold so much each hold much: the inverse of Simpson's index. It is their
/// number if all hold the same, and one if one holds nearly all.
fn holders(held: impl Iterator<Item = u64>) -> f64 {
    let (mut sum, mut squares) = (0.0, 0.0);
    for bytes in held {
        let bytes = bytes as f64;
        sum += bytes;
        squares += bytes * bytes;
    }
    match squares > 0.0 {
        true => sum * sum / squares,
        false => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Medium::{Hdd, Ssd};
    use quire_env::{IoLimits, ManagedEnv, SimEnv, Volume, Volumes};

    const LIMIT: u64 = 1000;

    struct Fake(Mutex<Memory>);

    impl Flushable for Fake {
        fn memory(&self) -> Memory {
            *self.0.lock()
        }

        fn start_flush(&self) {
            let memory = &mut *self.0.lock();
            assert!(memory.can_flush);
            (memory.flushing, memory.can_flush) = (Some(memory.bytes), false);
        }
    }

    struct Machine {
        relief: Relief,
        stores: Vec<Arc<Fake>>,
        _used: quire_env::Charge,
    }

    impl Machine {
        /// Stores, on disks that are managed if there are any.
        fn new(disks: &[Medium], stores: &[(u64, Medium)]) -> Machine {
            let mut env: Arc<dyn Env> = SimEnv::new(1);
            if !disks.is_empty() {
                let list = (0..).zip(disks);
                let list = list.map(|(at, medium)| (format!("disk{at}").into(), *medium));
                let io = |volume: &Volume| {
                    ManagedEnv::disk_of(&env, &volume.path, IoLimits::of(volume.medium))
                };
                let volumes = Volumes::new(list).unwrap();
                env = Arc::new(ManagedEnv::new(Arc::clone(&env), &volumes, io));
            }
            let memtables = Budget::new(LIMIT);
            let used = memtables.charge(stores.iter().map(|(bytes, _)| bytes).sum());
            let relief = Relief::new(env, memtables);
            let stores = stores.iter().map(|(bytes, medium)| {
                let store = Arc::new(Fake(Mutex::new(Memory {
                    bytes: *bytes,
                    medium: *medium,
                    flushing: None,
                    can_flush: true,
                })));
                let weak = Arc::downgrade(&store);
                relief.register(weak);
                store
            });
            Machine {
                stores: stores.collect(),
                relief,
                _used: used,
            }
        }

        /// Which stores are flushed.
        fn flushed(&self) -> Vec<usize> {
            self.relief.relieve();
            let all = self.stores.iter().enumerate();
            let flushed = all.filter(|(_, store)| !store.memory().can_flush);
            flushed.map(|(at, _)| at).collect()
        }

        fn felt(&self, store: usize) -> u64 {
            self.relief.felt(|| self.stores[store].memory().bytes)
        }
    }

    #[test]
    fn one_store_at_a_time_is_flushed_to_disks_that_nothing_manages() {
        let stores = [(200, Ssd), (400, Hdd), (350, Ssd)];
        let machine = Machine::new(&[], &stores);
        assert_eq!(machine.flushed(), [1]);
        assert_eq!(machine.felt(0), 950, "writers are held back alike");
        let half = Machine::new(&[], &[(300, Ssd), (200, Ssd)]);
        assert!(half.flushed().is_empty());
    }

    #[test]
    fn each_disk_has_a_flush_until_what_is_left_is_a_quarter() {
        let stores = [(240, Hdd), (220, Hdd), (200, Hdd), (190, Ssd), (150, Ssd)];
        assert_eq!(Machine::new(&[Ssd, Hdd], &stores).flushed(), [0, 3]);
        assert_eq!(Machine::new(&[Ssd, Hdd, Hdd], &stores).flushed(), [0, 1, 3]);
        // All of them would be more than is needed.
        assert_eq!(Machine::new(&[Hdd; 9], &stores[..4]).flushed(), [0, 1, 2]);
    }

    #[test]
    fn a_flush_that_is_under_way_counts_and_one_that_fails_does_not() {
        let machine = Machine::new(&[Ssd, Hdd], &[(700, Hdd), (150, Ssd), (50, Ssd)]);
        assert_eq!(machine.flushed(), [0]);
        machine.relief.look_again();
        assert_eq!(machine.flushed(), [0], "most of it is being freed");
        machine.stores[0].0.lock().flushing = None;
        machine.relief.look_again();
        assert_eq!(machine.flushed(), [0, 1], "the first has failed");
    }

    #[test]
    fn a_store_with_little_is_flushed_only_if_no_other_is() {
        let stores = [(350, Hdd), (60, Hdd), (300, Hdd)];
        let machine = Machine::new(&[Hdd; 3], &stores);
        let _beside = machine.relief.memtables.charge(260);
        assert_eq!(
            machine.flushed(),
            [0, 2],
            "although more than a quarter is left"
        );
        let alone = Machine::new(&[Hdd; 3], &stores[1..2]);
        let _beside = alone.relief.memtables.charge(600);
        assert_eq!(alone.flushed(), [0]);
    }

    #[test]
    fn full_memory_is_looked_at_although_it_is_as_full_as_the_last_time() {
        let machine = Machine::new(&[], &[(0, Ssd), (LIMIT, Ssd)]);
        machine.stores[1].0.lock().can_flush = false;
        assert_eq!(machine.flushed(), [1], "by itself");
        machine.stores[0].0.lock().bytes = LIMIT;
        assert_eq!(machine.flushed(), [0, 1]);
    }

    #[test]
    fn writers_to_a_fast_disk_do_not_feel_what_those_to_a_slow_one_hold() {
        let machine = Machine::new(&[Ssd, Hdd], &[(800, Hdd), (100, Ssd)]);
        machine.flushed();
        assert_eq!(machine.felt(0), 900);
        let felt = machine.felt(1);
        assert!(felt <= LIMIT / 2, "{felt}");
        // What else lies in the memory is felt by all.
        let _beside = machine.relief.memtables.charge(100);
        machine.flushed();
        assert_eq!(machine.felt(1), felt + 100);
        // Where all hold the same, all are held back as they are on one disk.
        let even = Machine::new(
            &[Ssd, Hdd],
            &[(225, Hdd), (225, Hdd), (225, Ssd), (225, Ssd)],
        );
        even.flushed();
        assert!((0..4).all(|store| even.felt(store) == 900));
    }
}
