//! What is stored of a sink: how far it is.

use crate::change::Cursor;
use crate::error::{Error, Result};
use quire_env::{Env, ErrorKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

const VERSION: u32 = 1;
const BYTES_MAX: u64 = 16 << 20;

/// A sink's position: the topic up to the cursor is in the sink, durably.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    version: u32,
    /// What was read.
    pub source: String,
    /// The last position of each partition, between commas.
    cursor: String,
    /// What a reader of the source needs beside the cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Value>,
    /// What the sink needs to go on.
    pub mark: Option<Value>,
    /// Changes that were shipped since the first run.
    pub changes: u64,
    /// Changes that the sink refused since the first run.
    pub dead_letters: u64,
    /// When this was stored: microseconds since 1970 UTC.
    pub stored_micros: i64,
}

impl Checkpoint {
    /// The beginning of a source.
    pub(crate) fn begin(source: String) -> Checkpoint {
        Checkpoint {
            version: VERSION,
            source,
            ..Checkpoint::default()
        }
    }

    /// The file of a sink in the folder of a pipe's state.
    pub(crate) fn path(state: &Path, sink: &str) -> PathBuf {
        state.join(format!("{sink}.position.json"))
    }

    /// Reads what [`store`](Checkpoint::store) stored; none if nothing was.
    ///
    /// # Errors
    /// Of the file, and if it can't be understood.
    pub(crate) fn load(env: &dyn Env, path: &Path) -> Result<Option<Checkpoint>> {
        let bytes = match env.read(path, BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let wrong = |why: String| Error::Config(format!("{}: {why}", path.display()));
        let read: Checkpoint =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        if read.version != VERSION {
            return Err(wrong(format!(
                "it has version {}, and this program reads {VERSION}",
                read.version
            )));
        }
        match Cursor::parse(&read.cursor) {
            Some(_) => Ok(Some(read)),
            None => Err(wrong(format!("{:?} is no position", read.cursor))),
        }
    }

    /// How far the sink is.
    pub fn cursor(&self) -> Cursor {
        // Checked when it was read.
        Cursor::parse(&self.cursor).unwrap_or_default()
    }

    /// Sets how far the sink is.
    pub(crate) fn set_cursor(&mut self, cursor: &Cursor) {
        self.cursor = cursor.to_string();
    }

    /// Replaces the file, durably.
    ///
    /// # Errors
    /// Of the file.
    pub(crate) fn store(&mut self, env: &dyn Env, path: &Path) -> Result<()> {
        self.stored_micros = env.now_micros();
        let json = serde_json::to_vec_pretty(self);
        let json = json.map_err(|error| Error::Config(error.to_string()))?;
        Ok(env.replace(path, &json)?)
    }
}
