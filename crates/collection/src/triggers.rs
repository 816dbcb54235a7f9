//! The triggers of a write: they see the document before it and as it is to be, one after the
//! other, and what they change is written in the same record.

use crate::{Result, Write};
use quire_coprocessor::{Change, Trigger};
use quire_model::{Document, Key};
use std::borrow::Cow;
use std::sync::Arc;

/// Checks what a trigger makes of a document, given as a patch of it.
type Check<'t> = &'t dyn Fn(&Write) -> std::result::Result<(), String>;

/// The triggers that run with each of some writes, in their order.
#[derive(Clone, Copy)]
pub struct Triggers<'t> {
    list: &'t [Arc<Trigger>],
    check: Check<'t>,
}

impl std::fmt::Debug for Triggers<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.list).finish()
    }
}

impl<'t> Triggers<'t> {
    /// These, whose patches must be what `check` lets through.
    pub fn new(list: &'t [Arc<Trigger>], check: Check<'t>) -> Triggers<'t> {
        Triggers { list, check }
    }

    /// None.
    pub fn none() -> Triggers<'static> {
        Triggers {
            list: &[],
            check: &|_| Ok(()),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// What `after` becomes by the triggers, which run only here: not again for what they change.
    ///
    /// # Errors
    /// `Trigger` if one refuses the write or fails; `Model` if the document becomes too large.
    pub(crate) fn run<'d>(
        &self,
        key: &Key,
        before: Option<&Document>,
        after: &'d Document,
        time_micros: i64,
    ) -> Result<Cow<'d, Document>> {
        let mut after = Cow::Borrowed(after);
        for trigger in self.list {
            let patch = trigger.run(&Change {
                key,
                before,
                after: Some(&after),
                time_micros,
                argument: None,
            })?;
            if let Some(patch) = patch {
                let write = Write::patch(key.clone(), patch.clone());
                (self.check)(&write).map_err(|what| trigger.refused(key, &what))?;
                after = Cow::Owned(after.merge_patch(&patch)?);
            }
        }
        Ok(after)
    }

    /// Shows them the removal of a document.
    ///
    /// # Errors
    /// `Trigger` if one refuses it or fails.
    pub(crate) fn run_removal(&self, key: &Key, before: &Document, time_micros: i64) -> Result<()> {
        for trigger in self.list {
            trigger.run(&Change {
                key,
                before: Some(before),
                after: None,
                time_micros,
                argument: None,
            })?;
        }
        Ok(())
    }
}
