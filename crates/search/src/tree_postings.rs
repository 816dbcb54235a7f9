//! Postings in the search tree.

use super::merger::MergePostings;
use super::postings::{FoundPosting, Postings, SeePosting};
use crate::{Error, Result};
use quire_lsm::{FoldedValue, Scan, TreeSnapshot};
use std::ops::Bound;

impl Postings for TreeSnapshot {
    fn visit(&self, from: &[u8], to: &[u8], see: &mut SeePosting<'_>) -> Result<()> {
        match from < to {
            true => show(self.scan(Bound::Included(from), Bound::Excluded(to)), see),
            false => Ok(()),
        }
    }

    fn visit_back(&self, from: &[u8], to: &[u8], see: &mut SeePosting<'_>) -> Result<()> {
        match from < to {
            true => show(
                self.scan_back(Bound::Included(from), Bound::Excluded(to)),
                see,
            ),
            false => Ok(()),
        }
    }
}

fn show(scan: quire_lsm::Result<Scan>, see: &mut SeePosting<'_>) -> Result<()> {
    let mut scan = scan.map_err(tree_error)?;
    let visited = scan.visit_folded::<MergePostings, ()>(|key, value| match &value {
        FoldedValue::Stored(bytes) => see(key, FoundPosting::Stored(bytes)),
        FoldedValue::Folded(posting) => see(key, FoundPosting::Folded(posting)),
    });
    let _ = visited.map_err(tree_error)?;
    Ok(())
}

/// Damage is the index's own: documents are there all the same.
pub(crate) fn tree_error(error: quire_lsm::Error) -> Error {
    match quire_store::is_damage(&error) {
        true => Error::Index {
            what: error.to_string(),
        },
        false => quire_store::Error::from(error).into(),
    }
}
