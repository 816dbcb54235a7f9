//! The file of documents that a sink refused, each with the reason.

use crate::change::Change;
use crate::change_line;
use crate::error::Result;
use parking_lot::Mutex;
use quire_env::{AppendFile, Env};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Lines of JSON: `{"reason":…,"change":{…}}`, the change as `quire tail` prints it.
#[derive(Debug)]
pub(crate) struct DeadLetters {
    env: Arc<dyn Env>,
    path: PathBuf,
    file: Mutex<Option<Box<dyn AppendFile>>>,
}

impl DeadLetters {
    /// The file at a path, which is made with the first refused document.
    pub(crate) fn new(env: Arc<dyn Env>, path: PathBuf) -> DeadLetters {
        DeadLetters {
            env,
            path,
            file: Mutex::new(None),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends refused changes with their reasons. Durable when it returns.
    ///
    /// # Errors
    /// Of the file.
    pub(crate) fn append(&self, refused: &[(&Change, String)]) -> Result<()> {
        let mut lines = Vec::new();
        for (change, reason) in refused {
            let reason = Value::from(reason.as_str());
            lines.extend_from_slice(format!("{{\"reason\":{reason},\"change\":").as_bytes());
            change_line::write(change, &mut lines);
            // The end of the outer object goes before the end of the line.
            lines.pop();
            lines.extend_from_slice(b"}\n");
        }
        let mut open = self.file.lock();
        let mut file = match open.take() {
            Some(file) => file,
            None => self.open()?,
        };
        file.append(&lines)?;
        file.sync()?;
        // After an error nothing is known of the end of the file: it is opened anew.
        *open = Some(file);
        Ok(())
    }

    fn open(&self) -> Result<Box<dyn AppendFile>> {
        if self.env.exists(&self.path)? {
            let mut file = self.env.open_append(&self.path)?;
            let whole = self.whole_lines(file.len())?;
            file.truncate(whole)?;
            return Ok(file);
        }
        let file = self.env.create(&self.path)?;
        self.env.sync_dir(quire_env::parent_of(&self.path))?;
        Ok(file)
    }

    /// The length without a line that a crash cut.
    fn whole_lines(&self, length: u64) -> Result<u64> {
        const CHUNK: u64 = 64 << 10;
        let file = self.env.open_read(&self.path)?;
        let mut end = length;
        while end > 0 {
            let start = end.saturating_sub(CHUNK);
            let bytes = file.read_at(start, (end - start) as usize)?;
            if let Some(at) = memchr::memrchr(b'\n', &bytes) {
                return Ok(start + at as u64 + 1);
            }
            end = start;
        }
        Ok(0)
    }
}
