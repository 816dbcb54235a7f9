//! The documents of a conjunction that come first by a field, where its rarest predicate matches
//! few: found by the codes of these few, without a set and without a plan.
//!
//! Most of what a query of a few microseconds takes is not work on documents: it goes into plans,
//! sets and columns that are made for a handful of them. So a range is not even looked up if
//! values leave a few documents, whose own values are compared with its bounds.

use crate::codes::Codes;
use crate::file::FrozenField;
use crate::postings::push_docids;
use crate::select::column_range;
use crate::table::SectionKind;
use crate::{Error, Result};
use quire_index::{Column, DocSet, Frame};
use quire_model::ordered::Direction;
use quire_query::{Leaf, NO_ORDINAL, Order, Path, Test};
use smallvec::SmallVec;

/// Documents that the rarest predicate may match.
const FEW: u64 = 4096;

/// If a value is in at most this number of documents, they are tested before ranges are looked up.
const FEWEST: u64 = 128;

/// As many of the documents that come first are tested instead, if that is less than one in this
/// number of those that the rarest predicate matches: see `first.rs` of the query.
const PART: f64 = 6.0;

/// A predicate whose values are known by their codes.
struct Predicate<'a> {
    field: FrozenField<'a>,
    codes: Codes,
    /// How many documents fulfil it.
    docs: u64,
}

