//! A collection of a server.

use crate::http::segment;
use crate::link::{Link, Repeat, Request};
use quire_pipeline::{Outcomes, Target};
use quire_server::{Line, QueryText, WriteAnswer, WriteLine};
use quiredb::{
    Action, CollectionFields, CollectionSettings, CollectionStats, Condition, Durability,
    ErrorKind, Key, Position, Result, Write, Written,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

/// A request of writes has about this many bytes, or this many writes.
const WRITE_BYTES: usize = 4 << 20;
const WRITES_MAX: usize = 10_000;

/// The longest line of an answer: the largest document and what is beside it.
const LINE_BYTES_MAX: u64 = 40 << 20;

/// A collection of a server. A clone is another handle to the same.
#[derive(Clone)]
pub(crate) struct RemoteCollection {
    link: Link,
    name: String,
    settings: Arc<CollectionSettings>,
}

/// What the server says of a collection.
#[derive(Deserialize)]
struct Described<'d> {
    #[serde(borrow)]
    settings: &'d RawValue,
    positions: Vec<u64>,
}

/// Which documents a scan is of.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// From this key on.
    pub(crate) from: Option<Key>,
    /// Up to before this key.
    pub(crate) to: Option<Key>,
    /// Only keys with this prefix.
    pub(crate) prefix: Option<String>,
    /// At most this many.
    pub(crate) limit: Option<usize>,
}

impl RemoteCollection {
    /// A collection that the server has.
    ///
    /// # Errors
    /// `NotFound` if it has none of this name; of the server.
    pub(crate) fn open(link: &Link, name: &str) -> Result<RemoteCollection> {
        let text = link.whole(Request::get(&format!("/{}/_quire", segment(name))))?;
        let settings =
            CollectionSettings::from_json(described(link, &text)?.settings.get().as_bytes())?;
        Ok(RemoteCollection {
            link: link.clone(),
            name: name.to_owned(),
            settings: Arc::new(settings),
        })
    }

