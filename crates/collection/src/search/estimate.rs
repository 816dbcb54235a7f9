//! How many documents of a live partition fulfil a predicate, and what it costs to find them.
//!
//! A few postings are looked at. Where a range has more, the number that is expected follows from
//! the least and the greatest value of the field, and from how dense the range begins.

use super::COLUMN_BLOCK_BITS;
use super::key;
use super::postings::FoundPosting;
use super::shard::{BROAD, FEW_PART, LiveShard, NARROW, takes_strings, term_keys};
use crate::Result;
use quire_index::{DocSet, term};
use quire_model::ordered::OrderedValue;
use quire_query::{Access, AccessCost, AccessCosts, Cost, Estimate, Leaf, Test};
use std::ops::{Bound, ControlFlow};

/// Postings that an estimate looks at: of one value, which it then knows exactly, and of a range.
const POSTINGS_MAX: u64 = 256;
const RANGE_POSTINGS_MAX: u64 = 32;

/// Documents of one value that are kept for its execution.
const KEPT_DOCS_MAX: u64 = 1 << 16;

/// Values of a list that are looked up.
const VALUES_MAX: usize = 8;

// Nanoseconds, as `quire-bench converged --parts choice` measured them: see docs/lab/planner.md.

/// To find where postings begin, to visit one, to fold one with its changes, and to add a document
/// of one.
const SEEK_NANOS: u64 = 2_000;
const POSTING_NANOS: u64 = 100;
const FOLD_NANOS: u64 = 250;
const DOC_NANOS: u64 = 1;
/// To add a posting of many documents, which is bits.
const BITS_NANOS: u64 = 3_000;
/// To read a document among others, and one alone.
const READ_NANOS: u64 = 800;
const READ_ALONE_NANOS: u64 = 6_000;
/// To come to a block of a column, and to test a document of it, among all or alone.
const BLOCK_NANOS: u64 = 8_000;
const COLUMN_NANOS: u64 = 1;
const TESTED_NANOS: u64 = 20;
const BLOCK_DOCS: u64 = 1 << COLUMN_BLOCK_BITS;

/// Documents are read among others if there are more than one in this number.
const DENSE: u64 = 16;

/// What was seen of postings.
#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    postings: u64,
    docs: u64,
    /// Of the postings, those that have changes to fold.
    folded: u64,
    /// There are more that were not looked at.
    has_more: bool,
}

impl Seen {
    /// What adding the documents to a set costs, without the seek. A posting of many is bits, which
    /// cost the same however many they are.
    fn nanos(&self) -> u64 {
        let by_documents = self.docs.saturating_mul(DOC_NANOS);
        let by_documents = by_documents.min(self.postings.saturating_mul(BITS_NANOS));
        let folding = self.folded.saturating_mul(FOLD_NANOS);
        let visiting = self.postings.saturating_mul(POSTING_NANOS);
        by_documents
            .saturating_add(folding)
            .saturating_add(visiting)
    }

    /// As many postings more as documents are.
    fn scale_to(&mut self, docs: u64) {
        self.postings = scaled(self.postings, docs, self.docs);
        self.folded = scaled(self.folded, docs, self.docs);
        self.docs = docs;
    }
}

