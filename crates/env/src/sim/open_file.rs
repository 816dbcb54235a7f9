//! An open file of the simulated machine.

use super::file::FileRef;
use super::machine::{SimMachine, State};
use super::tree::names_of;
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// A file, counted as open until dropped.
pub(super) struct OpenFile {
    pub(super) file: FileRef,
    /// The path that led to it when it was opened, as names.
    names: Vec<String>,
    /// The number of disks that had vanished by then.
    losses: usize,
}

impl OpenFile {
    pub(super) fn new(machine: &SimMachine, path: &Path, file: FileRef) -> OpenFile {
        file.lock().open += 1;
        OpenFile {
            file,
            names: names_of(path),
            losses: machine.with(|state| state.losses.len()),
        }
    }

    /// The file, if the disk that holds it has not vanished since it was opened.
    pub(super) fn on_its_disk(&self, state: &State) -> io::Result<&FileRef> {
        let mut losses = state.losses.iter().skip(self.losses);
        match losses.any(|gone| self.names.starts_with(gone)) {
            true => Err(Errno::IO.into()),
            false => Ok(&self.file),
        }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let mut file = self.file.lock();
        assert!(file.open > 0, "each open handle was counted");
        file.open -= 1;
    }
}
