//! Admission to a disk: first come, first served within a class, urgent classes first.
//!
//! # Invariants
//! 1. What is admitted stays within the limits; a request larger than the limit of bytes counts as
//!    that limit, so it is admitted alone.
//! 2. While a request waits, none that comes later is admitted before it in its class.
//! 3. A request that has waited for the promotion time goes before all that have not, whatever
//!    their class. So it waits for that time and for those promoted before it.
//! 4. Below the limits admission is one atomic operation.
//!
//! # Layout of the state
//! ```text
//! 63        48   47       46                       0
//! | requests  | waiting | bytes admitted            |
//! ```

use super::class::{IO_CLASSES, IoClass};
use crate::Gate;
use crate::clock::Clock;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const REQUEST: u64 = 1 << 48;
const WAITING: u64 = 1 << 47;
const BYTES: u64 = WAITING - 1;
/// Threads in the act of coming add themselves first: with these limits nothing overflows.
const REQUESTS_MAX: u64 = 1 << 14;
const BYTES_MAX: u64 = 1 << 32;
const _: () = assert!(REQUESTS_MAX * BYTES_MAX <= BYTES);

/// A wait ends when it is admitted; this only bounds one sleep.
const NAP: Duration = Duration::from_secs(60);

/// What a disk may have to do at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Requests, 1 to 16,384: more keep the disk busier; fewer let urgent ones go first.
    pub requests_max: u64,
    /// Bytes of them, 1 to 4 GiB.
    pub bytes_max: u64,
    /// A request that has waited for this long goes first.
    pub promote_after: Duration,
}

/// Figures of a queue, since it was made. A list has one number for each class: user reads, log and
/// flushes, compactions, and background work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AdmissionFigures {
    /// Requests admitted and not done.
    pub outstanding: u64,
    /// Bytes of them.
    pub outstanding_bytes: u64,
    /// Requests that wait now.
    pub waiting: [u64; IO_CLASSES],
    /// Requests that had to wait.
    pub waits: [u64; IO_CLASSES],
    /// How long they waited in all, in microseconds.
    pub wait_micros: [u64; IO_CLASSES],
    /// The longest wait, in microseconds.
    pub wait_micros_max: [u64; IO_CLASSES],
    /// Requests that went first since they had waited for the promotion time.
    pub promotions: [u64; IO_CLASSES],
}

#[derive(Debug)]
struct Waiter {
    cost: u64,
    since: Duration,
    admitted: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Queues {
    levels: [VecDeque<Waiter>; IO_CLASSES],
    figures: AdmissionFigures,
}

impl Queues {
    /// The class whose head is next, and whether by promotion.
    fn next(&self, now: Duration, promote_after: Duration) -> Option<(usize, bool)> {
        let heads = self.levels.iter().enumerate();
        let heads = heads.filter_map(|(class, level)| Some((class, level.front()?.since)));
        let waited = |since: Duration| now.saturating_sub(since) >= promote_after;
        let promoted = heads.clone().filter(|(_, since)| waited(*since));
        let oldest = promoted.min_by_key(|(_, since)| *since);
        // The head of the most urgent class needs no promotion to be next.
        let first = heads.map(|(class, _)| class).next()?;
        Some(match oldest {
            Some((class, _)) => (class, class != first),
            None => (first, false),
        })
    }
}

/// The gate of one disk.
#[derive(Debug)]
pub(crate) struct Admission {
    state: AtomicU64,
    limits: AdmissionLimits,
    queues: Mutex<Queues>,
    gate: Arc<dyn Gate>,
}

/// Admitted until dropped.
#[derive(Debug)]
pub(crate) struct Admitted<'a> {
    of: &'a Admission,
    clock: &'a dyn Clock,
    cost: u64,
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        let before = self.of.state.fetch_sub(self.cost, Ordering::AcqRel);
        debug_assert!(before >= self.cost, "a request is done once");
        if before & WAITING != 0 {
            self.of.admit_next(self.clock);
        }
    }
}

impl Admission {
    pub(super) fn new(gate: Arc<dyn Gate>, limits: AdmissionLimits) -> Admission {
        Admission {
            state: AtomicU64::new(0),
            limits: AdmissionLimits {
                requests_max: limits.requests_max.clamp(1, REQUESTS_MAX),
                bytes_max: limits.bytes_max.clamp(1, BYTES_MAX),
                ..limits
            },
            queues: Mutex::default(),
            gate,
        }
    }

