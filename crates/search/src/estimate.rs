//! How many documents of a live partition fulfil a predicate, and what it costs to find them.
//!
//! A few postings are looked at. Where a range has more, the number that is expected follows from
//! the least and the greatest value of the field, and from how dense the range begins.

use super::column_blocks::COLUMN_BLOCK_BITS;
use super::column_blocks::damaged;
use super::key;
use super::looked::{Looked, Seen, scaled};
use super::number_column::NumberColumn;
use super::postings::FoundPosting;
use super::sample::{Sample, Sampled};
use super::shard::{BROAD, FEW_PART, LiveShard, NARROW, takes_strings, term_keys};
use super::shared_reads::Ends;
use crate::Result;
use quire_index::{DocSet, term};
use quire_model::ordered::OrderedValue;
use quire_query::{
    Access, AccessCost, AccessCosts, Cost, Estimate, Leaf, Path, Prepared, TermRange, Test,
};
use std::ops::{Bound, ControlFlow, Range};
use std::sync::Arc;

/// Postings that an estimate looks at: of one value, which it then knows exactly, and of a range.
const POSTINGS_MAX: u64 = 256;
const RANGE_POSTINGS_MAX: u64 = 32;

/// Documents of one value that are kept for its execution.
const KEPT_DOCS_MAX: u64 = 1 << 16;

/// About how many documents a sample has, from at most how many blocks; and of how many on it is
/// believed.
const SAMPLE_DOCS: u32 = 512;
const SAMPLE_BLOCKS: u32 = 8;
const SAMPLED_MIN: u64 = 16;

/// Values of a list that are looked up.
const VALUES_MAX: usize = 8;

// Nanoseconds, as `quire-bench converged --parts choice` measured them: see docs/lab/planner.md.

/// To find where postings begin.
const SEEK_NANOS: u64 = 2_000;
/// To visit a posting of a document.
const POSTING_NANOS: u64 = 100;
/// To read a document among others, and one alone.
const READ_NANOS: u64 = 800;
const READ_ALONE_NANOS: u64 = 6_000;
/// To come to a block of a column, or to one that another query has read, and to test a document
/// of it, among all or alone.
const BLOCK_NANOS: u64 = 8_000;
const SHARED_BLOCK_NANOS: u64 = 2_000;
const COLUMN_NANOS: u64 = 1;
const TESTED_NANOS: u64 = 20;
/// To test a document by its number, which is in memory.
const NUMBER_NANOS: u64 = 3;
const BLOCK_DOCS: u64 = 1 << COLUMN_BLOCK_BITS;
const CLUSTER_DOCS: u64 = 1 << 16;

/// To take documents that another query found, which are bits.
const KEPT_NANOS: u64 = 1_000;
const KEPT_DOCS_A_NANO: u64 = 512;

/// Documents are read among others if there are more than one in this number.
const DENSE: u64 = 16;

