//! [`Prefetched`]: what the system was told to read ahead of one who reads a file from its
//! beginning to its end.

use std::ops::Range;

/// Where what was prefetched ends.
#[derive(Debug, Default)]
pub(super) struct Prefetched(u64);

impl Prefetched {
    /// What to prefetch before a chunk of the file is read: at least `bytes`, or nothing while
    /// half of these are ahead of the chunk. So the disk gets few requests, and reads on
    /// meanwhile.
    pub(super) fn before(&mut self, chunk: Range<u64>, bytes: u64) -> Option<Range<u64>> {
        if chunk.end + bytes / 2 <= self.0 {
            return None;
        }
        let start = chunk.start.max(self.0);
        self.0 = (start + bytes).max(chunk.end + bytes / 2);
        Some(start..self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_byte_is_prefetched_once_and_before_it_is_read(
            chunks in prop::collection::vec((0_u64..100, 1_u64..400), 1..50),
            bytes in 1_u64..300,
        ) {
            let (mut prefetched, mut ranges) = (Prefetched::default(), Vec::<Range<u64>>::new());
            let mut at = 0;
            for (skipped, length) in chunks {
                at += skipped;
                if let Some(range) = prefetched.before(at..at + length, bytes) {
                    prop_assert!(range.end - range.start >= bytes);
                    prop_assert!(ranges.last().is_none_or(|last| last.end <= range.start));
                    ranges.push(range);
                }
                for byte in at..at + length {
                    prop_assert!(ranges.iter().any(|range| range.contains(&byte)));
                }
                prop_assert!(ranges.last().unwrap().end >= at + length + bytes / 2);
                at += length;
            }
        }
    }
}
