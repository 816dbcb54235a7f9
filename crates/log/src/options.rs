//! Settings and limits of a log.

use crate::{Error, Result};
use quire_pack::Codec;
use std::fmt;

/// The largest record, in bytes.
pub const RECORD_BYTES_MAX: usize = 64 << 20;
/// The most bytes of records in one group.
pub const GROUP_BYTES_MAX: usize = 64 << 20;
/// The most records in one group.
pub const GROUP_RECORDS_MAX: usize = 1 << 20;
/// The largest block target, in raw bytes.
pub(crate) const BLOCK_BYTES_MAX: usize = 16 << 20;
/// The largest segment target. Offsets in a segment are 32 bits wide, and reserved space and one
/// group come on top of the target.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 2 << 30;
/// The most disk space reserved at a time.
pub(crate) const RESERVE_BYTES_MAX: u64 = 1 << 30;
/// A segment is sealed at this number of records: a position in a segment is stored relative to its
/// base, in 32 bits.
pub(crate) const SEGMENT_RECORDS_MAX: u64 = 1 << 31;

/// Encoded bytes are written to a file in chunks of about this size.
pub(crate) const WRITE_BYTES: usize = 1 << 20;

/// Which log a segment belongs to. The creator of the log picks it at random once; every segment
/// header holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogIdentity(pub [u8; 16]);

impl fmt::Display for LogIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Settings of a log. All may change from one open to the next; what is on disk stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// Raw bytes at which a block is full (1 to 16 MiB; default 16 KiB). Larger blocks compress
    /// better, and make a read of one record more expensive.
    pub block_bytes: usize,
    /// File bytes at which a segment is sealed (1 to 2 GiB; default 256 MiB). Recovery after a
    /// crash reads the newest segment whole; sealed segments are dropped and copied whole.
    pub segment_bytes: u64,
    /// How new blocks are compressed (default LZ4).
    pub codec: Codec,
    /// Bytes of full blocks that may wait in memory while another thread syncs (default 4 MiB).
    /// Past that an append waits. One more group may come on top.
    pub pending_bytes_max: usize,
    /// Bytes of disk space reserved ahead of the writes, at a time (at most 1 GiB; default 8 MiB);
    /// less if the disk is nearly full, or the segment is smaller than that. Sealing a segment
    /// returns what is left.
    pub reserve_bytes: u64,
    /// Whether the log rotates to the next segment before the last one is durable (default no).
    /// Then only [`sync`](crate::Log::sync), [`sync_aside`](crate::Log::sync_aside) and
    /// [`close`](crate::Log::close) sync. For a log whose segments are soon dropped: a segment
    /// dropped before the system wrote it back is never written to the disk.
    pub rotate_unsynced: bool,
    /// [`open_after`](crate::Log::open_after) drops an obsolete segment only if the ones after it
    /// have this many bytes (default 0). What stays can be read by those that follow the log.
    pub obsolete_bytes_kept: u64,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            block_bytes: 16 << 10,
            segment_bytes: 256 << 20,
            codec: Codec::default(),
            pending_bytes_max: 4 << 20,
            reserve_bytes: 8 << 20,
            rotate_unsynced: false,
            obsolete_bytes_kept: 0,
        }
    }
}

impl LogOptions {
    /// Refuses settings that the format can't hold.
    pub(crate) fn check(&self) -> Result<()> {
        check_blocks(self.block_bytes, self.codec)?;
        if self.segment_bytes == 0 || self.segment_bytes > SEGMENT_BYTES_MAX {
            return Err(Error::InvalidArgument(format!(
                "segment_bytes is {}, and must be from 1 to {SEGMENT_BYTES_MAX}",
                self.segment_bytes
            )));
        }
        if self.reserve_bytes > RESERVE_BYTES_MAX {
            return Err(Error::InvalidArgument(format!(
                "reserve_bytes is {}, and must be at most {RESERVE_BYTES_MAX}",
                self.reserve_bytes
            )));
        }
        Ok(())
    }
}

/// Refuses blocks that the format can't hold.
pub(crate) fn check_blocks(block_bytes: usize, codec: Codec) -> Result<()> {
    if block_bytes == 0 || block_bytes > BLOCK_BYTES_MAX {
        return Err(Error::InvalidArgument(format!(
            "block_bytes is {block_bytes}, and must be from 1 to {BLOCK_BYTES_MAX}"
        )));
    }
    codec.check().map_err(Error::InvalidArgument)
}

/// Checks a group to be appended, and returns the bytes of its records.
pub(crate) fn check_group(group: &[&[u8]]) -> Result<usize> {
    if group.is_empty() {
        return Err(Error::InvalidArgument(
            "a group needs at least one record".to_string(),
        ));
    }
    if group.len() > GROUP_RECORDS_MAX {
        return Err(too_large(
            "a group in records",
            GROUP_RECORDS_MAX,
            group.len(),
        ));
    }
    let mut bytes = 0_usize;
    for record in group {
        if record.len() > RECORD_BYTES_MAX {
            return Err(too_large(
                "a record in bytes",
                RECORD_BYTES_MAX,
                record.len(),
            ));
        }
        bytes = bytes.saturating_add(record.len());
    }
    if bytes > GROUP_BYTES_MAX {
        return Err(too_large("a group in bytes", GROUP_BYTES_MAX, bytes));
    }
    Ok(bytes)
}

fn too_large(what: &'static str, limit: usize, found: usize) -> Error {
    Error::TooLarge {
        what,
        limit: limit as u64,
        found: found as u64,
    }
}
