//! [`Symbols`]: a table of the byte strings that are most frequent in some records, each of which
//! one byte stands for. A piece that is packed so refers to nothing but the table: it is unpacked
//! several times as fast as LZ4 behind a prefix, and short ones are as small.
//!
//! Source: Boncz, Neumann, Leis 2020, "FSST: Fast random access string compression".
//!
//! # Layout
//! ```text
//! table   the symbols, at most 255, of 8 bytes each: shorter ones end with zeros
//! packed  bytes: below 255 a symbol's number; 255: the next byte stands for itself
//! ```
//! A symbol is as long as its bytes without the zeros that it ends with, but at least one byte.

use fsst::{Compressor, Decompressor, ESCAPE_CODE, Symbol};
use std::fmt;

const SYMBOLS_MAX: usize = 255;
const SYMBOL_BYTES: usize = 8;

/// The longest piece that is packed by symbols, in bytes: longer ones are for codecs that find what
/// a piece repeats. Unpacking takes up to 8 times as much memory for a moment.
pub const SYMBOLS_RAW_MAX: usize = 16 << 10;

/// Packs pieces by the symbols that it was trained to.
pub struct SymbolPacker(Compressor);

/// A table of symbols, to unpack by.
pub struct Symbols {
    symbols: [Symbol; SYMBOLS_MAX],
    lengths: [u8; SYMBOLS_MAX],
}

impl fmt::Debug for SymbolPacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SymbolPacker").finish_non_exhaustive()
    }
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Symbols").finish_non_exhaustive()
    }
}

impl SymbolPacker {
    /// Trains a table on records that lie one after another in `samples`, and have these lengths.
    /// The same records make the same table.
    #[must_use]
    pub fn train(samples: &[u8], lengths: &[usize]) -> SymbolPacker {
        let mut rest = samples;
        let records = lengths.iter().map_while(|length| {
            let (record, behind) = rest.split_at_checked(*length)?;
            rest = behind;
            Some(record)
        });
        SymbolPacker(Compressor::train(&records.collect()))
    }

    /// The table, which a reader needs.
    #[must_use]
    pub fn table(&self) -> Vec<u8> {
        let symbols = self.0.symbol_table().iter();
        symbols
            .flat_map(|symbol| symbol.to_u64().to_le_bytes())
            .collect()
    }

    /// Appends `raw` to `out`, packed. False, and nothing is appended, if that does not make it
    /// smaller, or if it is longer than [`SYMBOLS_RAW_MAX`].
    pub fn pack(&self, raw: &[u8], out: &mut Vec<u8>) -> bool {
        if raw.len() > SYMBOLS_RAW_MAX {
            return false;
        }
        let packed = self.0.compress(raw);
        let is_smaller = packed.len() < raw.len();
        if is_smaller {
            out.extend_from_slice(&packed);
        }
        is_smaller
    }
}

impl Symbols {
    /// `None` if these bytes are no table.
    #[must_use]
    pub fn new(table: &[u8]) -> Option<Symbols> {
        let (chunks, rest) = table.as_chunks::<SYMBOL_BYTES>();
        (rest.is_empty() && chunks.len() <= SYMBOLS_MAX).then_some(())?;
        let mut symbols = [Symbol::ZERO; SYMBOLS_MAX];
        for (symbol, bytes) in symbols.iter_mut().zip(chunks) {
            *symbol = Symbol::from_slice(bytes);
        }
        let lengths = symbols.map(|symbol| symbol.len() as u8);
        Some(Symbols { symbols, lengths })
    }

    /// The `raw_length` bytes that were packed as `stored`; `None` if it holds anything else.
    #[must_use]
    pub fn unpack(&self, stored: &[u8], raw_length: usize) -> Option<Vec<u8>> {
        let is_packed = raw_length <= SYMBOLS_RAW_MAX && stored.len() < raw_length;
        (is_packed && !is_cut_off(stored)).then_some(())?;
        let raw = Decompressor::new(&self.symbols, &self.lengths).decompress(stored);
        (raw.len() == raw_length).then_some(raw)
    }
}

/// Whether packed bytes end where a byte that stands for itself is to come.
fn is_cut_off(stored: &[u8]) -> bool {
    let bytes = stored.iter().rev();
    let escapes = bytes.take_while(|byte| **byte == ESCAPE_CODE).count();
    escapes % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trained(records: &[Vec<u8>]) -> SymbolPacker {
        let lengths: Vec<usize> = records.iter().map(Vec::len).collect();
        SymbolPacker::train(&records.concat(), &lengths)
    }

    fn adverts() -> Vec<Vec<u8>> {
        let advert = |n: usize| format!("{{\"mark\":\"m{}\",\"price\":{}}}", n % 9, n * 37);
        (0..300).map(|n| advert(n).into_bytes()).collect()
    }

    #[test]
    fn what_was_packed_comes_back_and_is_smaller_if_records_are_alike() {
        let mut records = adverts();
        let packer = trained(&records);
        let symbols = Symbols::new(&packer.table()).unwrap();
        let (mut packed, mut whole) = (0, 0);
        // Bytes that no record has, zeros, and the byte that an escape is.
        records.extend([vec![0; 50], [0xff, 0, 1].repeat(20), (0..=255).collect()]);
        for record in &records {
            let mut out = Vec::new();
            if packer.pack(record, &mut out) {
                assert_eq!(symbols.unpack(&out, record.len()).as_ref(), Some(record));
                assert_eq!(symbols.unpack(&out, record.len() + 1), None);
                (packed, whole) = (packed + out.len(), whole + record.len());
            }
        }
        assert!(packed * 2 < whole, "{packed} of {whole}");
    }

    #[test]
    fn bytes_that_were_never_packed_are_refused_or_unpack_to_their_length() {
        let symbols = Symbols::new(&trained(&adverts()).table()).unwrap();
        let mut state = 7_u64;
        let mut byte = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let byte = (state >> 56) as u8;
            if byte < 64 { ESCAPE_CODE } else { byte }
        };
        for length in 0..400 {
            let stored: Vec<u8> = (0..length).map(|_| byte()).collect();
            for raw_length in [0, length, 3 * length, 8 * length, usize::MAX] {
                let raw = symbols.unpack(&stored, raw_length);
                assert!(raw.is_none_or(|raw| raw.len() == raw_length));
            }
        }
        assert!(Symbols::new(&[1; 7]).is_none() && Symbols::new(&[1; 256 * 8]).is_none());
    }

    #[test]
    fn nothing_to_learn_is_a_table_without_symbols() {
        let packer = SymbolPacker::train(b"", &[]);
        assert!(!packer.pack(b"abc", &mut Vec::new()));
        assert!(Symbols::new(&packer.table()).is_some());
    }
}
