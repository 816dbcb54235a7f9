//! Runs of code over the rows of a view: filters, maps and aggregates.

use crate::part_rows::PartRows;
use crate::view::{PartView, View};
use crate::{Error, Result};
use quire_collection::Found;
use quire_coprocessor::{Code, Kind, Limits, Row, Run};
use quire_model::{DocId, Document};
use std::vec;

/// What a run is to do.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// What the code is used as: a filter, a map or an aggregate.
    pub kind: Kind,
    /// Of a wide collection: the columns that rows have; no group of others is read. All if `None`.
    pub columns: Option<Vec<String>>,
    /// What the code can read as its argument.
    pub argument: Option<Document>,
    /// What a module may use.
    pub limits: Limits,
}

impl RunOptions {
    /// A run without an argument, over whole rows.
    pub fn of(kind: Kind) -> RunOptions {
        RunOptions {
            kind,
            columns: None,
            argument: None,
            limits: Limits::default(),
        }
    }
}

/// What a run gives, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub enum Produced {
    /// A row that a filter keeps.
    Row(Found),
    /// A document that a map emits, or the result of an aggregate.
    Document(Document),
}

/// Code on its way over all rows of a view: partition after partition, in docid order. Memory holds
/// a batch of rows, and what one call emits.
///
/// An aggregate folds each partition in a run of its own; another run merges them.
#[derive(Debug)]
pub struct CodeRun {
    view: View,
    code: Code,
    options: RunOptions,
    /// The run that filters, maps or merges.
    run: Run,
    /// The rows of a partition, and the run that folds them.
    part: Option<(PartRows, Option<Run>)>,
    next_part: usize,
    batch: vec::IntoIter<(DocId, Found)>,
    /// What the last row became, the next one last.
    produced: Vec<Produced>,
    rows: u64,
    is_done: bool,
}

impl View {
    /// Begins to run code over all rows of this view.
    ///
    /// # Errors
    /// `Invalid` if the code is not of that kind, does not start, or columns are named of a plain
    /// collection.
    pub fn run_code(&self, code: &Code, options: RunOptions) -> Result<CodeRun> {
        code.check_kind(options.kind)?;
        if options.kind == Kind::Trigger {
            let what = "a trigger runs with each write, and not over rows";
            return Err(Error::Invalid(what.into()));
        }
        for part in self.parts() {
            check_columns(part, &options)?;
        }
        Ok(CodeRun {
            view: self.clone(),
            code: code.clone(),
            run: code.start(options.argument.as_ref(), &options.limits)?,
            options,
            part: None,
            next_part: 0,
            batch: Vec::new().into_iter(),
            produced: Vec::new(),
            rows: 0,
            is_done: false,
        })
    }
}

impl CodeRun {
    /// Rows that the code was called with so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Calls the code with `rows_max` rows at most, until it produces something. `None` if it did
    /// not, or at the [end](CodeRun::is_done).
    ///
    /// # Errors
    /// `Invalid` if a call fails: the error names code, row and reason. `Corrupt` for damage. The
    /// run is then at its end.
    pub fn next_within(&mut self, rows_max: usize) -> Result<Option<Produced>> {
        let found = self.find(rows_max);
        self.is_done |= found.is_err();
        found
    }

    /// Whether nothing follows.
    pub fn is_done(&self) -> bool {
        self.is_done && self.produced.is_empty()
    }

    fn find(&mut self, rows_max: usize) -> Result<Option<Produced>> {
        for _ in 0..rows_max {
            if let Some(produced) = self.produced.pop() {
                return Ok(Some(produced));
            }
            if self.is_done {
                return Ok(None);
            }
            match self.next_row()? {
                Some(found) => self.see(found)?,
                None => self.finish()?,
            }
        }
        Ok(self.produced.pop())
    }

    fn next_row(&mut self) -> Result<Option<Found>> {
        loop {
            if let Some((_, found)) = self.batch.next() {
                return Ok(Some(found));
            }
            let Some((rows, folding)) = &mut self.part else {
                if !self.begin_part()? {
                    return Ok(None);
                }
                continue;
            };
            self.batch = rows.next_batch()?.into_iter();
            if self.batch.as_slice().is_empty() {
                if let Some(folding) = folding {
                    self.run.merge(folding.partial()?)?;
                }
                self.part = None;
            }
        }
    }

    /// Begins with the next partition, if there is one.
    fn begin_part(&mut self) -> Result<bool> {
        let parts = self.view.parts();
        let Some(part) = parts.get(self.next_part) else {
            return Ok(false);
        };
        let columns = self.options.columns.as_ref();
        let columns: Option<Vec<&str>> =
            columns.map(|columns| columns.iter().map(String::as_str).collect());
        let rows = part.rows_of(columns.as_deref())?;
        let (argument, limits) = (self.options.argument.as_ref(), &self.options.limits);
        let folding = match self.options.kind {
            Kind::Aggregate => Some(self.code.start(argument, limits)?),
            _ => None,
        };
        self.next_part += 1;
        self.part = Some((rows, folding));
        Ok(true)
    }

    fn see(&mut self, found: Found) -> Result<()> {
        self.rows += 1;
        let row = Row::new(&found.key, &found.document);
        match &mut self.part {
            Some((_, Some(folding))) => folding.fold(&row)?,
            _ if self.options.kind == Kind::Filter => {
                if self.run.filter(&row)? {
                    self.produced.push(Produced::Row(found));
                }
            }
            _ => {
                let documents = self.run.map(&row)?.into_iter();
                self.produced
                    .extend(documents.rev().map(Produced::Document));
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.is_done = true;
        if self.options.kind == Kind::Aggregate {
            let result = self.run.finish()?;
            self.produced.push(Produced::Document(result));
        }
        Ok(())
    }
}

impl Iterator for CodeRun {
    type Item = Result<Produced>;

    fn next(&mut self) -> Option<Result<Produced>> {
        self.next_within(usize::MAX).transpose()
    }
}

/// Refuses columns that the rows do not have.
fn check_columns(part: PartView<'_>, options: &RunOptions) -> Result<()> {
    let Some(columns) = &options.columns else {
        return Ok(());
    };
    let PartView::Wide(view, _) = part else {
        let what = "columns are named of wide collections alone, and this is a plain one";
        return Err(Error::Invalid(what.into()));
    };
    let schema = view.schema();
    let mut unknown = columns.iter().filter(|name| schema.column(name).is_none());
    match unknown.next() {
        Some(name) if !schema.keeps_undeclared() => {
            Err(Error::Invalid(format!("there is no column {name:?}")))
        }
        _ => Ok(()),
    }
}
