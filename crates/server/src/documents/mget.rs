//! `_mget`: many documents in one answer, which is made as the client reads it.
//!
//! Documents are read in groups. The size of a group is computed from the documents before it, so
//! that about [`PIECE_BYTES`] are held at a time, however many documents are requested. The first
//! group is one document, since its size is not known.
//!
//! The memory of a piece is reserved before it is made, and kept until the client has taken it. A
//! large document is a piece of its own: its length is known before it is read. Rows of wide
//! collections that show the same fields are read together, in the order of the disk.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use quiredb::wide::WideCollection;
use quiredb::{Collection, Document, Found, Key, Use, ValueRef, Within};
use serde::Deserialize;
use serde_json::Value;

use super::conditions::NO_VERSION;
use super::found::{check_version, write_found};
use super::lookup::{Group, get_each_within, get_frozen};
use super::parse::parse_key;
use super::source::{Source, SourceBody};
use crate::access::named::check_own_item;
use crate::access::role::Action;
use crate::audit::AuditedGrant;
use crate::bulk::Id;
use crate::engine::Engine;
use crate::http::answer::{Answer, write_string};
use crate::http::body::Whole;
use crate::http::buffers::{Buffers, Held, LARGE_BYTES};
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::Fields;
use crate::wide;

/// Bytes of the answer that are made at a time.
const PIECE_BYTES: usize = 256 << 10;

/// Bytes of documents that are read at a time, and what they and a piece of the answer hold.
const GROUP_BYTES: u64 = LARGE_BYTES;
const HELD_BYTES: usize = 2 * PIECE_BYTES + 2 * GROUP_BYTES as usize;

/// Documents read at a time: at the start, and at the most.
const GROUP_FIRST: usize = 1;
const GROUP_MAX: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    docs: Option<Vec<DocumentBody>>,
    ids: Option<Vec<Id>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentBody {
    #[serde(rename = "_index")]
    index: Option<String>,
    #[serde(rename = "_id")]
    id: Id,
    // A document's place follows from its id alone.
    #[serde(rename = "routing")]
    _routing: Option<Id>,
    #[serde(rename = "_source")]
    source: Option<SourceBody>,
    // What the Java client of Elasticsearch 7 sends of a document without either.
    stored_fields: Option<Vec<String>>,
    version: Option<i64>,
    #[serde(rename = "version_type")]
    _version_type: Option<String>,
}

impl DocumentBody {
    /// Refuses what is not supported.
    fn check(&self) -> Outcome<()> {
        let mut fields = self.stored_fields.iter().flatten();
        if fields.any(|name| name != "_source") {
            let why = "[stored_fields] is not supported: name fields in [_source]";
            return Err(Failure::illegal_argument(why));
        }
        Ok(())
    }

    /// The version that the document must have.
    fn version(&self) -> Outcome<Option<u64>> {
        let given = self.version.filter(|version| *version != NO_VERSION);
        let version = given.map(u64::try_from).transpose();
        version.map_err(|_| Failure::illegal_argument("[version] must be a number from 0 on"))
    }
}

/// A requested document.
struct Wanted {
    index: Arc<str>,
    id: String,
    /// None if that of the request applies.
    source: Option<Source>,
    /// What the document's version must be.
    version: Option<u64>,
}

impl Wanted {
    /// Refuses a document of another version.
    fn check(&self, index: &str, found: Option<Found>) -> Outcome<Option<Found>> {
        if let (Some(found), Some(version)) = (&found, self.version) {
            check_version(index, &self.id, found, version)?;
        }
        Ok(found)
    }
}

