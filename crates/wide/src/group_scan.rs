//! All cells of a group in the order of their keys, of whichever of its two trees.

use crate::machine::tree_of;
use crate::{Result, WideView};
use quire_lsm::{Scan, SmallBytes};
use std::ops::Bound;

/// A scan of a group. It ends after an error.
#[derive(Debug)]
pub(crate) struct GroupScan {
    /// Of the hot tree and the cold one, with the next cell of each.
    trees: Vec<(Scan, Option<(SmallBytes, SmallBytes)>)>,
}

impl GroupScan {
    pub(crate) fn new(view: &WideView, group: u8) -> Result<GroupScan> {
        GroupScan::begin_at(view, group, &[])
    }

    /// As [`new`](GroupScan::new), from a key on.
    pub(crate) fn begin_at(view: &WideView, group: u8, from: &[u8]) -> Result<GroupScan> {
        let is_cold = view.cold_rows().get(usize::from(group)) > Some(&0);
        let mut trees = Vec::with_capacity(2);
        for is_cold in [false, true].into_iter().take(1 + usize::from(is_cold)) {
            let tree = view.tree(tree_of(group, is_cold))?;
            let mut scan = tree.scan(Bound::Included(from), Bound::Unbounded)?;
            let next = scan.next().transpose()?;
            trees.push((scan, next));
        }
        Ok(GroupScan { trees })
    }
}

impl Iterator for GroupScan {
    type Item = Result<(SmallBytes, SmallBytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        // No row has cells in both trees, so no key is in both.
        let at = match self.trees.as_slice() {
            [(_, Some((hot, _))), (_, Some((cold, _)))] => usize::from(**cold < **hot),
            [(_, None), _] => 1,
            _ => 0,
        };
        let (scan, next) = self.trees.get_mut(at)?;
        let cell = next.take()?;
        match scan.next().transpose() {
            Ok(following) => *next = following,
            Err(error) => {
                self.trees.clear();
                return Some(Err(error.into()));
            }
        }
        Some(Ok(cell))
    }
}
