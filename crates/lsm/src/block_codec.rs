//! Block codec: how blocks of tables are stored.

use quire_pack::Packer;

/// How blocks are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockCodec {
    /// As they are.
    None,
    /// LZ4, where it saves at least an eighth.
    Lz4,
    /// zstd, where it saves at least an eighth: smaller than LZ4, for a few times the CPU.
    Zstd {
        /// From 1, which is fast, to 19, which is slow and small.
        level: u8,
    },
}

impl BlockCodec {
    pub(crate) fn of_pack(self) -> quire_pack::Codec {
        match self {
            BlockCodec::None => quire_pack::Codec::None,
            BlockCodec::Lz4 => quire_pack::Codec::Lz4,
            BlockCodec::Zstd { level } => quire_pack::Codec::Zstd {
                level,
                dictionary_bytes: 0,
            },
        }
    }

    /// What packs blocks so; `None` if they stay as they are.
    pub(crate) fn packer(self) -> Option<Packer> {
        (self != BlockCodec::None).then(|| Packer::new(self.of_pack(), None))
    }
}
