//! The documents of a field that a test accepts: which, and how many.

use crate::Result;
use crate::bounds::is_outside;
use crate::codes::Codes;
use crate::column::FrozenColumn;
use crate::file::FrozenField;
use crate::merge::FORWARD_MAX;
use crate::postings::ValueDocs;
use crate::table::SectionKind;
use quire_index::DocSet;
use quire_model::ordered::Direction;
use quire_query::{Found, Leaf, Path, Test};
use std::ops::{Bound, Range, RangeInclusive};

/// About what reading the value of a document costs, in nanoseconds: in docid order, and in any
/// order.
const SCAN_COST: u64 = 1;
const GATHER_COST: u64 = 4;
/// This many documents are tested by their codes sooner than the cost of another way is known.
const FEW: u64 = 64;
/// The values of this many documents are compared sooner than a range is looked up.
const FEW_VALUES: usize = 12;

impl<'a> FrozenField<'a> {
    pub(crate) fn codes_of(&self, test: &Test) -> Result<Codes> {
        let mut codes = Codes::default();
        if let (Test::Eq(value), true) = (test, self.entry.has_one_value()) {
            codes.push(0..u64::from(*value.term() == *self.entry.least));
            return Ok(codes);
        }
        let is_among = self.open().surely_contains(test.bounds());
        if !is_among && is_outside(test.bounds(), &self.entry.least, &self.entry.greatest) {
            return Ok(codes);
        }
        let dictionary = self.dictionary()?;
        let damaged = self.damaged(SectionKind::Values);
        let find = |term: &[u8]| dictionary.search(term).map_err(&damaged);
        match test {
            Test::Eq(value) => {
                let (code, found) = find(value.term())?;
                codes.push(code..code + u64::from(found));
            }
            Test::In(values) => {
                for value in values {
                    let (code, found) = find(value.term())?;
                    codes.push(code..code + u64::from(found));
                }
            }
            Test::Range(_) | Test::Exists => {
                let (lower, upper) = test.bounds();
                let (least, greatest) = (&*self.entry.least, &*self.entry.greatest);
                // A bound outside all values needs no search.
                let start = match lower {
                    Bound::Included(lower) if is_among || lower > least => find(lower)?.0,
                    Bound::Excluded(lower) if is_among || lower >= least => after(find(lower)?),
                    _ => 0,
                };
                let end = match upper {
                    Bound::Included(upper) if is_among || upper < greatest => after(find(upper)?),
                    Bound::Excluded(upper) if is_among || upper <= greatest => find(upper)?.0,
                    _ => dictionary.len(),
                };
                codes.push(start..end.max(start));
            }
        }
        Ok(codes)
    }

    /// The codes of a test, unless an estimate has found them.
    pub(crate) fn codes_found(&self, test: &Test, found: Found) -> Result<Codes> {
        match found {
            Found(Some([start, end])) => Ok(Codes {
                first: start..end,
                more: Vec::new(),
            }),
            Found(None) => self.codes_of(test),
        }
    }

    /// How many values of some codes the documents have. That is the number of documents, if none
    /// has many values, or if there is one code.
    pub(crate) fn pairs(&self, codes: &Codes) -> Result<u64> {
        if codes.first == (0..self.entry.distinct) {
            return Ok(self.entry.pairs);
        }
        let counts = self.counts()?;
        if let Some(code) = codes.single() {
            let own = counts.step(code);
            return own.map_err(self.damaged(SectionKind::Counts));
        }
        let at = |code| counts.get(code).map_err(self.damaged(SectionKind::Counts));
        let mut pairs = 0u64;
        for range in codes.ranges().filter(|range| !range.is_empty()) {
            let own = at(range.end)?.saturating_sub(at(range.start)?);
            pairs = pairs.saturating_add(own);
        }
        Ok(pairs)
    }

    /// The codes from the first or from the last one on, of which documents have about this number
    /// of values.
    pub(crate) fn first_codes(&self, direction: Direction, values: u64) -> Result<Codes> {
        let (counts, all) = (self.counts()?, self.entry.distinct);
        let damaged = self.damaged(SectionKind::Counts);
        let first = match direction {
            Direction::Ascending => 0..counts.lower_bound(values).map_err(damaged)?.min(all),
            Direction::Descending => {
                let before = counts.get(all).map_err(&damaged)?.saturating_sub(values);
                let after = counts.lower_bound(before.saturating_add(1));
                after.map_err(damaged)?.saturating_sub(1).min(all)..all
            }
        };
        let more = Vec::new();
        Ok(Codes { first, more })
    }

    /// How many documents have a value of some codes, if that is known.
    pub(crate) fn count_of(&self, codes: &Codes) -> Result<Option<u64>> {
        let known = !self.entry.many || codes.is_empty() || codes.single().is_some();
        known.then(|| self.pairs(codes)).transpose()
    }

