//! [`PlainLayer`]: a few documents with their terms as they are. Quick to write and to join.
//!
//! # Layout
//! ```text
//! | 0x00 | for each document, lows ascending: low (2, little-endian) | values | terms |
//!   values: twice their number, and one more if the document is marked (LEB128)
//!   terms: ascending, each as its length (LEB128), bytes
//! ```

use super::format::{TERM_BYTES_MAX, VALUES_MAX};
use crate::{IndexDamage, varint};

pub(super) const PLAIN: u8 = 0;

/// A layer of a few documents. Copying it copies a slice.
#[derive(Debug, Clone, Copy)]
pub struct PlainLayer<'a> {
    /// Without the first byte.
    bytes: &'a [u8],
}

/// A document of a [`PlainLayer`].
#[derive(Debug, Clone, Copy)]
pub struct PlainRow<'a> {
    /// Which document.
    pub low: u16,
    /// Whether its values must be read elsewhere.
    pub is_marked: bool,
    /// Terms with their lengths.
    terms: &'a [u8],
}

fn damaged() -> IndexDamage {
    IndexDamage::new("plain layer of a column", 0)
}

impl<'a> PlainLayer<'a> {
    /// The layer that `bytes` hold. Reads all of them.
    ///
    /// # Errors
    /// [`IndexDamage`] if they are none.
    pub fn new(bytes: &'a [u8]) -> Result<PlainLayer<'a>, IndexDamage> {
        let (kind, bytes) = bytes.split_first().ok_or_else(damaged)?;
        let layer = PlainLayer { bytes };
        let (mut left, mut last) = (bytes, None);
        while !left.is_empty() {
            let row = take_row(&mut left).ok_or_else(damaged)?;
            if last.replace(row.low) >= Some(row.low) {
                return Err(damaged());
            }
        }
        match *kind == PLAIN {
            true => Ok(layer),
            false => Err(damaged()),
        }
    }

    /// The documents, ascending.
    pub fn rows(&self) -> impl Iterator<Item = PlainRow<'a>> + use<'a> {
        let mut left = self.bytes;
        std::iter::from_fn(move || take_row(&mut left))
    }
}

impl<'a> PlainRow<'a> {
    /// The terms, ascending.
    pub fn terms(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut left = self.terms;
        std::iter::from_fn(move || take_term(&mut left))
    }
}

fn take_term<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = varint::take(bytes).filter(|length| *length <= TERM_BYTES_MAX)?;
    let (term, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(term)
}

fn take_row<'a>(bytes: &mut &'a [u8]) -> Option<PlainRow<'a>> {
    let (low, rest) = bytes.split_first_chunk::<2>()?;
    *bytes = rest;
    let values = varint::take(bytes).filter(|values| values / 2 <= VALUES_MAX)?;
    let begin = *bytes;
    for _ in 0..values / 2 {
        take_term(bytes)?;
    }
    Some(PlainRow {
        low: u16::from_le_bytes(*low),
        is_marked: values % 2 == 1,
        terms: begin.get(..begin.len() - bytes.len())?,
    })
}

/// Appends a document.
pub(super) fn push_row<'t>(
    low: u16,
    is_marked: bool,
    terms: impl ExactSizeIterator<Item = &'t [u8]>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(&low.to_le_bytes());
    varint::put(out, terms.len() * 2 + usize::from(is_marked));
    for term in terms {
        varint::put(out, term.len());
        out.extend_from_slice(term);
    }
}
