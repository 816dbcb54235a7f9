//! [`FieldSet`]: the fields that a search tree has. There is a limit for their number, and for the
//! bytes of their names: a document may have each of them.
//!
//! # Invariants
//! 1. The tree has a list of its fields, and a field comes to it with the first of its values: the
//!    postings of a field of the list are all that there are.
//! 2. A field leaves the list only with the whole tree, and comes to it only while it is not full.
//!    So a field that was refused once is never indexed in part.
//! 3. Fields are written to the list in the batch that has their first postings.
//! 4. A second list has the fields of which some document has more values than are indexed, but
//!    for those past a limit: it is empty if there are none.
//!
//! Queries about a field that was refused read documents.

use super::postings::Postings;
use super::tree_postings::tree_error;
use super::{IndexedFields, key};
use crate::{Error, Result};
use parking_lot::Mutex;
use quire_index::{Posting, PostingChange};
use quire_lsm::TreeSnapshot;
use quire_store::{TreeBatch, TreeId};
use std::collections::{BTreeSet, HashSet};
use std::ops::{Bound, ControlFlow};
use xxhash_rust::xxh3::xxh3_128;

/// The most fields of a tree.
const FIELDS_MAX: usize = 10_000;

/// The most bytes of their names.
const NAMES_BYTES_MAX: usize = 1 << 20;

/// The most fields of each of the other lists whose names are kept.
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
    /// Bytes of the paths in it.
    listed_bytes: usize,
    refused: HashSet<u128>,
    with_many: HashSet<u128>,
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
            loaded.listed_bytes += path.len();
            loaded.listed.insert(xxh3_128(path))
        })?;
        each_name(tree, &key::refused(), &mut |name| {
            loaded.refused.insert(xxh3_128(name))
        })?;
        each_name(tree, &key::with_many(), &mut |path| {
            loaded.with_many.insert(xxh3_128(path))
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
        let bytes = known.listed_bytes + path.len();
        if known.listed.len() >= FIELDS_MAX || bytes > NAMES_BYTES_MAX {
            known.refuse(path);
            return false;
        }
        known.listed_bytes = bytes;
        known.listed.insert(hash);
        let list = [key::listed().as_slice(), path.as_bytes()].concat();
        known.unwritten.push(list);
        true
    }

    /// Takes a field of which a document has more values than are indexed, by the beginning of its
    /// keys.
    pub(crate) fn note_many(&self, field: &[u8]) {
        let Some(path) = key::path(field) else {
            return;
        };
        let mut known = self.known.lock();
        let known = known.get_or_insert_default();
        let path = path.as_bytes();
        if known.with_many.len() < REFUSED_MAX && known.with_many.insert(xxh3_128(path)) {
            known.unwritten.push([&key::with_many(), path].concat());
        }
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

/// What a tree's lists say of all its fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exceptions {
    /// Some were refused.
    pub(crate) refused: bool,
    /// Of some, a document has more values than are indexed.
    pub(crate) many: bool,
}

impl Exceptions {
    /// Those of a tree.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub(crate) fn of_tree(tree: &TreeSnapshot) -> Result<Exceptions> {
        let is_any = |list: &[u8]| {
            let mut is_any = false;
            each_name(tree, list, &mut |_| {
                is_any = true;
                false
            })?;
            Ok::<_, Error>(is_any)
        };
        Ok(Exceptions {
            refused: is_any(&key::refused())?,
            many: is_any(&key::with_many())?,
        })
    }
}

/// The names of fields that were refused, the first hundred: their beginnings, if they are long.
///
/// # Errors
/// Damage on disk, by file and offset.
pub(crate) fn refused_fields(tree: &TreeSnapshot) -> Result<Vec<String>> {
    names(tree, &key::refused())
}

/// The fields of which a document has, or had, more values than are indexed: the first hundred.
///
/// # Errors
/// Damage on disk, by file and offset.
pub(crate) fn fields_with_many(tree: &TreeSnapshot) -> Result<Vec<String>> {
    names(tree, &key::with_many())
}

/// How many documents have more values of a field than are indexed.
///
/// # Errors
/// Damage on disk, by file and offset.
pub(crate) fn count_with_many(tree: &TreeSnapshot, path: &str) -> Result<u64> {
    let entry = [key::field(path), vec![key::MANY]].concat();
    let end = key::after_prefix(&entry).unwrap_or_default();
    let (mut count, mut damage) = (0, None);
    tree.visit(&entry, &end, &mut |_, posting| match posting.len() {
        Ok(len) => {
            count += u64::from(len);
            ControlFlow::Continue(())
        }
        Err(damaged) => {
            damage = Some(damaged);
            ControlFlow::Break(())
        }
    })?;
    match damage {
        None => Ok(count),
        Some(damage) => Err(Error::Index {
            what: damage.to_string(),
        }),
    }
}

fn names(tree: &TreeSnapshot, list: &[u8]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    each_name(tree, list, &mut |name| {
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

/// Adds the fields in the list of the tree that begin with a prefix.
///
/// # Errors
/// Damage on disk, by file and offset.
pub(crate) fn add_listed_below(
    tree: &TreeSnapshot,
    prefix: &str,
    to: &mut BTreeSet<String>,
) -> Result<()> {
    let list = [key::listed().as_slice(), prefix.as_bytes()].concat();
    to.extend(
        names(tree, &list)?
            .into_iter()
            .map(|rest| format!("{prefix}{rest}")),
    );
    Ok(())
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
