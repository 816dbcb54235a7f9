//! Merging: the runs of one field become its sections.
//!
//! The values of all runs are gone through once, in order. That makes the dictionary, the counts,
//! the docids and the sets; and for each run which code each of its places has, with which the
//! values of its documents are gone through after.

use crate::format::Trailer;
use crate::gather::{FieldRun, Traits};
use crate::postings::PostingsWriter;
use crate::rows::BlockSink;
use crate::spool::{SpoolReader, Spooled, Spools, put_number};
use crate::table::{FieldEntry, SectionEntry, SectionKind, TableWriter, front_above, front_below};
use crate::{Error, Result};
use quire_index::{
    BLOCK_ROWS, ColumnWriter, DictionaryEncoding, DictionaryWriter, DocSet, encode_set, term,
};

/// The codes of so many documents are looked at within a few microseconds.
pub(crate) const FORWARD_MAX: u32 = BLOCK_ROWS as u32;

/// A run, in memory or in a temporary file.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) bytes: Spooled,
    /// Its documents.
    pub(crate) documents: u32,
    /// By field.
    pub(crate) fields: Vec<FieldRun>,
}

/// What is written of a field.
#[derive(Debug)]
pub(crate) struct MergedField {
    pub(crate) entry: FieldEntry<Vec<u8>>,
    /// In the order of their kinds.
    pub(crate) sections: Vec<(SectionKind, Spooled)>,
}

impl MergedField {
    /// Appends its sections to a file, and its entry to the file's table.
    pub(crate) fn write(&self, table: &mut TableWriter, out: &mut impl BlockSink) -> Result<()> {
        let mut sections = Vec::new();
        for (kind, section) in &self.sections {
            sections.push((*kind, write_section(section, out)?));
        }
        table.field(&self.entry, &sections);
        Ok(())
    }
}

/// The values of one run, one after another.
struct Values {
    reader: SpoolReader,
    /// The one that is next.
    value: Vec<u8>,
    is_at_end: bool,
    docids: u64,
}

impl Values {
    fn new(run: &Run, field: &FieldRun) -> Result<Values> {
        let mut values = Values {
            reader: run.bytes.read(field.values.start, field.values.end),
            value: Vec::new(),
            is_at_end: false,
            docids: 0,
        };
        values.advance()?;
        Ok(values)
    }

    /// Goes on to the next value. The docids of the last one have been read.
    fn advance(&mut self) -> Result<()> {
        self.is_at_end = self.reader.is_at_end();
        if !self.is_at_end {
            let length = self.reader.number()?;
            self.reader.take(length, &mut self.value)?;
            self.docids = self.reader.number()?;
        }
        Ok(())
    }

    fn is_at(&self, value: &[u8]) -> bool {
        !self.is_at_end && self.value == value
    }

    /// Calls `each` with the docids of the value that is next.
    fn read_docids(&mut self, mut each: impl FnMut(u32)) -> Result<()> {
        let mut docid = 0;
        for _ in 0..self.docids {
            docid += self.reader.number()? as u32;
            each(docid);
        }
        Ok(())
    }
}

/// Puts the least value that any run goes on with in `value`; false at the end.
fn next_value(cursors: &[Values], value: &mut Vec<u8>) -> bool {
    let left = cursors.iter().filter(|one| !one.is_at_end);
    let least = left.map(|one| one.value.as_slice()).min();
    value.clear();
    value.extend_from_slice(least.unwrap_or_default());
    least.is_some()
}

/// How a field is merged.
pub(crate) struct Merging<'a> {
    pub(crate) spools: &'a Spools,
    pub(crate) runs: &'a [Run],
    /// Documents of all runs.
    pub(crate) documents: u32,
    /// Which field of the runs.
    pub(crate) field: usize,
    pub(crate) path: &'a str,
    pub(crate) filterable: bool,
    pub(crate) sortable: bool,
    /// Of so many documents at most, the codes of all may stand in for the docids by value.
    pub(crate) forward_max: u32,
}

/// The documents that have a value.
struct Having {
    /// One that is not null, as bits.
    present: Vec<u64>,
    null: DocSet,
}

