//! Queries of a partition's view through its search indexes.

use super::cached_changes::{CachedChanges, Form};
use super::changed::{Change, Changed};
use super::column_blocks::COLUMN_BLOCK_BITS;
use super::field_set::{
    Exceptions, add_listed_below, count_with_many, fields_with_many, is_listed, refused_fields,
};
use super::fields::Fields;
use super::indexed_fields::IndexedFields;
use super::indexer::ID;
use super::live_columns::LiveColumns;
use super::shard::{ColumnsAt, Documents, LiveShard};
use super::state::{SearchState, SearchTree};
use super::{Error, Result};
use quire_lsm::TreeSnapshot;
use quire_model::{DocId, Document, Key, Position};
use quire_query::{Path, Prepared};
use quire_seeded::{Bug, seeded};
use quire_store::{TreeId, TreeState};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Bytes of the documents that an index is behind; values that queries take out of them take as
/// much again at most. Where there are more, queries read all documents, one after the other.
const CHANGED_BYTES_MAX: usize = 16 << 20;

/// The search indexes that a view was made with.
#[derive(Debug, Clone)]
pub struct ViewIndexes {
    /// The oldest first.
    trees: Arc<Vec<SearchTree>>,
    state: Arc<SearchState>,
}

impl ViewIndexes {
    /// These trees, of a partition that keeps this of them.
    pub(crate) fn new(trees: Arc<Vec<SearchTree>>, state: Arc<SearchState>) -> ViewIndexes {
        ViewIndexes { trees, state }
    }

    /// The fields of each.
    pub fn fields(&self) -> impl Iterator<Item = &IndexedFields> + Clone {
        self.trees.iter().map(|tree| &tree.fields)
    }

    /// The newest.
    pub fn newest(&self) -> Option<TreeId> {
        self.trees.last().map(|tree| tree.id)
    }

    /// The same without any tree.
    #[must_use]
    pub fn without_trees(self) -> ViewIndexes {
        ViewIndexes {
            trees: Arc::default(),
            ..self
        }
    }

    pub(crate) fn trees(&self) -> &[SearchTree] {
        &self.trees
    }

    pub(crate) fn state(&self) -> &SearchState {
        &self.state
    }
}

/// Shown the number of a document, the document, and its key.
pub type SeeDocument<'a> = dyn FnMut(DocId, &Document, &Key) + 'a;

/// A consistent read of a partition that may have search indexes: what these need of it.
pub trait IndexedView: Send + Sync {
    /// Its indexes.
    fn indexes(&self) -> &ViewIndexes;

    /// A tree of an index.
    ///
    /// # Errors
    /// If the view has no such tree.
    fn tree(&self, tree: TreeId) -> Result<&TreeSnapshot>;

    /// What an index is, in this view.
    fn tree_state(&self, tree: TreeId) -> Option<TreeState>;

    /// The last record that it sees.
    fn position(&self) -> Position;

    /// How many documents there are.
    fn doc_count(&self) -> u64;

    /// Past the greatest docid.
    fn doc_end(&self) -> u32;

    /// Whether an index has what documents have in a field.
    fn includes(&self, tree: &SearchTree, path: &str) -> bool {
        tree.fields.includes(path)
    }

    /// The documents of the first docids, as the index is to have them: of all, unless they are
    /// large, and of one at least. With their keys in the field [`ID`], if that is wanted.
    ///
    /// # Errors
    /// `Index` for a docid without a document; damage on disk, by file and offset.
    fn documents(&self, docids: &[DocId], with_keys: bool) -> Result<Vec<Document>>;

    /// What tells documents that [`each_change`](IndexedView::each_change) shows from those of
    /// other columns.
    fn columns_hash(&self) -> u64 {
        0
    }

    /// Shows the changes after a position, the last one of each document at least, until `see`
    /// breaks. False if it is not known what changed, or if a document is too large.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    fn each_change(
        &self,
        after: Position,
        with_keys: bool,
        see: &mut dyn FnMut(u32, Change) -> ControlFlow<()>,
    ) -> Result<bool>;

    /// The documents that changed after a position.
    ///
    /// # Errors
    /// As of [`each_change`](IndexedView::each_change).
    fn docs_changed(&self, after: Position) -> Result<BTreeSet<DocId>>;

    /// Shows all documents, as the index is to have them.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    fn each_document(&self, see: &mut SeeDocument<'_>) -> Result<()>;

    /// Has an index built anew that is damaged in this view. Gives the position that the partition
    /// is at then; none if it was closed.
    fn rebuild(&self, tree: TreeId, what: &str) -> Option<Position>;
}

