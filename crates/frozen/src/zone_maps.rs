//! Spans: between which values a field lies in each of many files, and so which files may have a
//! value.
//!
//! A field by which documents were parted, or that grew as the files did, lies in narrow spans that
//! hardly overlap: a value is then found in the few files that may have it, for about the logarithm
//! of how many files there are. Of a field that lies everywhere in all files this is known just as
//! quickly.
//!
//! # Invariants
//! 1. Spans ascend by their least values, and by place where these are equal.
//! 2. `reach` of a span is the one, among it and those before it, that ends last.
//! 3. A term's prefix, its first eight bytes as a number, is not above that of a greater term.
//!    Prefixes lie side by side, the terms wherever their files are: most searches look at no term
//!    but those they find.

use crate::bounds::may_match;
use crate::prefix::prefix;
use crate::{FrozenFile, Result};
use bytes::Bytes;
use quire_index::DocSet;
use quire_model::ordered::Direction;
use quire_query::{Path, Places, Test};
use std::cmp::Reverse;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

/// Spans that are looked at before all are.
const SAMPLES: usize = 16;

/// Where spans hardly overlap, the first that reaches a term is among so many that begin before it.
const NEAR: usize = 4;

/// Where a field lies in one file. The bounds may be wider than its values.
#[derive(Debug)]
struct Span {
    least: Bytes,
    greatest: Bytes,
    place: u32,
    /// Which span ends last, up to this one.
    reach: usize,
}

/// Where a field lies in all files.
#[derive(Debug)]
pub(crate) struct Spans {
    spans: Vec<Span>,
    /// Of each span the prefix of its least value, and of the greatest that it reaches: both
    /// ascend.
    starts: Vec<u64>,
    reached: Vec<u64>,
    files: u32,
    /// The greatest least value of a span, and the least greatest one: what lies between them lies
    /// in all.
    common: (Bytes, Bytes),
    /// Files that have the field and can't filter by it, ascending: who asks them is told so.
    unfiltered: Vec<u32>,
    ascending: OnceLock<Arc<[u32]>>,
    descending: OnceLock<Arc<[u32]>>,
}

impl Spans {
    /// Reads the tables of files.
    pub(crate) fn gather<'a>(
        files: impl Iterator<Item = &'a FrozenFile>,
        path: &Path,
    ) -> Result<Spans> {
        let (mut spans, mut unfiltered, mut count) = (Vec::new(), Vec::new(), 0);
        for (place, file) in (0..).zip(files) {
            count = place + 1;
            let Some(field) = file.field_at(path)? else {
                continue;
            };
            if !field.entry.filterable {
                unfiltered.push(place);
            }
            spans.push(Span {
                least: field.entry.least.clone(),
                greatest: field.entry.greatest.clone(),
                place,
                reach: 0,
            });
        }
        spans.sort_by(|one, other| one.least.cmp(&other.least));
        let (mut reach, mut greatest): (_, &[u8]) = (0, &[]);
        let mut reaches = Vec::with_capacity(spans.len());
        for (at, span) in spans.iter().enumerate() {
            if *span.greatest > *greatest {
                (reach, greatest) = (at, &span.greatest);
            }
            reaches.push(reach);
        }
        for (span, reach) in spans.iter_mut().zip(reaches) {
            span.reach = reach;
        }
        let reach_of = |span: &Span| {
            spans
                .get(span.reach)
                .map_or(0, |last| prefix(&last.greatest))
        };
        let greatest_least = spans.last().map(|span| span.least.clone());
        let least_greatest = spans.iter().map(|span| &span.greatest).min().cloned();
        Ok(Spans {
            common: greatest_least.zip(least_greatest).unwrap_or_default(),
            starts: spans.iter().map(|span| prefix(&span.least)).collect(),
            reached: spans.iter().map(reach_of).collect(),
            spans,
            files: count,
            unfiltered,
            ascending: OnceLock::new(),
            descending: OnceLock::new(),
        })
    }

    /// Whether no file has the field.
    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The places of files that may have a value which fulfils a test, and of those that can't
    /// tell; none if these are more than half of all, or seem to be.
    pub(crate) fn candidates(&self, test: &Test) -> Option<Places> {
        let most = self.files as usize / 2;
        let (least, greatest) = &self.common;
        if self.spans.len() > most && least <= greatest && may_match(test, least, greatest) {
            return None;
        }
        let (lower, upper) = test.bounds();
        let end = match upper {
            Bound::Included(upper) => {
                self.count_below(&self.starts, upper, |span| *span.least <= *upper)
            }
            Bound::Excluded(upper) => {
                self.count_below(&self.starts, upper, |span| *span.least < *upper)
            }
            Bound::Unbounded => self.spans.len(),
        };
        let start = match lower {
            Bound::Included(lower) | Bound::Excluded(lower) => {
                let reached = self.reached.get(..end).unwrap_or_default();
                self.count_below(reached, lower, |span| {
                    let last = self.spans.get(span.reach);
                    last.is_some_and(|last| *last.greatest < *lower)
                })
            }
            Bound::Unbounded => 0,
        };
        let within = self.spans.get(start..end).unwrap_or_default();
        let may_match = |span: &&Span| may_match(test, &span.least, &span.greatest);
        // A field that lies everywhere in all files is told by a few of them.
        let mut some = within.iter().step_by(1 + within.len() / SAMPLES);
        if within.len() > most && some.all(|span| may_match(&span)) {
            return None;
        }
        let places = within.iter().filter(may_match).map(|span| span.place);
        let mut places: Places = places.take(most + 1).collect();
        places.extend_from_slice(&self.unfiltered);
        if places.len() > most {
            return None;
        }
        places.sort_unstable();
        places.dedup();
        Some(places)
    }

    /// How many spans of those that have these prefixes are below a term, by the prefixes, and by
    /// themselves where these are equal. Quickest for one of the last.
    fn count_below(&self, prefixes: &[u64], term: &[u8], below: impl Fn(&Span) -> bool) -> usize {
        let wanted = prefix(term);
        let last = prefixes.len().saturating_sub(NEAR);
        let is_near = prefixes.get(last).is_some_and(|prefix| *prefix < wanted);
        let (from, within) = match is_near {
            true => (last, prefixes.get(last..)),
            false => (0, prefixes.get(..last)),
        };
        let within = within.unwrap_or_default();
        let start = from + within.partition_point(|prefix| *prefix < wanted);
        let rest = prefixes.get(start..).unwrap_or_default();
        let same = match rest.get(NEAR) {
            Some(prefix) if *prefix == wanted => rest.partition_point(|prefix| *prefix == wanted),
            _ => rest.iter().take_while(|prefix| **prefix == wanted).count(),
        };
        let same = self.spans.get(start..start + same).unwrap_or_default();
        start + same.partition_point(below)
    }

    /// The places of all files, those with the best values first, those without the field last.
    pub(crate) fn best_first(&self, direction: Direction) -> Arc<[u32]> {
        let by_ordinal = match direction {
            Direction::Ascending => &self.ascending,
            Direction::Descending => &self.descending,
        };
        Arc::clone(by_ordinal.get_or_init(|| {
            let mut spans: Vec<&Span> = self.spans.iter().collect();
            if direction == Direction::Descending {
                spans.sort_by_key(|span| Reverse(&span.greatest));
            }
            let with: DocSet = {
                let mut places: Vec<_> = spans.iter().map(|span| span.place).collect();
                places.sort_unstable();
                places.into_iter().collect()
            };
            let without = with.complement(self.files);
            let with = spans.iter().map(|span| span.place);
            with.chain(without.iter()).collect()
        }))
    }
}
