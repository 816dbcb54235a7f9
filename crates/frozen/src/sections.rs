//! [`Sections`]: the parts of a file, each loaded or mapped when it is first read.
//!
//! # Invariants
//! 1. The bytes that are returned were compared with their checksum: with `Access::Read` the very
//!    bytes, in our own memory; in a map, the bytes as they were at that time.
//! 2. Access to a loaded section takes no lock, no system call and no check of a checksum.

use crate::format::{self, HEADER_BYTES, NoTrailer, TRAILER_BYTES, Trailer, VERSION, VERSION_MIN};
use crate::table::{SectionKind, Table};
use crate::{Error, Result};
use bytes::Bytes;
use quire_env::{Env, ReadFile};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// How the bytes of a file are accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// Sections are read into memory when they are first needed, blocks of rows each time. Whatever
    /// happens to the file afterwards, readers get bytes that were checked; a file that was cut is
    /// an error.
    #[default]
    Read,
    /// The file is mapped: nothing is copied, and the system keeps used pages while there is
    /// memory. For files that are only ever replaced by a rename: reading a file that was cut while
    /// it was open kills the process (SIGBUS).
    Map,
}

/// The parts of an open file.
#[derive(Debug)]
pub(crate) struct Sections {
    path: PathBuf,
    source: Source,
    table: Table,
    trailer: Trailer,
    loaded: Box<[OnceLock<Bytes>]>,
}

/// Where the bytes of a file come from. A map outlives its file.
#[derive(Debug)]
enum Source {
    File(Arc<dyn ReadFile>),
    Map(Bytes),
}

/// Bytes of a file's end that are read first: trailer and table of most files.
const END_BYTES: u64 = 8 << 10;
/// Size of the pieces in which a file is verified.
const PIECE_BYTES: u64 = 1 << 20;

impl Sections {
    /// Opens a file: reads its trailer and its table, once or twice.
    pub(crate) fn open(env: &dyn Env, path: &Path, access: Access) -> Result<Sections> {
        let file = env.open_read(path)?;
        let file_bytes = file.len()?;
        let source = match access {
            // There is nothing to map of an empty file, which is refused.
            Access::Map if file_bytes > 0 => Source::Map(file.map()?),
            _ => Source::File(file),
        };
        Sections::of_source(path, source, file_bytes)
    }

    /// Opens the bytes of a whole file; `path` stands for them in messages.
    pub(crate) fn of_bytes(path: &Path, bytes: Bytes) -> Result<Sections> {
        let file_bytes = bytes.len() as u64;
        Sections::of_source(path, Source::Map(bytes), file_bytes)
    }

