//! Errors of a command, and its exit codes.

use std::error::Error as _;
use std::io;
use std::process::ExitCode;

/// The result of a command, or of a part of it.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Why a command failed. It is printed on standard error after `quire: `, with its causes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The command line is wrong: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// The work failed: exit code 1.
    #[error("{0}")]
    Failed(String),
    /// The database refused or failed: exit code 1.
    #[error("{context}")]
    Engine {
        /// What failed, with advice if there is any.
        context: String,
        /// The error of the database.
        source: quiredb::Error,
    },
    /// Standard output can't be written. A closed pipe ends the command without a message.
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
    /// Everything is reported already: exit code 1.
    #[error("failed")]
    Reported,
}

/// Without a context: see [`Error::because`].
impl From<quiredb::Error> for Error {
    fn from(source: quiredb::Error) -> Error {
        Error::Engine {
            context: String::new(),
            source,
        }
    }
}

impl Error {
    /// An [`Error::Engine`] with its context.
    pub(crate) fn engine(context: impl Into<String>) -> impl FnOnce(quiredb::Error) -> Error {
        let context = context.into();
        move |source| Error::Engine { context, source }
    }

    /// Says what could not be done, of an error of the database that does not say.
    pub(crate) fn because(self, context: &str) -> Error {
        match self {
            Error::Engine {
                context: before,
                source,
            } if before.is_empty() => Error::Engine {
                context: context.to_owned(),
                source,
            },
            other => other,
        }
    }

    /// Prints the error, and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Error::Output(source) if source.kind() == io::ErrorKind::BrokenPipe => {
                return ExitCode::SUCCESS;
            }
            Error::Reported => return ExitCode::from(1),
            _ => crate::message::print_message(format_args!("quire: {}", self.with_causes())),
        }
        match self {
            Error::Usage(_) => ExitCode::from(2),
            _ => ExitCode::from(1),
        }
    }

    /// The message, then each cause after a colon, then advice.
    fn with_causes(&self) -> String {
        match (self, self.source()) {
            (Error::Engine { context, source }, _) => {
                format!("{context}: {}", with_advice(source))
            }
            (_, Some(source)) => format!("{self}: {}", causes(source)),
            (_, None) => self.to_string(),
        }
    }
}

/// The error of a database with its causes, then advice if there is any.
pub(crate) fn with_advice(error: &quiredb::Error) -> String {
    match error.advice() {
        Some(advice) => format!("{}; {advice}", causes(error)),
        None => causes(error),
    }
}

/// The message of an error, then each of its causes after a colon, but for those that are quoted
/// before.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        source = cause.source();
    }
    text
}
