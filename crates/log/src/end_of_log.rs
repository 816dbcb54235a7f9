//! The end-of-log record: up to which position the log is durable, in a file of its own.
//!
//! The blocks of the last sync before a crash prove each other's durability no more than they prove
//! their own. So after each sync of the newest segment, and before anything counts as durable, this
//! record is overwritten and synced. Then an invalid block up to its position is damage, and one
//! after it is a torn tail.
//!
//! # Invariants
//! 1. The record never says more than what a sync that succeeded made durable.
//! 2. Two slots are overwritten in turns, so a crash leaves one whole. The higher number counts.
//! 3. Each opening that writes begins with a new file: no sync of a file is trusted whose sync may
//!    have failed in an earlier opening.
//! 4. It says that a segment was closed only while that has its footer.
//!
//! # Layout
//! A file `END` of 8,192 bytes: two slots of 4,096 bytes. A slot begins with a record, or is zero:
//! ```text
//! 0          8         12     16         32       40     48       56    60
//! | QUIREEND | version | zero | identity | number | last | closed | crc |
//! ```
//! `closed` is the base of the newest segment if the log was closed, else 0. `crc` is CRC-32C of
//! bytes 0 to 55.

use crate::directory::LogDirectory;
use crate::format::le::{bytes16_at, u32_at, u64_at};
use crate::{Error, LogIdentity, Result};
use quire_env::{AppendFile, Env, ErrorKind};
use quire_model::Position;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"QUIREEND";
const VERSION: u32 = 1;

const NAME_OF_FILE: &str = "END";
const RECORD_BYTES: usize = 60;
const SLOT_BYTES: usize = 4096;
pub(crate) const FILE_BYTES: usize = 2 * SLOT_BYTES;

/// What the file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndRecord {
    /// How many records were written before it, by all openings.
    number: u64,
    /// The log was durable up to here.
    pub(crate) last: Position,
    /// The newest segment, if the log was closed.
    pub(crate) closed: Option<Position>,
}

/// What reading the file gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundEnd {
    /// `None` if there is no file, or no whole record in it.
    pub(crate) record: Option<EndRecord>,
    /// Bytes of the file.
    pub(crate) file_bytes: u64,
}

impl FoundEnd {
    /// Up to where the log was durable; 0 if nothing says so.
    pub(crate) fn last(&self) -> Position {
        self.record.map_or(Position(0), |record| record.last)
    }

    /// Whether there is a file that says nothing. A crash leaves no such file.
    pub(crate) fn is_damaged(&self) -> bool {
        self.file_bytes > 0 && self.record.is_none()
    }
}

impl EndRecord {
    fn encode(&self, identity: LogIdentity) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(RECORD_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&identity.0);
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.last.0.to_le_bytes());
        let closed = self.closed.map_or(0, |base| base.0);
        bytes.extend_from_slice(&closed.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        assert_eq!(
            bytes.len(),
            RECORD_BYTES,
            "an end-of-log record fits its slot"
        );
        bytes
    }

    /// The record at the beginning of a slot; `None` if it is not whole, or of another log.
    fn decode(
        slot: &[u8],
        path: &Path,
        identity: Option<LogIdentity>,
    ) -> Result<Option<EndRecord>> {
        let fields = || {
            let crc = crc32c::crc32c(slot.get(..RECORD_BYTES - 4)?);
            let whole = slot.starts_with(MAGIC) && u32_at(slot, RECORD_BYTES - 4)? == crc;
            let ours = identity.is_none_or(|ours| bytes16_at(slot, 16) == Some(ours.0));
            let record = EndRecord {
                number: u64_at(slot, 32)?,
                last: Position(u64_at(slot, 40)?),
                closed: u64_at(slot, 48).filter(|base| *base > 0).map(Position),
            };
            (whole && ours).then_some((u32_at(slot, 8)?, record))
        };
        match fields() {
            Some((VERSION, record)) => Ok(Some(record)),
            Some((found, _)) => Err(Error::UnsupportedVersion {
                path: path.to_path_buf(),
                found,
                supported: VERSION,
            }),
            None => Ok(None),
        }
    }
}

/// The path of the file.
pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join(NAME_OF_FILE)
}

