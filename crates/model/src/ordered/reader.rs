//! [`Reader`]: encoded values of either direction, byte by byte.

use crate::error::Error;

/// Reads bytes of either direction as ascending ones.
pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    /// Xored into each byte.
    pub(super) flip: u8,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], flip: u8) -> Reader<'a> {
        Reader { bytes, at: 0, flip }
    }

    #[inline]
    pub(super) fn next(&mut self) -> Result<u8, Error> {
        let byte = self
            .bytes
            .get(self.at)
            .ok_or_else(|| self.corrupt("an ordered value that is cut short"))?;
        self.at += 1;
        Ok(byte ^ self.flip)
    }

    pub(super) fn corrupt(&self, what: &'static str) -> Error {
        Error::Corrupt {
            offset: self.at,
            what,
        }
    }
}
