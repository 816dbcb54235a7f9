//! Warnings and errors of background work (a failed compaction, a dropped connection), printed on
//! standard error.
//!
//! This is a small subscriber of our own: a command needs plain lines only.

use std::fmt::{self, Write as _};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Prints warnings and errors, one a line. It ignores tracing's spans.
struct Warnings;

/// Sends warnings and errors of all threads to standard error from now on.
pub(crate) fn report_warnings() {
    // A second call finds the subscriber of the first one in place, which is right.
    let _ = tracing::subscriber::set_global_default(Warnings);
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let level = if *event.metadata().level() == Level::ERROR {
            "error"
        } else {
            "warning"
        };
        let mut line = Line::default();
        event.record(&mut line);
        crate::message::print_message(format_args!(
            "quire: {level}: {}{}",
            line.message, line.fields
        ));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// An event's message, and its other fields as ` name=value`.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String can't fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.record_debug(field, &format_args!("{}", crate::error::causes(value)));
    }
}
