//! Ranges of keys: of strings, of bytes, and of all keys with a prefix.

use crate::record::check_length;
use crate::{KEY_BYTES_MAX, Result};
use smallvec::SmallVec;
use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// An end of a range.
type End = SmallVec<[u8; 64]>;

/// A range of keys: `..`, or a range of anything that is bytes, such as `"a".."b"`, `b"a"..`,
/// `..=key`, or a pair of [`Bound`]s. Both ends have one type: byte strings of different lengths
/// are written as slices, `&b"a"[..]..&b"bc"[..]`.
pub trait KeyRange {
    /// Its two ends, in bytes.
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>);
}

/// Implements it for the ranges of the standard library.
macro_rules! ranges {
    ($($range:ty: |$me:ident| $from:expr, $to:expr;)+) => {
        $(impl<K: AsRef<[u8]>> KeyRange for $range {
            fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
                let $me = self;
                ($from, $to)
            }
        })+
    };
}

ranges! {
    Range<K>: |me| Bound::Included(me.start.as_ref()), Bound::Excluded(me.end.as_ref());
    RangeInclusive<K>: |me|
        Bound::Included(me.start().as_ref()), Bound::Included(me.end().as_ref());
    RangeFrom<K>: |me| Bound::Included(me.start.as_ref()), Bound::Unbounded;
    RangeTo<K>: |me| Bound::Unbounded, Bound::Excluded(me.end.as_ref());
    RangeToInclusive<K>: |me| Bound::Unbounded, Bound::Included(me.end.as_ref());
    (Bound<K>, Bound<K>): |me| me.0.as_ref().map(K::as_ref), me.1.as_ref().map(K::as_ref);
}

impl KeyRange for RangeFull {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

/// The keys that begin with a prefix.
#[derive(Debug)]
pub(crate) struct Prefix<'a> {
    prefix: &'a [u8],
    /// The first key after them; empty if there is none.
    end: End,
}

impl Prefix<'_> {
    pub(crate) fn new(prefix: &[u8]) -> Prefix<'_> {
        Prefix {
            prefix,
            end: next_prefix(SmallVec::from_slice(prefix)).unwrap_or_default(),
        }
    }
}

impl KeyRange for Prefix<'_> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let to = match self.end.is_empty() {
            true => Bound::Unbounded,
            false => Bound::Excluded(&self.end[..]),
        };
        (Bound::Included(self.prefix), to)
    }
}

/// The keys of a range: the first there can be, and the first after them, which is empty if there
/// is no end. `None` if the range has none.
///
/// # Errors
/// `TooLarge` for an end of it that is longer than a key.
pub(crate) fn ends(range: &impl KeyRange) -> Result<Option<(End, End)>> {
    let (start, end) = range.bounds();
    for bound in [start, end] {
        if let Bound::Included(key) | Bound::Excluded(key) = bound {
            check_length("key", KEY_BYTES_MAX, key.len())?;
        }
    }
    let first = match start {
        Bound::Unbounded => SmallVec::from_slice(FIRST_KEY),
        Bound::Included(key) => key.max(FIRST_KEY).into(),
        Bound::Excluded(key) => match successor(key) {
            Some(next) => next,
            None => return Ok(None),
        },
    };
    let after = match end {
        Bound::Unbounded => SmallVec::new(),
        Bound::Included(key) => successor(key).unwrap_or_default(),
        Bound::Excluded(key) => key.max(FIRST_KEY).into(),
    };
    let some = after.is_empty() || first < after;
    Ok(some.then_some((first, after)))
}

/// No key is before it.
const FIRST_KEY: &[u8] = &[0];

/// The key after `key`; `None` if it is the last there can be.
fn successor(key: &[u8]) -> Option<End> {
    let mut next = SmallVec::from_slice(key);
    if next.len() < KEY_BYTES_MAX {
        next.push(0);
        return Some(next);
    }
    next_prefix(next)
}

/// The first key that comes after all that begin with `prefix`; `None` if there is none.
fn next_prefix(mut prefix: End) -> Option<End> {
    while let Some(last) = prefix.pop() {
        if let Some(last) = last.checked_add(1) {
            prefix.push(last);
            return Some(prefix);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_the_keys_that_its_bounds_say_also_beside_the_longest() {
        let of = |from, to| {
            let ends = ends(&(from, to)).unwrap();
            ends.map(|(from, to)| (from.to_vec(), to.to_vec()))
        };
        let some = |from: &[u8], to: &[u8]| Some((from.to_vec(), to.to_vec()));
        let (included, excluded) = (Bound::<&[u8]>::Included, Bound::<&[u8]>::Excluded);
        let all = Bound::Unbounded;
        assert_eq!(of(all, all), some(&[0], b""));
        assert_eq!(of(included(b""), excluded(b"b")), some(&[0], b"b"));
        assert_eq!(of(included(b"a"), included(b"a")), some(b"a", b"a\0"));
        assert_eq!(of(excluded(b"a"), excluded(b"b")), some(b"a\0", b"b"));
        for (from, to) in [
            (included(b"b"), excluded(b"b")),
            (included(b"c"), included(b"b")),
            (excluded(b"b"), included(b"b")),
            (all, included(b"")),
            (all, excluded(b"")),
            (all, excluded(b"\0")),
        ] {
            assert_eq!(of(from, to), None, "{from:?} to {to:?}");
        }
        let (longest, last) = (vec![7; KEY_BYTES_MAX], vec![255; KEY_BYTES_MAX]);
        let mut next = longest.clone();
        *next.last_mut().unwrap() = 8;
        assert_eq!(of(excluded(&longest), included(&last)), some(&next, b""));
        assert_eq!(of(excluded(&last), all), None);
        let longer = vec![7; KEY_BYTES_MAX + 1];
        let too_long = ends(&(included(&longer), all)).unwrap_err();
        assert_eq!(too_long.kind(), crate::ErrorKind::TooLarge);
    }
}
