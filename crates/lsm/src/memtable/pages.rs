//! Pages: a growing array of slots that never move, read without a lock.
//!
//! Slots come in pages; pages hang in levels of 1, 2, 4, … pages. So growing allocates one page at
//! a time, moves nothing, and a slot is found by arithmetic and two pointers.

use quire_sync::{OnceLock, sized};
use std::array;
use std::mem::size_of;

/// With pages of 256 slots or more, every u32 has one.
const LEVELS: usize = 25;
const _: () = assert!(((1u64 << LEVELS) - 1) * 256 >= 1 << 32);

type Page<T> = OnceLock<Box<[T]>>;

/// Slots 0 to `u32::MAX`, in pages of `SLOTS`, each made by `T::default()` when its page is first
/// used.
#[derive(Debug)]
pub(crate) struct Pages<T, const SLOTS: u32> {
    levels: [OnceLock<Box<[Page<T>]>>; LEVELS],
}

/// Where a slot is: level, page within it, slot within that.
fn place<const SLOTS: u32>(index: u32) -> (usize, usize, usize) {
    let page = index / SLOTS + 1;
    let level = page.ilog2();
    (
        level as usize,
        (page - (1 << level)) as usize,
        (index % SLOTS) as usize,
    )
}

impl<T: Default, const SLOTS: u32> Pages<T, SLOTS> {
    pub(crate) fn new() -> Self {
        const { assert!(SLOTS >= sized(256, 4)) };
        Pages {
            levels: array::from_fn(|_| OnceLock::new()),
        }
    }

    /// The slot, if its page was made.
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.rest(index)?.first()
    }

    /// The slot and those after it in its page, if that was made.
    pub(crate) fn rest(&self, index: u32) -> Option<&[T]> {
        let (level, page, slot) = place::<SLOTS>(index);
        self.levels.get(level)?.get()?.get(page)?.get()?.get(slot..)
    }

    /// Makes the slot's page if it is not there. Returns the bytes that this allocated.
    pub(crate) fn grow(&self, index: u32) -> u64 {
        let (level, page, _) = place::<SLOTS>(index);
        let mut grown = 0;
        let Some(level_slot) = self.levels.get(level) else {
            return 0;
        };
        let pages = level_slot.get_or_init(|| {
            grown += (size_of::<Page<T>>() as u64) << level;
            (0..1usize << level).map(|_| OnceLock::new()).collect()
        });
        if let Some(page) = pages.get(page) {
            page.get_or_init(|| {
                grown += (size_of::<T>() as u64) * u64::from(SLOTS);
                (0..SLOTS).map(|_| T::default()).collect()
            });
        }
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_index_has_a_place_of_its_own() {
        let indexes = (0..5000).chain([1 << 20, (1 << 31) - 1, 1 << 31, u32::MAX]);
        let mut seen = BTreeSet::new();
        for index in indexes {
            let (level, page, slot) = place::<256>(index);
            assert!(level < LEVELS && page < 1 << level && slot < 256, "{index}");
            assert!(seen.insert((level, page, slot)), "{index}");
        }
    }

    #[test]
    fn a_page_is_made_once_and_counted_once() {
        let pages = Pages::<OnceLock<u64>, 256>::new();
        assert!(pages.get(300).is_none());
        assert!(pages.grow(300) >= 256 * 16);
        assert_eq!(pages.grow(301), 0);
        assert_eq!(pages.get(300).map(|slot| slot.set(9)), Some(Ok(())));
        assert_eq!(pages.get(300).and_then(OnceLock::get), Some(&9));
        assert!(pages.get(0).is_none());
    }
}
