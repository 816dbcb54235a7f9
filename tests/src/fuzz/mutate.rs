//! Mutations of bytes, as they happen to files and as they find bugs: bits flipped, bytes set,
//! blocks moved, numbers at limits, two inputs spliced.

use crate::sim::rng::Rng;

/// The longest input.
const INPUT_BYTES_MAX: usize = 64 << 10;

/// Numbers at which arithmetic goes wrong.
const INTERESTING: [u64; 20] = [
    0,
    1,
    2,
    7,
    16,
    63,
    64,
    127,
    128,
    255,
    256,
    1 << 15,
    (1 << 16) - 1,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    i64::MAX as u64,
    u64::MAX,
];

/// Pieces of text that mean something to a parser.
const WORDS: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "\n",
    "\r\n",
    "null",
    "true",
    "-0",
    "1e308",
    "1e-400",
    "18446744073709551616",
    "-9223372036854775808",
    "0.10",
    "{\"a\":{}}",
    "\"_id\":",
    "é",
    "\u{0}",
];

/// Changes `input` in one to eight places; `other` is another input to take bytes from.
pub(super) fn mutate(input: &[u8], other: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..1 << below(rng, 4) {
        change(&mut bytes, other, rng);
    }
    bytes.truncate(INPUT_BYTES_MAX);
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let at = below(rng, bytes.len() + 1);
    let length = 1 << below(rng, 9);
    let end = (at + 1 + below(rng, length)).min(bytes.len()).max(at);
    match below(rng, 11) {
        0 | 1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << below(rng, 8);
            }
        }
        2 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = rng.next() as u8;
            }
        }
        3 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = byte.wrapping_add(below(rng, 35) as u8).wrapping_sub(17);
            }
        }
        4 => {
            let number = INTERESTING[below(rng, INTERESTING.len())];
            let number = number.wrapping_add(below(rng, 3) as u64).wrapping_sub(1);
            let width = 1 << below(rng, 4);
            let mut number = number.to_le_bytes();
            if below(rng, 4) == 0 {
                number[..width].reverse();
            }
            for (byte, new) in bytes.iter_mut().skip(at).zip(&number[..width]) {
                *byte = *new;
            }
        }
        5 => drop(bytes.drain(at..end)),
        6 => {
            let block = bytes[at..end].to_vec();
            let to = below(rng, bytes.len() + 1);
            bytes.splice(to..to, block);
        }
        7 => {
            let block = bytes[at..end].to_vec();
            let to = below(rng, bytes.len() + 1);
            let stop = (to + block.len()).min(bytes.len());
            bytes[to..stop].copy_from_slice(&block[..stop - to]);
        }
        8 => bytes.truncate(at),
        9 => {
            let word = WORDS[below(rng, WORDS.len())];
            bytes.splice(at..at, word.bytes());
        }
        _ => {
            let from = below(rng, other.len() + 1);
            let length = below(rng, other.len() - from + 1);
            let to = match below(rng, 2) {
                0 => at,
                _ => (at + length).min(bytes.len()),
            };
            bytes.splice(at..to, other[from..from + length].iter().copied());
        }
    }
}

fn below(rng: &mut Rng, end: usize) -> usize {
    (rng.next() % end.max(1) as u64) as usize
}
