//! Reading: a state that stays as it is, and going through keys in order.

use crate::{Result, SmallBytes};
use quire_lsm::{Scan, TreeSnapshot};
use std::ops::{Bound, RangeBounds};

/// Keys and values as they were at one moment. It holds memtables and files, so let it go.
#[derive(Debug, Clone)]
pub struct View {
    tree: TreeSnapshot,
}

impl View {
    pub(crate) fn new(tree: TreeSnapshot) -> View {
        View { tree }
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// Damage on disk, by file and offset; what the machine or the merger says.
    pub fn get(&self, key: &[u8]) -> Result<Option<SmallBytes>> {
        Ok(self.tree.get(key)?)
    }

    /// The values of many keys, in their order.
    ///
    /// # Errors
    /// As of [`get`](View::get).
    pub fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<SmallBytes>>> {
        Ok(self.tree.get_many(keys)?)
    }

    /// The pairs of a range of keys, in their order. It holds what the view holds, on its own.
    ///
    /// # Errors
    /// As of [`get`](View::get).
    pub fn iter<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Result<Iter> {
        let (from, to) = bounds(&range);
        let scan = self.tree.scan(from, to)?;
        Ok(Iter { scan })
    }

    /// The pairs of [`iter`](View::iter), last first.
    ///
    /// # Errors
    /// As of [`get`](View::get).
    pub fn iter_rev<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Result<Iter> {
        let (from, to) = bounds(&range);
        let scan = self.tree.scan_back(from, to)?;
        Ok(Iter { scan })
    }
}

fn bounds<'k>(range: &impl RangeBounds<&'k [u8]>) -> (Bound<&'k [u8]>, Bound<&'k [u8]>) {
    (range.start_bound().cloned(), range.end_bound().cloned())
}

/// Pairs of keys and values in order. It ends after an error.
#[derive(Debug)]
pub struct Iter {
    scan: Scan,
}

impl Iterator for Iter {
    type Item = Result<(SmallBytes, SmallBytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.scan.next().map(|pair| Ok(pair?))
    }
}
