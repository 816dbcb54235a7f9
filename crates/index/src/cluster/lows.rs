//! [`Lows`]: the docids of one cluster, one after another.

use super::bits::{Word, word};
use super::list::{Low, low};
use std::ops::Range;

/// The bits of each byte, ascending, and how many they are; what is past them has no meaning.
static BITS_OF_BYTE: [([u32; 8], u8); 256] = bits_of_bytes();

const fn bits_of_bytes() -> [([u32; 8], u8); 256] {
    let mut all = [([0; 8], 0); 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                let (bits, count) = &mut all[byte];
                bits[*count as usize] = bit;
                *count += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    all
}

/// Docids that a word may have, and those that are written past the last one.
const WORD_ROOM: usize = 64 + 8;

/// Writes the docids of a word's bits, of which the first is `first`, and returns how many. Eight
/// are written for each byte: a branch for each bit would be mispredicted once a word.
fn fill_word(first: u32, word: u64, room: &mut [u32; WORD_ROOM]) -> usize {
    let (mut filled, mut first, mut left) = (0, first, word);
    for _ in 0..8 {
        let rest = room.get_mut(filled..);
        let Some(eight) = rest.and_then(|rest| rest.first_chunk_mut::<8>()) else {
            break;
        };
        let (bits, count) = &BITS_OF_BYTE[usize::from(left as u8)];
        for (docid, bit) in eight.iter_mut().zip(bits) {
            *docid = first + bit;
        }
        filled += usize::from(*count);
        first = first.wrapping_add(8);
        left >>= 8;
    }
    filled
}

/// The docids of a cluster, ascending, by their low halves.
#[derive(Debug, Clone)]
pub(crate) enum Lows<'a> {
    List(std::slice::Iter<'a, Low>),
    Bits {
        words: &'a [Word],
        /// The word that `current` is of.
        at: usize,
        /// What is left of it.
        current: u64,
    },
}

impl<'a> Lows<'a> {
    pub(crate) fn of_words(words: &'a [Word]) -> Lows<'a> {
        Lows::Bits {
            current: words.first().map_or(0, |bits| word(*bits)),
            words,
            at: 0,
        }
    }

    /// Skips docids below `start`; never goes back.
    pub(crate) fn advance_to(&mut self, start: u16) {
        match self {
            Lows::List(lows) => {
                let rest = lows.as_slice();
                let at = rest.partition_point(|one| low(*one) < start);
                *lows = rest.get(at..).unwrap_or_default().iter();
            }
            Lows::Bits { words, at, current } => {
                let to = usize::from(start) / 64;
                if to > *at {
                    *at = to;
                    *current = words.get(to).map_or(0, |bits| word(*bits));
                }
                if to == *at {
                    *current &= u64::MAX << (start % 64);
                }
            }
        }
    }

    /// Writes the next docids, each with `base` added, to the start of `docids`, and returns how
    /// many. It fills `docids` unless the cluster ends first.
    pub(crate) fn fill(&mut self, base: u32, docids: &mut [u32]) -> usize {
        match self {
            Lows::List(lows) => {
                let count = lows.len().min(docids.len());
                let (now, later) = lows.as_slice().split_at(count);
                for (docid, one) in docids.iter_mut().zip(now) {
                    *docid = base | u32::from(low(*one));
                }
                *lows = later.iter();
                count
            }
            Lows::Bits { words, at, current } => {
                let (mut filled, mut index, mut left) = (0, *at, *current);
                let docids_len = docids.len();
                'docids: while filled < docids_len {
                    while left == 0 {
                        match words.get(index + 1) {
                            Some(bits) => (index, left) = (index + 1, word(*bits)),
                            None => break 'docids,
                        }
                    }
                    let first = base | (index as u32 * 64);
                    let rest = docids.get_mut(filled..).unwrap_or_default();
                    // Room for a whole word needs no test of each docid.
                    if let Some(room) = rest.first_chunk_mut::<WORD_ROOM>() {
                        filled += fill_word(first, left, room);
                        left = 0;
                        continue;
                    }
                    for docid in rest {
                        if left == 0 {
                            break;
                        }
                        *docid = first | left.trailing_zeros();
                        left &= left - 1;
                        filled += 1;
                    }
                }
                (*at, *current) = (index, left);
                debug_assert!(
                    filled == docids_len || left == 0,
                    "a fill is short at the end alone"
                );
                filled
            }
        }
    }

    /// The next docids that follow each other without a gap. A run may be cut at the end of a word
    /// of bits, or after one entry of a list.
    pub(crate) fn next_run(&mut self) -> Option<Range<u32>> {
        let start = u32::from(self.next()?);
        let mut end = start + 1;
        if let Lows::Bits { current, .. } = self {
            let more = current.checked_shr(end % 64).unwrap_or(0).trailing_ones();
            if !end.is_multiple_of(64) && more > 0 {
                end += more;
                // The word's bits below `end` are spent.
                *current &= u64::MAX.checked_shl((end - 1) % 64 + 1).unwrap_or(0);
            }
        }
        Some(start..end)
    }
}

impl Iterator for Lows<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        match self {
            Lows::List(lows) => lows.next().map(|one| low(*one)),
            Lows::Bits { words, at, current } => {
                while *current == 0 {
                    *at += 1;
                    *current = words.get(*at).map(|bits| word(*bits))?;
                }
                let next = *at * 64 + current.trailing_zeros() as usize;
                *current &= *current - 1;
                // Below 65,536: there are at most 1,024 words.
                Some(next as u16)
            }
        }
    }
}
