//! The words and signs of a text, one after the other.

use crate::{Error, Result};
use sqlparser::dialect::Dialect;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

/// Longest text of a filter, in bytes.
pub(super) const TEXT_BYTES_MAX: usize = 16 << 20;

/// Most characters of a text that are no part of a word. Each of them can be a token of some 100
/// bytes.
const SIGNS_MAX: usize = 1 << 20;

/// The words of SQL, and `@` as a letter.
#[derive(Debug)]
struct WhereDialect;

impl Dialect for WhereDialect {
    fn is_identifier_start(&self, letter: char) -> bool {
        letter.is_alphabetic() || letter == '_' || letter == '@'
    }

    fn is_identifier_part(&self, letter: char) -> bool {
        letter.is_alphanumeric() || letter == '_' || letter == '@'
    }
}

/// A text, being read.
pub(super) struct Tokens {
    tokens: Vec<TokenWithSpan>,
    at: usize,
    end: Location,
}

impl Tokens {
    pub(super) fn new(text: &str) -> Result<Tokens> {
        let start = Location { line: 1, column: 1 };
        if text.len() > TEXT_BYTES_MAX {
            let what = format!("a text of more than {TEXT_BYTES_MAX} bytes");
            return Err(error(start, what));
        }
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || !byte.is_ascii();
        if text.bytes().filter(|byte| !is_word(*byte)).count() > SIGNS_MAX {
            let what = format!("a text of more than {SIGNS_MAX} signs and spaces");
            return Err(error(start, what));
        }
        let mut tokens = Tokenizer::new(&WhereDialect, text)
            .tokenize_with_location()
            .map_err(|bad| error(bad.location, bad.message))?;
        let end = tokens.last().map_or(start, |last| last.span.end);
        tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
        Ok(Tokens { tokens, at: 0, end })
    }

    pub(super) fn peek(&self) -> Option<&Token> {
        self.peek_at(0)
    }

    /// The token after `ahead` others.
    pub(super) fn peek_at(&self, ahead: usize) -> Option<&Token> {
        let token = self.tokens.get(self.at.saturating_add(ahead))?;
        Some(&token.token)
    }

    /// Goes past the next token.
    pub(super) fn advance(&mut self) {
        self.at += 1;
    }

    /// Goes past the next token if it is this sign.
    pub(super) fn take(&mut self, sign: &Token) -> bool {
        let is_there = self.peek() == Some(sign);
        self.at += usize::from(is_there);
        is_there
    }

    /// Goes past the next token if it is this word, given in capitals.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let is_there = self.is_word(0, word);
        self.at += usize::from(is_there);
        is_there
    }

    /// Whether this word, without quotes, comes after `ahead` tokens.
    pub(super) fn is_word(&self, ahead: usize, word: &str) -> bool {
        match self.peek_at(ahead) {
            Some(Token::Word(found)) => {
                found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word)
            }
            _ => false,
        }
    }

    /// An error at the next token.
    pub(super) fn error(&self, what: impl Into<String>) -> Error {
        let place = self.tokens.get(self.at);
        error(
            place.map_or(self.end, |token| token.span.start),
            what.into(),
        )
    }

    /// An error that something else was to come next.
    pub(super) fn expected(&self, what: &str) -> Error {
        let found = match self.peek() {
            None => "the end".to_string(),
            Some(token) => {
                let text = token.to_string();
                let shown: String = text.chars().take(32).collect();
                let more = if shown.len() < text.len() { "…" } else { "" };
                format!("{shown}{more}")
            }
        };
        self.error(format!("expected {what}, found {found}"))
    }
}

fn error(place: Location, what: String) -> Error {
    Error::Syntax {
        line: place.line,
        column: place.column,
        what,
    }
}
