//! [`Changed`]: the documents that changed after one position up to another, as they are then.
//!
//! ```text
//!            index                            view
//!  | 700 | 64 |  | 4,000 documents | 900 | 150 | 12 |   the oldest first; a query shares them
//!    past          layers
//! ```
//! # Invariants
//! 1. Records of a layer come after those of the layers before it. A layer has a document once, by
//!    its newest record in the layer.
//! 2. A document is *live* in the newest layer that has it and in no other. Each document of `docs`
//!    is live in one layer.
//! 3. A layer does not change. One that is added is joined with those before it that have fewer
//!    than [`GROWTH`] times its documents, so there are few, and a document is copied a few times.
//! 4. Values of a field are taken out of the documents of a layer once, and shared by all queries.
//! 5. The layers have all documents that changed after the position, and may have others: the
//!    oldest one stays whole as long as one of its records is after it. What is said of a document
//!    that did not change is true too.
//! 6. *Recent* layers are the last ones that were added, as they were before they were joined: what
//!    was true a moment ago is made true by few documents.
//! 7. *Past* layers come before the others: together they have all documents that changed after
//!    `since`. A set that is true at a position from there on is made true by them.
//! 8. A layer that a writer adds has the values of the fields that queries read of those before;
//!    numbers are decoded.

use super::column::{ListedBuilder, ListedColumn, TermsOf};
use super::number::Number;
use hashbrown::HashMap;
use parking_lot::Mutex;
use quire_index::{DocSet, term};
use quire_model::{Document, Position, ValueRef};
use quire_query::{Column, Leaf, Path, TermBounds, Test, Value};
use quire_seeded::{Bug, seeded};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A layer has this many times the documents of the next one.
const GROWTH: usize = 2;

/// Recent layers, and the bytes of their documents.
const RECENT_MAX: usize = 8;
const RECENT_BYTES_MAX: usize = 256 << 10;

/// A set is brought up by this many recent layers. By more it takes longer than by joined ones.
const RECENT_SHOWN_MAX: usize = 4;

/// Bytes of past layers that are kept, about: at 20,000 changes of 600 bytes in a second, those of
/// half a second. A set that is older than that is found anew.
pub(crate) const PAST_BYTES_MAX: usize = 8 << 20;

/// Bytes of columns that a layer keeps, if its documents have fewer.
const COLUMNS_BYTES_MIN: usize = 64 << 10;

/// The values of a longer document may take more memory than it.
const VALUES_COUNTED_FROM: usize = 4 << 10;

/// About what a value of a column takes while the column is made.
const VALUE_BYTES: usize = 80;

/// A document that changed: the position of its record, and what it is then; none if it was
/// deleted.
#[derive(Debug, Clone)]
pub struct Change {
    pub(crate) position: Position,
    pub(crate) document: Option<Document>,
    bytes: usize,
}

impl Change {
    /// A document as it is after the record at a position.
    pub fn new(position: Position, document: Option<Document>) -> Change {
        let of_document = document.as_ref().map_or(0, |document| {
            let bytes = document.as_bytes().len();
            let is_counted = bytes > VALUES_COUNTED_FROM;
            let values = || values_within(ValueRef::Object(document.root()));
            let of_values = if is_counted {
                values() * VALUE_BYTES
            } else {
                0
            };
            // What is counted twice is as much for the columns as for the document.
            bytes + of_values.saturating_sub(bytes) / 2
        });
        Change {
            position,
            document,
            bytes: of_document + size_of::<(u32, Change)>(),
        }
    }

    /// Bytes of memory that it takes in a layer. The values of one of its fields take as much again
    /// at most.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// How many scalars there are in a value.
pub(super) fn values_within(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Array(items) => items.iter().map(values_within).sum(),
        ValueRef::Object(object) => object.fields().map(|(_, value)| values_within(value)).sum(),
        _ => 1,
    }
}

