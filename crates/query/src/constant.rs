//! [`WithConstant`]: a shard whose documents all have one more field, of the same value.

use crate::{
    Access, AccessCost, AccessCosts, Column, Cost, End, Error, Estimate, FieldInfo, Found, Leaf,
    Order, Ordinals, Path, Result, Segment, Shard, Value, WantedFirst,
};
use quire_index::DocSet;
use quire_model::Document;
use std::borrow::Cow;

/// A field that has the same value in all documents of a shard. It hides a field of the same name
/// that they have themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constant {
    path: Path,
    value: Value,
    /// A document with nothing else.
    alone: Document,
}

impl Constant {
    /// A field of this name, which has no dots in it, with this text.
    ///
    /// # Errors
    /// `Invalid` for a text that is longer than a document may be.
    pub fn new(name: &str, text: &str) -> Result<Constant> {
        debug_assert!(
            !name.contains('.'),
            "the field is one of the document itself"
        );
        let (path, value) = (Path::new(name), Value::from(text));
        let mut json = b"{".to_vec();
        Value::from(name).write_json(&mut json);
        json.push(b':');
        value.write_json(&mut json);
        json.push(b'}');
        let alone = Document::from_json(&json);
        Ok(Constant {
            alone: alone.map_err(|error| Error::Invalid(format!("{path}: {error}")))?,
            path,
            value,
        })
    }

    /// The field.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The document with the field.
    ///
    /// # Errors
    /// `Invalid` if it would be larger than a document may be.
    pub fn added_to(&self, document: &Document) -> Result<Document> {
        let added = document.merge_patch(&self.alone);
        added.map_err(|error| Error::Invalid(format!("{}: {error}", self.path)))
    }

    fn accepts(&self, leaf: &Leaf) -> bool {
        leaf.test.accepts(self.value.term())
    }
}

/// A shard whose documents have a [`Constant`] too.
pub struct WithConstant<'s> {
    shard: &'s dyn Shard,
    constant: &'s Constant,
}

impl<'s> WithConstant<'s> {
    /// The documents of a shard with one more field.
    #[must_use]
    pub fn new(shard: &'s dyn Shard, constant: &'s Constant) -> WithConstant<'s> {
        WithConstant { shard, constant }
    }

    fn is_about(&self, path: &Path) -> bool {
        *path == self.constant.path
    }

    /// The leaves about other fields; none if one about the constant does not hold.
    fn others<'l>(&self, leaves: &[&'l Leaf]) -> Option<Vec<&'l Leaf>> {
        let (own, others): (Vec<&Leaf>, Vec<&Leaf>) =
            leaves.iter().partition(|leaf| self.is_about(&leaf.path));
        let holds = own.iter().all(|leaf| self.constant.accepts(leaf));
        holds.then_some(others)
    }

    /// The documents that match a leaf about the constant.
    fn matching(&self, leaf: &Leaf) -> Result<DocSet> {
        match self.constant.accepts(leaf) {
            true => self.shard.docs(),
            false => Ok(DocSet::empty()),
        }
    }
}

