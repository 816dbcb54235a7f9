//! [`TextFilter`]: which values are keys of buckets.

use crate::pattern::compiled_regexp;
use crate::slice::Slice;
use crate::{Error, Result, Value};
use quire_index::term;
use quire_model::ordered::OrderedValue;
use regex::Regex;
use std::collections::BTreeSet;

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

    /// Only strings that match a [regular expression](crate::Pattern::regexp) as a whole.
    ///
    /// # Errors
    /// `Invalid` for another expression.
    pub fn including_pattern(mut self, pattern: &str) -> Result<TextFilter> {
        self.include = Some(Matcher::Pattern(compiled_regexp(pattern)?));
        Ok(self)
    }

    /// No string that matches a regular expression as a whole.
    ///
    /// # Errors
    /// As of [`including_pattern`](TextFilter::including_pattern).
    pub fn excluding_pattern(mut self, pattern: &str) -> Result<TextFilter> {
        self.exclude = Some(Matcher::Pattern(compiled_regexp(pattern)?));
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
    fn patterns_match_whole_strings_and_others_are_refused() {
        let only = TextFilter::default()
            .including_pattern("a.*[0-9]|b{2}")
            .unwrap();
        for (text, accepted) in [("a1", true), ("a\n1", true), ("xa1", false), ("bb", true)] {
            assert_eq!(only.accepts(Value::from(text).term()), accepted, "{text}");
        }
        assert!(!only.accepts(Value::from(1).term()));
        assert!(!TextFilter::default().accepts(Value::null().term()));
        for refused in ["a&b", "~a", "<1-5>", "("] {
            assert!(
                TextFilter::default().including_pattern(refused).is_err(),
                "{refused}"
            );
        }
    }
}
