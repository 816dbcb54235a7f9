//! Place: where a command works, a directory or a server, and a collection there.

use crate::client::{ServerAccess, is_url};
use crate::error::{Error, Result, causes};
use crate::link::Link;
use crate::remote::{RemoteCollection, Wanted};
use crate::{Context, database};
use quire_pipeline::Target;
use quire_server::{Line, Row};
use quiredb::operations::Origin;
use quiredb::{
    Action, Collection, CollectionFields, CollectionSettings, CollectionStats, Database, Document,
    ErrorKind, Key, Write, Written,
};
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

/// The count of keys that are looked up together; it bounds the documents in memory.
const KEYS_AT_ONCE: usize = 64;

/// Where a command works.
#[derive(Debug, clap::Args)]
pub(crate) struct Place {
    /// The directory of the database, or http(s)://HOST:PORT of its server
    pub(crate) db: String,
    #[command(flatten)]
    pub(crate) access: ServerAccess,
}

/// A collection of a directory or of a server.
pub(crate) enum Documents {
    /// Of a directory.
    Directory {
        /// Keeps it open.
        database: Database,
        collection: Collection,
    },
    /// Of a server.
    Server(RemoteCollection),
}

/// A document that was read.
pub(crate) struct Found {
    pub(crate) origin: Origin,
    pub(crate) document: Document,
}

impl Place {
    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        Path::new(&self.db)
    }

    /// The server, if it is one.
    ///
    /// # Errors
    /// If there is no such host, no token in its file, or the files for TLS can't be used; if there
    /// are such files for a directory.
    pub(crate) fn server(&self, context: &Context) -> Result<Option<Link>> {
        if is_url(&self.db) {
            let remote = self.access.remote(context, &self.db)?;
            return Ok(Some(Link::new(context.env.clone(), remote)));
        }
        match self.access.is_empty() {
            true => Ok(None),
            false => Err(Error::Usage(format!(
                "--token-file, --ca, --client-cert and --client-key are for a server, and {} is a \
                 directory; a server is http://HOST:PORT or https://HOST:PORT",
                self.db
            ))),
        }
    }

    /// Opens a collection.
    ///
    /// # Errors
    /// If there is no such place, or no collection of this name.
    pub(crate) fn open(&self, context: &Context, name: &str) -> Result<Documents> {
        if let Some(link) = self.server(context)? {
            return remote_collection(&link, name).map(Documents::Server);
        }
        let database = database::open_existing(context, self.path())?;
        let collection = database::collection(&database, self.path(), name)?;
        Ok(Documents::Directory {
            database,
            collection,
        })
    }
}

/// A collection of a server.
///
/// # Errors
/// If it has none of this name.
pub(crate) fn remote_collection(link: &Link, name: &str) -> Result<RemoteCollection> {
    RemoteCollection::open(link, name).map_err(|source| match source.kind() {
        ErrorKind::NotFound => no_collection(link, name),
        _ => Error::Engine {
            context: format!("cannot open the collection `{name}`"),
            source,
        },
    })
}

/// The error of a name that no collection of a server has.
pub(crate) fn no_collection(link: &Link, name: &str) -> Error {
    Error::Failed(format!(
        "no collection `{name}` in {}; `quire collections {}` lists them",
        link.url(),
        link.url()
    ))
}

/// The document of a line, if it is one of a document.
///
/// # Errors
/// If it can't be one.
pub(crate) fn found(row: &Row<'_>) -> Result<Found> {
    let document = Document::from_json(row.json().as_bytes()).ok();
    match (row.origin(), document) {
        (Some(origin), Some(document)) => Ok(Found { origin, document }),
        _ => Err(Error::Failed(
            "the server sent what is no document".to_owned(),
        )),
    }
}

impl Documents {
    /// The settings of the collection.
    pub(crate) fn settings(&self) -> Arc<CollectionSettings> {
        match self {
            Documents::Directory { collection, .. } => collection.settings(),
            Documents::Server(collection) => collection.settings(),
        }
    }

    /// Reads documents by key: `each` gets what there is of each key, in their order.
    ///
    /// # Errors
    /// Of the database, and of `each`.
    pub(crate) fn get(
        &self,
        keys: &[Key],
        each: &mut dyn FnMut(&Key, Option<Found>) -> Result<()>,
    ) -> Result<()> {
        let cannot = "cannot read";
        match self {
            Documents::Directory { collection, .. } => {
                for keys in keys.chunks(KEYS_AT_ONCE) {
                    let all = collection.get_many(keys).map_err(Error::engine(cannot))?;
                    for (key, one) in keys.iter().zip(all) {
                        each(key, one.map(Found::from))?;
                    }
                }
                Ok(())
            }
            Documents::Server(collection) => {
                let mut keys_left = keys.iter();
                collection
                    .get(keys, &mut |line| match (keys_left.next(), line) {
                        (Some(key), Line::Row(row)) => each(key, Some(found(&row)?)),
                        (Some(key), Line::Absent(_)) => each(key, None),
                        _ => Ok(()),
                    })
                    .map_err(|error| error.because(cannot))
            }
        }
    }

