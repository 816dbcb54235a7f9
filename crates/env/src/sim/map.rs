//! A simulated file as memory.

use super::machine::{SimMachine, State};
use super::open_file::OpenFile;
use crate::Result;
use crate::part::part;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A file as memory. It behaves as a read does: it shows damage done after it was mapped, and fails
/// as a read fails.
pub(crate) struct SimMap {
    pub(super) machine: Arc<SimMachine>,
    pub(super) path: PathBuf,
    pub(super) file: Arc<OpenFile>,
}

impl fmt::Debug for SimMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimMap").field("path", &self.path).finish()
    }
}

impl SimMap {
    /// [`FileMap::look`].
    pub(crate) fn look<T>(
        &self,
        offset: u64,
        length: usize,
        look: impl FnOnce(&[u8]) -> T,
    ) -> Result<T> {
        let detail = format!("at {offset}, {length} bytes");
        let read = |state: &mut State| {
            let file = self.file.on_its_disk(state)?.lock();
            let part = part(file.bytes(), offset, length);
            part.map(<[u8]>::to_vec)
                .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
        };
        let part = self
            .machine
            .read("look at", &self.path, &detail, length > 0, read)?;
        Ok(look(&part))
    }
}
