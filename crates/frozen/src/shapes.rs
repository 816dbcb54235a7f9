//! Shapes: documents that are put together from the columns of their fields, instead of being
//! stored.
//!
//! # Invariants
//! 1. A document is left to the columns only if they give it back byte for byte: each of its values
//!    is a short scalar at a path that is sortable, the only value there, and its term decodes to
//!    the very value. Any other document is stored.
//! 2. The shape of a document is the list of its fields, in its order. A document that would need
//!    one shape too many is stored.
//!
//! # Layout (little-endian)
//! ```text
//! | shape of each document: a column | fields, 4 bytes each | ends, 4 bytes each |
//! | bytes of the column (8) | shapes (4) |
//!   column: a row for each document: its shape plus 1; 0 for a document that is stored, or none
//!   fields: of each shape, one behind the other: numbers of fields in the table, in the order of
//!   the document
//!   ends: of each shape, where its fields end among all
//! ```

use crate::flat::FlatValues;
use crate::le;
use crate::sections::Section;
use crate::spool::{Spool, Spooled, Spools};
use crate::{Error, FieldSpec, Result};
use quire_index::{Column, ColumnWriter, IndexDamage};
use quire_model::ValueRef;

/// The most shapes. More come from documents that have few fields in common.
const SHAPES_MAX: usize = 256;

/// A longer text is not left to the columns: to read it, the texts before it are read too.
const TEXT_BYTES_MAX: usize = 64;
/// The longest term: each byte of a text may be escaped.
pub(crate) const TERM_BYTES_MAX: usize = 2 * TEXT_BYTES_MAX + 3;

const FOOTER_BYTES: usize = 8 + 4;

/// Whether its term gives back the value as it was written.
fn is_exact(value: &ValueRef<'_>) -> bool {
    match value {
        ValueRef::Null | ValueRef::Bool(_) | ValueRef::Int(_) | ValueRef::UInt(_) => true,
        ValueRef::String(text) => text.len() <= TEXT_BYTES_MAX,
        // The term of a whole one is that of an integer.
        ValueRef::Float(float) => {
            let value = float.value();
            value.fract() != 0.0 && value.to_string() == float.to_string()
        }
        _ => false,
    }
}

/// Gathers the shapes of documents.
#[derive(Debug)]
pub(crate) struct ShapesWriter {
    sortable: Vec<bool>,
    shapes: Vec<Vec<u32>>,
    of_documents: (ColumnWriter, Spool),
    /// Whether any document has a shape.
    is_used: bool,
}

impl ShapesWriter {
    pub(crate) fn new(fields: &[FieldSpec], spools: &Spools) -> ShapesWriter {
        ShapesWriter {
            sortable: fields.iter().map(|field| field.sortable).collect(),
            shapes: Vec::new(),
            of_documents: (ColumnWriter::new(), spools.spool()),
            is_used: false,
        }
    }

    /// The shape of a document of these values, if the columns can give it back.
    pub(crate) fn shape_of(&mut self, values: &FlatValues<'_>) -> Option<usize> {
        let is_column = |field: &u32| self.sortable.get(*field as usize) == Some(&true);
        let is_right = |(field, value): &(Option<u32>, ValueRef<'_>)| {
            field.as_ref().is_some_and(is_column) && is_exact(value)
        };
        values.iter().all(is_right).then_some(())?;
        let fields = || values.iter().filter_map(|(field, _)| *field);
        let same = |shape: &Vec<u32>| fields().eq(shape.iter().copied());
        match self.shapes.iter().position(same) {
            None if self.shapes.len() == SHAPES_MAX => None,
            None => {
                self.shapes.push(fields().collect());
                Some(self.shapes.len() - 1)
            }
            found => found,
        }
    }

    /// Adds the next document: its shape, or none.
    pub(crate) fn push(&mut self, shape: Option<usize>) -> Result<()> {
        let (column, spool) = &mut self.of_documents;
        self.is_used |= shape.is_some();
        column.push(shape.map_or(0, |shape| shape as u64 + 1), spool.bytes());
        spool.settle()
    }

