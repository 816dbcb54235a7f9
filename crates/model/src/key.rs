//! [`Key`]: a document's primary key.
//!
//! # Invariants
//! 1. A key is its text: the integer 42 and the string "42" are one key, because a URL or a command
//!    line carries text alone. A string that is the plain decimal text of an integer in range *is*
//!    that integer's key.
//! 2. Encoded keys compare bytewise as the keys do: integers by value, then all other strings
//!    bytewise.
//! 3. The encoding and the hash never change: they place documents on disk.
//!
//! # Layout
//! ```text
//! integer    | 1: 0x18 + n | n: its value, big-endian |               positive; zero has n = 0
//!            | 1: 0x18 - n | n: complement of its magnitude, big-endian |    negative
//!            n is 1 to 8, the fewest bytes that hold the magnitude; from i64::MIN to u64::MAX
//! string     | 1: 0x30 | 1 to 1,024: UTF-8 |
//! ```

use crate::error::{Error, excerpt};
use crate::value::ValueRef;
use smallvec::SmallVec;
use std::fmt;
use xxhash_rust::xxh3::xxh3_64;

/// Longest string key, in bytes of UTF-8.
pub const KEY_BYTES_MAX: usize = 1024;

const ZERO: u8 = 0x18;
const STRING: u8 = 0x30;

/// A primary key: an integer from `i64::MIN` to `u64::MAX`, or a string of 1 to [`KEY_BYTES_MAX`]
/// bytes. Identified by its text: a string that reads as such an integer (`0` or `-?[1-9][0-9]*`)
/// is the integer.
///
/// Integers come first, in numeric order; then strings, bytewise. [`Display`](fmt::Display) gives
/// the text.
///
/// ```
/// use quire_model::Key;
///
/// assert_eq!(Key::parse("42")?, Key::from(42_u64));
/// assert_ne!(Key::parse("042")?, Key::from(42_u64));
/// assert!(Key::from(9_i64) < Key::from(10_i64));
/// assert!(Key::from(u64::MAX) < Key::parse("a")?);
/// assert_eq!(Key::decode(Key::parse("a")?.encoded())?.to_string(), "a");
/// # Ok::<(), quire_model::Error>(())
/// ```
// Held as its encoding, so that order, equality and hash are those of the bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    encoded: SmallVec<[u8; 24]>,
}

impl Key {
    /// The key whose text is `text`.
    ///
    /// # Errors
    /// [`Error::InvalidKey`] if it is empty or over [`KEY_BYTES_MAX`] bytes.
    pub fn parse(text: &str) -> Result<Key, Error> {
        if let Some(value) = parse_integer(text.as_bytes()) {
            return Ok(Key::from_integer(value));
        }
        let invalid = |found| {
            Err(Error::InvalidKey {
                found,
                bytes_max: KEY_BYTES_MAX,
            })
        };
        match text.len() {
            0 => invalid("an empty string".to_owned()),
            1..=KEY_BYTES_MAX => {
                let mut encoded = SmallVec::with_capacity(1 + text.len());
                encoded.push(STRING);
                encoded.extend_from_slice(text.as_bytes());
                Ok(Key { encoded })
            }
            bytes => invalid(format!("{:?} ({bytes} bytes)", excerpt(text.as_bytes()))),
        }
    }

    /// The key that a document's field holds.
    ///
    /// # Errors
    /// [`Error::InvalidKey`] if it is neither an integer nor a string that can be one. A number
    /// that is not a plain integer (`1.0`, `1e3`, `-0`) is not a key: its text would be ambiguous.
    pub fn from_value(value: ValueRef<'_>) -> Result<Key, Error> {
        let found = match value {
            ValueRef::Int(value) => return Ok(Key::from(value)),
            ValueRef::UInt(value) => return Ok(Key::from(value)),
            ValueRef::String(text) => return Key::parse(text),
            ValueRef::Float(float) => {
                format!("the number {}", excerpt(float.to_string().as_bytes()))
            }
            other => other.type_name().to_owned(),
        };
        Err(Error::InvalidKey {
            found,
            bytes_max: KEY_BYTES_MAX,
        })
    }

    /// The integer, if the key is one: from `i64::MIN` to `u64::MAX`.
    #[must_use]
    pub fn as_integer(&self) -> Option<i128> {
        let (&tag, payload) = self.encoded.split_first()?;
        if tag == STRING {
            None
        } else {
            decode_integer(tag, payload)
        }
    }

