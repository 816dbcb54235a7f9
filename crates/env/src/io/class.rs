//! [`IoClass`]: what a read or write is for.

use std::cell::Cell;

/// What a read or write is for; the first is the most urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum IoClass {
    /// A user waits for it.
    Read = 0,
    /// Appends and syncs of the log, and flushes, which free memory.
    Log = 1,
    /// Reads and writes of compactions.
    Compaction = 2,
    /// Scrubs and copies.
    Background = 3,
}

/// How many classes there are.
pub const IO_CLASSES: usize = 4;

thread_local! {
    static CLASS: Cell<IoClass> = const { Cell::new(IoClass::Read) };
}

/// While it lives, what the thread reads and writes is of a class.
#[derive(Debug)]
#[must_use = "the class is the one before once this is dropped"]
pub struct IoScope(IoClass);

impl IoScope {
    /// What this thread does from now on is of `class`.
    pub fn enter(class: IoClass) -> IoScope {
        IoScope(CLASS.replace(class))
    }
}

impl Drop for IoScope {
    fn drop(&mut self) {
        CLASS.set(self.0);
    }
}

/// The class of a read by this thread.
pub(crate) fn class_of_read() -> IoClass {
    CLASS.get()
}

/// The class of a write by this thread: what users write goes to the log.
pub(crate) fn class_of_write() -> IoClass {
    CLASS.get().max(IoClass::Log)
}
