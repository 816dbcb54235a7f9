//! [`Spool`]: bytes that are written once and then read: in memory while they are few, otherwise
//! in a temporary file.
//!
//! # Invariants
//! 1. A temporary file is removed with its last user. One that a crash left is overwritten by the
//!    next of its name.

use crate::{Error, Result};
use bytes::Bytes;
use quire_env::{AppendFile, Env, ErrorKind, ReadFile};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Size of the pieces in which a temporary file is written and read. One is held for each run.
const PIECE_BYTES: usize = 64 << 10;
/// The least size of these pieces when many are held.
const PIECE_BYTES_MIN: usize = 4 << 10;

/// Makes spools, whose files lie beside the partition that is built.
#[derive(Debug, Clone)]
pub(crate) struct Spools {
    env: Arc<dyn Env>,
    path: PathBuf,
    made: Arc<AtomicU32>,
    /// A spool of more bytes than these goes to a file.
    memory_max: usize,
}

impl Spools {
    pub(crate) fn new(env: Arc<dyn Env>, path: &Path, memory_max: usize) -> Spools {
        Spools {
            env,
            path: path.to_path_buf(),
            made: Arc::new(AtomicU32::new(0)),
            memory_max,
        }
    }

    /// How many bytes of a spool stay in memory.
    pub(crate) fn memory_max(&self) -> usize {
        self.memory_max
    }

    /// The same, for spools that stay in memory up to `memory_max` bytes.
    pub(crate) fn with_memory(&self, memory_max: usize) -> Spools {
        Spools {
            memory_max,
            ..self.clone()
        }
    }

    /// An empty spool.
    pub(crate) fn spool(&self) -> Spool {
        Spool {
            of: self.clone(),
            bytes: Vec::new(),
            file: None,
        }
    }

    fn create(&self) -> Result<Box<dyn AppendFile>> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".tmp-{number}"));
        create_anew(&*self.env, Path::new(&name))
    }
}

/// Creates a file, in the place of one that a crash left.
pub(crate) fn create_anew(env: &dyn Env, path: &Path) -> Result<Box<dyn AppendFile>> {
    match env.create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            env.remove(path)?;
            Ok(env.create(path)?)
        }
        created => Ok(created?),
    }
}

/// Removes a temporary file when dropped.
pub(crate) struct Temporary {
    env: Arc<dyn Env>,
    path: PathBuf,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A file that is left behind is overwritten by the next build.
        let _ = self.env.remove(&self.path);
    }
}

/// Bytes being written.
pub(crate) struct Spool {
    of: Spools,
    bytes: Vec<u8>,
    file: Option<(Box<dyn AppendFile>, Temporary)>,
}

impl fmt::Debug for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spool")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl Spool {
    /// Bytes so far.
    pub(crate) fn len(&self) -> u64 {
        let in_file = self.file.as_ref().map_or(0, |(file, _)| file.len());
        in_file + self.bytes.len() as u64
    }

    /// Where to append; [`settle`](Self::settle) must follow now and then.
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Moves what is appended to the file, if it has grown large.
    pub(crate) fn settle(&mut self) -> Result<()> {
        // A piece at a time, however little may stay in memory: a call for each value would take
        // longer than all the rest.
        let limit = match self.file {
            Some(_) => PIECE_BYTES,
            None => self.of.memory_max,
        };
        match self.bytes.len() > limit {
            true => self.write_out(),
            false => Ok(()),
        }
    }

    fn write_out(&mut self) -> Result<()> {
        if self.file.is_none() {
            let file = self.of.create()?;
            let temporary = Temporary {
                env: Arc::clone(&self.of.env),
                path: file.path().to_path_buf(),
            };
            self.file = Some((file, temporary));
        }
        if let Some((file, _)) = &mut self.file {
            file.append(&self.bytes)?;
            self.bytes.clear();
        }
        Ok(())
    }

    /// Ends the writing.
    pub(crate) fn finish(mut self) -> Result<Spooled> {
        if self.file.is_some() {
            self.write_out()?;
        }
        match self.file {
            None => Ok(Spooled::Memory(Bytes::from(self.bytes))),
            Some((file, temporary)) => Ok(Spooled::File {
                bytes: file.len(),
                file: self.of.env.open_read(file.path())?,
                _temporary: Arc::new(temporary),
            }),
        }
    }
}

