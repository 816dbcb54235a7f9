//! The audit log as the server has it.

use std::sync::Arc;

use quiredb::Env;

use super::event::Event;
use crate::log_file::{LogFile, LogFileError, LogFileOptions};

/// The longest path that a line has; the rest is left out.
const PATH_CHARS_MAX: usize = 512;

/// The audit log of a server. A clone is another handle to the same.
#[derive(Debug, Clone)]
pub struct Audit(LogFile);

impl Audit {
    /// Begins to write, after what is in the file.
    ///
    /// # Errors
    /// If the file can't be opened, or the thread not be started.
    pub fn open(env: Arc<dyn Env>, options: LogFileOptions) -> Result<Audit, LogFileError> {
        LogFile::open(env, options).map(Audit)
    }

    /// Writes an event, later. Never waits.
    pub(crate) fn note(&self, event: &Event<'_>) {
        self.0.note(&Event {
            path: event.path.map(cut),
            ..*event
        });
    }

    /// Waits until all events before are written, or could not be.
    pub fn flush(&self) {
        self.0.flush();
    }

    /// Lines written since the server began, and lines lost.
    pub(crate) fn counts(&self) -> (u64, u64) {
        self.0.counts()
    }
}

/// The beginning of a path.
fn cut(path: &str) -> &str {
    match path.char_indices().nth(PATH_CHARS_MAX) {
        Some((end, _)) => path.get(..end).unwrap_or(path),
        None => path,
    }
}
