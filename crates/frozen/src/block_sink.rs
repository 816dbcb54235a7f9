//! [`BlockSink`]: where the blocks and sections of a file go.

use crate::Result;

/// A file that is being written: it knows the offset of the next byte.
pub(crate) trait BlockSink {
    fn offset(&self) -> u64;
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
}

/// A file in memory.
impl BlockSink for Vec<u8> {
    fn offset(&self) -> u64 {
        self.len() as u64
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}