/// Bytes that were written.
#[derive(Clone)]
pub(crate) enum Spooled {
    Memory(Bytes),
    File {
        file: Arc<dyn ReadFile>,
        bytes: u64,
        _temporary: Arc<Temporary>,
    },
}

impl fmt::Debug for Spooled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spooled").field("len", &self.len()).finish()
    }
}

impl Spooled {
    /// How many.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Spooled::Memory(bytes) => bytes.len() as u64,
            Spooled::File { bytes, .. } => *bytes,
        }
    }

    /// Reads from `start` up to `end`.
    pub(crate) fn read(&self, start: u64, end: u64) -> SpoolReader {
        assert!(
            start <= end && end <= self.len(),
            "a reader stays within its spool"
        );
        SpoolReader {
            of: self.clone(),
            next: start,
            end,
            piece_bytes: PIECE_BYTES as u64,
            held: Bytes::new(),
            at: 0,
        }
    }

    /// Calls `to` with all bytes, piece by piece.
    pub(crate) fn copy(&self, mut to: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut reader = self.read(0, self.len());
        while !reader.is_at_end() {
            let piece = reader.piece()?;
            to(piece)?;
            let read = piece.len();
            reader.advance(read);
        }
        Ok(())
    }

    fn piece(&self, start: u64, end: u64) -> Result<Bytes> {
        match self {
            // We wrote these bytes, so the offsets are right.
            Spooled::Memory(bytes) => Ok(bytes.slice(start as usize..end as usize)),
            Spooled::File { file, .. } => Ok(file.read_at(start, (end - start) as usize)?),
        }
    }
}

/// Reads a spool from its beginning, or from within.
#[derive(Debug)]
pub(crate) struct SpoolReader {
    of: Spooled,
    /// Where the bytes that are not held begin.
    next: u64,
    end: u64,
    /// How many bytes of a file are held.
    piece_bytes: u64,
    held: Bytes,
    /// How many bytes of those held were read.
    at: usize,
}

impl SpoolReader {
    /// Reads a file in pieces of which `count` take `memory` bytes, unless they were too small.
    pub(crate) fn among(mut self, count: usize, memory: usize) -> SpoolReader {
        let each = (memory / count.max(1)).clamp(PIECE_BYTES_MIN, PIECE_BYTES);
        self.piece_bytes = each as u64;
        self
    }

    /// Whether all was read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.held.len() && self.next == self.end
    }

    /// The bytes that are held and not read yet. Loads more if there are none; empty at the end.
    pub(crate) fn piece(&mut self) -> Result<&[u8]> {
        if self.at == self.held.len() {
            let more = (self.end - self.next).min(match self.of {
                Spooled::Memory(_) => u64::MAX,
                Spooled::File { .. } => self.piece_bytes,
            });
            self.held = self.of.piece(self.next, self.next + more)?;
            self.next += more;
            self.at = 0;
        }
        Ok(self.held.get(self.at..).unwrap_or_default())
    }

    /// Marks `count` bytes of the piece as read.
    pub(crate) fn advance(&mut self, count: usize) {
        debug_assert!(
            self.at + count <= self.held.len(),
            "bytes that were read are held"
        );
        self.at += count;
    }

    /// Replaces `out` by the next `count` bytes.
    pub(crate) fn take(&mut self, count: u64, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let mut left = count as usize;
        while left > 0 {
            let piece = self.piece()?;
            let some = piece.get(..left.min(piece.len())).unwrap_or_default();
            out.extend_from_slice(some);
            let taken = some.len();
            if taken == 0 {
                return Err(self.cut_short());
            }
            left -= taken;
            self.advance(taken);
        }
        Ok(())
    }

    /// The next variable-length integer: seven bits a byte, lowest first.
    #[inline]
    pub(crate) fn number(&mut self) -> Result<u64> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = match self.held.get(self.at) {
                Some(byte) => *byte,
                None => match self.piece()?.first() {
                    Some(byte) => *byte,
                    None => return Err(self.cut_short()),
                },
            };
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 || shift > 63 {
                return Ok(value);
            }
        }
    }

    #[cold]
    fn cut_short(&self) -> Error {
        match &self.of {
            Spooled::Memory(_) => Error::corrupt(Path::new("memory"), "run", self.next),
            Spooled::File { file, .. } => Error::corrupt(file.path(), "temporary file", self.next),
        }
    }
}

/// Appends a variable-length integer.
pub(crate) fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
