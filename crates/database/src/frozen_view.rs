//! [`FrozenView`]: what was frozen, opened to be queried: one file, or all of a folder.
//!
//! # Layout of a payload
//! Beside each document that freezing writes is where it came from, numbers little-endian:
//! ```text
//! | 4: "LIVE" | 4: partition | 8: version | 1 to 1,025: its key, encoded |
//! ```

use crate::{Error, Result};
use quire_collection::{Found, ID};
use quire_env::Env;
use quire_frozen::{FolderOptions, FrozenFile, FrozenFolder, OpenOptions, Snapshot};
use quire_model::{Document, Key, Position, ValueRef};
use quire_query::{
    Answer, Hit, Options, Path as FieldPath, Prepared, Shard, field, find, write_fields,
};
use std::path::Path;
use std::sync::Arc;

const MAGIC: &[u8; 4] = b"LIVE";

/// Documents that are read to see whether one has a field, and their bytes.
const READ_MAX: usize = 10_000;
const READ_BYTES_MAX: usize = 64 << 20;

/// Frozen partitions that are open, as one.
#[derive(Debug, Clone)]
pub struct FrozenView(Files);

#[derive(Debug, Clone)]
enum Files {
    One(Arc<FrozenFile>),
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
            return Ok(FrozenView::of_file(file));
        }
        open_folder(env, path).map(|folder| FrozenView::of_folder(&folder))
    }

    pub(crate) fn of_file(file: FrozenFile) -> FrozenView {
        FrozenView(Files::One(Arc::new(file)))
    }

    /// A folder as of its last refresh.
    pub(crate) fn of_folder(folder: &FrozenFolder) -> FrozenView {
        FrozenView(Files::Folder(folder.snapshot()))
    }

    /// The files, in the order in which hits number them.
    pub fn files(&self) -> Vec<&FrozenFile> {
        match &self.0 {
            Files::One(file) => vec![file],
            Files::Folder(folder) => folder.files().collect(),
        }
    }

    pub(crate) fn file_count(&self) -> usize {
        match &self.0 {
            Files::One(_) => 1,
            Files::Folder(folder) => folder.files().len(),
        }
    }

    /// The file that has this place among them.
    pub(crate) fn file(&self, number: usize) -> Result<&FrozenFile> {
        let file = match &self.0 {
            Files::One(file) => Some(&**file).filter(|_| number == 0),
            Files::Folder(folder) => folder.file(number as u32),
        };
        file.ok_or_else(no_file)
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
            Files::One(file) => query.answer(&[&**file as &dyn Shard], options)?,
            Files::Folder(folder) => folder.query(query, options)?,
        })
    }

    /// The document under `key`, of the last file that has one.
    pub(crate) fn get(&self, key: &Key) -> Result<Option<Found>> {
        for file in self.files().into_iter().rev() {
            if let Some(found) = get(file, key)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The documents that hits of this view name, in that order; of files without documents only
    /// the keys, as `_id`.
    ///
    /// # Errors
    /// `Corrupt` for damage; `Invalid` for a hit that is none of this view, or if the files keep no
    /// documents.
    pub fn documents(&self, hits: &[Hit]) -> Result<Vec<FrozenDocument>> {
        let of = |hit: &Hit| document(self.file(hit.shard as usize)?, hit.doc);
        hits.iter().map(of).collect()
    }

    /// Whether a document has a field, frozen or not: one that `hits` name, or another. None if
    /// that is not known: the files keep no documents, or none of the first 10,000 documents and
    /// 64 MiB has it, and more follow.
    ///
    /// # Errors
    /// `Corrupt` for damage; `Invalid` for a hit that is none of this view.
    pub fn has_field(&self, path: &FieldPath, hits: &[Hit]) -> Result<Option<bool>> {
        let first = hits.iter().take(READ_MAX);
        let first = first.map(|hit| Ok::<_, Error>((self.file(hit.shard as usize)?, hit.doc)));
        let all = self.files().into_iter();
        let all = all.flat_map(|file| (0..file.documents()).map(move |doc| Ok((file, doc))));
        let (mut read, mut bytes, mut json) = (0, 0, Vec::new());
        for place in first.chain(all) {
            if read == READ_MAX + hits.len().min(READ_MAX) || bytes > READ_BYTES_MAX {
                return Ok(None);
            }
            let (file, doc) = place?;
            let Some(document) = file.document(doc)? else {
                return Ok(None);
            };
            json.clear();
            write_fields(document.root(), std::slice::from_ref(path), &mut json);
            if json != b"{}" {
                return Ok(Some(true));
            }
            read += 1;
            bytes += document.as_bytes().len();
        }
        Ok(Some(false))
    }
}

fn no_file() -> Error {
    Error::Invalid("a hit names a file that there is not".to_owned())
}

/// Opens a folder that has at least one file, all of whose files can be opened.
pub(crate) fn open_folder(env: &Arc<dyn Env>, path: &Path) -> Result<FrozenFolder> {
    let folder = FrozenFolder::open(Arc::clone(env), path, FolderOptions::default())?;
    if let Some(failure) = folder.failures().first() {
        return Err(Error::Frozen(Arc::clone(&failure.error)));
    }
    match folder.snapshot().files().len() {
        0 => Err(Error::Invalid(format!(
            "{}: no frozen partition (*.quire) in this directory",
            path.display()
        ))),
        _ => Ok(folder),
    }
}

fn document(file: &FrozenFile, doc: u32) -> Result<FrozenDocument> {
    let document = file.document(doc)?;
    let origin = origin(file, doc)?;
    let document = match (document, &origin) {
        (Some(document), _) => document,
        // It was frozen without documents: what is left of one is its key.
        (None, Some(origin)) => of_key(&origin.key)?,
        (None, None) => {
            let what = "the frozen partition keeps no such document";
            return Err(Error::Invalid(what.to_owned()));
        }
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

/// Where a document came from.
fn origin(file: &FrozenFile, doc: u32) -> Result<Option<Origin>> {
    let mut origin = None;
    file.payload(doc, &mut |payload| origin = Origin::decode(payload))?;
    Ok(origin)
}

/// Whether documents of a file are found by their keys: those of a file without documents are.
pub(crate) fn has_keys(file: &FrozenFile) -> Result<bool> {
    let id = file.field(&FieldPath::new(ID))?;
    Ok(file.documents() == 0 || id.is_some_and(|id| id.filterable))
}

/// A document of a file whose documents have keys, as that of a live collection. Its key is the one
/// that it had when it was frozen, or its value of the field [`ID`].
pub(crate) fn found(file: &FrozenFile, doc: u32) -> Result<Found> {
    let FrozenDocument { document, origin } = document(file, doc)?;
    let (key, version, partition) = match origin {
        Some(origin) => (origin.key, origin.version, origin.partition),
        None => {
            let id = document.get(ID).ok_or_else(|| {
                let path = file.path().display();
                Error::Invalid(format!("{path}: a document has no key: no field {ID:?}"))
            })?;
            (Key::from_value(id)?, Position(0), 0)
        }
    };
    Ok(Found {
        expires_micros: None,
        key,
        version,
        external: None,
        partition,
        document,
    })
}

/// The document under `key` in a file.
pub(crate) fn get(file: &FrozenFile, key: &Key) -> Result<Option<Found>> {
    let query = find(field(ID).eq(key.to_string())).prepare()?;
    let answer = query.answer(&[file as &dyn Shard], &Options::default())?;
    for hit in &answer.hits {
        let found = found(file, hit.doc)?;
        // An integer and a string may have one text.
        if found.key == *key {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