/// What a document that changed has in a field.
pub(crate) enum Content<'c> {
    /// It is in the document, if it was not deleted.
    Document(Option<&'c Document>),
    /// The document has these values.
    Terms(TermsOf<'c>),
}

/// What documents of a layer that changed after a position have in a field.
pub(crate) struct Part<'c> {
    layer: &'c Layer,
    after: Position,
    /// The values of the field, if they are kept.
    column: Option<ListedColumn>,
}

/// What makes a set of documents that fulfil a leaf true at a later position.
pub(crate) struct Patch<'c>(
    /// Documents that changed, and those of them that fulfil the leaf since; the oldest first.
    Vec<(&'c DocSet, DocSet)>,
);

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Changed {
    since: Position,
    /// Layers without a record after `after`.
    past: Vec<Arc<Layer>>,
    after: Position,
    layers: Vec<LiveLayer>,
    /// All records after `recent_since`.
    recent: VecDeque<Arc<Layer>>,
    recent_since: Position,
    docs: Arc<DocSet>,
    /// Of the layers, and of the past ones.
    bytes: usize,
    past_bytes: usize,
}

/// A layer, and the documents that are live in it.
#[derive(Debug, Clone)]
pub(crate) struct LiveLayer {
    layer: Arc<Layer>,
    live: Arc<DocSet>,
}

#[derive(Debug)]
struct Layer {
    /// Ascending by docid.
    changes: Vec<(u32, Change)>,
    /// The positions of the first and of the last record.
    first: Position,
    last: Position,
    docs: Arc<DocSet>,
    /// Those that were not deleted.
    there: DocSet,
    bytes: usize,
    columns: Mutex<Columns>,
}

/// Columns of a layer that queries have read.
#[derive(Debug, Default)]
struct Columns {
    by_path: HashMap<Path, KeptColumn>,
    bytes: usize,
}

#[derive(Debug)]
struct KeptColumn {
    column: ListedColumn,
    /// A query read it in this layer: if the layer is joined, it is joined too.
    is_read: bool,
}

impl Layer {
    /// Of changes that ascend by docid; none if there are none.
    fn new(changes: Vec<(u32, Change)>) -> Option<Arc<Layer>> {
        debug_assert!(
            changes.is_sorted_by(|(a, _), (b, _)| a < b),
            "a layer has a document once"
        );
        let positions = || changes.iter().map(|(_, change)| change.position);
        let (first, last) = (positions().min()?, positions().max()?);
        let there = changes.iter().filter(|(_, one)| one.document.is_some());
        Some(Arc::new(Layer {
            first,
            last,
            docs: Arc::new(changes.iter().map(|(doc, _)| *doc).collect()),
            there: there.map(|(doc, _)| *doc).collect(),
            bytes: changes.iter().map(|(_, change)| change.bytes()).sum(),
            columns: Mutex::default(),
            changes,
        }))
    }

    fn change(&self, doc: u32) -> Option<&Change> {
        let place = self.changes.binary_search_by_key(&doc, |(doc, _)| *doc);
        let (_, change) = self.changes.get(place.ok()?)?;
        Some(change)
    }

    /// The values of a field, for a query.
    fn column(&self, path: &Path) -> ListedColumn {
        self.values(path, true)
    }

    /// The values of a field, if they are kept.
    fn kept_values(&self, path: &Path) -> Option<ListedColumn> {
        let columns = self.columns.lock();
        columns.by_path.get(path).map(|kept| kept.column.clone())
    }

    /// The values of a field, which a query reads or may read later.
    fn values(&self, path: &Path, is_read: bool) -> ListedColumn {
        if let Some(kept) = self.columns.lock().by_path.get_mut(path) {
            kept.is_read |= is_read;
            return kept.column.clone();
        }
        let mut builder = ListedBuilder::default();
        for (doc, change) in &self.changes {
            let Some(document) = &change.document else {
                continue;
            };
            let _ = path.visit(document.root(), &mut |value| {
                builder.add(*doc, |bytes| term::encode(value, bytes));
                ControlFlow::Continue(())
            });
        }
        let column = builder.finish();
        self.keep(path, &column, is_read);
        column
    }