    /// How many documents have a value.
    pub(crate) fn count_of_term(&self, term: &[u8]) -> Result<u64> {
        if self.entry.has_one_value() {
            return Ok(match *term == *self.entry.least {
                true => self.entry.pairs,
                false => 0,
            });
        }
        let bounds = (Bound::Included(term), Bound::Included(term));
        if !self.open().surely_contains(bounds)
            && is_outside(bounds, &self.entry.least, &self.entry.greatest)
        {
            return Ok(0);
        }
        match self.dictionary()?.search(term) {
            Ok((code, true)) => match self.counts()?.step(code) {
                Ok(count) => Ok(count),
                Err(damage) => Err(self.damaged(SectionKind::Counts)(damage)),
            },
            Ok((_, false)) => Ok(0),
            Err(damage) => Err(self.damaged(SectionKind::Values)(damage)),
        }
    }

    /// The documents of one value.
    pub(crate) fn of_value(&self, code: u64) -> Result<ValueDocs<'a>> {
        if !self.has_postings() {
            return Ok(ValueDocs::List(self.scan(&(code..code + 1))?));
        }
        let of_value = self.postings()?.of_value(code);
        of_value.map_err(self.damaged(SectionKind::Docids))
    }

    /// The documents that have one of some codes, found by reading all codes.
    fn scan(&self, codes: &Range<u64>) -> Result<DocSet> {
        let (column, _) = self.codes()?;
        let bits = column.scan(column_range(codes));
        let bits = bits.map_err(self.damaged(SectionKind::Codes))?;
        Ok(DocSet::from_bits(&bits))
    }

    pub(crate) fn set_of(&self, codes: &Codes) -> Result<DocSet> {
        if codes.is_empty() {
            return Ok(DocSet::empty());
        }
        if let Some(code) = codes.single() {
            return Ok(match self.of_value(code)? {
                ValueDocs::Set(set) => set.to_doc_set(),
                ValueDocs::List(docs) => docs,
            });
        }
        if !self.has_postings() {
            if codes.more.is_empty() {
                return self.scan(&codes.first);
            }
            let mut docs = DocSet::full(self.file.documents());
            self.retain_by_column(codes, &mut docs)?;
            return Ok(docs);
        }
        if self.has_codes() && !self.entry.many && codes.more.is_empty() {
            let (column, _) = self.codes()?;
            let cost = column.scan_cost(&column_range(&codes.first));
            if self.cost_of(codes)? > SCAN_COST * cost.map_err(self.damaged(SectionKind::Codes))? {
                return self.scan(&codes.first);
            }
        }
        let docs = self.postings()?.of_values(codes.ranges());
        docs.map_err(self.damaged(SectionKind::Docids))
    }

    /// About what collecting the documents of some codes costs, in nanoseconds.
    fn cost_of(&self, codes: &Codes) -> Result<u64> {
        let postings = self.postings()?;
        let damaged = self.damaged(SectionKind::Docids);
        let mut costs = codes.ranges().map(|range| postings.cost(range));
        let all = costs.try_fold(0u64, |all, cost| Ok(all.saturating_add(cost?)));
        all.map_err(damaged)
    }

    /// Whether reading the values of this number of documents is faster than collecting the
    /// documents of some codes.
    pub(crate) fn is_quicker_by_column(&self, codes: &Codes, docs: u64) -> Result<bool> {
        let is_small = self.file.documents() <= FORWARD_MAX;
        if !self.has_postings() || is_small && docs <= FEW && self.has_codes() {
            return Ok(true);
        }
        Ok(self.has_codes() && docs * (GATHER_COST - SCAN_COST) < self.cost_of(codes)?)
    }

    /// The documents that have a value of some codes, ascending; quick where they are few.
    pub(crate) fn docs_of(&self, codes: &Codes) -> Result<Vec<u32>> {
        if let (Some(code), true) = (codes.single(), self.has_postings()) {
            let docs = self.postings()?.docs_of_value(code);
            return docs.map_err(self.damaged(SectionKind::Docids));
        }
        Ok(self.set_of(codes)?.iter().collect())
    }

    /// Keeps the documents that have a value of some codes, whichever way is quicker.
    pub(crate) fn retain(&self, codes: &Codes, docs: &mut DocSet) -> Result<()> {
        if codes.is_empty() {
            *docs = DocSet::empty();
        } else if self.is_quicker_by_column(codes, docs.len())? {
            self.retain_by_column(codes, docs)?;
        } else if let Some(code) = codes.single() {
            match self.of_value(code)? {
                ValueDocs::Set(set) => docs.and_view(set),
                ValueDocs::List(list) => *docs &= &list,
            }
        } else {
            *docs &= &self.set_of(codes)?;
        }
        Ok(())
    }

    /// Keeps of `docs`, which ascend, those that have a value of some codes, by their codes. No
    /// document has many.
    pub(crate) fn keep_by_codes(&self, codes: &Codes, docs: &mut Vec<u32>) -> Result<()> {
        debug_assert!(!self.entry.many, "a document has one code at most");
        let (column, _) = self.codes()?;
        let damaged = self.damaged(SectionKind::Codes);
        if codes.more.is_empty() {
            let frame = self.frame(&column)?;
            return column
                .keep(&column_range(&codes.first), frame, docs)
                .map_err(damaged);
        }
        let mut values = Vec::new();
        column.gather(docs, &mut values).map_err(damaged)?;
        let mut values = values.into_iter();
        docs.retain(|_| {
            let code = values.next().and_then(|value| value.checked_sub(1));
            code.is_some_and(|code| codes.contains(code))
        });
        Ok(())
    }

    /// Keeps of `docs`, which ascend and are few, those that have a value in a range. No document
    /// has many. Where all values are integers, the range is not looked up.
    pub(crate) fn keep_in_range(&self, test: &Test, docs: &mut Vec<u32>) -> Result<()> {
        debug_assert!(!self.entry.many, "a document has one value at most");
        let dictionary = self.dictionary()?;
        let integers = match docs.len() <= FEW_VALUES {
            true => dictionary.integers(test.bounds()),
            false => None,
        };
        let Some(integers) = integers else {
            let codes = self.codes_of(test)?;
            if codes.is_empty() {
                docs.clear();
                return Ok(());
            }
            return self.keep_by_codes(&codes, docs);
        };
        let (column, _) = self.codes()?;
        let mut failed = Ok(());
        docs.retain(|doc| {
            let code = column.get((*doc).into());
            let code = code.map_err(self.damaged(SectionKind::Codes));
            let found = code.and_then(|code| match code.checked_sub(1) {
                Some(code) => dictionary
                    .is_in(code, &integers)
                    .map_err(self.damaged(SectionKind::Values)),
                None => Ok(false),
            });
            found.unwrap_or_else(|error| {
                failed = Err(error);
                false
            })
        });
        failed
    }

    /// Keeps the documents that have a value of some codes, by reading the values of each.
    pub(crate) fn retain_by_column(&self, codes: &Codes, docs: &mut DocSet) -> Result<()> {
        let (column, starts) = self.codes()?;
        let damaged = self.damaged(SectionKind::Codes);
        if starts.is_none() && codes.more.is_empty() {
            return column
                .retain(&column_range(&codes.first), docs)
                .map_err(damaged);
        }
        let values = FrozenColumn::new(self)?;
        let (mut batch, mut ordinals) = ([0; 1024], quire_query::Ordinals::default());
        let (mut left, mut kept) = (docs.iter(), DocSet::empty());
        loop {
            let count = left.next_many(&mut batch);
            let batch = batch.get(..count).unwrap_or_default();
            if batch.is_empty() {
                break;
            }
            values.read(batch, &mut ordinals)?;
            let found = ordinals.iter().zip(batch);
            let found =
                found.filter(|(ordinals, _)| ordinals.iter().any(|code| codes.contains(*code)));
            kept.extend(found.map(|(_, docid)| *docid));
        }
        *docs = kept;
        Ok(())
    }
}

