//! The documents of a conjunction that come first by a field, where its rarest predicate matches
//! few: found by the codes of these few, without a set and without a plan.
//!
//! Most of what a query of a few microseconds takes is not work on documents: it goes into plans,
//! sets and columns that are made for a handful of them.

use crate::codes::Codes;
use crate::file::FrozenField;
use crate::table::SectionKind;
use crate::{Error, Result};
use quire_index::DocSet;
use quire_model::ordered::Direction;
use quire_query::{Leaf, NO_ORDINAL, Order, Path, Test};
use smallvec::SmallVec;

/// Documents that the rarest predicate may match.
const FEW: u64 = 4096;

/// As many of the documents that come first are tested instead, if that is less than one in this
/// number of those that the rarest predicate matches: see `first.rs` of the query.
const PART: f64 = 6.0;

/// A predicate that not all documents fulfil.
struct Predicate<'a> {
    field: FrozenField<'a>,
    codes: Codes,
    /// How many documents fulfil it.
    docs: u64,
}

/// The first `hits_max` documents by `order` that fulfil all leaves, in that order; equal ones by
/// docid. `None` if they are not few, or not to be had by codes alone. `find` returns the field of
/// a path.
pub(crate) fn top<'a>(
    leaves: &[&Leaf],
    order: &Order,
    hits_max: u64,
    documents: u32,
    find: impl Fn(&Path) -> Result<Option<FrozenField<'a>>>,
) -> Result<Option<Vec<u32>>> {
    let mut predicates = SmallVec::<[Predicate<'a>; 4]>::new();
    let mut expected = f64::from(documents);
    for leaf in leaves {
        let Some(field) = find(&leaf.path)? else {
            return Ok(Some(Vec::new()));
        };
        if !field.entry.filterable {
            let path = leaf.path.to_string();
            return Err(Error::NotFilterable { path });
        }
        if field.entry.many || leaf.test == Test::Exists {
            return Ok(None);
        }
        let codes = field.codes_of(&leaf.test)?;
        let docs = field.pairs(&codes)?;
        if docs == 0 {
            return Ok(Some(Vec::new()));
        }
        if docs < documents.into() {
            expected *= docs as f64 / f64::from(documents);
            predicates.push(Predicate { field, codes, docs });
        }
    }
    // Those that are tested by codes come before those that need a set, of each the rarest first.
    predicates.sort_unstable_by_key(|one| one.docs);
    let Some((rarest, others)) = predicates.split_first() else {
        return Ok(None);
    };
    let by_order = f64::from(documents) * hits_max as f64 / expected;
    if rarest.docs > FEW || by_order * PART < rarest.docs as f64 {
        return Ok(None);
    }
    let mut docs = rarest.field.docs_of(&rarest.codes)?;
    let by_codes = others.iter().filter(|one| one.field.has_codes());
    let by_sets = others.iter().filter(|one| !one.field.has_codes());
    for one in by_codes {
        one.field.keep_by_codes(&one.codes, &mut docs)?;
    }
    for one in by_sets {
        if docs.is_empty() {
            break;
        }
        let mut set: DocSet = docs.iter().copied().collect();
        one.field.retain(&one.codes, &mut set)?;
        docs.clear();
        docs.extend(set.iter());
    }
    if docs.is_empty() || hits_max == 0 {
        return Ok(Some(Vec::new()));
    }
    let hits_max = usize::try_from(hits_max).unwrap_or(usize::MAX);
    let Some(field) = find(&order.path)? else {
        docs.truncate(hits_max);
        return Ok(Some(docs));
    };
    if field.entry.many || !field.entry.sortable {
        return Ok(None);
    }
    let (column, _) = field.codes()?;
    let mut keyed = SmallVec::<[(u64, u32); 32]>::with_capacity(docs.len());
    for doc in docs {
        let code = column.get(doc.into());
        let code = code.map_err(field.damaged(SectionKind::Codes))?;
        keyed.push((key(code, order.direction), doc));
    }
    keyed.sort_unstable();
    let first = keyed.iter().take(hits_max);
    Ok(Some(first.map(|(_, doc)| *doc).collect()))
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
