//! [`Sample`]: some values of a field, by which it is known how many documents a wide range has.

use quire_query::TermRange;
use std::ops::Bound;

/// The values that documents have which lie evenly among all.
#[derive(Debug)]
pub(crate) struct Sample {
    /// Ascending; each as often as it was found.
    terms: Vec<Box<[u8]>>,
    /// The documents that were looked at, with a value or not.
    docs: u64,
}

/// What a sample has in a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sampled {
    /// Values.
    pub(crate) found: u64,
    /// Different ones.
    pub(crate) different: u64,
    /// The documents that were looked at.
    pub(crate) docs: u64,
}

impl Sample {
    /// Of `docs` documents with these values, in any order.
    pub(crate) fn new(mut terms: Vec<Box<[u8]>>, docs: u64) -> Sample {
        terms.sort_unstable();
        Sample { terms, docs }
    }

    /// About how many bytes of memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        let of_terms = self.terms.iter().map(|term| size_of_val(term) + term.len());
        of_terms.sum()
    }

    /// What it has in a range.
    pub(crate) fn between(&self, range: &TermRange) -> Sampled {
        let terms = &self.terms;
        let start = match &range.lower {
            Bound::Unbounded => 0,
            Bound::Included(lower) => terms.partition_point(|term| term < lower),
            Bound::Excluded(lower) => terms.partition_point(|term| term <= lower),
        };
        let end = match &range.upper {
            Bound::Unbounded => terms.len(),
            Bound::Included(upper) => terms.partition_point(|term| term <= upper),
            Bound::Excluded(upper) => terms.partition_point(|term| term < upper),
        };
        Sampled::of(terms.get(start..end).unwrap_or_default(), self.docs)
    }
}

impl Sampled {
    /// Of these values of `docs` documents, ascending.
    pub(super) fn of<T: PartialEq>(found: &[T], docs: u64) -> Sampled {
        Sampled {
            found: found.len() as u64,
            different: found.chunk_by(|a, b| a == b).count() as u64,
            docs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_counts_what_lies_between_two_bounds() {
        let terms = [b"b", b"a", b"c", b"b"].map(|term| Box::from(term.as_slice()));
        let sample = Sample::new(terms.to_vec(), 8);
        let between = |lower: Bound<&str>, upper: Bound<&str>| {
            let bytes = |bound: Bound<&str>| bound.map(|text| Box::from(text.as_bytes()));
            let found = sample.between(&TermRange {
                lower: bytes(lower),
                upper: bytes(upper),
            });
            assert_eq!(found.docs, 8);
            [found.found, found.different]
        };
        use Bound::{Excluded, Included, Unbounded};
        assert_eq!(between(Unbounded, Unbounded), [4, 3]);
        assert_eq!(between(Included("b"), Excluded("c")), [2, 1]);
        assert_eq!(between(Excluded("a"), Included("c")), [3, 2]);
        assert_eq!(between(Excluded("b"), Excluded("c")), [0, 0]);
        assert_eq!(between(Included("c"), Included("a")), [0, 0]);
    }
}
