//! The outcome of a write, and its answer: that of the text commands and that of the meta commands.

use quiredb::{ErrorKind, Position};

use super::meta::MetaFlags;
use super::refusal::{Refusal, TOO_LARGE};
use super::request::{Change, Reply, Write};

/// The outcome of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The value is stored, in this version of the document; version 0 if it expired at once.
    Stored(Position),
    /// The value is this number now, in this version of the document, and lives for these seconds,
    /// or -1.
    Counted(u64, Position, i64),
    Deleted,
    Touched,
    /// The condition of the command does not hold.
    NotStored,
    /// The document has another version.
    Exists,
    NotFound,
    Refused(Refusal),
    /// The whole line of an error.
    Failed(String),
}

impl Outcome {
    /// An error of the client.
    pub(crate) fn client_error(reason: &str) -> Outcome {
        Outcome::Failed(error_line("CLIENT_ERROR", reason))
    }

    /// An error of the server.
    pub(crate) fn server_error(reason: &str) -> Outcome {
        Outcome::Failed(error_line("SERVER_ERROR", reason))
    }

    /// An error of a write.
    pub(crate) fn of_error(error: &quiredb::Error) -> Outcome {
        match error.kind() {
            ErrorKind::Invalid => Outcome::client_error(&error.to_string()),
            ErrorKind::TooLarge => Outcome::Refused(TOO_LARGE),
            _ => Outcome::server_error(&error.to_string()),
        }
    }

    /// Whether it is an error, which neither success nor a condition that does not hold is.
    pub(crate) fn is_error(&self) -> bool {
        matches!(self, Outcome::Refused(_) | Outcome::Failed(_))
    }

    /// Appends the answer to `write`.
    pub(crate) fn answer(&self, write: &Write<'_>, out: &mut Vec<u8>) {
        match (self, write.reply) {
            (_, Reply::Text { noreply: true }) => {}
            (Outcome::Refused(refusal), _) => line(refusal.line, out),
            (Outcome::Failed(text), _) => line(text, out),
            (Outcome::Counted(value, ..), Reply::Text { .. }) => {
                push_number(*value, out);
                out.extend_from_slice(b"\r\n");
            }
            (_, Reply::Text { .. }) => line(self.text(), out),
            (_, Reply::Meta(flags)) => self.answer_meta(write, flags, out),
        }
    }

    fn text(&self) -> &'static str {
        match self {
            Outcome::Stored(_) | Outcome::Counted(..) => "STORED",
            Outcome::Deleted => "DELETED",
            Outcome::Touched => "TOUCHED",
            Outcome::NotStored => "NOT_STORED",
            Outcome::Exists => "EXISTS",
            Outcome::NotFound | Outcome::Refused(_) | Outcome::Failed(_) => "NOT_FOUND",
        }
    }

    fn answer_meta(&self, write: &Write<'_>, flags: MetaFlags<'_>, out: &mut Vec<u8>) {
        let is_done = matches!(
            self,
            Outcome::Stored(_) | Outcome::Counted(..) | Outcome::Deleted | Outcome::Touched
        );
        if flags.quiet && is_done {
            return;
        }
        let mut digits = Vec::new();
        match self {
            Outcome::Counted(value, ..) if flags.with_value => {
                push_number(*value, &mut digits);
                out.extend_from_slice(b"VA ");
                push_number(digits.len() as u64, out);
            }
            Outcome::NotStored => out.extend_from_slice(b"NS"),
            Outcome::Exists => out.extend_from_slice(b"EX"),
            Outcome::NotFound => out.extend_from_slice(b"NF"),
            _ => out.extend_from_slice(b"HD"),
        }
        let (version, size) = match (self, write.change) {
            (Outcome::Stored(version), Change::Store { value, .. }) => {
                (Some(version.0), Some(value.len() as u64))
            }
            (Outcome::Counted(_, version, _), _) => (Some(version.0), None),
            _ => (None, None),
        };
        debug_assert!(
            out.last() != Some(&b'\n'),
            "an answer's flags follow its code on the same line"
        );
        let shown = Shown {
            version,
            size,
            client_flags: None,
            seconds_left: match self {
                Outcome::Counted(.., seconds) => Some(*seconds),
                _ => None,
            },
        };
        shown.write(flags, out);
        if !digits.is_empty() {
            out.extend_from_slice(&digits);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// What the flags of a meta command may show.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shown {
    pub(crate) version: Option<u64>,
    pub(crate) size: Option<u64>,
    pub(crate) client_flags: Option<u32>,
    /// -1 if it never expires.
    pub(crate) seconds_left: Option<i64>,
}

impl Shown {
    /// Appends what the flags name, in their order, and the end of the line.
    pub(crate) fn write(self, flags: MetaFlags<'_>, out: &mut Vec<u8>) {
        for (flag, token) in flags.iter() {
            let number = match flag {
                b'c' => self.version,
                b's' => self.size,
                b'f' => self.client_flags.map(u64::from),
                _ => None,
            };
            if let Some(number) = number {
                out.extend_from_slice(&[b' ', flag]);
                push_number(number, out);
            }
            match flag {
                b'O' => {
                    out.extend_from_slice(b" O");
                    out.extend_from_slice(token);
                }
                b'k' => {
                    out.extend_from_slice(b" k");
                    out.extend_from_slice(flags.key);
                    if flags.is_base64 {
                        out.extend_from_slice(b" b");
                    }
                }
                b't' => {
                    if let Some(seconds) = self.seconds_left {
                        out.extend_from_slice(format!(" t{seconds}").as_bytes());
                    }
                }
                _ => {}
            }
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends a line.
pub(crate) fn line(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// The line of an error. A long reason is cut, and control characters become spaces.
fn error_line(kind: &str, reason: &str) -> String {
    let reason = reason.chars().take(400);
    let reason: String = reason
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    format!("{kind} {reason}")
}

/// Appends a number in decimal.
pub(crate) fn push_number(mut value: u64, out: &mut Vec<u8>) {
    let start = out.len();
    loop {
        out.push(b'0' + (value % 10) as u8);
        value /= 10;
        if value == 0 {
            break;
        }
    }
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
}
