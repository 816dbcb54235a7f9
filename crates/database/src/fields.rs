//! Which fields the documents of a collection have, and what their values are like.

use crate::collection::Collection;
use crate::field_stats::{CollectionFields, FieldStats};
use crate::frozen_fields::fields_of;
use crate::view::{PartView, View};
use crate::wide::WideCollection;
use crate::{CollectionStats, Error, Result};
use quire_collection::{FieldFigures, Fields};
use quire_query::Path;
use quire_wide::{ColumnType, REST, Schema};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Paths with one prefix that are found in rows of a wide collection; a query is about fewer.
const WIDE_PATHS_MAX: usize = 1_001;

impl Collection {
    /// The fields of its documents, as of now: from the search index if that is complete and has
    /// all fields, else by reading every document.
    ///
    /// ```
    /// use quiredb::{Database, Document};
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path())?;
    /// let cars = database.collection_or_create("cars", Default::default)?;
    /// cars.put(&Document::from_json(br#"{"_id":"a","at":{"city":"Ulm"}}"#)?)?;
    /// let fields = cars.fields()?.fields;
    /// assert_eq!(fields[1].path, "at.city");
    /// assert_eq!(fields[1].examples, [r#""Ulm""#]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Closed`; `Corrupt` for damage.
    pub fn fields(&self) -> Result<CollectionFields> {
        self.fields_with(&mut |_| ControlFlow::Continue(()))
    }

    /// As [`fields`](Collection::fields). Where documents are read for it, `progress` is shown
    /// their number from time to time, and can end it.
    ///
    /// # Errors
    /// As of [`fields`](Collection::fields); `Stopped` if `progress` ended it.
    pub fn fields_with(
        &self,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<CollectionFields> {
        with_index_bytes(self.view()?.fields(progress)?, || self.stats())
    }
}

impl WideCollection {
    /// The fields of its rows, as of now, but the members of families: from the search index if
    /// that is complete and has all of them, else by reading these columns of every row.
    ///
    /// # Errors
    /// `Closed`; `Corrupt` for damage; `TooLarge` if a row's undeclared fields are more than a
    /// document may have.
    pub fn fields(&self) -> Result<CollectionFields> {
        self.fields_with(&mut |_| ControlFlow::Continue(()))
    }

