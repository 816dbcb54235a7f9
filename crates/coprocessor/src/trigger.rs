//! Triggers: code that runs with each write of a collection.

use crate::code::Code;
use crate::error::Cause;
use crate::kind::Kind;
use crate::run::Run;
use crate::{Change, Error, Limits, Result};
use quire_model::{Document, Key};
use std::sync::{Mutex, PoisonError};

/// Runs that are kept for later writes: as many as there are writers at once, as a rule.
const IDLE_MAX: usize = 8;

/// How a trigger is called.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TriggerOptions {
    /// Of a wide collection: the columns that the documents have which it sees; no group of others
    /// is read. All if `None`.
    pub columns: Option<Vec<String>>,
    /// What it can read as its argument.
    pub argument: Option<Document>,
    /// What a module may use.
    pub limits: Limits,
}

/// Code that runs with each write of a collection. Any number of threads.
///
/// A module keeps its memory from one call to another, but any call may find it new.
#[derive(Debug)]
pub struct Trigger {
    code: Code,
    options: TriggerOptions,
    /// Runs that have begun and whose last call did not fail.
    idle: Mutex<Vec<Run>>,
}

impl Trigger {
    /// A trigger of this code.
    ///
    /// # Errors
    /// `WrongKind`; `Call` if it does not start.
    pub fn new(code: &Code, options: TriggerOptions) -> Result<Trigger> {
        code.check_kind(Kind::Trigger)?;
        let first = code.start(options.argument.as_ref(), &options.limits)?;
        Ok(Trigger {
            code: code.clone(),
            options,
            idle: Mutex::new(vec![first]),
        })
    }

    /// The name of its code, as messages have it.
    pub fn name(&self) -> &str {
        self.code.name()
    }

    /// How it is called.
    pub fn options(&self) -> &TriggerOptions {
        &self.options
    }

    /// What it makes of a change: a JSON merge patch of the document as it is to be, or nothing.
    ///
    /// # Errors
    /// `Call`, which names code, row and reason: the write is not to be done.
    pub fn run(&self, change: &Change<'_>) -> Result<Option<Document>> {
        let idle = self.idle().pop();
        let mut run = match idle {
            Some(run) => run,
            None => {
                let (argument, limits) = (self.options.argument.as_ref(), &self.options.limits);
                self.code.start(argument, limits)?
            }
        };
        // After an error the run is dropped: its memory may be in any state.
        let patch = run.trigger(change)?;
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(run);
        }
        Ok(patch)
    }

    /// The error of a patch that its collection can't take.
    pub fn refused(&self, key: &Key, what: &str) -> Error {
        Error::Call {
            code: self.code.name().to_string(),
            call: "trigger",
            row: Some(key.to_string()),
            cause: Cause::Abi(format!("it emitted what the collection refuses: {what}")),
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Run>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