    fn of_source(path: &Path, source: Source, file_bytes: u64) -> Result<Sections> {
        let damaged = |what, offset| Error::corrupt(path, what, offset);
        let read = |offset: u64, bytes: u64| match &source {
            Source::Map(map) => slice(map, offset, bytes)
                .ok_or_else(|| damaged("end of a frozen partition", offset)),
            Source::File(file) => read_at(&**file, offset, bytes),
        };
        // A file that neither begins nor ends as one was never one; other files are damaged.
        let refused = |what, offset| {
            let start = read(0, file_bytes.min(HEADER_BYTES as u64))?;
            let end = file_bytes.min(TRAILER_BYTES as u64);
            let last = read(file_bytes - end, end)?;
            match format::is_start(&start) || format::is_end(&last) {
                true => Err(damaged(what, offset)),
                false => Err(Error::Foreign {
                    path: path.to_path_buf(),
                    bytes: file_bytes,
                }),
            }
        };
        if file_bytes < (HEADER_BYTES + TRAILER_BYTES) as u64 {
            return refused("length of a frozen partition", file_bytes);
        }
        let end = END_BYTES.min(file_bytes);
        let end_offset = file_bytes - end;
        let last = read(end_offset, end)?;
        let trailer_at = last.len().saturating_sub(TRAILER_BYTES);
        let trailer = last.get(trailer_at..).unwrap_or_default();
        let trailer = match Trailer::decode(trailer, file_bytes) {
            Ok(trailer) => trailer,
            Err(NoTrailer::Damaged(what)) => {
                return refused(what, file_bytes - TRAILER_BYTES as u64);
            }
            Err(NoTrailer::Version(found)) => {
                return Err(Error::UnsupportedVersion {
                    path: path.to_path_buf(),
                    found,
                    oldest: VERSION_MIN,
                    newest: VERSION,
                });
            }
        };
        let table = match trailer.table_offset.checked_sub(end_offset) {
            Some(start) => last.slice(start as usize..trailer_at),
            None => read(trailer.table_offset, trailer.table_bytes)?,
        };
        if !format::is_right(trailer.table_crc, crc32c::crc32c(&table)) {
            return Err(damaged("table", trailer.table_offset));
        }
        // Without the sections that were read along with it.
        let table = match source {
            Source::Map(_) => table,
            Source::File(_) => Bytes::copy_from_slice(&table),
        };
        let table = Table::new(table, trailer.table_offset)
            .ok_or_else(|| damaged("table", trailer.table_offset))?;
        let loaded = (0..table.sections()).map(|_| OnceLock::new()).collect();
        Ok(Sections {
            path: path.to_path_buf(),
            source,
            table,
            trailer,
            loaded,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    pub(crate) fn trailer(&self) -> Trailer {
        self.trailer
    }

    /// An error about a section.
    pub(crate) fn damaged(&self, section: usize, what: &'static str) -> Error {
        let offset = self.table.section(section).map_or(0, |entry| entry.offset);
        Error::corrupt(self.path(), what, offset)
    }

    /// The bytes of a section.
    pub(crate) fn get(&self, section: usize) -> Result<&Bytes> {
        let Some(loaded) = self.loaded.get(section) else {
            return Err(self.damaged(section, "table"));
        };
        match loaded.get() {
            Some(bytes) => Ok(bytes),
            None => {
                let bytes = self.load(section)?;
                Ok(loaded.get_or_init(|| bytes))
            }
        }
    }

    #[cold]
    fn load(&self, section: usize) -> Result<Bytes> {
        let damaged = || self.damaged(section, "section");
        let entry = self.table.section(section).ok_or_else(damaged)?;
        let bytes = self.bytes_at(entry.offset, entry.bytes)?;
        match format::is_right(entry.crc, crc32c::crc32c(&bytes)) {
            true => Ok(bytes),
            false => Err(damaged()),
        }
    }

    /// Bytes of the file, as they are.
    pub(crate) fn bytes_at(&self, offset: u64, bytes: u64) -> Result<Bytes> {
        match &self.source {
            Source::Map(map) => slice(map, offset, bytes)
                .ok_or_else(|| Error::corrupt(self.path(), "end of a frozen partition", offset)),
            // Every part lies before the table: the table was checked for that.
            Source::File(_) if offset.saturating_add(bytes) > self.trailer.table_offset => {
                Err(Error::corrupt(self.path(), "place in the file", offset))
            }
            Source::File(file) => read_at(&**file, offset, bytes),
        }
    }

    /// Calls `read` with bytes of the file, as they are; those of a map in place.
    pub(crate) fn with_bytes_at<T>(
        &self,
        offset: u64,
        bytes: u64,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<T> {
        match &self.source {
            Source::Map(map) => part(map, offset, bytes)
                .map(read)
                .ok_or_else(|| Error::corrupt(self.path(), "end of a frozen partition", offset)),
            Source::File(_) => Ok(read(&self.bytes_at(offset, bytes)?)),
        }
    }

    /// Compares the header and all sections with their checksums, in pieces; those in memory are
    /// read again.
    pub(crate) fn verify(&self) -> Result<()> {
        let header = self.bytes_at(0, HEADER_BYTES as u64)?;
        if *header != format::header(self.trailer.version) {
            return Err(Error::corrupt(self.path(), "header", 0));
        }
        for section in 0..self.table.sections() {
            let damaged = || self.damaged(section, "section");
            let entry = self.table.section(section).ok_or_else(damaged)?;
            let (mut crc, mut at) = (0, entry.offset);
            let end = entry.offset + entry.bytes;
            while at < end {
                let piece = self.bytes_at(at, PIECE_BYTES.min(end - at))?;
                crc = crc32c::crc32c_append(crc, &piece);
                at += piece.len() as u64;
            }
            if !format::is_right(entry.crc, crc) {
                return Err(damaged());
            }
        }
        Ok(())
    }

    /// The section of a field, or of the file itself, if it is there.
    pub(crate) fn of(
        &self,
        field: Option<usize>,
        kind: SectionKind,
    ) -> Result<Option<Section<'_>>> {
        let Some(number) = self.table.section_of(field, kind) else {
            return Ok(None);
        };
        Ok(Some(Section {
            sections: self,
            number,
            bytes: self.get(number)?,
        }))
    }

    /// The section of a field that has to be there.
    pub(crate) fn needed(&self, field: usize, kind: SectionKind) -> Result<Section<'_>> {
        let missing = || Error::corrupt(self.path(), kind.name(), self.trailer.table_offset);
        self.of(Some(field), kind)?.ok_or_else(missing)
    }
}

/// A section's bytes, with what is needed to report where damage is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section<'a> {
    sections: &'a Sections,
    number: usize,
    pub(crate) bytes: &'a Bytes,
}

impl Section<'_> {
    /// An error about this section.
    pub(crate) fn damaged(&self, damage: quire_index::IndexDamage) -> Error {
        self.sections.damaged(self.number, damage.what)
    }
}

fn slice(map: &Bytes, offset: u64, bytes: u64) -> Option<Bytes> {
    part(map, offset, bytes).map(|part| map.slice_ref(part))
}

/// A part of a map, in place.
fn part(map: &[u8], offset: u64, bytes: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    map.get(start..start.checked_add(usize::try_from(bytes).ok()?)?)
}

fn read_at(file: &dyn ReadFile, offset: u64, bytes: u64) -> Result<Bytes> {
    let ended = || Error::corrupt(file.path(), "end of a frozen partition", offset);
    let length = usize::try_from(bytes).map_err(|_| ended())?;
    file.read_at(offset, length)
        .map_err(|error| match error.kind() {
            quire_env::ErrorKind::UnexpectedEnd => ended(),
            _ => Error::Env(error),
        })
}
