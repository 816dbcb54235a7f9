//! [`Usage`]: what was done with a collection since it was opened, as those that serve it count.
//!
//! Each figure is an atomic of its own, which is only added to: a reader may see one of two that
//! belong together.

use parking_lot::Mutex;
use quire_env::Env;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The most groups that are counted apart, and the longest name of one in bytes.
const GROUPS_MAX: usize = 100;
const GROUP_BYTES_MAX: usize = 256;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Documents put or changed.
    Index,
    /// Documents deleted.
    Delete,
    /// Gets of documents that are there.
    GetFound,
    /// Gets of documents that are not.
    GetMissing,
    /// Searches and counts: finding what matches.
    Query,
    /// Reading the documents of hits.
    Fetch,
    /// Pages of scrolls.
    Scroll,
    /// Points in time that were opened.
    Point,
}

/// The number of kinds of [`Use`].
const USES: usize = 8;

/// A count and a time; and how many are running.
#[derive(Debug, Default)]
struct Timed {
    running: AtomicU64,
    count: AtomicU64,
    nanos: AtomicU64,
}

impl Timed {
    fn add(&self, count: u64, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(count, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    fn figures(&self) -> UseFigures {
        UseFigures {
            running: self.running.load(Ordering::Relaxed),
            count: self.count.load(Ordering::Relaxed),
            millis: self.nanos.load(Ordering::Relaxed) / 1_000_000,
        }
    }
}

/// A count and a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UseFigures {
    /// How many are running.
    pub running: u64,
    /// How many ended.
    pub count: u64,
    /// How long they took together, in milliseconds.
    pub millis: u64,
}

/// How a collection was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opened {
    /// When: microseconds since 1970 UTC.
    pub micros: i64,
    /// How long it took.
    pub took: Duration,
    /// Whether nothing had ever been written to it.
    pub was_empty: bool,
}

/// What was done with a collection since it was opened.
#[derive(Debug)]
pub struct Usage {
    env: Arc<dyn Env>,
    opened: Opened,
    uses: [Timed; USES],
    index_failed: AtomicU64,
    noops: AtomicU64,
    /// Outcomes of writes by the hundreds of their HTTP status.
    statuses: [AtomicU64; 5],
    /// Searches by the groups that they name.
    groups: Mutex<BTreeMap<String, UseFigures>>,
}

/// Something that is done now. It counts as running until it is dropped.
#[derive(Debug)]
pub struct Using<'u> {
    usage: &'u Usage,
    what: Use,
    begun: Duration,
}

impl Usage {
    /// Of a collection whose opening began at `begun`, by the monotonic clock.
    pub(crate) fn new(env: &Arc<dyn Env>, begun: Duration, was_empty: bool) -> Usage {
        let took = env.monotonic().saturating_sub(begun);
        let micros = i64::try_from(took.as_micros()).unwrap_or(i64::MAX);
        Usage {
            env: Arc::clone(env),
            opened: Opened {
                micros: env.now_micros().saturating_sub(micros),
                took,
                was_empty,
            },
            uses: Default::default(),
            index_failed: AtomicU64::default(),
            noops: AtomicU64::default(),
            statuses: Default::default(),
            groups: Mutex::default(),
        }
    }

    /// Of a collection with which nothing was done.
    pub fn unused(env: &Arc<dyn Env>) -> Usage {
        Usage::new(env, env.monotonic(), true)
    }

    /// How the collection was opened.
    pub fn opened(&self) -> Opened {
        self.opened
    }

    fn timed(&self, what: Use) -> &Timed {
        &self.uses[what as usize]
    }

