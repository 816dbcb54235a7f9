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

    /// Whether a string is so near.
    pub(super) fn matches(&self, text: &str, ignores_case: bool) -> bool {
        let (prefix, rest) = self.text.split_at(self.prefix_bytes);
        if !ignores_case {
            let other = text.strip_prefix(prefix);
            return other.is_some_and(|other| is_near(rest, other, self.edits as usize));
        }
        let (prefix, rest) = (prefix.to_lowercase(), rest.to_lowercase());
        // In lower case a text has as many letters or more, and at most three for each.
        let longest = 3 * (LETTERS_MAX + EDITS_MAX as usize);
        let text: String = text.chars().take(longest + 1).collect();
        let text = text.to_lowercase();
        let other = text.strip_prefix(&prefix);
        other.is_some_and(|other| is_near(&rest, other, self.edits as usize))
    }
}

/// Whether up to `edits` edits make two strings equal. A long string is told by its length.
fn is_near(one: &str, other: &str, edits: usize) -> bool {
    let letters = one.chars().count();
    let others = other.chars().take(letters + edits + 1).count();
    letters.abs_diff(others) <= edits && strsim::osa_distance(one, other) <= edits
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(fuzzy.matches(other, false), expected, "{fuzzy:?} {other}");
            assert!(
                !expected || other.starts_with(fuzzy.beginning()),
                "{fuzzy:?} {other}"
            );
        }
        let fuzzy = Fuzzy::new("audi", 2, 0).unwrap();
        assert!(!fuzzy.matches(&"audi".repeat(100_000), true));
        assert!(Fuzzy::new("audi", 3, 0).is_err());
        assert!(Fuzzy::new(&"a".repeat(257), 1, 0).is_err());
    }
}
