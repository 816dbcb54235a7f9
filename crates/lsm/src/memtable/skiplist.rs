//! Skip list: the memtable's keys in order, each with its versions, newest first.
//!
//! ```text
//!  head ──────────────► node "b" ─────────────────────────► end       upper links, one node in four per level
//!  head ──► node "a" ─► node "b" ──► node "bc" ──► node "c" ─► end    every node
//!             │            └ latest ──► version 9 ──► version 4       a new version is put in front
//!             └ latest ──► version 7
//! ```
//! Nodes and versions are numbered and lie in [`Pages`]; links are numbers. The one writer fills a node or version
//! first and publishes its number last, with release; readers load numbers with acquire. So what a reader can reach
//! is whole. Nothing is ever unlinked.
//!
//! A node keeps the first eight bytes of its key as a big-endian integer beside it: most comparisons end there.

use super::pages::Pages;
use crate::fold::Entry;
use crate::{Error, Result, SmallBytes};
use quire_model::Position;
use std::cmp::Ordering as Order;
use std::mem::size_of;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number that ends every list. Read as a predecessor it is the head.
pub(crate) const END: u32 = 0;
const HEAD: u32 = END;

/// Levels of links; with one node in four going up a level, enough for 4^12 = 16 M keys, and correct beyond.
const HEIGHT_MAX: usize = 12;

/// What the allocator keeps beside each allocation, about.
const ALLOCATION_BYTES: u64 = 16;

#[derive(Debug)]
struct Node {
    prefix: u64,
    key: SmallBytes,
    /// Its newest version.
    latest: AtomicU32,
    /// The next node on the lowest level.
    next: AtomicU32,
    /// Where its upper links begin: the link of level n > 0 is number `upper + n - 1`.
    upper: u32,
}

#[derive(Debug)]
struct Version {
    position: Position,
    older: u32,
    entry: Entry,
}

#[derive(Debug)]
pub(crate) struct SkipList {
    nodes: Pages<OnceLock<Node>>,
    versions: Pages<OnceLock<Version>>,
    upper: Pages<AtomicU32>,
    head: [AtomicU32; HEIGHT_MAX],
}

/// The writer's side: numbers given out so far, and its dice.
#[derive(Debug)]
pub(crate) struct Growth {
    nodes: u32,
    versions: u32,
    upper: u32,
    dice: u32,
    /// The last node on each level: where a key after all others goes, without a search. Numbers that are given
    /// out in order, such as docids, make keys of that kind.
    last: [u32; HEIGHT_MAX],
}

impl Growth {
    pub(crate) fn new() -> Growth {
        Growth {
            nodes: HEAD,
            versions: END,
            upper: 0,
            dice: 0x9e37_79b9,
            last: [HEAD; HEIGHT_MAX],
        }
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> u32 {
        self.nodes
    }

    /// A height of 1 to [`HEIGHT_MAX`], each next one a quarter as likely. Always the same sequence.
    fn height(&mut self) -> usize {
        // Xorshift (Marsaglia 2003).
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 17;
        self.dice ^= self.dice << 5;
        (1 + self.dice.trailing_zeros() as usize / 2).min(HEIGHT_MAX)
    }
}

/// What bytes of a key or value cost beside their node or version.
fn allocated(bytes: &SmallBytes) -> u64 {
    match bytes.allocated() as u64 {
        0 => 0,
        allocated => allocated + ALLOCATION_BYTES,
    }
}

/// The next number after `last`.
fn number(last: u32) -> Result<u32> {
    last.checked_add(1)
        .ok_or_else(|| Error::InvalidArgument("the memtable is full: freeze it".into()))
}

/// The first eight bytes of a key, zeros past its end: never out of order with the keys.
fn prefix(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => key
            .iter()
            .rev()
            .fold(0, |prefix, &byte| prefix >> 8 | u64::from(byte) << 56),
    }
}

impl Node {
    fn cmp(&self, prefix: u64, key: &[u8]) -> Order {
        self.prefix.cmp(&prefix).then_with(|| (*self.key).cmp(key))
    }
}

impl SkipList {
    pub(crate) fn new() -> SkipList {
        SkipList {
            nodes: Pages::new(),
            versions: Pages::new(),
            upper: Pages::new(),
            head: [const { AtomicU32::new(END) }; HEIGHT_MAX],
        }
    }

    fn node(&self, number: u32) -> Option<&Node> {
        self.nodes.get(number)?.get()
    }

    /// The link of `node` on `level`, of which it must have one.
    fn link(&self, node: u32, level: usize) -> Option<&AtomicU32> {
        match (node, level) {
            (HEAD, _) => self.head.get(level),
            (_, 0) => self.node(node).map(|node| &node.next),
            _ => self.upper.get(self.node(node)?.upper + level as u32 - 1),
        }
    }

    fn next(&self, node: u32, level: usize) -> u32 {
        self.link(node, level)
            .map_or(END, |link| link.load(Ordering::Acquire))
    }

    /// The first node at or after `key`. `before` is told, from the top, the last node before it on each level.
    fn descend(&self, key: &[u8], mut before: impl FnMut(usize, u32)) -> u32 {
        let prefix = prefix(key);
        let (mut at, mut next) = (HEAD, END);
        for level in (0..HEIGHT_MAX).rev() {
            // The node that ended the level above ends this one too.
            let known = next;
            loop {
                next = self.next(at, level);
                if next == known
                    || self
                        .node(next)
                        .is_none_or(|node| node.cmp(prefix, key) != Order::Less)
                {
                    break;
                }
                at = next;
            }
            before(level, at);
        }
        next
    }

