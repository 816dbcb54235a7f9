//! [`FrozenView`]: what was frozen, opened to be queried: one file, or all of a folder.
//!
//! # Layout of a payload
//! Beside each document that [`freeze`](crate::freeze()) writes is where it came from,
//! numbers little-endian:
//! ```text
//! | 4: "LIVE" | 4: partition | 8: version | 1 to 1,025: its key, encoded |
//! ```

use quire_collection::Found;
use quire_database::{Error, ID, Result};
use quire_env::Env;
use quire_frozen::{FolderOptions, FrozenFile, FrozenFolder, OpenOptions, Snapshot};
use quire_model::{Document, Key, Position, ValueRef};
use quire_query::{Answer, Hit, Options, Prepared, Shard};
use std::path::Path;
use std::sync::Arc;

const MAGIC: &[u8; 4] = b"LIVE";

/// Frozen partitions that are open, as one.
#[derive(Debug)]
pub struct FrozenView(Files);

#[derive(Debug)]
enum Files {
    One(Box<FrozenFile>),
    Folder(Arc<Snapshot>),
}

/// A document of a frozen partition.
#[derive(Debug, Clone, PartialEq)]
pub struct FrozenDocument {
    /// The document.
    pub document: Document,
    /// Where it came from, if that was a live collection.
    pub origin: Option<Origin>,
}

/// What a document is in a live collection, or was when it was frozen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Its key.
    pub key: Key,
    /// Its version.
    pub version: Position,
    /// Its external version; a frozen document has none.
    pub external: Option<u64>,
    /// When it expires, if it does: microseconds since 1970 UTC. A frozen document does not.
    pub expires_micros: Option<i64>,
    /// The partition it lives in.
    pub partition: u32,
}

impl Origin {
    /// That of a live document.
    pub fn of(found: &Found) -> Origin {
        Origin {
            key: found.key.clone(),
            version: found.version,
            external: found.external,
            expires_micros: found.expires_micros,
            partition: found.partition,
        }
    }

    /// Appends its bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&self.partition.to_le_bytes());
        out.extend_from_slice(&self.version.0.to_le_bytes());
        out.extend_from_slice(self.key.encoded());
    }

    /// None for a payload that is something else.
    fn decode(payload: &[u8]) -> Option<Origin> {
        let rest = payload.strip_prefix(MAGIC)?;
        let (partition, rest) = rest.split_first_chunk()?;
        let (version, key) = rest.split_first_chunk()?;
        Some(Origin {
            key: Key::decode(key).ok()?,
            version: Position(u64::from_le_bytes(*version)),
            external: None,
            expires_micros: None,
            partition: u32::from_le_bytes(*partition),
        })
    }
}

impl FrozenView {
    /// Opens a file; or a folder, of which all files whose names end with `.quire`, in the order of
    /// their names.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for a folder without such files, and for a file that is no frozen
    /// partition; `Corrupt` for a damaged one.
    pub fn open(env: &Arc<dyn Env>, path: &Path) -> Result<FrozenView> {
        if env.list(path).is_err() {
            let file = FrozenFile::open(&**env, path, OpenOptions::default())?;
            return Ok(FrozenView(Files::One(Box::new(file))));
        }
        let folder = FrozenFolder::open(Arc::clone(env), path, FolderOptions::default())?;
        if let Some(failure) = folder.failures().first() {
            return Err(Error::Frozen(Arc::clone(&failure.error)));
        }
        let snapshot = folder.snapshot();
        let files = snapshot.files().len();
        match files {
            0 => Err(Error::Invalid(format!(
                "{}: no frozen partition (*.quire) in this directory",
                path.display()
            ))),
            _ => Ok(FrozenView(Files::Folder(snapshot))),
        }
    }

    /// The files, in the order in which hits number them.
    pub fn files(&self) -> Vec<&FrozenFile> {
        match &self.0 {
            Files::One(file) => vec![file],
            Files::Folder(folder) => folder.files().collect(),
        }
    }

    /// How many documents there are.
    pub fn count(&self) -> u64 {
        match &self.0 {
            Files::One(file) => file.documents().into(),
            Files::Folder(folder) => folder.documents(),
        }
    }

    /// Answers a query. A hit's shard is the place of its file, its doc the docid there.
    ///
    /// # Errors
    /// `Invalid` for a query of a field that was not frozen for that, and by option for a field
    /// that is not there; `TooLarge` if it would take more memory than it may; `Corrupt` for
    /// damage.
    pub fn query(&self, query: &Prepared, options: &Options<'_>) -> Result<Answer> {
        Ok(match &self.0 {
            Files::One(file) => query.answer(&[&**file], options)?,
            Files::Folder(folder) => folder.query(query, options)?,
        })
    }

    /// The documents that hits of this view name, in that order; of files without documents only
    /// the keys, as `_id`.
    ///
    /// # Errors
    /// `Corrupt` for damage; `Invalid` for a hit that is none of this view, or if the files keep no
    /// documents.
    pub fn documents(&self, hits: &[Hit]) -> Result<Vec<FrozenDocument>> {
        let files = self.files();
        let of = |hit: &Hit| files.get(hit.shard as usize).copied();
        hits.iter().map(|hit| document(of(hit), hit.doc)).collect()
    }
}

fn document(file: Option<&FrozenFile>, doc: u32) -> Result<FrozenDocument> {
    let what = |what: &str| Error::Invalid(what.to_string());
    let file = file.ok_or_else(|| what("a hit names a file that there is not"))?;
    let document = file.document(doc)?;
    let mut origin = None;
    file.payload(doc, &mut |payload| origin = Origin::decode(payload))?;
    let document = match (document, &origin) {
        (Some(document), _) => document,
        // It was frozen without documents: what is left of one is its key.
        (None, Some(origin)) => of_key(&origin.key)?,
        (None, None) => return Err(what("the frozen partition keeps no such document")),
    };
    Ok(FrozenDocument { document, origin })
}

/// A document that has its key alone.
fn of_key(key: &Key) -> Result<Document> {
    let mut json = format!("{{\"{ID}\":").into_bytes();
    ValueRef::String(&key.to_string()).write_json(&mut json);
    json.push(b'}');
    Ok(Document::from_json(&json)?)
}
