//! What the layouts of layers have in common.

use crate::IndexDamage;

/// Terms up to this many bytes are in columns. A document that has a longer one is marked.
pub const TERM_BYTES_MAX: usize = 256;

/// A document that has more values than this is marked.
pub const VALUES_MAX: usize = 256;

/// Documents of a block.
pub const BLOCK_LOWS: usize = 1 << 16;

pub(super) const PACKED: u8 = 1;
pub(super) const LISTED: u8 = 1;
pub(super) const MANY: u8 = 2;
pub(super) const HAS_NULL: u8 = 4;
pub(super) const HEADER_BYTES: usize = 50;

/// What is wrong with a packed layer that makes no sense.
pub(super) fn damaged() -> IndexDamage {
    IndexDamage::new("column block", 0)
}
