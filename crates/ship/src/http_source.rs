//! Documents that a server gives by HTTP, queried again and again: those after a cursor.
//!
//! # Invariants
//! 1. The cursor is the value of a field of the last document of an answer. The place has it, so
//!    what comes after a stored place is requested again after a kill.
//! 2. Positions are microseconds of the clock, or one more than the last, whichever is higher: what
//!    is requested again is given at a higher position than before.

use crate::change::{Change, Cursor};
use crate::change_line;
use crate::error::{Error, Result};
use crate::http::{Access, Body, Http, segment};
use crate::object_fields::object_fields;
use crate::topic::{Source, Topic};
use quire_env::Env;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Where the address has the cursor.
const CURSOR: &str = "{cursor}";

/// The longest part of a wait for the next question.
const NAP: Duration = Duration::from_millis(100);

/// A server that is queried for what is after a cursor.
#[derive(Debug)]
pub struct HttpSource {
    env: Arc<dyn Env>,
    http: Http,
    /// The path and the query, with a place for the cursor.
    path: String,
    options: HttpOptions,
}

/// What is requested, and what answers mean.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpOptions {
    /// How the server is called; the address has `{cursor}` once.
    pub access: Access,
    /// The field with a document's key.
    pub key_field: String,
    /// The field whose value in the last document is the next cursor.
    pub cursor_field: String,
    /// What the cursor is first.
    pub first_cursor: String,
    /// Documents in which this field is true are deletions.
    pub deleted_field: Option<String>,
    /// Where the array of documents is in an answer, names with dots between; none if the answer
    /// is the array, or has a document on each line.
    pub items: Option<String>,
    /// The time between two questions that were not answered by documents.
    pub every: Duration,
}

impl HttpSource {
    /// A source as the options say. Does not call the server yet.
    ///
    /// # Errors
    /// If something is wrong: a sentence that says what.
    pub fn new(env: Arc<dyn Env>, options: HttpOptions) -> std::result::Result<HttpSource, String> {
        let url = &options.access.url;
        let after_scheme = url.find("://").map_or(0, |at| at + 3);
        let slash = url[after_scheme..].find(['/', '?']);
        let (server, path) = url.split_at(slash.map_or(url.len(), |at| after_scheme + at));
        if path.matches(CURSOR).count() != 1 {
            return Err("url needs {cursor} once, where the server is told it".to_owned());
        }
        let access = Access {
            url: server.to_owned(),
            ..options.access.clone()
        };
        Ok(HttpSource {
            http: Http::new(&*env, &access, 1)?,
            env,
            path: path.to_owned(),
            options,
        })
    }
}

impl Source for HttpSource {
    fn identity(&self) -> String {
        format!("{}{}", self.http.url(), self.path)
    }

    fn grows(&self) -> bool {
        true
    }

    fn has_dense_positions(&self) -> bool {
        false
    }

    fn open(&self, place: Option<&Value>) -> Result<Box<dyn Topic>> {
        let cursor = place.and_then(|place| place["cursor"].as_str());
        Ok(Box::new(HttpTopic {
            env: Arc::clone(&self.env),
            http: self.http.clone(),
            cursor: cursor.map_or_else(|| self.options.first_cursor.clone(), str::to_owned),
            path: self.path.clone(),
            options: self.options.clone(),
            last: None,
            last_body: Vec::new(),
            next_at: Duration::ZERO,
        }))
    }
}

struct HttpTopic {
    env: Arc<dyn Env>,
    http: Http,
    path: String,
    options: HttpOptions,
    cursor: String,
    /// The position of the last document.
    last: Option<u64>,
    /// The last answer that had documents.
    last_body: Vec<u8>,
    /// When the server is queried next.
    next_at: Duration,
}

impl Topic for HttpTopic {
    fn read(&mut self, cursor: &Cursor, _: usize, wait: Duration) -> Result<Vec<Change>> {
        let end = self.env.monotonic() + wait;
        loop {
            let now = self.env.monotonic();
            if now >= self.next_at || wait.is_zero() {
                let changes = self.query(cursor)?;
                if !changes.is_empty() {
                    return Ok(changes);
                }
                self.next_at = self.env.monotonic() + self.options.every;
            }
            let left = end.saturating_sub(self.env.monotonic());
            if left.is_zero() {
                return Ok(Vec::new());
            }
            self.env.sleep(left.min(NAP));
        }
    }

    fn place(&self) -> Option<Value> {
        Some(json!({ "cursor": self.cursor }))
    }
}

