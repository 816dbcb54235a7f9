//! [`Ordinals`]: a set of numbers that knows the ordinal of each: how many of them are below it.

const WORDS: usize = 16;
const BLOCK: u64 = WORDS as u64 * 64;

/// A set of numbers. It takes a bit for each number up to its greatest one where there are some,
/// and 16 bytes for each 1,024 where there are none.
#[derive(Debug, Default)]
pub(crate) struct Ordinals {
    blocks: Vec<Block>,
    count: u64,
}

/// 1,024 numbers.
#[derive(Debug)]
struct Block {
    /// How many of the set are below them.
    before: u64,
    /// Which of them are of the set; none if there is none.
    bits: Option<Box<[u64; WORDS]>>,
}

impl Ordinals {
    /// Adds a number, which is above all that it has.
    pub(crate) fn push(&mut self, number: u64) {
        let block = (number / BLOCK) as usize;
        assert!(block + 1 >= self.blocks.len(), "numbers ascend");
        while self.blocks.len() <= block {
            self.blocks.push(Block {
                before: self.count,
                bits: None,
            });
        }
        let (word, bit) = place(number);
        if let Some(block) = self.blocks.last_mut() {
            let bits = block.bits.get_or_insert_default();
            assert_eq!(bits[word] >> bit, 0, "numbers ascend");
            bits[word] |= 1 << bit;
            self.count += 1;
        }
    }

    /// How many numbers it has.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// How many of its numbers are below this one; `None` if it does not have it.
    pub(crate) fn ordinal(&self, number: u64) -> Option<u64> {
        let block = self.blocks.get(usize::try_from(number / BLOCK).ok()?)?;
        let bits = block.bits.as_deref()?;
        let (word, bit) = place(number);
        let below = bits.iter().take(word).map(|word| word.count_ones());
        let of_word = bits[word] & ((1 << bit) - 1);
        let below: u32 = below.sum::<u32>() + of_word.count_ones();
        (bits[word] >> bit & 1 == 1).then(|| block.before + u64::from(below))
    }
}

/// The word of a number in its block, and the bit in the word.
fn place(number: u64) -> (usize, u32) {
    let number = number % BLOCK;
    ((number / 64) as usize, (number % 64) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn an_ordinal_is_the_number_of_lesser_ones(
            steps in proptest::collection::vec(prop_oneof![1u64..4, 1u64..3_000], 0..200),
        ) {
            let (mut ordinals, mut model, mut number) = (Ordinals::default(), BTreeSet::new(), 0);
            for step in steps {
                number += step;
                ordinals.push(number - 1);
                model.insert(number - 1);
            }
            prop_assert_eq!(ordinals.count(), model.len() as u64);
            for (ordinal, one) in model.iter().enumerate() {
                prop_assert_eq!(ordinals.ordinal(*one), Some(ordinal as u64));
            }
            for one in (0..number + 2).filter(|one| !model.contains(one)) {
                prop_assert_eq!(ordinals.ordinal(one), None);
            }
        }
    }
}
