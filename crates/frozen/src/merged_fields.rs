//! [`MergedFields`]: fields of all files of a snapshot, indexed in memory as if they were one
//! file.
//!
//! With many small files, searching a value in each costs far more than reading the documents that
//! have it. So when queries use a field on many files again, the field is merged in the background,
//! in the format of a file that has this field alone: its values once, in order, with the documents
//! of all files. A query whose fields are all merged executes on one shard.
//!
//! # Invariants
//! 1. Docids are those of the files, one file after another.
//! 2. A field is merged for filtering if all files that have it can filter by it; likewise for
//!    sorting.
//! 3. All merged fields together take at most `bytes_max`. While a field is merged, it takes
//!    several times what it takes afterwards.
//! 4. A field that does not fit is tried again, and takes the place of fields that queries use less
//!    for their bytes.
//!
//! Source of the idea: the "global ordinals" of Lucene and Elasticsearch, which merge the values
//! alone.

use crate::column::FrozenColumn;
use crate::file::FrozenField;
use crate::format::{VERSION, header};
use crate::gather::Gathering;
use crate::merge::{FORWARD_MAX, Merging, Run, write_end};
use crate::partition::Partition;
use crate::path_map::PathMap;
use crate::postings::ValueDocs;
use crate::sections::Sections;
use crate::select::count_all;
use crate::spool::Spools;
use crate::table::{SectionKind, TableWriter};
use crate::top::top;
use crate::{Error, FrozenFile, Result};
use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;
use quire_env::{Env, JobClass};
use quire_index::DocSet;
use quire_model::Document;
use quire_query::{
    Column, Cost, Estimate, FieldInfo, Found, Hit, Leaf, Merged, Order, Ordinals, Path, Prepared,
    Shard, Use,
};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Documents whose values are read at once.
const BATCH_DOCS: u32 = 1024;

/// The fields of a snapshot that are merged, and those that are wanted.
#[derive(Debug)]
pub(crate) struct MergedFields {
    env: Arc<dyn Env>,
    partitions: Arc<[Arc<Partition>]>,
    /// The docid of the first document of each file; none if there are more documents than docids.
    starts: Option<Arc<[u32]>>,
    documents: u32,
    bytes_max: u64,
    /// A file in memory for each.
    ready: ArcSwap<PathMap<ReadyField>>,
    wanted: Mutex<HashMap<Path, Wanted>>,
    /// Whether a field did not fit: the uses of those that are merged are counted then.
    is_full: AtomicBool,
    /// Held while a field is merged.
    merging: Mutex<()>,
}

#[derive(Debug, Clone)]
struct ReadyField {
    file: Arc<FrozenFile>,
    bytes: u64,
    filterable: bool,
    sortable: bool,
    /// Queries that used it since a field did not fit, or since it was last compared with one.
    uses: Arc<AtomicU64>,
}

/// The state of a field that is not merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// One query has needed it: the next one has it merged.
    Once,
    /// It is being merged, or can't be, or could not be read.
    Settled,
    /// It did not fit. `needed` queries have needed it since. After `patience` queries it is
    /// compared with those that are merged, and takes their place if it is used more for its bytes.
    Refused { needed: u64, patience: u64 },
}

/// Queries that need a field which did not fit, before it is tried again; twice as many each time.
const PATIENCE: u64 = 32;
const PATIENCE_MAX: u64 = 1 << 20;

impl MergedFields {
    /// `wanted` are fields that queries have needed before.
    pub(crate) fn new(
        env: Arc<dyn Env>,
        partitions: Arc<[Arc<Partition>]>,
        bytes_max: u64,
        wanted: impl Iterator<Item = Path>,
    ) -> MergedFields {
        let mut documents = 0u32;
        let starts = partitions.iter().map(|one| {
            let start = documents;
            documents = documents.checked_add(one.file.documents())?;
            Some(start)
        });
        MergedFields {
            starts: starts.collect(),
            documents,
            env,
            partitions,
            bytes_max,
            ready: ArcSwap::default(),
            wanted: Mutex::new(wanted.map(|path| (path, Wanted::Once)).collect()),
            is_full: AtomicBool::new(false),
            merging: Mutex::default(),
        }
    }

    /// The fields that queries have needed.
    pub(crate) fn wanted(&self) -> Vec<Path> {
        self.wanted.lock().keys().cloned().collect()
    }

