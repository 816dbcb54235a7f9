//! Filter pager: which pages of filters are in memory, of all the tables of the process.
//!
//! A page that is not in memory answers "maybe": a read never waits for one. What a page is worth
//! is measured: the requests for it, of late, times the part of them to which the answer is "no".
//! Where a page is absent, the search that is made instead tells what it would have said. The
//! filter of an oldest run that has every key which is read is worth nothing: its pages are not
//! queried, and are evicted first. One that rests in memory is queried again as soon as a search
//! finds nothing.
//!
//! # Invariants
//! 1. The pages in memory take at most the budget, in [frames](frames) that readers do not hold.
//! 2. A page comes into memory from a background job alone, checked. A page that can't be read
//!    stays absent; [`FilterPager::error`] gives the error, and checking the file finds it again.
//! 3. A job is due only if a page was queried that is absent, or one was queried often: an idle
//!    process has none. What it does depends on the requests and the machine's clock alone.

mod choose;
mod frames;
mod job;
#[cfg(test)]
mod tests;

use crate::table::PagedFilter;
pub(crate) use choose::Candidate;
pub(crate) use frames::{FramePlace, Frames, Held, Line, PAGE_BYTES, PAGE_LINES};
pub(crate) use job::Job;
use parking_lot::Mutex;
use quire_env::Env;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Requests weigh half as much after this time.
const HALF_LIFE: Duration = Duration::from_secs(10);
/// Between two looks at all pages: at least this, and this for each page.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
const INTERVAL_PER_PAGE: Duration = Duration::from_micros(1);
/// Bytes that one job loads at most; then it makes way for others of its class.
const LOAD_BYTES_MAX: u64 = 4 << 20;

/// What the pager has and did, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FilterPagerStats {
    /// Bytes that pages in memory may take.
    pub budget_bytes: u64,
    /// Bytes that they take.
    pub resident_bytes: u64,
    /// Filter pages of all open tables.
    pub pages: u64,
    /// Those in memory.
    pub resident_pages: u64,
    /// Pages read since the beginning.
    pub loaded: u64,
    /// Pages evicted since the beginning.
    pub evicted: u64,
    /// Pages that could not be read.
    pub failed: u64,
    /// Requests of late, for all pages.
    pub requests: f64,
    /// The part of them to which the answer was, or would have been, "no".
    pub usefulness: f64,
    /// The part of that usefulness that is in memory: 1 if no useful page is absent.
    pub resident_usefulness: f64,
}

/// One for the process, shared by all trees.
pub struct FilterPager {
    env: Arc<dyn Env>,
    budget_bytes: u64,
    frames: Arc<Frames>,
    job: Arc<Job>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// In the order in which their tables were opened.
    filters: Vec<Weak<PagedFilter>>,
    looked: Duration,
    stats: FilterPagerStats,
    error: Option<String>,
}

impl fmt::Debug for FilterPager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterPager")
            .field("budget_bytes", &self.budget_bytes)
            .finish_non_exhaustive()
    }
}

impl FilterPager {
    /// A pager that keeps at most `bytes` of pages in memory.
    pub fn new(env: Arc<dyn Env>, bytes: u64) -> Arc<FilterPager> {
        Arc::new_cyclic(|pager: &Weak<FilterPager>| {
            let pager = Weak::clone(pager);
            let run = move || pager.upgrade().is_some_and(|pager| pager.run());
            FilterPager {
                job: Job::new(Arc::clone(&env), INTERVAL_MIN, Box::new(run)),
                env,
                budget_bytes: bytes,
                frames: Arc::new(Frames::new(bytes)),
                inner: Mutex::default(),
            }
        })
    }

    /// Where pages in memory lie.
    pub(crate) fn frames(&self) -> &Arc<Frames> {
        &self.frames
    }

    /// What is to be woken when a page is queried that is absent, or one is queried much: there may
    /// be something to do.
    pub(crate) fn job(&self) -> &Arc<Job> {
        &self.job
    }

    /// Looks after the pages of `filter`, too, until it is dropped.
    pub(crate) fn register(&self, filter: &Arc<PagedFilter>) {
        if filter.pages() > 0 {
            self.inner.lock().filters.push(Arc::downgrade(filter));
        }
    }

