//! The trees of an open store: found by their ids, without a lock.
//!
//! # Invariants
//! 1. A tree that was there when the store was opened stays in its slot until the close, and one
//!    that is added gets a slot of its own. So a reader needs no lock to find a tree.
//! 2. Of a tree that was dropped the slot is left, with an empty tree that nobody finds.

use crate::{Error, Rebuilt, Result};
use quire_env::VolumeId;
use quire_lsm::{Tree, TreeStats};
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use quire_sync::atomic::{AtomicU32, Ordering};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

/// The derived trees of a store that were built anew, by their ids.
pub(crate) type RebuiltTrees = BTreeMap<TreeId, Rebuilt>;

/// The slots of one part of the list of added trees.
const ADDED_PART: usize = 32;

/// A tree's number within its partition: [`TreeSpec::id`](quire_lsm::TreeSpec::id). Kept in every
/// table of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeId(pub u32);

impl fmt::Display for TreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a tree can be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeState {
    /// It holds what all records up to a position make of it.
    Complete {
        /// The position: for a tree that `apply` writes, that of the view.
        built: Position,
    },
    /// It is being built: it must not be read yet.
    Building,
}

/// Figures of one tree.
#[derive(Debug, Clone)]
pub struct TreeFigures {
    /// Its number.
    pub id: TreeId,
    /// Its name.
    pub name: String,
    /// What it can be used for.
    pub state: TreeState,
    /// What it holds.
    pub figures: TreeStats,
    /// Bytes of its table files by volume.
    pub volumes: BTreeMap<VolumeId, u64>,
    /// Of a derived tree that was found damaged; none if it never was since the store was opened.
    pub rebuilt: Option<Rebuilt>,
}

/// How a tree is written, and whether it may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TreeUse {
    /// `apply` writes it: it is complete at every position.
    Applied = 0,
    /// It is derived, and not complete.
    Building = 1,
    /// It is derived, and complete up to the store's derived position.
    Derived = 2,
    /// It is no more.
    Dropped = 3,
}

/// A tree of an open store.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) id: TreeId,
    /// A [`TreeUse`] in the two lowest bits; above them, how often it has changed.
    state: AtomicU32,
    pub(crate) tree: Tree,
}

/// The [`TreeUse`] of a slot at one moment. Two that are equal are of the same moment, or nothing
/// has changed in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeenUse(u32);

const USE_BITS: u32 = 0b11;

impl SeenUse {
    pub(crate) fn used(self) -> TreeUse {
        match self.0 & USE_BITS {
            0 => TreeUse::Applied,
            1 if seeded(Bug::BuildingTreeRead) => TreeUse::Derived,
            1 => TreeUse::Building,
            2 => TreeUse::Derived,
            _ => TreeUse::Dropped,
        }
    }
}

impl Slot {
    pub(crate) fn new(tree: Tree, used: TreeUse) -> Slot {
        Slot {
            id: TreeId(tree.spec().id),
            state: AtomicU32::new(used as u32),
            tree,
        }
    }

    pub(crate) fn seen(&self) -> SeenUse {
        SeenUse(self.state.load(Ordering::Acquire))
    }

    pub(crate) fn used(&self) -> TreeUse {
        self.seen().used()
    }

    /// Called with the lock on derived trees.
    pub(crate) fn set(&self, used: TreeUse) {
        let before = self.state.load(Ordering::Relaxed);
        assert!(
            before & USE_BITS != TreeUse::Applied as u32,
            "a tree that apply writes is complete as long as it is there"
        );
        let changes = (before & !USE_BITS).wrapping_add(USE_BITS + 1);
        self.state.store(changes | used as u32, Ordering::Release);
    }
}

/// All trees.
#[derive(Debug)]
pub(crate) struct Trees {
    /// Those that were there when the store was opened; first the applied ones.
    opened: Vec<Slot>,
    applied_count: usize,
    added: Added,
}

/// Trees that were added one after the other: a list of parts, so that none is ever moved.
#[derive(Debug, Default)]
struct Added {
    slots: [OnceLock<Box<Slot>>; ADDED_PART],
    next: OnceLock<Box<Added>>,
}

impl Added {
    fn iter(&self) -> impl Iterator<Item = &Slot> {
        let parts = std::iter::successors(Some(self), |part| part.next.get().map(|next| &**next));
        let slots = parts.flat_map(|part| &part.slots);
        slots.map_while(OnceLock::get).map(|slot| &**slot)
    }

    /// Adds a slot to the end. Called by one thread at a time.
    fn push(&self, slot: Slot) {
        let mut part = self;
        loop {
            if let Some(free) = part.slots.iter().find(|slot| slot.get().is_none()) {
                let added = free.set(Box::new(slot));
                assert!(added.is_ok(), "trees are added by one thread at a time");
                return;
            }
            part = part.next.get_or_init(Box::default);
        }
    }
}

impl Trees {
    /// The trees of a store that is being opened.
    pub(crate) fn new(applied: Vec<Slot>, derived: Vec<Slot>) -> Trees {
        let applied_count = applied.len();
        let mut opened = applied;
        opened.extend(derived);
        Trees {
            opened,
            applied_count,
            added: Added::default(),
        }
    }

    /// The trees that `apply` writes.
    pub(crate) fn applied(&self) -> &[Slot] {
        self.opened.get(..self.applied_count).unwrap_or_default()
    }

    /// All slots; the trees of those that were dropped are empty.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.opened.iter().chain(self.added.iter())
    }

    /// A tree that was not dropped.
    pub(crate) fn find(&self, id: TreeId) -> Option<&Slot> {
        let is_it = |slot: &&Slot| slot.id == id && slot.used() != TreeUse::Dropped;
        let opened = self.opened.iter().find(is_it);
        opened.or_else(|| self.added.iter().find(is_it))
    }

    /// A tree that was not dropped.
    ///
    /// # Errors
    /// `Invalid` if there is none.
    pub(crate) fn get(&self, id: TreeId) -> Result<&Slot> {
        self.find(id).ok_or_else(|| no_tree(id))
    }

    /// A tree that `apply` writes.
    ///
    /// # Errors
    /// `Invalid` if there is none.
    pub(crate) fn get_applied(&self, id: TreeId) -> Result<&Slot> {
        self.find_applied(id).ok_or_else(|| no_tree(id))
    }

    /// A tree that `apply` writes, if there is one with this id.
    pub(crate) fn find_applied(&self, id: TreeId) -> Option<&Slot> {
        self.applied().iter().find(|slot| slot.id == id)
    }

    /// Whether there is a derived tree.
    pub(crate) fn has_derived(&self) -> bool {
        let mut derived = self.iter().skip(self.applied_count);
        derived.any(|slot| slot.used() != TreeUse::Dropped)
    }

    /// Adds a tree. Called with the lock of the one flush.
    pub(crate) fn add(&self, slot: Slot) {
        self.added.push(slot);
    }
}

pub(crate) fn no_tree(id: TreeId) -> Error {
    Error::Invalid(format!("there is no tree {id} that could be read"))
}