    /// Calls `execute` with a shard of all documents and the fields of a query; returns none if one
    /// of them is not merged, or not for its use. A missing field is merged in the background when
    /// it is needed for the second time, unless it is of no file. Nothing that threads share is
    /// written to.
    pub(crate) fn with_shard<T>(
        self: &Arc<Self>,
        query: &Prepared,
        is_of_no_file: impl Fn(&Path) -> Result<bool>,
        execute: impl FnOnce(&dyn Merged) -> quire_query::Result<T>,
    ) -> quire_query::Result<Option<T>> {
        let Some(starts) = self.starts.as_deref() else {
            return Ok(None);
        };
        let ready = self.ready.load();
        let is_full = self.is_full.load(Ordering::Relaxed);
        let (mut fields, mut is_whole) = (SmallVec::new(), true);
        let mut failed = None;
        query.each_use(&mut |path, purpose| match ready.get(path) {
            Some(field) => {
                if is_full {
                    field.uses.fetch_add(1, Ordering::Relaxed);
                }
                is_whole &= match purpose {
                    Use::Filter => field.filterable,
                    Use::Column => field.sortable,
                };
                fields.push((path, &*field.file));
            }
            None => match is_of_no_file(path) {
                Ok(true) => {}
                Ok(false) => {
                    is_whole = false;
                    self.want(path);
                }
                Err(error) => failed = Some(error),
            },
        });
        match failed {
            Some(error) => Err(error.into()),
            None if !is_whole => Ok(None),
            None => execute(&MergedShard {
                starts,
                documents: self.documents,
                fields,
            })
            .map(Some),
        }
    }

    fn want(self: &Arc<Self>, path: &Path) {
        let mut wanted = self.wanted.lock();
        match wanted.get_mut(path) {
            None => drop(wanted.insert(path.clone(), Wanted::Once)),
            Some(Wanted::Settled) => {}
            Some(Wanted::Refused { needed, patience }) if *needed + 1 < *patience => *needed += 1,
            Some(state) => {
                let before = std::mem::replace(state, Wanted::Settled);
                let (fields, path) = (Arc::downgrade(self), path.clone());
                let merge = move || {
                    if let Some(fields) = fields.upgrade() {
                        // If a file can't be read, a query on it reports the error.
                        let _ = fields.merge(&path, before);
                    }
                };
                self.env
                    .schedule(JobClass::Compaction, Duration::ZERO, Box::new(merge));
            }
        }
    }

    /// Merges a field, if it fits, or if it is used more than what it takes the place of. `before`
    /// is the state in which it was found to be needed.
    fn merge(&self, path: &Path, before: Wanted) -> Result<()> {
        let _alone = self.merging.lock();
        let (mut filterable, mut sortable, mut bytes) = (true, true, 0u64);
        let (mut pairs, mut distinct) = (0u64, 0u64);
        for one in &*self.partitions {
            if let Some(FrozenField { entry, number, .. }) = one.file.field_at(path)? {
                filterable &= entry.filterable;
                sortable &= entry.sortable;
                pairs = pairs.saturating_add(entry.pairs);
                distinct = distinct.saturating_add(entry.distinct);
                let table = one.file.sections.table();
                let section = table.section_of(Some(number), SectionKind::Values);
                let section = section.and_then(|section| table.section(section));
                bytes = bytes.saturating_add(section.map_or(0, |section| section.bytes));
            }
        }
        // The values of all files; and a docid and a code, in as many bits as they need, for each.
        let bits = |number: u64| u64::from(u64::BITS - number.leading_zeros());
        let of_pair = bits(self.documents.into()) + bits(distinct);
        bytes = bytes.saturating_add(pairs.saturating_mul(of_pair) / 8);
        if !(filterable || sortable) || bytes > self.bytes_max {
            return Ok(());
        }
        let left = self.make_room(bytes, before);
        if bytes > left {
            self.refuse(path, before);
            return Ok(());
        }
        let file = self.merged_file(path, filterable)?;
        let bytes = file.len() as u64;
        let name = format!("{path} of all files");
        let sections = Sections::of_bytes(FilePath::new(&name), Bytes::from(file))?;
        // The estimate was above: a field of many small sections can still be larger.
        if bytes > left {
            self.refuse(path, before);
        } else {
            let mut ready = PathMap::clone(&self.ready.load());
            let file = Arc::new(FrozenFile::of_sections(sections));
            let field = ReadyField {
                file,
                bytes,
                filterable,
                sortable,
                uses: Arc::default(),
            };
            ready.insert(path.clone(), field);
            self.ready.store(Arc::new(ready));
        }
        Ok(())
    }

