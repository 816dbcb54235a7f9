//! The filter of one table: which of its pages are in memory, and how often each is queried.

use super::file::TableFile;
use super::filter::{LINE_BYTES, Shape};
use super::frame::TRAILER_BYTES;
use crate::pager::{Candidate, FramePlace, Frames, Held, Job, Line, PAGE_BYTES, PAGE_LINES};
use crate::{Error, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use quire_seeded::{Bug, seeded};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// After this many requests of a page since the pager's last look, it looks again.
const REQUESTS_TO_WAKE: u32 = 1024;

/// Where a page is while it is in memory, and its requests since the pager's last look.
/// Counts are not exact: of two requests at the same moment one may be lost, which costs less than
/// to wait for each other.
#[derive(Debug, Default)]
struct Slot {
    place: FramePlace,
    /// Whether it is not worth a look, though there is room for it: until a search finds what it
    /// would have said "no" to.
    rests: AtomicBool,
    requests: AtomicU32,
    noes: AtomicU32,
}

/// The recent requests of a page.
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
    /// It may be: the page is not in memory, or rests. A search that then finds nothing calls
    /// [`PagedFilter::was_no`].
    Unknown,
}

/// A query of a filter: the page and the line in it, so that they can be prefetched.
#[derive(Debug)]
pub(crate) struct FilterQuery<'a> {
    filter: &'a PagedFilter,
    slot: Option<&'a Slot>,
    line: Option<(Held, &'a Line)>,
}

/// The filter of one table.
#[derive(Debug)]
pub(crate) struct PagedFilter {
    file: Arc<TableFile>,
    frames: Arc<Frames>,
    pager: Arc<Job>,
    slots: Box<[Slot]>,
    /// Used by the pager alone.
    measured: Mutex<Box<[Measured]>>,
}

/// Adds one, unless another thread does at the same moment. Returns the number before.
fn bump(count: &AtomicU32) -> u32 {
    let before = count.load(Ordering::Relaxed);
    count.store(before.wrapping_add(1), Ordering::Relaxed);
    before
}

impl PagedFilter {
    /// The filter of the table of `file`, whose pages are to lie in `frames`; none does yet.
    pub(super) fn new(file: Arc<TableFile>, frames: &Arc<Frames>, pager: &Arc<Job>) -> PagedFilter {
        let pages = (file.properties.filter.lines as usize).div_ceil(PAGE_LINES);
        PagedFilter {
            file,
            frames: Arc::clone(frames),
            pager: Arc::clone(pager),
            slots: (0..pages).map(|_| Slot::default()).collect(),
            measured: Mutex::new(vec![Measured::default(); pages].into()),
        }
    }

    fn shape(&self) -> Shape {
        self.file.properties.filter
    }

    fn slot(&self, line: u32) -> Option<&Slot> {
        let off_by = usize::from(seeded(Bug::FilterPageOneOff));
        let page = line as usize / PAGE_LINES;
        self.slots.get(page.saturating_sub(off_by))
    }

    /// The query for keys of this hash.
    pub(super) fn query(&self, hash: u64) -> FilterQuery<'_> {
        let number = self.shape().line(hash);
        let slot = self.slot(number);
        let queried = slot.filter(|slot| !slot.rests.load(Ordering::Relaxed));
        let held = queried.and_then(|slot| slot.place.held());
        let line = held.and_then(|held| {
            let line = self.frames.line(held, number as usize % PAGE_LINES)?;
            Some((held, line))
        });
        FilterQuery {
            filter: self,
            slot,
            line,
        }
    }

    /// Notes that a key whose page was not queried was not there.
    pub(super) fn was_no(&self, hash: u64) {
        if let Some(slot) = self.slot(self.shape().line(hash)) {
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
        let here = |slot: &&Slot| slot.place.held().is_some();
        self.slots.iter().filter(here).count() as u64
    }

    /// What was measured of a page, called `name` by its filter's number and its own: what was
    /// known before weighs `kept` times as much.
    pub(crate) fn candidate(&self, name: (usize, u32), kept: f32) -> Candidate {
        let page = name.1;
        let mut found = Candidate {
            name,
            bytes: PAGE_BYTES,
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
            found.resident = slot.place.held().is_some();
            found.failed = measured.failed;
            found.requests = measured.requests;
            found.noes = measured.noes.min(measured.requests);
        }
        found
    }

    /// Evicts a page.
    pub(crate) fn evict(&self, page: u32) {
        if let Some(slot) = self.slots.get(page as usize) {
            self.frames.free(&slot.place);
        }
    }

    /// Reads a page, checks it and keeps it, if there is room.
    ///
    /// # Errors
    /// `Corrupt`, or those of the machine: it stays absent then, for good.
    pub(crate) fn load(&self, page: u32) -> Result<()> {
        let read = self.read(page);
        match (&read, self.slots.get(page as usize)) {
            (Ok(bytes), Some(slot)) => {
                self.frames.put(&slot.place, bytes);
            }
            _ => {
                if let Some(measured) = self.measured.lock().get_mut(page as usize) {
                    measured.failed = true;
                }
            }
        }
        read.map(|_| ())
    }

    /// A page of the file, or the part of it that is a page in memory: those of files of version 1
    /// are longer.
    fn read(&self, page: u32) -> Result<Bytes> {
        let shape = self.shape();
        let line = page as usize * PAGE_LINES;
        let (of_file, start) = shape.place(line as u32);
        let handle = self.file.filter_page(of_file);
        let contents = self.file.read_among_others(handle)?.contents;
        if contents.len() != shape.page_bytes(of_file) {
            return Err(Error::Corrupt {
                path: self.file.io.path().to_path_buf(),
                what: "filter page",
                offset: handle.offset,
                expected: handle.bytes,
                found: (contents.len() + TRAILER_BYTES) as u64,
            });
        }
        let start = start * LINE_BYTES;
        let end = contents.len().min(start + PAGE_BYTES as usize);
        Ok(contents.slice(start..end))
    }
}

impl Drop for PagedFilter {
    fn drop(&mut self) {
        for slot in &self.slots {
            self.frames.free(&slot.place);
        }
    }
}

impl FilterQuery<'_> {
    /// Prefetches what [`answer`](Self::answer) will read.
    pub(crate) fn prefetch(&self) {
        if let Some((_, line)) = self.line {
            quire_env::prefetch(line);
        }
    }

    /// Whether it is known that no key of this hash is there; nothing is counted.
    pub(super) fn rules_out(&self, hash: u64) -> bool {
        self.line
            .as_ref()
            .is_some_and(|(_, line)| !self.filter.shape().may_hold(line, hash))
    }

    /// What the filter says of a key of this hash.
    pub(super) fn answer(&self, hash: u64) -> Answer {
        let Some(slot) = self.slot else {
            return Answer::Maybe;
        };
        if bump(&slot.requests) == REQUESTS_TO_WAKE {
            self.filter.pager.wake();
        }
        let Some((held, line)) = self.line else {
            if !slot.rests.load(Ordering::Relaxed) {
                self.filter.pager.wake();
            }
            return Answer::Unknown;
        };
        let may_hold = self.filter.shape().may_hold(line, hash);
        if !slot.place.is_still(held) {
            return Answer::Unknown;
        }
        if may_hold {
            return Answer::Maybe;
        }
        bump(&slot.noes);
        Answer::No
    }
}
