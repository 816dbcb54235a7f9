//! How many records are read at a time, by their lengths, which the rows tree has.

/// How many of the first records are read together: as many as have `bytes_max` bytes, and at least
/// one if there is any. A length of 0 is one that an old row does not say.
pub(crate) fn fitting(lengths: impl IntoIterator<Item = u32>, bytes_max: u64) -> usize {
    let mut bytes = 0_u64;
    let fits = |length: &u32| {
        let is_first = bytes == 0;
        bytes += u64::from(*length);
        is_first || bytes <= bytes_max
    };
    lengths.into_iter().take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_fit_are_read_together_and_a_large_one_alone() {
        assert_eq!(fitting([], 100), 0);
        assert_eq!(fitting([60, 40, 1], 100), 2);
        assert_eq!(fitting([500, 1], 100), 1);
        assert_eq!(fitting([1, 500], 100), 1);
        assert_eq!(fitting([0, 0, 0], 100), 3);
        assert_eq!(fitting([u32::MAX; 3], u64::from(u32::MAX) * 2), 2);
    }
}
