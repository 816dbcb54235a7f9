//! [`ValueDirectory`]: which files have a value of a field.
//!
//! Where the ranges of files overlap, zone maps say that nearly every file may have a value. The
//! directory says which do: an entry for each value of each file, gathered from the dictionaries
//! alone. A value is looked up by its hash, at the cost of a few reads.
//!
//! # Invariants
//! 1. A file that has the value is among the candidates. One that has not is among them only if the
//!    hashes of two values share their upper 32 bits or more.
//! 2. Entries ascend: those of one hash by the places of their files.
//! 3. It takes at most the bytes that it was given.
//!
//! # Layout
//! ```text
//! entry   | upper bits of the value's hash | place of the file |   64 bits
//! starts  by the first bits of the hash: the index of the first entry that has them or higher ones
//! ```

use crate::Result;
use crate::partition::Partition;
use crate::table::SectionKind;
use quire_query::{Path, Places, Test};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Entries that have the same first bits, on average.
const ENTRIES_PER_START: usize = 4;

/// A directory pays if a value is in at most one of this number of files, on average.
const FILES_PER_VALUE: usize = 4;

/// The places of files by value.
#[derive(Debug)]
pub(crate) struct ValueDirectory {
    entries: Box<[u64]>,
    starts: Box<[u32]>,
    /// Bits of a hash that choose a start.
    start_bits: u32,
    /// Bits of a place, the lower bits of an entry.
    place_bits: u32,
    files: usize,
    /// Files that have the field and can't filter by it, ascending: a query of them is an error.
    unfiltered: Vec<u32>,
}

impl ValueDirectory {
    /// How many bytes the directory of a field takes at most.
    pub(crate) fn bytes_for(partitions: &[Arc<Partition>], path: &Path) -> Result<u64> {
        let mut values = 0u64;
        for one in partitions {
            if let Some(field) = one.file.field_at(path)? {
                values = values.saturating_add(field.entry.distinct);
            }
        }
        let entries = values.saturating_mul(size_of::<u64>() as u64);
        // A power of two, so up to twice as many starts.
        let starts = 2 * values / ENTRIES_PER_START as u64 + 1;
        Ok(entries.saturating_add(starts.saturating_mul(size_of::<u32>() as u64)))
    }

    /// Reads the dictionaries of the field. None if most values are in most files: then all files
    /// are queried anyway.
    pub(crate) fn gather(
        partitions: &[Arc<Partition>],
        path: &Path,
    ) -> Result<Option<ValueDirectory>> {
        let place_bits = usize::BITS - partitions.len().leading_zeros();
        let (mut entries, mut unfiltered) = (Vec::new(), Vec::new());
        let mut value = Vec::new();
        for (place, one) in (0u32..).zip(partitions) {
            let Some(field) = one.file.field_at(path)? else {
                continue;
            };
            if !field.entry.filterable {
                unfiltered.push(place);
                continue;
            }
            let dictionary = field.dictionary()?;
            let damaged = field.damaged(SectionKind::Values);
            for code in 0..dictionary.len() {
                value.clear();
                dictionary
                    .append_value(code, &mut value)
                    .map_err(&damaged)?;
                let hash = xxh3_64(&value) >> place_bits << place_bits;
                entries.push(hash | u64::from(place));
            }
        }
        if u32::try_from(entries.len()).is_err() {
            return Ok(None);
        }
        entries.sort_unstable();
        let values = entries.chunk_by(|a, b| a >> place_bits == b >> place_bits);
        if entries.len() * FILES_PER_VALUE > values.count() * partitions.len() {
            return Ok(None);
        }
        let start_bits = (entries.len() / ENTRIES_PER_START).max(2).ilog2();
        let mut starts = vec![0; (1 << start_bits) + 1];
        for entry in &entries {
            if let Some(count) = starts.get_mut((entry >> (64 - start_bits)) as usize + 1) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        assert!(
            sum as usize == entries.len(),
            "each entry is behind one start"
        );
        Ok(Some(ValueDirectory {
            entries: entries.into(),
            starts: starts.into(),
            start_bits,
            place_bits,
            files: partitions.len(),
            unfiltered,
        }))
    }

    /// The bytes that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        (size_of_val(&*self.entries) + size_of_val(&*self.starts)) as u64
    }

    /// The places of files that have a value which a test accepts, and of those that can't filter;
    /// none if that is not known, or if they are more than half of all.
    #[inline]
    pub(crate) fn candidates(&self, test: &Test) -> Option<Places> {
        let mut places = Places::new();
        match test {
            Test::Eq(value) => self.add(value.term(), &mut places),
            Test::In(values) => {
                for value in values {
                    self.add(value.term(), &mut places);
                    if places.len() > 2 * self.files {
                        return None;
                    }
                }
            }
            Test::Range(_) | Test::Exists => return None,
        }
        places.extend_from_slice(&self.unfiltered);
        if !places.is_sorted_by(|a, b| a < b) {
            places.sort_unstable();
            places.dedup();
        }
        (places.len() <= self.files / 2).then_some(places)
    }

    #[inline]
    fn add(&self, term: &[u8], places: &mut Places) {
        let hash = xxh3_64(term);
        let at = (hash >> (64 - self.start_bits)) as usize;
        let range = match self.starts.get(at..at + 2) {
            Some([start, end]) => *start as usize..*end as usize,
            _ => 0..0,
        };
        let entries = self.entries.get(range).unwrap_or_default();
        let same = entries
            .iter()
            .filter(|entry| (**entry ^ hash) >> self.place_bits == 0);
        let mask = (1 << self.place_bits) - 1;
        places.extend(same.map(|entry| (entry & mask) as u32));
    }
}
