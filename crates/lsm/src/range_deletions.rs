//! Range deletions: which sources of a merge delete a key by a range.

use crate::range_tombstones::{RangeTombstone, RangeTombstones, Window, union};

/// The sources that delete ranges, as a merge goes along its keys: what was found for one key is
/// kept for those beside it.
#[derive(Debug)]
pub(crate) struct RangeDeletions {
    /// By age; less is newer.
    sources: Vec<(usize, RangeTombstones)>,
    /// The keys of which `age` is known.
    window: Option<Window>,
    age: usize,
}

impl RangeDeletions {
    /// Of sources by their ages; `None` if none of them deletes a range.
    pub(crate) fn new(
        sources: impl Iterator<Item = (usize, RangeTombstones)>,
    ) -> Option<RangeDeletions> {
        let sources: Vec<_> = sources
            .filter(|(_, tombstones)| !tombstones.is_empty())
            .collect();
        (!sources.is_empty()).then_some(RangeDeletions {
            sources,
            window: None,
            age: usize::MAX,
        })
    }

    /// The age of the newest source that deletes `key`: what older ones say does not count. The
    /// greatest number if none does.
    pub(crate) fn age(&mut self, key: &[u8]) -> usize {
        if !self.window.as_ref().is_some_and(|window| window.has(key)) {
            let mut all = Window::ALL;
            self.age = usize::MAX;
            for (age, tombstones) in &self.sources {
                let window = tombstones.window(key);
                all.narrow(&window);
                if window.mark.is_some() {
                    self.age = self.age.min(*age);
                }
            }
            self.window = Some(all);
        }
        self.age
    }

    /// The keys about the last one for which the answer is the same.
    pub(crate) fn window(&self) -> Option<&Window> {
        self.window.as_ref()
    }

    /// All ranges, in order.
    pub(crate) fn range_tombstones(&self) -> Vec<RangeTombstone> {
        union(self.sources.iter().map(|(_, tombstones)| tombstones))
    }
}
