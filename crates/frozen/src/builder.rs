//! [`FrozenBuilder`]: documents become a file, in one pass and in bounded memory.
//!
//! # Invariants
//! 1. The file has its name only when it is whole and durable. Until then it is `<name>.tmp`, and
//!    data that does not fit in memory is in `<name>.tmp-<n>` beside it. Dropping the builder
//!    removes these files.
//! 2. The same documents, fields and options make the same bytes, except that the limit of memory
//!    may decide how values are encoded.

use crate::block_sink::BlockSink;
use crate::flat::{Flat, FlatValues};
use crate::format::{VERSION, header};
use crate::gather::FieldRun;
use crate::gather::Gathering;
use crate::merge::{CODED_VALUES_MAX, FORWARD_MAX, Merging, Run, write_end, write_section};
use crate::options::check_fields;
use crate::rows::{ROW_BYTES_MAX, RowsWriter};
use crate::shapes::ShapesWriter;
use crate::spool::{Spool, Spools, create_anew};
use crate::table::{SectionKind, TableWriter};
use crate::{Error, FieldSpec, FrozenOptions, Result};
use quire_env::{AppendFile, Env, parent_of};
use quire_index::term;
use quire_model::{Document, ValueRef};
use quire_query::Path as FieldPath;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most documents.
const DOCUMENTS_MAX: u32 = u32::MAX - 1;
/// The builder checks its memory after this number of documents.
const LOOK_DOCUMENTS: u32 = 256;
/// Size of the pieces in which the file is written.
const PIECE_BYTES: usize = 256 << 10;
/// A run ends at this size, however much memory there is: its maps lie in a processor's cache.
const RUN_BYTES_MAX: usize = 16 << 20;
/// The first documents are stored, even if the columns could give them back: a hit of a small file
/// takes one read then. A folder has many of these.
pub(crate) const STORED_FIRST: u32 = 4096;

/// Builds a frozen partition. A document's docid is its place among those added, from 0.
///
/// ```
/// use quire_env::{Env, SimEnv};
/// use quire_frozen::{FieldSpec, FrozenBuilder, FrozenFile, FrozenOptions, OpenOptions};
/// use quire_model::Document;
/// use std::path::Path;
/// use std::sync::Arc;
///
/// let env: Arc<dyn Env> = SimEnv::new(1);
/// let fields = [FieldSpec::full("price"), FieldSpec::filterable("mark")];
/// let path = Path::new("/cars.quire");
/// let options = FrozenOptions::default();
/// let mut builder = FrozenBuilder::create(Arc::clone(&env), path, &fields, options)?;
/// let car = Document::from_json(br#"{"mark": "saab", "price": 1200}"#)?;
/// let docid = builder.add(&car, b"a payload of any kind")?;
/// builder.finish()?;
///
/// let file = FrozenFile::open(&*env, path, OpenOptions::default())?;
/// assert_eq!((file.documents(), docid), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FrozenBuilder {
    env: Arc<dyn Env>,
    path: PathBuf,
    options: FrozenOptions,
    out: Out,
    pub(crate) spools: Spools,
    fields: Vec<FieldSpec>,
    paths: Vec<FieldPath>,
    gathered: Vec<Gathering>,
    /// Whether a document has a value of the field.
    is_used: Vec<bool>,
    /// Documents of the run that is being gathered.
    open: u32,
    /// The runs, one behind the other: of each the number of documents, and where its fields are.
    pub(crate) run_bytes: Spool,
    runs: Vec<(u32, Vec<FieldRun>)>,
    count: u32,
    documents: RowsWriter,
    flat: Flat,
    shapes: ShapesWriter,
    payloads: RowsWriter,
    /// An error has left a document half added.
    is_unusable: bool,
    term: Vec<u8>,
    pub(crate) forward_max: u32,
    pub(crate) stored_first: u32,
}

/// The file that is being written. It is removed when dropped, unless it has its name.
#[derive(Debug)]
struct Out {
    env: Arc<dyn Env>,
    file: Box<dyn AppendFile>,
    waiting: Vec<u8>,
    is_named: bool,
}

impl BlockSink for Out {
    fn offset(&self) -> u64 {
        self.file.len() + self.waiting.len() as u64
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= PIECE_BYTES {
            self.file.append(&self.waiting)?;
            self.waiting.clear();
        }
        Ok(())
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        if !self.is_named {
            // A file that is left behind is overwritten by the next build.
            let _ = self.env.remove(self.file.path());
        }
    }
}

