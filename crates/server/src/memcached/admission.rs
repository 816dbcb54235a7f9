//! Who may call, as memcached does it over its text protocol: where there is a token, the first
//! request must be a `set` of any key whose value is `<any name> <token>`.

use super::outcome::line;
use super::request::{Change, Mode, Request};
use super::session::Flow;
use crate::http::auth::is_same;

/// The longest value of one who is not admitted yet.
const VALUE_BYTES_MAX: usize = 1024;

/// Whether a client may go on.
#[derive(Debug)]
pub(crate) struct Admission {
    /// The token that it has yet to send.
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

    /// The longest value that it may send, which is `bytes` once it is admitted.
    pub(crate) fn value_bytes_max(&self, bytes: usize) -> usize {
        match self.is_admitted() {
            true => bytes,
            false => VALUE_BYTES_MAX,
        }
    }

    /// Judges the first request, and answers it.
    pub(crate) fn judge(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Flow {
        let Some(token) = &self.token else {
            return Flow::On;
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
        if sent.is_some_and(|sent| is_same(sent, token.as_bytes())) {
            self.token = None;
            line("STORED", out);
            return Flow::On;
        }
        line("CLIENT_ERROR authentication failure", out);
        Flow::Close
    }
}
