//! The secret of a token, and what is kept of it.
//!
//! A secret that Quire makes has 192 random bits, so its plain SHA-256 is enough: it can't be found
//! by trying. (Passwords of people would need a slow hash.) The file of tokens has only hashes.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use quiredb::Env;
use ring::digest::{SHA256, digest};

const RANDOM_BYTES: usize = 24;
const HASH_BYTES: usize = 32;

/// The start of every secret, by which scanners for leaked secrets know it.
const PREFIX: &str = "quire_";

/// SHA-256 of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Hash([u8; HASH_BYTES]);

/// A new secret: visible ASCII that needs no escape anywhere.
pub(crate) fn new_secret(env: &dyn Env) -> String {
    let mut bytes = [0; RANDOM_BYTES];
    env.random(&mut bytes);
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
}

impl Hash {
    pub(crate) fn of(secret: &[u8]) -> Hash {
        let mut hash = [0; HASH_BYTES];
        for (to, from) in hash.iter_mut().zip(digest(&SHA256, secret).as_ref()) {
            *to = *from;
        }
        Hash(hash)
    }

    pub(crate) fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// A hash of 64 hex digits.
    pub(crate) fn parse(text: &str) -> Option<Hash> {
        if text.len() != 2 * HASH_BYTES || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut hash = [0; HASH_BYTES];
        for (at, to) in hash.iter_mut().enumerate() {
            *to = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(Hash(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiredb::OsEnv;

    #[test]
    fn hashes_are_those_of_sha_256_and_come_back_from_text() {
        let hash = Hash::of(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_hex(), text);
        assert_eq!(Hash::parse(text), Some(hash));
        let signed = "+f".repeat(32);
        for wrong in [
            "",
            "ba78",
            &text.replace('b', "g"),
            &format!("{text}00"),
            &signed,
        ] {
            assert_eq!(Hash::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn secrets_differ_and_fit_in_a_header() {
        let env = OsEnv::new().unwrap();
        let (one, other) = (new_secret(&*env), new_secret(&*env));
        assert_ne!(one, other);
        assert!(one.len() == 38 && one.bytes().all(|byte| byte.is_ascii_graphic()));
    }
}
