//! Text of the binlog, which is in the character set of its column, as UTF-8.

/// Bytes 0x80 to 0x9f of `latin1`, which is Windows code page 1252 with its five holes as they are.
const CP1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// A character set that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Charset {
    /// `utf8mb4`, `utf8mb3`, `ascii`.
    Utf8,
    Latin1,
}

impl Charset {
    /// The set of this name; none if it can't be read.
    pub(crate) fn named(name: &str) -> Option<Charset> {
        match name {
            "utf8mb4" | "utf8mb3" | "utf8" | "ascii" => Some(Charset::Utf8),
            "latin1" => Some(Charset::Latin1),
            _ => None,
        }
    }

    pub(crate) fn decode(self, bytes: Vec<u8>) -> Vec<u8> {
        if self == Charset::Utf8 || bytes.is_ascii() {
            return bytes;
        }
        let text: String = bytes
            .iter()
            .map(|byte| match byte {
                0x80..=0x9f => CP1252[usize::from(byte - 0x80)],
                _ => char::from(*byte),
            })
            .collect();
        text.into_bytes()
    }
}
