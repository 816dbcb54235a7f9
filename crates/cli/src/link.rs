//! Link: requests of a command to one server, over a connection that is kept, again and again while
//! the server is busy or away.
//!
//! A request is repeated only if that changes nothing: a read, or writes that set documents to what
//! they are to be. The first request of a command is not repeated if nothing answers at the
//! address.

use crate::message::print_message;
use parking_lot::Mutex;
use quire_server::{Remote, Session, SessionResponse};
use quiredb::{Env, ErrorKind, Result};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest wait for the server to send or to take something.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The longest answer that is taken whole.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// The pause before a request is repeated: the first, and the longest. Each is twice the last.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A request is repeated for this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// When a request may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Whatever became of it: it may have been done already.
    Always,
    /// If the server says that it did nothing.
    IfNothingDone,
}

/// A request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'r> {
    pub(crate) method: &'static str,
    pub(crate) path: &'r str,
    pub(crate) body: &'r [u8],
    pub(crate) repeat: Repeat,
}

/// A server. A clone shares the connection.
#[derive(Clone)]
pub(crate) struct Link(Arc<Inner>);

struct Inner {
    env: Arc<dyn Env>,
    url: String,
    session: Mutex<Session>,
    /// Something has answered there.
    is_known: AtomicBool,
}

/// Why an attempt failed, and whether another one may succeed.
struct Failed {
    error: quiredb::Error,
    is_passing: bool,
}

impl<'r> Request<'r> {
    /// A read.
    pub(crate) fn get(path: &'r str) -> Request<'r> {
        Request {
            method: "GET",
            path,
            body: b"",
            repeat: Repeat::Always,
        }
    }

    /// A read that is described in the body.
    pub(crate) fn post(path: &'r str, body: &'r [u8]) -> Request<'r> {
        Request {
            method: "POST",
            body,
            ..Request::get(path)
        }
    }
}

impl Link {
    /// A link to a server; it connects with the first request.
    pub(crate) fn new(env: Arc<dyn Env>, remote: Remote) -> Link {
        Link(Arc::new(Inner {
            env,
            url: remote.url(),
            session: Mutex::new(Session::new(remote)),
            is_known: AtomicBool::new(false),
        }))
    }

    /// The server's URL.
    pub(crate) fn url(&self) -> &str {
        &self.0.url
    }

    /// Sends a request, and returns the whole answer.
    ///
    /// # Errors
    /// A refusal, by kind; that the server does not answer.
    pub(crate) fn whole(&self, request: Request<'_>) -> Result<String> {
        self.repeated(request, &mut |answer| {
            let text = answer.text(ANSWER_BYTES_MAX);
            text.map_err(|error| Failed {
                error: self.lost(&error),
                is_passing: request.repeat == Repeat::Always,
            })
        })
    }

    /// Sends a request, and has `read` read the answer as it comes. An answer that was begun is not
    /// repeated.
    ///
    /// # Errors
    /// A refusal, by kind; that the server does not answer; those of `read`.
    pub(crate) fn read<T>(
        &self,
        request: Request<'_>,
        read: &mut dyn FnMut(SessionResponse<'_>) -> Result<T>,
    ) -> Result<T> {
        self.repeated(request, &mut |answer| {
            read(answer).map_err(|error| Failed {
                error,
                is_passing: false,
            })
        })
    }

    /// The error of a connection.
    pub(crate) fn lost(&self, error: &io::Error) -> quiredb::Error {
        let what = match error.kind() {
            io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
            _ => error.to_string(),
        };
        quiredb::Error::Server {
            kind: ErrorKind::Io,
            what: format!("no answer from {}: {what}", self.url()),
        }
    }

    fn repeated<T>(
        &self,
        request: Request<'_>,
        read: &mut dyn FnMut(SessionResponse<'_>) -> std::result::Result<T, Failed>,
    ) -> Result<T> {
        let env = &self.0.env;
        let end = env.monotonic().saturating_add(PATIENCE);
        let mut pause = PAUSE_FIRST;
        loop {
            let failed = match self.attempt(request, read) {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            if !failed.is_passing || env.monotonic() >= end {
                return Err(failed.error);
            }
            if pause == PAUSE_FIRST {
                print_message(format_args!(
                    "quire: {}; trying again for up to {} s",
                    failed.error,
                    PATIENCE.as_secs()
                ));
            }
            env.sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn attempt<T>(
        &self,
        request: Request<'_>,
        read: &mut dyn FnMut(SessionResponse<'_>) -> std::result::Result<T, Failed>,
    ) -> std::result::Result<T, Failed> {
        let mut session = self.0.session.lock();
        let is_known = self.0.is_known.load(Ordering::Relaxed);
        let answer = session.request(request.method, request.path, request.body, TIMEOUT);
        let answer = answer.map_err(|error| Failed {
            error: self.lost(&error),
            is_passing: is_known && request.repeat == Repeat::Always,
        })?;
        self.0.is_known.store(true, Ordering::Relaxed);
        match answer.status {
            200..=299 => read(answer),
            status => {
                let is_passing = match request.repeat {
                    Repeat::Always => matches!(status, 429 | 503),
                    Repeat::IfNothingDone => status == 429,
                };
                let error = self.refused(status, answer);
                Err(Failed { error, is_passing })
            }
        }
    }

    /// The error of a status.
    fn refused(&self, status: u16, answer: SessionResponse<'_>) -> quiredb::Error {
        let body = answer.text(ANSWER_BYTES_MAX).unwrap_or_default();
        let json: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        let reason = json["error"]["reason"].as_str().unwrap_or(body.trim());
        let kind = match (status, json["error"]["type"].as_str()) {
            (400, Some("resource_already_exists_exception")) => ErrorKind::AlreadyExists,
            (400, _) => ErrorKind::Invalid,
            (404, _) => ErrorKind::NotFound,
            (408, _) => ErrorKind::Closed,
            (409, _) => ErrorKind::Conflict,
            (413, _) => ErrorKind::TooLarge,
            _ => ErrorKind::Io,
        };
        let what = match kind {
            ErrorKind::Io | ErrorKind::NotFound => {
                format!("{} refuses with status {status}: {reason}", self.url())
            }
            _ => reason.to_owned(),
        };
        quiredb::Error::Server { kind, what }
    }
}