    /// The documents that pass a test with a value of a field.
    fn matching(&self, path: &Path, test: &Test) -> DocSet {
        let column = self.column(path);
        match test {
            Test::In(values) => column.docs_with(values.iter().map(Value::term)),
            // All terms between the bounds pass.
            Test::Eq(_) | Test::Range(_) | Test::Exists => column.docs_between(test.bounds()),
        }
    }

    /// Keeps a column, if there is room for it.
    fn keep(&self, path: &Path, column: &ListedColumn, is_read: bool) {
        let bytes = column.bytes() + path.as_str().len() + size_of::<(Path, KeptColumn)>();
        let bytes_max = self.bytes.max(COLUMNS_BYTES_MIN);
        let mut columns = self.columns.lock();
        if bytes > bytes_max || columns.by_path.contains_key(path) {
            return;
        }
        if columns.bytes + bytes > bytes_max {
            *columns = Columns::default();
        }
        columns.bytes += bytes;
        let column = column.clone();
        let kept = KeptColumn { column, is_read };
        columns.by_path.insert(path.clone(), kept);
    }
}

impl Part<'_> {
    /// Each document and what it has.
    ///
    /// # Errors
    /// Those of `see`.
    pub(crate) fn each<E>(
        &self,
        mut see: impl FnMut(u32, Content<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let changes = self.layer.changes.iter();
        let mut after = changes.filter(|(_, change)| change.position > self.after);
        after.try_for_each(|(doc, change)| match &self.column {
            None => see(*doc, Content::Document(change.document.as_ref())),
            Some(column) => see(*doc, Content::Terms(column.terms_of(*doc))),
        })
    }

    /// Each document and the number that it has, or none; if all of the layer changed after the
    /// position, and have one number or null at most.
    pub(crate) fn numbers(&self) -> Option<impl Iterator<Item = (u32, Option<Number>)>> {
        if self.layer.first <= self.after {
            return None;
        }
        let numbers = self.column.as_ref()?.numbers_of()?;
        let without = match numbers.len() == self.layer.changes.len() {
            true => DocSet::empty(),
            false => &*self.layer.docs - &numbers.clone().map(|(doc, _)| doc).collect(),
        };
        let without: Vec<_> = without.iter().map(|doc| (doc, None)).collect();
        let with = numbers.map(|(doc, number)| (doc, Some(number)));
        Some(with.chain(without))
    }
}

impl Patch<'_> {
    /// Whether it may make another set of one: most changes of a document leave most of its fields
    /// as they are.
    pub(crate) fn changes(&self, docs: &DocSet) -> bool {
        match self.0.as_slice() {
            [] => false,
            [(changed, matching)] => &(docs & *changed) != matching,
            _ => true,
        }
    }

    /// Brings a set up, in its own memory where that is possible.
    pub(crate) fn apply(&self, docs: &mut DocSet) {
        for (changed, matching) in &self.0 {
            *docs -= changed;
            *docs |= matching;
        }
    }
}

impl LiveLayer {
    /// The documents that are live in it.
    pub(crate) fn live(&self) -> &DocSet {
        &self.live
    }

    /// The values of a field; of documents that are not live too.
    pub(crate) fn column(&self, path: &Path) -> ListedColumn {
        self.layer.column(path)
    }

    fn all_live(&self) -> bool {
        Arc::ptr_eq(&self.live, &self.layer.docs)
    }

    /// Those of some documents of the layer that are live.
    fn only_live(&self, mut docs: DocSet) -> DocSet {
        if !self.all_live() {
            docs &= &self.live;
        }
        docs
    }
}

impl Changed {
    /// Nothing that changed after a position.
    pub(crate) fn new(after: Position) -> Changed {
        Changed {
            since: after,
            past: Vec::new(),
            after,
            layers: Vec::new(),
            recent: VecDeque::new(),
            recent_since: after,
            docs: Arc::default(),
            bytes: 0,
            past_bytes: 0,
        }
    }

