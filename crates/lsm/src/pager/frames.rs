//! Frames: the memory of filter pages, read without a lock and without counting who reads.
//!
//! A page is put into a free frame, and its [`FramePlace`] then tells which, with a number that no
//! other load has. A reader takes what the place tells, reads words of the frame, and looks at the
//! place again: if it tells the same, the words were the page's. So a frame may be used anew at
//! once, and a look at a page writes nothing.
//!
//! Source: a sequence lock; Boehm 2012, "Can seqlocks get along with programming language memory
//! models?".
//!
//! # Invariants
//! 1. A frame is in one place at most, or free. Its words change only while it is free.
//! 2. Frames are made as they are needed, in chunks, up to the budget, and then stay.

use quire_seeded::{Bug, seeded};
use quire_sync::atomic::{AtomicU64, Ordering, fence};
use quire_sync::{Mutex, OnceLock, sized};

/// Words of a line: one cache line.
const LINE_WORDS: usize = sized(8, 2) as usize;
/// Lines of a page in memory.
pub(crate) const PAGE_LINES: usize = sized(16, 1) as usize;
const PAGE_WORDS: usize = LINE_WORDS * PAGE_LINES;
/// Bytes of a frame.
pub(crate) const PAGE_BYTES: u64 = 8 * PAGE_WORDS as u64;
/// Frames that are made at once.
const CHUNK: usize = sized(64, 1) as usize;

/// A line of a page: 512 bits, the first in the lowest bit of the first word.
pub(crate) type Line = [AtomicU64; LINE_WORDS];

/// Where a page is, if it is in memory: its frame, counted from 1, under the number of the load. 0:
/// nowhere.
#[derive(Debug, Default)]
pub(crate) struct FramePlace(AtomicU64);

/// What a place told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held(u64);

impl FramePlace {
    /// Where the page is now.
    #[inline]
    pub(crate) fn held(&self) -> Option<Held> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            told => Some(Held(told)),
        }
    }

    /// Whether it has been there since [`held`](Self::held) said so: then what was read in between
    /// was the page's.
    #[inline]
    pub(crate) fn is_still(&self, held: Held) -> bool {
        if !seeded(Bug::FilterPageFoundUnordered) {
            fence(Ordering::Acquire);
        }
        self.0.load(Ordering::Relaxed) == held.0
    }
}

/// The frames of all filter pages of a process.
#[derive(Debug)]
pub(crate) struct Frames {
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
    limit: u32,
    stock: Mutex<Stock>,
}

#[derive(Debug, Default)]
struct Stock {
    free: Vec<u32>,
    /// Frames that were ever used: the next new one.
    made: u32,
    loads: u32,
}

impl Frames {
    /// As many as there is room for in `bytes`.
    pub(crate) fn new(bytes: u64) -> Frames {
        let limit = u32::try_from(bytes / PAGE_BYTES).unwrap_or(u32::MAX - 1);
        Frames {
            chunks: (0..(limit as usize).div_ceil(CHUNK))
                .map(|_| OnceLock::new())
                .collect(),
            limit,
            stock: Mutex::default(),
        }
    }

    /// Bytes of frames that are in use.
    pub(crate) fn used_bytes(&self) -> u64 {
        let stock = self.stock.lock();
        (u64::from(stock.made) - stock.free.len() as u64) * PAGE_BYTES
    }

    /// The words of a frame.
    #[inline]
    fn words(&self, frame: usize) -> Option<&[AtomicU64]> {
        let chunk = self.chunks.get(frame / CHUNK)?.get()?;
        let start = frame % CHUNK * PAGE_WORDS;
        chunk.get(start..start + PAGE_WORDS)
    }

    /// A line of the page that was found at `held`. What is read of it counts once
    /// [`FramePlace::is_still`] was true after.
    #[inline]
    pub(crate) fn line(&self, held: Held, line: usize) -> Option<&Line> {
        let frame = (held.0 as u32).checked_sub(1)? as usize;
        self.words(frame)?.get(line * LINE_WORDS..)?.first_chunk()
    }

    /// Puts a page of at most [`PAGE_BYTES`] in a free frame and tells `place`, which has none.
    /// False if none is free.
    pub(crate) fn put(&self, place: &FramePlace, page: &[u8]) -> bool {
        debug_assert!(page.len() as u64 <= PAGE_BYTES, "a page fits its frame");
        let mut stock = self.stock.lock();
        let frame = match stock.free.pop() {
            Some(frame) => frame,
            None if stock.made < self.limit => {
                stock.made += 1;
                stock.made - 1
            }
            None => return false,
        };
        if let Some(chunk) = self.chunks.get(frame as usize / CHUNK) {
            let zeros = || (0..CHUNK * PAGE_WORDS).map(|_| AtomicU64::new(0)).collect();
            chunk.get_or_init(zeros);
        }
        stock.loads = stock.loads.wrapping_add(1);
        // A reader of one of the words below, which takes them for what was here, sees that
        // place changed before them.
        fence(Ordering::Release);
        let (words, _) = page.as_chunks::<8>();
        for (word, bytes) in self
            .words(frame as usize)
            .unwrap_or_default()
            .iter()
            .zip(words)
        {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        let told = u64::from(stock.loads) << 32 | u64::from(frame + 1);
        place.0.store(told, Ordering::Release);
        true
    }

    /// Frees the frame of a page, if it has one.
    pub(crate) fn free(&self, place: &FramePlace) {
        let mut stock = self.stock.lock();
        let told = place.0.swap(0, Ordering::Relaxed);
        stock.free.extend((told as u32).checked_sub(1));
        debug_assert!(
            stock.free.len() <= stock.made as usize,
            "a frame is freed once"
        );
    }
}

#[cfg(test)]
#[cfg(feature = "loom")]
mod checked;
#[cfg(test)]
mod tests;
