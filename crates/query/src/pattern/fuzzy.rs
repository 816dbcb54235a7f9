//! [`Fuzzy`]: strings that a few edits make equal to a text.

use crate::{Error, Result};

/// The most letters of a text that others are compared with.
const LETTERS_MAX: usize = 256;

/// The most edits, as in Lucene.
const EDITS_MAX: u32 = 2;

/// Strings that equal a text after some edits: a letter put in, left out or replaced, or two
/// neighbours exchanged (Damerau, 1964; no letter is edited twice). The first letters are not
/// edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fuzzy {
    pub(super) text: String,
    pub(super) edits: u32,
    /// How many letters at the beginning are the same.
    pub(super) prefix: u32,
    /// The bytes of these letters.
    prefix_bytes: usize,
}

impl Fuzzy {
    pub(super) fn new(text: &str, edits: u32, prefix: u32) -> Result<Fuzzy> {
        if edits > EDITS_MAX {
            let what = format!("{edits} edits: there are at most {EDITS_MAX}");
            return Err(Error::Invalid(what));
        }
        if text.chars().count() > LETTERS_MAX {
            let what =
                format!("a text that others are to be near to has more than {LETTERS_MAX} letters");
            return Err(Error::Invalid(what));
        }
        let letters = usize::try_from(prefix).unwrap_or(usize::MAX);
        let prefix_bytes = text.chars().take(letters).map(char::len_utf8).sum();
        Ok(Fuzzy {
            text: text.into(),
            edits,
            prefix,
            prefix_bytes,
        })
    }

    /// What each string begins with.
    pub(super) fn beginning(&self) -> &str {
        match self.edits {
            0 => &self.text,
            _ => &self.text[..self.prefix_bytes],
        }
    }

    /// What tests strings.
    pub(super) fn near(&self, ignores_case: bool) -> Near {
        let (prefix, rest) = self.text.split_at(self.prefix_bytes);
        let (prefix, rest) = match ignores_case {
            true => (prefix.to_lowercase(), rest.to_lowercase()),
            false => (prefix.into(), rest.into()),
        };
        Near {
            prefix,
            letters: rest.chars().collect(),
            edits: self.edits as u8,
            ignores_case,
        }
    }
}

/// Strings that are near to a text, ready to be told.
#[derive(Debug, Clone)]
pub(super) struct Near {
    prefix: String,
    /// Those after it.
    letters: Vec<char>,
    edits: u8,
    ignores_case: bool,
}

impl Near {
    /// Whether a string is so near.
    pub(super) fn matches(&self, text: &str) -> bool {
        if !self.ignores_case {
            let rest = text.strip_prefix(&self.prefix);
            return rest.is_some_and(|rest| self.is_near(rest));
        }
        // In lower case a text has as many letters or more, and at most three for each.
        let longest = 3 * (LETTERS_MAX + EDITS_MAX as usize);
        let text: String = text.chars().take(longest + 1).collect();
        let text = text.to_lowercase();
        let rest = text.strip_prefix(&self.prefix);
        rest.is_some_and(|rest| self.is_near(rest))
    }

