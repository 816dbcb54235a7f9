//! Bytes made smaller, and read again: LZ4, zstd, and dictionaries and symbols of what many pieces
//! have in common. No I/O.
//!
//! How a piece is packed, how long it was, and its checksum are for its keeper to note.

mod codec;
mod dictionary;
mod packer;
mod symbols;

pub use codec::{Codec, DICTIONARY_BYTES_MAX};
pub use dictionary::Dictionary;
pub use packer::{Packer, Packing, unpack, unpack_lz4_behind};
pub use symbols::{SYMBOLS_RAW_MAX, SymbolPacker, Symbols};