    /// As [`fields`](WideCollection::fields). Where rows are read for it, `progress` is shown their
    /// number from time to time, and can end it.
    ///
    /// # Errors
    /// As of [`fields`](WideCollection::fields); `Stopped` if `progress` ended it.
    pub fn fields_with(
        &self,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<CollectionFields> {
        with_index_bytes(self.view()?.fields(progress)?, || self.stats())
    }
}

/// Gives each field its share of the bytes that the index takes on disk.
fn with_index_bytes(
    mut fields: CollectionFields,
    stats: impl FnOnce() -> Result<CollectionStats>,
) -> Result<CollectionFields> {
    if fields.from_index {
        let on_disk = stats()?.index.map_or(0, |index| index.bytes);
        let all: u64 = fields.fields.iter().map(|field| field.index_bytes).sum();
        for field in &mut fields.fields {
            let share = u128::from(field.index_bytes) * u128::from(on_disk);
            field.index_bytes = (share / u128::from(all.max(1))) as u64;
        }
    }
    Ok(fields)
}

impl View {
    /// The paths with one of some prefixes that its documents have values at, and perhaps some that
    /// they had. Where the search index does not have them, documents are read; `progress` is shown
    /// their number from time to time, and can end it. Of a wide collection the columns are read
    /// that objects can be in, until 1,001 paths with one prefix are found.
    ///
    /// # Errors
    /// As of [`Collection::fields_with`].
    pub fn paths_below(
        &self,
        prefixes: &[String],
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<BTreeSet<String>> {
        let mut paths = BTreeSet::new();
        if let Some(files) = self.frozen() {
            let fields = fields_of(files)?.fields.into_iter().map(|field| field.path);
            let is_below = |path: &String| prefixes.iter().any(|prefix| path.starts_with(prefix));
            return Ok(fields.filter(is_below).collect());
        }
        if let [PartView::Wide(..), ..] = self.parts()[..] {
            return self.paths_of_rows(prefixes, progress);
        }
        for partition in self.partitions()? {
            if let Some(listed) = partition.paths_below(prefixes)? {
                paths.extend(listed);
                continue;
            }
            let read = PartView::Plain(partition).fields(progress)?;
            let read = read.by_path.into_keys();
            paths
                .extend(read.filter(|path| prefixes.iter().any(|prefix| path.starts_with(prefix))));
        }
        Ok(paths)
    }

    /// As [`paths_below`](View::paths_below), of a wide collection.
    fn paths_of_rows(
        &self,
        prefixes: &[String],
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<BTreeSet<String>> {
        let mut found = vec![BTreeSet::new(); prefixes.len()];
        let mut read = 0;
        for part in self.parts() {
            let PartView::Wide(view, _) = part else {
                continue;
            };
            let fields = objects_of(view.schema(), prefixes);
            if fields.is_empty() {
                break;
            }
            let mut rows = part.rows_of(Some(&fields))?;
            loop {
                let batch = rows.next_batch()?;
                if batch.is_empty() {
                    break;
                }
                for (_, row) in &batch {
                    Path::each_in(row.document.root(), &mut |path| {
                        add_below(path, prefixes, &mut found);
                    });
                }
                if found.iter().any(|paths| paths.len() >= WIDE_PATHS_MAX) {
                    return Ok(found.into_iter().flatten().collect());
                }
                read += batch.len() as u64;
                if progress(read).is_break() {
                    return Err(Error::Query(quire_query::Error::Stopped));
                }
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// The fields of its documents; of a frozen collection those that were frozen, without
    /// examples, and of a wide one all but the members of families. Bytes of the index are those
    /// before compression.
    ///
    /// # Errors
    /// As of [`Collection::fields_with`] and [`WideCollection::fields_with`].
    pub fn fields(
        &self,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<CollectionFields> {
        if let Some(files) = self.frozen() {
            return fields_of(files);
        }
        let mut all: Option<Fields> = None;
        let mut before = 0;
        for part in self.parts() {
            let found = part.fields(&mut |read| progress(before + read))?;
            before += part.indexed().map_or(0, |view| view.doc_count());
            match &mut all {
                Some(all) => all.merge(found),
                None => all = Some(found),
            }
        }
        let all = all.unwrap_or_default();
        Ok(CollectionFields {
            documents: self.count(),
            from_index: all.from_index,
            omitted: all.omitted,
            fields: all.by_path.into_iter().map(stats).collect(),
        })
    }
}

impl PartView<'_> {
    /// The fields of its documents; of a wide partition all but the members of families. Where
    /// documents are read for it, `progress` is shown their number from time to time, and can end
    /// it.
    fn fields(self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<Fields> {
        if let Some(view) = self.indexed() {
            let by_index = view.fields_by_index();
            if let Some(fields) = by_index.map_err(quire_collection::Error::from)? {
                return Ok(fields);
            }
        }
        let columns = match self {
            PartView::Wide(view, _) => Some(without_families(view.schema())),
            PartView::Plain(_) | PartView::Frozen(..) => None,
        };
        let (mut fields, mut read) = (Fields::default(), 0);
        let mut rows = self.rows_of(columns.as_deref())?;
        loop {
            if progress(read).is_break() {
                return Err(Error::Query(quire_query::Error::Stopped));
            }
            let batch = rows.next_batch()?;
            if batch.is_empty() {
                return Ok(fields);
            }
            read += batch.len() as u64;
            for (_, found) in batch {
                fields.add(&found.document_with_key()?);
            }
        }
    }
}

/// The columns that are no families, and the one of undeclared fields.
fn without_families(schema: &Schema) -> Vec<&str> {
    let columns = schema.columns().iter().filter(|column| !column.family);
    let rest = schema.keeps_undeclared().then_some(REST);
    columns.map(|column| &*column.name).chain(rest).collect()
}

/// The columns and undeclared fields that paths with these prefixes may lead into. A field's own
/// name may have dots in it.
fn objects_of<'p>(schema: &Schema, prefixes: &'p [String]) -> Vec<&'p str> {
    let names = prefixes.iter().flat_map(|prefix| {
        let ends = prefix.match_indices('.').map(|(end, _)| end);
        ends.chain([prefix.len()]).map(move |end| &prefix[..end])
    });
    let may_have_objects = |name: &&str| match schema.column(name) {
        Some(column) => column.family || column.kind == ColumnType::Json,
        None => schema.keeps_undeclared(),
    };
    names.filter(may_have_objects).collect()
}

/// Adds a path to what was found for each prefix that it is at or below.
fn add_below(path: &str, prefixes: &[String], found: &mut [BTreeSet<String>]) {
    for (prefix, paths) in prefixes.iter().zip(found) {
        let rest = path.strip_prefix(prefix.as_str());
        let ends = prefix.ends_with('.');
        let is_below = rest.is_some_and(|rest| ends || rest.is_empty() || rest.starts_with('.'));
        let is_new = is_below && !paths.contains(path);
        if is_new && paths.len() < WIDE_PATHS_MAX {
            paths.insert(path.to_owned());
        }
    }
}

fn stats((path, figures): (String, FieldFigures)) -> FieldStats {
    let (values, is_exact) = figures.cardinality();
    FieldStats {
        path,
        types: figures.types.into_iter().collect(),
        documents: figures.documents,
        several: figures.has_several,
        values,
        estimated: !is_exact,
        examples: figures.examples,
        index_bytes: figures.index_bytes,
    }
}
