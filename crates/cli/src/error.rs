//! What can go wrong in a command, and the exit code it ends with.

use std::error::Error as _;
use std::io;
use std::process::ExitCode;

/// The result of a command or a part of one.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Why a command failed. Shown on standard error after `quire: `, causes appended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The command line asks for something that makes no sense: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// It was tried and did not work: exit code 1.
    #[error("{0}")]
    Failed(String),
    /// The database refused or failed: exit code 1.
    #[error("{context}")]
    Engine {
        /// What was being done, with what to do about it where that is known.
        context: String,
        /// What the database said.
        source: quiredb::Error,
    },
    /// Standard output can't be written to. A closed pipe ends the command quietly.
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
    /// All has been said already: exit code 1.
    #[error("failed")]
    Reported,
}

impl Error {
    /// An [`Error::Engine`] with its context.
    pub(crate) fn engine(context: impl Into<String>) -> impl FnOnce(quiredb::Error) -> Error {
        let context = context.into();
        move |source| Error::Engine { context, source }
    }

    /// Tells the user and gives the exit code.
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

    /// The message, then each cause after a colon, then what to do.
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

/// What the database said, with its causes, then what to do where that is known.
pub(crate) fn with_advice(error: &quiredb::Error) -> String {
    match error.advice() {
        Some(advice) => format!("{}; {advice}", causes(error)),
        None => causes(error),
    }
}

/// An error's message, then each of its causes after a colon; a cause that its parent has quoted is
/// not said twice.
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
