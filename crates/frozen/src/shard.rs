//! A frozen partition as a [`Shard`]: a leaf becomes ranges of codes, and these documents.
//!
//! # Invariants
//! 1. A leaf whose bounds lie outside a field's values touches no section.
//! 2. Counts come from the counts of values, doc sets are worked on where they lie in the file, and
//!    only what an answer needs is put together.

use crate::column::FrozenColumn;
use crate::file::FrozenField;
use crate::postings::OfValue;
use crate::table::SectionKind;
use crate::{Error, FrozenFile, Result};
use quire_index::DocSet;
use quire_model::Document;
use quire_model::ordered::Direction;
use quire_query::{
    Column, Cost, Estimate, FieldInfo, Found, Leaf, Order, Path, Shard, TermBounds, Test,
};
use std::borrow::Cow;
use std::ops::{Bound, Range, RangeInclusive};

/// What looking at the value of a document costs, in nanoseconds, about: of one after another, and
/// of any.
const SCAN_COST: u64 = 1;
const GATHER_COST: u64 = 4;

/// The codes of the values that fulfil a test: ascending ranges, none of them empty, that do not
/// touch.
#[derive(Debug, Clone, Default)]
struct Codes {
    first: Range<u64>,
    /// The others. Most tests have none, which takes no memory.
    more: Vec<Range<u64>>,
}

impl Codes {
    fn push(&mut self, codes: Range<u64>) {
        let last = self.more.last_mut().unwrap_or(&mut self.first);
        if last.is_empty() {
            *last = codes;
        } else if last.end == codes.start {
            last.end = codes.end;
        } else if !codes.is_empty() {
            self.more.push(codes);
        }
    }

    fn ranges(&self) -> impl Iterator<Item = &Range<u64>> + Clone {
        std::iter::once(&self.first).chain(&self.more)
    }

    fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// These codes for later, if they are one range.
    fn found(&self) -> Found {
        let Range { start, end } = self.first;
        Found(self.more.is_empty().then_some([start, end]))
    }

    /// The only code, if there is only one.
    fn single(&self) -> Option<u64> {
        let single = self.more.is_empty() && self.first.end == self.first.start.saturating_add(1);
        single.then_some(self.first.start)
    }

    fn contains(&self, code: u64) -> bool {
        if self.more.is_empty() {
            return self.first.contains(&code);
        }
        let after = self.more.partition_point(|range| range.start <= code);
        let range = after.checked_sub(1).and_then(|at| self.more.get(at));
        range.unwrap_or(&self.first).contains(&code)
    }
}

/// Whether no value from `least` to `greatest` is within bounds.
pub(crate) fn is_outside(bounds: TermBounds<'_>, least: &[u8], greatest: &[u8]) -> bool {
    let (lower, upper) = bounds;
    let above = match lower {
        Bound::Included(lower) | Bound::Excluded(lower) => lower > greatest,
        Bound::Unbounded => false,
    };
    above
        || match upper {
            Bound::Included(upper) => upper < least,
            Bound::Excluded(upper) => upper <= least,
            Bound::Unbounded => false,
        }
}

