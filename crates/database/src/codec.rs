//! Codec: how the documents of a collection are compressed, in words: `none`, `lz4`, `zstd` or
//! `zstd(LEVEL)`.

use std::fmt;
use std::str::FromStr;

/// The level of `zstd` without one.
const LEVEL_DEFAULT: u8 = 3;
/// The highest: those above take memory by the hundred megabytes.
const LEVEL_MAX: u8 = 19;

/// How documents are compressed on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Codec {
    /// As they are: least CPU, most disk.
    None,
    /// LZ4: about a third of the disk for JSON, at little CPU.
    #[default]
    Lz4,
    /// zstd of a level from 1, which is fast, to 19, which is slow and small: less disk than LZ4,
    /// more CPU.
    Zstd(u8),
}

impl Codec {
    /// Checks the level.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn check(self) -> Result<(), String> {
        match self {
            Codec::Zstd(level) if level == 0 || level > LEVEL_MAX => Err(format!(
                "the level of zstd is {level}; it must be 1 to {LEVEL_MAX}"
            )),
            _ => Ok(()),
        }
    }

    /// The codec of a log, with a dictionary of at most `dictionary_bytes`.
    pub fn of_log(self, dictionary_bytes: u32) -> quire_store::Codec {
        match self {
            Codec::None => quire_store::Codec::None,
            Codec::Lz4 => quire_store::Codec::Lz4,
            Codec::Zstd(level) => quire_store::Codec::Zstd {
                level,
                dictionary_bytes,
            },
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Codec::None => f.write_str("none"),
            Codec::Lz4 => f.write_str("lz4"),
            Codec::Zstd(LEVEL_DEFAULT) => f.write_str("zstd"),
            Codec::Zstd(level) => write!(f, "zstd({level})"),
        }
    }
}

impl FromStr for Codec {
    type Err = String;

    fn from_str(text: &str) -> Result<Codec, String> {
        let level = text
            .strip_prefix("zstd(")
            .and_then(|rest| rest.strip_suffix(')'))
            .and_then(|level| level.parse().ok());
        let codec = match (text, level) {
            ("none", _) => Codec::None,
            ("lz4", _) => Codec::Lz4,
            ("zstd", _) => Codec::Zstd(LEVEL_DEFAULT),
            (_, Some(level)) => Codec::Zstd(level),
            _ => {
                return Err(format!(
                    "unknown codec {text:?}: use none, lz4, zstd or zstd(LEVEL)"
                ));
            }
        };
        codec.check().map(|()| codec)
    }
}
