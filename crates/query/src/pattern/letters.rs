//! [`Letters`]: a pattern of letters and wildcards.

use crate::{Error, Result};
use std::sync::Arc;

/// The most letters and wildcards of a pattern: a match compares each with each letter of a value
/// at worst.
const LETTERS_MAX: usize = 1_000;

/// Letters, any letter, any letters. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Letters(Arc<[Letter]>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Letter {
    Only(char),
    One,
    /// Any number of letters, also none. Never two in a row.
    Many,
}

/// How a pattern is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signs {
    pub(super) one: char,
    pub(super) many: char,
    pub(super) escape: Option<char>,
}

impl Letters {
    pub(super) fn read(text: &str, signs: Signs) -> Result<Letters> {
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
        Letters::new(read)
    }

    /// # Errors
    /// `Invalid` if there are too many.
    pub(super) fn new(letters: Vec<Letter>) -> Result<Letters> {
        if letters.len() > LETTERS_MAX {
            let what = format!("a pattern has more than {LETTERS_MAX} letters");
            return Err(Error::Invalid(what));
        }
        Ok(Letters(letters.into()))
    }

    /// What each string that matches begins with.
    pub(super) fn beginning(&self) -> String {
        self.0.iter().map_while(Letter::only).collect()
    }

    /// Whether all that it says is its beginning, as a whole (`false`) or with any letters after it
    /// (`true`); none if it says more.
    pub(super) fn is_prefix(&self) -> Option<bool> {
        let mut after = self.0.iter().skip_while(|one| one.only().is_some());
        match (after.next(), after.next()) {
            (None, _) => Some(false),
            (Some(Letter::Many), None) => Some(true),
            _ => None,
        }
    }

    /// The texts that it is made of, if nothing but any letters lies between them.
    pub(super) fn texts(&self) -> Option<Vec<String>> {
        let mut texts = vec![String::new()];
        for letter in &*self.0 {
            match (letter, texts.last_mut()) {
                (Letter::Only(letter), Some(text)) => text.push(*letter),
                (Letter::Many, _) => texts.push(String::new()),
                _ => return None,
            }
        }
        Some(texts)
    }

    /// Whether it matches a string as a whole.
    ///
    /// Takes time in the product of both lengths at worst, and no memory.
    pub(super) fn matches(&self, text: &str, ignores_case: bool) -> bool {
        let (mut at, mut letters) = (0, text.chars());
        // Where to go on if what follows does not match: after the last `Many`, one letter later.
        let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            let wanted = self.0.get(at);
            if wanted == Some(&Letter::Many) {
                at += 1;
                retry = Some((at, letters.clone()));
                continue;
            }
            let fits = match (wanted, letters.next()) {
                (None, None) => return true,
                (Some(Letter::One), Some(_)) => true,
                (Some(Letter::Only(wanted)), Some(letter)) => {
                    is_same(*wanted, letter, ignores_case)
                }
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

    /// As `LIKE` has it, and whether a letter had to be escaped.
    pub(super) fn to_like(&self, escape: char) -> (String, bool) {
        let (mut text, mut is_escaped) = (String::new(), false);
        for letter in &*self.0 {
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

fn is_same(one: char, other: char, ignores_case: bool) -> bool {
    let is_same_in_lower_case = || match one.is_ascii() && other.is_ascii() {
        true => one.eq_ignore_ascii_case(&other),
        false => one.to_lowercase().eq(other.to_lowercase()),
    };
    one == other || ignores_case && is_same_in_lower_case()
}
