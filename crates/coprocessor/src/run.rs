//! A run: code that was started, called with one row after the other.

use crate::change::Change;
use crate::code::{Body, Code, Fold};
use crate::error::Cause;
use crate::kind::Kind;
use crate::row::Row;
use crate::runtime::Instantiated;
use crate::{Error, Limits, Result};
use quire_model::{Document, Key};

/// Code that was started. After an error it is to be dropped: what a module has in its memory then
/// is unknown.
pub struct Run {
    code: Code,
    argument: Option<Document>,
    state: State,
}

enum State {
    Wasm(Box<Instantiated>),
    Fold(Box<dyn Fold>),
    /// A closure, which has no state.
    None,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run")
            .field("code", &self.code)
            .finish_non_exhaustive()
    }
}

impl Code {
    /// Begins to run it. A module gets a memory of its own, and its start function runs.
    ///
    /// # Errors
    /// `Call` if its start function fails, or it wants more memory than it may have.
    pub fn start(&self, argument: Option<&Document>, limits: &Limits) -> Result<Run> {
        Run::new(self, argument, limits)
    }
}

impl Run {
    fn new(code: &Code, argument: Option<&Document>, limits: &Limits) -> Result<Run> {
        let state = match &code.body {
            Body::Wasm(module) => {
                let started = Instantiated::new(module, limits);
                let mut started = started.map_err(|cause| Error::Call {
                    code: code.name().to_string(),
                    call: "start",
                    row: None,
                    cause,
                })?;
                started.host().sources[2] = argument.cloned();
                State::Wasm(Box::new(started))
            }
            Body::Aggregate(begin) => State::Fold(begin()),
            _ => State::None,
        };
        Ok(Run {
            code: code.clone(),
            argument: argument.cloned(),
            state,
        })
    }

    /// Whether the row is to be kept.
    ///
    /// # Errors
    /// `Call`, which names code, row and reason; `WrongKind`.
    pub fn filter(&mut self, row: &Row<'_>) -> Result<bool> {
        if let Body::Filter(keep) = &self.code.body {
            let kept = keep(&self.with_argument(row));
            return kept.map_err(|what| self.failed("filter", Some(row), Cause::Failed(what)));
        }
        let told = self.call(Kind::Filter, "quire_1_filter", Some(row))?;
        match told {
            0 => Ok(false),
            1 => Ok(true),
            other => {
                let what = format!("a filter returns 0 or 1, and it returned {other}");
                Err(self.failed("filter", Some(row), Cause::Abi(what)))
            }
        }
    }

    /// The documents that the row becomes.
    ///
    /// # Errors
    /// As of [`filter`](Run::filter).
    pub fn map(&mut self, row: &Row<'_>) -> Result<Vec<Document>> {
        if let Body::Map(map) = &self.code.body {
            let mut documents = Vec::new();
            let mapped = map(&self.with_argument(row), &mut |one| documents.push(one));
            mapped.map_err(|what| self.failed("map", Some(row), Cause::Failed(what)))?;
            return Ok(documents);
        }
        self.call(Kind::Map, "quire_1_map", Some(row))?;
        self.documents("map", Some(row.key))
    }

    /// Takes a row into the aggregate.
    ///
    /// # Errors
    /// As of [`filter`](Run::filter).
    pub fn fold(&mut self, row: &Row<'_>) -> Result<()> {
        let with_argument = Row {
            argument: self.argument.as_ref(),
            ..*row
        };
        if let State::Fold(fold) = &mut self.state {
            let folded = fold.fold(&with_argument);
            return folded.map_err(|what| self.failed("fold", Some(row), Cause::Failed(what)));
        }
        self.call(Kind::Aggregate, "quire_1_fold", Some(row))?;
        Ok(())
    }

    /// What the aggregate has so far.
    ///
    /// # Errors
    /// As of [`filter`](Run::filter).
    pub fn partial(&mut self) -> Result<Vec<u8>> {
        if let State::Fold(fold) = &mut self.state {
            return Ok(fold.partial());
        }
        self.call(Kind::Aggregate, "quire_1_partial", None)?;
        Ok(self.host()?.emitted().collect::<Vec<_>>().concat())
    }

    /// Takes what another run has.
    ///
    /// # Errors
    /// As of [`filter`](Run::filter).
    pub fn merge(&mut self, partial: Vec<u8>) -> Result<()> {
        if let State::Fold(fold) = &mut self.state {
            let merged = fold.merge(&partial);
            return merged.map_err(|what| self.failed("merge", None, Cause::Failed(what)));
        }
        if let State::Wasm(instance) = &mut self.state {
            instance.host().state = partial;
        }
        self.call(Kind::Aggregate, "quire_1_merge", None)?;
        Ok(())
    }