impl FrozenBuilder {
    /// Begins a partition that will be at `path`, where it replaces any file. There may be one
    /// builder at a time for a path.
    ///
    /// # Errors
    /// `InvalidArgument` for fields or options that are not allowed; and errors of the machine.
    pub fn create(
        env: Arc<dyn Env>,
        path: &Path,
        fields: &[FieldSpec],
        options: FrozenOptions,
    ) -> Result<FrozenBuilder> {
        options.check()?;
        check_fields(fields)?;
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let mut out = Out {
            file: create_anew(&*env, Path::new(&temporary))?,
            env: Arc::clone(&env),
            waiting: Vec::new(),
            is_named: false,
        };
        out.append(&header(VERSION))?;
        let spools = Spools::new(Arc::clone(&env), path, options.memory_bytes / 64);
        let rows_memory = options.memory_bytes / 8;
        let rows = || RowsWriter::new(&spools, options.codec, options.block_bytes(), rows_memory);
        Ok(FrozenBuilder {
            path: path.to_path_buf(),
            out,
            fields: fields.to_vec(),
            paths: fields
                .iter()
                .map(|field| FieldPath::new(&field.path))
                .collect(),
            gathered: fields.iter().map(|_| Gathering::default()).collect(),
            is_used: vec![false; fields.len()],
            open: 0,
            run_bytes: spools.with_memory(options.memory_bytes / 4).spool(),
            runs: Vec::new(),
            count: 0,
            documents: rows(),
            flat: Flat::new(fields),
            shapes: ShapesWriter::new(fields, &spools),
            payloads: rows(),
            is_unusable: false,
            term: Vec::new(),
            forward_max: FORWARD_MAX,
            stored_first: STORED_FIRST,
            env,
            options,
            spools,
        })
    }

    /// How many documents were added.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The fields, by their index among those given, that no document has had a value of so far.
    pub fn unused(&self) -> impl Iterator<Item = usize> {
        let all = self.is_used.iter().enumerate();
        all.filter(|(_, is_used)| !**is_used)
            .map(|(field, _)| field)
    }

    /// Adds a document, and a payload, which is returned as it is. Returns the docid.
    ///
    /// # Errors
    /// `TooLarge` for a document too many, or a payload over [`ROW_BYTES_MAX`]; and errors of the
    /// machine. The builder is then unusable.
    pub fn add(&mut self, document: &Document, payload: &[u8]) -> Result<u32> {
        self.add_seen_as(document, document, payload)
    }

