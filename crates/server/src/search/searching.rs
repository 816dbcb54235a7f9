//! Searches are counted for each collection that they see: see [`Usage`](quiredb::Usage).

use quiredb::{Use, Using, View};

/// A search, or a part of one, of collections. It counts as running until it is dropped.
pub(crate) struct Searching<'v> {
    views: &'v [View],
    using: Vec<Using<'v>>,
}

impl<'v> Searching<'v> {
    pub(crate) fn begin(views: &'v [View], what: Use) -> Searching<'v> {
        let using = views.iter().map(|view| view.usage().begin(what));
        Searching {
            views,
            using: using.collect(),
        }
    }

    /// It ends, and was `count` of its kind.
    pub(crate) fn end(self, count: u64) {
        self.using.into_iter().for_each(|using| using.end(count));
    }

    /// It ends, and was a search that names these groups.
    pub(crate) fn end_of_groups(self, groups: &[String]) {
        for (view, using) in self.views.iter().zip(self.using) {
            view.usage().of_groups(groups, using.took());
            using.end(1);
        }
    }
}
