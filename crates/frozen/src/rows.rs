//! Rows: bytes by docid, in blocks that are packed and checked one by one. Documents are rows, and
//! so are payloads.
//!
//! # Invariants
//! 1. A row lies in one block. A block ends with the first row that fills it.
//! 2. A block is compared with its checksum before it is unpacked. Its unpacked length is what the
//!    directory says.
//! 3. The block that was read last is kept unpacked, unless it has one row: so reading rows in
//!    order unpacks each block once.
//! 4. Blocks are small, because a query reads rows from anywhere. Small blocks alone pack badly, so
//!    they share a dictionary: that of zstd, or for LZ4 a few rows of the file, to which each block
//!    refers back as if they came right before it, or the symbols that short blocks are made of.
//!
//! # Layout (little-endian)
//! ```text
//! block      | packing (1) | crc (4) | stored bytes |
//!   packing as in the log: 0 none, 1 LZ4 block format, 2 a frame of zstd; 3 symbols; and 128 if
//!   it needs the dictionary
//!   crc: CRC-32C of the stored bytes, the block's offset in the file (8), its packing (1), and
//!   its raw length (7)
//! directory  | ends | firsts | offsets | lengths | dictionary | ends of the first four (4 × 8) |
//!   ends: a column of one row more than there are documents: where the row of each begins in the
//!   concatenation of all rows
//!   firsts, offsets, lengths: columns by block: its first docid, its offset in the file, its
//!   bytes, stored and with header
//!   dictionary: of zstd or of LZ4, or a table of symbols, or nothing
//! ```
//! A document without a row has an empty one. Blocks are in the file in the order in which they
//! were written; the directory is a section.

mod block;
mod directory;
mod reader;
mod writer;

pub use block::ROW_BYTES_MAX;
pub(crate) use directory::Directory;
pub(crate) use reader::Rows;
pub(crate) use writer::RowsWriter;