    /// Something begins.
    pub fn begin(&self, what: Use) -> Using<'_> {
        self.timed(what).running.fetch_add(1, Ordering::Relaxed);
        Using {
            usage: self,
            what,
            begun: self.env.monotonic(),
        }
    }

    /// Writes that were refused.
    pub fn index_failed(&self, count: u64) {
        self.index_failed.fetch_add(count, Ordering::Relaxed);
    }

    /// An update that changed nothing.
    pub fn noop(&self) {
        self.noops.fetch_add(1, Ordering::Relaxed);
    }

    /// A write was answered with this HTTP status.
    pub fn answered(&self, status: u16) {
        let hundreds = usize::from(status / 100).wrapping_sub(1);
        if let Some(count) = self.statuses.get(hundreds) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A search that names these groups took so long. Past 100 groups, new ones are not counted.
    pub fn of_groups(&self, names: &[String], took: Duration) {
        if names.is_empty() {
            return;
        }
        let mut groups = self.groups.lock();
        for name in names {
            let is_new = !groups.contains_key(name);
            if is_new && (groups.len() >= GROUPS_MAX || name.len() > GROUP_BYTES_MAX) {
                continue;
            }
            let group = groups.entry(name.clone()).or_default();
            group.count += 1;
            group.millis += u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        }
    }

    /// The figures of a kind.
    pub fn figures(&self, what: Use) -> UseFigures {
        self.timed(what).figures()
    }

    /// Writes refused since the collection was opened.
    pub fn index_failures(&self) -> u64 {
        self.index_failed.load(Ordering::Relaxed)
    }

    /// Updates that changed nothing.
    pub fn noops(&self) -> u64 {
        self.noops.load(Ordering::Relaxed)
    }

    /// Answers to writes by the hundreds of their status, from 100 to 500.
    pub fn statuses(&self) -> [u64; 5] {
        self.statuses
            .each_ref()
            .map(|count| count.load(Ordering::Relaxed))
    }

    /// The searches of each group.
    pub fn groups(&self) -> BTreeMap<String, UseFigures> {
        self.groups.lock().clone()
    }
}

impl Using<'_> {
    /// How long it has been running.
    pub fn took(&self) -> Duration {
        self.usage.env.monotonic().saturating_sub(self.begun)
    }

    /// It ends, and was `count` of its kind.
    pub fn end(self, count: u64) {
        let what = self.what;
        self.end_as(what, count);
    }

    /// It ends, and was `count` of another kind.
    pub fn end_as(self, what: Use, count: u64) {
        self.usage.timed(what).add(count, self.took());
    }

    /// It ends, and was some of two kinds: the time is theirs by their share.
    pub fn end_as_both(self, (one, of_one): (Use, u64), (other, of_other): (Use, u64)) {
        let (took, all) = (self.took(), of_one + of_other);
        for (what, count) in [(one, of_one), (other, of_other)] {
            if count > 0 {
                let share = took.mul_f64(count as f64 / all as f64);
                self.usage.timed(what).add(count, share);
            }
        }
    }
}

impl Drop for Using<'_> {
    fn drop(&mut self) {
        let running = &self.usage.timed(self.what).running;
        let before = running.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "what ends was begun");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quire_env::SimEnv;

    fn usage() -> Usage {
        let env: Arc<dyn Env> = SimEnv::new(1);
        Usage::unused(&env)
    }

    #[test]
    fn what_runs_is_counted_until_it_ends_and_time_is_shared_by_count() {
        let usage = usage();
        let one = usage.begin(Use::GetFound);
        let other = usage.begin(Use::GetFound);
        assert_eq!(usage.figures(Use::GetFound).running, 2);
        one.end(1);
        other.end_as(Use::GetMissing, 1);
        drop(usage.begin(Use::GetFound));
        let (found, missing) = (usage.figures(Use::GetFound), usage.figures(Use::GetMissing));
        assert_eq!((found.running, found.count), (0, 1));
        assert_eq!((missing.running, missing.count), (0, 1));
        let batch = usage.begin(Use::Index);
        batch.end_as_both((Use::Index, 3), (Use::Delete, 0));
        assert_eq!(usage.figures(Use::Index).count, 3);
        assert_eq!(usage.figures(Use::Delete).count, 0);
    }

    #[test]
    fn groups_are_bounded_and_statuses_are_kept_by_their_hundreds() {
        let usage = usage();
        for number in 0..2 * GROUPS_MAX {
            usage.of_groups(&[format!("g{number}")], Duration::from_millis(3));
        }
        usage.of_groups(
            &["g0".into(), "x".repeat(GROUP_BYTES_MAX + 1)],
            Duration::ZERO,
        );
        let groups = usage.groups();
        assert_eq!(groups.len(), GROUPS_MAX);
        assert_eq!((groups["g0"].count, groups["g0"].millis), (2, 3));
        for status in [200, 201, 409, 0, 999] {
            usage.answered(status);
        }
        assert_eq!(usage.statuses(), [0, 2, 0, 1, 0]);
    }
}
