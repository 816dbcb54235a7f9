//! [`Table`]: the fields of a file, their statistics, and where their sections are. It is read
//! whole when a file is opened.
//!
//! # Invariants
//! 1. Fields ascend by their path. The sections of a field stand together, in the order of their
//!    kinds.
//! 2. Every section lies before the table. All is checked once, when the table is taken.
//!
//! # Layout (little-endian)
//! ```text
//! | fields (4) | sections (4) | kinds of the file's own sections (4) |
//! | a field's entry, 48 each | a section's entry, 24 each | text |
//! field    0              4             6       8      12        16         24      32
//!          | path, offset | path length | flags | docs | present | distinct | pairs |
//!          32             36             38                40              44      48
//!          | least, offset | least length | greatest length | first section | kinds |
//!   offsets are of the text; the greatest bound follows the least one there, both as prefixes of
//!   terms of at most 32 bytes: no value is less than the one, or greater than the other
//!   flags: 1 filterable, 2 sortable, 4 some document has many values; docs: documents with a
//!   value; present: with one that is not null; pairs: values of all documents; kinds: bit k is
//!   set if there is a section of kind k
//! section  | offset in the file (8) | length (8) | CRC-32C (4) |
//!          | field, or 2^32 - 1 for the file (4) |
//! ```
//! The file's own sections are the last.

use crate::le;
use crate::prefix::prefix;
use bytes::Bytes;

const HEADER_BYTES: usize = 12;
const FIELD_BYTES: usize = 48;
const SECTION_BYTES: usize = 24;
const BOUND_BYTES_MAX: usize = 32;
/// The field of the file's own sections.
const NO_FIELD: u32 = u32::MAX;

const FILTERABLE: u16 = 1;
const SORTABLE: u16 = 2;
const MANY: u16 = 4;

/// What a section holds. The numbers are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum SectionKind {
    /// The distinct values, in order: a dictionary. Each has a code.
    Values = 0,
    /// A column: how many values documents have with a lesser code; one row more than there are
    /// values.
    Counts = 1,
    /// A column: docids, by the code of their value, of values that few documents have.
    Docids = 2,
    /// Doc sets of the values that many documents have.
    Sets = 3,
    /// The doc set of the documents that have a value that is not null; not there if all have.
    Present = 4,
    /// A column: the code of each document's value, plus one; 0 without. Of few documents also in
    /// the place of docids and sets. With many values: of the values of each, in order.
    Codes = 5,
    /// A column, if a document has many values: where in the codes the values of each document
    /// begin; one row more.
    Starts = 6,
    /// Where the blocks of documents are: see `rows.rs`.
    Documents = 8,
    /// Where the blocks of payloads are.
    Payloads = 9,
    /// The documents that are put together from the columns: see `shapes.rs`.
    Shapes = 10,
}

impl SectionKind {
    /// All kinds.
    pub(crate) const ALL: [SectionKind; 10] = [
        SectionKind::Values,
        SectionKind::Counts,
        SectionKind::Docids,
        SectionKind::Sets,
        SectionKind::Present,
        SectionKind::Codes,
        SectionKind::Starts,
        SectionKind::Documents,
        SectionKind::Payloads,
        SectionKind::Shapes,
    ];

    /// What it is, for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SectionKind::Values => "values",
            SectionKind::Counts => "counts",
            SectionKind::Docids => "docids",
            SectionKind::Sets => "sets",
            SectionKind::Present => "present",
            SectionKind::Codes => "codes",
            SectionKind::Starts => "starts",
            SectionKind::Documents => "documents",
            SectionKind::Payloads => "payloads",
            SectionKind::Shapes => "shapes",
        }
    }

    fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// The statistics of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldEntry<B> {
    pub(crate) path: B,
    pub(crate) filterable: bool,
    pub(crate) sortable: bool,
    pub(crate) many: bool,
    pub(crate) docs: u32,
    pub(crate) present: u32,
    pub(crate) distinct: u64,
    pub(crate) pairs: u64,
    /// Less than or equal to each value, bytewise.
    pub(crate) least: B,
    /// Greater than or equal to each value.
    pub(crate) greatest: B,
}

impl<B: AsRef<[u8]>> FieldEntry<B> {
    /// Whether there is one value alone, which both bounds are: as where files are partitioned by
    /// the field.
    #[inline]
    pub(crate) fn has_one_value(&self) -> bool {
        self.distinct == 1 && self.least.as_ref() == self.greatest.as_ref()
    }
}

/// Where a section is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SectionEntry {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) crc: u32,
}

/// A lower bound of `term`: a prefix of at most 32 bytes.
pub(crate) fn bound_below(term: &[u8]) -> Vec<u8> {
    term.iter().take(BOUND_BYTES_MAX).copied().collect()
}

