//! The lines of `simple_query_string`: `+` is and, `|` or, `-` not, `"…"` a whole text, `*` at the
//! end of a word any letters, brackets group. Operators are read from left to right.

use quiredb::query::Filter;

use super::about::{About, DEPTH_MAX, Joined};
use crate::http::failure::Outcome;

/// Reads a line. One without a word matches nothing, as in OpenSearch.
pub(super) fn read(text: &str, about: &mut About<'_>) -> Outcome<Filter> {
    let mut line = Line { rest: text, about };
    let filter = line.clauses(1)?;
    Ok(filter.unwrap_or_else(Filter::none))
}

struct Line<'t, 'a, 'b> {
    rest: &'t str,
    about: &'a mut About<'b>,
}

impl Line<'_, '_, '_> {
    /// The clauses to the end, or to the bracket that closes and behind it.
    fn clauses(&mut self, depth: usize) -> Outcome<Option<Filter>> {
        if depth > DEPTH_MAX {
            return Err(self.about.refused("has brackets that are nested too deep"));
        }
        let mut all: Option<Filter> = None;
        let (mut operator, mut is_not) = (None, false);
        while let Some(letter) = self.rest.chars().next() {
            let one = match letter {
                ' ' | '\t' | '\n' | '\r' => {
                    self.skip(letter);
                    continue;
                }
                '+' | '|' => {
                    self.skip(letter);
                    // The first of several counts, and one before any word is none.
                    if all.is_some() && operator.is_none() {
                        operator = Some(if letter == '+' {
                            Joined::And
                        } else {
                            Joined::Or
                        });
                    }
                    continue;
                }
                '-' => {
                    self.skip(letter);
                    is_not = !is_not;
                    continue;
                }
                ')' if depth > 1 => {
                    self.skip(letter);
                    return Ok(all);
                }
                // It closes nothing, and says nothing.
                ')' => {
                    self.skip(letter);
                    continue;
                }
                '(' => {
                    self.skip(letter);
                    match self.clauses(depth + 1)? {
                        Some(inner) => inner,
                        None => continue,
                    }
                }
                _ => self.word()?,
            };
            self.about.count()?;
            let one = if std::mem::take(&mut is_not) {
                !one
            } else {
                one
            };
            let operator = operator.take().unwrap_or(self.about.joined);
            all = Some(match (all, operator) {
                (None, _) => one,
                (Some(all), Joined::And) => all.and(one),
                (Some(all), Joined::Or) => all.or(one),
            });
        }
        match depth > 1 {
            true => Err(self.about.refused("has a bracket that is not closed")),
            false => Ok(all),
        }
    }

    fn skip(&mut self, letter: char) {
        self.rest = self.rest.get(letter.len_utf8()..).unwrap_or_default();
    }

    /// A word, the beginning of words, or a text between quotes.
    fn word(&mut self) -> Outcome<Filter> {
        let is_quoted = self.rest.starts_with('"');
        let (mut text, mut end) = (String::new(), self.rest.len());
        let mut last_is_sign = false;
        let mut is_closed = false;
        let skipped = usize::from(is_quoted);
        let mut letters = self.rest.char_indices().skip(skipped);
        while let Some((at, letter)) = letters.next() {
            let is_end = match is_quoted {
                true => letter == '"',
                false => " \t\n\r+|()\"".contains(letter),
            };
            if is_end {
                (end, is_closed) = (at, true);
                break;
            }
            last_is_sign = letter == '*';
            match letter {
                '\\' => text.extend(letters.next().map(|(_, letter)| letter)),
                letter => text.push(letter),
            }
        }
        if is_quoted && !is_closed {
            return Err(self.about.refused("has a quote that is not closed"));
        }
        let after = end + usize::from(is_quoted);
        self.rest = self.rest.get(after..).unwrap_or_default();
        if is_quoted && self.rest.starts_with('~') || !is_quoted && text.contains('~') {
            let what = "has [~], similar words and near ones, which is not supported";
            return Err(self.about.refused(what));
        }
        if is_quoted || !last_is_sign {
            return self.about.equal(None, &text);
        }
        text.pop();
        if text.is_empty() {
            return match self.about.fields.is_empty() {
                true => Ok(Filter::All),
                false => self.about.exists(None),
            };
        }
        self.about.beginning(&text)
    }
}
