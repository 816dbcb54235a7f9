//! Filter pages of one table in memory, as far as they are, and what is asked of each.

use super::filter::Shape;
use super::frame::TRAILER_BYTES;
use super::reader::Frames;
use crate::pager::{Candidate, FilterPager};
use crate::{Error, Result};
use arc_swap::{ArcSwapOption, Guard};
use bytes::Bytes;
use parking_lot::Mutex;
use quire_env::Charge;
use quire_planted::{Bug, planted};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Bytes of memory that a page takes beside its own.
const PAGE_OVERHEAD: u64 = 96;
/// So many requests of a page since the pager looked last are worth that it looks again.
const REQUESTS_TO_WAKE: u32 = 1024;

/// A page in memory.
#[derive(Debug)]
struct Page {
    bytes: Bytes,
    _charge: Charge,
}

/// Where a page is while it is in memory, and what was asked of it since the pager looked last. Counts are not exact: of two
/// requests at the same moment one may be lost, which costs less than to wait for each other.
#[derive(Debug, Default)]
struct Slot {
    page: ArcSwapOption<Page>,
    /// Whether it is not worth a look, though there is room for it: until a search finds what it would have said "no" to.
    rests: AtomicBool,
    requests: AtomicU32,
    noes: AtomicU32,
}

/// What was asked of a page of late.
#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    requests: f32,
    noes: f32,
    failed: bool,
}

/// What a filter says of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is not in the table.
    No,
    /// It may be.
    Maybe,
    /// It may be: the page is not in memory, or rests. Whoever then finds that it is not says so by [`PagedFilter::was_no`].
    Unasked,
}

/// A page that is to be asked: held, so that what is read of it can be read ahead.
#[derive(Debug)]
pub(crate) struct Asking<'a> {
    filter: &'a PagedFilter,
    slot: Option<&'a Slot>,
    page: Option<Guard<Option<Arc<Page>>>>,
}

/// The filter of one table.
#[derive(Debug)]
pub(crate) struct PagedFilter {
    frames: Arc<Frames>,
    pager: Arc<FilterPager>,
    slots: Box<[Slot]>,
    /// Used by the pager alone.
    measured: Mutex<Box<[Measured]>>,
}

/// Counts one, unless another thread does at the same moment. Returns what it was.
fn bump(count: &AtomicU32) -> u32 {
    let before = count.load(Ordering::Relaxed);
    count.store(before.wrapping_add(1), Ordering::Relaxed);
    before
}

impl PagedFilter {
    /// The filter of the table of `frames`; of its pages, none is in memory yet.
    pub(super) fn new(frames: Arc<Frames>, pager: &Arc<FilterPager>) -> Arc<PagedFilter> {
        let pages = frames.properties.filter.pages() as usize;
        let filter = Arc::new(PagedFilter {
            frames,
            pager: Arc::clone(pager),
            slots: (0..pages).map(|_| Slot::default()).collect(),
            measured: Mutex::new(vec![Measured::default(); pages].into()),
        });
        if pages > 0 {
            pager.register(&filter);
        }
        filter
    }

    fn shape(&self) -> Shape {
        self.frames.properties.filter
    }

    fn slot(&self, hash: u64) -> Option<&Slot> {
        let off_by = u32::from(planted(Bug::FilterPageOneOff));
        let page = self.shape().place(hash).0.saturating_sub(off_by);
        self.slots.get(page as usize)
    }

