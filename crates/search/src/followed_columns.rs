//! [`FollowedColumns`]: columns of fields in memory, one value for each document, brought up to
//! date by what changed since instead of being read again.
//!
//! An index moves on some times a second, and each time its columns would be read anew.
//!
//! # Invariants
//! 1. A column is that of all documents at its position. It does not depend on where an index is.
//! 2. A column goes forward alone, by all documents that changed since its position. Where not all
//!    of them are known, it is given up; views of an older position read the index.
//! 3. A field is read once queries needed it at several positions of the index, or many did at one:
//!    a column of the index costs less to read once. Each time that it is given up before it has
//!    served as many queries as it took, it takes more of them.
//! 4. What is kept is within a part of the budget.
//! 5. What an index said that was built anew since is not kept.

use super::changed::{Changed, Content, Part};
use super::column::TermsOf;
use hashbrown::HashMap;
use parking_lot::Mutex;
use quire_env::{Budget, Charge};
use quire_model::{Document, Position};
use quire_query::Path;
use quire_seeded::{Bug, seeded};
use std::sync::Arc;

/// The columns of a kind of one partition take at most one in this number of the bytes of the
/// budget.
const BUDGET_PART: u64 = 4;

/// Fields that are known.
const FIELDS_MAX: usize = 64;

/// Positions of the index at which a field is needed before it is read: at first, and at most.
const STEPS: u32 = 2;
const STEPS_MAX: u32 = 1 << 12;

/// A column that no query needs is kept up as many times.
const KEPT_UP_MAX: u32 = 64;

/// Queries that need a field before it is read, wherever the index is: for each of the positions.
const QUERIES_OF_A_STEP: u32 = 32;

/// A column in memory, whose documents can be changed.
pub(crate) trait FollowedColumn: Clone + Default {
    /// The bug that leaves such a column as it was.
    const NOT_BROUGHT_UP: Bug;

    /// Makes the value of a document the one that a field has, or none.
    ///
    /// # Errors
    /// The field has several values, or one that can't be kept.
    fn set_document(
        &mut self,
        doc: u32,
        path: &Path,
        document: Option<&Document>,
    ) -> Result<(), NotKept>;

    /// Makes the value of a document a term, or none.
    ///
    /// # Errors
    /// The term is one that can't be kept.
    fn set_term(&mut self, doc: u32, term: Option<&[u8]>) -> Result<(), NotKept>;

    /// Makes the value of a document what it has in a field.
    ///
    /// # Errors
    /// As of [`set_document`](FollowedColumn::set_document).
    fn set(&mut self, doc: u32, path: &Path, content: Content<'_>) -> Result<(), NotKept> {
        match content {
            Content::Document(document) => self.set_document(doc, path, document),
            Content::Terms(TermsOf::None) => self.set_term(doc, None),
            Content::Terms(TermsOf::One(term)) => self.set_term(doc, Some(term)),
            Content::Terms(TermsOf::Several) => Err(NotKept),
        }
    }

    /// Makes the values of documents that changed what they have in a field, one by one.
    ///
    /// # Errors
    /// As of [`set_document`](FollowedColumn::set_document).
    fn take_each(&mut self, path: &Path, part: &Part<'_>) -> Result<(), NotKept> {
        part.each(|doc, content| self.set(doc, path, content))
    }

    /// The same, as fast as the column can.
    ///
    /// # Errors
    /// As of [`set_document`](FollowedColumn::set_document).
    fn take(&mut self, path: &Path, part: &Part<'_>) -> Result<(), NotKept> {
        self.take_each(path, part)
    }

    /// Bytes of memory that it takes.
    fn bytes(&self) -> u64;

    /// Bytes of memory that a column of this many documents takes, at least.
    fn bytes_of(docs: u32) -> u64;
}

/// A value that can't be kept in such a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotKept;

/// See the module.
#[derive(Debug)]
pub(crate) struct FollowedColumns<C> {
    budget: Arc<Budget>,
    /// The part of it for columns.
    part: Arc<Budget>,
    kept: Mutex<Kept<C>>,
}