impl Merging<'_> {
    fn runs(&self) -> impl Iterator<Item = (&Run, &FieldRun)> {
        self.runs
            .iter()
            .filter_map(|run| Some((run, run.fields.get(self.field)?)))
    }

    /// Whether filtering by the codes of all documents is quick enough: they then stand in for the
    /// docids by value, if none has many values and that takes less.
    fn may_be_forward(&self) -> bool {
        self.filterable && self.documents <= self.forward_max
    }

    /// Makes the sections.
    pub(crate) fn merge(&self) -> Result<MergedField> {
        let traits = self
            .runs()
            .fold(Traits::NONE, |all, (_, run)| all.and(run.traits));
        let mut dictionary = DictionaryWriter::new(encoding_for(traits));
        let mut values = self.spools.spool();
        let mut postings = PostingsWriter::new(self.spools, self.documents);
        let mut having = Having {
            present: vec![0; (self.documents as usize).div_ceil(64)],
            null: DocSet::empty(),
        };
        let mut cursors = self
            .runs()
            .map(|(run, field)| Values::new(run, field))
            .collect::<Result<Vec<_>>>()?;
        // There is one for each run, so they share what a spool may take.
        let of_runs = self
            .spools
            .with_memory(self.spools.memory_max() / self.runs.len().max(1));
        let mut codes: Vec<_> = cursors.iter().map(|_| (of_runs.spool(), 0u64)).collect();
        let (mut distinct, mut least, mut greatest) = (0u64, None, Vec::new());
        let mut value = Vec::new();
        while next_value(&cursors, &mut value) {
            dictionary
                .push(&value, values.bytes())
                .map_err(|damage| Error::InvalidArgument(damage.to_string()))?;
            values.settle()?;
            let is_null = value == term::NULL;
            let same = cursors.iter().filter(|one| one.is_at(&value));
            let count = same.map(|one| one.docids).sum();
            postings.begin(count);
            for (cursor, (codes, last)) in cursors.iter_mut().zip(&mut codes) {
                if !cursor.is_at(&value) {
                    continue;
                }
                if self.sortable || self.may_be_forward() {
                    put_number(codes.bytes(), distinct - *last);
                    codes.settle()?;
                    *last = distinct;
                }
                cursor.read_docids(|docid| {
                    postings.docid(docid);
                    match is_null {
                        true => drop(having.null.insert(docid)),
                        false => set_bit(&mut having.present, docid),
                    }
                })?;
                cursor.advance()?;
            }
            postings.end()?;
            if least.is_none() {
                least = Some(front_below(&value));
            }
            greatest.clone_from(&value);
            distinct += 1;
        }
        dictionary.finish(values.bytes());

        let pairs = postings.pairs();
        let present = DocSet::from_bits(&having.present);
        let docs = (&present | &having.null).len() as u32;
        let entry = FieldEntry {
            path: self.path.as_bytes().to_vec(),
            filterable: self.filterable,
            sortable: self.sortable,
            many: pairs > u64::from(docs),
            docs,
            present: present.len() as u32,
            distinct,
            pairs,
            least: least.unwrap_or_default(),
            greatest: front_above(&greatest),
        };
        let mut sections = vec![(SectionKind::Values, values.finish()?)];
        let mut columns = Vec::new();
        if self.sortable || self.may_be_forward() {
            let codes = codes.into_iter().map(|(spool, _)| spool.finish());
            let codes = codes.collect::<Result<Vec<_>>>()?;
            columns = self.columns(&codes, entry.many)?;
        }
        if self.filterable {
            let mut postings = postings.finish()?;
            let in_postings = |kind| kind == SectionKind::Docids || kind == SectionKind::Sets;
            let posted = postings.iter().filter(|(kind, _)| in_postings(*kind));
            let posted: u64 = posted.map(|(_, section)| section.len()).sum();
            let column: u64 = columns.iter().map(|(_, section)| section.len()).sum();
            let is_smaller = self.sortable || column < posted;
            if self.may_be_forward() && !entry.many && is_smaller {
                postings.retain(|(kind, _)| !in_postings(*kind));
            } else if !self.sortable {
                columns.clear();
            }
            sections.extend(postings);
            if entry.present < self.documents {
                let mut spool = self.spools.spool();
                encode_set(&present, spool.bytes());
                sections.push((SectionKind::Present, spool.finish()?));
            }
        }
        sections.extend(columns);
        Ok(MergedField { entry, sections })
    }

    /// The columns of the codes, by document.
    fn columns(&self, codes: &[Spooled], many: bool) -> Result<Vec<(SectionKind, Spooled)>> {
        let (mut column, mut column_spool) = (ColumnWriter::new(), self.spools.spool());
        let (mut starts, mut starts_spool) = (ColumnWriter::new(), self.spools.spool());
        for ((run, field), codes) in self.runs().zip(codes) {
            let codes = read_codes(codes)?;
            let mut reader = run.bytes.read(field.documents.start, field.documents.end);
            for _ in 0..run.documents {
                let values = reader.number()?;
                if many {
                    starts.push(column.rows(), starts_spool.bytes());
                    starts_spool.settle()?;
                }
                for _ in 0..values {
                    let place = reader.number()? as usize;
                    let code = codes.get(place).copied().unwrap_or(0);
                    column.push(code + 1, column_spool.bytes());
                }
                if values == 0 && !many {
                    column.push(0, column_spool.bytes());
                }
                column_spool.settle()?;
            }
        }
        if many {
            starts.push(column.rows(), starts_spool.bytes());
            starts.finish(starts_spool.bytes());
        }
        column.finish(column_spool.bytes());
        let mut sections = vec![(SectionKind::Codes, column_spool.finish()?)];
        if many {
            sections.push((SectionKind::Starts, starts_spool.finish()?));
        }
        Ok(sections)
    }
}