impl<'a> Predicate<'a> {
    #[inline]
    fn new(field: FrozenField<'a>, test: &Test) -> Result<Predicate<'a>> {
        let codes = field.codes_of(test)?;
        let docs = field.pairs(&codes)?;
        Ok(Predicate { field, codes, docs })
    }

    /// Keeps of `docs`, which ascend, those that fulfil it.
    fn keep(&self, docs: &mut Vec<u32>) -> Result<()> {
        if docs.is_empty() || self.docs == self.field.file.documents().into() {
            return Ok(());
        }
        if self.field.has_codes() {
            return self.field.keep_by_codes(&self.codes, docs);
        }
        let mut set: DocSet = docs.iter().copied().collect();
        self.field.retain(&self.codes, &mut set)?;
        docs.clear();
        docs.extend(set.iter());
        Ok(())
    }

    /// Its codes by document as one array, if they are, and its own codes are one range.
    fn array(&self) -> Result<Option<(Column<'a>, Frame)>> {
        if !self.field.has_codes() || !self.codes.more.is_empty() {
            return Ok(None);
        }
        let (column, _) = self.field.codes()?;
        Ok(self.field.frame(&column)?.map(|frame| (column, frame)))
    }
}

/// The first `hits_max` documents by `order` that fulfil all leaves, in that order; equal ones by
/// docid. `None` if they are not few, or not to be had by codes alone. `find` returns the field of
/// a path: that of a leaf by its place, or that of the order, which is behind them.
pub(crate) fn top<'a>(
    leaves: &[&Leaf],
    order: &Order,
    hits_max: u64,
    documents: u32,
    find: impl Fn(usize, &Path) -> Result<Option<FrozenField<'a>>>,
) -> Result<Option<Vec<u32>>> {
    let mut predicates = SmallVec::<[Predicate<'a>; 4]>::new();
    let mut ranges = SmallVec::<[(FrozenField<'a>, &Test); 4]>::new();
    for (at, leaf) in leaves.iter().enumerate() {
        let Some(field) = find(at, &leaf.path)? else {
            return Ok(Some(Vec::new()));
        };
        if !field.open().filterable {
            let path = leaf.path.to_string();
            return Err(Error::NotFilterable { path });
        }
        if field.open().many || leaf.test == Test::Exists {
            return Ok(None);
        }
        if matches!(leaf.test, Test::Range(_)) && field.has_codes() {
            ranges.push((field, &leaf.test));
            continue;
        }
        let predicate = Predicate::new(field, &leaf.test)?;
        if predicate.docs == 0 {
            return Ok(Some(Vec::new()));
        }
        predicates.push(predicate);
    }
    let few = match rarest(&mut predicates) {
        Some(docs) if docs <= FEWEST => among_few(&predicates, &ranges)?,
        _ => {
            for (field, test) in ranges {
                let predicate = Predicate::new(field, test)?;
                if predicate.docs == 0 {
                    return Ok(Some(Vec::new()));
                }
                predicates.push(predicate);
            }
            rarest(&mut predicates);
            match among_some(&predicates, hits_max, documents)? {
                Some(docs) => docs,
                None => return Ok(None),
            }
        }
    };
    first_of(few, order, hits_max, || find(leaves.len(), &order.path))
}

/// Puts the rarest predicate first, and returns how many documents fulfil it.
fn rarest(predicates: &mut [Predicate<'_>]) -> Option<u64> {
    predicates.sort_unstable_by_key(|one| one.docs);
    predicates.first().map(|one| one.docs)
}

/// The documents that fulfil all predicates, of which the first is fulfilled by very few, and lie
/// in all ranges.
fn among_few(
    predicates: &[Predicate<'_>],
    ranges: &[(FrozenField<'_>, &Test)],
) -> Result<Vec<u32>> {
    let Some((rarest, others)) = predicates.split_first() else {
        return Ok(Vec::new());
    };
    let mut docs = rarest.field.docs_of(&rarest.codes)?;
    for one in others {
        one.keep(&mut docs)?;
    }
    for (field, test) in ranges {
        if docs.is_empty() {
            break;
        }
        field.keep_in_range(test, &mut docs)?;
    }
    Ok(docs)
}

/// The documents that fulfil all predicates, of which the first is the rarest. `None` if it is not
/// fulfilled by few, or testing the documents that come first would be less work.
fn among_some(
    predicates: &[Predicate<'_>],
    hits_max: u64,
    documents: u32,
) -> Result<Option<Vec<u32>>> {
    let share = |one: &Predicate<'_>| one.docs as f64 / f64::from(documents);
    let expected = predicates.iter().map(share).product::<f64>() * f64::from(documents);
    let Some((rarest, others)) = predicates.split_first() else {
        return Ok(None);
    };
    let by_order = f64::from(documents) * hits_max as f64 / expected;
    let is_all = rarest.docs == documents.into();
    if is_all || rarest.docs > FEW || by_order * PART < rarest.docs as f64 {
        return Ok(None);
    }
    if let Some(docs) = by_words(rarest, others)? {
        return Ok(Some(docs));
    }
    let mut docs = rarest.field.docs_of(&rarest.codes)?;
    // Those that are tested by codes come before those that need a set.
    let by_codes = others.iter().filter(|one| one.field.has_codes());
    let by_sets = others.iter().filter(|one| !one.field.has_codes());
    by_codes
        .chain(by_sets)
        .try_for_each(|one| one.keep(&mut docs))?;
    Ok(Some(docs))
}

/// The same where the rarest predicate is a stored set, and all others have codes in one array: by
/// 64 neighbours at a time.
fn by_words(rarest: &Predicate<'_>, others: &[Predicate<'_>]) -> Result<Option<Vec<u32>>> {
    let (Some(code), true) = (rarest.codes.single(), rarest.field.has_postings()) else {
        return Ok(None);
    };
    let set = rarest.field.postings()?.set_of_value(code);
    let Some(set) = set.map_err(rarest.field.damaged(SectionKind::Sets))? else {
        return Ok(None);
    };
    let mut arrays = SmallVec::<[(Column<'_>, Frame, &Predicate<'_>); 4]>::new();
    for one in others {
        match one.array()? {
            Some((column, frame)) => arrays.push((column, frame, one)),
            None => return Ok(None),
        }
    }
    let mut words = Vec::with_capacity(rarest.docs as usize / 16);
    set.each_word(|first, bits| words.push((first, bits)));
    for (column, frame, one) in arrays {
        let kept = column.keep_words(&column_range(&one.codes.first), frame, &mut words);
        kept.map_err(one.field.damaged(SectionKind::Codes))?;
    }
    let mut docs = Vec::new();
    for (first, bits) in words {
        push_docids(first, bits, &mut docs);
    }
    Ok(Some(docs))
}

/// The first of `docs`, which ascend, by `order`; `find` returns its field.
fn first_of<'a>(
    mut docs: Vec<u32>,
    order: &Order,
    hits_max: u64,
    find: impl Fn() -> Result<Option<FrozenField<'a>>>,
) -> Result<Option<Vec<u32>>> {
    if docs.is_empty() || hits_max == 0 {
        return Ok(Some(Vec::new()));
    }
    let hits_max = usize::try_from(hits_max).unwrap_or(usize::MAX);
    let Some(field) = find()? else {
        docs.truncate(hits_max);
        return Ok(Some(docs));
    };
    if field.open().many || !field.entry.sortable {
        return Ok(None);
    }
    let (column, _) = field.codes()?;
    let mut keyed = SmallVec::<[(u64, u32); 32]>::with_capacity(docs.len());
    for doc in &docs {
        let code = column.get((*doc).into());
        let code = code.map_err(field.damaged(SectionKind::Codes))?;
        keyed.push((key(code, order.direction), *doc));
    }
    keyed.sort_unstable();
    docs.clear();
    docs.extend(keyed.iter().take(hits_max).map(|(_, doc)| *doc));
    Ok(Some(docs))
}

/// A number that orders a document by its code, which is one more than the ordinal; without a value
/// it is 0, and the document comes last.
fn key(code: u64, direction: Direction) -> u64 {
    match (code.checked_sub(1), direction) {
        (None, _) => NO_ORDINAL,
        (Some(ordinal), Direction::Ascending) => ordinal,
        (Some(ordinal), Direction::Descending) => (NO_ORDINAL - 1).saturating_sub(ordinal),
    }
}
