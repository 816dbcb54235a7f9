//! The layout of a block, told by its last four bytes.

use super::fixed::{self, Fixed};
use super::place::EntryPlace;
use super::prefixed::Prefixed;
use crate::TableDamage;

#[derive(Debug, Clone, Copy)]
pub(super) enum Layout {
    Prefixed(Prefixed),
    Fixed(Fixed),
}

impl Layout {
    /// That of a block of these contents.
    pub(super) fn parse(contents: &[u8]) -> Result<Layout, TableDamage> {
        match contents.last_chunk::<4>() {
            Some(&fixed::MARK) => Fixed::parse(contents).map(Layout::Fixed),
            _ => Prefixed::parse(contents).map(Layout::Prefixed),
        }
    }

    /// The first entry at or after `key`, and whether its key is `key`.
    pub(super) fn search(
        self,
        contents: &[u8],
        key: &[u8],
    ) -> Result<Option<(EntryPlace, bool)>, TableDamage> {
        match self {
            Layout::Prefixed(prefixed) => prefixed.search(contents, key),
            Layout::Fixed(fixed) => Ok(fixed.search(contents, key)),
        }
    }

    /// Where an entry after the last would be.
    #[inline]
    pub(super) fn end(&self) -> usize {
        match self {
            Layout::Prefixed(prefixed) => prefixed.end(),
            Layout::Fixed(fixed) => fixed.end(),
        }
    }
}