#[derive(Debug)]
struct Kept<C> {
    fields: HashMap<Path, Arc<Mutex<Field<C>>>>,
    /// Columns at or before it are not kept.
    after: Position,
}

#[derive(Debug)]
struct Field<C> {
    column: Option<(Position, C)>,
    /// What it takes, of the budget and of the part.
    charges: [Charge; 2],
    /// A query is reading it.
    is_read: bool,
    /// A query needed the column, as it is kept.
    is_needed: bool,
    /// The last position of the index at which it was needed, and at how many.
    built: Position,
    steps: u32,
    steps_min: u32,
    /// How many queries needed it before it was read, and since.
    queries: u32,
    served: u32,
    /// How often it was kept up since a query needed it.
    kept_up: u32,
}

impl<C: FollowedColumn> Field<C> {
    fn takes(&mut self, bytes: u64) -> bool {
        let takes = self.charges.iter_mut().all(|one| one.try_resize(bytes));
        if !takes {
            self.give_up();
        }
        takes
    }

    fn give_up(&mut self) {
        self.column = None;
        self.charges.iter_mut().for_each(|one| one.resize(0));
    }

    /// There can be no column, or it was not needed until much had changed: it is read later.
    fn put_off(&mut self) {
        self.give_up();
        let was_worth = self.served >= self.steps_min * QUERIES_OF_A_STEP;
        (self.steps, self.queries, self.served) = (0, 0, 0);
        self.steps_min = match was_worth {
            true => STEPS,
            false => (2 * self.steps_min).min(STEPS_MAX),
        };
    }

    /// The column at a position, for a query.
    fn bring_up(&mut self, path: &Path, changed: &Changed, at: Position) -> Option<C> {
        let (from, _) = self.column.as_ref()?;
        self.is_needed = true;
        if *from > at {
            return None;
        }
        self.kept_up = 0;
        self.served = self.served.saturating_add(1);
        self.follow(path, changed, at);
        self.column.as_ref().map(|(_, column)| column.clone())
    }

    /// Brings the column up to a position, which is none before its own.
    fn follow(&mut self, path: &Path, changed: &Changed, at: Position) {
        let Some((from, column)) = self.column.as_mut() else {
            return;
        };
        debug_assert!(*from <= at, "a column goes forward alone");
        let mut followed = Some(());
        if *from < at && !seeded(C::NOT_BROUGHT_UP) {
            followed =
                changed.each_part_after(*from, path, &mut |part| column.take(path, part).ok());
            *from = at;
        }
        let bytes = column.bytes();
        if followed.is_none() || !self.takes(bytes) {
            self.put_off();
        }
    }

    /// Brings the column up if it will soon not be known what changed since its position.
    fn keep_up(&mut self, path: &Path, changed: &Changed, at: Position) {
        let is_old = |(from, _): &(Position, C)| *from < changed.after() && *from < at;
        if self.column.as_ref().is_some_and(is_old) && self.kept_up < KEPT_UP_MAX {
            self.kept_up += 1;
            self.follow(path, changed, at);
        }
    }
}

impl<C: FollowedColumn> FollowedColumns<C> {
    pub(crate) fn new(budget: &Arc<Budget>) -> FollowedColumns<C> {
        FollowedColumns {
            budget: Arc::clone(budget),
            part: Budget::new(budget.limit() / BUDGET_PART),
            kept: Mutex::new(Kept {
                fields: HashMap::new(),
                after: Position(0),
            }),
        }
    }

    /// Forgets all, and keeps nothing that is read as of a position or an older one.
    pub(crate) fn forget(&self, to: Position) {
        let mut kept = self.kept.lock();
        kept.fields.clear();
        kept.after = kept.after.max(to);
    }

    /// The fields whose columns queries needed since this was called last.
    pub(crate) fn take_needed(&self) -> Vec<Path> {
        let kept = self.kept.lock();
        // One that is locked is needed right now: it is told the next time.
        let is_needed = |field: &Arc<Mutex<Field<C>>>| {
            let field = field.try_lock();
            field.is_some_and(|mut field| std::mem::take(&mut field.is_needed))
        };
        let needed = kept.fields.iter().filter(|(_, field)| is_needed(field));
        needed.map(|(path, _)| path.clone()).collect()
    }

