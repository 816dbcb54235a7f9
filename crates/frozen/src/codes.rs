//! [`Codes`]: the values that a test accepts, by their codes.

use quire_query::Found;
use std::ops::Range;

/// The codes of the values that a test accepts: ascending ranges, none of them empty, with a gap
/// between each two.
#[derive(Debug, Clone, Default)]
pub(crate) struct Codes {
    pub(crate) first: Range<u64>,
    /// The other ranges. Most tests have none, which takes no memory.
    pub(crate) more: Vec<Range<u64>>,
}

impl Codes {
    #[inline]
    pub(crate) fn push(&mut self, codes: Range<u64>) {
        debug_assert!(
            codes.start <= codes.end,
            "a range does not end before its start"
        );
        let last = self.more.last_mut().unwrap_or(&mut self.first);
        if last.is_empty() {
            *last = codes;
        } else if last.end == codes.start {
            last.end = codes.end;
        } else if !codes.is_empty() {
            self.more.push(codes);
        }
    }

    #[inline]
    pub(crate) fn ranges(&self) -> impl Iterator<Item = &Range<u64>> + Clone {
        std::iter::once(&self.first).chain(&self.more)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// These codes, for a later call, if they are one range.
    #[inline]
    pub(crate) fn found(&self) -> Found {
        let Range { start, end } = self.first;
        Found(self.more.is_empty().then_some([start, end]))
    }

    /// The only code, if there is only one.
    #[inline]
    pub(crate) fn single(&self) -> Option<u64> {
        let single = self.more.is_empty() && self.first.end == self.first.start.saturating_add(1);
        single.then_some(self.first.start)
    }

    #[inline]
    pub(crate) fn contains(&self, code: u64) -> bool {
        if self.more.is_empty() {
            return self.first.contains(&code);
        }
        let after = self.more.partition_point(|range| range.start <= code);
        let range = after.checked_sub(1).and_then(|at| self.more.get(at));
        range.unwrap_or(&self.first).contains(&code)
    }
}
