//! [`Inspection`]: what a file is made of, to find out where its bytes are, or why a query is slow.

use crate::file::FrozenField;
use crate::table::SectionKind;
use crate::{FrozenFile, Result};
use quire_index::{Column, DictionaryEncoding, Encoding};

/// What a file is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of the table of fields and sections.
    pub table_bytes: u64,
    /// How many documents.
    pub documents: u32,
    /// The fields, by path.
    pub fields: Vec<FieldInspection>,
    /// Documents that are put together from the columns of their fields.
    pub documents_in_columns: u64,
    /// The documents themselves, if some are stored.
    pub document_rows: Option<RowsInspection>,
    /// The payloads, if there are any.
    pub payload_rows: Option<RowsInspection>,
}

/// A field of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldInspection {
    /// The path.
    pub path: String,
    /// Whether queries filter by it.
    pub filterable: bool,
    /// Whether queries sort by it and aggregate it.
    pub sortable: bool,
    /// Whether a document has several values.
    pub many: bool,
    /// Documents with a value, null included.
    pub docs: u32,
    /// Different values.
    pub distinct: u64,
    /// Values of all documents.
    pub pairs: u64,
    /// How the values are encoded.
    pub encoding: DictionaryEncoding,
    /// Values whose documents are stored as a set; the docids of the others are in a list.
    pub sets: u64,
    /// Clusters of these sets that are lists, bits and runs.
    pub clusters: [u64; 3],
    /// Blocks of the column of codes that are lines, gaps and runs; none if it is not sortable.
    pub blocks: [u64; 3],
    /// What each section is, and its bytes.
    pub sections: Vec<(&'static str, u64)>,
}

/// Documents or payloads of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowsInspection {
    /// Blocks.
    pub blocks: u64,
    /// Their bytes in the file.
    pub stored_bytes: u64,
    /// Bytes of the rows.
    pub raw_bytes: u64,
    /// Bytes of the directory, which says where each row is.
    pub directory_bytes: u64,
    /// Bytes of the dictionary, as part of the directory; 0 without.
    pub dictionary_bytes: u64,
}

impl FrozenFile {
    /// What the file is made of. Reads the sections of all fields, but no rows.
    ///
    /// # Errors
    /// As for any reading.
    pub fn inspect(&self) -> Result<Inspection> {
        let trailer = self.sections.trailer();
        let fields = (0..self.sections.table().fields())
            .map(|number| self.field_of(number)?.inspect())
            .collect::<Result<_>>()?;
        Ok(Inspection {
            file_bytes: self.bytes(),
            table_bytes: trailer.table_bytes,
            documents: trailer.documents,
            fields,
            documents_in_columns: match self.shapes()? {
                Some(shapes) => shapes.documents()?,
                None => 0,
            },
            document_rows: self.inspect_rows(SectionKind::Documents)?,
            payload_rows: self.inspect_rows(SectionKind::Payloads)?,
        })
    }

    fn inspect_rows(&self, kind: SectionKind) -> Result<Option<RowsInspection>> {
        let Some(directory) = self.directory(kind)? else {
            return Ok(None);
        };
        let (stored_bytes, raw_bytes) = directory.bytes()?;
        Ok(Some(RowsInspection {
            blocks: directory.blocks(),
            stored_bytes,
            raw_bytes,
            directory_bytes: self.section_bytes(None, kind).unwrap_or(0),
            dictionary_bytes: directory.dictionary_bytes() as u64,
        }))
    }

    fn section_bytes(&self, field: Option<usize>, kind: SectionKind) -> Option<u64> {
        let table = self.sections.table();
        Some(table.section(table.section_of(field, kind)?)?.bytes)
    }
}

impl FrozenField<'_> {
    fn inspect(&self) -> Result<FieldInspection> {
        let (mut sets, mut clusters, mut blocks) = (0, [0; 3], [0; 3]);
        if self.has_postings() {
            let postings = self.postings()?;
            sets = postings.sets.len() as u64;
            for place in 0..postings.sets.len() {
                let set = postings
                    .sets
                    .set(place)
                    .map_err(self.damaged(SectionKind::Sets))?;
                for (all, more) in clusters.iter_mut().zip(set.kinds()) {
                    *all += more as u64;
                }
            }
        }
        if self.has_codes() {
            blocks = encodings(&self.codes()?.0).map_err(self.damaged(SectionKind::Codes))?;
        }
        let entry = &self.entry;
        let section = |kind: SectionKind| {
            let bytes = self.file.section_bytes(Some(self.number), kind)?;
            Some((kind.name(), bytes))
        };
        Ok(FieldInspection {
            path: String::from_utf8_lossy(&entry.path).into_owned(),
            filterable: entry.filterable,
            sortable: entry.sortable,
            many: entry.many,
            docs: entry.docs,
            distinct: entry.distinct,
            pairs: entry.pairs,
            encoding: self.dictionary()?.encoding(),
            sets,
            clusters,
            blocks,
            sections: SectionKind::ALL.into_iter().filter_map(section).collect(),
        })
    }
}

/// How many blocks of a column have each encoding.
fn encodings(column: &Column<'_>) -> Result<[u64; 3], quire_index::IndexDamage> {
    let mut blocks = [0; 3];
    for block in 0..column.blocks() {
        let [line, gaps, runs] = &mut blocks;
        match column.zone(block)?.encoding {
            Encoding::Line => *line += 1,
            Encoding::Gaps => *gaps += 1,
            Encoding::Runs => *runs += 1,
        }
    }
    Ok(blocks)
}
