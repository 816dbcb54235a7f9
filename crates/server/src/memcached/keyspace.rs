//! The documents that a client's keys address.

use axum::http::StatusCode;
use quiredb::{Collection, CollectionSettings, ErrorKind, Found, IndexedFields, Key, Within};

use super::outcome::Outcome;
use super::value::Values;
use crate::access::role::Action;
use crate::audit::AuditedGrant;
use crate::collections::api_settings::Use;
use crate::documents::lookup::{get_each_within, get_held_now};
use crate::engine::Engine;
use crate::http::buffers::{Buffers, Held};
use crate::options::MemcachedOptions;

const NO_MEMORY: &str = "out of memory reading object";

/// Bytes of documents that are looked up together.
const GROUP_BYTES: u64 = 512 << 10;

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
            let found = match self.existing(name, Use::Read) {
                Ok(Some(collection)) => get_each_within(&collection, &keys, GROUP_BYTES),
                Ok(None) => continue,
                Err(error) => vec![Err(error); keys.len()],
            };
            assert!(found.len() == indices.len(), "each key has one result");
            for (at, found) in indices.into_iter().zip(found) {
                if let Some(result) = results.get_mut(at) {
                    *result = found.map_err(|error| Outcome::server_error(&error.to_string()));
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
        match self.existing(name, Use::Read).map_err(failed)? {
            Some(collection) => {
                get_held_now(&collection, buffers, &key).map_err(|failure| match failure.status {
                    StatusCode::TOO_MANY_REQUESTS => Outcome::server_error(NO_MEMORY),
                    _ => Outcome::server_error(&failure.cause().to_string()),
                })
            }
            None => Ok(None),
        }
    }

    /// The collection of this name, if there is one, to be used in this way. Aliases are not looked
    /// up: the pattern of a token is checked against the name alone.
    ///
    /// # Errors
    /// `Invalid` if it is closed, or one of its blocks refuses that.
    pub(crate) fn existing(&self, name: &str, what: Use) -> quiredb::Result<Option<Collection>> {
        let allowed = self.engine.check_use(name, what);
        allowed.map_err(|failure| quiredb::Error::Server {
            kind: ErrorKind::Invalid,
            what: format!("collection [{name}]: {}", failure.reason()),
        })?;
        match self.engine.database().collection_named(name) {
            Ok(collection) => Ok(Some(collection)),
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::Invalid => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// The collection of this name, made if there is none: without a search index, since clients of
    /// memcached do not search.
    pub(crate) fn existing_or_new(&self, name: &str) -> quiredb::Result<Collection> {
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
                database.collection_named(name)
            }
            made => {
                if made.is_ok() {
                    self.grant.note_created(name);
                }
                made
            }
        }
    }
}
