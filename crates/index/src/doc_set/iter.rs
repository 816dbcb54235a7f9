//! [`Iter`] and [`Ranges`]: the docids of a set, one by one and as ranges.

use crate::cluster::{Lows, Owned, join, split};
use std::ops::Range;

/// The docids of a set, ascending: see [`DocSet::iter`](crate::DocSet::iter).
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    clusters: std::slice::Iter<'a, (u16, Owned)>,
    /// The current cluster: its first docid, and the low halves that are left.
    now: Option<(u32, Lows<'a>)>,
}

impl<'a> Iter<'a> {
    pub(super) fn new(clusters: &'a [(u16, Owned)]) -> Iter<'a> {
        Iter {
            clusters: clusters.iter(),
            now: None,
        }
    }

    fn next_cluster(&mut self) -> Option<()> {
        let (key, cluster) = self.clusters.next()?;
        self.now = Some((join(*key), cluster.lows()));
        Some(())
    }

    /// Skips docids below `docid`; never goes back.
    pub fn advance_to(&mut self, docid: u32) {
        let (key, low) = split(docid);
        if self.now.as_ref().is_none_or(|(base, _)| *base < join(key)) {
            let rest = self.clusters.as_slice();
            let at = rest.partition_point(|(found, _)| *found < key);
            self.clusters = rest.get(at..).unwrap_or_default().iter();
            self.now = None;
            if self.next_cluster().is_none() {
                return;
            }
        }
        if let Some((_, lows)) = self.now.as_mut().filter(|(base, _)| *base == join(key)) {
            lows.advance_to(low);
        }
    }

    /// Writes the next docids to the start of `docids` and returns how many; 0 at the end.
    pub fn next_many(&mut self, docids: &mut [u32]) -> usize {
        let mut filled = 0;
        while let Some(rest) = docids.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let more = match &mut self.now {
                Some((base, lows)) => lows.fill(*base, rest),
                None => 0,
            };
            filled += more;
            if more == 0 && self.next_cluster().is_none() {
                break;
            }
        }
        filled
    }

    fn next_run(&mut self) -> Option<Range<u32>> {
        loop {
            if let Some((base, lows)) = &mut self.now
                && let Some(run) = lows.next_run()
            {
                // A docid is below 2^32 - 1: a partition takes no more documents.
                return Some(*base + run.start..base.saturating_add(run.end));
            }
            self.next_cluster()?;
        }
    }
}

impl Iterator for Iter<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        loop {
            if let Some((base, lows)) = &mut self.now
                && let Some(low) = lows.next()
            {
                return Some(*base | u32::from(low));
            }
            self.next_cluster()?;
        }
    }
}

/// The docids of a set as ranges: see [`DocSet::ranges`](crate::DocSet::ranges).
#[derive(Debug, Clone)]
pub struct Ranges<'a> {
    docids: Iter<'a>,
    /// A range that the next run may extend.
    held: Option<Range<u32>>,
}

impl<'a> Ranges<'a> {
    pub(super) fn new(docids: Iter<'a>) -> Ranges<'a> {
        Ranges { docids, held: None }
    }
}

impl Iterator for Ranges<'_> {
    type Item = Range<u32>;

    fn next(&mut self) -> Option<Range<u32>> {
        loop {
            let Some(more) = self.docids.next_run() else {
                return self.held.take();
            };
            match &mut self.held {
                Some(held) if held.end == more.start => held.end = more.end,
                held => {
                    if let Some(whole) = held.replace(more) {
                        return Some(whole);
                    }
                }
            }
        }
    }
}
