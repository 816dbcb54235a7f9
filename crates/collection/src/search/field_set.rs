//! [`FieldSet`]: the fields that a search tree has. There is a limit for their number.
//!
//! # Invariants
//! 1. The tree has a list of its fields, and a field comes to it with the first of its values: the
//!    postings of a field of the list are all that there are.
//! 2. A field leaves the list only with the whole tree, and comes to it only while it is not full.
//!    So a field that was refused once is never indexed in part.
//! 3. Fields are written to the list in the batch that has their first postings.
//!
//! Queries about a field that was refused read documents.

use super::tree_postings::tree_error;
use super::{IndexedFields, key};
use crate::Result;
use parking_lot::Mutex;
use quire_index::{Posting, PostingChange};
use quire_lsm::TreeSnapshot;
use quire_store::{TreeBatch, TreeId};
use std::collections::HashSet;
use std::ops::Bound;
use xxhash_rust::xxh3::xxh3_128;

/// The most fields of a tree.
const FIELDS_MAX: usize = 10_000;

/// The most fields that were refused whose names are kept.
const REFUSED_MAX: usize = 100;

/// Bytes that are kept of the name of a field that was refused.
const REFUSED_NAME_BYTES_MAX: usize = 100;

/// See the module.
#[derive(Debug)]
pub(crate) struct FieldSet {
    fields: IndexedFields,
    known: Mutex<Option<Known>>,
}

/// What the tree has of lists, and what is to be written to them. Paths are known by their hashes.
#[derive(Debug, Default)]
struct Known {
    listed: HashSet<u128>,
    refused: HashSet<u128>,
    unwritten: Vec<Vec<u8>>,
}

impl FieldSet {
    /// An empty one.
    pub(crate) fn new(fields: IndexedFields) -> FieldSet {
        FieldSet {
            fields,
            known: Mutex::default(),
        }
    }

    /// That of a tree.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub(crate) fn of_tree(fields: IndexedFields, tree: &TreeSnapshot) -> Result<FieldSet> {
        let set = FieldSet::new(fields);
        set.load(tree)?;
        Ok(set)
    }

    /// Forgets all: the tree is empty.
    pub(crate) fn clear(&self) {
        *self.known.lock() = Some(Known::default());
    }

    /// Reads the lists, if that has not been done.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub(crate) fn load(&self, tree: &TreeSnapshot) -> Result<()> {
        let mut known = self.known.lock();
        if known.is_some() {
            return Ok(());
        }
        let mut loaded = Known::default();
        each_name(tree, &key::listed(), &mut |path| {
            loaded.listed.insert(xxh3_128(path))
        })?;
        each_name(tree, &key::refused(), &mut |name| {
            loaded.refused.insert(xxh3_128(name))
        })?;
        *known = Some(loaded);
        Ok(())
    }

    /// Whether the field `path`, which a document has, is indexed. It comes to the list, or is
    /// refused.
    pub(crate) fn admits(&self, path: &str) -> bool {
        if !self.fields.includes(path) {
            return false;
        }
        let mut known = self.known.lock();
        let known = known.get_or_insert_default();
        let hash = xxh3_128(path.as_bytes());
        if known.listed.contains(&hash) {
            return true;
        }
        if known.listed.len() >= FIELDS_MAX {
            known.refuse(path);
            return false;
        }
        known.listed.insert(hash);
        let list = [key::listed().as_slice(), path.as_bytes()].concat();
        known.unwritten.push(list);
        true
    }

    /// Writes what is new.
    pub(crate) fn write(&self, tree: TreeId, batch: &mut TreeBatch) {
        let mut known = self.known.lock();
        let mut operand = Vec::new();
        PostingChange::new(Posting::default(), Posting::of_ascending(&[0])).encode(&mut operand);
        for mut name in std::mem::take(&mut known.get_or_insert_default().unwritten) {
            key::push_cluster(&mut name, 0);
            batch.merge(tree, &name, &operand);
        }
    }
}

impl Known {
    fn refuse(&mut self, path: &str) {
        let end = (0..=REFUSED_NAME_BYTES_MAX.min(path.len())).rev();
        let name = end.filter_map(|end| path.get(..end)).next();
        let name = name.unwrap_or_default().as_bytes();
        if self.refused.len() < REFUSED_MAX && self.refused.insert(xxh3_128(name)) {
            self.unwritten.push([&key::refused(), name].concat());
        }
    }
}

/// Whether the tree has a list of fields that were refused.
///
/// # Errors
/// Damage on disk, by file and offset.
pub(crate) fn refuses_some(tree: &TreeSnapshot) -> Result<bool> {
    let mut refuses = false;
    each_name(tree, &key::refused(), &mut |_| {
        refuses = true;
        false
    })?;
    Ok(refuses)
}

/// The names of fields that were refused, the first hundred: their beginnings, if they are long.
///
/// # Errors
/// Damage on disk, by file and offset.
pub(crate) fn refused_fields(tree: &TreeSnapshot) -> Result<Vec<String>> {
    let mut names = Vec::new();
    each_name(tree, &key::refused(), &mut |name| {
        names.push(String::from_utf8_lossy(name).into_owned());
        true
    })?;
    Ok(names)
}

/// Whether a field is in the list of the tree.
///
/// # Errors
/// Damage on disk, by file and offset.
pub(crate) fn is_listed(tree: &TreeSnapshot, path: &str) -> Result<bool> {
    let mut name = [key::listed().as_slice(), path.as_bytes()].concat();
    key::push_cluster(&mut name, 0);
    Ok(tree.get(&name).map_err(tree_error)?.is_some())
}

/// Shows the names of a list until `see` says false.
fn each_name(tree: &TreeSnapshot, list: &[u8], see: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
    let end = key::after_prefix(list).unwrap_or_default();
    let names = tree.scan(Bound::Included(list), Bound::Excluded(&end));
    for item in names.map_err(tree_error)? {
        let (name, _) = item.map_err(tree_error)?;
        let name = key::split_cluster(&name).and_then(|(name, _)| name.get(list.len()..));
        if !see(name.unwrap_or_default()) {
            break;
        }
    }
    Ok(())
}
