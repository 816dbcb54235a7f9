//! Comparing the token that a client sends.

use std::hint::black_box;

/// Whether both are the same, in a time that depends on the lengths alone. So a caller can't find
/// the token byte by byte from how long a refusal takes.
pub(crate) fn is_same_token(sent: &[u8], token: &[u8]) -> bool {
    let differing = sent
        .iter()
        .zip(token)
        .fold(0, |differing, (a, b)| black_box(differing | (a ^ b)));
    sent.len() == token.len() && differing == 0
}
