//! The lines of `query_string`: Lucene's classic syntax.
//!
//! ```text
//! line   = clause ([AND | OR | && | ||] clause)*
//! clause = [+ | - | ! | NOT] ([field :] (value | "(" line ")")) | word word+
//! value  = word [~ [edits]] | "text" | /regexp/ | [a TO b] | {a TO b} | > a | >= a | < a | <= a
//! ```
//! `field:*` and `_exists_:field` are documents that have the field; `*` and `?` in a word stand
//! for letters; a backslash makes a sign a letter.
//!
//! Words without an operator between them are one text, as nothing takes texts apart: `a b` is the
//! value "a b".
//!
//! Operators have no precedence, as in Lucene: each makes the clauses beside it required, optional
//! or forbidden. Nothing is scored, so an optional clause beside a required one changes nothing.

use serde_json::{Map, Value as Json};

use quiredb::query::{Filter, Pattern};

use super::about::{About, DEPTH_MAX, Joined, one_of, value};
use crate::http::failure::{Failure, Outcome};
use crate::search::clause::unsupported;
use crate::search::pattern::edits;

/// Signs that end a word, unless a backslash is before them.
const SIGNS: &str = " \t\n\r\u{3000}!():^[]\"{}~/";

/// What stands between words.
const SPACES: [char; 5] = [' ', '\t', '\n', '\r', '\u{3000}'];

/// What a clause is for its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occurs {
    Must,
    Should,
    MustNot,
}

/// A line that is read.
pub(super) struct Line<'t, 'a, 'b> {
    text: &'t str,
    rest: &'t str,
    about: &'a mut About<'b>,
    depth: usize,
}

impl<'t, 'a, 'b> Line<'t, 'a, 'b> {
    pub(super) fn new(text: &'t str, about: &'a mut About<'b>) -> Line<'t, 'a, 'b> {
        Line {
            text,
            rest: text,
            about,
            depth: 0,
        }
    }

    /// All of it, as a filter. A line without a clause matches nothing, as in OpenSearch.
    pub(super) fn read(mut self) -> Outcome<Filter> {
        let filter = self.clauses(None)?;
        match self.rest.is_empty() {
            true => Ok(filter),
            false => Err(self.wrong("[)] closes no bracket")),
        }
    }

    fn wrong(&self, what: &str) -> Failure {
        let at = self.text.len() - self.rest.len();
        unsupported(format!(
            "Failed to parse query [{}]: {what}, at byte {at}",
            self.text
        ))
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start_matches(SPACES);
    }

    fn take(&mut self, sign: &str) -> bool {
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn peek_word(&self) -> &'t str {
        let end = word_end(self.rest);
        self.rest.get(..end).unwrap_or_default()
    }

    fn take_word(&mut self) -> &'t str {
        let (word, rest) = self.rest.split_at(word_end(self.rest));
        self.rest = rest;
        word
    }

    /// Takes one of two ways to write an operator.
    fn take_operator(&mut self, name: &str, signs: &str) -> bool {
        if self.peek_word() == name {
            self.take_word();
            return true;
        }
        self.take(signs)
    }

