//! Scan: the entries of a snapshot in key order.

use super::version::Version;
use crate::fold::Folder;
use crate::merge::{Merge, Source};
use crate::run::RunCursor;
use crate::table::Access;
use crate::{Result, SmallBytes};
use quire_model::Position;
use quire_planted::{Bug, planted};
use std::ops::Bound;
use std::sync::Arc;

/// An iterator over keys and values, ascending. It ends after an error.
#[derive(Debug)]
pub struct Scan {
    /// `None` once it has ended.
    merge: Option<Merge>,
    to: Bound<Vec<u8>>,
}

impl Scan {
    pub(super) fn open(
        version: &Version,
        folder: Arc<Folder>,
        at: Position,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Result<Scan> {
        let from = match from {
            Bound::Unbounded => Vec::new(),
            Bound::Included(key) => key.to_vec(),
            // The next key there can be.
            Bound::Excluded(key) => [key, &[0]].concat(),
        };
        let mut sources: Vec<_> = version
            .memtables()
            .map(|memtable| Source::Memtable(memtable.cursor(at, &from)))
            .collect();
        for run in &version.runs {
            let cursor = RunCursor::open(Arc::clone(run), Access::Cached, &from)?;
            sources.push(Source::Run(Box::new(cursor)));
        }
        Ok(Scan {
            merge: Some(Merge::new(sources, folder, true)),
            to: to.map(<[u8]>::to_vec),
        })
    }

    /// The next pair before the end of the range.
    fn advance(&mut self) -> Result<Option<(SmallBytes, SmallBytes)>> {
        let Some(merge) = &mut self.merge else {
            return Ok(None);
        };
        while let Some(entry) = merge.advance()? {
            let inside = match &self.to {
                Bound::Unbounded => true,
                Bound::Included(to) if planted(Bug::ScanEndsOneShort) => {
                    merge.key() < to.as_slice()
                }
                Bound::Included(to) => merge.key() <= to.as_slice(),
                Bound::Excluded(to) => merge.key() < to.as_slice(),
            };
            if !inside {
                break;
            }
            if let Some(value) = entry.into_value() {
                return Ok(Some((SmallBytes::copy_from_slice(merge.key()), value)));
            }
        }
        Ok(None)
    }
}

impl Iterator for Scan {
    type Item = Result<(SmallBytes, SmallBytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance().transpose();
        if !matches!(next, Some(Ok(_))) {
            // Lets go of files and memory, even if the scan itself is kept.
            self.merge = None;
        }
        next
    }
}
