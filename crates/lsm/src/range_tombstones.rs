//! Range tombstones: deleted ranges of keys, in order, none of which overlap.
//!
//! A treap of nodes that never change (Seidel, Aragon 1996). Adding a range makes new nodes on one
//! path, and a clone from before keeps the old ones. Adding a range, and finding the range of a
//! key, take logarithmic time however the ranges overlap.
//!
//! # Invariants
//! 1. No two ranges overlap: of two that would, the one added last has the keys of both.
//! 2. A range goes from its first key up to, and without, its last. An empty last key means that
//!    the range has no end.

use crate::SmallBytes;
use std::ops::Deref;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Ranges of keys, each with a number. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct RangeTombstones {
    root: Link,
}

type Link = Option<Arc<Node>>;

#[derive(Debug, Clone)]
struct Node {
    tombstone: RangeTombstone,
    /// That of a node is not less than those below it.
    priority: u32,
    left: Link,
    right: Link,
}

/// The keys from one up to, and without, another; an empty one is no end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RangeTombstone {
    pub(crate) from: SmallBytes,
    pub(crate) to: SmallBytes,
    /// A number that the caller gave it.
    pub(crate) mark: u32,
}

/// What is known of a key and of all keys beside it: those from `from` up to `to`.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    from: SmallBytes,
    to: SmallBytes,
    /// That of the range, if there is one.
    pub(crate) mark: Option<u32>,
}

/// Whether a key is before the end of a range.
pub(crate) fn is_before(key: &[u8], to: &[u8]) -> bool {
    to.is_empty() || key < to
}

/// Whether one range ends before or with another, or at a key.
fn ends_by(to: &[u8], end: &[u8]) -> bool {
    !to.is_empty() && is_before_or_at(to, end)
}

fn is_before_or_at(key: &[u8], to: &[u8]) -> bool {
    to.is_empty() || key <= to
}

impl Node {
    fn with(&self, tombstone: RangeTombstone, left: Link, right: Link) -> Arc<Node> {
        Arc::new(Node {
            tombstone,
            priority: self.priority,
            left,
            right,
        })
    }
}

impl RangeTombstones {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Adds the keys from `from` up to `to`, over what there is; nothing if there are none between
    /// them. Returns the bytes of memory that this took.
    pub fn add(&mut self, from: &[u8], to: &[u8], mark: u32) -> u64 {
        if !is_before(from, to) {
            return 0;
        }
        let mut nodes = 1;
        let (before, rest) = split(self.root.take(), from, &mut nodes);
        let after = match to {
            [] => None,
            to => split(rest, to, &mut nodes).1,
        };
        let node = Node {
            tombstone: RangeTombstone {
                from: SmallBytes::copy_from_slice(from),
                to: SmallBytes::copy_from_slice(to),
                mark,
            },
            priority: xxh3_64_with_seed(from, u64::from(mark)) as u32,
            left: None,
            right: None,
        };
        let before = join(before, Some(Arc::new(node)), &mut nodes);
        self.root = join(before, after, &mut nodes);
        nodes * NODE_BYTES + (from.len() + to.len()) as u64
    }

    /// Adds ranges that come after all of these. Returns false, and adds nothing, if they do not.
    pub(crate) fn append(&mut self, later: &RangeTombstones) -> bool {
        let apart = match (self.last(), later.first()) {
            (Some(last), Some(first)) => ends_by(&last.to, &first.from),
            _ => true,
        };
        if apart {
            self.root = join(self.root.take(), later.root.clone(), &mut 0);
        }
        apart
    }

    /// What they have from `key` on.
    pub(crate) fn after(&self, key: &[u8]) -> RangeTombstones {
        RangeTombstones {
            root: split(self.root.clone(), key, &mut 0).1,
        }
    }

    fn first(&self) -> Option<&RangeTombstone> {
        let mut node = self.root.as_deref()?;
        while let Some(left) = &node.left {
            node = left;
        }
        Some(&node.tombstone)
    }

    fn last(&self) -> Option<&RangeTombstone> {
        let mut node = self.root.as_deref()?;
        while let Some(right) = &node.right {
            node = right;
        }
        Some(&node.tombstone)
    }

