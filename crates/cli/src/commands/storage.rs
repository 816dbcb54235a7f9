//! The options of `quire create` and `quire alter` that say how documents are kept on disk.

use crate::size::{Age, Size};
use quiredb::{Codec, CollectionSettings};

/// How documents are kept on disk
#[derive(Debug, clap::Args)]
pub(super) struct Storage {
    /// How documents are compressed: none, lz4, zstd or zstd(LEVEL), 1 to 19 [default: lz4]
    #[arg(long)]
    codec: Option<Codec>,
    /// How much is compressed and read together, 1KiB to 16MiB: more takes less disk, and more time
    /// for a single document [default: 16KiB]
    #[arg(long, value_name = "SIZE")]
    block_size: Option<Size>,
    /// With zstd: the size of a dictionary trained on the documents, 1KiB to 1MiB; 0 for none
    /// [default: 0]
    #[arg(long, value_name = "SIZE")]
    dictionary: Option<Size>,
    /// Begin a new file of the log when the newest is this many seconds old, however small; 0 for
    /// never [default: 0]
    #[arg(long, value_name = "SECONDS")]
    segment_age: Option<u64>,
    /// Delete documents that were not written for so long: 30d, 12h, 90m; 0 for never [default: 0]
    #[arg(long, value_name = "AGE")]
    retention_age: Option<Age>,
    /// Delete the documents that were not written for longest while all take more than this,
    /// uncompressed: 100GiB; 0 for no bound [default: 0]
    #[arg(long, value_name = "SIZE")]
    retention_size: Option<Size>,
}

impl Storage {
    /// Takes over what was given.
    pub(super) fn apply(&self, settings: &mut CollectionSettings) {
        let bytes = |Size(bytes)| u32::try_from(bytes).unwrap_or(u32::MAX);
        settings.codec = self.codec.unwrap_or(settings.codec);
        settings.block_bytes = self.block_size.map_or(settings.block_bytes, bytes);
        settings.dictionary_bytes = self.dictionary.map_or(settings.dictionary_bytes, bytes);
        settings.segment_age_secs = self.segment_age.unwrap_or(settings.segment_age_secs);
        if let Some(Age(seconds)) = self.retention_age {
            settings.retention_secs = seconds;
        }
        if let Some(Size(bytes)) = self.retention_size {
            settings.retention_bytes = bytes;
        }
    }
}

/// Settings of storage in words: `zstd, blocks of 64 KiB`.
pub(super) fn words(settings: &CollectionSettings) -> String {
    let dictionary = match settings.dictionary_bytes {
        0 => String::new(),
        bytes => format!(" with a dictionary of at most {bytes} bytes"),
    };
    let age = match settings.segment_age_secs {
        0 => String::new(),
        seconds => format!(", a new log file after {seconds} s"),
    };
    let retention = match (settings.retention_secs, settings.retention_bytes) {
        (0, 0) => String::new(),
        (secs, 0) => format!(", documents deleted after {}", Age(secs)),
        (0, bytes) => format!(", the oldest documents deleted beyond {bytes} bytes"),
        (secs, bytes) => format!(
            ", documents deleted after {}, the oldest beyond {bytes} bytes",
            Age(secs)
        ),
    };
    format!(
        "{}{dictionary}, blocks of {} bytes{age}{retention}",
        settings.codec, settings.block_bytes
    )
}
