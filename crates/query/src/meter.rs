//! [`Meter`]: how much memory a query holds.

use crate::{Error, Result};

/// About what an entry of an ordered map or a heap takes beside its content.
pub(crate) const ENTRY_BYTES: usize = 64;

/// Counts the bytes that a query holds, up to its limit.
#[derive(Debug)]
pub(crate) struct Meter {
    used: usize,
    bytes_max: usize,
}

impl Meter {
    pub(crate) fn new(bytes_max: usize) -> Meter {
        Meter { used: 0, bytes_max }
    }

    /// Takes bytes.
    ///
    /// # Errors
    /// `TooLarge` if the query then holds more than it may; `what` is what they are for.
    pub(crate) fn take(&mut self, bytes: usize, what: &'static str) -> Result<()> {
        self.used = self.used.saturating_add(bytes);
        match self.used > self.bytes_max {
            true => Err(Error::TooLarge {
                what,
                bytes_max: self.bytes_max,
            }),
            false => Ok(()),
        }
    }

    /// Bytes that may still be taken.
    pub(crate) fn left(&self) -> usize {
        self.bytes_max.saturating_sub(self.used)
    }

    /// Gives bytes back.
    pub(crate) fn give(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.used, "bytes that are given back were taken");
        self.used = self.used.saturating_sub(bytes);
    }
}