    /// The string, if the key is not an integer.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self.encoded.split_first() {
            Some((&STRING, text)) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }

    /// The encoding: 1 to 1,025 bytes that compare as the keys do.
    #[must_use]
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// Appends the encoding. It does not mark its end, so nothing can follow it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.encoded);
    }

    /// The key encoded in the whole of `bytes`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if that is not the one encoding of a key.
    pub fn decode(bytes: &[u8]) -> Result<Key, Error> {
        let corrupt = |what| Error::Corrupt { offset: 0, what };
        let (&tag, payload) = bytes
            .split_first()
            .ok_or(corrupt("an encoded key of no bytes"))?;
        if tag == STRING {
            let text =
                std::str::from_utf8(payload).map_err(|_| corrupt("a key that is not UTF-8"))?;
            if text.is_empty() || text.len() > KEY_BYTES_MAX || parse_integer(payload).is_some() {
                return Err(corrupt(
                    "a string key that is empty, too long or an integer's text",
                ));
            }
        } else if decode_integer(tag, payload).is_none() {
            return Err(corrupt("neither an integer key nor a string key"));
        }
        Ok(Key {
            encoded: SmallVec::from_slice(bytes),
        })
    }

    /// XXH3-64 of the encoding. Never changes: it decides which partition holds the document.
    #[must_use]
    pub fn hash64(&self) -> u64 {
        xxh3_64(&self.encoded)
    }

    /// `value` is in the range of keys.
    fn from_integer(value: i128) -> Key {
        debug_assert!(in_range(value), "an integer key is an i64 or a u64");
        // The range makes the magnitude fit.
        let magnitude = value.unsigned_abs() as u64;
        let bytes = (64 - magnitude.leading_zeros()).div_ceil(8) as u8;
        let (tag, payload) = if value < 0 {
            (ZERO - bytes, !magnitude)
        } else {
            (ZERO + bytes, magnitude)
        };
        let mut encoded = SmallVec::new();
        encoded.push(tag);
        encoded.extend(
            payload
                .to_be_bytes()
                .into_iter()
                .skip(8 - usize::from(bytes)),
        );
        Key { encoded }
    }
}

/// Whether a key may be this integer.
fn in_range(value: i128) -> bool {
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&value)
}

