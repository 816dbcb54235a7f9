//! What the demonstration prints.

use crate::Context;
use crate::error::Result;
use crate::message::print_message;
use std::fmt::Display;

/// Prints the title of a step and its command.
pub(super) fn step(context: &mut Context, title: &str, command: &str) -> Result<()> {
    say(context, format_args!("\n{title}\n   $ {command}"))
}

/// Prints a line at once: on standard output, or on standard error if the output is JSON.
pub(super) fn say(context: &mut Context, line: impl Display) -> Result<()> {
    if context.out.is_json() {
        print_message(line);
        return Ok(());
    }
    context.out.line(line)?;
    context.out.flush()
}
