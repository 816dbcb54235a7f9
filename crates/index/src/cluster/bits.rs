//! Bits of a cluster: 64-bit words, little-endian, set, tested and counted.

use std::ops::Range;

/// 64 bits, little-endian; bit `i` of word `w` stands for `64 * w + i`.
pub(crate) type Word = [u8; 8];

#[inline]
pub(super) fn word(word: Word) -> u64 {
    u64::from_le_bytes(word)
}

/// How many bits are set.
pub(super) fn ones(words: &[Word]) -> u32 {
    let (blocks, rest) = words.as_chunks();
    let mut ones = Ones::default();
    blocks.iter().for_each(|block| ones.add(&block.map(word)));
    ones.count()
        + rest
            .iter()
            .map(|bits| word(*bits).count_ones())
            .sum::<u32>()
}

/// How many bits are set in both.
pub(super) fn ones_in_both(a: &[Word], b: &[Word]) -> u32 {
    let (a, b) = match a.len() < b.len() {
        true => (a, b.get(..a.len()).unwrap_or(b)),
        false => (a.get(..b.len()).unwrap_or(a), b),
    };
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks(), b.as_chunks::<BLOCK_WORDS>());
    let mut ones = Ones::default();
    for (a, b) in a.iter().zip(b) {
        let mut both = a.map(word);
        both.iter_mut()
            .zip(b)
            .for_each(|(both, b)| *both &= word(*b));
        ones.add(&both);
    }
    let rest = a_rest.iter().zip(b_rest);
    ones.count()
        + rest
            .map(|(a, b)| (word(*a) & word(*b)).count_ones())
            .sum::<u32>()
}

/// How many bits are set in all of these.
pub(super) fn ones_in_all(first: &[Word], others: &[&[Word]]) -> u32 {
    let lengths = others.iter().map(|other| other.len());
    let length = lengths.fold(first.len(), usize::min);
    let (blocks, rest) = first.get(..length).unwrap_or(first).as_chunks();
    let mut ones = Ones::default();
    for (at, block) in blocks.iter().enumerate() {
        let mut all = block.map(word);
        for other in others {
            let other = other.as_chunks::<BLOCK_WORDS>().0.get(at);
            let pairs = all.iter_mut().zip(other.into_iter().flatten());
            pairs.for_each(|(all, other)| *all &= word(*other));
        }
        ones.add(&all);
    }
    let mut count = ones.count();
    for (at, bits) in (length - rest.len()..).zip(rest) {
        let others = others.iter().filter_map(|other| other.get(at));
        let all = others.fold(word(*bits), |all, other| all & word(*other));
        count += all.count_ones();
    }
    count
}

/// Words whose bits are counted together.
const BLOCK_WORDS: usize = 16;
/// Two words: every processor has instructions that work on both at once.
type Lanes = [u64; 2];

/// Counts bits: words are added up bit by bit, as binary numbers, so that the costly counting
/// within a word is done for one of eight. (That costs half of counting in each, where a processor
/// has an instruction for it that we may not rely on.)
///
/// Source: Muła, Kurz, Lemire 2018, "Faster population counts using AVX2 instructions".
#[derive(Default)]
struct Ones {
    ones: Lanes,
    twos: Lanes,
    fours: Lanes,
    eights: u32,
}

impl Ones {
    fn add(&mut self, block: &[u64; BLOCK_WORDS]) {
        let [a, b, c, d, e, f, g, h] = *block.as_chunks::<2>().0 else {
            return;
        };
        let (ones, twos_a) = add_up(self.ones, a, b);
        let (ones, twos_b) = add_up(ones, c, d);
        let (twos, fours_a) = add_up(self.twos, twos_a, twos_b);
        let (ones, twos_a) = add_up(ones, e, f);
        let (ones, twos_b) = add_up(ones, g, h);
        let (twos, fours_b) = add_up(twos, twos_a, twos_b);
        let (fours, eights) = add_up(self.fours, fours_a, fours_b);
        (self.ones, self.twos, self.fours) = (ones, twos, fours);
        self.eights += count(eights);
    }

    fn count(self) -> u32 {
        8 * self.eights + 4 * count(self.fours) + 2 * count(self.twos) + count(self.ones)
    }
}

fn count(lanes: Lanes) -> u32 {
    lanes[0].count_ones() + lanes[1].count_ones()
}

fn zip(a: Lanes, b: Lanes, with: impl Fn(u64, u64) -> u64) -> Lanes {
    [with(a[0], b[0]), with(a[1], b[1])]
}

/// The sum of three bits, at each place: its ones and its twos.
fn add_up(a: Lanes, b: Lanes, c: Lanes) -> (Lanes, Lanes) {
    let half = zip(a, b, |a, b| a ^ b);
    let twos = zip(
        zip(a, b, |a, b| a & b),
        zip(half, c, |a, b| a & b),
        |a, b| a | b,
    );
    (zip(half, c, |a, b| a ^ b), twos)
}

#[inline]
pub(super) fn bit(words: &[Word], low: u16) -> bool {
    let found = words.get(usize::from(low) / 64);
    found.is_some_and(|bits| word(*bits) >> (low % 64) & 1 == 1)
}

/// Sets a bit of these words; true if it was not set.
#[inline]
pub(super) fn set_bit(words: &mut [Word], low: u16) -> bool {
    let Some(bits) = words.get_mut(usize::from(low) / 64) else {
        return false;
    };
    let (before, mask) = (word(*bits), 1 << (low % 64));
    *bits = (before | mask).to_le_bytes();
    before & mask == 0
}

/// Clears a bit; true if it was set.
#[inline]
pub(super) fn clear_bit(words: &mut [Word], low: u16) -> bool {
    let Some(bits) = words.get_mut(usize::from(low) / 64) else {
        return false;
    };
    let (before, mask) = (word(*bits), 1 << (low % 64));
    *bits = (before & !mask).to_le_bytes();
    before & mask != 0
}

/// The bits of a word for which `keep` returns true.
pub(super) fn retained_bits(bits: u64, mut keep: impl FnMut(u16) -> bool) -> u64 {
    let (mut left, mut kept) = (bits, 0);
    while left != 0 {
        let bit = left.trailing_zeros();
        kept |= u64::from(keep(bit as u16)) << bit;
        left &= left - 1;
    }
    kept
}

/// Sets the bits of a range; grows as needed.
pub(super) fn set_range(words: &mut Vec<Word>, range: Range<u32>) {
    let Some(last) = range.end.checked_sub(1).filter(|last| *last >= range.start) else {
        return;
    };
    let (from, to) = (range.start as usize / 64, last as usize / 64);
    if words.len() <= to {
        words.resize(to + 1, [0; 8]);
    }
    let inside = words.get_mut(from..=to).unwrap_or_default();
    let count = inside.len();
    for (index, bits) in inside.iter_mut().enumerate() {
        let mut mask = u64::MAX;
        if index == 0 {
            mask &= u64::MAX << (range.start % 64);
        }
        if index + 1 == count {
            mask &= u64::MAX >> (63 - last % 64);
        }
        *bits = (word(*bits) | mask).to_le_bytes();
    }
}