/// An upper bound of `term`, and of all terms that it is a prefix of, of at most 32 bytes.
pub(crate) fn bound_above(term: &[u8]) -> Vec<u8> {
    let mut bound = bound_below(term);
    if bound.len() < term.len() {
        while bound.last() == Some(&0xff) {
            bound.pop();
        }
        if let Some(last) = bound.last_mut() {
            *last += 1;
        }
    }
    bound
}

/// Gathers the entries of a table.
#[derive(Debug, Default)]
pub(crate) struct TableWriter {
    fields: Vec<u8>,
    sections: Vec<u8>,
    text: Vec<u8>,
    field_count: u32,
    section_count: u32,
    own_kinds: u32,
    last_path: Option<Vec<u8>>,
}

impl TableWriter {
    /// Adds a field, whose path is greater than the one before, with its sections, in the order of
    /// their kinds.
    pub(crate) fn field(
        &mut self,
        field: &FieldEntry<Vec<u8>>,
        sections: &[(SectionKind, SectionEntry)],
    ) {
        assert!(
            sections.is_sorted_by(|(a, _), (b, _)| a < b),
            "sections of a field are in the order of their kinds"
        );
        let is_greater = self.last_path.as_deref() < Some(&field.path);
        assert!(is_greater, "fields are in the order of their paths");
        self.last_path = Some(field.path.clone());
        let out = &mut self.fields;
        let mut text = |bytes: &[u8]| {
            let at = self.text.len() as u32;
            self.text.extend_from_slice(bytes);
            at.to_le_bytes()
        };
        out.extend_from_slice(&text(&field.path));
        out.extend_from_slice(&(field.path.len() as u16).to_le_bytes());
        let flag = |set: bool, flag: u16| if set { flag } else { 0 };
        let flags = flag(field.filterable, FILTERABLE)
            | flag(field.sortable, SORTABLE)
            | flag(field.many, MANY);
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&field.docs.to_le_bytes());
        out.extend_from_slice(&field.present.to_le_bytes());
        out.extend_from_slice(&field.distinct.to_le_bytes());
        out.extend_from_slice(&field.pairs.to_le_bytes());
        out.extend_from_slice(&text(&field.least));
        text(&field.greatest);
        out.extend_from_slice(&(field.least.len() as u16).to_le_bytes());
        out.extend_from_slice(&(field.greatest.len() as u16).to_le_bytes());
        out.extend_from_slice(&self.section_count.to_le_bytes());
        let number = self.field_count;
        self.field_count += 1;
        let kinds = self.sections(number, sections);
        self.fields.extend_from_slice(&kinds.to_le_bytes());
    }

    fn sections(&mut self, field: u32, sections: &[(SectionKind, SectionEntry)]) -> u32 {
        for (_, section) in sections {
            let out = &mut self.sections;
            out.extend_from_slice(&section.offset.to_le_bytes());
            out.extend_from_slice(&section.bytes.to_le_bytes());
            out.extend_from_slice(&section.crc.to_le_bytes());
            out.extend_from_slice(&field.to_le_bytes());
        }
        self.section_count += sections.len() as u32;
        sections
            .iter()
            .fold(0, |kinds, (kind, _)| kinds | kind.bit())
    }

    /// The table, with the file's own sections.
    pub(crate) fn finish(mut self, own: &[(SectionKind, SectionEntry)]) -> Vec<u8> {
        self.own_kinds = self.sections(NO_FIELD, own);
        let field_bytes = self.field_count as usize * FIELD_BYTES;
        assert!(self.fields.len() == field_bytes, "each field has an entry");
        let section_bytes = self.section_count as usize * SECTION_BYTES;
        assert!(
            self.sections.len() == section_bytes,
            "each section has an entry"
        );
        let mut out = Vec::new();
        for number in [self.field_count, self.section_count, self.own_kinds] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.fields);
        out.extend_from_slice(&self.sections);
        out.extend_from_slice(&self.text);
        out
    }
}

/// A table that was checked.
#[derive(Debug)]
pub(crate) struct Table {
    bytes: Bytes,
    fields: Box<[Field]>,
    /// Of each field's path, side by side.
    prefixes: Box<[u64]>,
    sections: usize,
    own_kinds: u32,
}

/// A field's entry.
#[derive(Debug)]
struct Field {
    entry: FieldEntry<Bytes>,
    first_section: usize,
    kinds: u32,
}

