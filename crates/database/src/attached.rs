//! The triggers that an open collection has: those of the catalog, and those of the program.

use crate::{Error, Result};
use parking_lot::RwLock;
use quire_coprocessor::Trigger;
use std::sync::Arc;

/// The triggers of an open collection. Those of the catalog run first, in the order of their names,
/// then those of the program, in the order in which they were attached.
#[derive(Debug, Default)]
pub(crate) struct AttachedTriggers {
    lists: RwLock<Lists>,
}

#[derive(Debug, Default)]
struct Lists {
    of_catalog: Vec<Arc<Trigger>>,
    of_program: Vec<Arc<Trigger>>,
    all: Arc<Vec<Arc<Trigger>>>,
}

impl Lists {
    fn join(&mut self) {
        let all = self.of_catalog.iter().chain(&self.of_program);
        self.all = Arc::new(all.cloned().collect());
    }
}

impl AttachedTriggers {
    pub(crate) fn new(of_catalog: Vec<Arc<Trigger>>) -> AttachedTriggers {
        let attached = AttachedTriggers::default();
        attached.set_of_catalog(of_catalog);
        attached
    }

    /// All, in their order.
    pub(crate) fn all(&self) -> Arc<Vec<Arc<Trigger>>> {
        Arc::clone(&self.lists.read().all)
    }

    pub(crate) fn set_of_catalog(&self, triggers: Vec<Arc<Trigger>>) {
        let mut lists = self.lists.write();
        lists.of_catalog = triggers;
        lists.join();
    }

    /// Attaches one of the program.
    pub(crate) fn attach(&self, trigger: Trigger) -> Result<()> {
        let mut lists = self.lists.write();
        if lists
            .of_program
            .iter()
            .any(|one| one.name() == trigger.name())
        {
            let what = format!("the collection has a trigger {:?} already", trigger.name());
            return Err(Error::Invalid(what));
        }
        lists.of_program.push(Arc::new(trigger));
        lists.join();
        Ok(())
    }

    /// Detaches one of the program; whether there was one of this name.
    pub(crate) fn detach(&self, name: &str) -> bool {
        let mut lists = self.lists.write();
        let before = lists.of_program.len();
        lists.of_program.retain(|one| one.name() != name);
        lists.join();
        lists.of_program.len() < before
    }
}