impl dyn IndexedView + '_ {
    /// The view as a shard of a query, which finds documents by the search index; `None` if there
    /// is no index of all fields of the query that is complete. The field `apart` is known without
    /// an index, if there is one.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub fn search(
        &self,
        query: &Prepared,
        apart: Option<&Path>,
    ) -> Result<Option<Box<LiveShard<'_>>>> {
        let has_all = |tree: &&SearchTree| {
            let mut has_all = true;
            query.each_use(&mut |path, _| {
                has_all &= Some(path) == apart || self.includes(tree, path.as_str());
            });
            has_all || seeded(Bug::LeftOutFieldSearched)
        };
        let trees = self.indexes().trees().iter().rev().filter(has_all);
        let built = trees.filter_map(|tree| Some((tree, self.built(tree)?)));
        let Some((tree, built)) = built.take(1).next() else {
            return Ok(None);
        };
        let shard = || {
            let exceptions = self.exceptions(tree, built)?;
            match self.has_fields(tree, exceptions, (query, apart))? {
                false => Ok(None),
                true => self.shard((tree, built), exceptions, query.is_about(ID)),
            }
        };
        match shard() {
            Err(Error::Index { what }) => {
                self.rebuild_tree(tree.id, &what);
                Ok(None)
            }
            shard => shard,
        }
    }

    /// Whether a tree has all fields of a query but the one apart that documents have: it may have
    /// refused some.
    fn has_fields(
        &self,
        tree: &SearchTree,
        exceptions: Exceptions,
        (query, apart): (&Prepared, Option<&Path>),
    ) -> Result<bool> {
        if !exceptions.refused || seeded(Bug::RefusedFieldSearched) {
            return Ok(true);
        }
        let shown = self.tree(tree.id)?;
        let mut has_all = Ok(true);
        query.each_use(&mut |path, _| {
            if matches!(has_all, Ok(true)) && Some(path) != apart {
                has_all = is_listed(shown, path.as_str());
            }
        });
        has_all
    }

    fn exceptions(&self, tree: &SearchTree, built: Position) -> Result<Exceptions> {
        let shown = self.tree(tree.id)?;
        let state = self.indexes().state();
        state.exceptions(tree.id, built, || Exceptions::of_tree(shown))
    }

    /// Of how many documents a search tree does not have all values of a field, as there are too
    /// many; of at most a hundred fields.
    pub(crate) fn documents_with_many(&self, tree: &SearchTree) -> Result<BTreeMap<String, u64>> {
        let mut documents = BTreeMap::new();
        if self.built(tree).is_some() {
            let shown = self.tree(tree.id)?;
            for path in fields_with_many(shown)? {
                let count = count_with_many(shown, &path)?;
                if count > 0 {
                    documents.insert(path, count);
                }
            }
        }
        Ok(documents)
    }

    /// The fields that a search tree has refused; at most a hundred.
    pub(crate) fn refused_fields(&self, tree: &SearchTree) -> Result<Vec<String>> {
        match self.built(tree) {
            Some(_) => refused_fields(self.tree(tree.id)?),
            None => Ok(Vec::new()),
        }
    }

    /// Whether an answer from a shard of this view failed because the search index is damaged. Then
    /// the index is built anew in the background.
    pub fn index_is_damaged(&self, shard: &LiveShard<'_>) -> bool {
        let damage = shard.tree.zip(shard.damage());
        if let Some((tree, what)) = damage {
            self.rebuild_tree(tree, what);
        }
        damage.is_some()
    }

    /// Has a search tree built anew that is damaged in this view.
    pub(crate) fn rebuild_tree(&self, tree: TreeId, what: &str) {
        if let Some(position) = self.rebuild(tree, what) {
            // Views that are made from now on do not use the tree as it was.
            self.indexes().state().forget(position);
        }
    }

    /// The position that a search tree is at; `None` if it is not complete.
    pub(crate) fn built(&self, tree: &SearchTree) -> Option<Position> {
        match self.tree_state(tree.id)? {
            TreeState::Complete { built } => Some(built),
            TreeState::Building => None,
        }
    }

    fn shard(
        &self,
        (tree, built): (&SearchTree, Position),
        exceptions: Exceptions,
        with_keys: bool,
    ) -> Result<Option<Box<LiveShard<'_>>>> {
        let Some(changed) = self.changed_after(built, with_keys)? else {
            return Ok(None);
        };
        let documents = ViewDocuments {
            view: self,
            with_keys,
        };
        let state = self.indexes().state();
        let mut columns = LiveColumns::new(self.tree(tree.columns)?, COLUMN_BLOCK_BITS);
        columns.shared = Some(state.shared_reads(tree.id, built));
        // It is large: it is moved into its box, and not again.
        let mut shard = Box::new(LiveShard::new(
            self.tree(tree.id)?,
            Box::new(documents),
            self.doc_end(),
            changed,
            columns,
        ));
        shard.doc_count = Some(self.doc_count());
        shard.has_many = exceptions.many;
        shard.tree = Some(tree.id);
        shard.followed = Some((&state.followed, self.position()));
        shard.kept_columns = Some(ColumnsAt {
            numbers: &state.numbers,
            terms: &state.terms,
            at: self.position(),
            built,
        });
        Ok(Some(shard))
    }

    /// The documents that changed after a position, as they are in this view; `None` if they take
    /// too much memory, or are not known.
    fn changed_after(&self, after: Position, with_keys: bool) -> Result<Option<Arc<Changed>>> {
        let find = |known: &CachedChanges| self.changes_since(known);
        let form = Form {
            with_keys,
            columns_hash: self.columns_hash(),
        };
        let state = self.indexes().state();
        state.changes(after, self.position(), form, find)
    }

    /// What changed after what is known, up to this view; `None` if all together takes too much
    /// memory.
    fn changes_since(&self, known: &CachedChanges) -> Result<Option<BTreeMap<u32, Change>>> {
        let seen = match seeded(Bug::ChangeMissed) && known.to <= known.after() {
            true => known.to.next(),
            false => known.to,
        };
        let mut added: BTreeMap<u32, Change> = BTreeMap::new();
        let state = self.indexes().state();
        let bytes_max = state.changed_bytes_max().min(CHANGED_BYTES_MAX);
        let mut bytes_kept = known.changed.bytes();
        let all = self.each_change(seen, known.form.with_keys, &mut |doc, change| {
            bytes_kept += change.bytes();
            let before = added.insert(doc, change);
            bytes_kept -= before.as_ref().map_or(0, Change::bytes);
            match bytes_kept > bytes_max {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        Ok((all && bytes_kept <= bytes_max).then_some(added))
    }

    /// The newest search tree of all fields that is built, and up to which position it is.
    fn whole_tree(&self) -> Option<(&SearchTree, Position)> {
        let trees = self.indexes().trees().iter().rev();
        let mut whole = trees.filter(|tree| tree.fields.includes_all());
        whole.find_map(|tree| Some((tree, self.built(tree)?)))
    }

    /// The paths with one of some prefixes that its documents have values at, and perhaps some that
    /// they had; `None` if only the documents tell.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub fn paths_below(&self, prefixes: &[String]) -> Result<Option<BTreeSet<String>>> {
        let Some((tree, built)) = self.whole_tree() else {
            return Ok(None);
        };
        if self.exceptions(tree, built)?.refused {
            return Ok(None);
        }
        let Some(changed) = self.changed_after(built, false)? else {
            return Ok(None);
        };
        let (shown, mut paths) = (self.tree(tree.id)?, BTreeSet::new());
        for prefix in prefixes {
            add_listed_below(shown, prefix, &mut paths)?;
        }
        for document in changed.documents() {
            Path::each_in(document.root(), &mut |path| {
                if prefixes.iter().any(|prefix| path.starts_with(prefix)) {
                    paths.insert(path.to_owned());
                }
            });
        }
        Ok(Some(paths))
    }

    /// The fields of its documents, if an index that is complete has all of them.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub fn fields_by_index(&self) -> Result<Option<Fields>> {
        let Some((tree, built)) = self.whole_tree() else {
            return Ok(None);
        };
        let exceptions = self.exceptions(tree, built)?;
        if exceptions.refused || exceptions.many {
            return Ok(None);
        }
        let shard = self.shard((tree, built), exceptions, true)?;
        shard.map(|shard| shard.fields()).transpose()
    }
}

/// The documents of a view.
struct ViewDocuments<'v> {
    view: &'v (dyn IndexedView + 'v),
    with_keys: bool,
}

impl Documents for ViewDocuments<'_> {
    fn documents(&self, docids: &[DocId]) -> Result<Vec<Document>> {
        self.view.documents(docids, self.with_keys)
    }
}
