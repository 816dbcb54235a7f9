//! The keys and values, and the orders in which they are read: the same as in
//! `bench/peers/kv/stream.h`.
//!
//! Key `number` is `mix(number + KEYS)`, 8 bytes, big-endian: `mix` is a bijection, so keys differ
//! and come in random order. A value is 12 words of 8 bytes, little-endian, made from the key and a
//! version: 0 as written first, 1 as overwritten. Both sides give the checksum of a stream, and the
//! harness compares them.

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
const KEYS: u64 = 0x5851_f42d_4c95_7f2d;
const VERSIONS: u64 = 0xd6e8_feb8_6659_fd93;
pub(super) const KEY_BYTES: usize = 8;
pub(super) const VALUE_BYTES: usize = 96;

pub(super) type Key = [u8; KEY_BYTES];
pub(super) type Value = [u8; VALUE_BYTES];

/// Source: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators".
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

pub(super) fn key(number: u64) -> Key {
    mix(number.wrapping_add(KEYS)).to_be_bytes()
}

pub(super) fn value(key: &Key, version: u64) -> Value {
    let state = u64::from_le_bytes(*key) ^ version.wrapping_mul(VERSIONS);
    let mut value = [0; VALUE_BYTES];
    let (words, _) = value.as_chunks_mut::<8>();
    let mut at = state;
    for word in words {
        at = at.wrapping_add(GOLDEN);
        *word = mix(at).to_le_bytes();
    }
    value
}

/// An order of all of `0..count`: a bijection of the next power of two, walked until it is below.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    count: u64,
    salt: u64,
    mask: u64,
    half: u32,
}

impl Order {
    pub(super) fn new(count: u64, salt: u64) -> Order {
        let bits = count.next_power_of_two().trailing_zeros().clamp(2, 63);
        Order {
            count,
            salt: mix(salt),
            mask: (1 << bits) - 1,
            half: bits / 2,
        }
    }

    /// The `at`-th.
    pub(super) fn at(&self, mut x: u64) -> u64 {
        loop {
            x = x.wrapping_add(self.salt) & self.mask;
            x = (x ^ (x >> self.half)).wrapping_mul(0xbf58_476d_1ce4_e5b9) & self.mask;
            x = (x ^ (x >> self.half)).wrapping_mul(0x94d0_49bb_1331_11eb) & self.mask;
            x ^= x >> self.half;
            if x < self.count {
                return x;
            }
        }
    }
}

/// One of `0..count`, with repeats.
pub(super) fn pick(count: u64, at: u64) -> u64 {
    let random = u128::from(mix(at.wrapping_add(GOLDEN)));
    ((random * u128::from(count)) >> 64) as u64
}

/// What a row adds to the checksum of a scan, which does not depend on the order.
pub(super) fn checksum_of(key: &Key, value: &Value) -> u64 {
    let mut sum = u64::from_le_bytes(*key);
    for word in value.as_chunks::<8>().0 {
        sum = sum.rotate_left(7) ^ u64::from_le_bytes(*word);
    }
    mix(sum)
}

/// The checksum of a stream of `count` keys: of its first rows in two orders and versions, and of
/// what is picked.
pub(super) fn checksum_of_stream(count: u64) -> u64 {
    let order = Order::new(count, 1);
    let mut sum = 0_u64;
    for at in 0..count.min(1000) {
        let (first, second) = (key(at), key(order.at(at)));
        sum = mix(sum.wrapping_add(checksum_of(&first, &value(&first, 0))));
        let second = checksum_of(&second, &value(&second, 1));
        sum = mix(sum.wrapping_add(second).wrapping_add(pick(count, at)));
    }
    sum
}

/// The checksum that a scan of all of a stream's rows, as written first, must give.
pub(super) fn checksum_of_rows(count: u64) -> u64 {
    (0..count).map(key).fold(0_u64, |sum, key| {
        sum.wrapping_add(checksum_of(&key, &value(&key, 0)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_every_number_once() {
        for count in [1, 2, 3, 1000, 1024, 1025] {
            let mut all: Vec<u64> = (0..count).map(|at| Order::new(count, 1).at(at)).collect();
            assert!(count < 1000 || all != (0..count).collect::<Vec<_>>());
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    /// The peers in C++ print these too: a run compares them.
    #[test]
    fn the_stream_is_what_it_was() {
        assert_eq!(checksum_of_stream(100_000), 2_621_176_596_497_801_249);
        assert_eq!(checksum_of_rows(100_000), 12_046_514_936_947_250_405);
    }
}