    /// The page that knows of keys of this hash, to be asked.
    pub(super) fn asking(&self, hash: u64) -> Asking<'_> {
        let slot = self.slot(hash);
        let awake = slot.filter(|slot| !slot.rests.load(Ordering::Relaxed));
        Asking {
            filter: self,
            slot,
            page: awake.map(|slot| slot.page.load()),
        }
    }

    /// Says that the key, of which the page was not asked, was not there.
    pub(super) fn was_no(&self, hash: u64) {
        if let Some(slot) = self.slot(hash) {
            bump(&slot.noes);
            if slot.rests.load(Ordering::Relaxed) {
                slot.rests.store(false, Ordering::Relaxed);
            }
        }
    }

    /// Says whether a page in memory is not worth a look now.
    pub(crate) fn rest(&self, page: u32, rests: bool) {
        if let Some(slot) = self.slots.get(page as usize) {
            slot.rests.store(rests, Ordering::Relaxed);
        }
    }

    /// How many pages it has.
    pub(crate) fn pages(&self) -> u32 {
        self.slots.len() as u32
    }

    /// How many of them are in memory.
    pub(crate) fn resident_pages(&self) -> u64 {
        let here = |slot: &&Slot| slot.page.load().is_some();
        self.slots.iter().filter(here).count() as u64
    }

    /// What was measured of a page, called `name` by its filter's number and its own: what was known before weighs `kept`
    /// times as much.
    pub(crate) fn candidate(&self, name: (usize, u32), kept: f32) -> Candidate {
        let page = name.1;
        let mut found = Candidate {
            name,
            bytes: self.shape().page_bytes(page) as u64 + PAGE_OVERHEAD,
            resident: false,
            failed: false,
            requests: 0.0,
            noes: 0.0,
        };
        let mut measured = self.measured.lock();
        if let (Some(slot), Some(measured)) = (
            self.slots.get(page as usize),
            measured.get_mut(page as usize),
        ) {
            let taken = |count: &AtomicU32| count.swap(0, Ordering::Relaxed) as f32;
            measured.requests = measured.requests * kept + taken(&slot.requests);
            measured.noes = measured.noes * kept + taken(&slot.noes);
            found.resident = slot.page.load().is_some();
            found.failed = measured.failed;
            found.requests = measured.requests;
            found.noes = measured.noes.min(measured.requests);
        }
        found
    }

    /// Lets go of a page.
    pub(crate) fn evict(&self, page: u32) {
        if let Some(slot) = self.slots.get(page as usize) {
            slot.page.store(None);
        }
    }

    /// Reads a page, checks it and keeps it.
    ///
    /// # Errors
    /// `Corrupt`, or those of the machine: it stays absent then, for good.
    pub(crate) fn load(&self, page: u32) -> Result<()> {
        let read = self.read(page);
        match (&read, self.slots.get(page as usize)) {
            (Ok(bytes), Some(slot)) => slot.page.store(Some(Arc::new(Page {
                bytes: bytes.clone(),
                _charge: self
                    .pager
                    .budget()
                    .charge(bytes.len() as u64 + PAGE_OVERHEAD),
            }))),
            _ => {
                if let Some(measured) = self.measured.lock().get_mut(page as usize) {
                    measured.failed = true;
                }
            }
        }
        read.map(|_| ())
    }

    fn read(&self, page: u32) -> Result<Bytes> {
        let handle = self.frames.filter_page(page);
        let contents = self.frames.read(handle)?.contents;
        if contents.len() != self.shape().page_bytes(page) {
            return Err(Error::Corrupt {
                path: self.frames.file.path().to_path_buf(),
                what: "filter page",
                offset: handle.offset,
                expected: handle.bytes,
                found: (contents.len() + TRAILER_BYTES) as u64,
            });
        }
        Ok(contents)
    }
}

impl Asking<'_> {
    /// Reads ahead what [`ask`](Self::ask) will read.
    pub(crate) fn touch(&self, hash: u64) {
        if let Some(page) = self.page.as_ref().and_then(|page| page.as_ref()) {
            self.filter.shape().touch(&page.bytes, hash);
        }
    }

    /// What the filter says of a key of this hash.
    pub(super) fn ask(&self, hash: u64) -> Answer {
        let Some(slot) = self.slot else {
            return Answer::Maybe;
        };
        if bump(&slot.requests) == REQUESTS_TO_WAKE {
            self.filter.pager.wake();
        }
        let Some(page) = &self.page else {
            return Answer::Unasked;
        };
        let Some(page) = &**page else {
            self.filter.pager.wake();
            return Answer::Unasked;
        };
        if self.filter.shape().may_hold(&page.bytes, hash) {
            return Answer::Maybe;
        }
        bump(&slot.noes);
        Answer::No
    }
}