    /// The position that it begins after.
    pub(crate) fn after(&self) -> Position {
        self.after
    }

    /// How many documents there are, deleted ones too.
    pub(crate) fn len(&self) -> usize {
        self.docs.len() as usize
    }

    /// Their docids.
    pub(crate) fn docs(&self) -> &DocSet {
        &self.docs
    }

    /// Bytes of memory that it takes without what is past, but for columns: these take as much
    /// again at most, or [`COLUMNS_BYTES_MIN`] for each layer.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of what is past.
    pub(crate) fn past_bytes(&self) -> usize {
        self.past_bytes
    }

    /// What makes the documents that fulfil a leaf, as of a position, those as of now. None if it
    /// is not known what changed since.
    pub(crate) fn patch_after(&self, at: Position, leaf: &Leaf) -> Option<Patch<'_>> {
        if at < self.since && !seeded(Bug::FollowedOverGap) {
            return None;
        }
        let mut steps = Vec::new();
        self.each_layer_after(at, &mut |layer| {
            let matching = layer.matching(&leaf.path, &leaf.test);
            steps.push((&*layer.docs, matching));
            Some(())
        });
        Some(Patch(steps))
    }

    /// Of how many documents the layers are by which a set that is true at a position is made true;
    /// none if it is not known what changed since.
    pub(crate) fn docs_to_bring_up(&self, at: Position) -> Option<usize> {
        let mut docs = 0;
        self.each_layer_after(at, &mut |layer| {
            docs += layer.changes.len();
            Some(())
        });
        (at >= self.since).then_some(docs)
    }

    /// Shows layers with all records after a position, the oldest first, until `see` gives none.
    fn each_layer_after<'c>(
        &'c self,
        at: Position,
        see: &mut dyn FnMut(&'c Layer) -> Option<()>,
    ) -> Option<()> {
        let is_after = |layer: &&'c Arc<Layer>| layer.last > at;
        let recent = self.recent.iter().filter(is_after);
        if at >= self.recent_since && recent.clone().count() <= RECENT_SHOWN_MAX {
            return recent.map(|layer| &**layer).try_for_each(see);
        }
        let layers = self.layers.iter().map(|one| &one.layer);
        let all = self.past.iter().chain(layers).filter(is_after);
        all.map(|layer| &**layer).try_for_each(see)
    }

    /// Shows what documents that changed after a position have in a field, the oldest changes
    /// first, until `see` gives none. None then, or if it is not known what changed since.
    pub(crate) fn each_part_after(
        &self,
        after: Position,
        path: &Path,
        see: &mut dyn FnMut(&Part<'_>) -> Option<()>,
    ) -> Option<()> {
        if after < self.since && !seeded(Bug::FollowedOverGap) {
            return None;
        }
        self.each_layer_after(after, &mut |layer| {
            see(&Part {
                layer,
                after,
                column: layer.kept_values(path),
            })
        })
    }

    /// The newest change of a document.
    pub(crate) fn change(&self, doc: u32) -> Option<&Change> {
        let mut newest_first = self.layers.iter().rev();
        newest_first.find_map(|LiveLayer { layer, .. }| layer.change(doc))
    }

    /// The documents that were not deleted, in no order.
    pub(crate) fn documents(&self) -> impl Iterator<Item = &Document> {
        self.layers.iter().flat_map(|LiveLayer { layer, live }| {
            let changes = layer.changes.iter();
            let live = changes.filter(|(doc, _)| live.contains(*doc));
            live.filter_map(|(_, change)| change.document.as_ref())
        })
    }

    pub(crate) fn layers(&self) -> &[LiveLayer] {
        &self.layers
    }

    /// The documents that were not deleted.
    pub(crate) fn there(&self) -> DocSet {
        self.live_docs(|one| one.layer.there.clone())
    }

    /// The documents that pass a test with a value of a field.
    pub(crate) fn matching(&self, path: &Path, test: &Test) -> DocSet {
        self.live_docs(|one| one.layer.matching(path, test))
    }

    /// The documents that have a value of a field between two bounds.
    pub(crate) fn between(&self, path: &Path, bounds: TermBounds<'_>) -> DocSet {
        self.live_docs(|one| one.column(path).docs_between(bounds))
    }

    /// Whether a document has, or has had since, several values of a field.
    pub(crate) fn has_many(&self, path: &Path) -> bool {
        let mut layers = self.layers.iter();
        layers.any(|one| one.column(path).has_many())
    }

    fn live_docs(&self, of_layer: impl Fn(&LiveLayer) -> DocSet) -> DocSet {
        let mut docs = DocSet::empty();
        for one in &self.layers {
            let found = of_layer(one);
            if !found.is_empty() {
                docs |= &one.only_live(found);
            }
        }
        docs
    }

    /// Adds what changed after all that is here.
    pub(crate) fn push(&mut self, changes: BTreeMap<u32, Change>) {
        if let Some(added) = Layer::new(changes.into_iter().collect()) {
            self.push_layer(added);
        }
    }

    /// As [`push`](Changed::push), for queries that are to come. What they will likely read is made
    /// ready: the fields that queries read of what is here, and those in `needed`.
    pub(crate) fn push_ready(&mut self, changes: BTreeMap<u32, Change>, needed: Vec<Path>) {
        let Some(added) = Layer::new(changes.into_iter().collect()) else {
            return;
        };
        let mut fields = self.read_fields();
        fields.extend(needed);
        for path in &fields {
            added.values(path, false).make_ready();
        }
        self.push_layer(added);
        if let Some(LiveLayer { layer, .. }) = self.layers.last() {
            let columns = layer.columns.lock();
            let kept = columns.by_path.values();
            kept.for_each(|kept| kept.column.make_ready());
        }
    }

    /// Bytes of memory that the newest layer takes.
    pub(crate) fn newest_bytes(&self) -> usize {
        self.layers.last().map_or(0, |one| one.layer.bytes)
    }

    /// The fields that queries read.
    fn read_fields(&self) -> BTreeSet<Path> {
        let mut fields = BTreeSet::new();
        let layers = self.layers.iter().map(|one| &one.layer);
        for layer in layers.chain(&self.recent) {
            let columns = layer.columns.lock();
            let read = columns.by_path.iter().filter(|(_, kept)| kept.is_read);
            fields.extend(read.map(|(path, _)| path.clone()));
        }
        fields
    }

    fn push_layer(&mut self, mut added: Arc<Layer>) {
        let before = self.layers.last().map(|one| one.layer.last);
        assert!(
            before.is_none_or(|last| last < added.first),
            "changes are added in the order of their records"
        );
        self.push_recent(&added);
        let docs = Arc::make_mut(&mut self.docs);
        *docs |= &added.docs;
        // One that is partly past leaves as a whole.
        let after = self.after;
        while let Some(last) = self.layers.pop_if(|last| {
            last.layer.first > after && last.layer.changes.len() < GROWTH * added.changes.len()
        }) {
            added = joined(&last.layer, added);
        }
        for one in &mut self.layers {
            if one.live.intersection_len(&added.docs) > 0 {
                one.live = Arc::new(&*one.live - &added.docs);
            }
        }
        let live = Arc::clone(&added.docs);
        self.layers.push(LiveLayer { layer: added, live });
        self.bytes = self.layers.iter().map(|one| one.layer.bytes).sum();
    }

    /// Adds a layer to the recent ones.
    fn push_recent(&mut self, added: &Arc<Layer>) {
        self.recent.push_back(Arc::clone(added));
        let bytes = |recent: &VecDeque<Arc<Layer>>| {
            let all = recent.iter().map(|layer| layer.bytes);
            all.sum::<usize>()
        };
        while self.recent.len() > RECENT_MAX || bytes(&self.recent) > RECENT_BYTES_MAX {
            let Some(oldest) = self.recent.pop_front() else {
                break;
            };
            self.recent_since = oldest.last;
        }
    }

    /// Begins after a later position. Layers that are past then are kept, as many as take
    /// `past_bytes_max` bytes.
    pub(crate) fn begin_after(&mut self, after: Position, past_bytes_max: usize) {
        debug_assert!(self.after <= after, "a beginning moves on");
        self.after = after;
        let is_past = |one: &LiveLayer| one.layer.last <= after;
        let past = self.layers.iter().take_while(|one| is_past(one)).count();
        if past == 0 {
            return;
        }
        let past = self.layers.drain(..past).map(|one| one.layer);
        self.past.extend(past);
        let mut docs = DocSet::empty();
        for one in &self.layers {
            docs |= &one.layer.docs;
        }
        self.docs = Arc::new(docs);
        self.bytes = self.layers.iter().map(|one| one.layer.bytes).sum();
        self.past_bytes = self.past.iter().map(|layer| layer.bytes).sum();
        let mut left = 0;
        while self.past_bytes > past_bytes_max
            && let Some(oldest) = self.past.get(left)
        {
            self.since = oldest.last;
            self.past_bytes -= oldest.bytes;
            left += 1;
        }
        self.past.drain(..left);
    }

    /// Forgets what is past.
    pub(crate) fn forget_past(&mut self) {
        self.past.clear();
        self.past_bytes = 0;
        self.since = self.after;
    }

    /// Removes the layers with a record after `to`, and returns the position of the last record
    /// that is left: all changes up to there are here, and later ones that were may not be.
    pub(crate) fn truncate(&mut self, to: Position) -> Option<Position> {
        let layers = self.layers.drain(..).map(|one| one.layer);
        let layers: Vec<_> = layers.filter(|layer| layer.last <= to).collect();
        self.recent.clear();
        self.recent_since = to;
        let mut docs = DocSet::empty();
        self.bytes = layers.iter().map(|layer| layer.bytes).sum();
        let newest_first = layers.into_iter().rev().map(|layer| {
            let live = match docs.intersection_len(&layer.docs) {
                0 => Arc::clone(&layer.docs),
                _ => Arc::new(&*layer.docs - &docs),
            };
            docs |= &layer.docs;
            LiveLayer { layer, live }
        });
        self.layers = newest_first.collect();
        self.layers.reverse();
        self.docs = Arc::new(docs);
        self.layers.last().map(|one| one.layer.last)
    }
}