/// Reads the file of the log in `dir`.
///
/// # Errors
/// [`Error::UnsupportedVersion`]; those of the machine. Damage is no error.
pub(crate) fn read(env: &dyn Env, dir: &Path, identity: Option<LogIdentity>) -> Result<FoundEnd> {
    let path = path(dir);
    let bytes = match env.read(&path, FILE_BYTES as u64) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        // Not what was written: it is as good as damaged.
        Err(error) if error.kind() == ErrorKind::TooLarge => vec![0],
        Err(error) => return Err(error.into()),
    };
    let mut found = FoundEnd {
        record: None,
        file_bytes: bytes.len() as u64,
    };
    for slot in bytes.chunks(SLOT_BYTES) {
        if let Some(record) = EndRecord::decode(slot, &path, identity)?
            && found
                .record
                .is_none_or(|other| other.number < record.number)
        {
            found.record = Some(record);
        }
    }
    Ok(found)
}

/// The end-of-log record of an open log.
#[derive(Debug)]
pub(crate) struct EndOfLog {
    record: EndRecord,
    /// Open once this opening of the log writes.
    file: Option<Box<dyn AppendFile>>,
}

impl EndOfLog {
    /// For a log whose record is as found.
    pub(crate) fn new(found: &FoundEnd) -> EndOfLog {
        EndOfLog {
            record: found.record.unwrap_or(EndRecord {
                number: 0,
                last: Position(0),
                closed: None,
            }),
            file: None,
        }
    }

    /// Whether the record says that the log was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.record.closed.is_some()
    }

    /// Makes the file of this opening, if it is not there yet, for a log that is durable up to
    /// `durable` and no longer closed. After an error the next call tries again.
    pub(crate) fn prepare(&mut self, directory: &LogDirectory, durable: Position) -> Result<()> {
        if self.file.is_some() {
            return Ok(());
        }
        let record = EndRecord {
            number: self.record.number + 1,
            last: self.record.last.max(durable),
            closed: None,
        };
        let mut bytes = vec![0; FILE_BYTES];
        let encoded = record.encode(directory.identity);
        let slot = bytes.get_mut(slot_of(&record) as usize..);
        if let Some(place) = slot.and_then(|slot| slot.get_mut(..encoded.len())) {
            place.copy_from_slice(&encoded);
        }
        let (env, path) = (&directory.env, path(&directory.dir));
        env.replace(&path, &bytes)?;
        self.record = record;
        self.file = Some(env.open_append(&path)?);
        Ok(())
    }

    /// Says that the log is durable up to `last`. Durable when it returns. After an error the log
    /// takes no more writes.
    pub(crate) fn note(&mut self, directory: &LogDirectory, last: Position) -> Result<()> {
        match self.file.is_some() && last > self.record.last {
            true => self.write(directory, last, None),
            false => Ok(()),
        }
    }

    /// Says that the log was closed, with all of its records durable and a footer in the newest
    /// segment. If this opening wrote nothing, what an earlier one said is true still.
    pub(crate) fn close(
        &mut self,
        directory: &LogDirectory,
        last: Position,
        newest: Position,
    ) -> Result<()> {
        match self.file.is_some() && self.record.closed.is_none() {
            true => self.write(directory, last, Some(newest)),
            false => Ok(()),
        }
    }

    fn write(
        &mut self,
        directory: &LogDirectory,
        last: Position,
        closed: Option<Position>,
    ) -> Result<()> {
        let Some(mut file) = self.file.take() else {
            return Err(Error::Poisoned);
        };
        let record = EndRecord {
            number: self.record.number + 1,
            last,
            closed,
        };
        assert!(
            record.last >= self.record.last,
            "a log never becomes less durable"
        );
        file.overwrite(slot_of(&record), &record.encode(directory.identity))?;
        file.sync()?;
        self.record = record;
        self.file = Some(file);
        Ok(())
    }
}

fn slot_of(record: &EndRecord) -> u64 {
    record.number % 2 * SLOT_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_round_trips_and_every_changed_bit_or_cut_is_found() {
        let (identity, path) = (LogIdentity([7; 16]), Path::new("END"));
        let record = EndRecord {
            number: 9,
            last: Position(70),
            closed: Some(Position(40)),
        };
        let bytes = record.encode(identity);
        let decode = |bytes: &[u8]| EndRecord::decode(bytes, path, Some(identity));
        assert_eq!(decode(&bytes).unwrap(), Some(record));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&damaged).unwrap(), None, "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut]).unwrap(), None, "cut at {cut}");
        }
        let other = EndRecord::decode(&bytes, path, Some(LogIdentity([8; 16])));
        assert_eq!(other.unwrap(), None);
    }
}