    /// The clauses to the end or the bracket that closes; words without a field are about `field`.
    fn clauses(&mut self, field: Option<&str>) -> Outcome<Filter> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.wrong("brackets are nested too deep"));
        }
        let mut clauses: Vec<(Occurs, Filter)> = Vec::new();
        loop {
            self.skip_spaces();
            if self.rest.is_empty() || self.rest.starts_with(')') {
                break;
            }
            let is_and = self.take_operator("AND", "&&");
            let is_or = !is_and && self.take_operator("OR", "||");
            if is_and || is_or {
                if clauses.is_empty() {
                    return Err(self.wrong("an operator has nothing before it"));
                }
                self.skip_spaces();
            }
            let is_required = self.take("+");
            let is_forbidden = !is_required
                && (self.take("-") || self.take("!") || self.take_operator("NOT", "!"));
            self.skip_spaces();
            if self.rest.is_empty() || self.rest.starts_with(')') {
                return Err(self.wrong("an operator has nothing behind it"));
            }
            self.about.count()?;
            let is_bare = !(is_and || is_or || is_required || is_forbidden);
            let filter = match is_bare.then(|| self.words()).flatten() {
                Some(text) => self.about.equal(field, &text)?,
                None => self.clause(field)?,
            };
            if let Some((last, _)) = clauses.last_mut()
                && *last != Occurs::MustNot
            {
                match self.about.joined {
                    _ if is_and => *last = Occurs::Must,
                    Joined::And if is_or => *last = Occurs::Should,
                    _ => {}
                }
            }
            let is_must = match self.about.joined {
                Joined::Or => is_required || is_and,
                Joined::And => !is_or || is_required,
            };
            let occurs = match (is_forbidden, is_must) {
                (true, _) => Occurs::MustNot,
                (false, true) => Occurs::Must,
                (false, false) => Occurs::Should,
            };
            clauses.push((occurs, filter));
        }
        self.depth -= 1;
        Ok(joined(clauses))
    }

    /// Takes the words that come next as one text, if there are two at least. Not one before which
    /// or behind which an operator stands: that is a clause of its own.
    fn words(&mut self) -> Option<String> {
        let before = self.rest;
        let mut text = unescaped(self.plain_word()?);
        let mut is_text = false;
        loop {
            let end = self.rest;
            self.skip_spaces();
            let word = self.plain_word().filter(|_| !self.is_operator_next());
            let Some(word) = word else {
                self.rest = if is_text { end } else { before };
                return is_text.then_some(text);
            };
            text.push(' ');
            text.push_str(&unescaped(word));
            is_text = true;
        }
    }

    /// Takes a word that stands for itself.
    fn plain_word(&mut self) -> Option<&'t str> {
        let word = self.peek_word();
        let is_operator = matches!(word, "AND" | "OR" | "NOT")
            || word.starts_with(['+', '-', '>', '<'])
            || word.starts_with("&&")
            || word.starts_with("||");
        let is_plain = !word.is_empty() && !is_operator && !has_wildcard(word);
        is_plain.then(|| self.take_word())
    }

    /// Whether what comes next makes the word before it a clause, or the name of a field.
    fn is_operator_next(&self) -> bool {
        let next = self.rest.trim_start_matches(SPACES);
        let word = next.get(..word_end(next)).unwrap_or_default();
        matches!(word, "AND" | "OR" | "*")
            || next.starts_with([':', '~', '^'])
            || next.starts_with("&&")
            || next.starts_with("||")
    }

    fn clause(&mut self, field: Option<&str>) -> Outcome<Filter> {
        if self.take("(") {
            return self.bracket(field);
        }
        let before = self.rest;
        let word = self.take_word();
        self.skip_spaces();
        if word.is_empty() || !self.take(":") {
            self.rest = before;
            return self.value(field);
        }
        self.skip_spaces();
        if word == "*" && self.peek_word() == "*" {
            self.take_word();
            return self.boosted(Filter::All);
        }
        let own = unescaped(word);
        if own == "_exists_" {
            let of = unescaped(self.take_word());
            let exists = self.about.exists(Some(&of))?;
            return self.boosted(exists);
        }
        if own.contains(['*', '?']) {
            let what = format!("[{own}] is a pattern of fields, which is not supported");
            return Err(self.wrong(&what));
        }
        if self.take("(") {
            return self.bracket(Some(&own));
        }
        self.value(Some(&own))
    }

    /// What follows a bracket that opens.
    fn bracket(&mut self, field: Option<&str>) -> Outcome<Filter> {
        let filter = self.clauses(field)?;
        match self.take(")") {
            true => self.boosted(filter),
            false => Err(self.wrong("a bracket is not closed")),
        }
    }

    fn value(&mut self, field: Option<&str>) -> Outcome<Filter> {
        if self.rest.starts_with('"') {
            let text = self.quoted()?;
            let filter = self.about.equal(field, &text)?;
            return self.boosted(filter);
        }
        if self.rest.starts_with(['[', '{']) {
            let filter = self.range(field)?;
            return self.boosted(filter);
        }
        if self.rest.starts_with('/') {
            let pattern = Pattern::regexp(self.regexp()?);
            let filter = self.about.like(field, pattern)?;
            return self.boosted(filter);
        }
        for (sign, name) in [(">=", "gte"), ("<=", "lte"), (">", "gt"), ("<", "lt")] {
            if field.is_some() && self.take(sign) {
                self.skip_spaces();
                let bound = self.bound(&[])?;
                let bounds = Map::from_iter([(name.to_owned(), value(&bound))]);
                let filter = self.about.between(field, &bounds)?;
                return self.boosted(filter);
            }
        }
        let word = self.take_word();
        if word.is_empty() {
            let sign = self.rest.chars().next().unwrap_or_default();
            return Err(self.wrong(&format!("[{sign}] has nothing before it")));
        }
        let filter = match has_wildcard(word) {
            _ if word == "*" && field.is_none() && self.about.fields.is_empty() => Filter::All,
            _ if word == "*" => self.about.exists(field)?,
            true => self.about.like(field, Pattern::wildcard(word))?,
            false if self.take("~") => {
                let word = unescaped(word);
                let said = Some(self.take_word()).filter(|said| !said.is_empty());
                let edits = edits(said.map(Json::from).as_ref(), &word)?;
                self.about.like(field, Pattern::fuzzy(&word, edits, 0))?
            }
            false => self.about.equal(field, &unescaped(word))?,
        };
        self.boosted(filter)
    }

    /// What follows a value: a boost of 1 at most, as nothing is scored.
    fn boosted(&mut self, filter: Filter) -> Outcome<Filter> {
        if self.rest.starts_with('~') {
            return Err(self.wrong("[~] after a text in quotes or a pattern is not supported"));
        }
        if self.take("^") {
            let boost = self.take_word();
            if boost.parse::<f64>().ok() != Some(1.0) {
                return Err(self.wrong("a boost must be 1: nothing is scored"));
            }
        }
        Ok(filter)
    }

    /// What is between two slashes, with its backslashes.
    fn regexp(&mut self) -> Outcome<&'t str> {
        let mut letters = self.rest.char_indices().skip(1);
        while let Some((at, letter)) = letters.next() {
            match letter {
                '/' => {
                    let pattern = self.rest.get(1..at).unwrap_or_default();
                    self.rest = self.rest.get(at + 1..).unwrap_or_default();
                    return Ok(pattern);
                }
                '\\' => drop(letters.next()),
                _ => {}
            }
        }
        Err(self.wrong("a regular expression is not closed"))
    }

    /// A text between quotes.
    fn quoted(&mut self) -> Outcome<String> {
        let mut text = String::new();
        let mut letters = self.rest.char_indices().skip(1);
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.rest = self.rest.get(at + 1..).unwrap_or_default();
                    return Ok(text);
                }
                '\\' => text.extend(letters.next().map(|(_, letter)| letter)),
                letter => text.push(letter),
            }
        }
        Err(self.wrong("a quote is not closed"))
    }

    /// `[a TO b]`, `{a TO b}` or a mixture.
    fn range(&mut self, field: Option<&str>) -> Outcome<Filter> {
        let lower = if self.take("[") { "gte" } else { "gt" };
        if lower == "gt" {
            self.take("{");
        }
        self.skip_spaces();
        let from = self.bound(&[']', '}'])?;
        self.skip_spaces();
        if !self.take("TO") {
            return Err(self.wrong("a range is written as [a TO b]"));
        }
        self.skip_spaces();
        let to = self.bound(&[']', '}'])?;
        self.skip_spaces();
        let upper = match (self.take("]"), self.rest.starts_with('}')) {
            (true, _) => "lte",
            (false, true) => {
                self.take("}");
                "lt"
            }
            (false, false) => return Err(self.wrong("a range ends with ] or }")),
        };
        let mut bounds: Map<String, Json> = Map::new();
        for (name, bound) in [(lower, from), (upper, to)] {
            if bound != "*" {
                bounds.insert(name.to_owned(), value(&bound));
            }
        }
        match bounds.is_empty() {
            true => self.about.exists(field),
            false => self.about.between(field, &bounds),
        }
    }

    /// A bound: text between quotes, or all to a space or one of the signs.
    fn bound(&mut self, signs: &[char]) -> Outcome<String> {
        if self.rest.starts_with('"') {
            return self.quoted();
        }
        let end = match signs {
            [] => word_end(self.rest),
            signs => {
                let is_end = |letter: char| letter.is_whitespace() || signs.contains(&letter);
                self.rest.find(is_end).unwrap_or(self.rest.len())
            }
        };
        let (bound, rest) = self.rest.split_at(end);
        if bound.is_empty() {
            return Err(self.wrong("a bound is missing"));
        }
        self.rest = rest;
        Ok(unescaped(bound))
    }
}