    /// Creates a collection. `settings` are those that are given.
    ///
    /// # Errors
    /// `AlreadyExists` if there is one of this name; of the server.
    pub(crate) fn create(
        link: &Link,
        name: &str,
        settings: &Map<String, Value>,
    ) -> Result<RemoteCollection> {
        let body = json!({"quire": settings}).to_string();
        let made = link.whole(Request {
            method: "PUT",
            path: &format!("/{}", segment(name)),
            body: body.as_bytes(),
            repeat: Repeat::IfNothingDone,
        });
        made.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => quiredb::Error::CollectionExists {
                name: name.to_owned(),
            },
            _ => error,
        })?;
        RemoteCollection::open(link, name)
    }

    /// Changes the settings that are given. Returns the collection with them.
    ///
    /// # Errors
    /// Of the server.
    pub(crate) fn change(&self, settings: &Map<String, Value>) -> Result<RemoteCollection> {
        let body = json!({"quire": settings}).to_string();
        self.link.whole(Request {
            method: "PUT",
            path: &self.path("/_settings"),
            body: body.as_bytes(),
            repeat: Repeat::Always,
        })?;
        RemoteCollection::open(&self.link, &self.name)
    }

    /// Removes it.
    ///
    /// # Errors
    /// Of the server.
    pub(crate) fn drop_it(&self) -> Result<()> {
        let request = Request {
            method: "DELETE",
            path: &self.path(""),
            body: b"",
            repeat: Repeat::IfNothingDone,
        };
        self.link.whole(request).map(drop)
    }

    /// The path of a part of it.
    fn path(&self, part: &str) -> String {
        format!("/{}{part}", segment(&self.name))
    }

    /// The number of documents.
    ///
    /// # Errors
    /// Of the server.
    pub(crate) fn count(&self) -> Result<u64> {
        let answer = self.link.whole(Request::get(&self.path("/_count")))?;
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        answer["count"].as_u64().ok_or_else(|| self.strange())
    }

    /// What it holds.
    ///
    /// # Errors
    /// Of the server.
    pub(crate) fn stats(&self) -> Result<CollectionStats> {
        let answer = self.link.whole(Request::get(&self.path("/_quire/stats")))?;
        serde_json::from_str(&answer).map_err(|_| self.strange())
    }

    /// The fields of its documents.
    ///
    /// # Errors
    /// Of the server.
    pub(crate) fn fields(&self) -> Result<CollectionFields> {
        let answer = self
            .link
            .whole(Request::get(&self.path("/_quire/fields")))?;
        serde_json::from_str(&answer).map_err(|_| self.strange())
    }

    /// Documents by key: `each` gets a line for each key, in their order.
    ///
    /// # Errors
    /// Of the server, and of `each`.
    pub(crate) fn get<E: From<quiredb::Error>>(
        &self,
        keys: &[Key],
        each: &mut dyn FnMut(Line<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
        let body = json!({"keys": keys}).to_string();
        self.lines(
            Request::post(&self.path("/_quire/get"), body.as_bytes()),
            each,
        )
    }

    /// The documents of a range of keys, in the order of the keys.
    ///
    /// # Errors
    /// Of the server, and of `each`.
    pub(crate) fn scan<E: From<quiredb::Error>>(
        &self,
        wanted: &Wanted,
        each: &mut dyn FnMut(Line<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut params = Vec::new();
        let text = |key: &Key| segment(&key.to_string());
        params.extend(
            wanted
                .from
                .as_ref()
                .map(|key| format!("from={}", text(key))),
        );
        params.extend(wanted.to.as_ref().map(|key| format!("to={}", text(key))));
        params.extend(
            wanted
                .prefix
                .as_ref()
                .map(|prefix| format!("prefix={}", segment(prefix))),
        );
        params.extend(wanted.limit.map(|limit| format!("limit={limit}")));
        let path = self.path(&format!("/_quire/scan?{}", params.join("&")));
        self.lines(Request::get(&path), each)
    }

    /// A query: warnings, documents, and then what is about all of them.
    ///
    /// # Errors
    /// Of the server, and of `each`.
    pub(crate) fn query<E: From<quiredb::Error>>(
        &self,
        query: &QueryText,
        each: &mut dyn FnMut(Line<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let body = json!(query).to_string();
        self.lines(
            Request::post(&self.path("/_quire/query"), body.as_bytes()),
            each,
        )
    }

    /// Changes after a cursor, as lines of JSON, and the cursor after them. Waits up to `wait_ms`
    /// for the first.
    ///
    /// # Errors
    /// Of the server.
    pub(crate) fn changes(
        &self,
        cursor: &str,
        prefix: &str,
        limit: u64,
        wait_ms: u64,
    ) -> Result<(Vec<String>, String)> {
        let prefix = segment(prefix);
        let path = self.path(&format!(
            "/_changes?after={cursor}&prefix={prefix}&limit={limit}&wait_ms={wait_ms}"
        ));
        let answer = self.link.whole(Request::get(&path))?;
        let mut lines: Vec<String> = answer.lines().map(str::to_owned).collect();
        let last: Value =
            serde_json::from_str(&lines.pop().unwrap_or_default()).unwrap_or_default();
        let cursor = last["cursor"].as_str().ok_or_else(|| self.strange())?;
        Ok((lines, cursor.to_owned()))
    }

    /// Does writes in their order, and returns the outcome of each. Writes without a condition are
    /// sent again if the connection is lost: done twice they leave the same documents.
    ///
    /// # Errors
    /// Of the server, for all writes.
    pub(crate) fn write(
        &self,
        writes: &[&Write],
        durability: Option<Durability>,
    ) -> Result<Vec<Result<Written>>> {
        let path = match durability {
            Some(durability) => {
                let durability = segment(&durability.to_string());
                self.path(&format!("/_quire/write?durability={durability}"))
            }
            None => self.path("/_quire/write"),
        };
        let mut outcomes = Vec::with_capacity(writes.len());
        let mut left = writes.iter().peekable();
        while left.peek().is_some() {
            let (mut body, mut count, mut repeat) = (Vec::new(), 0, Repeat::Always);
            while count < WRITES_MAX
                && body.len() < WRITE_BYTES
                && let Some(write) = left.next()
            {
                WriteLine::write(write, &mut body);
                count += 1;
                let is_put = !matches!(write.action, Action::Delete);
                let is_same_again = matches!(
                    write.condition,
                    Condition::Always | Condition::ExternalOrEqual(_)
                );
                // A deletion that is done twice says that there is no document.
                if !is_same_again || !is_put {
                    repeat = Repeat::IfNothingDone;
                }
            }
            let answer = self.link.whole(Request {
                method: "POST",
                path: &path,
                body: &body,
                repeat,
            })?;
            let before = outcomes.len();
            for line in answer.lines() {
                let line: WriteAnswer = serde_json::from_str(line).map_err(|_| self.strange())?;
                outcomes.push(line.outcome());
            }
            if outcomes.len() - before != count {
                return Err(self.strange());
            }
        }
        Ok(outcomes)
    }

    /// Sends a request whose answer is lines, and passes them to `each` as they come.
    fn lines<E: From<quiredb::Error>>(
        &self,
        request: Request<'_>,
        each: &mut dyn FnMut(Line<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut stopped = None;
        self.link.read(request, &mut |answer| {
            let mut source = BufReader::with_capacity(64 << 10, answer);
            let mut text = Vec::new();
            loop {
                text.clear();
                let read = source
                    .by_ref()
                    .take(LINE_BYTES_MAX)
                    .read_until(b'\n', &mut text);
                read.map_err(|error| self.link.lost(&error))?;
                let Ok(line) = serde_json::from_slice(&text) else {
                    return Err(match text.last() {
                        Some(b'\n') => self.strange(),
                        _ => self.cut(),
                    });
                };
                match line {
                    Line::End(_) => {
                        // To the end of the answer, so that the connection can be kept.
                        std::io::copy(&mut source, &mut std::io::sink())
                            .map_err(|error| self.link.lost(&error))?;
                        return Ok(());
                    }
                    Line::Error(what) => {
                        let kind = ErrorKind::Io;
                        return Err(quiredb::Error::Server { kind, what });
                    }
                    line => {
                        if let Err(error) = each(line) {
                            stopped = Some(error);
                            return Ok(());
                        }
                    }
                }
            }
        })?;
        stopped.map_or(Ok(()), Err)
    }

    /// The error of an answer that was cut.
    fn cut(&self) -> quiredb::Error {
        quiredb::Error::Server {
            kind: ErrorKind::Io,
            what: format!("the answer of {} was cut", self.link.url()),
        }
    }

    /// The error of an answer that no server of this version gives.
    fn strange(&self) -> quiredb::Error {
        strange(&self.link)
    }
}

fn strange(link: &Link) -> quiredb::Error {
    quiredb::Error::Server {
        kind: ErrorKind::Io,
        what: format!(
            "the answer of {} is not understood: it is no server of this version of Quire",
            link.url()
        ),
    }
}

fn described<'d>(link: &Link, text: &'d str) -> Result<Described<'d>> {
    serde_json::from_str(text).map_err(|_| strange(link))
}

impl Target for RemoteCollection {
    fn name(&self) -> &str {
        &self.name
    }

    fn settings(&self) -> Arc<CollectionSettings> {
        Arc::clone(&self.settings)
    }

    /// The server shares writes out among its partitions.
    fn writers(&self) -> u32 {
        1
    }

    fn writer_of(&self, _: &Key, _: u32) -> u32 {
        0
    }

    fn write(&self, groups: &[(u32, &[Write])], durability: Option<Durability>) -> Vec<Outcomes> {
        let all: Vec<&Write> = groups.iter().flat_map(|(_, writes)| *writes).collect();
        let mut outcomes = match RemoteCollection::write(self, &all, durability) {
            Ok(outcomes) => outcomes,
            Err(error) => vec![Err(error); all.len()],
        }
        .into_iter();
        let group = |(_, writes): &(u32, &[Write])| {
            let group = outcomes.by_ref().take(writes.len());
            group.map(|one| one.map(drop)).collect()
        };
        groups.iter().map(group).collect()
    }

    fn sync(&self) -> Result<()> {
        let path = self.path("/_quire/sync");
        self.link.whole(Request::post(&path, b"")).map(drop)
    }

    fn positions(&self) -> Result<Vec<Position>> {
        let text = self.link.whole(Request::get(&self.path("/_quire")))?;
        let positions = described(&self.link, &text)?.positions;
        Ok(positions.into_iter().map(Position).collect())
    }
}
