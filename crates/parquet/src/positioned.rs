//! A file that is read at positions by a function.

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use std::io::{self, Read};
use std::sync::Arc;

/// The most bytes that are read at once where a reader wants few.
const READ_BYTES: usize = 64 << 10;

/// Fills a buffer from an offset.
type ReadAt = dyn Fn(u64, &mut [u8]) -> io::Result<()> + Send + Sync;

/// A file of a known length.
#[derive(Clone)]
pub struct Positioned {
    length: u64,
    read_at: Arc<ReadAt>,
}

impl Positioned {
    /// A file of `length` bytes. `read_at` fills a buffer from an offset, or fails.
    pub fn new(
        length: u64,
        read_at: impl Fn(u64, &mut [u8]) -> io::Result<()> + Send + Sync + 'static,
    ) -> Positioned {
        Positioned {
            length,
            read_at: Arc::new(read_at),
        }
    }
}

impl Length for Positioned {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Positioned {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let at = At {
            file: self.clone(),
            at: start,
        };
        Ok(Box::new(io::BufReader::with_capacity(READ_BYTES, at)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let is_within = start
            .checked_add(length as u64)
            .is_some_and(|end| end <= self.length);
        if !is_within {
            return Err(ParquetError::EOF(format!(
                "the file ends before byte {start} and {length} more"
            )));
        }
        let mut bytes = vec![0; length];
        (self.read_at)(start, &mut bytes)?;
        Ok(bytes.into())
    }
}

struct At {
    file: Positioned,
    at: u64,
}

impl Read for At {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.file.length.saturating_sub(self.at);
        let count = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        (self.file.read_at)(self.at, &mut buffer[..count])?;
        self.at += count as u64;
        Ok(count)
    }
}
