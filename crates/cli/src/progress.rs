//! Progress bars.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt::Display;

/// A bar on standard error; hidden if that is not a terminal.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar over this many bytes; none if the length is unknown.
    pub(crate) fn bytes(total: Option<u64>) -> Progress {
        let (bar, template) = match total {
            Some(total) => (
                ProgressBar::new(total),
                "{wide_bar} {percent}% of {decimal_total_bytes}  {decimal_bytes_per_sec}  {msg}",
            ),
            None => (
                ProgressBar::no_length(),
                "{spinner} {decimal_bytes}  {decimal_bytes_per_sec}  {msg}",
            ),
        };
        Progress::styled(bar, template)
    }

    /// A bar over this many documents.
    pub(crate) fn documents(total: u64) -> Progress {
        let template = "{wide_bar} {percent}% of {human_len} documents  {msg}";
        Progress::styled(ProgressBar::new(total), template)
    }

    /// A bar over work in stages: what is done of each is in the message.
    pub(crate) fn stages() -> Progress {
        Progress::styled(ProgressBar::new(0), "{wide_bar} {percent}%  {msg}")
    }

    fn styled(bar: ProgressBar, template: &str) -> Progress {
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress(bar)
    }

    /// Shows that this many bytes, or documents, are done.
    pub(crate) fn at(&self, done: u64, message: impl FnOnce() -> String) {
        if !self.0.is_hidden() {
            self.0.set_position(done);
            self.0.set_message(message());
        }
    }

    /// Sets the total, if it is known only later.
    pub(crate) fn total(&self, total: u64) {
        self.0.set_length(total);
    }

    /// Prints a message above the bar.
    pub(crate) fn print(&self, message: impl Display) {
        self.0.suspend(|| crate::message::print_message(message));
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
