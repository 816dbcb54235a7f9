//! Who may call, as memcached authenticates over its text protocol: if the server has a token, the
//! first request must be a `set` of any key with the value `<any name> <token>`.

use super::flow::Flow;
use super::mode::Mode;
use super::outcome::line;
use super::request::{Change, Request};
use crate::net::token::is_same_token;

/// The longest value that a client may send before it is admitted.
const VALUE_BYTES_MAX: usize = 1024;

/// Whether a client is admitted.
#[derive(Debug)]
pub(crate) struct Admission {
    /// The token that the client has yet to send; none once it is admitted.
    token: Option<Box<str>>,
}

impl Admission {
    pub(crate) fn new(token: Option<&str>) -> Admission {
        Admission {
            token: token.map(Box::from),
        }
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.token.is_none()
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
        let Some(token) = &self.token else {
            return Flow::Continue;
        };
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
        if sent.is_some_and(|sent| is_same_token(sent, token.as_bytes())) {
            self.token = None;
            line("STORED", out);
            return Flow::Continue;
        }
        line("CLIENT_ERROR authentication failure", out);
        Flow::Close
    }
}
