//! Freezing: what a view sees becomes frozen partitions, in one file or a file for each partition.
//! Rows of a wide collection are frozen as the documents that a get of them gives.
//!
//! # Invariants
//! 1. A file, or a folder of files, has its name only when it is whole and durable.
//! 2. Documents come partition by partition, and in it in the order of their docids: so hits come
//!    as from the live collection.
//! 3. A file has every field that the options name, whether any of its documents has it or not.

mod field_search;

pub use self::field_search::FIELDS_MAX;
use self::field_search::{FoundFields, find_fields};
use quire_collection::{Found, id_value};
use quire_database::{Codec, Error, ID, Origin, Result, View, engine};
use quire_env::{Env, ErrorKind as EnvErrorKind, parent_of};
use quire_frozen::{FieldSpec, FrozenBuilder, FrozenOptions};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The dictionary of zstd, with which each document is compressed by itself: a larger one gives
/// little more, and takes longer to train.
const DICTIONARY_BYTES: u32 = 4 << 10;

/// How a view is frozen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreezeOptions {
    /// The fields that queries filter by, or sort by and aggregate; and [`ID`], which filters in
    /// any case. If none are given, all that a document of the view has a value at, for both: each
    /// document is then read twice. More than [`FIELDS_MAX`] are an error.
    pub fields: Option<Vec<FieldSpec>>,
    /// Whether long text is among the fields that nobody names: at least 128 bytes on average, and
    /// hardly two documents with the same (default false). It takes much room, and queries compare
    /// it whole.
    pub long_text: bool,
    /// How documents are packed (default LZ4).
    pub codec: Codec,
    /// Whether the documents themselves are kept (default true). Without, queries count, aggregate
    /// and give the keys of what they find.
    pub documents: bool,
    /// Bytes of memory to build in (8 MiB or more; default 256 MiB). What does not fit goes to
    /// temporary files beside the new ones.
    pub memory_bytes: usize,
}

impl Default for FreezeOptions {
    fn default() -> FreezeOptions {
        FreezeOptions {
            fields: None,
            long_text: false,
            codec: Codec::default(),
            documents: true,
            memory_bytes: FrozenOptions::default().memory_bytes,
        }
    }
}

/// How far freezing is. The view [counts](View::count) the documents that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreezeProgress {
    /// This many documents were read, to know their fields.
    Looked(u64),
    /// This many documents are in files.
    Frozen(u64),
}

/// What was frozen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreezeReport {
    /// How many documents.
    pub documents: u64,
    /// The files, in the order of their documents, and the bytes of each.
    pub files: Vec<(PathBuf, u64)>,
    /// The fields.
    pub fields: Vec<FieldSpec>,
    /// Those of them that no document has a value in: their names may be wrong.
    pub unused: Vec<String>,
    /// Fields that were left out as [long text](FreezeOptions::long_text).
    pub long_texts: Vec<String>,
}

/// Writes what the view sees to one frozen partition at `path`, in the place of a file that is
/// there.
///
/// ```
/// use quiredb::query::{Options, field, find};
/// use quiredb::operations::{FreezeOptions, FrozenView, freeze};
/// use quiredb::{CollectionSettings, Database, Document, Key};
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(&dir.path().join("db"))?;
/// let cars = database.create_collection("cars", CollectionSettings::default())?;
/// cars.put_at(&Key::parse("a")?, &Document::from_json(br#"{"mark":"audi","price":12}"#)?)?;
///
/// let path = dir.path().join("cars.quire");
/// let report = freeze(&cars.view()?, &path, &FreezeOptions::default(), &mut |_| {})?;
/// assert_eq!((report.documents, report.fields.len()), (1, 3));
///
/// let frozen = FrozenView::open(database.env(), &path)?;
/// let cheap = find(field("price").lt(20)).prepare()?;
/// let answer = frozen.query(&cheap, &Options::default())?;
/// let found = &frozen.documents(&answer.hits)?[0].document;
/// assert_eq!(found.to_json(), r#"{"mark":"audi","price":12}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `Invalid` for fields or options that can't be, and for a directory at `path`; `TooLarge` for
/// too many fields or documents, and for a row that is larger than a document may be; `Corrupt` for
/// damage; `Full`.
pub fn freeze(
    view: &View,
    path: &Path,
    options: &FreezeOptions,
    progress: &mut dyn FnMut(FreezeProgress),
) -> Result<FreezeReport> {
    if engine::view_env(view).list(path).is_ok() {
        let path = path.display();
        return Err(Error::Invalid(format!("{path} is a directory")));
    }
    let mut freezing = Freezing::new(view, options, progress)?;
    let bytes = freezing.write(path, 0..view.partition_count())?;
    Ok(freezing.report(vec![(path.to_path_buf(), bytes)]))
}

/// Writes what the view sees to a new folder at `dir`, a frozen partition for each partition.
/// The folder has its name only when all are there.
///
/// # Errors
/// As of [`freeze`]; `Invalid` if there is anything at `dir` already.
pub fn freeze_by_partition(
    view: &View,
    dir: &Path,
    options: &FreezeOptions,
    progress: &mut dyn FnMut(FreezeProgress),
) -> Result<FreezeReport> {
    let env = &**engine::view_env(view);
    if env.exists(dir)? {
        let dir = dir.display();
        return Err(Error::Invalid(format!(
            "{dir} is there already; give a new name"
        )));
    }
    let mut freezing = Freezing::new(view, options, progress)?;
    let mut temporary = dir.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    clear(env, &temporary)?;
    env.create_dir_all(&temporary)?;
    match freezing.write_all(&temporary) {
        Ok(names) => {
            env.rename(&temporary, dir)?;
            env.sync_dir(parent_of(dir))?;
            let files = names.into_iter();
            let files = files.map(|(name, bytes)| (dir.join(name), bytes));
            Ok(freezing.report(files.collect()))
        }
        Err(error) => {
            // What is left behind goes with the next attempt.
            let _ = env.remove_dir_all(&temporary);
            Err(error)
        }
    }
}