    /// The number of the range that has `key`, if one has.
    pub fn mark(&self, key: &[u8]) -> Option<u32> {
        let mut next = &self.root;
        while let Some(node) = next {
            next = match () {
                () if key < node.tombstone.from.deref() => &node.left,
                () if is_before(key, &node.tombstone.to) => return Some(node.tombstone.mark),
                () => &node.right,
            };
        }
        None
    }

    /// What is known of `key`, and of which keys beside it too.
    pub(crate) fn window(&self, key: &[u8]) -> Window {
        let mut window = Window::ALL;
        let mut next = &self.root;
        while let Some(node) = next {
            let RangeTombstone { from, to, mark } = &node.tombstone;
            if key < from.deref() {
                window.to = from.clone();
                next = &node.left;
            } else if is_before(key, to) {
                return Window {
                    from: from.clone(),
                    to: to.clone(),
                    mark: Some(*mark),
                };
            } else {
                window.from = to.clone();
                next = &node.right;
            }
        }
        window
    }

    /// The ranges in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &RangeTombstone> {
        let mut path = Vec::new();
        let mut next = self.root.as_deref();
        std::iter::from_fn(move || {
            while let Some(node) = next {
                path.push(node);
                next = node.left.as_deref();
            }
            let node = path.pop()?;
            next = node.right.as_deref();
            Some(&node.tombstone)
        })
    }
}

/// Bytes of a node in memory.
pub(crate) const NODE_BYTES: u64 = (size_of::<Node>() + 2 * size_of::<usize>()) as u64;

/// The parts before `key`, and those from it on.
fn split(link: Link, key: &[u8], nodes: &mut u64) -> (Link, Link) {
    let Some(node) = link else {
        return (None, None);
    };
    let RangeTombstone { from, to, mark } = &node.tombstone;
    *nodes += 1;
    if ends_by(to, key) {
        let (before, after) = split(node.right.clone(), key, nodes);
        let before = node.with(node.tombstone.clone(), node.left.clone(), before);
        return (Some(before), after);
    }
    if key <= from.deref() {
        let (before, after) = split(node.left.clone(), key, nodes);
        let after = node.with(node.tombstone.clone(), after, node.right.clone());
        return (before, Some(after));
    }
    *nodes += 1;
    let (mark, between) = (*mark, SmallBytes::copy_from_slice(key));
    let first = RangeTombstone {
        from: from.clone(),
        to: between.clone(),
        mark,
    };
    let second = RangeTombstone {
        from: between,
        to: to.clone(),
        mark,
    };
    let before = node.with(first, node.left.clone(), None);
    let after = node.with(second, None, node.right.clone());
    (Some(before), Some(after))
}

/// Ranges, and others that come after them, together.
fn join(left: Link, right: Link, nodes: &mut u64) -> Link {
    let (Some(first), Some(second)) = (&left, &right) else {
        return left.or(right);
    };
    *nodes += 1;
    let top = match first.priority >= second.priority {
        true => {
            let below = join(first.right.clone(), right.clone(), nodes);
            first.with(first.tombstone.clone(), first.left.clone(), below)
        }
        false => {
            let below = join(left.clone(), second.left.clone(), nodes);
            second.with(second.tombstone.clone(), below, second.right.clone())
        }
    };
    Some(top)
}

impl Window {
    /// All keys, of which nothing is known.
    pub(crate) const ALL: Window = Window {
        from: SmallBytes::EMPTY,
        to: SmallBytes::EMPTY,
        mark: None,
    };

    /// The first of its keys; empty if none is before it.
    pub(crate) fn from(&self) -> &[u8] {
        &self.from
    }

    /// The first key after it; empty if there is none.
    pub(crate) fn to(&self) -> &[u8] {
        &self.to
    }

    pub(crate) fn has(&self, key: &[u8]) -> bool {
        self.from.deref() <= key && is_before(key, &self.to)
    }

