//! [`Pattern`]: which strings match a text with wildcards, a regular expression, or a text that
//! they are near to.

mod fuzzy;
mod letters;
mod regexp;
mod texts;

use crate::Result;
use fuzzy::{Fuzzy, Near};
use letters::{Letter, Letters, Signs};
use regex::Regex;
use regexp::Regexp;
use texts::Texts;

/// What it costs about to test a string, in nanoseconds: letter by letter, and otherwise.
const LETTERS_NANOS: u64 = 50;
const OTHER_NANOS: u64 = 250;

/// A pattern that matches whole strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    form: Form,
    ignores_case: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    Letters(Letters),
    Regexp(Regexp),
    Fuzzy(Fuzzy),
}

/// What a pattern is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatternKind {
    /// Letters and wildcards.
    Wildcard,
    /// A regular expression.
    Regexp,
    /// A text, and how many edits make others equal to it.
    Fuzzy,
}

impl Pattern {
    /// The pattern of `LIKE`: `_` is any letter, `%` any letters, and `escape` makes the letter
    /// after it one of its own.
    ///
    /// # Errors
    /// `Invalid` if nothing follows `escape`, or the pattern is too long.
    pub fn like(text: &str, escape: Option<char>) -> Result<Pattern> {
        let signs = Signs {
            one: '_',
            many: '%',
            escape,
        };
        Letters::read(text, signs).map(|letters| Pattern::of(Form::Letters(letters)))
    }

    /// The pattern of a `wildcard` query: `?` is any letter, `*` any letters, and a backslash makes
    /// the letter after it one of its own.
    ///
    /// # Errors
    /// As of [`like`](Pattern::like).
    pub fn wildcard(text: &str) -> Result<Pattern> {
        let signs = Signs {
            one: '?',
            many: '*',
            escape: Some('\\'),
        };
        Letters::read(text, signs).map(|letters| Pattern::of(Form::Letters(letters)))
    }

    /// The pattern that matches this text alone.
    ///
    /// # Errors
    /// `Invalid` if the text is too long.
    pub fn exact(text: &str) -> Result<Pattern> {
        let letters = Letters::new(text.chars().map(Letter::Only).collect());
        letters.map(|letters| Pattern::of(Form::Letters(letters)))
    }

    /// The pattern that matches what begins with this text.
    ///
    /// # Errors
    /// `Invalid` if the text is too long.
    pub fn prefix(text: &str) -> Result<Pattern> {
        let letters = text.chars().map(Letter::Only).chain([Letter::Many]);
        let letters = Letters::new(letters.collect());
        letters.map(|letters| Pattern::of(Form::Letters(letters)))
    }

    /// A regular expression as Lucene writes it: letters, `.`, `[a-z]`, `\d`, `|`, `(…)`, `*`, `+`,
    /// `?`, `{2,3}`, `"letters"`, `@` for any letters and `#` for nothing at all. It matches whole
    /// strings, so `^` and `$` are letters.
    ///
    /// # Errors
    /// `Invalid` for another expression, for `~`, `&` and `<`, and for one that is too long.
    pub fn regexp(text: &str) -> Result<Pattern> {
        Regexp::new(text).map(|regexp| Pattern::of(Form::Regexp(regexp)))
    }

    /// The strings that up to two edits make equal to a text: a letter put in, left out or
    /// replaced, or two neighbours exchanged. The first `prefix` letters are the same.
    ///
    /// # Errors
    /// `Invalid` for more edits, or if the text has more than 256 letters.
    pub fn fuzzy(text: &str, edits: u32, prefix: u32) -> Result<Pattern> {
        Fuzzy::new(text, edits, prefix).map(|fuzzy| Pattern::of(Form::Fuzzy(fuzzy)))
    }