/// The integer whose plain text is `text`, if a key may be it.
fn parse_integer(text: &[u8]) -> Option<i128> {
    const TEXT_BYTES_MAX: usize = 20;
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let plain = match digits {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !plain || text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let magnitude = digits.iter().fold(0, |value: i128, digit| {
        value * 10 + i128::from(digit - b'0')
    });
    let value = if digits.len() < text.len() {
        -magnitude
    } else {
        magnitude
    };
    in_range(value).then_some(value)
}

fn decode_integer(tag: u8, payload: &[u8]) -> Option<i128> {
    let bytes = usize::from(tag.abs_diff(ZERO));
    if bytes != payload.len() {
        return None;
    }
    let negative = tag < ZERO;
    let mut whole = if negative { [0xff; 8] } else { [0; 8] };
    whole
        .get_mut(8_usize.checked_sub(bytes)?..)?
        .copy_from_slice(payload);
    let number = u64::from_be_bytes(whole);
    let magnitude = if negative { !number } else { number };
    if (64 - magnitude.leading_zeros() as usize).div_ceil(8) != bytes {
        return None;
    }
    let value = if negative {
        -i128::from(magnitude)
    } else {
        i128::from(magnitude)
    };
    in_range(value).then_some(value)
}

impl From<i32> for Key {
    fn from(integer: i32) -> Key {
        Key::from(i64::from(integer))
    }
}

impl From<u32> for Key {
    fn from(integer: u32) -> Key {
        Key::from(u64::from(integer))
    }
}

impl From<i64> for Key {
    fn from(value: i64) -> Key {
        Key::from_integer(value.into())
    }
}

impl From<u64> for Key {
    fn from(value: u64) -> Key {
        Key::from_integer(value.into())
    }
}

impl TryFrom<&str> for Key {
    type Error = Error;

    fn try_from(text: &str) -> Result<Key, Error> {
        Key::parse(text)
    }
}

impl std::str::FromStr for Key {
    type Err = Error;

    fn from_str(text: &str) -> Result<Key, Error> {
        Key::parse(text)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.as_str(), self.as_integer()) {
            (Some(text), _) => f.write_str(text),
            (None, Some(value)) => value.fmt(f),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_str() {
            Some(text) => write!(f, "Key({text:?})"),
            None => write!(f, "Key({self})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, ErrorKind};
    use proptest::prelude::*;
    use std::cmp::Ordering;

    /// The rules of order and identity, in their slow form.
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Model {
        Integer(i128),
        String(Vec<u8>),
    }

    fn model(text: &str) -> Model {
        match text.parse::<i128>() {
            Ok(value) if value.to_string() == text && in_range(value) => Model::Integer(value),
            _ => Model::String(text.as_bytes().to_vec()),
        }
    }

    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<i64>().prop_map(|value| value.to_string()),
            any::<u64>().prop_map(|value| value.to_string()),
            (any::<i64>(), 0..64)
                .prop_map(|(value, shift): (i64, i32)| (value >> shift).to_string()),
            "-?0{0,1}[0-9]{1,21}",
            "[a-c0-2\\x00-]{1,4}",
            "\\PC{1,40}",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn keys_keep_their_text_and_their_bytes_sort_as_they_do(a in any_text(), b in any_text()) {
            let (key, other) = (Key::parse(&a)?, Key::parse(&b)?);
            prop_assert_eq!(key.to_string(), a.clone());
            prop_assert_eq!(Key::decode(key.encoded())?, key.clone());
            prop_assert_eq!(key.as_integer().is_some(), matches!(model(&a), Model::Integer(_)));
            prop_assert_eq!(key.encoded().cmp(other.encoded()), model(&a).cmp(&model(&b)));
            prop_assert_eq!(key.cmp(&other), model(&a).cmp(&model(&b)));
        }

        #[test]
        fn only_the_one_encoding_of_a_key_decodes(
            tag in prop_oneof![0x0e_u8..0x24, Just(STRING)],
            rest in prop::collection::vec(
                prop_oneof![Just(0), Just(0xff), Just(b'1'), any::<u8>()],
                0..10,
            ),
        ) {
            let bytes = [&[tag][..], &rest].concat();
            if let Ok(key) = Key::decode(&bytes) {
                let again = Key::parse(&key.to_string())?;
                prop_assert_eq!(again.encoded(), &bytes[..]);
            }
        }
    }

    #[test]
    fn order_holds_at_the_edges_of_every_width() {
        let mut edges: Vec<i128> = vec![i64::MIN.into(), u64::MAX.into(), 0];
        for shift in 0..64 {
            for value in [1_i128 << shift, (1 << shift) - 1, (1 << shift) + 1] {
                edges.extend([value, -value].into_iter().filter(|value| in_range(*value)));
            }
        }
        edges.sort_unstable();
        edges.dedup();
        let keys: Vec<Key> = edges
            .iter()
            .map(|value| Key::from_integer(*value))
            .collect();
        for (pair, values) in keys.windows(2).zip(edges.windows(2)) {
            assert_eq!(pair[0].cmp(&pair[1]), Ordering::Less, "{values:?}");
            assert_eq!(pair[0].as_integer(), Some(values[0]));
        }
        assert!(keys.iter().all(|key| *key < Key::parse("!").unwrap()));
    }

    #[test]
    fn hashes_never_change() {
        let long = "k".repeat(KEY_BYTES_MAX);
        for (text, hash) in [
            ("0", 0x83e4_e2ca_690d_8fcf),
            ("42", 0x9e36_9181_7b3b_052e),
            ("-1", 0x10c5_2f17_6fcb_89c6),
            ("18446744073709551615", 0xb7ec_eca1_4763_a3ed),
            ("a", 0x1904_1d14_8eea_5b5b),
            ("1501.00255", 0xc5ec_f975_8411_f4b2),
            ("naïve", 0xbdab_cd92_e361_c67f),
            (&long, 0xbbd5_0823_f5e0_9d79),
        ] {
            assert_eq!(Key::parse(text).unwrap().hash64(), hash, "{text}");
        }
    }

    #[test]
    fn values_that_are_no_key_are_refused_by_name() {
        let document = br#"{
            "i":-5,"u":18446744073709551615,"s":"x","n":"42","f":1.0,"z":-0,"e":1e3,"t":true,
            "l":null,"a":[],"o":{},"empty":""
        }"#;
        let document = Document::from_json(document).unwrap();
        let key = |name: &str| Key::from_value(document.get(name).unwrap());
        assert_eq!(key("i"), Ok(Key::from(-5_i64)));
        assert_eq!(key("u"), Ok(Key::from(u64::MAX)));
        assert_eq!(key("s").unwrap().as_str(), Some("x"));
        assert_eq!(key("n"), Ok(Key::from(42_i64)));
        for (name, found) in [
            ("f", "the number 1.0"),
            ("z", "the number -0"),
            ("e", "the number 1e3"),
            ("t", "a boolean"),
            ("l", "null"),
            ("a", "an array"),
            ("o", "an object"),
            ("empty", "an empty string"),
        ] {
            let error = key(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidKey);
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("{found} can't be a key")),
                "{error}"
            );
        }
        assert!(Key::parse(&"k".repeat(1024)).is_ok());
        let error = Key::parse(&"é".repeat(513)).unwrap_err();
        assert!(error.to_string().contains("(1026 bytes)"), "{error}");
    }
}
