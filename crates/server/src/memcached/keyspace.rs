//! The documents that a client's keys address.

use axum::http::StatusCode;
use quiredb::wide::WideCollection;
use quiredb::{
    Collection, CollectionSettings, ErrorKind, Found, IndexedFields, Key, Within, Write, Written,
};

use super::outcome::Outcome;
use super::rows;
use super::value::Values;
use crate::access::role::Action;
use crate::audit::AuditedGrant;
use crate::collections::api_settings::Use;
use crate::documents::lookup::{get_each_within, get_held_now};
use crate::engine::{Engine, is_wide};
use crate::http::buffers::{Buffers, Held, LARGE_BYTES};
use crate::http::failure::Failure;
use crate::options::MemcachedOptions;

const NO_MEMORY: &str = "out of memory reading object";

/// Bytes of documents that are looked up together.
const GROUP_BYTES: u64 = 512 << 10;

/// A collection that has values.
pub(crate) enum Bucket {
    Plain(Collection),
    Wide(WideCollection),
}

impl Bucket {
    pub(crate) fn name(&self) -> &str {
        match self {
            Bucket::Plain(collection) => collection.name(),
            Bucket::Wide(wide) => wide.name(),
        }
    }

    pub(crate) fn is_wide(&self) -> bool {
        matches!(self, Bucket::Wide(_))
    }

    /// Does writes of documents with values, in their order: a result for each. Blocks.
    pub(crate) fn write(
        &self,
        values: &Values,
        writes: Vec<Write>,
    ) -> Vec<quiredb::Result<Written>> {
        match self {
            Bucket::Plain(collection) => collection.batch().writes(writes).write(),
            Bucket::Wide(wide) => {
                let rows = writes.iter();
                let rows = rows.map(|write| rows::write_of(wide, values, write));
                wide.write_all(rows, None)
            }
        }
    }
}

/// The documents that a client's keys address, and where values are in them.
pub(crate) struct Keyspace {
    engine: Engine,
    /// What the client may do; nothing before it is admitted.
    pub(super) grant: AuditedGrant,
    /// The collection of all keys; none if each key names its own.
    collection: Option<String>,
    pub(crate) values: Values,
}

impl Keyspace {
    pub(crate) fn new(engine: Engine, options: &MemcachedOptions, grant: AuditedGrant) -> Keyspace {
        Keyspace {
            engine,
            grant,
            collection: options.collection.clone(),
            values: Values::new(options.field.as_deref()),
        }
    }

    /// The time of the database's machine, in microseconds since 1970 UTC.
    pub(crate) fn now_micros(&self) -> i64 {
        self.engine.clock().0
    }