    /// Brings up the columns that no query needed for a while: if it was forgotten what changed
    /// since, they would have to be read anew.
    pub(crate) fn keep_up(&self, changed: &Changed, at: Position) {
        let kept = self.kept.lock();
        let fields = kept.fields.iter();
        let fields: Vec<_> = fields
            .map(|(path, field)| (path.clone(), Arc::clone(field)))
            .collect();
        drop(kept);
        for (path, field) in fields {
            // One that is locked is needed right now.
            if let Some(mut field) = field.try_lock() {
                field.keep_up(&path, changed, at);
            }
        }
    }

    /// The column of a field at a position, by what changed up to there, if it is kept.
    pub(crate) fn column(&self, path: &Path, changed: &Changed, at: Position) -> Option<C> {
        let field = self.kept.lock().fields.get(path).map(Arc::clone)?;
        field.lock().bring_up(path, changed, at)
    }

    /// What `see` gives of the column of a field at a position, by what changed up to there, if it
    /// is kept. The column may take more memory afterwards.
    pub(crate) fn with_column<R>(
        &self,
        path: &Path,
        (changed, at): (&Changed, Position),
        see: impl FnOnce(&mut C) -> R,
    ) -> Option<R> {
        let field = self.kept.lock().fields.get(path).map(Arc::clone)?;
        let mut field = field.lock();
        drop(field.bring_up(path, changed, at)?);
        let (_, column) = field.column.as_mut()?;
        let seen = see(column);
        let bytes = column.bytes();
        if !field.takes(bytes) {
            field.put_off();
        }
        Some(seen)
    }

    /// The column of a field at a position, of which `docs` documents are, read by `read` if it is
    /// time to; `read` gives none if it can't be kept. The index is at `built`.
    ///
    /// # Errors
    /// Those of `read`.
    pub(crate) fn column_if_due<E>(
        &self,
        path: &Path,
        (at, built): (Position, Position),
        docs: u32,
        read: impl FnOnce() -> Result<Option<C>, E>,
    ) -> Result<Option<C>, E> {
        let Some(field) = self.due(path, (at, built), docs) else {
            return Ok(None);
        };
        // Without the lock: others read for themselves meanwhile.
        let column = read();
        let mut field = field.lock();
        field.is_read = false;
        match &column {
            Ok(Some(column)) if field.takes(column.bytes()) => {
                field.column = Some((at, column.clone()));
            }
            _ => field.put_off(),
        }
        column
    }

    /// Notes that a query needs a field. The field, if it is time to read it.
    fn due(
        &self,
        path: &Path,
        (at, built): (Position, Position),
        docs: u32,
    ) -> Option<Arc<Mutex<Field<C>>>> {
        let field = self.noted(path, at)?;
        let mut noted = field.lock();
        if noted.is_read || noted.column.is_some() {
            return None;
        }
        if noted.built != built {
            noted.built = built;
            noted.steps = noted.steps.saturating_add(1);
        }
        noted.queries = noted.queries.saturating_add(1);
        let steps = noted.steps.max(noted.queries / QUERIES_OF_A_STEP);
        if steps < noted.steps_min || !noted.takes(C::bytes_of(docs)) {
            return None;
        }
        noted.is_read = true;
        drop(noted);
        Some(field)
    }

    fn noted(&self, path: &Path, at: Position) -> Option<Arc<Mutex<Field<C>>>> {
        let mut kept = self.kept.lock();
        if at <= kept.after {
            return None;
        }
        if let Some(field) = kept.fields.get(path) {
            return Some(Arc::clone(field));
        }
        if kept.fields.len() >= FIELDS_MAX {
            kept.fields.clear();
        }
        let field = Arc::new(Mutex::new(Field {
            column: None,
            charges: [&self.budget, &self.part].map(|budget| budget.charge(0)),
            is_read: false,
            is_needed: false,
            built: Position(0),
            steps: 0,
            steps_min: STEPS,
            queries: 0,
            served: 0,
            kept_up: 0,
        }));
        kept.fields.insert(path.clone(), Arc::clone(&field));
        Some(field)
    }
}