/// `GET|POST /_mget`, `GET|POST /{collection}/_mget`
pub(crate) async fn mget(call: Call<Engine>) -> Outcome<Answer> {
    let source = Source::of(&call.params)?;
    let default_index = call.path_param("collection").map(Arc::from);
    let (engine, filter) = (call.state.clone(), call.format.filter.clone());
    let (buffers, timeout) = (call.buffers.clone(), call.body_timeout);
    let grant = Arc::clone(&call.grant);
    let body = call.take_small_body().await?;
    let wanted = wanted(&body, default_index)?;
    let mut mget = Mget {
        grant,
        wanted,
        source,
        filter,
        group: Group::new(GROUP_FIRST, GROUP_MAX, PIECE_BYTES),
        is_begun: false,
        is_first: true,
        buffers,
        timeout,
        longer: None,
        _body: body,
    };
    // The first piece is made before the answer begins, so that an error at once gets a status.
    let first;
    (mget, first) = mget.next_piece(&engine).await?;
    let pieces = stream::unfold(
        (engine, Some(mget), Some(first)),
        |(engine, mget, first)| async move {
            if let Some(first) = first {
                return Some((Ok(first), (engine, mget, None)));
            }
            let mget = mget.filter(|mget| !mget.is_done())?;
            match mget.next_piece(&engine).await {
                Ok((mget, piece)) => Some((Ok(piece), (engine, Some(mget), None))),
                // It is too late for a status. The connection is cut, and the client sees that the
                // answer is not whole.
                Err(failure) => Some((
                    Err(io::Error::other(failure.cause().to_string())),
                    (engine, None, None),
                )),
            }
        },
    );
    Ok(Answer::stream(Box::pin(pieces)))
}

/// The documents that the body requests.
fn wanted(body: &Whole, default_index: Option<Arc<str>>) -> Outcome<VecDeque<Wanted>> {
    if body.bytes.is_empty() {
        return Err(Failure::parse("request body is required"));
    }
    let body: Body =
        serde_json::from_slice(&body.bytes).map_err(|error| Failure::parse(error.to_string()))?;
    let mut wanted = VecDeque::new();
    for id in body.ids.into_iter().flatten() {
        let index = default_index
            .clone()
            .ok_or_else(|| Failure::validation("index is missing for doc 0"))?;
        wanted.push_back(Wanted {
            index,
            id: id.0,
            source: None,
            version: None,
        });
    }
    for (at, document) in body.docs.into_iter().flatten().enumerate() {
        document.check()?;
        let version = document.version()?;
        let DocumentBody {
            index, id, source, ..
        } = document;
        let index = index.map(Arc::from).or_else(|| default_index.clone());
        let index =
            index.ok_or_else(|| Failure::validation(&format!("index is missing for doc {at}")))?;
        wanted.push_back(Wanted {
            index,
            id: id.0,
            source: source.map(SourceBody::source).transpose()?,
            version,
        });
    }
    if wanted.is_empty() {
        return Err(Failure::validation("no documents to get"));
    }
    Ok(wanted)
}

/// The documents that are not answered yet, and how to answer them.
struct Mget {
    grant: Arc<AuditedGrant>,
    wanted: VecDeque<Wanted>,
    source: Source,
    filter: Fields,
    group: Group,
    /// Whether the beginning of the answer is made.
    is_begun: bool,
    /// Whether the next document is the first that is shown.
    is_first: bool,
    buffers: Buffers,
    /// The longest wait for memory.
    timeout: Duration,
    /// The next document is large: its bytes.
    longer: Option<u64>,
    /// Holds the memory reserved for the list, which is made from it.
    _body: Whole,
}

