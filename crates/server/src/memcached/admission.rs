//! Who may call, as memcached authenticates over its text protocol: if the server has tokens, the
//! first request must be a `set` of any key with the value `<any name> <token>`.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::flow::Flow;
use super::mode::Mode;
use super::outcome::line;
use super::request::{Change, Request};
use crate::access::caller::Access;
use crate::access::grant::Grant;
use crate::access::guesses::Guess;

/// The longest value that a client may send before it is admitted.
const VALUE_BYTES_MAX: usize = 1024;

/// The pause before the answer to a wrong token.
pub(super) const WRONG_TOKEN_PAUSE: Duration = Duration::from_millis(500);

/// Whether a client is admitted.
pub(crate) struct Admission {
    access: Arc<Access>,
    /// What the client may do; none as long as it has to send a token.
    grant: Option<Arc<Grant>>,
    address: Option<IpAddr>,
    /// Its wrong token, which waits for its answer.
    guess: Option<Guess>,
}

impl Admission {
    pub(crate) fn new(access: &Arc<Access>, address: Option<IpAddr>) -> Admission {
        Admission {
            address,
            guess: None,
            grant: access.without_token(),
            access: Arc::clone(access),
        }
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.grant.is_some()
    }

    /// What the client may do now. None if it is not admitted, or its token is no longer valid:
    /// then it has to send another one.
    pub(crate) fn grant(&mut self) -> Option<Arc<Grant>> {
        let grant = self.grant.take()?;
        self.grant = self.access.renewed(&grant);
        self.grant.clone()
    }

    /// The longest value that the client may send: `bytes` once it is admitted.
    pub(crate) fn value_bytes_max(&self, bytes: usize) -> usize {
        match self.is_admitted() {
            true => bytes,
            false => VALUE_BYTES_MAX,
        }
    }

    /// Checks the first request, and answers it.
    pub(crate) fn check(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Flow {
        let sent = match request {
            Request::Quit => return Flow::Quit,
            Request::Write(write) => match write.change {
                Change::Store {
                    mode: Mode::Set,
                    value,
                    ..
                } => Some(value),
                _ => None,
            },
            _ => None,
        };
        let Some(sent) = sent else {
            line("CLIENT_ERROR unauthenticated", out);
            return Flow::Close;
        };
        let sent = sent.splitn(2, |byte| *byte == b' ').nth(1);
        let grant = sent.and_then(|sent| self.access.grant(sent));
        let name = grant.as_ref().map(|grant| grant.name.as_str());
        if self.access.guesses.are_too_many(self.address, name) {
            line("SERVER_ERROR too many wrong tokens of this address", out);
            return Flow::Close;
        }
        self.grant = grant;
        if self.is_admitted() {
            line("STORED", out);
            return Flow::Continue;
        }
        self.guess = Some(self.access.guesses.begin(self.address));
        tracing::warn!("a memcached client with a wrong token is refused");
        line("CLIENT_ERROR authentication failure", out);
        Flow::CloseLater
    }
}