    /// Does a write and makes it durable.
    ///
    /// # Errors
    /// Of the database: also if the write's condition does not hold.
    pub(crate) fn write(&self, write: Write) -> quiredb::Result<Written> {
        match self {
            Documents::Directory { collection, .. } => collection.write().run(write),
            Documents::Server(collection) => {
                let mut outcomes = collection.write(&[&write], None)?;
                outcomes.pop().unwrap_or(Err(quiredb::Error::Closed))
            }
        }
    }

    /// Makes writes durable.
    ///
    /// # Errors
    /// Of the database.
    pub(crate) fn sync(&self) -> quiredb::Result<()> {
        match self {
            Documents::Directory { collection, .. } => collection.sync(),
            Documents::Server(collection) => collection.sync(),
        }
    }

    /// The number of documents.
    ///
    /// # Errors
    /// Of the database.
    pub(crate) fn count(&self) -> quiredb::Result<u64> {
        match self {
            Documents::Directory { collection, .. } => collection.count(),
            Documents::Server(collection) => collection.count(),
        }
    }

    /// What the collection holds.
    ///
    /// # Errors
    /// Of the database.
    pub(crate) fn stats(&self) -> quiredb::Result<CollectionStats> {
        match self {
            Documents::Directory { collection, .. } => collection.stats(),
            Documents::Server(collection) => collection.stats(),
        }
    }

    /// The fields of the documents; `see` is shown the number of documents read so far.
    ///
    /// # Errors
    /// Of the database.
    pub(crate) fn fields(
        &self,
        see: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> quiredb::Result<CollectionFields> {
        match self {
            Documents::Directory { collection, .. } => collection.fields_with(see),
            Documents::Server(collection) => collection.fields(),
        }
    }

    /// Reads documents in the order of their keys. `each` gets each, and why `load` refuses it if
    /// it does.
    ///
    /// # Errors
    /// Of the database, and of `each`.
    pub(crate) fn scan(
        &self,
        wanted: &Wanted,
        each: &mut dyn FnMut(Scanned) -> Result<()>,
    ) -> Result<()> {
        let cannot = "cannot scan";
        match self {
            Documents::Directory { collection, .. } => scan_live(collection, wanted, each),
            Documents::Server(collection) => collection
                .scan(wanted, &mut |line| match line {
                    Line::Row(row) => each(Scanned::Document(found(&row)?)),
                    Line::Contradiction(why) => each(Scanned::Contradiction(why)),
                    _ => Ok(()),
                })
                .map_err(|error: Error| error.because(cannot)),
        }
    }
}

/// What a scan finds.
pub(crate) enum Scanned {
    /// A document.
    Document(Found),
    /// Why the document before is refused by `load`.
    Contradiction(String),
}

fn scan_live(
    collection: &Collection,
    wanted: &Wanted,
    each: &mut dyn FnMut(Scanned) -> Result<()>,
) -> Result<()> {
    let range = (
        wanted
            .from
            .clone()
            .map_or(Bound::Unbounded, Bound::Included),
        wanted.to.clone().map_or(Bound::Unbounded, Bound::Excluded),
    );
    let has_prefix = |key: &Key| match &wanted.prefix {
        Some(prefix) => key.as_str().is_some_and(|key| key.starts_with(prefix)),
        None => true,
    };
    let scan = collection
        .scan(range)
        .map_err(Error::engine("cannot scan"))?;
    for found in scan.take(wanted.limit.unwrap_or(usize::MAX)) {
        let found = found.map_err(Error::engine("cannot scan"))?;
        if !has_prefix(&found.key) {
            break;
        }
        let origin = Origin::of(&found);
        let as_written = Write::put(found.key, found.document);
        let contradiction = collection.check_key(&as_written).err();
        if let Action::Put(document) = as_written.action {
            each(Scanned::Document(Found { origin, document }))?;
        }
        if let Some(error) = contradiction {
            each(Scanned::Contradiction(causes(&error)))?;
        }
    }
    Ok(())
}

impl From<quiredb::Found> for Found {
    fn from(found: quiredb::Found) -> Found {
        Found {
            origin: Origin::of(&found),
            document: found.document,
        }
    }
}
