//! Merging: the runs of one field become its sections.
//!
//! The values of all runs are merged once, in order. That makes the dictionary, the counts, the
//! docids and the sets; and for each run the code of each of its values, by which the values of its
//! documents become codes afterwards.

use crate::block_sink::BlockSink;
use crate::format::{Trailer, VERSION};
use crate::gather::{FieldRun, Traits};
use crate::postings::PostingsWriter;
use crate::spool::{Spool, SpoolReader, Spooled, Spools, put_number};
use crate::table::{FieldEntry, SectionEntry, SectionKind, TableWriter, bound_above, bound_below};
use crate::{Error, Result};
use quire_index::{
    BLOCK_ROWS, ColumnWriter, DictionaryEncoding, DictionaryWriter, DocSet, encode_set, term,
};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The codes of this number of documents are read within a few microseconds.
pub(crate) const FORWARD_MAX: u32 = BLOCK_ROWS as u32;

/// Fields of up to this number of values have codes beside their docids: a byte for each document
/// at most.
pub(crate) const CODED_VALUES_MAX: u64 = 255;

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

/// The values of one run, one after another. It compares by the next value, then by the run, the
/// least greatest: so a heap has the least first.
struct Values {
    run: usize,
    reader: SpoolReader,
    /// The next one.
    value: Vec<u8>,
    docids: u64,
}

impl Values {
    /// The values of a field of a run; `None` if there are none.
    fn new(number: usize, reader: SpoolReader) -> Result<Option<Box<Values>>> {
        let values = Values {
            run: number,
            reader,
            value: Vec::new(),
            docids: 0,
        };
        Box::new(values).advanced()
    }

    /// Goes to the next value; `None` at the end. The docids of the last one have been read.
    fn advanced(mut self: Box<Self>) -> Result<Option<Box<Values>>> {
        if self.reader.is_at_end() {
            return Ok(None);
        }
        let length = self.reader.number()?;
        self.reader.take(length, &mut self.value)?;
        self.docids = self.reader.number()?;
        Ok(Some(self))
    }

    /// Calls `each` with the docids of the next value.
    fn read_docids(&mut self, mut each: impl FnMut(u32)) -> Result<()> {
        let mut docid = 0;
        for _ in 0..self.docids {
            docid += self.reader.number()? as u32;
            each(docid);
        }
        Ok(())
    }
}

impl Ord for Values {
    fn cmp(&self, other: &Values) -> Ordering {
        (&other.value, other.run).cmp(&(&self.value, self.run))
    }
}

