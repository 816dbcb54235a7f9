//! Documents whose content depends only on who wrote them and when, so any document can be checked
//! without a copy of it.

use super::random::mixed;
use super::trouble::{Result, failed};
use crate::words;
use serde::Deserialize;
use std::borrow::Cow;

/// The `n`-th document of a client, as the members of a JSON object, with a text of `words` words.
pub(crate) fn members(client: u64, n: u64, words: usize) -> String {
    format!(
        "\"client\":{client},\"n\":{n},\"words\":{words},\"text\":\"{}\"",
        text(client, n, words)
    )
}

fn text(client: u64, n: u64, words: usize) -> String {
    words::text(mixed((client << 40) ^ n), words)
}

/// A document as it was found.
#[derive(Debug, Deserialize)]
pub(crate) struct Document<'a> {
    pub(crate) client: u64,
    pub(crate) n: u64,
    words: usize,
    #[serde(borrow)]
    text: Cow<'a, str>,
}

impl Document<'_> {
    /// Fails unless it is a whole document that its client could have written.
    pub(crate) fn check(&self, key: &str) -> Result<()> {
        if !key.starts_with(&prefix(self.client)) {
            return failed(format!("{key} holds a document of client {}", self.client));
        }
        if self.text != text(self.client, self.n, self.words) {
            return failed(format!(
                "{key}: document {} is not as it was written",
                self.n
            ));
        }
        Ok(())
    }
}

/// What the keys of a client begin with.
pub(crate) fn prefix(client: u64) -> String {
    format!("c{client}-")
}

pub(crate) fn key(client: u64, number: u64) -> String {
    format!("c{client}-{number}")
}
