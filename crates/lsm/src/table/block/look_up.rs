//! Looking a key up in a block.

use super::contents::Block;
use super::layout::Layout;
use super::place::EntryPlace;
use crate::entry::{Entry, Visit};
use crate::entry_kind::EntryKind;
use crate::{SmallBytes, TableDamage};
use std::ops::Range;
use std::sync::Arc;

/// What a block of these contents says of `key`: the value is shown to the visitor, or copied.
///
/// # Errors
/// [`TableDamage`] if the contents make no sense.
pub(crate) fn visit_entry(
    contents: &[u8],
    key: &[u8],
    visit: &mut Visit<'_>,
) -> Result<Option<Entry>, TableDamage> {
    let found = Layout::parse(contents)?.search(contents, key)?;
    Ok(found
        .filter(|(_, is_key)| *is_key)
        .map(|(place, _)| visit.entry(place.kind, contents.get(place.value).unwrap_or_default())))
}

impl Block {
    /// What it says of `key`.
    pub(crate) fn get(self: &Arc<Self>, key: &[u8]) -> Result<Option<Entry>, TableDamage> {
        let found = self.search(key)?.filter(|(_, is_key)| *is_key);
        Ok(found.map(|(place, _)| self.entry_at(place.kind, place.value)))
    }

    pub(super) fn entry_at(self: &Arc<Self>, kind: EntryKind, value: Range<usize>) -> Entry {
        let value = SmallBytes::part(self, value);
        Entry { kind, value }
    }

    /// The first entry at or after `key`, and whether its key is `key`.
    pub(super) fn search(&self, key: &[u8]) -> Result<Option<(EntryPlace, bool)>, TableDamage> {
        self.layout.search(&self.bytes, key)
    }
}