/// A layer and the next one as one, with the columns of the older one that queries read, or for
/// which the newer one was made ready.
fn joined(older: &Layer, newer: Arc<Layer>) -> Arc<Layer> {
    let mut changes = Vec::with_capacity(older.changes.len() + newer.changes.len());
    let mut left = older.changes.iter().peekable();
    for (doc, change) in &newer.changes {
        while let Some(before) = left.next_if(|(before, _)| before < doc) {
            changes.push(before.clone());
        }
        left.next_if(|(before, _)| before == doc);
        changes.push((*doc, change.clone()));
    }
    changes.extend(left.cloned());
    let Some(layer) = Layer::new(changes) else {
        return newer;
    };
    let columns: Vec<_> = {
        let columns = older.columns.lock();
        let ready = newer.columns.lock();
        let is_wanted =
            |path: &Path, kept: &KeptColumn| kept.is_read || ready.by_path.contains_key(path);
        let wanted = columns
            .by_path
            .iter()
            .filter(|(path, kept)| is_wanted(path, kept));
        wanted
            .map(|(path, kept)| (path.clone(), kept.column.clone()))
            .collect()
    };
    for (path, of_older) in columns {
        let of_newer = newer.values(&path, false);
        let column = ListedColumn::joined(&of_older, &of_newer, &newer.docs);
        layer.keep(&path, &column, false);
    }
    layer
}
