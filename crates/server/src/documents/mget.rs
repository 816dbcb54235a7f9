//! `_mget`: many documents in one answer, which is made as the client reads it.
//!
//! Documents are read in groups. The size of a group is computed from the documents before it, so
//! that about [`PIECE_BYTES`] are held at a time, however many documents are requested. The first
//! group is one document, since its size is not known.
//!
//! A piece has its memory reserved until the client has taken it. If none is free the answer fails:
//! one that waited for memory would hold its bytes meanwhile.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use quiredb::{Collection, Document, Found, Key, ValueRef};
use serde::Deserialize;
use serde_json::Value;

use super::found::write_found;
use super::lookup::{Group, get_each};
use super::parse::parse_key;
use super::source::{Source, SourceBody};
use crate::access::grant::Grant;
use crate::access::role::Action;
use crate::bulk::Id;
use crate::engine::Engine;
use crate::http::answer::{Answer, write_string};
use crate::http::body::Whole;
use crate::http::buffers::{Buffers, Held};
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::Fields;

/// Bytes of the answer that are made at a time.
const PIECE_BYTES: usize = 256 << 10;

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
    #[serde(alias = "_routing")]
    routing: Option<Id>,
    #[serde(rename = "_source")]
    source: Option<SourceBody>,
}

/// A requested document.
struct Wanted {
    index: Arc<str>,
    id: String,
    /// None if that of the request applies.
    source: Option<Source>,
}

/// `GET|POST /_mget`, `GET|POST /{collection}/_mget`
pub(crate) async fn mget(call: Call<Engine>) -> Outcome<Answer> {
    let source = Source::of(&call.params)?;
    let default_index = call.path_param("collection").map(Arc::from);
    let (engine, filter) = (call.state.clone(), call.format.filter.clone());
    let (buffers, grant) = (call.buffers.clone(), Arc::clone(&call.grant));
    let body = call.take_small_body().await?;
    let wanted = wanted(&body, default_index)?;
    let mut mget = Mget {
        grant,
        wanted,
        source,
        filter,
        group: Group::new(GROUP_FIRST, GROUP_MAX, PIECE_BYTES),
        is_first: true,
        buffers,
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
        });
    }
    for (at, document) in body.docs.into_iter().flatten().enumerate() {
        let DocumentBody {
            index,
            id,
            routing,
            source,
        } = document;
        let index = index.map(Arc::from).or_else(|| default_index.clone());
        let index =
            index.ok_or_else(|| Failure::validation(&format!("index is missing for doc {at}")))?;
        if routing.is_some_and(|routing| routing.0 != id.0) {
            return Err(Failure::illegal_argument(
                "[routing] must be the id or absent",
            ));
        }
        wanted.push_back(Wanted {
            index,
            id: id.0,
            source: source.map(SourceBody::source).transpose()?,
        });
    }
    if wanted.is_empty() {
        return Err(Failure::validation("no documents to get"));
    }
    Ok(wanted)
}

/// The documents that are not answered yet, and how to answer them.
struct Mget {
    grant: Arc<Grant>,
    wanted: VecDeque<Wanted>,
    source: Source,
    filter: Fields,
    group: Group,
    is_first: bool,
    buffers: Buffers,
    /// Holds the memory reserved for the list, which is made from it.
    _body: Whole,
}

/// A part of the answer, with its memory.
struct Piece {
    bytes: Vec<u8>,
    _held: Held,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Mget {
    fn is_done(&self) -> bool {
        self.wanted.is_empty()
    }

    async fn next_piece(self, engine: &Engine) -> Outcome<(Mget, Bytes)> {
        engine.read(move |engine| self.make_piece(engine)).await?
    }

    /// Makes the next piece of the answer. Blocks.
    fn make_piece(mut self, engine: &Engine) -> Outcome<(Mget, Bytes)> {
        let mut out = Vec::new();
        if self.is_first {
            out.extend_from_slice(b"{\"docs\":[");
        }
        while out.len() < PIECE_BYTES && !self.wanted.is_empty() {
            let before = out.len();
            let documents = self.write_group(engine, &mut out)?;
            self.group.was(documents, out.len() - before);
        }
        if self.is_done() {
            out.extend_from_slice(b"]}");
        }
        let held = self.buffers.hold_now(out.len())?;
        let piece = Piece {
            bytes: out,
            _held: held,
        };
        Ok((self, Bytes::from_owner(piece)))
    }

    /// Reads and appends the next documents, all of one collection; returns their number.
    fn write_group(&mut self, engine: &Engine, out: &mut Vec<u8>) -> Outcome<usize> {
        let Some(index) = self.wanted.front().map(|wanted| Arc::clone(&wanted.index)) else {
            return Ok(0);
        };
        let same = self
            .wanted
            .iter()
            .take(self.group.size())
            .take_while(|wanted| wanted.index == index)
            .count();
        let group: Vec<Wanted> = self.wanted.drain(..same).collect();
        let allowed = self.grant.check(Action::Read, &index);
        let collection = allowed
            .map_err(Failure::forbidden)
            .and_then(|()| engine.collection(&index));
        let keys: Vec<Outcome<Key>> = group.iter().map(|wanted| parse_key(&wanted.id)).collect();
        let mut found = match &collection {
            Ok(collection) => read(collection, &keys).into_iter(),
            Err(_) => Vec::new().into_iter(),
        };
        for (wanted, key) in group.iter().zip(&keys) {
            let source = wanted.source.as_ref().unwrap_or(&self.source);
            let mut item = Vec::new();
            match (&collection, key) {
                (Err(failure), _) | (_, Err(failure)) => write_failed(wanted, failure, &mut item),
                (Ok(_), Ok(_)) => match found.next().transpose() {
                    Ok(found) => write_found(
                        &index,
                        &wanted.id,
                        found.flatten().as_ref(),
                        source,
                        &mut item,
                    ),
                    Err(failure) => write_failed(wanted, &failure, &mut item),
                },
            }
            self.append(&item, out);
        }
        Ok(same)
    }

    /// Appends the answer for one document, filtered.
    fn append(&mut self, item: &[u8], out: &mut Vec<u8>) {
        let before = out.len();
        if !self.is_first {
            out.push(b',');
        }
        if self.filter.is_all() {
            out.extend_from_slice(item);
        } else {
            let shown = Document::from_json(item).is_ok_and(|item| {
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

/// The documents of the valid keys.
fn read(collection: &Collection, keys: &[Outcome<Key>]) -> Vec<Outcome<Option<Found>>> {
    let keys: Vec<Key> = keys
        .iter()
        .filter_map(|key| key.as_ref().ok().cloned())
        .collect();
    let failed = |error| Failure::engine(&error, Some(collection.name()));
    let found = get_each(collection, &keys).into_iter();
    debug_assert!(found.len() == keys.len(), "each key has one result");
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