impl LiveShard<'_> {
    pub(super) fn estimated(&self, leaf: &Leaf) -> Result<Estimate> {
        let field = key::field(leaf.path.as_str());
        let (all, changed) = (self.all_count()?, self.all_changed().len() as u64);
        let long = self.seen_long(&field, &leaf.test)?;
        let (has_more_long, long) = (long.has_more, long.docs);
        let (seen, values, is_exact) = match &leaf.test {
            Test::Exists => {
                let prefix = [field.as_slice(), &[key::PRESENT]].concat();
                (self.seen_entry(&prefix)?, 1, true)
            }
            Test::Eq(value) => {
                let prefix = [field.as_slice(), &*key::of_term(value.term())].concat();
                (self.seen_entry(&prefix)?, 1, true)
            }
            Test::In(values) => {
                let step = values.len().div_ceil(VALUES_MAX).max(1);
                let (mut sum, mut looked_up) = (Seen::default(), 0);
                for value in values.iter().step_by(step) {
                    let prefix = [field.as_slice(), &*key::of_term(value.term())].concat();
                    let seen = self.seen_entry(&prefix)?;
                    sum.postings += seen.postings;
                    sum.docs += seen.docs;
                    sum.folded += seen.folded;
                    sum.has_more |= seen.has_more;
                    looked_up += 1;
                }
                let all = |seen: u64| seen * values.len() as u64 / looked_up.max(1);
                (sum.postings, sum.folded) = (all(sum.postings), all(sum.folded));
                sum.docs = all(sum.docs);
                sum.has_more |= step > 1;
                (sum, values.len() as u64, false)
            }
            test @ Test::Range(_) => {
                let (from, to) = term_keys(&field, test);
                let mut last = Vec::new();
                let mut seen = self.seen_up_to(&from, &to, RANGE_POSTINGS_MAX, &mut last)?;
                if seen.has_more {
                    let last = last.get(field.len()..).unwrap_or_default();
                    let docs = self.in_range_expected(&field, test, seen.docs, last)?;
                    seen.scale_to(docs);
                }
                (seen, 1, false)
            }
        };
        let is_exact = is_exact && long == 0 && !seen.has_more;
        let at_most = match seen.has_more || has_more_long {
            true => all,
            false => seen.docs.saturating_add(long + changed).min(all),
        };
        let at_least = match is_exact {
            true => seen.docs.saturating_sub(changed),
            false => 0,
        };
        let expected = seen.docs.saturating_add(long / 2);
        let reads = match long.saturating_mul(DENSE) > all {
            true => READ_NANOS,
            false => READ_ALONE_NANOS,
        };
        let nanos = [
            values.saturating_mul(SEEK_NANOS),
            seen.nanos(),
            long.saturating_mul(reads),
        ];
        let mut estimate = Estimate {
            at_least,
            at_most,
            expected: expected.clamp(at_least.min(at_most), at_most),
            nanos: nanos.into_iter().fold(0, u64::saturating_add),
            cost: match long {
                0 => Cost::Built,
                _ => Cost::Scanned,
            },
            found: NARROW,
        };
        let cheapest = self.access_paths(leaf, &estimate, None);
        let cheapest = cheapest.iter().min_by_key(|path| path.nanos);
        if cheapest.is_some_and(|path| path.access == Access::Column) {
            estimate.found = BROAD;
        }
        Ok(estimate)
    }

    /// The ways to execute a leaf.
    pub(super) fn access_paths(
        &self,
        leaf: &Leaf,
        estimate: &Estimate,
        docs: Option<u64>,
    ) -> AccessCosts {
        // A cost that is not known for sure is no error.
        let all = self
            .all_count()
            .unwrap_or(quire_query::Shard::doc_end(self).into());
        let read = docs.unwrap_or(all);
        let nanos = match read.saturating_mul(DENSE) > all {
            true => READ_NANOS,
            false => READ_ALONE_NANOS,
        };
        let by_postings = (Access::Postings, estimate.nanos);
        let by_documents = (Access::Documents, read.saturating_mul(nanos));
        let by_column = matches!(leaf.test, Test::Range(_)).then(|| {
            let of_docs = match docs {
                Some(docs) if docs < all / FEW_PART => docs.saturating_mul(TESTED_NANOS),
                _ => all.saturating_mul(COLUMN_NANOS),
            };
            // Documents with long values are read.
            let long = match estimate.cost {
                Cost::Scanned => by_documents.1,
                Cost::Stored | Cost::Built => 0,
            };
            let blocks = all / BLOCK_DOCS + 1;
            let nanos = of_docs + blocks * BLOCK_NANOS;
            (Access::Column, nanos.saturating_add(long))
        });
        let paths = [Some(by_postings), by_column, Some(by_documents)];
        paths
            .into_iter()
            .flatten()
            .map(|(access, nanos)| AccessCost { access, nanos })
            .collect()
    }

    /// The documents that must be read, as of their values only hashes are there.
    fn seen_long(&self, field: &[u8], test: &Test) -> Result<Seen> {
        match test {
            Test::Range(_) if takes_strings(test) => {
                let (from, to) = key::long_terms(field);
                let mut seen = self.seen_between(&from, &to)?;
                if seen.has_more {
                    let present = [field, &[key::PRESENT]].concat();
                    seen.docs = self.seen_under(&present)?.docs.max(seen.docs);
                }
                Ok(seen)
            }
            Test::Exists | Test::Range(_) => Ok(Seen::default()),
            Test::Eq(_) | Test::In(_) => Ok(Seen {
                docs: self.long_candidates(field, test)?.len(),
                ..Seen::default()
            }),
        }
    }

    /// Looks at the postings of one entry. Their documents are kept for its execution, which comes
    /// next, if they are few: to find the postings takes longer than to read them.
    fn seen_entry(&self, entry: &[u8]) -> Result<Seen> {
        let mut seen = Seen::default();
        let Some(end) = key::after_prefix(entry) else {
            return Ok(seen);
        };
        let mut docs = DocSet::empty();
        self.each_posting(entry, &end, &mut |found, cluster, posting| {
            seen.has_more = seen.postings >= POSTINGS_MAX;
            if seen.has_more {
                return Ok(ControlFlow::Break(()));
            }
            seen.postings += 1;
            seen.folded += u64::from(matches!(posting, FoundPosting::Folded(_)));
            seen.docs += u64::from(posting.len()?);
            if found.len() == entry.len() && seen.docs <= KEPT_DOCS_MAX {
                posting.add_to(&mut docs, cluster)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if !seen.has_more && seen.docs <= KEPT_DOCS_MAX {
            self.keep_postings(entry, docs);
        }
        Ok(seen)
    }

    fn seen_under(&self, prefix: &[u8]) -> Result<Seen> {
        match key::after_prefix(prefix) {
            Some(end) => self.seen_between(prefix, &end),
            None => Ok(Seen::default()),
        }
    }

    fn seen_between(&self, from: &[u8], to: &[u8]) -> Result<Seen> {
        self.seen_up_to(from, to, POSTINGS_MAX, &mut Vec::new())
    }

    /// Looks at the first postings between two keys. If there are more, `last` is made the entry of
    /// the first one that was not looked at.
    fn seen_up_to(&self, from: &[u8], to: &[u8], most: u64, last: &mut Vec<u8>) -> Result<Seen> {
        let mut seen = Seen::default();
        self.each_posting(from, to, &mut |entry, _, posting| {
            seen.has_more = seen.postings >= most;
            if seen.has_more {
                last.extend_from_slice(entry);
                return Ok(ControlFlow::Break(()));
            }
            seen.postings += 1;
            seen.folded += u64::from(matches!(posting, FoundPosting::Folded(_)));
            seen.docs += u64::from(posting.len()?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(seen)
    }

    /// How many documents a range has of whose first terms, up to `last`, `seen` were counted.
    ///
    /// Two guesses: the values are spread evenly over the field, or over the range as where it
    /// begins. The truth is in between where few values are frequent, so their geometric mean is
    /// taken.
    fn in_range_expected(&self, field: &[u8], test: &Test, seen: u64, last: &[u8]) -> Result<u64> {
        let (docs, evenly) = self.spread(field, test)?;
        let (Bound::Included(lower) | Bound::Excluded(lower), upper) = test.bounds() else {
            return Ok(evenly.max(seen));
        };
        let (Bound::Included(upper) | Bound::Excluded(upper)) = upper else {
            return Ok(evenly.max(seen));
        };
        let [Some(start), Some(at), Some(end)] = [lower, last, upper].map(number) else {
            return Ok(evenly.max(seen));
        };
        let as_it_begins = seen as f64 * (end - start) / (at - start);
        let as_it_begins = match as_it_begins.is_finite() {
            true => as_it_begins.clamp(seen as f64, docs.max(seen) as f64),
            false => docs as f64,
        };
        let mean = (as_it_begins * evenly.max(seen) as f64).sqrt();
        Ok((mean as u64).max(seen))
    }

    /// How many documents have a value, and how many of them a range has if the values of the field
    /// are spread evenly.
    fn spread(&self, field: &[u8], test: &Test) -> Result<(u64, u64)> {
        let docs = self.seen_under(&[field, &[key::PRESENT]].concat())?.docs;
        let (lower, upper) = test.bounds();
        let bound = match (lower, upper) {
            (Bound::Included(bound) | Bound::Excluded(bound), _)
            | (_, Bound::Included(bound) | Bound::Excluded(bound)) => bound,
            (Bound::Unbounded, Bound::Unbounded) => return Ok((docs, docs)),
        };
        let types = term::type_range(bound);
        let from = [field, &[types.start]].concat();
        let to = [field, &[types.end]].concat();
        let mut ends = [Vec::new(), Vec::new()];
        for (end, is_last) in ends.iter_mut().zip([false, true]) {
            self.end_of_postings(&from, &to, is_last, &mut |entry| {
                *end = entry.get(field.len()..).unwrap_or_default().to_vec();
            })?;
        }
        let [first, last] = ends;
        let part_below = |bound: Bound<&[u8]>, open: f64| match bound {
            Bound::Included(term) | Bound::Excluded(term) => part_below(term, &first, &last),
            Bound::Unbounded => open,
        };
        let share = part_below(upper, 1.0) - part_below(lower, 0.0);
        Ok((docs, (docs as f64 * share.clamp(0.0, 1.0)).round() as u64))
    }
}

fn scaled(count: u64, part: u64, whole: u64) -> u64 {
    (u128::from(count) * u128::from(part) / u128::from(whole.max(1))) as u64
}

/// The part of the values between two terms that lies below a third, if they are spread evenly.
fn part_below(term: &[u8], first: &[u8], last: &[u8]) -> f64 {
    if term <= first {
        return 0.0;
    } else if term >= last {
        return 1.0;
    }
    let same = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    // What lies in between begins with the same bytes.
    // Digits and letters are spread over themselves, not over all bytes.
    let at = |term: &[u8], place: usize| term.get(place).copied().unwrap_or_default();
    let all = |place: usize, of: std::ops::RangeInclusive<u8>| {
        [term, first, last]
            .iter()
            .all(|term| of.contains(&at(term, place)))
    };
    let by_bytes = |term: &[u8]| {
        (same..same + 8).rev().fold(0.0, |below, place| {
            let (start, count) = match () {
                () if all(place, b'0'..=b'9') => (b'0', 10.0),
                () if all(place, b'a'..=b'z') => (b'a', 26.0),
                () => (0, 256.0),
            };
            (below + f64::from(at(term, place).saturating_sub(start))) / count
        })
    };
    let [at, start, end] = match [term, first, last].map(number) {
        [Some(at), Some(start), Some(end)] => [at, start, end],
        _ => [term, first, last].map(by_bytes),
    };
    match (at - start) / (end - start) {
        part if part.is_finite() => part.clamp(0.0, 1.0),
        _ => 0.5,
    }
}

fn number(term: &[u8]) -> Option<f64> {
    match term::decode(term)? {
        OrderedValue::Int(value) => Some(value as f64),
        OrderedValue::UInt(value) => Some(value as f64),
        OrderedValue::Float(value) => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quire_model::ValueRef;

    fn term(value: ValueRef<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(term::encode(value, &mut out));
        out
    }

    #[test]
    fn a_part_of_values_that_are_spread_evenly_is_guessed() {
        let numbers = |value| {
            part_below(
                &term(ValueRef::Int(value)),
                &term(ValueRef::Int(-100)),
                &term(ValueRef::Int(900)),
            )
        };
        assert_eq!(
            [-200, -100, 150, 900, 1000].map(numbers),
            [0.0, 0.0, 0.25, 1.0, 1.0]
        );
        let days = |day| {
            let [first, last] =
                ["2026-11-01T", "2026-11-30T"].map(|day| term(ValueRef::String(day)));
            part_below(&term(ValueRef::String(day)), &first, &last)
        };
        assert!((0.4..0.6).contains(&days("2026-11-15")));
        assert!(days("2026-11-03") < 0.2 && days("2026-11-28") > 0.8);
        assert_eq!([days("2025"), days("2027")], [0.0, 1.0]);
    }
}
