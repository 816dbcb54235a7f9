//! [`BlockSink`]: where the blocks and sections of a file go.

use crate::Result;

/// Where blocks go: a place that says where in the file it is.
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
