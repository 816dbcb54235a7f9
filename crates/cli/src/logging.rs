//! The log of a command: what background work reports (a failed compaction, a dropped connection),
//! a line an event, on standard error.
//!
//! This is a small subscriber of our own: a command needs plain lines and lines of JSON only.

use crate::message::print_message;
use crate::time::Moment;
use quiredb::Env;
use serde_json::{Map, Value};
use std::fmt::{self, Write as _};
use std::sync::Arc;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Events of other crates are logged from this level on; they tell of their inside below it.
const LEVEL_OF_OTHERS: Level = Level::WARN;

/// The least important events that are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, clap::ValueEnum)]
pub(crate) enum LogLevel {
    /// What failed
    Error,
    /// And what may need someone
    #[default]
    Warn,
    /// And what a server begins and ends
    Info,
    /// And what helps to find a mistake
    Debug,
}

/// How an event is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// A line of text for people
    #[default]
    Text,
    /// A line of JSON: time, level, message, and the event's fields
    Json,
}

/// What is logged, and how.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LogOptions {
    /// The least important events.
    pub(crate) level: LogLevel,
    /// How they are written.
    pub(crate) format: LogFormat,
}

/// Sends events of all threads to standard error from now on.
pub(crate) fn start(options: LogOptions, env: Arc<dyn Env>) {
    // A second call finds the subscriber of the first one in place, which is right.
    let _ = tracing::subscriber::set_global_default(Log { options, env });
}

/// Writes events..
struct Log {
    options: LogOptions,
    env: Arc<dyn Env>,
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let least = match self.options.level {
            LogLevel::Error => Level::ERROR,
            LogLevel::Warn => Level::WARN,
            LogLevel::Info => Level::INFO,
            LogLevel::Debug => Level::DEBUG,
        };
        let is_ours = metadata.target().starts_with("quire");
        let least = if is_ours {
            least
        } else {
            least.min(LEVEL_OF_OTHERS)
        };
        *metadata.level() <= least
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let level = *event.metadata().level();
        match self.options.format {
            LogFormat::Text => print_message(text(level, event)),
            LogFormat::Json => print_message(json(self.env.now_micros(), level, event)),
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// An event as text: `quire: warning: message name=value`.
fn text(level: Level, event: &Event<'_>) -> String {
    let mut text = Text::default();
    event.record(&mut text);
    let label = match level {
        Level::ERROR => "error: ",
        Level::WARN => "warning: ",
        Level::DEBUG => "debug: ",
        _ => "",
    };
    format!("quire: {label}{}{}", text.message, text.fields)
}

/// An event as an object: time, level, message, then its other fields.
fn json(micros: i64, level: Level, event: &Event<'_>) -> Value {
    let mut fields = Fields::default();
    event.record(&mut fields);
    let mut object = Map::new();
    object.insert("time".to_owned(), Moment(micros).to_string().into());
    let level = level.as_str().to_ascii_lowercase();
    object.insert("level".to_owned(), level.into());
    object.insert("message".to_owned(), fields.message.into());
    object.extend(fields.others);
    object.into()
}

/// An event's message, and its other fields as ` name=value`.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
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

/// An event's message, and its other fields as members of an object.
#[derive(Default)]
struct Fields {
    message: String,
    others: Map<String, Value>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        self.others.insert(field.name().to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            _ => self.add(field, format!("{value:?}").into()),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.add(field, crate::error::causes(value).into());
    }
}