impl LiveShard<'_> {
    /// How many values are looked up to plan a query, about. Predicates of an earlier query at this
    /// position are not counted: what was looked up for them is shared, or worth sharing.
    pub fn lookups(&self, query: &Prepared) -> u64 {
        let followed = self.followed.as_ref();
        query.lookups(|leaf| followed.is_some_and(|(followed, _)| followed.note(leaf)))
    }

    /// Looks at a few postings for a leaf, unless another query did at this position.
    fn looked(&self, leaf: &Leaf) -> Result<Looked> {
        let shared = self.columns.shared.as_deref();
        if let Some(known) = shared.and_then(|shared| shared.looked(leaf)) {
            return Ok(known);
        }
        let looked = self.look(leaf)?;
        if let Some(shared) = shared {
            shared.keep_looked(leaf, looked);
        }
        Ok(looked)
    }

    fn look(&self, leaf: &Leaf) -> Result<Looked> {
        let field = key::field(leaf.path.as_str());
        let long = self.seen_long(&field, &leaf.test)?;
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
                let (mut sum, mut looked_up, mut most) = (Seen::default(), 0, 0);
                for value in values.iter().step_by(step) {
                    let prefix = [field.as_slice(), &*key::of_term(value.term())].concat();
                    let seen = self.seen_entry(&prefix)?;
                    sum.postings += seen.postings;
                    sum.docs += seen.docs;
                    sum.folded += seen.folded;
                    sum.has_more |= seen.has_more;
                    most = most.max(seen.docs);
                    looked_up += 1;
                }
                if step > 1 {
                    // The others are like these but for the most frequent: of skewed values it has
                    // many times the documents of any other.
                    let others = values.len() as u64 - looked_up;
                    let rest = scaled(sum.docs - most, others, looked_up - 1);
                    sum.scale_to(sum.docs + rest);
                    sum.has_more = true;
                }
                (sum, values.len() as u64, false)
            }
            Test::Range(range) if let Some(seen) = self.seen_in_sample(leaf, range)? => {
                (seen, 1, false)
            }
            test @ Test::Range(_) => {
                let (from, to) = term_keys(&field, test);
                let mut last = Vec::new();
                let mut seen = self.seen_up_to(&from, &to, RANGE_POSTINGS_MAX, &mut last)?;
                if seen.has_more {
                    let last = last.get(field.len()..).unwrap_or_default();
                    let docs = self.in_range_expected(leaf, &field, seen.docs, last)?;
                    seen.scale_to(docs);
                }
                (seen, 1, false)
            }
        };
        Ok(Looked {
            seen,
            long,
            values,
            is_exact,
        })
    }

    pub(super) fn estimated(&self, leaf: &Leaf) -> Result<Estimate> {
        let numbers = match &leaf.test {
            Test::Range(range) => self.kept_numbers(&leaf.path).zip(Some(range)),
            _ => None,
        };
        if let Some((numbers, range)) = &numbers
            && let Some(docs) = numbers.count_in(range)
        {
            return Ok(Estimate {
                nanos: self.kept_nanos(),
                found: BROAD,
                ..Estimate::exactly(docs, Cost::Built)
            });
        }
        // A range of numbers is tested at once: to bring its documents up takes longer.
        let known = match numbers {
            Some(_) => self.known_docs_here(leaf),
            None => self.known_docs(leaf),
        };
        if let Some(known) = known {
            let docs = known.docs.len();
            let mut estimate = Estimate::exactly(docs, Cost::Built);
            (estimate.nanos, estimate.found) = match known.by_columns {
                // Of how many postings they are is not known: as if each had one.
                true => {
                    let postings = docs.saturating_mul(POSTING_NANOS);
                    (postings.saturating_add(SEEK_NANOS), BROAD)
                }
                false => (self.kept_nanos(), NARROW),
            };
            return Ok(estimate);
        }
        if let Some((_, range)) = numbers
            && let Some(seen) = self.seen_in_numbers(&leaf.path, range)
        {
            // Each value is a number, so no document must be read.
            return self.estimate_of(
                leaf,
                Looked {
                    seen,
                    long: Seen::default(),
                    values: 1,
                    is_exact: false,
                },
            );
        }
        let looked = self.looked(leaf)?;
        self.estimate_of(leaf, looked)
    }

    /// What follows from a look.
    fn estimate_of(&self, leaf: &Leaf, looked: Looked) -> Result<Estimate> {
        let Looked {
            seen,
            long,
            values,
            is_exact,
        } = looked;
        let (all, changed) = (self.all_count()?, self.all_changed().len() as u64);
        let (has_more_long, long) = (long.has_more, long.docs);
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
        // Only of documents that an earlier query found by the columns that is known exactly.
        let is_known = estimate.found == BROAD && estimate.at_least == estimate.at_most;
        let by_documents = (Access::Documents, read.saturating_mul(nanos));
        let by_column = matches!(leaf.test, Test::Range(_)).then(|| {
            // Documents with long values are read.
            let long = match estimate.cost {
                Cost::Scanned => by_documents.1,
                Cost::Stored | Cost::Built => 0,
            };
            let [few, all_docs] = self.column_nanos(docs.unwrap_or(all));
            let numbers = self.kept_numbers(&leaf.path);
            let of_block = match self.is_column_kept(&leaf.path) {
                true => SHARED_BLOCK_NANOS,
                false => BLOCK_NANOS,
            };
            let blocks = (all / BLOCK_DOCS + 1) * of_block;
            let (few, blocks) = match numbers {
                Some(_) => (self.number_nanos(docs.unwrap_or(all))[0], 0),
                None => (few, blocks),
            };
            let nanos = match docs {
                _ if is_known => self.kept_nanos(),
                Some(docs) if docs < all / FEW_PART => few + blocks,
                _ => all_docs + blocks,
            };
            (Access::Column, nanos.saturating_add(long))
        });
        let paths = [Some(by_postings), by_column, Some(by_documents)];
        paths
            .into_iter()
            .flatten()
            .map(|(access, nanos)| AccessCost { access, nanos })
            .collect()
    }

    /// Whether another query read the column of a field at this position: its first block tells.
    fn is_column_kept(&self, path: &Path) -> bool {
        let shared = self.columns.shared.as_deref();
        shared.is_some_and(|shared| shared.block(path, 0).is_some())
    }

    /// What it costs to test `docs` documents by a column that another query has read, and to test
    /// all, without coming to the blocks.
    pub(super) fn column_nanos(&self, docs: u64) -> [u64; 2] {
        let all = u64::from(quire_query::Shard::doc_end(self));
        [
            docs.saturating_mul(TESTED_NANOS),
            all.saturating_mul(COLUMN_NANOS),
        ]
    }

    /// What it costs to test `docs` documents, and to test all, by numbers in memory.
    pub(super) fn number_nanos(&self, docs: u64) -> [u64; 2] {
        let [_, all] = self.column_nanos(docs);
        [docs.saturating_mul(NUMBER_NANOS), all]
    }

    /// What it costs to take documents that an earlier query found.
    fn kept_nanos(&self) -> u64 {
        KEPT_NANOS + u64::from(quire_query::Shard::doc_end(self)) / KEPT_DOCS_A_NANO
    }

    /// The documents that must be read, as the index does not have all of their values.
    fn seen_long(&self, field: &[u8], test: &Test) -> Result<Seen> {
        if !matches!(test, Test::Range(_)) {
            let docs = self.candidates(field, test)?.len();
            return Ok(Seen {
                docs,
                ..Seen::default()
            });
        }
        let mut seen = Seen::default();
        if takes_strings(test) {
            let (from, to) = key::long_terms(field);
            seen = self.seen_between(&from, &to)?;
            if seen.has_more {
                let present = [field, &[key::PRESENT]].concat();
                seen.docs = self.seen_under(&present)?.docs.max(seen.docs);
            }
        }
        seen.docs += self.many_values(field)?.len();
        Ok(seen)
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

    /// What the postings of a range have, by some of the numbers of a field that is followed; none
    /// if these have little of it. An index that moves on does not make that unknown.
    fn seen_in_numbers(&self, path: &Path, range: &TermRange) -> Option<Seen> {
        let kept = self.kept_columns.as_ref()?;
        let changed = (self.all_changed(), kept.at);
        let doc_end = quire_query::Shard::doc_end(self);
        let sampled = |column: &mut NumberColumn| column.sampled(range, doc_end);
        self.seen_of(kept.numbers.with_column(path, changed, sampled)?)
    }

    /// What the postings of a range have by a sample of the field; none if the sample has little of
    /// it. Without queries that share the sample it is not made, nor where numbers are followed,
    /// which have one.
    fn seen_in_sample(&self, leaf: &Leaf, range: &TermRange) -> Result<Option<Seen>> {
        let Some(shared) = self.columns.shared.as_deref() else {
            return Ok(None);
        };
        if self.kept_numbers(&leaf.path).is_some() {
            return Ok(None);
        }
        let sample = match shared.sample(&leaf.path) {
            Some(sample) => sample,
            None => {
                let sample = Arc::new(self.sample(&leaf.path)?);
                shared.keep_sample(&leaf.path, &sample);
                sample
            }
        };
        Ok(self.seen_of(sample.between(range)))
    }

    /// What the postings of a range have, by what a sample has of it; none if that is little.
    fn seen_of(&self, found: Sampled) -> Option<Seen> {
        if found.found < SAMPLED_MIN {
            return None;
        }
        let all = u64::from(quire_query::Shard::doc_end(self));
        let docs = scaled(all, found.found, found.docs);
        // Where hardly a value was found twice, there are many more that were not found.
        let again = found.found - found.different + 1;
        let clusters = all.div_ceil(CLUSTER_DOCS);
        let values = found.different.saturating_mul(1 + found.different / again);
        let postings = values.saturating_mul(clusters).min(docs);
        Some(Seen {
            postings,
            docs,
            // It is not known which have changes.
            folded: postings,
            has_more: true,
        })
    }

    /// The values of a field that some documents have, a few blocks of them, as the index has them.
    fn sample(&self, path: &Path) -> Result<Sample> {
        let doc_end = quire_query::Shard::doc_end(self);
        let step = (doc_end / SAMPLE_DOCS).max(1);
        let block_count = doc_end.div_ceil(1 << self.columns.block_bits);
        let (mut terms, mut docs) = (Vec::new(), 0);
        let apart = block_count.div_ceil(SAMPLE_BLOCKS).max(1);
        // The documents of a block that is left out are looked for in the one that stands for it.
        let step = (step / apart).max(1) as usize;
        for block in (0..block_count).step_by(apart as usize) {
            let first = block << self.columns.block_bits;
            let end = first.saturating_add(1 << self.columns.block_bits);
            let wanted: DocSet = (first..end.min(doc_end)).step_by(step).collect();
            docs += wanted.len();
            let see = &mut |_: u32, term: &[u8]| terms.push(Box::from(term));
            let block = self.columns.block(path, block)?;
            block.each_term(&wanted, see).map_err(damaged)?;
        }
        Ok(Sample::new(terms, docs))
    }

    /// How many documents a range has of whose first terms, up to `last`, `seen` were counted.
    ///
    /// Two guesses: the values are spread evenly over the field, or over the range as where it
    /// begins. The truth is in between where few values are frequent, so their geometric mean is
    /// taken.
    fn in_range_expected(&self, leaf: &Leaf, field: &[u8], seen: u64, last: &[u8]) -> Result<u64> {
        let (docs, evenly) = self.spread(leaf, field)?;
        let (Bound::Included(lower) | Bound::Excluded(lower), upper) = leaf.test.bounds() else {
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
    fn spread(&self, leaf: &Leaf, field: &[u8]) -> Result<(u64, u64)> {
        let docs = self.field_docs(&leaf.path)?.present.len();
        let (lower, upper) = leaf.test.bounds();
        let bound = match (lower, upper) {
            (Bound::Included(bound) | Bound::Excluded(bound), _)
            | (_, Bound::Included(bound) | Bound::Excluded(bound)) => bound,
            (Bound::Unbounded, Bound::Unbounded) => return Ok((docs, docs)),
        };
        let ends = self.ends(&leaf.path, field, term::type_range(bound))?;
        let [first, last] = &*ends;
        let part_below = |bound: Bound<&[u8]>, open: f64| match bound {
            Bound::Included(term) | Bound::Excluded(term) => part_below(term, first, last),
            Bound::Unbounded => open,
        };
        let share = part_below(upper, 1.0) - part_below(lower, 0.0);
        Ok((docs, (docs as f64 * share.clamp(0.0, 1.0)).round() as u64))
    }

    /// The least and the greatest value of a type in a field, whose terms begin with one of these
    /// bytes.
    fn ends(&self, path: &Path, field: &[u8], types: Range<u8>) -> Result<Arc<Ends>> {
        let shared = self.columns.shared.as_deref();
        if let Some(known) = shared.and_then(|shared| shared.ends(path, types.start)) {
            return Ok(known);
        }
        let from = [field, &[types.start]].concat();
        let to = [field, &[types.end]].concat();
        let mut ends = Ends::default();
        for (end, is_last) in ends.iter_mut().zip([false, true]) {
            self.end_of_postings(&from, &to, is_last, &mut |entry| {
                *end = entry.get(field.len()..).unwrap_or_default().to_vec();
            })?;
        }
        let ends = Arc::new(ends);
        if let Some(shared) = shared {
            shared.keep_ends(path, types.start, &ends);
        }
        Ok(ends)
    }
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