impl<'a> FrozenField<'a> {
    fn codes_of(&self, test: &Test) -> Result<Codes> {
        let mut codes = Codes::default();
        if is_outside(test.bounds(), &self.entry.least, &self.entry.greatest) {
            return Ok(codes);
        }
        if matches!(test, Test::Eq(_)) && self.has_one_value() {
            codes.push(0..1);
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
                // An end that all values are within is not looked for.
                let start = match lower {
                    Bound::Included(lower) if lower > least => find(lower)?.0,
                    Bound::Excluded(lower) if lower >= least => after(find(lower)?),
                    _ => 0,
                };
                let end = match upper {
                    Bound::Included(upper) if upper < greatest => after(find(upper)?),
                    Bound::Excluded(upper) if upper <= greatest => find(upper)?.0,
                    _ => dictionary.len(),
                };
                codes.push(start..end.max(start));
            }
        }
        Ok(codes)
    }

    /// Whether there is one value alone, as where documents are parted by the field: what does not
    /// lie outside equals it.
    fn has_one_value(&self) -> bool {
        self.entry.distinct == 1 && self.entry.least == self.entry.greatest
    }

    /// The same, if the estimate did not find them.
    fn codes_found(&self, test: &Test, found: Found) -> Result<Codes> {
        match found {
            Found(Some([start, end])) => Ok(Codes {
                first: start..end,
                more: Vec::new(),
            }),
            Found(None) => self.codes_of(test),
        }
    }

    /// How many values documents have of some codes: documents, if none has many, or there is but
    /// one code.
    fn pairs(&self, codes: &Codes) -> Result<u64> {
        if codes.first == (0..self.entry.distinct) {
            return Ok(self.entry.pairs);
        }
        let counts = self.counts()?;
        let at = |code| counts.get(code).map_err(self.damaged(SectionKind::Counts));
        let mut pairs = 0u64;
        for range in codes.ranges().filter(|range| !range.is_empty()) {
            let own = at(range.end)?.saturating_sub(at(range.start)?);
            pairs = pairs.saturating_add(own);
        }
        Ok(pairs)
    }

    /// The codes from the first or the last one on that documents have so many values of, about.
    fn first_codes(&self, direction: Direction, values: u64) -> Result<Codes> {
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
    fn count_of(&self, codes: &Codes) -> Result<Option<u64>> {
        let known = !self.entry.many || codes.is_empty() || codes.single().is_some();
        known.then(|| self.pairs(codes)).transpose()
    }

    /// How many documents have a value.
    fn count_of_term(&self, term: &[u8]) -> Result<u64> {
        let bounds = (Bound::Included(term), Bound::Included(term));
        if is_outside(bounds, &self.entry.least, &self.entry.greatest) {
            return Ok(0);
        }
        if self.has_one_value() {
            return Ok(self.entry.pairs);
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
    pub(crate) fn of_value(&self, code: u64) -> Result<OfValue<'a>> {
        if !self.has_postings() {
            return Ok(OfValue::List(self.scan(&(code..code + 1))?));
        }
        let of_value = self.postings()?.of_value(code);
        of_value.map_err(self.damaged(SectionKind::Docids))
    }

    /// The documents that have one of some codes, found by looking at all codes.
    fn scan(&self, codes: &Range<u64>) -> Result<DocSet> {
        let (column, _) = self.codes()?;
        let bits = column.scan(column_range(codes));
        let bits = bits.map_err(self.damaged(SectionKind::Codes))?;
        Ok(DocSet::from_bits(&bits))
    }

    fn set_of(&self, codes: &Codes) -> Result<DocSet> {
        if codes.is_empty() {
            return Ok(DocSet::empty());
        }
        if let Some(code) = codes.single() {
            return Ok(match self.of_value(code)? {
                OfValue::Set(set) => set.to_doc_set(),
                OfValue::List(docs) => docs,
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

    /// What putting the documents of some codes together costs, in nanoseconds, about.
    fn cost_of(&self, codes: &Codes) -> Result<u64> {
        let postings = self.postings()?;
        let damaged = self.damaged(SectionKind::Docids);
        let mut costs = codes.ranges().map(|range| postings.cost(range));
        let all = costs.try_fold(0u64, |all, cost| Ok(all.saturating_add(cost?)));
        all.map_err(damaged)
    }

    /// Whether looking at the values of so many documents is quicker than having the documents of
    /// some codes.
    fn is_quicker_by_column(&self, codes: &Codes, docs: u64) -> Result<bool> {
        Ok(!self.has_postings()
            || self.has_codes() && docs * (GATHER_COST - SCAN_COST) < self.cost_of(codes)?)
    }

    /// Keeps the documents that have a value of some codes, by looking at each.
    fn retain_by_column(&self, codes: &Codes, docs: &mut DocSet) -> Result<()> {
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
fn column_range(codes: &Range<u64>) -> RangeInclusive<u64> {
    codes.start + 1..=codes.end
}

fn after((code, found): (u64, bool)) -> u64 {
    code + u64::from(found)
}

impl FrozenFile {
    /// The field of a leaf that can be answered.
    pub(crate) fn filterable(&self, path: &Path) -> Result<Option<FrozenField<'_>>> {
        match self.field_at(path)? {
            Some(field) if !field.entry.filterable => Err(Error::NotFilterable {
                path: path.to_string(),
            }),
            found => Ok(found),
        }
    }

    fn estimate_leaf(&self, leaf: &Leaf) -> Result<Estimate> {
        let Some(field) = self.filterable(&leaf.path)? else {
            return Ok(Estimate::exactly(0, Cost::Stored));
        };
        if leaf.test == Test::Exists {
            return Ok(Estimate::exactly(field.entry.present.into(), Cost::Stored));
        }
        let codes = field.codes_of(&leaf.test)?;
        let cost = match codes.is_empty() || codes.single().is_some() {
            true => Cost::Stored,
            false => Cost::Built,
        };
        let (at_least, at_most) = match field.count_of(&codes)? {
            Some(docs) => (docs, docs),
            None => (1, field.pairs(&codes)?.min(field.entry.docs.into())),
        };
        Ok(Estimate {
            at_least,
            at_most,
            cost,
            found: codes.found(),
        })
    }

    fn count_leaf(&self, leaf: &Leaf) -> Result<Option<u64>> {
        let Some(field) = self.filterable(&leaf.path)? else {
            return Ok(Some(0));
        };
        match &leaf.test {
            Test::Exists => Ok(Some(field.entry.present.into())),
            Test::Eq(value) => field.count_of_term(value.term()).map(Some),
            _ => field.count_of(&field.codes_of(&leaf.test)?),
        }
    }

    fn set_of_leaf(&self, leaf: &Leaf, found: Found) -> Result<DocSet> {
        let Some(field) = self.filterable(&leaf.path)? else {
            return Ok(DocSet::empty());
        };
        match leaf.test {
            Test::Exists => field.present(),
            _ => field.set_of(&field.codes_found(&leaf.test, found)?),
        }
    }

    fn retain_leaf(&self, leaf: &Leaf, found: Found, docs: &mut DocSet) -> Result<()> {
        let Some(field) = self.filterable(&leaf.path)? else {
            *docs = DocSet::empty();
            return Ok(());
        };
        if leaf.test == Test::Exists {
            if field.entry.present < self.documents() {
                *docs &= &field.present()?;
            }
            return Ok(());
        }
        let codes = field.codes_found(&leaf.test, found)?;
        if codes.is_empty() {
            *docs = DocSet::empty();
        } else if field.is_quicker_by_column(&codes, docs.len())? {
            field.retain_by_column(&codes, docs)?;
        } else if let Some(code) = codes.single() {
            match field.of_value(code)? {
                OfValue::Set(set) => docs.and_view(set),
                OfValue::List(list) => *docs &= &list,
            }
        } else {
            *docs &= &field.set_of(&codes)?;
        }
        Ok(())
    }
}

/// How many documents fulfil several leaves, each of a single value; `None` for others. `find`
/// gives the field of a leaf.
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
    let mut all: Option<OfValue<'_>> = None;
    for (_, code, field) in others {
        let one = field.of_value(*code)?;
        all = Some(match all {
            None => one,
            Some(all) => OfValue::List(all.and(one)),
        });
    }
    let (docs, code, field) = last;
    match all {
        Some(all) => Ok(Some(all.count_with(&field.of_value(*code)?))),
        None => Ok(Some(*docs)),
    }
}

impl OfValue<'_> {
    fn and(self, other: OfValue<'_>) -> DocSet {
        match (self, other) {
            (OfValue::Set(a), OfValue::Set(b)) => a.and(b),
            (OfValue::List(mut list), OfValue::Set(set))
            | (OfValue::Set(set), OfValue::List(mut list)) => {
                list.and_view(set);
                list
            }
            (OfValue::List(mut a), OfValue::List(b)) => {
                a &= &b;
                a
            }
        }
    }

    /// How many documents both have.
    fn count_with(&self, other: &OfValue<'_>) -> u64 {
        match (self, other) {
            (OfValue::Set(a), OfValue::Set(b)) => a.intersection_len(*b),
            (OfValue::List(list), OfValue::Set(set)) | (OfValue::Set(set), OfValue::List(list)) => {
                list.intersection_len_view(*set)
            }
            (OfValue::List(a), OfValue::List(b)) => a.intersection_len(b),
        }
    }
}

impl Shard for FrozenFile {
    fn doc_end(&self) -> u32 {
        self.documents()
    }

    fn field(&self, path: &Path) -> quire_query::Result<Option<FieldInfo<'_>>> {
        let field = self.field_at(path)?;
        Ok(field.map(|FrozenField { entry, .. }| FieldInfo {
            filterable: entry.filterable,
            sortable: entry.sortable,
            many: entry.many,
            docs: entry.docs.into(),
            range: Some((
                Cow::Borrowed(&*entry.least),
                Cow::Borrowed(&*entry.greatest),
            )),
            distinct: Some(entry.distinct),
        }))
    }

    fn estimate(&self, leaf: &Leaf) -> quire_query::Result<Estimate> {
        Ok(self.estimate_leaf(leaf)?)
    }

    fn count(&self, leaves: &[&Leaf]) -> quire_query::Result<Option<u64>> {
        Ok(match leaves {
            [leaf] => self.count_leaf(leaf)?,
            leaves => count_all(leaves, |path| self.filterable(path))?,
        })
    }

    fn matches(&self, leaf: &Leaf, found: Found) -> quire_query::Result<DocSet> {
        Ok(self.set_of_leaf(leaf, found)?)
    }

    fn retain(&self, leaf: &Leaf, found: Found, docs: &mut DocSet) -> quire_query::Result<()> {
        Ok(self.retain_leaf(leaf, found, docs)?)
    }

    fn first(&self, order: &Order, docs: u64) -> quire_query::Result<Option<DocSet>> {
        match self.field_at(&order.path)? {
            Some(field) if field.has_postings() => {
                let codes = field.first_codes(order.direction, docs)?;
                Ok(Some(field.set_of(&codes)?))
            }
            _ => Ok(None),
        }
    }

    fn column(&self, path: &Path) -> quire_query::Result<Option<Box<dyn Column + '_>>> {
        match self.field_at(path)? {
            Some(field) if field.entry.sortable => Ok(Some(Box::new(FrozenColumn::new(&field)?))),
            Some(_) => Err(quire_query::Error::NotSortable {
                path: path.to_string(),
            }),
            None => Ok(None),
        }
    }

    fn document(&self, doc: u32) -> quire_query::Result<Option<Document>> {
        Ok(self.read_document(doc)?)
    }

    fn payload(&self, doc: u32, read: &mut dyn FnMut(&[u8])) -> quire_query::Result<bool> {
        Ok(self.read_row(SectionKind::Payloads, &self.payload_rows, doc, read)?)
    }
}
