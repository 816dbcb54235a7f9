//! [`ColumnBlock`]: the values of one field for documents of one block of docids, read in place.
//!
//! Documents are named by their *lows*: docids less the first one of the block, below 65,536. A
//! layer says what values the documents that it *contains* have, or that they have none. It says
//! nothing of others. A column is a list of layers, of which the newest that contains a document
//! counts: see [`ColumnLayers`].
//!
//! # Invariants
//! 1. Values are terms, and an ordinal of a layer is a number whose order is that of the terms.
//!    Ordinals of two layers have nothing to do with each other.
//! 2. A document that has a term of more than [`TERM_BYTES_MAX`] bytes, or too many values, is only
//!    *marked*: its values must be read elsewhere.
//! 3. Nothing is decoded when a layer is opened: that takes constant time. Bytes that make no sense
//!    are an error or give a wrong answer; no allocation has a size that comes from the bytes
//!    alone.
//!
//! # Layout of a packed layer (little-endian)
//! ```text
//! 0      1       2        3       4       6      10       14     22      26       30      34
//! | 0x01 | flags | values | scale | first | rows | marked | base | lists | starts | codes |
//! 34           38            40               42    50
//! | dictionary | least bytes | greatest bytes | end | least | greatest | lows | marked lows |
//!                                                   | starts | codes | dictionary |
//!   flags   1: rows are of the lows listed, not of `first`, `first` + 1, ...; 2: a document may
//!           have several values; 4: ordinal 0 is null, of values that are numbers
//!   values  0: an ordinal is an index in the dictionary; 1: a distance from the integer `base`;
//!           2: likewise of decimals: integers divided by 10^`scale`; 3: of floats, as bits that
//!           sort as they do
//!   end     of numbers, more than any ordinal
//!   lists, starts, codes, dictionary: bytes of these parts; lists are both of lows, 2 bytes each
//!   codes   a column: ordinal + 1 of each row, or 0 for none. With `starts`, which is a column of
//!           `rows` + 1 numbers, row i has the codes from starts[i] up to starts[i + 1]
//!   least, greatest: the terms that are the bounds of all values; both empty if there are none
//! ```
//! Sources: Goldstein, Ramakrishnan, Shaft 1998, "Compressing relations and indexes"; the decimals
//! are those of Afroozeh, Kuffó, Boncz 2023, "ALP: Adaptive Lossless floating-Point Compression".

mod block;
mod encoded;
mod format;
mod inverted;
mod join;
mod layer;
mod layers;
mod merge;
mod numbers;
mod plain;
mod terms;
#[cfg(test)]
mod tests;
mod writer;

pub use block::ColumnBlock;
pub use format::{BLOCK_LOWS, TERM_BYTES_MAX, VALUES_MAX};
pub use inverted::{Inverted, InvertedBlock};
pub use layer::{ColumnLayer, ColumnLayers};
pub use layers::{combine_layers, fold_layers};
pub use numbers::{Number, Numbers};
pub use plain::PlainLayer;
pub use writer::ColumnBlockWriter;