    /// Leaves what is in the other too.
    pub(crate) fn narrow(&mut self, other: &Window) {
        if *self.from < *other.from {
            self.from = other.from.clone();
        }
        if !other.to.is_empty() && is_before(&other.to, &self.to) {
            self.to = other.to.clone();
        }
    }
}

/// The ranges that any of `all` has, in order. Adjacent ones become one.
pub(crate) fn union<'a>(all: impl Iterator<Item = &'a RangeTombstones>) -> Vec<RangeTombstone> {
    let mut tombstones: Vec<RangeTombstone> =
        all.flat_map(RangeTombstones::iter).cloned().collect();
    tombstones.sort_by(|a, b| a.from.cmp(&b.from));
    let mut union: Vec<RangeTombstone> = Vec::with_capacity(tombstones.len());
    for tombstone in tombstones {
        match union.last_mut() {
            Some(last) if is_before_or_at(&tombstone.from, &last.to) => {
                if !last.to.is_empty() && !ends_by(&tombstone.to, &last.to) {
                    last.to = tombstone.to;
                }
            }
            _ => union.push(tombstone),
        }
    }
    union
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn any_key() -> impl Strategy<Value = Vec<u8>> {
        vec(prop_oneof![Just(0u8), Just(7), Just(255)], 1..4)
    }

    /// Every key that tests use.
    fn keys() -> Vec<Vec<u8>> {
        let mut keys = vec![vec![]];
        for length in 0..3 {
            let longer: Vec<_> = keys
                .iter()
                .filter(|key| key.len() == length)
                .flat_map(|key| [0, 7, 255].map(|byte| [key.as_slice(), &[byte]].concat()))
                .collect();
            keys.extend(longer);
        }
        keys.remove(0);
        keys
    }

    fn ends_before(to: &[u8], from: &[u8]) -> bool {
        ends_by(to, from) && to != from
    }

    proptest! {
        #[test]
        fn each_key_has_the_mark_of_the_last_range_that_has_it(
            ranges in vec((any_key(), prop_oneof![4 => any_key(), 1 => Just(vec![])]), 1..30),
        ) {
            let keys = keys();
            let mut tombstones = RangeTombstones::default();
            let mut model = vec![None; keys.len()];
            let mut before = Vec::new();
            for (mark, (from, to)) in ranges.iter().enumerate() {
                before.push((tombstones.clone(), model.clone()));
                tombstones.add(from, to, mark as u32);
                for (key, said) in keys.iter().zip(&mut model) {
                    if key >= from && is_before(key, to) {
                        *said = Some(mark as u32);
                    }
                }
            }
            before.push((tombstones.clone(), model));
            for (tombstones, model) in &before {
                for (key, said) in keys.iter().zip(model) {
                    prop_assert_eq!(tombstones.mark(key), *said);
                    let after = tombstones.after(key);
                    for (other, said) in keys.iter().zip(model) {
                        prop_assert_eq!(after.mark(other), said.filter(|_| other >= key));
                    }
                    let window = tombstones.window(key);
                    prop_assert!(window.has(key));
                    prop_assert_eq!(window.mark, *said);
                    for (other, said) in keys.iter().zip(model) {
                        prop_assert!(!window.has(other) || window.mark == *said);
                    }
                }
                let all: Vec<_> = tombstones.iter().collect();
                for pair in all.windows(2) {
                    prop_assert!(ends_by(&pair[0].to, &pair[1].from));
                }
            }
            // Both together, and one after the other where they do not overlap.
            let middle = &before[before.len() / 2].0;
            let both = union([&tombstones, middle].into_iter());
            for pair in both.windows(2) {
                prop_assert!(ends_before(&pair[0].to, &pair[1].from));
            }
            let mut joined = RangeTombstones::default();
            for tombstone in &both {
                let mut one = RangeTombstones::default();
                one.add(&tombstone.from, &tombstone.to, 0);
                prop_assert!(joined.append(&one) && !joined.append(&one));
            }
            for key in &keys {
                let either = tombstones.mark(key).or(middle.mark(key)).is_some();
                prop_assert_eq!(joined.mark(key).is_some(), either);
            }
        }
    }
}