impl PartialOrd for Values {
    fn partial_cmp(&self, other: &Values) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Values {
    fn eq(&self, other: &Values) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Values {}

/// Runs whose next value is the same. Most values of fields that have many are of one run.
type Same = SmallVec<[Box<Values>; 8]>;

/// Moves the runs that have the least value next to `same`, in their order; false at the end.
fn next_value(left: &mut BinaryHeap<Box<Values>>, same: &mut Same) -> bool {
    same.extend(left.pop());
    while let (Some(next), Some(first)) = (left.peek(), same.first())
        && next.value == first.value
    {
        same.extend(left.pop());
    }
    !same.is_empty()
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
    /// Up to this number of documents, there are codes by document to filter by.
    pub(crate) forward_max: u32,
}

/// What the values of all runs merge to.
struct MergedValues {
    /// The dictionary.
    values: Spool,
    postings: PostingsWriter,
    /// The documents that have a value that is not null, as bits.
    present: Vec<u64>,
    /// The documents that have a null.
    null: DocSet,
    /// For each run the codes of its values.
    codes: Vec<Spool>,
    distinct: u64,
    least: Vec<u8>,
    greatest: Vec<u8>,
}

impl Merging<'_> {
    fn runs(&self) -> impl Iterator<Item = (&Run, &FieldRun)> {
        self.runs
            .iter()
            .filter_map(|run| Some((run, run.fields.get(self.field)?)))
    }

    /// Whether documents are few, so that testing them by their codes is fast. If no document has
    /// many values, a sortable field then has no docids by value, and any other has both.
    fn may_be_forward(&self) -> bool {
        self.filterable && self.documents <= self.forward_max
    }

    /// Whether the runs have the values by document.
    fn has_documents(&self) -> bool {
        self.runs()
            .all(|(run, field)| run.documents == 0 || !field.documents.is_empty())
    }

    /// Makes the sections.
    pub(crate) fn merge(&self) -> Result<MergedField> {
        let merged = self.merge_values()?;
        assert!(merged.least <= merged.greatest, "the dictionary ascends");
        let pairs = merged.postings.pairs();
        let present = DocSet::from_bits(&merged.present);
        let docs = (&present | &merged.null).len() as u32;
        let entry = FieldEntry {
            path: self.path.as_bytes().to_vec(),
            filterable: self.filterable,
            sortable: self.sortable,
            many: pairs > u64::from(docs),
            docs,
            present: present.len() as u32,
            distinct: merged.distinct,
            pairs,
            least: bound_below(&merged.least),
            greatest: bound_above(&merged.greatest),
        };
        let mut sections = vec![(SectionKind::Values, merged.values.finish()?)];
        let mut columns = Vec::new();
        let is_coded = entry.distinct <= CODED_VALUES_MAX && !entry.many && self.has_documents();
        if self.sortable || self.may_be_forward() || is_coded {
            let codes = merged.codes.into_iter().map(Spool::finish);
            let codes = codes.collect::<Result<Vec<_>>>()?;
            columns = self.columns(&codes, entry.many)?;
        }
        if self.filterable {
            let mut postings = merged.postings.finish()?;
            let is_forward = self.may_be_forward() && !entry.many;
            if is_forward && self.sortable {
                postings.retain(|(kind, _)| *kind == SectionKind::Counts);
            } else if !is_forward && !self.sortable && !is_coded {
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
        assert!(
            sections.is_sorted_by(|(a, _), (b, _)| a < b),
            "sections are in order"
        );
        Ok(MergedField { entry, sections })
    }

    /// Merges the values of all runs: each distinct value once, in order.
    fn merge_values(&self) -> Result<MergedValues> {
        let traits = self
            .runs()
            .fold(Traits::NONE, |all, (_, run)| all.and(run.traits));
        let mut dictionary = DictionaryWriter::new(encoding_for(traits));
        let mut left = BinaryHeap::new();
        for (number, (run, field)) in self.runs().enumerate() {
            let reader = run.bytes.read(field.values.start, field.values.end);
            // A quarter of the memory for building, as a spool has a sixty-fourth.
            let memory = self.spools.memory_max().saturating_mul(16);
            let reader = reader.among(self.runs.len(), memory);
            left.extend(Values::new(number, reader)?);
        }
        // There is one for each run, so they share the memory of a spool.
        let of_runs = self
            .spools
            .with_memory(self.spools.memory_max() / self.runs.len().max(1));
        let mut merged = MergedValues {
            values: self.spools.spool(),
            postings: PostingsWriter::new(self.spools, self.documents),
            present: vec![0; (self.documents as usize).div_ceil(64)],
            null: DocSet::empty(),
            codes: self.runs.iter().map(|_| of_runs.spool()).collect(),
            distinct: 0,
            least: Vec::new(),
            greatest: Vec::new(),
        };
        let is_by_document = self.has_documents();
        let mut last_codes = vec![0; self.runs.len()];
        let (mut same, mut value) = (Same::new(), Vec::new());
        while next_value(&mut left, &mut same) {
            value.clear();
            same.first()
                .iter()
                .for_each(|first| value.extend_from_slice(&first.value));
            dictionary
                .push(&value, merged.values.bytes())
                .map_err(|damage| Error::InvalidArgument(damage.to_string()))?;
            merged.values.settle()?;
            let is_null = value == term::NULL;
            merged
                .postings
                .begin(same.iter().map(|one| one.docids).sum());
            for mut cursor in same.drain(..) {
                let of_run = merged.codes.get_mut(cursor.run);
                if let Some((codes, last)) = of_run.zip(last_codes.get_mut(cursor.run))
                    && is_by_document
                {
                    put_number(codes.bytes(), merged.distinct - *last);
                    codes.settle()?;
                    *last = merged.distinct;
                }
                cursor.read_docids(|docid| {
                    merged.postings.docid(docid);
                    match is_null {
                        true => drop(merged.null.insert(docid)),
                        false => set_bit(&mut merged.present, docid),
                    }
                })?;
                left.extend(cursor.advanced()?);
            }
            merged.postings.end()?;
            if merged.distinct == 0 {
                merged.least.clone_from(&value);
            }
            merged.greatest.clone_from(&value);
            merged.distinct += 1;
        }
        assert!(
            merged.distinct == merged.postings.values(),
            "each value of the dictionary has its postings"
        );
        dictionary.finish(merged.values.bytes());
        Ok(merged)
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

/// The code of each value of a run.
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

/// The encoding that takes fewest bytes, or one that is read faster and costs little more.
fn encoding_for(traits: Traits) -> DictionaryEncoding {
    let length = traits.length.and_then(|length| u32::try_from(length).ok());
    match length {
        _ if traits.bytes == 0 => DictionaryEncoding::Blocks,
        _ if traits.integers => DictionaryEncoding::Integers,
        // A value of a block takes two bytes more than its suffix.
        Some(length)
            if traits.shared < traits.bytes / 5 + 2 * traits.bytes / u64::from(length.max(1)) =>
        {
            DictionaryEncoding::Fixed(length)
        }
        _ => DictionaryEncoding::Blocks,
    }
}

/// Appends a section to a file.
pub(crate) fn write_section(section: &Spooled, out: &mut impl BlockSink) -> Result<SectionEntry> {
    let (offset, mut crc) = (out.offset(), 0);
    section.copy(|piece| {
        crc = crc32c::crc32c_append(crc, piece);
        out.append(piece)
    })?;
    assert!(
        out.offset() == offset + section.len(),
        "all of the section was appended"
    );
    Ok(SectionEntry {
        offset,
        bytes: section.len(),
        crc,
    })
}

/// Appends the end of a file: the table, with the file's own sections, and the trailer.
pub(crate) fn write_end(
    table: TableWriter,
    own: &[(SectionKind, SectionEntry)],
    documents: u32,
    out: &mut impl BlockSink,
) -> Result<()> {
    assert!(
        own.is_sorted_by(|(a, _), (b, _)| a < b),
        "the file's own sections are in order"
    );
    let table = table.finish(own);
    let trailer = Trailer {
        version: VERSION,
        table_offset: out.offset(),
        table_bytes: table.len() as u64,
        table_crc: crc32c::crc32c(&table),
        documents,
    };
    out.append(&table)?;
    out.append(&trailer.encode())
}
