//! Which fields the documents of a collection have, and what their values are like.

use crate::collection::Collection;
use crate::field_stats::{CollectionFields, FieldStats};
use crate::frozen_fields::fields_of;
use crate::view::View;
use crate::{Error, Result};
use quire_collection::{FieldFigures, Fields};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

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
        let mut fields = self.view()?.fields(progress)?;
        if fields.from_index {
            let index = self.stats()?.index.map_or(0, |index| index.bytes);
            let all: u64 = fields.fields.iter().map(|field| field.index_bytes).sum();
            for field in &mut fields.fields {
                let share = u128::from(field.index_bytes) * u128::from(index);
                field.index_bytes = (share / u128::from(all.max(1))) as u64;
            }
        }
        Ok(fields)
    }
}

impl View {
    /// The paths with one of some prefixes that its documents have values at, and perhaps some that
    /// they had. Where the search index does not have them, documents are read; `progress` is shown
    /// their number from time to time, and can end it.
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
        for partition in self.partitions()? {
            if let Some(listed) = partition.paths_below(prefixes)? {
                paths.extend(listed);
                continue;
            }
            let read = partition.fields(progress)?;
            let read = read.ok_or(Error::Query(quire_query::Error::Stopped))?;
            let read = read.by_path.into_keys();
            paths
                .extend(read.filter(|path| prefixes.iter().any(|prefix| path.starts_with(prefix))));
        }
        Ok(paths)
    }

    /// The fields of its documents; of a frozen collection those that were frozen, without
    /// examples. Bytes of the index are those before compression.
    ///
    /// # Errors
    /// As of [`Collection::fields_with`].
    pub fn fields(
        &self,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<CollectionFields> {
        if let Some(files) = self.frozen() {
            return fields_of(files);
        }
        let mut all: Option<Fields> = None;
        let mut before = 0;
        for partition in self.partitions()? {
            let mut see = |read| progress(before + read);
            let found = partition.fields(&mut see)?;
            let found = found.ok_or(Error::Query(quire_query::Error::Stopped))?;
            before += partition.count();
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