/// The bytes of the word that a text begins with, as it is written.
fn word_end(text: &str) -> usize {
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' {
            letters.next();
        } else if SIGNS.contains(letter) {
            return at;
        }
    }
    text.len()
}

/// What clauses match together. Those that forbid alone match all that they do not forbid.
fn joined(clauses: Vec<(Occurs, Filter)>) -> Filter {
    let is_empty = clauses.is_empty();
    let (mut all, mut any, mut none) = (Vec::new(), Vec::new(), Vec::new());
    for (occurs, filter) in clauses {
        match occurs {
            Occurs::Must => all.push(filter),
            Occurs::Should => any.push(filter),
            Occurs::MustNot => none.push(!filter),
        }
    }
    if is_empty {
        return Filter::none();
    }
    if all.is_empty() && !any.is_empty() {
        all.push(one_of(any));
    }
    all.extend(none);
    match (all.len(), all.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            all.extend(last);
            Filter::And(all)
        }
    }
}

/// Whether a word has a `*` or a `?` that stands for letters.
fn has_wildcard(word: &str) -> bool {
    let mut letters = word.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '*' | '?' => return true,
            _ => {}
        }
    }
    false
}

/// A word with its backslashes read.
fn unescaped(word: &str) -> String {
    let mut text = String::with_capacity(word.len());
    let mut letters = word.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => text.extend(letters.next()),
            letter => text.push(letter),
        }
    }
    text
}
