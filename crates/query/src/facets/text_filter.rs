//! [`TextFilter`]: which values are keys of buckets.

use crate::slice::Slice;
use crate::{Error, Result, Value};
use quire_index::term;
use quire_model::ordered::OrderedValue;
use regex::Regex;
use std::collections::BTreeSet;

/// Bytes of a compiled pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Which values are wanted: those that are included, or all, less those that are excluded.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TextFilter {
    include: Option<Matcher>,
    exclude: Option<Matcher>,
    part: Option<Slice>,
}

#[derive(Debug, Clone)]
enum Matcher {
    Values(BTreeSet<Value>),
    Pattern(Regex),
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Matcher) -> bool {
        match (self, other) {
            (Matcher::Values(one), Matcher::Values(other)) => one == other,
            (Matcher::Pattern(one), Matcher::Pattern(other)) => one.as_str() == other.as_str(),
            _ => false,
        }
    }
}

impl TextFilter {
    /// Only these values.
    #[must_use]
    pub fn including(mut self, values: impl IntoIterator<Item = Value>) -> TextFilter {
        self.include = Some(Matcher::Values(values.into_iter().collect()));
        self
    }

    /// None of these values.
    #[must_use]
    pub fn excluding(mut self, values: impl IntoIterator<Item = Value>) -> TextFilter {
        self.exclude = Some(Matcher::Values(values.into_iter().collect()));
        self
    }

    /// Only strings that match a pattern as a whole: letters, `.`, `[a-z]`, `|`, `(…)`, `*`, `+`,
    /// `?` and `{2,3}`.
    ///
    /// # Errors
    /// `Invalid` for another pattern.
    pub fn including_pattern(mut self, pattern: &str) -> Result<TextFilter> {
        self.include = Some(Matcher::Pattern(compiled(pattern)?));
        Ok(self)
    }

    /// No string that matches a pattern as a whole.
    ///
    /// # Errors
    /// `Invalid` for a pattern that is none.
    pub fn excluding_pattern(mut self, pattern: &str) -> Result<TextFilter> {
        self.exclude = Some(Matcher::Pattern(compiled(pattern)?));
        Ok(self)
    }

    /// Only the values of one of `of` parts, from 0 on, by a hash. Each value is in one part, and
    /// parts are about equally large. Numbers that are equal are in one part.
    ///
    /// # Errors
    /// `Invalid` if there is no such part.
    pub fn of_part(mut self, number: u32, of: u32) -> Result<TextFilter> {
        if number >= of {
            let what = format!("there is no part {number} of {of}: the first is 0");
            return Err(Error::Invalid(what));
        }
        self.part = Some(Slice { number, of });
        Ok(self)
    }

    /// With each value of its lists replaced by those that `forms` gives.
    ///
    /// # Errors
    /// The first of `forms`.
    pub fn with_values<E>(
        mut self,
        mut forms: impl FnMut(&Value) -> std::result::Result<Vec<Value>, E>,
    ) -> std::result::Result<TextFilter, E> {
        let matchers = self.include.iter_mut().chain(&mut self.exclude);
        for matcher in matchers {
            if let Matcher::Values(values) = matcher {
                let replaced = values.iter().map(&mut forms);
                let replaced = replaced.collect::<std::result::Result<Vec<_>, E>>()?;
                *values = replaced.into_iter().flatten().collect();
            }
        }
        Ok(self)
    }

    /// Whether a pattern says what is wanted.
    #[must_use]
    pub fn has_pattern(&self) -> bool {
        let mut matchers = self.include.iter().chain(&self.exclude);
        matchers.any(|matcher| matches!(matcher, Matcher::Pattern(_)))
    }

    /// Whether the value of a term is wanted. Null is never.
    pub(crate) fn accepts(&self, term: &[u8]) -> bool {
        let matches = |matcher: &Matcher| match matcher {
            Matcher::Values(values) => values.contains(term),
            Matcher::Pattern(pattern) => match term::decode(term) {
                Some(OrderedValue::String(text)) => pattern.is_match(&text),
                _ => false,
            },
        };
        term != term::NULL
            && self.part.is_none_or(|part| part.contains(term))
            && self.include.as_ref().is_none_or(matches)
            && !self.exclude.as_ref().is_some_and(matches)
    }
}

/// A pattern, which takes time of the text's length. What Lucene and this library read in two ways
/// is refused.
fn compiled(pattern: &str) -> Result<Regex> {
    let refused = |what: String| Error::Invalid(format!("the pattern {pattern:?} {what}"));
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' if characters
                .next()
                .is_some_and(|next| !next.is_alphanumeric()) => {}
            '\\' | '~' | '&' | '@' | '<' | '>' | '#' | '"' | '^' | '$' => {
                let is_in_class = character == '^' && pattern.contains("[^");
                if !is_in_class {
                    return Err(refused(format!(
                        "has {character:?}, which is not supported"
                    )));
                }
            }
            _ => {}
        }
    }
    if pattern.contains("(?") || pattern.contains("*?") || pattern.contains("+?") {
        return Err(refused("has (?, *? or +?, which are not supported".into()));
    }
    let whole = format!("(?s)^(?:{pattern})$");
    let mut builder = regex::RegexBuilder::new(&whole);
    let built = builder.size_limit(PATTERN_BYTES_MAX).build();
    built.map_err(|error| refused(format!("is not one: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_in_one_part() {
        let parts: Vec<TextFilter> = (0..3)
            .map(|number| TextFilter::default().of_part(number, 3).unwrap())
            .collect();
        let mut counts = [0; 3];
        for value in (0..300).map(Value::from).chain([Value::from("a")]) {
            let of: Vec<usize> = (0..3)
                .filter(|at| parts[*at].accepts(value.term()))
                .collect();
            assert_eq!(of.len(), 1, "{value}");
            counts[of[0]] += 1;
        }
        assert!(
            counts.iter().all(|count| (50..150).contains(count)),
            "{counts:?}"
        );
        assert!(TextFilter::default().of_part(3, 3).is_err());
    }

    #[test]
    fn patterns_match_whole_strings_and_unsafe_ones_are_refused() {
        let only = TextFilter::default()
            .including_pattern("a.*[0-9]|b{2}")
            .unwrap();
        for (text, accepted) in [("a1", true), ("a\n1", true), ("xa1", false), ("bb", true)] {
            assert_eq!(only.accepts(Value::from(text).term()), accepted, "{text}");
        }
        assert!(!only.accepts(Value::from(1).term()));
        assert!(!TextFilter::default().accepts(Value::null().term()));
        for refused in [
            "a&b", "~a", "<1-5>", "\\d", "^a", "a$", "(", "(?i)a", "a*?", "@",
        ] {
            assert!(
                TextFilter::default().including_pattern(refused).is_err(),
                "{refused}"
            );
        }
    }
}
