//! Messages for people, on standard error.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints a message on standard error. One that can't be written is lost.
pub(crate) fn print_message(message: impl Display) {
    let _ = writeln!(io::stderr(), "{message}");
}
