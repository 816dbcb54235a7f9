//! Named tokens as they are kept: a file with a checksum, without the secrets.
//!
//! # Layout
//! A sealed text file (see `sealed.rs` of quire-store) of the kind `quire-tokens`, version 1:
//! ```text
//! quire-tokens 1 <CRC-32C of the second line, 8 hex digits>
//! {"tokens":[{"name":"…","sha256":"…","role":"read","collections":["logs-*"],
//!             "created_micros":…,"expires_micros":…,"limit":{"requests":100}}]}
//! ```

use quire_store::{seal, unseal};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::grant::Grant;
use super::role::Role;
use super::secret::Hash;
use crate::limits::Limit;

const KIND: &str = "quire-tokens";
const VERSION: u32 = 1;

/// The longest name of a token, and the longest pattern.
const NAME_BYTES_MAX: usize = 64;
const PATTERN_BYTES_MAX: usize = 255;

/// Patterns of one token.
const PATTERNS_MAX: usize = 64;

/// Tokens in a file.
pub(super) const TOKENS_MAX: usize = 10_000;

/// A named token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRecord {
    /// By which it is listed and revoked.
    pub name: String,
    /// SHA-256 of the secret, 64 hex digits.
    pub sha256: String,
    /// What its holder may do.
    pub role: Role,
    /// In which collections: patterns, in which `*` stands for any text.
    pub collections: Vec<String>,
    /// Microseconds since 1970 UTC.
    pub created_micros: i64,
    /// Microseconds since 1970 UTC; none if it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_micros: Option<i64>,
    /// What its holders may take together; none: what the server allows each token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    tokens: Vec<TokenRecord>,
}

/// The bytes of a file of tokens.
pub(super) fn encode(tokens: &[TokenRecord]) -> Result<Vec<u8>, String> {
    let tokens = tokens.to_vec();
    let json = serde_json::to_string(&File { tokens }).map_err(|error| error.to_string())?;
    Ok(seal(KIND, VERSION, &json))
}

/// The tokens in a file.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<TokenRecord>, String> {
    let json = unseal(KIND, VERSION, "file of tokens", bytes)?;
    let file: File = serde_json::from_str(json).map_err(|error| error.to_string())?;
    for token in &file.tokens {
        token.check()?;
    }
    Ok(file.tokens)
}

impl TokenRecord {
    /// The token as it is listed: all but its hash.
    #[must_use]
    pub fn listed(&self) -> Value {
        json!({
            "name": self.name,
            "role": self.role,
            "collections": self.collections,
            "created_micros": self.created_micros,
            "expires_micros": self.expires_micros,
            "limit": self.limit,
        })
    }

    /// Checks a token.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(super) fn check(&self) -> Result<(), String> {
        let name = &self.name;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_plain) {
            return Err(format!(
                "the name `{name}` must be 1 to {NAME_BYTES_MAX} of the letters A-Z a-z 0-9 . _ -"
            ));
        }
        if self.collections.is_empty() || self.collections.len() > PATTERNS_MAX {
            return Err(format!(
                "the token `{name}` needs 1 to {PATTERNS_MAX} patterns of collections; `*` is all"
            ));
        }
        let is_pattern = |pattern: &String| {
            let has_other = pattern.contains([',', '?']) || pattern.contains(char::is_whitespace);
            (1..=PATTERN_BYTES_MAX).contains(&pattern.len()) && !has_other
        };
        if let Some(wrong) = self.collections.iter().find(|one| !is_pattern(one)) {
            return Err(format!(
                "`{wrong}` is no pattern of collections: it must be a name, in which `*` stands \
                 for any text"
            ));
        }
        let whole = self.collections.iter().any(|pattern| pattern == "*");
        if self.role == Role::Follow && !whole {
            return Err("the role follow copies the whole database: it needs `*`".to_owned());
        }
        if let Some(limit) = &self.limit
            && (!limit.is_possible() || limit.connections.is_some())
        {
            return Err(format!(
                "the limit of the token `{name}` must be requests, bytes, running or searches, \
                 over zero: connections are limited by address"
            ));
        }
        match Hash::parse(&self.sha256) {
            Some(_) => Ok(()),
            None => Err(format!("the hash of the token `{name}` is malformed")),
        }
    }

    /// What it grants.
    pub(super) fn grant(&self) -> Option<(Hash, Grant)> {
        let hash = Hash::parse(&self.sha256)?;
        let grant = Grant {
            name: self.name.clone(),
            role: self.role,
            collections: self.collections.clone(),
            hash: Some(hash),
            expires_micros: self.expires_micros,
            limit: self.limit,
        };
        Some((hash, grant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> TokenRecord {
        TokenRecord {
            name: "shipper-1".to_owned(),
            sha256: Hash::of(b"secret").to_hex(),
            role: Role::Write,
            collections: vec!["logs-*".to_owned()],
            created_micros: 5,
            expires_micros: Some(9),
            limit: Some(Limit {
                requests: Some(100),
                ..Limit::default()
            }),
        }
    }

    #[test]
    fn tokens_come_back_and_any_change_of_a_byte_is_found() {
        let tokens = vec![token()];
        let bytes = encode(&tokens).unwrap();
        assert_eq!(decode(&bytes).unwrap(), tokens);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(decode(&damaged).is_err(), "byte {at}");
            assert!(decode(&bytes[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn tokens_that_would_be_misread_are_refused() {
        assert_eq!(token().check(), Ok(()));
        let changes: [fn(&mut TokenRecord); 10] = [
            |token| token.name = String::new(),
            |token| token.name = "two words".to_owned(),
            |token| token.name = "x".repeat(65),
            |token| token.collections = vec![],
            |token| token.collections = vec!["a,b".to_owned()],
            |token| token.collections = vec![String::new()],
            |token| token.sha256 = "abc".to_owned(),
            |token| token.role = Role::Follow,
            |token| token.limit.as_mut().unwrap().bytes = Some(0),
            |token| token.limit.as_mut().unwrap().connections = Some(5),
        ];
        for change in changes {
            let mut token = token();
            change(&mut token);
            assert!(token.check().is_err(), "{token:?}");
        }
    }
}
