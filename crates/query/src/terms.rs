//! [`Terms`]: the terms of a column by ordinal.

use crate::{Column, Result};
use std::ops::Range;

/// Ordinals up to this number have their terms kept.
const KEPT_TERMS_MAX: u64 = 1 << 16;

/// Longer terms are not kept.
const KEPT_TERM_BYTES_MAX: usize = 64;

/// The terms of a column's ordinals; those of small ones are kept.
pub(crate) struct Terms<'c> {
    column: Box<dyn Column + 'c>,
    /// By ordinal: where its term is; empty ranges are not known yet.
    kept: Vec<Range<u32>>,
    bytes: Vec<u8>,
    other: Vec<u8>,
}

impl<'c> Terms<'c> {
    pub(crate) fn new(column: Box<dyn Column + 'c>) -> Terms<'c> {
        let end = column.ordinal_end();
        let kept = if end <= KEPT_TERMS_MAX {
            end as usize
        } else {
            0
        };
        Terms {
            column,
            kept: vec![0..0; kept],
            bytes: Vec::new(),
            other: Vec::new(),
        }
    }

    pub(crate) fn column(&self) -> &dyn Column {
        self.column.as_ref()
    }

    pub(crate) fn term(&mut self, ordinal: u64) -> Result<&[u8]> {
        let Some(kept) = self.kept.get_mut(ordinal as usize) else {
            self.other.clear();
            self.column.term(ordinal, &mut self.other)?;
            return Ok(&self.other);
        };
        if kept.start == kept.end {
            let start = self.bytes.len() as u32;
            self.column.term(ordinal, &mut self.bytes)?;
            let end = self.bytes.len() as u32;
            if (end - start) as usize > KEPT_TERM_BYTES_MAX {
                self.other.clear();
                self.other
                    .extend_from_slice(self.bytes.get(start as usize..).unwrap_or_default());
                self.bytes.truncate(start as usize);
                return Ok(&self.other);
            }
            *kept = start..end;
        }
        let range = kept.start as usize..kept.end as usize;
        Ok(self.bytes.get(range).unwrap_or_default())
    }
}