    /// The first node at or after `key`.
    pub(crate) fn seek(&self, key: &[u8]) -> u32 {
        self.descend(key, |_, _| ())
    }

    /// The last node before `key`; [`END`] if there is none.
    pub(crate) fn before(&self, key: &[u8]) -> u32 {
        let mut last = HEAD;
        self.descend(key, |_, node| last = node);
        last
    }

    /// The last node; [`END`] if there is none.
    pub(crate) fn last(&self) -> u32 {
        let mut at = HEAD;
        for level in (0..HEIGHT_MAX).rev() {
            loop {
                match self.next(at, level) {
                    END => break,
                    next => at = next,
                }
            }
        }
        at
    }

    /// The node after `node`.
    pub(crate) fn after(&self, node: u32) -> u32 {
        self.next(node, 0)
    }

    /// The key of `node`; `None` for [`END`].
    pub(crate) fn key(&self, node: u32) -> Option<&[u8]> {
        Some(&self.node(node)?.key)
    }

    /// The number of the newest version of `node`.
    pub(crate) fn latest(&self, node: u32) -> u32 {
        let latest = self
            .node(node)
            .map(|node| node.latest.load(Ordering::Acquire));
        latest.unwrap_or(END)
    }

    /// Reads a version, by its number, and gives its position.
    pub(crate) fn position(&self, version: u32) -> Option<Position> {
        Some(self.versions.get(version)?.get()?.position)
    }

    /// The newest version of `node` at or before `at`.
    pub(crate) fn visible(&self, node: u32, at: Position) -> Option<&Entry> {
        let mut version = self.node(node)?.latest.load(Ordering::Acquire);
        loop {
            let found = self.versions.get(version)?.get()?;
            if found.position <= at {
                return Some(&found.entry);
            }
            version = found.older;
        }
    }

    /// Whether `key` is after every key there is.
    fn is_past_all(&self, growth: &Growth, key: &[u8]) -> bool {
        let [last, ..] = growth.last;
        self.node(last)
            .is_some_and(|node| node.cmp(prefix(key), key) == Order::Less)
    }

    /// Writes a version of `key`, made by `make` from the newest one there is; its node is `known`, or there is none. One
    /// caller at a time, positions ascending. Returns the node, and the bytes this took. If `make` fails, nothing changes.
    pub(crate) fn upsert(
        &self,
        growth: &mut Growth,
        key: &[u8],
        known: Option<u32>,
        position: Position,
        make: impl FnOnce(Option<&Entry>) -> Result<Entry>,
    ) -> Result<(u32, u64)> {
        let node = known.and_then(|known| self.node(known));
        let version = number(growth.versions)?;
        let new_node = number(growth.nodes)?;
        let older = node.map_or(END, |node| node.latest.load(Ordering::Relaxed));
        let entry = make(
            self.versions
                .get(older)
                .and_then(OnceLock::get)
                .map(|older| &older.entry),
        )?;

        let mut bytes = allocated(&entry.value) + self.versions.grow(version);
        growth.versions = version;
        if let Some(slot) = self.versions.get(version) {
            slot.get_or_init(|| Version {
                position,
                older,
                entry,
            });
        }
        match node {
            Some(node) => node.latest.store(version, Ordering::Release),
            None => {
                let mut before = growth.last;
                let next = if self.is_past_all(growth, key) {
                    END
                } else {
                    self.descend(key, |level, node| {
                        if let Some(slot) = before.get_mut(level) {
                            *slot = node;
                        }
                    })
                };
                growth.nodes = new_node;
                bytes += self.insert(growth, new_node, key, version, &before, next);
            }
        }
        Ok((known.unwrap_or(new_node), bytes))
    }

    /// Links a new node of one version behind the nodes in `before`, and before `next`. Returns the bytes this took.
    fn insert(
        &self,
        growth: &mut Growth,
        number: u32,
        key: &[u8],
        version: u32,
        before: &[u32; HEIGHT_MAX],
        next: u32,
    ) -> u64 {
        let height = growth.height();
        let upper = growth.upper;
        let kept = SmallBytes::copy_from_slice(key);
        let mut bytes = allocated(&kept) + self.nodes.grow(number);
        for (level, &node) in before.iter().enumerate().take(height).skip(1) {
            bytes += self.upper.grow(growth.upper);
            if let Some(link) = self.upper.get(growth.upper) {
                link.store(self.next(node, level), Ordering::Relaxed);
            }
            // There are a third as many upper links as nodes: node numbers run out long before these.
            growth.upper = growth.upper.wrapping_add(1);
        }
        if let Some(slot) = self.nodes.get(number) {
            slot.get_or_init(|| Node {
                prefix: prefix(key),
                key: kept,
                latest: AtomicU32::new(version),
                next: AtomicU32::new(next),
                upper,
            });
        }
        // Lowest level first: a reader that meets the node higher up can go on below.
        for (level, &node) in before.iter().enumerate().take(height) {
            if let Some(link) = self.link(node, level) {
                if link.load(Ordering::Relaxed) == END
                    && let Some(last) = growth.last.get_mut(level)
                {
                    *last = number;
                }
                link.store(number, Ordering::Release);
            }
        }
        bytes
    }
}

/// Node, version and a share of the upper links: what an entry costs beside its key and value.
const _: () = assert!(size_of::<OnceLock<Node>>() + size_of::<OnceLock<Version>>() <= 128);
