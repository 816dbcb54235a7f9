//! [`Codec`]: which packing is wished for.

/// The highest level of zstd: those above take memory by the hundred megabytes.
const ZSTD_LEVEL_MAX: u8 = 19;
/// zstd makes none smaller.
const DICTIONARY_BYTES_MIN: usize = 256;
/// The largest dictionary.
pub const DICTIONARY_BYTES_MAX: usize = 1 << 20;

/// How pieces are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Codec {
    /// As they are: least CPU, most disk.
    None,
    /// LZ4: several times smaller for text, at a cost far below that of the disk read it saves.
    #[default]
    Lz4,
    /// zstd: smaller still, at a few times the CPU of LZ4.
    Zstd {
        /// From 1, which is fast, to 19, which is slow and small.
        level: u8,
        /// The most bytes of a dictionary trained on what is packed, which each file then holds; 0
        /// for none, else from 256 to 1 MiB. Pays where records are alike and blocks small.
        dictionary_bytes: u32,
    },
}

impl Codec {
    /// Refuses levels and lengths that there are not.
    ///
    /// # Errors
    /// Says what must be how.
    pub fn check(self) -> Result<(), String> {
        let Codec::Zstd {
            level,
            dictionary_bytes,
        } = self
        else {
            return Ok(());
        };
        if level == 0 || level > ZSTD_LEVEL_MAX {
            let what = format!("zstd's level is {level}, and must be from 1 to {ZSTD_LEVEL_MAX}");
            return Err(what);
        }
        let bytes = dictionary_bytes as usize;
        if bytes != 0 && !(DICTIONARY_BYTES_MIN..=DICTIONARY_BYTES_MAX).contains(&bytes) {
            return Err(format!(
                "dictionary_bytes is {bytes}, and must be 0 or from {DICTIONARY_BYTES_MIN} to \
                 {DICTIONARY_BYTES_MAX}"
            ));
        }
        Ok(())
    }

    /// The most bytes of a dictionary; 0 without.
    #[must_use]
    pub fn dictionary_bytes(self) -> usize {
        match self {
            Codec::Zstd {
                dictionary_bytes, ..
            } => dictionary_bytes as usize,
            Codec::None | Codec::Lz4 => 0,
        }
    }

    /// Whether it is zstd.
    #[must_use]
    pub fn is_zstd(self) -> bool {
        matches!(self, Codec::Zstd { .. })
    }
}
