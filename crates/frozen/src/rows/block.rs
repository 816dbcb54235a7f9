//! Blocks of rows: their header and checksum.

pub(super) const HEADER_BYTES: usize = 5;
/// Flag in the byte of the packing: the block needs the dictionary.
pub(super) const WITH_DICTIONARY: u8 = 0x80;

/// The packing of blocks that the symbols of the dictionary stand in.
pub(super) const BY_SYMBOLS: u8 = 3;

/// The longest row, in bytes.
pub const ROW_BYTES_MAX: usize = 64 << 20;

pub(super) fn checksum(stored: &[u8], offset: u64, raw_length: u64, packing: u8) -> u32 {
    let mut place = [0; 16];
    let (of_offset, of_block) = place.split_at_mut(8);
    of_offset.copy_from_slice(&offset.to_le_bytes());
    of_block.copy_from_slice(&(raw_length << 8 | u64::from(packing)).to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(stored), &place)
}
