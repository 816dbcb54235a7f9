//! [`Pattern`]: which strings a pattern with wildcards matches.

use crate::{Error, Result};

/// The most letters and wildcards of a pattern: a match compares each with each letter of a value
/// at worst.
const LETTERS_MAX: usize = 1_000;

/// A pattern that matches whole strings: letters, any letter, any letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    letters: Vec<Letter>,
    ignores_case: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letter {
    Only(char),
    One,
    /// Any number of letters, also none. Never two in a row.
    Many,
}

/// How a pattern is written.
#[derive(Debug, Clone, Copy)]
struct Signs {
    one: char,
    many: char,
    escape: Option<char>,
}

impl Pattern {
    /// The pattern of `LIKE`: `_` is any letter, `%` any letters, and `escape` makes the letter
    /// after it one of its own.
    ///
    /// # Errors
    /// `Invalid` if nothing follows `escape`, or the pattern is too long.
    pub fn like(text: &str, escape: Option<char>) -> Result<Pattern> {
        Pattern::read(
            text,
            Signs {
                one: '_',
                many: '%',
                escape,
            },
        )
    }

    /// The pattern of a `wildcard` query: `?` is any letter, `*` any letters, and a backslash makes
    /// the letter after it one of its own.
    ///
    /// # Errors
    /// As of [`like`](Pattern::like).
    pub fn wildcard(text: &str) -> Result<Pattern> {
        Pattern::read(
            text,
            Signs {
                one: '?',
                many: '*',
                escape: Some('\\'),
            },
        )
    }

    /// The pattern that matches this text alone.
    ///
    /// # Errors
    /// `Invalid` if the text is too long.
    pub fn exact(text: &str) -> Result<Pattern> {
        Pattern::of(text.chars().map(Letter::Only).collect())
    }

    /// The pattern that matches what begins with this text.
    ///
    /// # Errors
    /// `Invalid` if the text is too long.
    pub fn prefix(text: &str) -> Result<Pattern> {
        let letters = text.chars().map(Letter::Only);
        Pattern::of(letters.chain([Letter::Many]).collect())
    }

    fn read(text: &str, signs: Signs) -> Result<Pattern> {
        let mut read = Vec::new();
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            read.push(match letter {
                _ if Some(letter) == signs.escape => match letters.next() {
                    Some(letter) => Letter::Only(letter),
                    None => {
                        let what = format!("nothing follows the {letter:?} at a pattern's end");
                        return Err(Error::Invalid(what));
                    }
                },
                _ if letter == signs.one => Letter::One,
                _ if letter == signs.many => Letter::Many,
                _ => Letter::Only(letter),
            });
        }
        read.dedup_by(|one, before| (*one, *before) == (Letter::Many, Letter::Many));
        Pattern::of(read)
    }

    fn of(letters: Vec<Letter>) -> Result<Pattern> {
        if letters.len() > LETTERS_MAX {
            let what = format!("a pattern has more than {LETTERS_MAX} letters");
            return Err(Error::Invalid(what));
        }
        Ok(Pattern {
            letters,
            ignores_case: false,
        })
    }

    /// The same pattern, to which a letter and its upper or lower case are one.
    #[must_use]
    pub fn ignoring_case(mut self) -> Pattern {
        self.ignores_case = true;
        self
    }

    /// Whether a letter and its upper or lower case are one.
    #[must_use]
    pub fn ignores_case(&self) -> bool {
        self.ignores_case
    }

    /// What each string that matches begins with; empty if case is ignored.
    #[must_use]
    pub fn beginning(&self) -> String {
        match self.ignores_case {
            true => String::new(),
            false => self.letters.iter().map_while(Letter::only).collect(),
        }
    }

    /// Whether all that it says is its [`beginning`](Pattern::beginning), as a whole (`false`) or
    /// with any letters after it (`true`); none if it says more.
    pub(crate) fn is_prefix(&self) -> Option<bool> {
        let mut after = self.letters.iter().skip_while(|one| one.only().is_some());
        match (self.ignores_case, after.next(), after.next()) {
            (false, None, _) => Some(false),
            (false, Some(Letter::Many), None) => Some(true),
            _ => None,
        }
    }

    /// Whether it matches a string as a whole.
    ///
    /// Takes time in the product of both lengths at worst, and no memory.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let (mut at, mut letters) = (0, text.chars());
        // Where to go on if what follows does not match: after the last `Many`, one letter later.
        let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            let wanted = self.letters.get(at);
            if wanted == Some(&Letter::Many) {
                at += 1;
                retry = Some((at, letters.clone()));
                continue;
            }
            let fits = match (wanted, letters.next()) {
                (None, None) => return true,
                (Some(Letter::One), Some(_)) => true,
                (Some(Letter::Only(wanted)), Some(letter)) => self.is_same(*wanted, letter),
                (Some(_), None) => return false,
                _ => false,
            };
            if fits {
                at += 1;
                continue;
            }
            let Some((after, rest)) = &mut retry else {
                return false;
            };
            if rest.next().is_none() {
                return false;
            }
            (at, letters) = (*after, rest.clone());
        }
    }

    fn is_same(&self, one: char, other: char) -> bool {
        one == other || self.ignores_case && one.to_lowercase().eq(other.to_lowercase())
    }

    /// As `LIKE` has it, and the letter that escapes if one is needed.
    pub(crate) fn to_like(&self, escape: char) -> (String, bool) {
        let (mut text, mut is_escaped) = (String::new(), false);
        for letter in &self.letters {
            match *letter {
                Letter::One => text.push('_'),
                Letter::Many => text.push('%'),
                Letter::Only(letter) => {
                    if matches!(letter, '%' | '_') || letter == escape {
                        text.push(escape);
                        is_escaped = true;
                    }
                    text.push(letter);
                }
            }
        }
        (text, is_escaped)
    }
}

impl Letter {
    fn only(&self) -> Option<char> {
        match self {
            Letter::Only(letter) => Some(*letter),
            Letter::One | Letter::Many => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_strings_match_letter_by_letter() {
        let cases = [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("a*", "a", true),
            ("a*c", "abcbc", true),
            ("a*c", "abcb", false),
            ("*ab*ab*", "xabab", true),
            ("*ab*ab*", "xaab", false),
            ("?", "é", true),
            ("?", "", false),
            ("??*", "a", false),
            (r"\*\?\\", r"*?\", true),
            (r"\*", "a", false),
            ("a**b", "ab", true),
        ];
        for (pattern, text, expected) in cases {
            let matches = Pattern::wildcard(pattern).unwrap().matches(text);
            assert_eq!(matches, expected, "{pattern} {text}");
        }
        let folded = Pattern::like("ÉMILE%", None).unwrap().ignoring_case();
        assert!(folded.matches("émile z") && !folded.matches("emile"));
        assert!(Pattern::wildcard("a\\").is_err());
        assert!(Pattern::wildcard(&"ab".repeat(501)).is_err());
    }
}