/// The values in a column of codes: each is one more than the code.
pub(crate) fn column_range(codes: &Range<u64>) -> RangeInclusive<u64> {
    codes.start + 1..=codes.end
}

fn after((code, found): (u64, bool)) -> u64 {
    code + u64::from(found)
}

/// How many documents match several leaves, each of a single value; `None` for other leaves. `find`
/// returns the field of a leaf.
pub(crate) fn count_all<'a>(
    leaves: &[&Leaf],
    find: impl Fn(&Path) -> Result<Option<FrozenField<'a>>>,
) -> Result<Option<u64>> {
    let mut singles = Vec::with_capacity(leaves.len());
    for leaf in leaves {
        let Some(field) = find(&leaf.path)? else {
            return Ok(Some(0));
        };
        if leaf.test == Test::Exists {
            return Ok(None);
        }
        let codes = field.codes_of(&leaf.test)?;
        if codes.is_empty() {
            return Ok(Some(0));
        }
        let Some(code) = codes.single() else {
            return Ok(None);
        };
        singles.push((field.pairs(&codes)?, code, field));
    }
    singles.sort_by_key(|(docs, ..)| *docs);
    let Some((last, others)) = singles.split_last() else {
        return Ok(None);
    };
    let mut all: Option<ValueDocs<'_>> = None;
    for (_, code, field) in others {
        let one = field.of_value(*code)?;
        all = Some(match all {
            None => one,
            Some(all) => ValueDocs::List(all.and(one)),
        });
    }
    let (docs, code, field) = last;
    match all {
        Some(all) => Ok(Some(all.count_with(&field.of_value(*code)?))),
        None => Ok(Some(*docs)),
    }
}