impl HttpTopic {
    /// The documents after the cursor. Moves it.
    fn query(&mut self, read: &Cursor) -> Result<Vec<Change>> {
        let path = self.path.replace(CURSOR, &segment(&self.cursor));
        let answer = self.http.call("GET", &path, Body::Empty);
        let answer = answer.map_err(|failure| Error::SourceAway(failure.reason().to_owned()))?;
        match answer.status {
            200 => {}
            204 => return Ok(Vec::new()),
            408 | 429 | 500.. => return Err(Error::SourceAway(answer.excerpt())),
            _ => {
                let (url, why) = (self.http.url(), answer.excerpt());
                return Err(Error::Source(format!("{url}{path}: {why}")));
            }
        }
        // A server that gives what is not before the cursor gives its last documents for ever.
        if answer.body == self.last_body {
            return Ok(Vec::new());
        }
        let wrong = |why: &str| Error::Source(format!("the answer to {path}: {why}"));
        let text = std::str::from_utf8(&answer.body).map_err(|_| wrong("it is not UTF-8"))?;
        let documents =
            documents(text, self.options.items.as_deref()).map_err(|why| wrong(&why))?;
        let (mut changes, mut cursor) = (Vec::new(), None);
        let mut last = self.last.unwrap_or(0).max(read.position(0));
        for document in documents {
            let (change, at) = self.change(document).map_err(|why| wrong(&why))?;
            last = u64::try_from(self.env.now_micros())
                .unwrap_or(0)
                .max(last + 1);
            cursor = Some(at);
            changes.push(Change {
                position: last,
                ..change
            });
        }
        if let Some(cursor) = cursor {
            (self.cursor, self.last) = (cursor, Some(last));
            self.last_body = answer.body;
        }
        Ok(changes)
    }

    /// A document as a change without a position, and the cursor after it.
    fn change(&self, document: &str) -> std::result::Result<(Change, String), String> {
        let fields = object_fields(document).map_err(|_| format!("{document} is no object"))?;
        let options = &self.options;
        let value = |name: &str| {
            let field = fields.iter().find(|(known, _)| known == name);
            field.map(|(_, value)| value.get())
        };
        let named = |name: &str| {
            value(name).ok_or_else(|| format!("a document has no field {name:?}: {document}"))
        };
        let is_deleted = options.deleted_field.as_deref().and_then(value) == Some("true");
        let cursor = named(&options.cursor_field)?;
        let change = Change {
            partition: 0,
            position: 0,
            time_micros: 0,
            key: change_line::key_text(named(&options.key_field)?)?.into(),
            document: (!is_deleted).then(|| one_line(document).into()),
        };
        match cursor.starts_with('"') {
            true => Ok((change, serde_json::from_str(cursor).unwrap_or_default())),
            false => Ok((change, cursor.to_owned())),
        }
    }
}

/// A document without line ends, which JSON has between values only.
fn one_line(document: &str) -> String {
    document.replace(['\n', '\r'], " ")
}

/// The documents of an answer: an array, below `path` if it has names, or objects, one a line.
fn documents<'a>(text: &'a str, path: Option<&str>) -> std::result::Result<Vec<&'a str>, String> {
    let text = text.trim();
    if path.is_none() && !text.starts_with('[') {
        return Ok(text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect());
    }
    let mut text = text;
    for name in path.into_iter().flat_map(|path| path.split('.')) {
        let fields =
            object_fields(text).map_err(|_| format!("there is no object with {name:?}"))?;
        let field = fields.into_iter().find(|(known, _)| known == name);
        text = field
            .ok_or_else(|| format!("there is no field {name:?}"))?
            .1
            .get();
    }
    let all: Vec<&RawValue> =
        serde_json::from_str(text).map_err(|error| format!("it has no array: {error}"))?;
    Ok(all.into_iter().map(RawValue::get).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_found_in_arrays_below_names_and_in_lines() {
        let found = |text, path| documents(text, path).map(|all| all.join("|"));
        assert_eq!(found("[{\"a\": 1},\n{}]", None).unwrap(), "{\"a\": 1}|{}");
        assert_eq!(found("{\"a\":1}\n\n{}\n", None).unwrap(), "{\"a\":1}|{}");
        assert_eq!(found("", None).unwrap(), "");
        assert_eq!(found(r#"{"d":{"x":[{}]}}"#, Some("d.x")).unwrap(), "{}");
        for (text, path, part) in [
            ("[1", None, "no array"),
            ("{}", Some("d"), "no field \"d\""),
            ("[]", Some("d"), "no object with \"d\""),
        ] {
            let why = found(text, path).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }
}
