//! Hashes that are the same in every process and on every machine.

/// A bijection in which each bit of the result depends on all bits of `bits`.
///
/// Source: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators", with the
/// constants of Vigna's splitmix64.
pub(crate) fn mixed(bits: u64) -> u64 {
    let mut mixed = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A hash of some bytes.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(bytes.len() as u64, |hash, chunk| {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(chunk) {
            *to = *from;
        }
        mixed(hash ^ u64::from_le_bytes(word))
    })
}
