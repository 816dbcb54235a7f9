//! Whether a connection continues after a request.

/// Whether a connection continues after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Continue,
    /// The client ended the connection.
    Quit,
    /// The server ends it: the next bytes can't be understood, or must not be executed.
    Close,
    /// The same, but the answer is sent after a pause.
    CloseLater,
}