impl Shard for WithConstant<'_> {
    fn doc_end(&self) -> u32 {
        self.shard.doc_end()
    }

    fn doc_count(&self) -> Result<u64> {
        self.shard.doc_count()
    }

    fn docs(&self) -> Result<DocSet> {
        self.shard.docs()
    }

    fn field(&self, path: &Path) -> Result<Option<FieldInfo<'_>>> {
        if !self.is_about(path) {
            return self.shard.field(path);
        }
        let (docs, term) = (self.shard.doc_count()?, self.constant.value.term());
        Ok((docs > 0).then_some(FieldInfo {
            filterable: true,
            sortable: true,
            many: false,
            docs,
            range: Some((Cow::Borrowed(term), Cow::Borrowed(term))),
            distinct: Some(1),
        }))
    }

    fn estimate(&self, leaf: &Leaf) -> Result<Estimate> {
        if !self.is_about(&leaf.path) {
            return self.shard.estimate(leaf);
        }
        let docs = match self.constant.accepts(leaf) {
            true => self.shard.doc_count()?,
            false => 0,
        };
        Ok(Estimate::exactly(docs, Cost::Stored))
    }

    fn count(&self, leaves: &[&Leaf]) -> Result<Option<u64>> {
        match self.others(leaves) {
            None => Ok(Some(0)),
            Some(others) if others.is_empty() => self.shard.doc_count().map(Some),
            Some(others) => self.shard.count(&others),
        }
    }

    fn matches(&self, leaf: &Leaf, found: Found) -> Result<DocSet> {
        match self.is_about(&leaf.path) {
            true => self.matching(leaf),
            false => self.shard.matches(leaf, found),
        }
    }

    fn retain(&self, leaf: &Leaf, found: Found, docs: &mut DocSet) -> Result<()> {
        match self.is_about(&leaf.path) {
            true => self.retain_own(leaf, docs),
            false => self.shard.retain(leaf, found, docs),
        }
    }

    fn paths(&self, leaf: &Leaf, estimate: &Estimate, docs: Option<u64>) -> AccessCosts {
        match self.is_about(&leaf.path) {
            true => AccessCosts::from_iter([AccessCost {
                access: Access::Postings,
                nanos: 0,
            }]),
            false => self.shard.paths(leaf, estimate, docs),
        }
    }

    fn matches_by(&self, access: Access, leaf: &Leaf, found: Found) -> Result<DocSet> {
        match self.is_about(&leaf.path) {
            true => self.matching(leaf),
            false => self.shard.matches_by(access, leaf, found),
        }
    }

    fn retain_by(
        &self,
        access: Access,
        leaf: &Leaf,
        found: Found,
        docs: &mut DocSet,
    ) -> Result<()> {
        match self.is_about(&leaf.path) {
            true => self.retain_own(leaf, docs),
            false => self.shard.retain_by(access, leaf, found, docs),
        }
    }

    fn first(&self, order: &Order, docs: u64) -> Result<Option<DocSet>> {
        match self.is_about(&order.path) {
            // All are equal: none comes before another.
            true => Ok(None),
            false => self.shard.first(order, docs),
        }
    }

    fn first_of(&self, order: &Order, wanted: WantedFirst<'_>) -> Result<Option<DocSet>> {
        match self.is_about(&order.path) {
            true => Ok(None),
            false => self.shard.first_of(order, wanted),
        }
    }

    fn first_part(&self, order: &Order) -> u64 {
        self.shard.first_part(order)
    }

    fn top(&self, leaves: &[&Leaf], order: &Order, hits_max: u64) -> Result<Option<Vec<u32>>> {
        match self.others(leaves) {
            None => Ok(Some(Vec::new())),
            Some(others) if others.is_empty() || self.is_about(&order.path) => Ok(None),
            Some(others) => self.shard.top(&others, order, hits_max),
        }
    }

    fn column(&self, path: &Path) -> Result<Option<Box<dyn Column + '_>>> {
        match self.is_about(path) {
            true => Ok(Some(self.own_column())),
            false => self.shard.column(path),
        }
    }

    fn segments(&self, paths: &[&Path], docs: &DocSet) -> Result<Vec<Segment<'_>>> {
        let segments = self.shard.segments(&self.other_paths(paths), docs)?;
        Ok(self.with_own_columns(paths, segments))
    }

    fn segments_to_order(&self, paths: &[&Path], docs: &DocSet) -> Result<Vec<Segment<'_>>> {
        let others = self.other_paths(paths);
        let segments = self.shard.segments_to_order(&others, docs)?;
        Ok(self.with_own_columns(paths, segments))
    }

    fn orders_at_once(&self, order: &Order) -> bool {
        self.is_about(&order.path) || self.shard.orders_at_once(order)
    }

    fn document(&self, doc: u32) -> Result<Option<Document>> {
        let document = self.shard.document(doc)?;
        document
            .map(|document| self.constant.added_to(&document))
            .transpose()
    }

    fn payload(&self, doc: u32, read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.shard.payload(doc, read)
    }
}

impl WithConstant<'_> {
    fn retain_own(&self, leaf: &Leaf, docs: &mut DocSet) -> Result<()> {
        if !self.constant.accepts(leaf) {
            *docs = DocSet::empty();
        }
        Ok(())
    }

    fn other_paths<'p>(&self, paths: &[&'p Path]) -> Vec<&'p Path> {
        let paths = paths.iter().filter(|path| !self.is_about(path));
        paths.copied().collect()
    }

    /// Segments of the other fields with the constant's column in its place.
    fn with_own_columns<'a>(
        &'a self,
        paths: &[&Path],
        mut segments: Vec<Segment<'a>>,
    ) -> Vec<Segment<'a>> {
        for segment in &mut segments {
            let mut others = std::mem::take(&mut segment.columns).into_iter();
            let columns = paths.iter().map(|path| match self.is_about(path) {
                true => Some(self.own_column()),
                false => others.next().flatten(),
            });
            segment.columns = columns.collect();
        }
        segments
    }

    fn own_column(&self) -> Box<dyn Column + '_> {
        Box::new(ConstantColumn(self.constant.value.term()))
    }
}

/// The column of a [`Constant`]: its term. The only ordinal is 0.
struct ConstantColumn<'c>(&'c [u8]);

impl Column for ConstantColumn<'_> {
    fn zone(&self) -> Option<(&[u8], &[u8])> {
        Some((self.0, self.0))
    }

    fn has_many(&self) -> bool {
        false
    }

    fn ordinal_end(&self) -> u64 {
        1
    }

    fn ends(&self, docs: &[u32], _: End, out: &mut Vec<u64>) -> Result<()> {
        out.clear();
        out.resize(docs.len(), 0);
        Ok(())
    }

    fn ordinals(&self, docs: &[u32], out: &mut Ordinals) -> Result<()> {
        out.clear();
        for _ in docs {
            out.ordinals.push(0);
            out.end_document();
        }
        Ok(())
    }

    fn term(&self, _: u64, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(self.0);
        Ok(())
    }

    fn ordinal_of(&self, term: &[u8]) -> Result<u64> {
        Ok(u64::from(self.0 < term))
    }
}