    fn of(form: Form) -> Pattern {
        Pattern {
            form,
            ignores_case: false,
        }
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

    /// What it is written as.
    #[must_use]
    pub fn kind(&self) -> PatternKind {
        match self.form {
            Form::Letters(_) => PatternKind::Wildcard,
            Form::Regexp(_) => PatternKind::Regexp,
            Form::Fuzzy(_) => PatternKind::Fuzzy,
        }
    }

    /// What each string that matches begins with; empty if case is ignored.
    #[must_use]
    pub fn beginning(&self) -> String {
        match &self.form {
            _ if self.ignores_case => String::new(),
            Form::Letters(letters) => letters.beginning(),
            Form::Regexp(regexp) => regexp.beginning().into(),
            Form::Fuzzy(fuzzy) => fuzzy.beginning().into(),
        }
    }

    /// Whether all that it says is its [`beginning`](Pattern::beginning), as a whole (`false`) or
    /// with any letters after it (`true`); none if it says more, or it is not known.
    pub(crate) fn is_prefix(&self) -> Option<bool> {
        match &self.form {
            _ if self.ignores_case => None,
            Form::Letters(letters) => letters.is_prefix(),
            Form::Regexp(_) => None,
            Form::Fuzzy(fuzzy) => (fuzzy.edits == 0).then_some(false),
        }
    }

    /// What tests strings.
    ///
    /// # Errors
    /// `Invalid` if it is a regular expression that would be too large.
    pub(crate) fn matcher(self) -> Result<Matcher> {
        let compiled = match &self.form {
            Form::Letters(letters) => {
                let texts = letters.texts().filter(|_| !self.ignores_case);
                match texts.and_then(|texts| Texts::new(&texts)) {
                    Some(texts) => Compiled::Texts(texts),
                    None => Compiled::Letters(letters.clone()),
                }
            }
            Form::Regexp(regexp) => Compiled::Regexp(regexp.compile(self.ignores_case)?),
            Form::Fuzzy(fuzzy) => Compiled::Near(fuzzy.near(self.ignores_case)),
        };
        Ok(Matcher {
            pattern: self,
            compiled,
        })
    }

    /// How it is written.
    pub(crate) fn written(&self, escape: char) -> Written<'_> {
        match &self.form {
            Form::Letters(letters) => {
                let (text, is_escaped) = letters.to_like(escape);
                Written::Like { text, is_escaped }
            }
            Form::Regexp(regexp) => Written::Regexp(&regexp.text),
            Form::Fuzzy(fuzzy) => Written::Fuzzy {
                text: &fuzzy.text,
                edits: fuzzy.edits,
                prefix: fuzzy.prefix,
            },
        }
    }
}

/// How a pattern is written.
#[derive(Debug)]
pub(crate) enum Written<'a> {
    /// As `LIKE` has it, and whether a letter had to be escaped.
    Like { text: String, is_escaped: bool },
    /// As Lucene has it.
    Regexp(&'a str),
    /// A text, how many edits there may be, and how many letters at the beginning are the same.
    Fuzzy {
        text: &'a str,
        edits: u32,
        prefix: u32,
    },
}

/// A pattern, ready to test strings.
#[derive(Debug, Clone)]
pub(crate) struct Matcher {
    pattern: Pattern,
    compiled: Compiled,
}

#[derive(Debug, Clone)]
enum Compiled {
    Letters(Letters),
    Texts(Texts),
    Regexp(Regex),
    Near(Near),
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Matcher) -> bool {
        self.pattern == other.pattern
    }
}

impl Matcher {
    pub(crate) fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Whether it matches a string as a whole.
    pub(crate) fn matches(&self, text: &str) -> bool {
        match &self.compiled {
            Compiled::Letters(letters) => letters.matches(text, self.pattern.ignores_case),
            Compiled::Texts(texts) => texts.matches(text),
            Compiled::Regexp(regexp) => regexp.is_match(text),
            Compiled::Near(near) => near.matches(text),
        }
    }

    /// What it costs about to test a string, in nanoseconds.
    pub(crate) fn nanos(&self) -> u64 {
        match self.pattern.form {
            Form::Letters(_) => LETTERS_NANOS,
            Form::Regexp(_) | Form::Fuzzy(_) => OTHER_NANOS,
        }
    }
}

/// A regular expression [as Lucene writes it](Pattern::regexp), compiled.
///
/// # Errors
/// `Invalid` for another one, and one that is too long or too large.
pub(crate) fn compiled_regexp(text: &str) -> Result<Regex> {
    Regexp::new(text)?.compile(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: Pattern, text: &str) -> bool {
        pattern.matcher().unwrap().matches(text)
    }

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
            ("a*b*c*d*e*f*g", "a-b-c-d-e-f-g", true),
            ("a*b*c*d*e*f*g", "a-b-c-e-d-f-g", false),
            ("ab*ba", "aba", false),
            ("?", "é", true),
            ("?", "", false),
            ("??*", "a", false),
            (r"\*\?\\", r"*?\", true),
            (r"\*", "a", false),
            ("a**b", "ab", true),
        ];
        for (pattern, text, expected) in cases {
            let found = matches(Pattern::wildcard(pattern).unwrap(), text);
            assert_eq!(found, expected, "{pattern} {text}");
        }
        assert!(Pattern::wildcard("a\\").is_err());
        assert!(Pattern::wildcard(&"ab".repeat(501)).is_err());
    }

    #[test]
    fn letters_of_both_cases_are_one_where_case_is_ignored() {
        let patterns = [
            Pattern::like("ÉMILE%", None).unwrap(),
            Pattern::regexp("ÉMILE.*").unwrap(),
            Pattern::fuzzy("ÉMILE", 2, 3).unwrap(),
        ];
        for pattern in patterns {
            let pattern = pattern.ignoring_case();
            assert_eq!(pattern.beginning(), "");
            assert!(matches(pattern.clone(), "émile z"), "{pattern:?}");
            assert!(!matches(pattern.clone(), "emile"), "{pattern:?}");
        }
    }
}