/// Removes what an attempt that did not end left; refuses to remove anything else.
fn clear(env: &dyn Env, temporary: &Path) -> Result<()> {
    let names = match env.list(temporary) {
        Err(error) if error.kind() == EnvErrorKind::NotFound => return Ok(()),
        names => names?,
    };
    match names.iter().all(|name| name.contains(".quire")) {
        true => Ok(env.remove_dir_all(temporary)?),
        false => Err(Error::Invalid(format!(
            "{} is in the way; move it elsewhere",
            temporary.display()
        ))),
    }
}

/// Documents on their way to files.
struct Freezing<'a> {
    view: &'a View,
    env: &'a Arc<dyn Env>,
    fields: Vec<FieldSpec>,
    long_texts: Vec<String>,
    /// The place of the field [`ID`] among them.
    id: Option<usize>,
    /// Whether a document has a value of the field.
    is_used: Vec<bool>,
    options: FrozenOptions,
    documents: u64,
    progress: &'a mut dyn FnMut(FreezeProgress),
}

impl<'a> Freezing<'a> {
    fn new(
        view: &'a View,
        options: &FreezeOptions,
        progress: &'a mut dyn FnMut(FreezeProgress),
    ) -> Result<Freezing<'a>> {
        options.codec.check().map_err(Error::Invalid)?;
        let FoundFields { fields, long_texts } = match &options.fields {
            Some(fields) => FoundFields {
                fields: with_id(fields),
                long_texts: Vec::new(),
            },
            None => find_fields(view, options.long_text, &mut |looked| {
                progress(FreezeProgress::Looked(looked));
            })?,
        };
        Ok(Freezing {
            view,
            env: engine::view_env(view),
            id: fields.iter().position(|field| field.path == ID),
            is_used: vec![false; fields.len()],
            fields,
            long_texts,
            options: FrozenOptions {
                codec: options.codec.of_log(DICTIONARY_BYTES),
                documents: options.documents,
                memory_bytes: options.memory_bytes,
                ..FrozenOptions::default()
            },
            documents: 0,
            progress,
        })
    }

    fn report(self, files: Vec<(PathBuf, u64)>) -> FreezeReport {
        let named = self.fields.iter().zip(&self.is_used);
        let unused = named.filter(|(field, is_used)| !**is_used && field.path != ID);
        FreezeReport {
            unused: unused.map(|(field, _)| field.path.clone()).collect(),
            documents: self.documents,
            files,
            fields: self.fields,
            long_texts: self.long_texts,
        }
    }

    /// Writes a file for each partition; their names and bytes.
    fn write_all(&mut self, dir: &Path) -> Result<Vec<(String, u64)>> {
        (0..self.view.partition_count())
            .map(|number| {
                let name = format!("partition-{number:05}.quire");
                let bytes = self.write(&dir.join(&name), number..number + 1)?;
                Ok((name, bytes))
            })
            .collect()
    }

    /// Writes one file of these partitions; its bytes.
    fn write(&mut self, path: &Path, partitions: Range<u32>) -> Result<u64> {
        let (env, options) = (Arc::clone(self.env), self.options.clone());
        let mut builder = FrozenBuilder::create(env, path, &self.fields, options)?;
        let mut payload = Vec::new();
        for partition in partitions {
            let mut rows = engine::view_rows(self.view, partition)?;
            loop {
                let batch = rows.next_batch()?;
                if batch.is_empty() {
                    break;
                }
                self.documents += batch.len() as u64;
                for (_, found) in batch {
                    payload.clear();
                    engine::encode_origin(&Origin::of(&found), &mut payload);
                    add(&mut builder, self.id, found, &payload)?;
                }
                (self.progress)(FreezeProgress::Frozen(self.documents));
            }
        }
        let mut is_used = vec![true; self.is_used.len()];
        for field in builder.unused() {
            if let Some(is_used) = is_used.get_mut(field) {
                *is_used = false;
            }
        }
        for (all, one) in self.is_used.iter_mut().zip(is_used) {
            *all |= one;
        }
        Ok(builder.finish()?)
    }
}

/// Adds a document. Its key is its value of the field at the place `id`, if there is one.
fn add(builder: &mut FrozenBuilder, id: Option<usize>, found: Found, payload: &[u8]) -> Result<()> {
    let document = found.document.clone();
    match (id, document.get(ID)) {
        (Some(id), None) => {
            builder.set(id, id_value(&found.key.to_string()))?;
            builder.add(&document, payload)?;
        }
        (Some(_), Some(_)) => {
            let seen = found.document_with_key()?;
            builder.add_seen_as(&document, &seen, payload)?;
        }
        (None, _) => {
            builder.add(&document, payload)?;
        }
    }
    Ok(())
}

/// The fields, and the one that has the key: every document is found by its key.
fn with_id(fields: &[FieldSpec]) -> Vec<FieldSpec> {
    let mut fields = fields.to_vec();
    match fields.iter_mut().find(|field| field.path == ID) {
        Some(id) => id.filterable = true,
        None => fields.push(FieldSpec::filterable(ID)),
    }
    fields
}
