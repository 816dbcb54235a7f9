//! A write as a line of a request, and its outcome as a line of the answer.

use quiredb::{
    Action, Condition, Document, Effect, ErrorKind, Expiry, Key, Position, ValueRef, Write, Written,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::http::failure::with_sources;

/// A write as a line: `{"key":"k","document":{…}}`, with `patch` or `deleted` in place of
/// `document`, and under a condition with `if_version` or `if_absent`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteLine<'l> {
    key: String,
    #[serde(borrow, default)]
    document: Option<&'l RawValue>,
    #[serde(borrow, default)]
    patch: Option<&'l RawValue>,
    #[serde(default)]
    deleted: bool,
    #[serde(default)]
    if_version: Option<u64>,
    #[serde(default)]
    if_absent: bool,
    /// An external version, which must be greater than the document's.
    #[serde(default)]
    external: Option<u64>,
    /// As `external`, but it may be equal.
    #[serde(default)]
    external_gte: Option<u64>,
    /// When the document expires: microseconds since 1970 UTC.
    #[serde(default)]
    expires_micros: Option<i64>,
    #[serde(default)]
    never_expires: bool,
}

impl WriteLine<'_> {
    /// Appends the line of a write.
    pub fn write(write: &Write, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"key\":");
        ValueRef::String(&write.key.to_string()).write_json(out);
        match write.condition {
            Condition::IfAbsent => out.extend_from_slice(b",\"if_absent\":true"),
            Condition::IfVersion(version) => {
                out.extend_from_slice(format!(",\"if_version\":{version}").as_bytes());
            }
            Condition::External(version) => {
                out.extend_from_slice(format!(",\"external\":{version}").as_bytes());
            }
            Condition::ExternalOrEqual(version) => {
                out.extend_from_slice(format!(",\"external_gte\":{version}").as_bytes());
            }
            Condition::Always => {}
        }
        match write.expiry {
            Expiry::Usual => {}
            Expiry::Never => out.extend_from_slice(b",\"never_expires\":true"),
            Expiry::At(time) => {
                out.extend_from_slice(format!(",\"expires_micros\":{time}").as_bytes());
            }
        }
        match &write.action {
            Action::Put(document) => {
                out.extend_from_slice(b",\"document\":");
                document.write_json(out);
            }
            Action::Patch(patch) => {
                out.extend_from_slice(b",\"patch\":");
                patch.write_json(out);
            }
            Action::Delete => out.extend_from_slice(b",\"deleted\":true"),
        }
        out.extend_from_slice(b"}\n");
    }

    /// The write that it says.
    ///
    /// # Errors
    /// In words, if it says none.
    pub(super) fn to_write(&self) -> Result<Write, String> {
        let key = Key::parse(&self.key).map_err(|error| error.to_string())?;
        let document = |json: &RawValue| {
            Document::from_json(json.get().as_bytes()).map_err(|error| error.to_string())
        };
        let write = match (self.document, self.patch, self.deleted) {
            (Some(json), None, false) => Write::put(key, document(json)?),
            (None, Some(json), false) => Write::patch(key, document(json)?),
            (None, None, true) => Write::delete(key),
            _ => return Err("a line has one of [document], [patch] and [deleted]".to_owned()),
        };
        let conditions = [
            self.if_version
                .map(|version| Condition::IfVersion(Position(version))),
            self.if_absent.then_some(Condition::IfAbsent),
            self.external.map(Condition::External),
            self.external_gte.map(Condition::ExternalOrEqual),
        ];
        let mut conditions = conditions.into_iter().flatten();
        let condition = conditions.next().unwrap_or_default();
        if conditions.next().is_some() {
            return Err("a line has one condition at most".to_owned());
        }
        let expiry = match (self.expires_micros, self.never_expires) {
            (None, false) => Expiry::Usual,
            (None, true) => Expiry::Never,
            (Some(time), false) => Expiry::At(time),
            (Some(_), true) => {
                return Err("a document that [never_expires] has no [expires_micros]".to_owned());
            }
        };
        Ok(Write {
            condition,
            ..write.expiring(expiry)
        })
    }
}

