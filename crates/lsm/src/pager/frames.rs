//! Frames: the memory of filter pages, read without a lock and without counting who reads.
//!
//! A page is put into a free frame, and its [`Place`] then tells which, with a number that no other load has. A reader takes what the
//! place tells, reads words of the frame, and looks at the place again: if it tells the same, the words were the page's. So a frame
//! may be used anew at once, and a look at a page writes nothing.
//!
//! Source: a sequence lock; Boehm 2012, "Can seqlocks get along with programming language memory models?".
//!
//! # Invariants
//! 1. A frame is in one place at most, or free. Its words change only while it is free.
//! 2. Frames are made as they are needed, in chunks, up to the budget, and then stay.

use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words of a line: one cache line.
const LINE_WORDS: usize = 8;
/// Lines of a page in memory.
pub(crate) const PAGE_LINES: usize = 16;
const PAGE_WORDS: usize = LINE_WORDS * PAGE_LINES;
/// Bytes of a frame.
pub(crate) const PAGE_BYTES: u64 = 8 * PAGE_WORDS as u64;
/// Frames that are made at once.
const CHUNK: usize = 64;

/// A line of a page: 512 bits, the first in the lowest bit of the first word.
pub(crate) type Line = [AtomicU64; LINE_WORDS];

/// Where a page is, if it is in memory: its frame, counted from 1, under the number of the load. 0: nowhere.
#[derive(Debug, Default)]
pub(crate) struct Place(AtomicU64);

/// What a place told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held(u64);

impl Place {
    /// Where the page is now.
    #[inline]
    pub(crate) fn held(&self) -> Option<Held> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            told => Some(Held(told)),
        }
    }

    /// Whether it has been there since [`held`](Self::held) said so: then what was read in between was the page's.
    #[inline]
    pub(crate) fn is_still(&self, held: Held) -> bool {
        fence(Ordering::Acquire);
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

    /// A line of the page that was found at `held`. What is read of it counts once [`Place::is_still`] was true after.
    #[inline]
    pub(crate) fn line(&self, held: Held, line: usize) -> Option<&Line> {
        let frame = (held.0 as u32).checked_sub(1)? as usize;
        self.words(frame)?.get(line * LINE_WORDS..)?.first_chunk()
    }

    /// Puts a page of at most [`PAGE_BYTES`] in a free frame and tells `place`, which has none. False if none is free.
    pub(crate) fn put(&self, place: &Place, page: &[u8]) -> bool {
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
        // Whoever reads one of the words below, and thinks that they are what was here, sees that place changed before them.
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
    pub(crate) fn free(&self, place: &Place) {
        let mut stock = self.stock.lock();
        let told = place.0.swap(0, Ordering::Relaxed);
        stock.free.extend((told as u32).checked_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// The first word of a line, if the page was there all the while; every word of a page is the same here.
    fn word(frames: &Frames, place: &Place, line: usize) -> Option<u64> {
        let held = place.held()?;
        let line = frames.line(held, line)?;
        let words: Vec<_> = line
            .iter()
            .map(|word| word.load(Ordering::Relaxed))
            .collect();
        place.is_still(held).then(|| {
            assert!(words.iter().all(|word| *word == words[0]), "{words:?}");
            words[0]
        })
    }

    fn page(of: u64) -> Vec<u8> {
        of.to_le_bytes().repeat(PAGE_WORDS)
    }

    #[test]
    fn a_page_is_found_until_it_is_freed_and_no_more_than_there_is_room_for() {
        let frames = Frames::new(2 * PAGE_BYTES + 7);
        let places: [Place; 3] = Default::default();
        assert_eq!(word(&frames, &places[0], 0), None);
        assert!(frames.put(&places[0], &page(1)) && frames.put(&places[1], &page(2)));
        assert!(!frames.put(&places[2], &page(3)));
        assert_eq!(frames.used_bytes(), 2 * PAGE_BYTES);
        assert_eq!(word(&frames, &places[1], PAGE_LINES - 1), Some(2));
        let held = places[0].held().unwrap();
        frames.free(&places[0]);
        frames.free(&places[0]);
        assert!(frames.put(&places[2], &page(3)) && !places[0].is_still(held));
        assert_eq!(word(&frames, &places[2], 0), Some(3));
        // The same page in the same frame again is another load.
        let held = places[2].held().unwrap();
        frames.free(&places[2]);
        assert!(frames.put(&places[2], &page(3)) && !places[2].is_still(held));
    }

    #[test]
    fn whoever_reads_while_frames_are_used_anew_sees_one_page_or_none() {
        let frames = Frames::new(2 * PAGE_BYTES);
        let places: [Place; 8] = Default::default();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..40_000u64 {
                    let place = &places[round as usize % 8];
                    frames.free(&places[(round as usize + 6) % 8]);
                    assert!(frames.put(place, &page(round)));
                }
                stop.store(true, Ordering::Relaxed);
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut seen = 0;
                    while !stop.load(Ordering::Relaxed) {
                        for (number, place) in places.iter().enumerate() {
                            if let Some(round) = word(&frames, place, number) {
                                assert_eq!(round as usize % 8, number);
                                seen += 1;
                            }
                        }
                    }
                    assert!(seen > 0);
                });
            }
        });
    }
}