    /// Bytes that are left, after fields were given up that are used less than one of `bytes` which
    /// was refused before.
    fn make_room(&self, bytes: u64, before: Wanted) -> u64 {
        let mut ready = PathMap::clone(&self.ready.load());
        let taken: u64 = ready.iter().map(|(_, field)| field.bytes).sum();
        let mut left = self.bytes_max.saturating_sub(taken);
        let Wanted::Refused { needed, .. } = before else {
            return left;
        };
        let mut others: Vec<_> = ready
            .iter()
            .map(|(path, field)| {
                let uses = field.uses.swap(0, Ordering::Relaxed);
                (uses as f64 / field.bytes as f64, path.clone(), field.bytes)
            })
            .collect();
        others.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
        let mut given_up = Vec::new();
        for (use_of_byte, path, own) in others {
            // Twice as much, so that two fields do not take each other's place again and again.
            if left >= bytes || 2.0 * use_of_byte >= needed as f64 / bytes as f64 {
                break;
            }
            left += own;
            given_up.push(path);
        }
        if left >= bytes && !given_up.is_empty() {
            for path in given_up {
                ready.remove(&path);
                self.refuse(&path, Wanted::Once);
            }
            self.ready.store(Arc::new(ready));
        }
        left
    }

    /// Remembers that a field did not fit, and when to try again.
    fn refuse(&self, path: &Path, before: Wanted) {
        self.is_full.store(true, Ordering::Relaxed);
        let patience = match before {
            Wanted::Refused { patience, .. } => (2 * patience).min(PATIENCE_MAX),
            Wanted::Once | Wanted::Settled => PATIENCE,
        };
        let refused = Wanted::Refused {
            needed: 0,
            patience,
        };
        self.wanted.lock().insert(path.clone(), refused);
    }

    /// A file of the field, with the documents of all files.
    fn merged_file(&self, path: &Path, filterable: bool) -> Result<Vec<u8>> {
        let mut gathering = Gathering::default();
        for one in &*self.partitions {
            match one.file.field_at(path)? {
                Some(field) => gather(&field, &mut gathering)?,
                None => (0..one.file.documents()).for_each(|_| gathering.end_document()),
            }
        }
        // All stays in memory.
        let spools = Spools::new(Arc::clone(&self.env), FilePath::new(""), usize::MAX);
        let mut spool = spools.spool();
        // With codes in any case: they are faster to test whether some documents match.
        let field = gathering.write_run(0, true, &mut spool)?;
        let run = Run {
            bytes: spool.finish()?,
            documents: self.documents,
            fields: vec![field],
        };
        let merging = Merging {
            spools: &spools,
            runs: &[run],
            documents: self.documents,
            field: 0,
            path: path.as_str(),
            filterable,
            sortable: true,
            forward_max: FORWARD_MAX,
        };
        let (mut table, mut file) = (TableWriter::default(), header(VERSION).to_vec());
        merging.merge()?.write(&mut table, &mut file)?;
        write_end(table, &[], self.documents, &mut file)?;
        Ok(file)
    }
}

/// Adds the values that the documents of a file have.
fn gather(field: &FrozenField<'_>, to: &mut Gathering) -> Result<()> {
    let (dictionary, mut term) = (field.dictionary()?, Vec::new());
    let damaged = field.damaged(SectionKind::Values);
    let mut numbers = Vec::new();
    for code in 0..dictionary.len() {
        term.clear();
        dictionary.append_value(code, &mut term).map_err(&damaged)?;
        numbers.push(to.number(&term)?);
    }
    let documents = field.file.documents();
    if !field.has_codes() {
        return gather_postings(field, &numbers, to);
    }
    let (column, mut ordinals) = (FrozenColumn::new(field)?, Ordinals::default());
    let mut start = 0;
    while start < documents {
        let end = documents.min(start.saturating_add(BATCH_DOCS));
        let docs: Vec<u32> = (start..end).collect();
        column.read(&docs, &mut ordinals)?;
        for codes in ordinals.iter() {
            for code in codes {
                to.add_number(number(field, &numbers, *code)?);
            }
            to.end_document();
        }
        start = end;
    }
    Ok(())
}