    /// Whether up to `edits` edits make a string the text.
    ///
    /// The table of distances has a row for each letter here and a column for each of the text
    /// (Wagner and Fischer, 1974). Only what is near to its diagonal is made (Ukkonen, 1985), until
    /// nothing in it is small enough.
    fn is_near(&self, other: &str) -> bool {
        let edits = usize::from(self.edits);
        // A letter has at least one byte.
        if other.len() + edits < self.letters.len() {
            return false;
        }
        // In the row of `count` letters: the place for `letters` ones is `letters + edits - count`.
        let mut row: Row = [FAR; WIDTH];
        for (place, distance) in (edits..=2 * edits).zip(0..) {
            row[place] = if place - edits <= self.letters.len() {
                distance
            } else {
                FAR
            };
        }
        let (mut before, mut last) = ([FAR; WIDTH], None);
        let mut count = 0;
        for other in other.chars() {
            count += 1;
            let mut next: Row = [FAR; WIDTH];
            for place in 0..=2 * edits {
                let Some(letters) = (count + place).checked_sub(edits) else {
                    continue;
                };
                if letters > self.letters.len() {
                    break;
                }
                // One more here; one more in the text; one replaced, or the same; two exchanged.
                let mut distance = row.get(place + 1).map_or(FAR, |distance| distance + 1);
                if let Some(at) = letters.checked_sub(1) {
                    let is_same = self.letters[at] == other;
                    distance = distance.min(row[place] + u8::from(!is_same));
                    if let Some(place) = place.checked_sub(1) {
                        distance = distance.min(next[place] + 1);
                    }
                    let neighbour = at.checked_sub(1).map(|at| self.letters[at]);
                    if neighbour == Some(other) && last == Some(self.letters[at]) {
                        distance = distance.min(before[place] + 1);
                    }
                }
                next[place] = distance.min(FAR);
            }
            // What comes adds to this row, or to the one before where two are exchanged.
            let is_far = |row: &Row, most: u8| row.iter().all(|distance| *distance > most);
            if is_far(&next, self.edits)
                && self
                    .edits
                    .checked_sub(1)
                    .is_none_or(|most| is_far(&row, most))
            {
                return false;
            }
            (before, row, last) = (row, next, Some(other));
        }
        let place = (self.letters.len() + edits).checked_sub(count);
        place
            .and_then(|place| row.get(place))
            .is_some_and(|distance| *distance <= self.edits)
    }
}

/// The distances around the diagonal, of at most [`EDITS_MAX`] letters more or less.
type Row = [u8; WIDTH];
const WIDTH: usize = 2 * EDITS_MAX as usize + 1;

/// More edits than there may be.
const FAR: u8 = EDITS_MAX as u8 + 1;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edits_put_in_leave_out_replace_and_exchange_letters() {
        let cases = [
            ("audi", 1, 0, "audi", true),
            ("audi", 0, 0, "audis", false),
            ("audi", 1, 0, "audis", true),
            ("audi", 1, 0, "udi", true),
            ("audi", 1, 0, "adui", true),
            ("audi", 1, 0, "dua", false),
            ("audi", 2, 0, "opel", false),
            ("audi", 1, 1, "udi", false),
            ("audi", 1, 1, "aud\u{ef}", true),
            ("audi", 2, 9, "audixx", true),
            ("audi", 2, 9, "audixxx", false),
            ("ca", 2, 0, "abc", false),
            ("\u{e9}t\u{e9}", 1, 2, "\u{e9}te", true),
            ("", 2, 0, "ab", true),
        ];
        for (text, edits, prefix, other, expected) in cases {
            let fuzzy = Fuzzy::new(text, edits, prefix).unwrap();
            assert_eq!(
                fuzzy.near(false).matches(other),
                expected,
                "{fuzzy:?} {other}"
            );
            assert!(
                !expected || other.starts_with(fuzzy.beginning()),
                "{fuzzy:?} {other}"
            );
        }
        let fuzzy = Fuzzy::new("audi", 2, 0).unwrap();
        assert!(!fuzzy.near(true).matches(&"audi".repeat(100_000)));
        assert!(Fuzzy::new("audi", 3, 0).is_err());
        assert!(Fuzzy::new(&"a".repeat(257), 1, 0).is_err());
    }

    proptest! {
        /// As a table of all distances has it. Few letters, so that many texts are near.
        #[test]
        fn distances_are_those_of_the_whole_table(
            text in "[abé]{0,7}",
            other in "[abé]{0,7}",
            edits in 0..=EDITS_MAX,
        ) {
            let near = Fuzzy::new(&text, edits, 0).unwrap().near(false);
            let expected = strsim::osa_distance(&text, &other) <= edits as usize;
            prop_assert_eq!(near.matches(&other), expected);
        }
    }
}
