//! [`FrozenFile`]: a frozen partition that is open.

use crate::format::TRAILER_BYTES;
use crate::open_field::{OpenColumn, OpenDictionary, OpenField, OpenSets};
use crate::postings::{Postings, Sets};
use crate::rows::{Directory, Rows};
use crate::sections::{Access, Sections};
use crate::table::{FieldEntry, SectionKind};
use crate::{Error, Result};
use bytes::Bytes;
use quire_env::Env;
use quire_index::{Column, Dictionary, DocSet, Frame, SetView};
use quire_query::Path as FieldPath;
use std::path::Path;
use std::sync::OnceLock;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// How its bytes are accessed.
    pub access: Access,
    /// Whether all of it is read and compared with its checksums first. Without (the default) each
    /// part is checked when it is first read, and opening takes constant time.
    pub verify: bool,
}

/// An open frozen partition. Any number of threads read it at once, without locks. It is queried as
/// a [`quire_query::Shard`].
#[derive(Debug)]
pub struct FrozenFile {
    pub(crate) sections: Sections,
    pub(crate) document_rows: Rows,
    pub(crate) payload_rows: Rows,
    /// Of each field, what queries have opened.
    opened: Box<[OnceLock<Box<OpenField>>]>,
}

impl FrozenFile {
    /// Opens a partition.
    ///
    /// # Errors
    /// `Foreign` if it is no frozen partition; `Corrupt` if it is damaged in the parts that are
    /// read; `UnsupportedVersion`; and errors of the machine.
    pub fn open(env: &dyn Env, path: &Path, options: OpenOptions) -> Result<FrozenFile> {
        let file = FrozenFile::of_sections(Sections::open(env, path, options.access)?);
        if options.verify {
            file.verify()?;
        }
        Ok(file)
    }

    pub(crate) fn of_sections(sections: Sections) -> FrozenFile {
        let fields = sections.table().fields();
        FrozenFile {
            opened: (0..fields).map(|_| OnceLock::new()).collect(),
            sections,
            document_rows: Rows::default(),
            payload_rows: Rows::default(),
        }
    }

    /// Reads all of the file and compares it with its checksums.
    ///
    /// # Errors
    /// `Corrupt`, with the first damaged place; and errors of the machine.
    pub fn verify(&self) -> Result<()> {
        self.sections.verify()?;
        for (kind, rows) in self.rows() {
            if let Some(directory) = self.directory(kind)? {
                rows.verify(&self.sections, &directory)?;
            }
        }
        Ok(())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.sections.path()
    }

    /// How long it is.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let trailer = self.sections.trailer();
        trailer.table_offset + trailer.table_bytes + TRAILER_BYTES as u64
    }

    /// How many documents it has.
    #[must_use]
    pub fn documents(&self) -> u32 {
        self.sections.trailer().documents
    }

    /// The paths of its fields, in order, and how many documents have a value there: 0 if a field
    /// was named but is in no document. Reads nothing.
    pub fn fields(&self) -> impl Iterator<Item = (&str, u32)> {
        let table = self.sections.table();
        let fields = (0..table.fields()).filter_map(|number| table.field(number));
        fields.map(|entry| (str::from_utf8(&entry.path).unwrap_or_default(), entry.docs))
    }

    pub(crate) fn rows(&self) -> [(SectionKind, &Rows); 2] {
        [
            (SectionKind::Documents, &self.document_rows),
            (SectionKind::Payloads, &self.payload_rows),
        ]
    }

    /// Where rows of a kind are, if there are any.
    pub(crate) fn directory(&self, kind: SectionKind) -> Result<Option<Directory<'_>>> {
        let section = self.sections.of(None, kind)?;
        section.map(Directory::new).transpose()
    }

    pub(crate) fn read_row(
        &self,
        kind: SectionKind,
        rows: &Rows,
        docid: u32,
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        let section = self.sections.of(None, kind)?;
        match section.map(|section| rows.directory(section)).transpose()? {
            Some(directory) if docid < self.documents() => {
                rows.read(&self.sections, &directory, docid, read)
            }
            _ => Ok(false),
        }
    }

    /// A field, if any document has a value there.
    pub(crate) fn field_at(&self, path: &FieldPath) -> Result<Option<FrozenField<'_>>> {
        let table = self.sections.table();
        let Some(number) = table.find(path.as_str()) else {
            return Ok(None);
        };
        self.field_of(number)
            .map(|field| Some(field).filter(|field| field.entry.docs > 0))
    }

    pub(crate) fn field_of(&self, number: usize) -> Result<FrozenField<'_>> {
        let damaged = || {
            let offset = self.sections.trailer().table_offset;
            Error::corrupt(self.path(), "table", offset)
        };
        let entry = self.sections.table().field(number).ok_or_else(damaged)?;
        Ok(FrozenField {
            file: self,
            number,
            entry,
            opened: self.opened.get(number).ok_or_else(damaged)?,
        })
    }
}

/// A field of an open file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrozenField<'a> {
    pub(crate) file: &'a FrozenFile,
    pub(crate) number: usize,
    pub(crate) entry: &'a FieldEntry<Bytes>,
    opened: &'a OnceLock<Box<OpenField>>,
}

