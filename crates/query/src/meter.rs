//! [`Meter`]: how much memory a query holds.

use crate::{Error, Result};

/// What a place in an ordered map or a heap takes beside what is in it, about.
pub(crate) const ENTRY_BYTES: usize = 64;

/// Counts what a query holds, and says when that is too much.
#[derive(Debug)]
pub(crate) struct Meter {
    used: usize,
    bytes_max: usize,
}

impl Meter {
    pub(crate) fn new(bytes_max: usize) -> Meter {
        Meter { used: 0, bytes_max }
    }

    /// Takes so many bytes.
    ///
    /// # Errors
    /// `TooLarge` if that is more than there may be; `what` says for what.
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

    /// Gives bytes back.
    pub(crate) fn give(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }
}