    /// Whether one more request fits, of a state before it was added.
    fn fits(&self, before: u64, cost: u64) -> bool {
        before / REQUEST < self.limits.requests_max
            && (before & BYTES) + (cost & BYTES) <= self.limits.bytes_max
    }

    /// Waits until a request of `bytes` is admitted.
    #[inline]
    pub(super) fn enter<'a>(
        &'a self,
        clock: &'a dyn Clock,
        class: IoClass,
        bytes: u64,
    ) -> Admitted<'a> {
        let cost = REQUEST + bytes.min(self.limits.bytes_max);
        let before = self.state.fetch_add(cost, Ordering::AcqRel);
        if before & WAITING != 0 || !self.fits(before, cost) {
            self.wait(clock, class, cost);
        }
        Admitted {
            of: self,
            clock,
            cost,
        }
    }

    #[cold]
    fn wait(&self, clock: &dyn Clock, class: IoClass, cost: u64) {
        let admitted = Arc::new(AtomicBool::new(false));
        let (since, class) = (clock.monotonic(), class as usize);
        {
            let mut queues = self.queues.lock();
            // What was added to find out that there is no room. Others may have found none because
            // of it; they come to the lock too.
            self.state.fetch_sub(cost, Ordering::AcqRel);
            let waiter = Waiter {
                cost,
                since,
                admitted: Arc::clone(&admitted),
            };
            if let Some(level) = queues.levels.get_mut(class) {
                level.push_back(waiter);
            }
            self.state.fetch_or(WAITING, Ordering::AcqRel);
        }
        self.admit_next(clock);
        let mut is_admitted = || admitted.load(Ordering::Acquire);
        while !self.gate.wait_until(&mut is_admitted, NAP) {}
        let micros = clock.monotonic().saturating_sub(since).as_micros();
        let micros = u64::try_from(micros).unwrap_or(u64::MAX);
        let figures = &mut self.queues.lock().figures;
        figures.waits[class] += 1;
        figures.wait_micros[class] += micros;
        figures.wait_micros_max[class] = figures.wait_micros_max[class].max(micros);
    }

    /// Admits those that wait, as far as there is room.
    #[cold]
    fn admit_next(&self, clock: &dyn Clock) {
        let mut queues = self.queues.lock();
        let mut notify = false;
        let now = clock.monotonic();
        loop {
            let Some((class, promoted)) = queues.next(now, self.limits.promote_after) else {
                self.state.fetch_and(!WAITING, Ordering::AcqRel);
                break;
            };
            let Some(head) = queues.levels[class].front() else {
                break;
            };
            let cost = head.cost;
            let before = self.state.fetch_add(cost, Ordering::AcqRel);
            if !self.fits(before, cost) {
                // One that is admitted is the next to come here, or one that was just refused.
                self.state.fetch_sub(cost, Ordering::AcqRel);
                break;
            }
            if let Some(head) = queues.levels[class].pop_front() {
                head.admitted.store(true, Ordering::Release);
                queues.figures.promotions[class] += u64::from(promoted);
                notify = true;
            }
        }
        drop(queues);
        if notify {
            self.gate.notify();
        }
    }

    /// Whether nothing waits and there is room for one more, of a byte at least.
    pub(crate) fn has_room(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        state & WAITING == 0 && self.fits(state, REQUEST + 1)
    }

    /// Bytes admitted.
    pub(super) fn bytes(&self) -> u64 {
        self.state.load(Ordering::Relaxed) & BYTES
    }

    pub(super) fn figures(&self) -> AdmissionFigures {
        let queues = self.queues.lock();
        let state = self.state.load(Ordering::Relaxed);
        let mut figures = queues.figures;
        figures.outstanding = state / REQUEST;
        figures.outstanding_bytes = state & BYTES;
        for (count, level) in figures.waiting.iter_mut().zip(&queues.levels) {
            *count = level.len() as u64;
        }
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::managed::EnvClock;
    use crate::{Env, OsEnv, SimEnv};
    use std::thread;

    fn limits(requests_max: u64, bytes_max: u64) -> AdmissionLimits {
        AdmissionLimits {
            requests_max,
            bytes_max,
            promote_after: Duration::from_secs(3600),
        }
    }

    fn queues(waiting: &[(IoClass, u64)]) -> Queues {
        let mut queues = Queues::default();
        for (class, since) in waiting {
            queues.levels[*class as usize].push_back(Waiter {
                cost: 1,
                since: Duration::from_millis(*since),
                admitted: Arc::default(),
            });
        }
        queues
    }

    #[test]
    fn urgent_class_is_next_until_another_has_waited_for_the_promotion_time() {
        use IoClass::{Background, Compaction, Log, Read};
        type Case<'a> = (&'a [(IoClass, u64)], u64, Option<(IoClass, bool)>);
        let cases: &[Case<'_>] = &[
            (&[], 0, None),
            (
                &[(Background, 5), (Log, 6), (Read, 7)],
                50,
                Some((Read, false)),
            ),
            (
                &[(Background, 5), (Compaction, 4)],
                50,
                Some((Compaction, false)),
            ),
            (&[(Background, 5), (Read, 60)], 104, Some((Read, false))),
            (
                &[(Background, 5), (Read, 60)],
                105,
                Some((Background, true)),
            ),
            // The oldest of those promoted, whatever their classes.
            (&[(Background, 5), (Read, 4)], 200, Some((Read, false))),
            (
                &[(Background, 5), (Compaction, 6), (Log, 7)],
                200,
                Some((Background, true)),
            ),
            (&[(Background, 5)], 200, Some((Background, false))),
        ];
        for (waiting, now, expected) in cases {
            let promote_after = Duration::from_millis(100);
            let next = queues(waiting).next(Duration::from_millis(*now), promote_after);
            let expected = expected.map(|(class, promoted)| (class as usize, promoted));
            assert_eq!(next, expected, "{waiting:?} at {now}");
        }
    }

    #[test]
    fn requests_and_bytes_stay_within_the_limits_among_many_threads() {
        let env = OsEnv::new().unwrap();
        let clock = EnvClock(env.clone());
        for (requests, bytes) in [(3, 1 << 20), (1000, 100)] {
            let gate = Admission::new(env.gate(), limits(requests, bytes));
            let (inside, most) = (AtomicU64::new(0), AtomicU64::new(0));
            thread::scope(|scope| {
                for thread in 0..6 {
                    let (gate, clock, inside, most) = (&gate, &clock, &inside, &most);
                    scope.spawn(move || {
                        let classes = [
                            IoClass::Read,
                            IoClass::Log,
                            IoClass::Compaction,
                            IoClass::Background,
                        ];
                        for n in 0..2000 {
                            let admitted = gate.enter(clock, classes[(n + thread) % 4], 40);
                            most.fetch_max(
                                inside.fetch_add(1, Ordering::SeqCst) + 1,
                                Ordering::SeqCst,
                            );
                            thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                            drop(admitted);
                        }
                    });
                }
            });
            let most = most.into_inner();
            assert!(most <= requests.min(bytes / 40) && most >= 1, "{most}");
            assert_eq!(gate.state.load(Ordering::SeqCst), 0);
            assert_eq!(gate.figures().waiting, [0; IO_CLASSES]);
        }
    }

    #[test]
    fn first_come_is_first_served_and_a_large_request_is_admitted_alone() {
        let env = OsEnv::new().unwrap();
        let clock = EnvClock(env.clone());
        let gate = Admission::new(env.gate(), limits(2, 100));
        let order = Mutex::new(Vec::new());
        let large = gate.enter(&clock, IoClass::Compaction, 1 << 40);
        assert!(!gate.has_room());
        thread::scope(|scope| {
            let waiting = [
                (IoClass::Background, 1),
                (IoClass::Compaction, 2),
                (IoClass::Compaction, 3),
                (IoClass::Read, 4),
            ];
            for (count, (class, name)) in (1..).zip(waiting) {
                let (gate, clock, order) = (&gate, &clock, &order);
                scope.spawn(move || {
                    let _admitted = gate.enter(clock, class, 100);
                    order.lock().push(name);
                });
                while gate.figures().waiting.iter().sum::<u64>() < count {
                    thread::yield_now();
                }
            }
            drop(large);
        });
        assert_eq!(*order.lock(), [4, 2, 3, 1]);
        let figures = gate.figures();
        assert_eq!(
            (figures.waits, figures.promotions),
            ([1, 0, 2, 1], [0; IO_CLASSES])
        );
        assert!(gate.has_room());
    }

    #[test]
    fn below_the_limits_nothing_is_counted_or_queued() {
        let env = SimEnv::new(1);
        let clock = EnvClock(env.clone());
        let gate = Admission::new(env.gate(), limits(2, 100));
        let one = gate.enter(&clock, IoClass::Background, 10);
        let two = gate.enter(&clock, IoClass::Read, 90);
        let figures = gate.figures();
        assert_eq!((figures.outstanding, figures.outstanding_bytes), (2, 100));
        drop((one, two));
        assert_eq!(gate.figures(), AdmissionFigures::default());
    }
}