    /// The collection and the document key that a client's key addresses. An error if the client
    /// may not do this with the collection.
    pub(crate) fn address<'a>(
        &'a self,
        key: &'a [u8],
        action: Action,
    ) -> Result<(&'a str, Key), Outcome> {
        let text =
            std::str::from_utf8(key).map_err(|_| Outcome::client_error("the key is not UTF-8"))?;
        let (collection, id) = match &self.collection {
            Some(collection) => (collection.as_str(), text),
            None => text.split_once(':').ok_or_else(|| {
                Outcome::client_error("the key names no collection: it must be collection:key")
            })?,
        };
        self.grant.check(action, collection).map_err(|refused| {
            self.grant.note_refused(collection);
            Outcome::client_error(&refused.to_string())
        })?;
        let key = Key::parse(id).map_err(|error| Outcome::client_error(&error.to_string()))?;
        Ok((collection, key))
    }

    /// Looks up the documents of many keys, as far as they fit in [`GROUP_BYTES`] together. Each
    /// key has its own result.
    pub(crate) fn look_up(&self, keys: &[&[u8]]) -> Vec<Result<Within, Outcome>> {
        let mut results: Vec<Result<Within, Outcome>> = Vec::with_capacity(keys.len());
        // For each collection: its keys, and where in the results they are.
        let mut parts: Vec<(&str, Vec<usize>, Vec<Key>)> = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            let result = self.address(key, Action::Read).map(|(collection, key)| {
                let known = parts.iter().position(|(name, ..)| *name == collection);
                match known.and_then(|known| parts.get_mut(known)) {
                    Some((_, indices, keys)) => {
                        indices.push(at);
                        keys.push(key);
                    }
                    None => parts.push((collection, vec![at], vec![key])),
                }
                Within::Absent
            });
            results.push(result);
        }
        for (name, indices, keys) in parts {
            let failed = |error: quiredb::Error| Outcome::server_error(&error.to_string());
            let found: Vec<Result<Within, Outcome>> = match self.existing(name, Use::Read) {
                Ok(Some(Bucket::Plain(collection))) => {
                    let found = get_each_within(&collection, &keys, GROUP_BYTES);
                    found.into_iter().map(|one| one.map_err(failed)).collect()
                }
                Ok(Some(Bucket::Wide(wide))) => {
                    let share = GROUP_BYTES / keys.len().max(1) as u64;
                    let find = |key| rows::find(&wide, &self.values, key, share);
                    keys.iter().map(find).collect()
                }
                Ok(None) => continue,
                Err(error) => vec![Err(failed(error)); keys.len()],
            };
            assert!(found.len() == indices.len(), "each key has one result");
            for (at, found) in indices.into_iter().zip(found) {
                if let Some(result) = results.get_mut(at) {
                    *result = found;
                }
            }
        }
        results
    }

    /// The document of a key, as [`look_up`](Self::look_up) gave it. One that was not read is read
    /// now, a large one with its memory reserved.
    pub(crate) fn resolve(
        &self,
        key: &[u8],
        found: Result<Within, Outcome>,
        buffers: &Buffers,
    ) -> Result<Option<(Found, Option<Held>)>, Outcome> {
        match found? {
            Within::Absent => return Ok(None),
            Within::Found(found) => return Ok(Some((found, None))),
            Within::Longer(_) => {}
        }
        let (name, key) = self.address(key, Action::Read)?;
        let failed = |error: quiredb::Error| Outcome::server_error(&error.to_string());
        let without_memory = |failure: Failure| match failure.status {
            StatusCode::TOO_MANY_REQUESTS => Outcome::server_error(NO_MEMORY),
            _ => Outcome::server_error(&failure.cause().to_string()),
        };
        match self.existing(name, Use::Read).map_err(failed)? {
            Some(Bucket::Plain(collection)) => {
                get_held_now(&collection, buffers, &key).map_err(without_memory)
            }
            Some(Bucket::Wide(wide)) => {
                let (mut held, mut bytes_max) = (None, LARGE_BYTES);
                loop {
                    match rows::find(&wide, &self.values, &key, bytes_max)? {
                        Within::Absent => return Ok(None),
                        Within::Found(found) => return Ok(Some((found, held))),
                        Within::Longer(bytes) => {
                            drop(held.take());
                            held = Some(buffers.hold_large_now(bytes).map_err(without_memory)?);
                            bytes_max = bytes;
                        }
                    }
                }
            }
            None => Ok(None),
        }
    }

    /// The collection of this name, if there is one, to be used in this way. Aliases are not looked
    /// up: the pattern of a token is checked against the name alone.
    ///
    /// # Errors
    /// `Invalid` if it is closed, or one of its blocks refuses that.
    pub(crate) fn existing(&self, name: &str, what: Use) -> quiredb::Result<Option<Bucket>> {
        let allowed = self.engine.check_use(name, what);
        allowed.map_err(|failure| quiredb::Error::Server {
            kind: ErrorKind::Invalid,
            what: format!("collection [{name}]: {}", failure.reason()),
        })?;
        let database = self.engine.database();
        match database.collection_named(name) {
            Ok(collection) => Ok(Some(Bucket::Plain(collection))),
            Err(error) if is_wide(&error) => {
                let wide = database.wide_collection(name)?;
                Ok(Some(Bucket::Wide(wide)))
            }
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::Invalid => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// The collection of this name, made if there is none: without a search index, since clients of
    /// memcached do not search.
    pub(crate) fn existing_or_new(&self, name: &str) -> quiredb::Result<Bucket> {
        let database = self.engine.database();
        if let Some(collection) = self.existing(name, Use::Write)? {
            return Ok(collection);
        }
        let settings = CollectionSettings {
            index: IndexedFields::none(),
            ..CollectionSettings::default()
        };
        match database.create_collection(name, settings) {
            // Another connection made it meanwhile.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let made = self.existing(name, Use::Write)?;
                made.ok_or(error)
            }
            made => {
                if made.is_ok() {
                    self.grant.note_created(name);
                }
                made.map(Bucket::Plain)
            }
        }
    }
}