    /// Looks at all pages, evicts those that others are worth more than, and loads those. True if
    /// there is more to load. A background job runs it; a caller that can't wait for that may run
    /// it too.
    pub fn run(&self) -> bool {
        let mut inner = self.inner.lock();
        let now = self.env.monotonic();
        let passed = now.saturating_sub(inner.looked);
        inner.looked = now;
        let kept = 0.5f32.powf(passed.as_secs_f32() / HALF_LIFE.as_secs_f32());
        inner.filters.retain(|filter| filter.strong_count() > 0);
        let filters: Vec<_> = inner.filters.iter().filter_map(Weak::upgrade).collect();
        let mut pages = Vec::new();
        for (filter_index, filter) in filters.iter().enumerate() {
            for page in 0..filter.pages() {
                pages.push(filter.candidate((filter_index, page), kept));
            }
        }
        let chosen = choose::choose(&pages, self.budget_bytes);
        assert_eq!(pages.len(), chosen.len(), "each page is chosen or not");
        let of = |page: &Candidate| filters.get(page.name.0).map(|filter| (filter, page.name.1));
        let all = || pages.iter().zip(&chosen);
        for (page, _) in all().filter(|(page, chosen)| page.resident && !**chosen) {
            if let Some((filter, page)) = of(page) {
                filter.evict(page);
                inner.stats.evicted += 1;
            }
        }
        for page in &pages {
            if let Some((filter, number)) = of(page) {
                filter.rest(number, page.is_useless());
            }
        }
        let mut bytes = 0;
        let mut more = false;
        for (page, _) in all().filter(|(page, chosen)| !page.resident && **chosen) {
            if bytes >= LOAD_BYTES_MAX {
                more = true;
                break;
            }
            bytes += page.bytes;
            match of(page).map(|(filter, page)| filter.load(page)) {
                Some(Err(error)) => {
                    inner.stats.failed += 1;
                    inner.error = Some(error.to_string());
                }
                Some(Ok(())) => inner.stats.loaded += 1,
                None => {}
            }
        }
        assert!(
            self.frames.used_bytes() <= self.budget_bytes,
            "pages take no more than the budget"
        );
        let useful: f64 = pages.iter().map(|page| f64::from(page.usefulness())).sum();
        let here: f64 = all()
            .filter(|(_, chosen)| **chosen)
            .map(|(page, _)| f64::from(page.usefulness()))
            .sum();
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let stats = &mut inner.stats;
        stats.requests = pages.iter().map(|page| f64::from(page.requests)).sum();
        stats.usefulness = share(useful, stats.requests);
        stats.resident_usefulness = share(here, useful);
        stats.pages = pages.len() as u64;
        let count = u32::try_from(pages.len()).unwrap_or(u32::MAX);
        let interval = INTERVAL_MIN.max(INTERVAL_PER_PAGE.saturating_mul(count));
        self.job.not_before(now + interval);
        more
    }

    /// Loads the pages that `pick` picks by their numbers, whatever they are worth: what a pager is
    /// compared with.
    #[cfg(test)]
    fn load_picked(&self, pick: impl Fn(u64) -> bool) {
        let filters: Vec<_> = self
            .inner
            .lock()
            .filters
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        let pages = filters
            .iter()
            .flat_map(|filter| (0..filter.pages()).map(move |page| (filter, page)));
        for (_, (filter, page)) in (0..).zip(pages).filter(|(number, _)| pick(*number)) {
            filter
                .load(page)
                .unwrap_or_else(|error| unreachable!("{error}"));
        }
    }

    /// What it has and did; requests and usefulness as of its last look.
    pub fn stats(&self) -> FilterPagerStats {
        let inner = self.inner.lock();
        let filters = inner.filters.iter().filter_map(Weak::upgrade);
        let (mut pages, mut resident_pages) = (0, 0);
        for filter in filters {
            pages += u64::from(filter.pages());
            resident_pages += filter.resident_pages();
        }
        FilterPagerStats {
            budget_bytes: self.budget_bytes,
            resident_bytes: self.frames.used_bytes(),
            pages,
            resident_pages,
            ..inner.stats
        }
    }

    /// Why a page could last not be read, if one could not.
    pub fn error(&self) -> Option<String> {
        self.inner.lock().error.clone()
    }
}