    /// The section, if any document has a shape. `numbers` are those of the fields in the table.
    pub(crate) fn finish(self, numbers: &[u32]) -> Result<Option<Spooled>> {
        let (column, mut spool) = self.of_documents;
        if !self.is_used {
            return Ok(None);
        }
        column.finish(spool.bytes());
        let column_bytes = spool.len();
        let mut fields = 0u32;
        let mut ends = Vec::new();
        let bytes = spool.bytes();
        for shape in &self.shapes {
            for field in shape {
                let number = numbers.get(*field as usize).copied().unwrap_or(u32::MAX);
                assert!(number != u32::MAX, "a field of a shape is in the table");
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            fields += shape.len() as u32;
            ends.extend_from_slice(&fields.to_le_bytes());
        }
        bytes.extend_from_slice(&ends);
        bytes.extend_from_slice(&column_bytes.to_le_bytes());
        bytes.extend_from_slice(&(self.shapes.len() as u32).to_le_bytes());
        Ok(Some(spool.finish()?))
    }
}

/// The shapes of a file, in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shapes<'a> {
    section: Section<'a>,
    of_documents: Column<'a>,
    fields: &'a [u8],
    ends: &'a [u8],
}

impl<'a> Shapes<'a> {
    /// The shapes that a section holds, of a file of `documents`.
    pub(crate) fn new(section: Section<'a>, documents: u32) -> Result<Shapes<'a>> {
        let bytes: &'a [u8] = section.bytes;
        let parse = || {
            let (parts, footer) = bytes.split_at_checked(bytes.len().checked_sub(FOOTER_BYTES)?)?;
            let column_bytes = usize::try_from(le::u64_at(footer, 0)?).ok()?;
            let shapes = le::u32_at(footer, 8)? as usize;
            let (column, parts) = parts.split_at_checked(column_bytes)?;
            let at = parts.len().checked_sub(shapes.checked_mul(4)?)?;
            let (fields, ends) = parts.split_at_checked(at)?;
            let of_documents = Column::new(column).ok()?;
            (of_documents.rows() == documents.into()).then_some(Shapes {
                section,
                of_documents,
                fields,
                ends,
            })
        };
        parse().ok_or_else(|| damaged(section))
    }

    /// The numbers of the fields that a document is put together from, in its order; `None` if it
    /// is not. The document is one of the file.
    pub(crate) fn of(&self, docid: u32) -> Result<Option<impl Iterator<Item = usize> + use<'a>>> {
        let shape = self.of_documents.get(docid.into());
        let shape = shape.map_err(|damage| self.section.damaged(damage))?;
        let Some(shape) = shape.checked_sub(1) else {
            return Ok(None);
        };
        let fields = self.fields_of(shape as usize);
        let fields = fields.ok_or_else(|| damaged(self.section))?;
        let (numbers, _) = fields.as_chunks();
        Ok(Some(
            numbers
                .iter()
                .map(|number| u32::from_le_bytes(*number) as usize),
        ))
    }

    /// How many documents have one.
    pub(crate) fn documents(&self) -> Result<u64> {
        let mut stored = 0;
        for block in 0..self.of_documents.blocks() {
            let zone = self.of_documents.zone(block);
            stored += u64::from(zone.map_err(|damage| self.section.damaged(damage))?.zeros);
        }
        Ok(self.of_documents.rows().saturating_sub(stored))
    }

    fn fields_of(&self, shape: usize) -> Option<&'a [u8]> {
        let end = |shape: usize| Some(le::u32_at(self.ends, shape.checked_mul(4)?)? as usize);
        let start = match shape.checked_sub(1) {
            Some(before) => end(before)?,
            None => 0,
        };
        self.fields
            .get(start.checked_mul(4)?..end(shape)?.checked_mul(4)?)
    }
}

fn damaged(section: Section<'_>) -> Error {
    section.damaged(IndexDamage {
        what: "shapes of documents",
        offset: 0,
    })
}