    /// The result of the aggregate.
    ///
    /// # Errors
    /// As of [`filter`](Run::filter).
    pub fn finish(&mut self) -> Result<Document> {
        if let State::Fold(fold) = &mut self.state {
            let finished = fold.finish();
            return finished.map_err(|what| self.failed("finish", None, Cause::Failed(what)));
        }
        self.call(Kind::Aggregate, "quire_1_finish", None)?;
        let mut documents = self.documents("finish", None)?;
        match (documents.pop(), documents.is_empty()) {
            (Some(result), true) => Ok(result),
            _ => {
                let what = "it emits one document, the result, and no other number of them";
                Err(self.failed("finish", None, Cause::Abi(what.into())))
            }
        }
    }

    /// What the code makes of a change: a JSON merge patch of the document as it is to be, or
    /// nothing.
    ///
    /// # Errors
    /// As of [`filter`](Run::filter); also if it emits something of a row that is removed.
    pub fn trigger(&mut self, change: &Change<'_>) -> Result<Option<Document>> {
        let wrong = |what: &str| Cause::Abi(what.into());
        let patch = match &self.code.body {
            Body::Trigger(trigger) => {
                let argument = self.argument.as_ref();
                let called = trigger(&Change {
                    argument,
                    ..*change
                });
                called
                    .map_err(|what| self.error("trigger", Some(change.key), Cause::Failed(what)))?
            }
            _ => {
                let write = format!("{{\"time\":{}}}", change.time_micros);
                let write = Document::from_json(write.as_bytes());
                let write = write.map_err(|error| {
                    self.error("trigger", Some(change.key), wrong(&error.to_string()))
                })?;
                let documents = [change.after.cloned(), change.before.cloned(), Some(write)];
                self.call_with(
                    Kind::Trigger,
                    "quire_1_trigger",
                    Some(change.key),
                    documents,
                )?;
                let mut patches = self.documents("trigger", Some(change.key))?;
                let patch = patches.pop();
                if !patches.is_empty() {
                    let what = wrong("it emits one patch at most");
                    return Err(self.error("trigger", Some(change.key), what));
                }
                patch
            }
        };
        match (patch, change.after) {
            (Some(_), None) => {
                let what = wrong("it emits no patch of a row that is removed");
                Err(self.error("trigger", Some(change.key), what))
            }
            (patch, _) => Ok(patch),
        }
    }

    fn with_argument<'r>(&'r self, row: &Row<'r>) -> Row<'r> {
        Row {
            argument: self.argument.as_ref(),
            ..*row
        }
    }

    /// Calls a function of a module about a row.
    fn call(&mut self, kind: Kind, name: &'static str, row: Option<&Row<'_>>) -> Result<i32> {
        let documents = [row.map(|row| row.document.clone()), None, None];
        self.call_with(kind, name, row.map(|row| row.key), documents)
    }

    /// Calls a function of a module with the documents that it can read as sources 0, 1 and 3.
    fn call_with(
        &mut self,
        kind: Kind,
        name: &'static str,
        key: Option<&Key>,
        [document, before, write]: [Option<Document>; 3],
    ) -> Result<i32> {
        self.code.check_kind(kind)?;
        let State::Wasm(instance) = &mut self.state else {
            return Err(self.error(kind.name(), key, Cause::Abi("it was not started".into())));
        };
        let reads_key = matches!(&self.code.body, Body::Wasm(module) if module.reads_key());
        let host = instance.host();
        host.key = key.filter(|_| reads_key).cloned();
        host.sources[0] = document;
        host.sources[1] = before;
        host.sources[3] = write;
        let called = instance.call(name);
        let call = name.strip_prefix("quire_1_").unwrap_or(name);
        called.map_err(|cause| self.error(call, key, cause))
    }

    /// What the last call emitted, as documents.
    fn documents(&mut self, call: &'static str, key: Option<&Key>) -> Result<Vec<Document>> {
        let documents = self.host()?.emitted().map(Document::from_json);
        let documents: std::result::Result<Vec<_>, _> = documents.collect();
        documents.map_err(|error| {
            let what = format!("it emitted what is no document: {error}");
            self.error(call, key, Cause::Abi(what))
        })
    }

    fn host(&mut self) -> Result<&mut crate::abi::Host> {
        match &mut self.state {
            State::Wasm(instance) => Ok(instance.host()),
            _ => Err(Error::NotWasm("a closure".into())),
        }
    }

    fn failed(&self, call: &'static str, row: Option<&Row<'_>>, cause: Cause) -> Error {
        self.error(call, row.map(|row| row.key), cause)
    }

    fn error(&self, call: &'static str, key: Option<&Key>, cause: Cause) -> Error {
        Error::Call {
            code: self.code.name().to_string(),
            call,
            row: key.map(Key::to_string),
            cause,
        }
    }
}