    /// As [`add`](Self::add), with the values of `seen` in place of the document's own.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn add_seen_as(
        &mut self,
        document: &Document,
        seen: &Document,
        payload: &[u8],
    ) -> Result<u32> {
        let values = self.flat.values(seen.root());
        let set = match &values {
            Some(values) => self.set_flat(values),
            None => self.set_all(seen),
        };
        self.is_unusable |= set.is_err();
        set?;
        if !self.options.documents {
            return self.end_row(None, &[], payload);
        }
        let values = values.filter(|_| self.count >= self.stored_first && document == seen);
        match values.and_then(|values| self.shape_of(&values)) {
            Some(shape) => self.end_row(Some(shape), &[], payload),
            None => self.end_row(None, document.as_bytes(), payload),
        }
    }

    /// Adds the values of a flat document.
    fn set_flat(&mut self, values: &FlatValues<'_>) -> Result<()> {
        values.iter().try_for_each(|(field, value)| match field {
            Some(field) => self.set(*field as usize, *value),
            None => Ok(()),
        })
    }

    /// Adds the values of a document.
    fn set_all(&mut self, document: &Document) -> Result<()> {
        let paths = std::mem::take(&mut self.paths);
        let mut outcome = Ok(());
        for (field, path) in paths.iter().enumerate() {
            let visited = path.visit(document.root(), &mut |value| {
                outcome = self.set(field, value);
                match outcome {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            });
            if visited.is_break() {
                break;
            }
        }
        self.paths = paths;
        outcome
    }

    /// The shape of the open document, which has these values, if the columns can give it back.
    fn shape_of(&mut self, values: &FlatValues<'_>) -> Option<usize> {
        // A field may have a value more, which was set.
        let is_single = |field: &u32| {
            let gathered = self.gathered.get(*field as usize);
            gathered.is_some_and(|gathered| gathered.open_values() == 1)
        };
        let mut fields = values.iter().filter_map(|(field, _)| field.as_ref());
        fields.all(is_single).then_some(())?;
        self.shapes.shape_of(values)
    }

    /// Adds a value of the next document, which [`end`](Self::end) ends: for values without a
    /// document. `field` is the field's index among those given. Arrays and objects are ignored; a
    /// value that is added twice counts once.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such field.
    pub fn set(&mut self, field: usize, value: ValueRef<'_>) -> Result<()> {
        self.term.clear();
        if !term::encode(value, &mut self.term) {
            return Ok(());
        }
        match (self.gathered.get_mut(field), self.is_used.get_mut(field)) {
            (Some(gathered), Some(is_used)) => {
                *is_used = true;
                gathered.add(&self.term)
            }
            _ => Err(Error::InvalidArgument(format!("there is no field {field}"))),
        }
    }

    /// Adds a document of the values that were [set](Self::set). The document itself is not stored.
    /// Returns the docid.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn end(&mut self, payload: &[u8]) -> Result<u32> {
        self.end_row(None, &[], payload)
    }

    fn end_row(&mut self, shape: Option<usize>, document: &[u8], payload: &[u8]) -> Result<u32> {
        let was_unusable = std::mem::replace(&mut self.is_unusable, true);
        let too_large = |what, limit: u64, found: u64| Err(Error::TooLarge { what, limit, found });
        if self.count == DOCUMENTS_MAX {
            let limit = DOCUMENTS_MAX.into();
            return too_large("a partition in documents", limit, limit + 1);
        }
        let longest = document.len().max(payload.len());
        if longest > ROW_BYTES_MAX {
            return too_large("a row in bytes", ROW_BYTES_MAX as u64, longest as u64);
        }
        self.documents.push(document, &mut self.out)?;
        self.shapes.push(shape)?;
        self.payloads.push(payload, &mut self.out)?;
        self.gathered.iter_mut().for_each(Gathering::end_document);
        let docid = self.count;
        self.count += 1;
        self.open += 1;
        if self.count.is_multiple_of(LOOK_DOCUMENTS) {
            let used: usize = self.gathered.iter().map(Gathering::used).sum();
            // Twice that may be held.
            if used > RUN_BYTES_MAX.min(self.options.memory_bytes / 4) {
                self.end_run()?;
            }
        }
        self.is_unusable = was_unusable;
        Ok(docid)
    }

    /// Writes the gathered values as a run.
    pub(crate) fn end_run(&mut self) -> Result<()> {
        let first = self.count - self.open;
        let mut fields = Vec::new();
        for (field, gathered) in self.fields.iter().zip(&mut self.gathered) {
            let is_coded = gathered.values() as u64 <= CODED_VALUES_MAX;
            let by_document = field.sortable || is_coded || self.count <= self.forward_max;
            fields.push(gathered.write_run(first, by_document, &mut self.run_bytes)?);
        }
        assert!(
            fields.len() == self.fields.len(),
            "a run has a part for each field"
        );
        self.runs.push((std::mem::take(&mut self.open), fields));
        Ok(())
    }

    /// Writes the rest, makes the file durable and gives it its name. Returns its length in bytes.
    ///
    /// # Errors
    /// Errors of the machine; and `InvalidArgument` if adding a document has failed. The name is
    /// then as before, unless making the new one durable failed.
    pub fn finish(mut self) -> Result<u64> {
        if self.is_unusable {
            let what = "an error has left a document half added: build the partition anew";
            return Err(Error::InvalidArgument(what.into()));
        }
        self.end_run()?;
        let bytes = self.run_bytes.finish()?;
        let runs = self.runs.into_iter().map(|(documents, fields)| Run {
            bytes: bytes.clone(),
            documents,
            fields,
        });
        let runs: Vec<_> = runs.collect();
        let documents: u64 = runs.iter().map(|run| u64::from(run.documents)).sum();
        assert!(
            documents == u64::from(self.count),
            "the runs have all documents"
        );
        assert!(
            self.documents.rows() == self.count,
            "each document has a row"
        );
        assert!(
            self.payloads.rows() == self.count,
            "each document has a payload row"
        );
        self.gathered.clear();
        let mut table = TableWriter::default();
        let mut own = Vec::new();
        for (kind, rows) in [
            (SectionKind::Documents, self.documents),
            (SectionKind::Payloads, self.payloads),
        ] {
            if rows.has_bytes() {
                let directory = rows.finish(&self.spools, &mut self.out)?;
                own.push((kind, write_section(&directory, &mut self.out)?));
            }
        }
        let mut order: Vec<_> = self.fields.iter().enumerate().collect();
        order.sort_unstable_by_key(|(_, field)| &field.path);
        let mut numbers = vec![0; order.len()];
        for (number, (field, _)) in (0..).zip(&order) {
            if let Some(to) = numbers.get_mut(*field) {
                *to = number;
            }
        }
        if let Some(shapes) = self.shapes.finish(&numbers)? {
            own.push((SectionKind::Shapes, write_section(&shapes, &mut self.out)?));
        }
        for (field, spec) in order {
            let merged = Merging {
                spools: &self.spools,
                runs: &runs,
                documents: self.count,
                field,
                path: &spec.path,
                filterable: spec.filterable,
                sortable: spec.sortable,
                forward_max: self.forward_max,
            }
            .merge()?;
            merged.write(&mut table, &mut self.out)?;
        }
        write_end(table, &own, self.count, &mut self.out)?;
        let bytes = self.out.offset();
        let waiting = std::mem::take(&mut self.out.waiting);
        self.out.file.append(&waiting)?;
        assert!(self.out.file.len() == bytes, "all of the file was appended");
        self.out.file.sync()?;
        self.env.rename(self.out.file.path(), &self.path)?;
        self.out.is_named = true;
        self.env.sync_dir(parent_of(&self.path))?;
        Ok(bytes)
    }
}