/// The same by the documents of each value.
fn gather_postings(field: &FrozenField<'_>, numbers: &[u32], to: &mut Gathering) -> Result<()> {
    let mut pairs = Vec::new();
    for (code, number) in (0..).zip(numbers) {
        let docs: DocSet = match field.of_value(code)? {
            ValueDocs::Set(set) => set.to_doc_set(),
            ValueDocs::List(docs) => docs,
        };
        pairs.extend(docs.iter().map(|doc| (doc, *number)));
    }
    pairs.sort_unstable();
    let mut pairs = pairs.into_iter().peekable();
    for doc in 0..field.file.documents() {
        while let Some((_, number)) = pairs.next_if(|(next, _)| *next == doc) {
            to.add_number(number);
        }
        to.end_document();
    }
    Ok(())
}

fn number(field: &FrozenField<'_>, numbers: &[u32], code: u64) -> Result<u32> {
    let number = usize::try_from(code)
        .ok()
        .and_then(|code| numbers.get(code));
    number.copied().ok_or_else(|| {
        let offset = field.file.sections.trailer().table_offset;
        Error::corrupt(field.file.path(), "codes", offset)
    })
}

/// All documents of a snapshot as one shard, with the fields of a query.
#[derive(Debug)]
struct MergedShard<'a> {
    starts: &'a [u32],
    documents: u32,
    fields: SmallVec<[(&'a Path, &'a FrozenFile); 4]>,
}

impl MergedShard<'_> {
    fn file(&self, path: &Path) -> Option<&FrozenFile> {
        let mut fields = self.fields.iter();
        fields.find(|(own, _)| *own == path).map(|(_, file)| *file)
    }
}

impl Merged for MergedShard<'_> {
    fn shard(&self) -> &dyn Shard {
        self
    }

    fn hit(&self, doc: u32) -> Hit {
        let after = self.starts.partition_point(|start| *start <= doc);
        let place = after.saturating_sub(1);
        let start = self.starts.get(place).copied().unwrap_or(0);
        Hit {
            shard: place as u32,
            doc: doc - start,
        }
    }
}

impl Shard for MergedShard<'_> {
    fn doc_end(&self) -> u32 {
        self.documents
    }

    fn field(&self, path: &Path) -> quire_query::Result<Option<FieldInfo<'_>>> {
        self.file(path).map_or(Ok(None), |file| file.field(path))
    }

    fn estimate(&self, leaf: &Leaf) -> quire_query::Result<Estimate> {
        match self.file(&leaf.path) {
            Some(file) => file.estimate(leaf),
            None => Ok(Estimate::exactly(0, Cost::Stored)),
        }
    }

    fn count(&self, leaves: &[&Leaf]) -> quire_query::Result<Option<u64>> {
        match leaves {
            [leaf] => self
                .file(&leaf.path)
                .map_or(Ok(Some(0)), |file| file.count(leaves)),
            leaves => {
                let find = |path: &Path| match self.file(path) {
                    Some(file) => file.filterable(path),
                    None => Ok(None),
                };
                Ok(count_all(leaves, find)?)
            }
        }
    }

    fn matches(&self, leaf: &Leaf, found: Found) -> quire_query::Result<DocSet> {
        match self.file(&leaf.path) {
            Some(file) => file.matches(leaf, found),
            None => Ok(DocSet::empty()),
        }
    }

    fn retain(&self, leaf: &Leaf, found: Found, docs: &mut DocSet) -> quire_query::Result<()> {
        match self.file(&leaf.path) {
            Some(file) => file.retain(leaf, found, docs),
            None => {
                *docs = DocSet::empty();
                Ok(())
            }
        }
    }

    fn first(&self, order: &Order, docs: u64) -> quire_query::Result<Option<DocSet>> {
        match self.file(&order.path) {
            Some(file) => file.first(order, docs),
            None => Ok(None),
        }
    }

    fn top(
        &self,
        leaves: &[&Leaf],
        order: &Order,
        hits_max: u64,
    ) -> quire_query::Result<Option<Vec<u32>>> {
        let find = |_, path: &Path| match self.file(path) {
            Some(file) => file.field_at(path),
            None => Ok(None),
        };
        Ok(top(leaves, order, hits_max, self.documents, find)?)
    }

    fn column(&self, path: &Path) -> quire_query::Result<Option<Box<dyn Column + '_>>> {
        self.file(path).map_or(Ok(None), |file| file.column(path))
    }

    fn document(&self, _: u32) -> quire_query::Result<Option<Document>> {
        Ok(None)
    }
}
