//! The disk as a test sees it, and damage that a test does to it.

use super::SimEnv;
use super::file;
use super::rng::Rng;
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// The disk as a test sees it, and damage to it. These are not calls into the machine: they are not
/// counted, take no time, meet no fault, and work after a crash too.
impl SimEnv {
    /// All files, sorted by path, except those of a disk that has vanished.
    pub fn files(&self) -> Vec<PathBuf> {
        self.machine.with(|state| {
            state
                .tree
                .files()
                .into_iter()
                .map(|(path, _)| path)
                .collect()
        })
    }

    /// Bytes in use on the disk that holds `path`, with reserved space.
    pub fn used_bytes(&self, path: &Path) -> u64 {
        self.machine.with(|state| state.used_bytes(path))
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// `NotFound`; `Io` for a directory.
    pub fn read_all(&self, path: &Path) -> Result<Vec<u8>> {
        let file = self.machine.with(|state| state.tree.file(path));
        let file = file.map_err(|e| Error::io("read", path, e))?;
        let bytes = file.lock().bytes().to_vec();
        Ok(bytes)
    }

    /// Bit rot: flips one bit of one file, both chosen by the seed. Returns the file and the bit,
    /// as [`flip_bit`](Self::flip_bit) counts it. `None` if no file holds a byte.
    pub fn rot(&self, seed: u64) -> Option<(PathBuf, u64)> {
        let files = self.machine.with(|state| state.tree.files());
        let sizes = files
            .into_iter()
            .map(|(path, file)| (path, file.lock().bytes().len()));
        let mut files: Vec<_> = sizes.filter(|(_, bytes)| *bytes > 0).collect();
        let mut rng = Rng::new(seed);
        let chosen = rng.up_to(files.len().checked_sub(1)?);
        let (path, bytes) = files.swap_remove(chosen);
        let bit_index = rng.up_to(bytes * 8 - 1) as u64;
        self.flip_bit(&path, bit_index).ok()?;
        Some((path, bit_index))
    }

    /// Flips a bit of a file: bit `bit_index % 8` of byte `bit_index / 8`. The whole file counts as
    /// durable from then on.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument` past the end.
    pub fn flip_bit(&self, path: &Path, bit_index: u64) -> Result<()> {
        self.damage(path, bit_index / 8, 1, |bytes, offset| {
            if let Some(byte) = bytes.get_mut(offset) {
                *byte ^= 1 << (bit_index % 8);
            }
        })
    }

    /// Cuts a file to `len` bytes, durably, without a call of the program.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument` past the end.
    pub fn truncate_file(&self, path: &Path, len: u64) -> Result<()> {
        self.damage(path, len, 0, |bytes, len| bytes.truncate(len))
    }

    /// Overwrites bytes of a file, durably.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument` if they would extend past the end.
    pub fn overwrite(&self, path: &Path, offset: u64, with: &[u8]) -> Result<()> {
        self.damage(path, offset, with.len() as u64, |bytes, offset| {
            file::overwrite(bytes, offset, with);
        })
    }

    fn damage(
        &self,
        path: &Path,
        offset: u64,
        length: u64,
        damage: impl FnOnce(&mut Vec<u8>, usize),
    ) -> Result<()> {
        let file = self.machine.with(|state| state.tree.file(path));
        let file = file.map_err(|e| Error::io("damage", path, e))?;
        let mut file = file.lock();
        let len = file.bytes().len();
        let end = offset
            .checked_add(length)
            .and_then(|end| usize::try_from(end).ok());
        match (end, usize::try_from(offset)) {
            (Some(end), Ok(offset)) if end <= len => {
                file.damage(|bytes| damage(bytes, offset));
                Ok(())
            }
            _ => Err(Error::invalid_argument(format!(
                "no {length} bytes at {offset} of {}, which has {len}",
                path.display()
            ))),
        }
    }
}
