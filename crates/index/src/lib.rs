//! What an index is made of, in memory. No I/O.
//!
//! - [`DocSet`]: a set of docids, for what a predicate matches.
//! - [`Posting`]: the documents of one value in one cluster of docids, and how they change.
//! - [`SetView`]: the same in the bytes of a file, used where it lies.
//! - [`Column`]: numbers by row, packed, read and scanned in place.
//! - [`ColumnBlock`]: the values of a field for a block of docids, and how they change.
//! - [`Dictionary`]: distinct values in order, found by value or by code, in place.
//! - [`term`]: a scalar value as bytes whose order and equality are those of filters.

mod cluster;
mod column;
mod column_block;
mod damage;
mod dictionary;
mod doc_set;
mod le;
pub mod number_key;
mod packed;
mod posting;
mod set_view;
mod side_by_side;
pub mod term;
mod varint;

pub use column::{BLOCK_ROWS, Column, ColumnHead, ColumnWriter, Encoding, Frame, Zone};
pub use column_block::{
    BLOCK_LOWS, ColumnBlock, ColumnBlockWriter, ColumnLayer, ColumnLayers, Inverted, InvertedBlock,
    Number, Numbers, PlainLayer, TERM_BYTES_MAX, VALUES_MAX, combine_layers, fold_layers,
};
pub use damage::IndexDamage;
pub use dictionary::{Dictionary, DictionaryEncoding, DictionaryHead, DictionaryWriter, shared};
pub use doc_set::{DocSet, Iter, Ranges};
pub use posting::{
    POSTING_BYTES_MAX, Posting, PostingChange, add_posting_bits, encode_added, is_posting,
    posting_len,
};
pub use set_view::{SetView, encode_set};
