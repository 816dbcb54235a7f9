//! Ids made of letters that need no escape in a URL.

use quiredb::Env;

/// Length of a document's id that the server makes.
const DOCUMENT_ID_CHARS: usize = 20;

/// Length of the id by which a leader tells its followers apart.
const FOLLOWER_ID_CHARS: usize = 16;

/// A new random id for a document.
pub(crate) fn document_id(env: &dyn Env) -> String {
    let mut bytes = [0; DOCUMENT_ID_CHARS];
    env.random(&mut bytes);
    letters(bytes)
}

/// A new random id for a follower.
pub(crate) fn follower_id(env: &dyn Env) -> String {
    let mut bytes = [0; FOLLOWER_ID_CHARS];
    env.random(&mut bytes);
    letters(bytes)
}

/// 16 bytes as 22 letters, as OpenSearch writes the identity of an index.
pub(crate) fn uuid(identity: [u8; 16]) -> String {
    let number = u128::from_be_bytes(identity);
    // 22 letters of 6 bits hold 128 bits.
    let letters = (0..22).rev();
    letters
        .map(|at| letter((number >> (6 * at)) as u8 & 63))
        .collect()
}

/// One letter for each byte.
pub(crate) fn letters(bytes: impl IntoIterator<Item = u8>) -> String {
    bytes.into_iter().map(letter).collect()
}

/// One of the 64 letters that need no escape in a URL.
fn letter(byte: u8) -> char {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    LETTERS
        .get(usize::from(byte % 64))
        .copied()
        .map_or('A', char::from)
}
