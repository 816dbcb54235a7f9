//! Table file: sorted entries, one per key, written once.
//!
//! # Invariants
//! 1. Keys ascend strictly through the file.
//! 2. Every byte lies in exactly one checksummed thing: header, block, or footer.
//! 3. The footer is written last, and a manifest names a table only after its sync: a named table
//!    is whole.
//!
//! # Layout
//! ```text
//! | header | data block … | filter page … | index block … | top index | properties | footer |
//!          24             filter offset   index offset    top offset  |            end - 48
//!                                                                     properties offset
//! ```
//! A table that deletes ranges of keys has them in a frame of its own before the filter pages: see
//! [`ranges`].
//!
//! - A *block* is stored as [`frame`] says: its contents, the codec, a CRC-32C.
//! - Data and index blocks hold entries as [`block`] says. An index block's entry is a key at or
//!   after the last of a data block and before the first of the next, and as value that block's
//!   offset and stored length (variable-length integers). The top index block's entries say the
//!   same of the index blocks.
//! - Filter pages are as [`filter`] says, properties as [`properties`], header and footer as
//!   [`footer`].
//!
//! A point read queries one filter page, searches the top index (pinned), one index block and one
//! data block. All but the top index come through the block cache, where they are kept checked and
//! decoded, and are found by the slots of the [`node`] above them while they are there; or, if the
//! tree is mapped, data blocks are looked at where they lie ([`mapped`]). Filter pages are in
//! [`paged_filter`], as the pager has them.

mod block;
mod blocks;
mod copy;
mod cursor;
mod file;
mod filter;
mod footer;
mod frame;
mod index;
mod mapped;
mod node;
mod paged_filter;
mod prefetched;
mod properties;
mod ranges;
mod reader;
mod verify;
mod writer;

pub(crate) use block::Block;
pub(crate) use blocks::Access;
pub use copy::{TableCopy, TablePieces};
pub(crate) use cursor::TableCursor;
pub(crate) use filter::{bits_per_key, hash};
pub(crate) use mapped::Origin;
pub(crate) use paged_filter::{FilterQuery, PagedFilter};
pub(crate) use reader::{Counters, Table};
pub use verify::{TableCheck, TableVerify, verify_table};
pub(crate) use writer::TableWriter;

#[cfg(test)]
mod tests;