impl Field {
    /// The field whose entry is at `at`; the text begins at `text`.
    fn parse(bytes: &Bytes, at: usize, text: usize) -> Option<Field> {
        let entry: &[u8; FIELD_BYTES] = bytes.get(at..)?.first_chunk()?;
        let text = |offset: u32, length: u16| {
            let start = text.checked_add(offset as usize)?;
            let end = start.checked_add(length.into())?;
            (end <= bytes.len()).then(|| bytes.slice(start..end))
        };
        let flags = le::u16_at(entry, 6)?;
        let (least_at, least_bytes) = (le::u32_at(entry, 32)?, le::u16_at(entry, 36)?);
        let greatest_at = least_at.checked_add(least_bytes.into())?;
        Some(Field {
            entry: FieldEntry {
                path: text(le::u32_at(entry, 0)?, le::u16_at(entry, 4)?)?,
                filterable: flags & FILTERABLE != 0,
                sortable: flags & SORTABLE != 0,
                many: flags & MANY != 0,
                docs: le::u32_at(entry, 8)?,
                present: le::u32_at(entry, 12)?,
                distinct: le::u64_at(entry, 16)?,
                pairs: le::u64_at(entry, 24)?,
                least: text(least_at, least_bytes)?,
                greatest: text(greatest_at, le::u16_at(entry, 38)?)?,
            },
            first_section: le::u32_at(entry, 40)? as usize,
            kinds: le::u32_at(entry, 44)?,
        })
    }
}

impl Table {
    /// The table of a file whose sections end before `end`; `None` if it makes no sense.
    pub(crate) fn new(bytes: Bytes, end: u64) -> Option<Table> {
        let count = le::u32_at(&bytes, 0)? as usize;
        let sections = le::u32_at(&bytes, 4)? as usize;
        let text = count.checked_mul(FIELD_BYTES)?.checked_add(HEADER_BYTES)?;
        let text = text.checked_add(sections.checked_mul(SECTION_BYTES)?)?;
        (text <= bytes.len()).then_some(())?;
        let places = (0..count).map(|field| HEADER_BYTES + field * FIELD_BYTES);
        let fields = places.map(|at| Field::parse(&bytes, at, text));
        let fields: Box<[Field]> = fields.collect::<Option<_>>()?;
        let table = Table {
            prefixes: fields
                .iter()
                .map(|field| prefix(&field.entry.path))
                .collect(),
            fields,
            sections,
            own_kinds: le::u32_at(&bytes, 8)?,
            bytes,
        };
        let (mut first, mut last) = (0, None);
        for field in &table.fields {
            let path = Some(&field.entry.path);
            (last < path && field.first_section == first).then_some(())?;
            last = path;
            first += field.kinds.count_ones() as usize;
        }
        let own = table.own_kinds.count_ones() as usize;
        (sections == first + own).then_some(())?;
        for section in 0..sections {
            let entry = table.section(section)?;
            (entry.offset.checked_add(entry.bytes)? <= end).then_some(())?;
        }
        Some(table)
    }

    /// How many fields.
    pub(crate) fn fields(&self) -> usize {
        self.fields.len()
    }

    /// How many sections.
    pub(crate) fn sections(&self) -> usize {
        self.sections
    }

    /// The statistics of a field.
    pub(crate) fn field(&self, field: usize) -> Option<&FieldEntry<Bytes>> {
        self.fields.get(field).map(|field| &field.entry)
    }

    /// The number of the field of this path.
    pub(crate) fn find(&self, path: &str) -> Option<usize> {
        let (path, wanted) = (path.as_bytes(), prefix(path.as_bytes()));
        let start = self.prefixes.partition_point(|prefix| *prefix < wanted);
        let rest = self.prefixes.get(start..)?;
        let same = rest.partition_point(|prefix| *prefix == wanted);
        let same = self.fields.get(start..start + same)?;
        let found = same.binary_search_by(|field| (*field.entry.path).cmp(path));
        Some(start + found.ok()?)
    }

    /// The number of a section of a field, or of the file's own, if it is there.
    pub(crate) fn section_of(&self, field: Option<usize>, kind: SectionKind) -> Option<usize> {
        let (first, kinds) = match field {
            Some(field) => {
                let field = self.fields.get(field)?;
                (field.first_section, field.kinds)
            }
            None => {
                let own = self.own_kinds.count_ones() as usize;
                (self.sections.checked_sub(own)?, self.own_kinds)
            }
        };
        let before = kinds & (kind.bit() - 1);
        (kinds & kind.bit() != 0).then_some(first + before.count_ones() as usize)
    }

    /// Where a section is.
    pub(crate) fn section(&self, section: usize) -> Option<SectionEntry> {
        (section < self.sections).then_some(())?;
        let sections = HEADER_BYTES + self.fields.len() * FIELD_BYTES;
        let start = sections + section * SECTION_BYTES;
        Some(SectionEntry {
            offset: le::u64_at(&self.bytes, start)?,
            bytes: le::u64_at(&self.bytes, start + 8)?,
            crc: le::u32_at(&self.bytes, start + 16)?,
        })
    }
}