/// The code of each place of a run.
fn read_codes(codes: &Spooled) -> Result<Vec<u64>> {
    let mut reader = codes.read(0, codes.len());
    let (mut all, mut last) = (Vec::new(), 0);
    while !reader.is_at_end() {
        last += reader.number()?;
        all.push(last);
    }
    Ok(all)
}

fn set_bit(bits: &mut [u64], docid: u32) {
    if let Some(word) = bits.get_mut(docid as usize / 64) {
        *word |= 1 << (docid % 64);
    }
}

/// The keeping that takes least, or is read fastest where that costs little.
fn encoding_for(traits: Traits) -> DictionaryEncoding {
    let length = traits.length.and_then(|length| u32::try_from(length).ok());
    match length {
        _ if traits.bytes == 0 => DictionaryEncoding::Blocks,
        _ if traits.integers => DictionaryEncoding::Integers,
        // A block's value costs two bytes more than what it does not share.
        Some(length)
            if traits.shared < traits.bytes / 5 + 2 * traits.bytes / u64::from(length.max(1)) =>
        {
            DictionaryEncoding::Fixed(length)
        }
        _ => DictionaryEncoding::Blocks,
    }
}

/// Appends a spooled section to whatever takes pieces.
pub(crate) fn copy(section: &Spooled, mut to: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut reader = section.read(0, section.len());
    while !reader.is_at_end() {
        let piece = reader.piece()?;
        to(piece)?;
        let read = piece.len();
        reader.advance(read);
    }
    Ok(())
}

/// Appends a section to a file.
pub(crate) fn write_section(section: &Spooled, out: &mut impl BlockSink) -> Result<SectionEntry> {
    let (offset, mut crc) = (out.offset(), 0);
    copy(section, |piece| {
        crc = crc32c::crc32c_append(crc, piece);
        out.append(piece)
    })?;
    Ok(SectionEntry {
        offset,
        bytes: section.len(),
        crc,
    })
}

/// Appends what a file ends with: the table, with the file's own sections, and the trailer.
pub(crate) fn write_end(
    table: TableWriter,
    own: &[(SectionKind, SectionEntry)],
    documents: u32,
    out: &mut impl BlockSink,
) -> Result<()> {
    let table = table.finish(own);
    let trailer = Trailer {
        table_offset: out.offset(),
        table_bytes: table.len() as u64,
        table_crc: crc32c::crc32c(&table),
        documents,
    };
    out.append(&table)?;
    out.append(&trailer.encode())
}
