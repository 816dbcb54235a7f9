//! Who may call: finds out what the holder of a token may do.

use std::hint::black_box;
use std::sync::Arc;

use super::grant::Grant;
use super::guesses::Guesses;
use super::tokens::Tokens;

/// Who may call.
pub(crate) struct Access {
    /// The token of the server, with which everything is allowed.
    token: Option<String>,
    pub(crate) tokens: Option<Tokens>,
    pub(crate) guesses: Guesses,
    everything: Arc<Grant>,
}

impl Access {
    pub(crate) fn new(token: Option<String>, tokens: Option<Tokens>) -> Access {
        Access {
            token,
            tokens,
            guesses: Guesses::default(),
            everything: Arc::new(Grant::everything()),
        }
    }

    /// What every caller may do. None if callers need a token.
    pub(crate) fn without_token(&self) -> Option<Arc<Grant>> {
        let is_open = self.token.is_none() && self.tokens.is_none();
        is_open.then(|| Arc::clone(&self.everything))
    }

    /// What a caller that sends this token may do. None if it is wrong.
    pub(crate) fn grant(&self, sent: &[u8]) -> Option<Arc<Grant>> {
        if let Some(token) = &self.token
            && is_same_token(sent, token.as_bytes())
        {
            return Some(Arc::clone(&self.everything));
        }
        self.tokens.as_ref()?.grant(sent)
    }

    /// What a caller that was admitted before may do now. None if its token has expired or was
    /// revoked.
    pub(crate) fn renewed(&self, grant: &Arc<Grant>) -> Option<Arc<Grant>> {
        match &grant.hash {
            Some(hash) => self.tokens.as_ref()?.by_hash(hash),
            None => Some(Arc::clone(grant)),
        }
    }
}

/// Whether both are the same, in a time that depends on the lengths alone. So a caller can't find
/// the token byte by byte from how long a refusal takes.
fn is_same_token(sent: &[u8], token: &[u8]) -> bool {
    let differing = sent
        .iter()
        .zip(token)
        .fold(0, |differing, (a, b)| black_box(differing | (a ^ b)));
    sent.len() == token.len() && differing == 0
}
