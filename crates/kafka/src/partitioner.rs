//! The partition of a key, as Kafka's own clients choose it: 32-bit MurmurHash2 of the key's bytes,
//! without its sign, modulo the number of partitions.
//!
//! Source: Kafka's `BuiltInPartitioner.partitionForKey` and `Utils.murmur2`; Appleby 2008,
//! "MurmurHash2".

const SEED: u32 = 0x9747_b28c;
const FACTOR: u32 = 0x5bd1_e995;
const SHIFT: u32 = 24;

/// The partition, from 0 to `partitions` - 1, of a key. `partitions` is at least 1.
pub(crate) fn partition(key: &str, partitions: usize) -> usize {
    assert!(partitions > 0, "a topic has partitions");
    (murmur2(key.as_bytes()) & 0x7fff_ffff) as usize % partitions
}

fn murmur2(bytes: &[u8]) -> u32 {
    let mut hash = SEED ^ bytes.len() as u32;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(FACTOR);
        word ^= word >> SHIFT;
        hash = hash.wrapping_mul(FACTOR) ^ word.wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let mut word = [0; 4];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u32::from_le_bytes(word)).wrapping_mul(FACTOR);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(FACTOR);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // The cases of Kafka's `UtilsTest.testMurmur2`.
    fn hashes_are_those_of_kafka() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
        assert_eq!(
            partition("21", 7),
            (-973_932_308_i32 & i32::MAX) as usize % 7
        );
    }
}