impl Mget {
    fn is_done(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Makes the next piece of the answer, once there is memory for it.
    async fn next_piece(mut self, engine: &Engine) -> Outcome<(Mget, Bytes)> {
        loop {
            let held = match self.longer {
                // A filtered one is made twice.
                Some(bytes) if !self.filter.is_all() => {
                    let bytes = bytes.saturating_mul(2);
                    self.buffers.hold_large(bytes, self.timeout).await?
                }
                Some(bytes) => self.buffers.hold_large(bytes, self.timeout).await?,
                None => self.buffers.hold(HELD_BYTES, self.timeout).await?,
            };
            let made = engine.read(move |engine| self.make_piece(engine, held));
            let piece;
            (self, piece) = made.await??;
            if !piece.is_empty() || self.is_done() {
                return Ok((self, piece));
            }
        }
    }

    /// Makes the next piece of the answer in the memory `held`. It ends before a large document,
    /// and is empty if it would begin with one for which there is no memory yet. Blocks.
    fn make_piece(mut self, engine: &Engine, held: Held) -> Outcome<(Mget, Bytes)> {
        let large = self.longer.take();
        let mut out = match large {
            Some(bytes) => Vec::with_capacity(large_piece(bytes)),
            None => Vec::new(),
        };
        if !std::mem::replace(&mut self.is_begun, true) {
            out.extend_from_slice(b"{\"docs\":[");
        }
        loop {
            let before = out.len();
            let documents = self.write_group(engine, large, &mut out)?;
            self.group.was(documents, out.len() - before);
            if large.is_some()
                || self.longer.is_some()
                || out.len() >= PIECE_BYTES
                || self.is_done()
            {
                break;
            }
        }
        if self.is_done() {
            out.extend_from_slice(b"]}");
        }
        if large.is_some() {
            out.shrink_to_fit();
        }
        Ok((self, held.keep(out)?))
    }

    /// Reads and appends the next documents, all of one collection and together no longer than
    /// [`GROUP_BYTES`]; returns their number. It ends before one that does not fit. With `large`,
    /// the next one alone, if it is no longer.
    fn write_group(
        &mut self,
        engine: &Engine,
        large: Option<u64>,
        out: &mut Vec<u8>,
    ) -> Outcome<usize> {
        let Some(index) = self.wanted.front().map(|wanted| Arc::clone(&wanted.index)) else {
            return Ok(0);
        };
        if let Some(frozen) = engine.frozen(&index) {
            let get = |key: &Key, _: &Source| get_frozen(&frozen, key);
            return Ok(self.write_row(engine, &index, &index, out, get));
        }
        match engine.wide(&index) {
            Ok(Some(wide)) => return Ok(self.write_rows(engine, &wide, &index, out)),
            Ok(None) => {}
            Err(failure) => {
                let get = |_: &Key, _: &Source| Err(failure);
                return Ok(self.write_row(engine, &index, &index, out, get));
            }
        }
        let (size, bytes_max) = match large {
            Some(bytes) => (1, bytes),
            None => (self.group.size(), GROUP_BYTES),
        };
        let same = self
            .wanted
            .iter()
            .take(size)
            .take_while(|wanted| wanted.index == index)
            .count();
        let group: Vec<Wanted> = self.wanted.drain(..same).collect();
        let allowed = check_own_item(&self.grant, Action::Read, engine, &index);
        let collection = allowed.and_then(|()| engine.collection(&index));
        let keys: Vec<Outcome<Key>> = group.iter().map(|wanted| parse_key(&wanted.id)).collect();
        let mut found = match &collection {
            Ok(collection) => read(collection, &keys, bytes_max).into_iter(),
            Err(_) => Vec::new().into_iter(),
        };
        let mut group = group.into_iter().zip(&keys);
        let mut done = 0;
        while let Some((wanted, key)) = group.next() {
            match (&collection, key) {
                (Err(failure), _) | (_, Err(failure)) => {
                    self.append(out, |_, item| write_failed(&wanted, failure, item));
                }
                (Ok(collection), Ok(_)) => {
                    let found = match found.next() {
                        Some(Ok(Within::Found(found))) => {
                            wanted.check(collection.name(), Some(found))
                        }
                        Some(Ok(Within::Longer(bytes))) => {
                            // Records are read by partition: even if the first is not large, others
                            // of the group may have taken its room.
                            self.longer = (done == 0).then_some(bytes);
                            let rest = group.map(|(wanted, _)| wanted).collect::<Vec<_>>();
                            for wanted in rest.into_iter().rev() {
                                self.wanted.push_front(wanted);
                            }
                            self.wanted.push_front(wanted);
                            return Ok(done);
                        }
                        Some(Err(failure)) => Err(failure),
                        Some(Ok(Within::Absent)) | None => Ok(None),
                    };
                    self.append(out, |mget, item| match &found {
                        Ok(found) => {
                            let source = wanted.source.as_ref().unwrap_or(&mget.source);
                            write_found(
                                collection.name(),
                                &wanted.id,
                                found.as_ref(),
                                source,
                                item,
                            );
                        }
                        Err(failure) => write_failed(&wanted, failure, item),
                    });
                }
            }
            done += 1;
        }
        Ok(done)
    }

    /// Reads and appends the next documents, which are rows of one wide collection, together in the
    /// order of the disk. One that shows other fields than the rest is read alone. Returns the
    /// number of documents.
    fn write_rows(
        &mut self,
        engine: &Engine,
        wide: &WideCollection,
        index: &Arc<str>,
        out: &mut Vec<u8>,
    ) -> usize {
        let alike = |wanted: &&Wanted| wanted.index == *index && wanted.source.is_none();
        let wanted = self.wanted.iter().take(self.group.size());
        let keys = wanted.take_while(alike).map(|wanted| parse_key(&wanted.id));
        let keys: Vec<Key> = keys.map_while(Result::ok).collect();
        let get = |key: &Key, source: &Source| wide::documents::get(wide, key, source);
        let allowed = check_own_item(&self.grant, Action::Read, engine, index);
        if keys.len() < 2 || allowed.is_err() {
            return self.write_row(engine, index, wide.name(), out, get);
        }
        let bytes_max = GROUP_BYTES as usize;
        let rows = wide::documents::get_many(wide, &keys, &self.source, bytes_max);
        let Ok(rows) = rows else {
            // The row says what is wrong.
            return self.write_row(engine, index, wide.name(), out, get);
        };
        let count = rows.len();
        for row in rows {
            self.write_row(engine, index, wide.name(), out, |_, _| row);
        }
        count
    }

    /// Reads and appends the next document, which is of the collection `name`, not a plain one,
    /// and named as `index`. Returns the number of documents.
    fn write_row(
        &mut self,
        engine: &Engine,
        index: &str,
        name: &str,
        out: &mut Vec<u8>,
        get: impl FnOnce(&Key, &Source) -> Outcome<Option<Found>>,
    ) -> usize {
        let Some(wanted) = self.wanted.pop_front() else {
            return 0;
        };
        let allowed = check_own_item(&self.grant, Action::Read, engine, index);
        let found = allowed
            .and_then(|()| parse_key(&wanted.id))
            .and_then(|key| {
                let source = wanted.source.as_ref().unwrap_or(&self.source);
                get(&key, source)
            })
            .and_then(|found| wanted.check(name, found));
        self.append(out, |mget, item| match &found {
            Ok(found) => {
                let source = wanted.source.as_ref().unwrap_or(&mget.source);
                write_found(name, &wanted.id, found.as_ref(), source, item);
            }
            Err(failure) => write_failed(&wanted, failure, item),
        });
        1
    }

    /// Appends the answer for one document, which `write` writes, filtered.
    fn append(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&Mget, &mut Vec<u8>)) {
        let before = out.len();
        if !self.is_first {
            out.push(b',');
        }
        if self.filter.is_all() {
            write(self, out);
        } else {
            let mut item = Vec::new();
            write(self, &mut item);
            let shown = Document::from_json(&item).is_ok_and(|item| {
                self.filter
                    .write(ValueRef::Object(item.root()), "docs", out)
            });
            if !shown {
                return out.truncate(before);
            }
        }
        self.is_first = false;
    }
}

