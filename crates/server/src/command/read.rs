//! Documents by key, and those of a range of keys.

use std::ops::Bound;
use std::sync::Arc;
use std::vec;

use quiredb::{Collection, Found, FrozenCollection, Key, Scan, View, Within, Write};
use serde::Deserialize;

use super::end::End;
use super::row::{write_row, write_text};
use super::stream::{self, Next, PIECE_BYTES, Producer};
use crate::documents::lookup::get_frozen_up_to;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::buffers::LARGE_BYTES;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::search::state::SearchState;

/// The body of a get.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    keys: Vec<String>,
}

/// `POST /{collection}/_quire/get`
pub(crate) async fn get(call: Call<SearchState>) -> Outcome<Answer> {
    let (name, state) = (call.collection(), call.state.clone());
    let body = call.take_small_body().await?;
    let keys: Keys = serde_json::from_slice(&body.bytes)
        .map_err(|error| Failure::parse(format!("{{\"keys\":[\"…\"]}} is expected: {error}")))?;
    drop(body);
    let keys = keys.keys.iter().map(|key| parse(key));
    let keys = keys.collect::<Outcome<Vec<Key>>>()?;
    let open = move |engine: &Engine| match engine.frozen(&name) {
        Some(frozen) => Ok(Keyed::Frozen(frozen)),
        None => engine.collection(&name).map(Keyed::Plain),
    };
    let opened = state.engine.read(open);
    let get = Get {
        collection: opened.await??,
        keys: keys.into_iter(),
        large: None,
        documents: 0,
    };
    stream::answer(state, get).await
}

fn parse(key: &str) -> Outcome<Key> {
    let parsed = Key::parse(key);
    parsed.map_err(|error| Failure::illegal_argument(format!("the key {key:?}: {error}")))
}

/// A collection whose documents are read by key.
enum Keyed {
    Plain(Collection),
    Frozen(FrozenCollection),
}

impl Keyed {
    /// The document under `key`, unless it is longer than `bytes_max`.
    fn get_up_to(&self, key: &Key, bytes_max: u64) -> Outcome<Within> {
        let (found, name) = match self {
            Keyed::Plain(one) => (one.get_up_to(key, bytes_max), one.name()),
            Keyed::Frozen(one) => (get_frozen_up_to(one, key, bytes_max), one.name()),
        };
        found.map_err(|error| Failure::engine(&error, Some(name)))
    }
}

/// Documents by key, in the order of the keys.
struct Get {
    collection: Keyed,
    keys: vec::IntoIter<Key>,
    /// The key of a document that needs memory of its own.
    large: Option<(Key, u64)>,
    documents: u64,
}

impl Producer for Get {
    fn produce(&mut self, out: &mut Vec<u8>) -> Outcome<Next> {
        if let Some((key, bytes)) = self.large.take() {
            match self.collection.get_up_to(&key, bytes)? {
                Within::Found(found) => {
                    write_row(&found, None, out);
                    self.documents += 1;
                }
                Within::Absent => write_text("absent", &key.to_string(), out),
                // A write has made it longer meanwhile.
                Within::Longer(bytes) => {
                    self.large = Some((key, bytes));
                    return Ok(Next::Large(bytes));
                }
            }
            return Ok(Next::More);
        }
        while out.len() < PIECE_BYTES {
            let Some(key) = self.keys.next() else {
                End {
                    documents: self.documents,
                }
                .write(out);
                return Ok(Next::End);
            };
            match self.collection.get_up_to(&key, LARGE_BYTES)? {
                Within::Found(found) => {
                    write_row(&found, None, out);
                    self.documents += 1;
                }
                Within::Absent => write_text("absent", &key.to_string(), out),
                Within::Longer(bytes) => {
                    self.large = Some((key, bytes));
                    return Ok(Next::Large(bytes));
                }
            }
        }
        Ok(Next::More)
    }
}

/// `GET /{collection}/_quire/scan`
pub(crate) async fn scan(call: Call<SearchState>) -> Outcome<Answer> {
    let name = call.collection();
    let key = |name: &str| call.params.text(name).map(parse).transpose();
    let (from, to) = (key("from")?, key("to")?);
    let prefix = call.params.text("prefix").unwrap_or_default().to_owned();
    let left = call.params.number("limit")?.unwrap_or(u64::MAX);
    let range = (
        from.map_or(Bound::Unbounded, Bound::Included),
        to.map_or(Bound::Unbounded, Bound::Excluded),
    );
    let running = Arc::clone(&call.running);
    let work = move |engine: &Engine| {
        if engine.frozen(&name).is_some() {
            return Err(Failure::illegal_argument(format!(
                "{name} is frozen: its documents are not in the order of their keys; `quire query \
                 URL {name} --all` prints them"
            )));
        }
        let collection = engine.collection(&name)?;
        let failed = |error: &_| Failure::engine(error, Some(&name));
        let view = collection.view().map_err(|error| failed(&error))?;
        let scan = view.scan(range).map_err(|error| failed(&error))?;
        let views = Arc::new(vec![view]);
        running.set_views(&views);
        Ok::<_, Failure>(Scanned {
            collection,
            scan,
            _views: views,
            prefix,
            left,
            large: None,
            documents: 0,
        })
    };
    let scanned = call.state.engine.read(work).await??;
    stream::answer(call.state, scanned).await
}

/// The documents of a range of keys, as of one moment.
struct Scanned {
    collection: Collection,
    scan: Scan,
    /// What it reads: the running request knows it.
    _views: Arc<Vec<View>>,
    /// Only keys that begin with this; the first other key ends the scan.
    prefix: String,
    /// Documents that may still be written.
    left: u64,
    /// A document that needs memory of its own.
    large: Option<Found>,
    documents: u64,
}

impl Scanned {
    fn write(&mut self, found: Found, out: &mut Vec<u8>) {
        write_row(&found, None, out);
        self.documents += 1;
        self.left -= 1;
        let as_written = Write::put(found.key, found.document);
        if let Err(error) = self.collection.check_key(&as_written) {
            write_text("contradiction", &error.to_string(), out);
        }
    }

    /// The next document that is wanted.
    fn next(&mut self) -> Outcome<Option<Found>> {
        if self.left == 0 {
            return Ok(None);
        }
        let found = self.scan.next().transpose();
        let found = found.map_err(|error| Failure::engine(&error, Some(self.collection.name())))?;
        let has_prefix = |key: &Key| {
            self.prefix.is_empty()
                || key
                    .as_str()
                    .is_some_and(|key| key.starts_with(&self.prefix))
        };
        Ok(found.filter(|found| has_prefix(&found.key)))
    }
}

impl Producer for Scanned {
    fn produce(&mut self, out: &mut Vec<u8>) -> Outcome<Next> {
        if let Some(found) = self.large.take() {
            self.write(found, out);
            return Ok(Next::More);
        }
        while out.len() < PIECE_BYTES {
            let Some(found) = self.next()? else {
                End {
                    documents: self.documents,
                }
                .write(out);
                return Ok(Next::End);
            };
            let bytes = found.document.as_bytes().len() as u64;
            if bytes > LARGE_BYTES {
                self.large = Some(found);
                return Ok(Next::Large(bytes));
            }
            self.write(found, out);
        }
        Ok(Next::More)
    }
}