/// The outcome of a write as a line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteAnswer {
    /// What it did, the version and the partition of the document.
    Done(String, u64, u32),
    /// Why it was refused: a word for programs, and words for people.
    Refused(String, String),
}

/// The words for what a write did.
const EFFECTS: [(Effect, &str); 4] = [
    (Effect::Created, "created"),
    (Effect::Updated, "updated"),
    (Effect::Deleted, "deleted"),
    (Effect::Unchanged, "unchanged"),
];

/// The words for why a write is refused.
const KINDS: [(ErrorKind, &str); 12] = [
    (ErrorKind::NotFound, "not_found"),
    (ErrorKind::AlreadyExists, "already_exists"),
    (ErrorKind::Conflict, "conflict"),
    (ErrorKind::Invalid, "invalid"),
    (ErrorKind::TooLarge, "too_large"),
    (ErrorKind::Corrupt, "corrupt"),
    (ErrorKind::Locked, "locked"),
    (ErrorKind::Full, "full"),
    (ErrorKind::ReadOnly, "read_only"),
    (ErrorKind::Gone, "gone"),
    (ErrorKind::Io, "io"),
    (ErrorKind::Closed, "closed"),
];

impl WriteAnswer {
    /// That of an outcome.
    pub(super) fn of(outcome: &quiredb::Result<Written>) -> WriteAnswer {
        match outcome {
            Ok(written) => {
                let mut effects = EFFECTS.iter();
                let word = effects.find(|(effect, _)| *effect == written.effect);
                let word = word.map_or("", |(_, word)| word);
                WriteAnswer::Done(word.to_owned(), written.version.0, written.partition)
            }
            Err(error) => {
                let word = KINDS.iter().find(|(kind, _)| *kind == error.kind());
                let word = word.map_or("io", |(_, word)| word);
                WriteAnswer::Refused(word.to_owned(), with_sources(error))
            }
        }
    }

    /// The outcome.
    ///
    /// # Errors
    /// The refusal, or that the answer is of a later version.
    pub fn outcome(self) -> quiredb::Result<Written> {
        match self {
            WriteAnswer::Done(word, version, partition) => {
                let effect = EFFECTS.iter().find(|(_, name)| *name == word);
                let (effect, _) = effect.ok_or_else(|| quiredb::Error::Server {
                    kind: ErrorKind::Io,
                    what: format!("the server answers with the effect {word:?}, which is unknown"),
                })?;
                Ok(Written {
                    effect: *effect,
                    version: Position(version),
                    // The command does not show it.
                    external: None,
                    partition,
                })
            }
            WriteAnswer::Refused(word, what) => {
                let kind = KINDS.iter().find(|(_, name)| *name == word);
                let kind = kind.map_or(ErrorKind::Io, |(kind, _)| *kind);
                Err(quiredb::Error::Server { kind, what })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_the_same_after_it_was_a_line() {
        let document = || Document::from_json(br#"{"a":1.50,"b":[null,"x\n"]}"#).unwrap();
        let key = |text: &str| Key::parse(text).unwrap();
        for write in [
            Write::put(key("a"), document()),
            Write::put(key("42"), document()).if_absent(),
            Write::patch(key("q\"é"), document()).if_version(Position(7)),
            Write::delete(key("-1")),
            Write::put(key("b"), document()).expiring(Expiry::At(i64::MIN)),
            Write::patch(key("b"), document()).expiring(Expiry::Never),
            Write::delete(key("-1")).external(u64::MAX),
        ] {
            let mut line = Vec::new();
            WriteLine::write(&write, &mut line);
            let read: WriteLine<'_> = serde_json::from_slice(&line).unwrap();
            assert_eq!(read.to_write(), Ok(write));
        }
        for wrong in [
            r#"{"key":"a"}"#,
            r#"{"key":"","deleted":true}"#,
            r#"{"key":"a","document":{},"deleted":true}"#,
            r#"{"key":"a","document":[]}"#,
            r#"{"key":"a","deleted":true,"if_version":1,"if_absent":true}"#,
        ] {
            let read: WriteLine<'_> = serde_json::from_str(wrong).unwrap();
            assert!(read.to_write().is_err(), "{wrong}");
        }
    }
}