/// The bytes of a piece that is one document of `bytes`, as a rule.
fn large_piece(bytes: u64) -> usize {
    usize::try_from(bytes + bytes / 8).unwrap_or(0)
}

/// The documents of the valid keys, as far as they fit in `bytes_max` together.
fn read(collection: &Collection, keys: &[Outcome<Key>], bytes_max: u64) -> Vec<Outcome<Within>> {
    let keys: Vec<Key> = keys
        .iter()
        .filter_map(|key| key.as_ref().ok().cloned())
        .collect();
    let failed = |error| Failure::engine(&error, Some(collection.name()));
    let using = collection.usage().begin(Use::GetFound);
    let found = get_each_within(collection, &keys, bytes_max);
    debug_assert!(found.len() == keys.len(), "each key has one result");
    let count = |is: fn(&Within) -> bool| {
        let found = found.iter().flatten();
        found.filter(|found| is(found)).count() as u64
    };
    using.end_as_both(
        (
            Use::GetFound,
            count(|found| matches!(found, Within::Found(_))),
        ),
        (
            Use::GetMissing,
            count(|found| matches!(found, Within::Absent)),
        ),
    );
    let found = found.into_iter();
    found.map(|found| found.map_err(failed)).collect()
}

fn write_failed(wanted: &Wanted, failure: &Failure, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"_index\":");
    write_string(&wanted.index, out);
    out.extend_from_slice(b",\"_id\":");
    write_string(&wanted.id, out);
    let error: Value = failure.error();
    out.extend_from_slice(format!(",\"error\":{error}}}").as_bytes());
}
