//! Reading documents: those that are stored, and those that the columns give back.

use crate::column::FrozenColumn;
use crate::shapes::{Shapes, TERM_BYTES_MAX};
use crate::table::SectionKind;
use crate::{Error, FrozenFile, Result};
use bytes::Bytes;
use quire_index::term;
use quire_model::Document;
use smallvec::SmallVec;

impl FrozenFile {
    /// A document; `None` if it was left out.
    pub(crate) fn read_document(&self, docid: u32) -> Result<Option<Document>> {
        let mut bytes = Vec::new();
        let kind = SectionKind::Documents;
        if !self.read_row(kind, &self.document_rows, docid, &mut |row| {
            bytes = row.to_vec()
        })? {
            return self.document_of_columns(docid);
        }
        // The checksum has proved that these are the bytes of a document.
        let document = Document::from_stored(Bytes::from(bytes));
        let offset = self.sections.trailer().table_offset;
        let damaged = |_| Error::corrupt(self.path(), "document", offset);
        document.map(Some).map_err(damaged)
    }

    /// The shapes of the documents that are put together from the columns, if there are any.
    pub(crate) fn shapes(&self) -> Result<Option<Shapes<'_>>> {
        let section = self.sections.of(None, SectionKind::Shapes)?;
        section
            .map(|section| Shapes::new(section, self.documents()))
            .transpose()
    }

    /// A document that is put together from the columns of its fields; `None` if it is not.
    fn document_of_columns(&self, docid: u32) -> Result<Option<Document>> {
        let Some(shapes) = self.shapes()?.filter(|_| docid < self.documents()) else {
            return Ok(None);
        };
        let Some(numbers) = shapes.of(docid)? else {
            return Ok(None);
        };
        let offset = self.sections.trailer().table_offset;
        let damaged = || Error::corrupt(self.path(), "document in columns", offset);
        let (mut fields, mut terms) = (SmallVec::<[_; 32]>::new(), Vec::new());
        for number in numbers {
            let (field, start) = (self.field_of(number)?, terms.len());
            FrozenColumn::new(&field)?.append_term(docid, &mut terms)?;
            // The builder leaves no such document to the columns.
            if terms.len() - start > TERM_BYTES_MAX
                || fields.len() == self.sections.table().fields()
            {
                return Err(damaged());
            }
            fields.push((field, terms.len()));
        }
        let mut start = 0;
        let values = fields.iter().map(|(field, end)| {
            let term = terms.get(start..*end).unwrap_or_default();
            start = *end;
            Some((str::from_utf8(&field.entry.path).ok()?, term::decode(term)?))
        });
        let values: Option<SmallVec<[_; 32]>> = values.collect();
        let document = values.and_then(|values| Document::from_scalars(values).ok());
        document.map(Some).ok_or_else(damaged)
    }
}