impl<'a> FrozenField<'a> {
    /// What queries have opened of it. It lies apart from the entry, which is enough for some.
    #[inline]
    pub(crate) fn open(&self) -> &'a OpenField {
        self.opened.get_or_init(|| {
            let table = self.file.sections.table();
            let has = |kind| table.section_of(Some(self.number), kind).is_some();
            Box::new(OpenField::new(self.entry, has))
        })
    }

    /// The column that a section is.
    #[inline]
    fn column_of(&self, kind: SectionKind) -> Result<Column<'a>> {
        let place = match kind {
            SectionKind::Counts => Some(&self.open().counts),
            SectionKind::Codes => Some(&self.open().codes),
            SectionKind::Docids => Some(&self.open().docids),
            _ => None,
        };
        match place.and_then(OnceLock::get) {
            Some(open) => Ok(open.column()),
            None => self.open_column(kind, place),
        }
    }

    #[cold]
    fn open_column(
        &self,
        kind: SectionKind,
        place: Option<&OnceLock<OpenColumn>>,
    ) -> Result<Column<'a>> {
        let section = self.file.sections.needed(self.number, kind)?;
        let column = Column::new(section.bytes).map_err(|damage| section.damaged(damage))?;
        if let Some(place) = place {
            place.get_or_init(|| OpenColumn::new(section.bytes, &column));
        }
        Ok(column)
    }

    /// An error about a section.
    pub(crate) fn damaged(
        &self,
        kind: SectionKind,
    ) -> impl Fn(quire_index::IndexDamage) -> Error + use<'a> {
        let (sections, number) = (&self.file.sections, self.number);
        move |damage| {
            let section = sections.table().section_of(Some(number), kind);
            sections.damaged(section.unwrap_or(usize::MAX), damage.what)
        }
    }

    #[inline]
    pub(crate) fn dictionary(&self) -> Result<Dictionary<'a>> {
        match self.open().dictionary.get() {
            Some(open) => Ok(open.dictionary()),
            None => self.open_dictionary(),
        }
    }

    #[cold]
    fn open_dictionary(&self) -> Result<Dictionary<'a>> {
        let section = self
            .file
            .sections
            .needed(self.number, SectionKind::Values)?;
        let dictionary =
            Dictionary::new(section.bytes).map_err(|damage| section.damaged(damage))?;
        if dictionary.len() != self.entry.distinct {
            return Err(self.damaged(SectionKind::Values)(
                quire_index::IndexDamage {
                    what: "dictionary",
                    offset: 0,
                },
            ));
        }
        let open = || OpenDictionary::new(section.bytes, &dictionary);
        self.open().dictionary.get_or_init(open);
        Ok(dictionary)
    }

    pub(crate) fn postings(&self) -> Result<Postings<'a>> {
        let open = self.open().sets.get().and_then(OpenSets::sets);
        let sets = match open {
            Some(sets) => sets,
            None => self.open_sets()?,
        };
        Ok(Postings {
            counts: self.column_of(SectionKind::Counts)?,
            list: self.column_of(SectionKind::Docids)?,
            sets,
            documents: self.file.documents(),
        })
    }

    #[cold]
    fn open_sets(&self) -> Result<Sets<'a>> {
        let section = self.file.sections.needed(self.number, SectionKind::Sets)?;
        let damage = quire_index::IndexDamage {
            what: "sets",
            offset: 0,
        };
        let sets = Sets::new(section.bytes).ok_or_else(|| section.damaged(damage))?;
        let open = || OpenSets::new(section.bytes, sets);
        self.open().sets.get_or_init(open);
        Ok(sets)
    }

    /// Whether there are docids by value. Where there are none there are codes, at most one for
    /// each document.
    #[inline]
    pub(crate) fn has_postings(&self) -> bool {
        self.open().has_postings
    }

    /// Whether there are codes by document.
    #[inline]
    pub(crate) fn has_codes(&self) -> bool {
        self.open().has_codes
    }

    /// How many documents have values of codes below each.
    pub(crate) fn counts(&self) -> Result<Column<'a>> {
        self.column_of(SectionKind::Counts)
    }

    /// The documents that have a value that is not null.
    pub(crate) fn present(&self) -> Result<DocSet> {
        let section = self
            .file
            .sections
            .of(Some(self.number), SectionKind::Present)?;
        let Some(section) = section else {
            return Ok(DocSet::full(self.file.documents()));
        };
        let view = SetView::new(section.bytes).map_err(|damage| section.damaged(damage))?;
        Ok(view.to_doc_set())
    }

    /// What the blocks of its codes have in common; reads their directory once.
    #[inline]
    pub(crate) fn frame(&self, codes: &Column<'_>) -> Result<Option<Frame>> {
        if let Some(frame) = self.open().frame.get() {
            return Ok(*frame);
        }
        let read = codes.frame().map_err(self.damaged(SectionKind::Codes))?;
        Ok(*self.open().frame.get_or_init(|| read))
    }

    /// The codes by document, and where those of each begin, if a document has many.
    pub(crate) fn codes(&self) -> Result<(Column<'a>, Option<Column<'a>>)> {
        let starts = match self.entry.many {
            true => Some(self.column_of(SectionKind::Starts)?),
            false => None,
        };
        Ok((self.column_of(SectionKind::Codes)?, starts))
    }
}
