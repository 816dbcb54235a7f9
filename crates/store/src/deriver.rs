//! What the store knows of its derived trees while it is open.

use crate::manifest::Progress;
use crate::{BaseView, DerivedTrees, TreeId};
use quire_model::Position;
use std::sync::Arc;

/// The derived trees, and the view whose position they are all at.
#[derive(Debug, Default)]
pub(crate) struct Deriver {
    /// What the records up to its position make of the trees is in them. None if there are no
    /// groups: it would hold memory and files.
    pub(crate) view: Option<BaseView>,
    pub(crate) groups: Vec<Group>,
}

/// Trees that are derived together.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) source: Arc<dyn DerivedTrees>,
    pub(crate) ids: Vec<TreeId>,
    /// Only what lies before this is in them; none if all is.
    pub(crate) cursor: Option<Vec<u8>>,
    /// What is in them is of no use: a step failed half-way.
    pub(crate) broken: bool,
}

impl Group {
    /// A group of which a manifest says that it is built up to `cursor`.
    pub(crate) fn new(source: Arc<dyn DerivedTrees>, cursor: Option<Vec<u8>>) -> Group {
        let ids = ids(&*source);
        Group {
            source,
            ids,
            cursor,
            broken: false,
        }
    }

    /// How far it is, when it is at `position`.
    pub(crate) fn progress(&self, position: Position) -> Progress {
        match self.broken {
            true => Progress::none(),
            false => Progress {
                built: position,
                cursor: self.cursor.clone(),
            },
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.cursor.is_none() && !self.broken
    }
}

/// The ids of a group's trees.
pub(crate) fn ids(source: &dyn DerivedTrees) -> Vec<TreeId> {
    let specs = source.trees();
    specs.iter().map(|spec| TreeId(spec.id)).collect()
}

impl Deriver {
    /// How far all derived trees are.
    pub(crate) fn progress(&self) -> Vec<(TreeId, Progress)> {
        let Some(view) = &self.view else {
            return Vec::new();
        };
        let of_group = |group: &Group| {
            let progress = group.progress(view.position());
            let ids = group.ids.iter();
            ids.map(move |id| (*id, progress.clone()))
                .collect::<Vec<_>>()
        };
        self.groups.iter().flat_map(of_group).collect()
    }
}
