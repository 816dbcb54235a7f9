//! Reading: a state that stays as it is, and going through keys in order.

use crate::lease::{Lease, Leases};
use crate::range::{KeyRange, Prefix};
use crate::{Result, SmallBytes};
use quire_lsm::{Scan, TreeSnapshot};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Keys and values as they were at one moment. It holds memtables and files until it is dropped.
#[derive(Debug, Clone)]
pub struct View {
    tree: Arc<Lease<TreeSnapshot>>,
}

impl View {
    pub(crate) fn new(leases: &Arc<Leases>, tree: TreeSnapshot) -> View {
        View {
            tree: leases.lease(tree),
        }
    }

    /// A clone, so that threads that share a view do not wait for each other.
    fn tree(&self) -> Result<TreeSnapshot> {
        self.tree.with(|tree| tree.clone())
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// Damage on disk, by file and offset; what the machine or the merger says; of kind `Gone` if
    /// the view was kept for too long.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<SmallBytes>> {
        Ok(self.tree()?.get(key.as_ref())?)
    }

    /// What `look` makes of the value of `key`, where it lies: as of
    /// [`Kv::visit`](crate::Kv::visit).
    ///
    /// # Errors
    /// As of [`get`](View::get).
    pub fn visit<T>(
        &self,
        key: impl AsRef<[u8]>,
        look: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        Ok(self.tree()?.reader().visit(key.as_ref(), look)?)
    }

    /// The values of many keys, in their order.
    ///
    /// # Errors
    /// As of [`get`](View::get).
    pub fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<SmallBytes>>> {
        Ok(self.tree()?.get_many(keys)?)
    }

    /// The pairs of a range of keys, in their order: as of [`Kv::range`](crate::Kv::range). The
    /// iterator holds what the view holds, on its own.
    ///
    /// # Errors
    /// As of [`get`](View::get).
    pub fn range(&self, range: impl KeyRange) -> Result<Iter> {
        Iter::ascending(self.tree.leases(), &self.tree()?, &range)
    }

    /// The pairs of [`range`](View::range), last first.
    ///
    /// # Errors
    /// As of [`get`](View::get).
    pub fn range_rev(&self, range: impl KeyRange) -> Result<Iter> {
        Iter::descending(self.tree.leases(), &self.tree()?, &range)
    }

    /// The pairs whose keys begin with `prefix`, in their order.
    ///
    /// # Errors
    /// As of [`get`](View::get).
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        self.range(Prefix::new(prefix.as_ref()))
    }

    /// The pairs of [`prefix`](View::prefix), last first.
    ///
    /// # Errors
    /// As of [`get`](View::get).
    pub fn prefix_rev(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        self.range_rev(Prefix::new(prefix.as_ref()))
    }
}

/// Pairs of keys and values in order. It ends after an error.
#[derive(Debug)]
pub struct Iter {
    /// `None` once it was found expired.
    scan: Option<Arc<Lease<Scan>>>,
}

impl Iter {
    pub(crate) fn ascending(
        leases: &Arc<Leases>,
        tree: &TreeSnapshot,
        range: &impl KeyRange,
    ) -> Result<Iter> {
        let (from, to) = range.bounds();
        let scan = Some(leases.lease(tree.scan(from, to)?));
        Ok(Iter { scan })
    }

    pub(crate) fn descending(
        leases: &Arc<Leases>,
        tree: &TreeSnapshot,
        range: &impl KeyRange,
    ) -> Result<Iter> {
        let (from, to) = range.bounds();
        let scan = Some(leases.lease(tree.scan_back(from, to)?));
        Ok(Iter { scan })
    }
}

impl Iter {
    /// Shows the pairs that are left to `each`, until it breaks; the iterator goes on after the
    /// last that was shown. Pairs are shown where they lie, which costs less than to copy them.
    ///
    /// ```
    /// use quire_kv::{Kv, KvOptions};
    /// use std::ops::ControlFlow;
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("stock");
    ///
    /// let stock = Kv::open(&path, KvOptions::default())?;
    /// stock.put(b"apple", b"12")?;
    /// stock.put(b"pear", b"7")?;
    ///
    /// let mut bytes = 0;
    /// let all: ControlFlow<()> = stock.range(..)?.visit(|key, value| {
    ///     bytes += key.len() + value.len();
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert!(all.is_continue() && bytes == 12);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`View::get`]; the iterator has ended then.
    pub fn visit<B>(
        &mut self,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>> {
        let Some(lease) = &self.scan else {
            return Ok(ControlFlow::Continue(()));
        };
        let visited = lease.with(|scan| {
            let visited = scan.visit(|key, value| match lease.is_expired() {
                true => ControlFlow::Break(Err(lease.expired())),
                false => each(key, value).map_break(Ok),
            });
            match visited? {
                ControlFlow::Break(broken) => broken.map(ControlFlow::Break),
                ControlFlow::Continue(()) => Ok(ControlFlow::Continue(())),
            }
        });
        let visited = visited.flatten();
        if visited.is_err() {
            self.scan = None;
        }
        visited
    }
}

impl Iterator for Iter {
    type Item = Result<(SmallBytes, SmallBytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.scan.as_ref()?.with(Scan::next) {
            Ok(next) => next.map(|pair| Ok(pair?)),
            Err(expired) => {
                self.scan = None;
                Some(Err(expired))
            }
        }
    }
}
