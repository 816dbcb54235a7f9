//! The options of `quire create` and `quire alter` about the storage of documents.

use super::indexed::Indexed;
use crate::size::{Age, Size};
use quiredb::{Codec, CollectionSettings, IndexedFields};

/// How documents are stored
#[derive(Debug, clap::Args)]
pub(super) struct Storage {
    /// How documents are compressed: none, lz4, zstd or zstd(LEVEL), 1 to 19 [default: lz4]
    #[arg(long)]
    codec: Option<Codec>,
    /// The text that is compressed and read together, 1KiB to 16MiB: a larger block takes less
    /// disk, and more time for a single document [default: 16KiB]
    #[arg(long, value_name = "SIZE")]
    block_size: Option<Size>,
    /// With zstd: the size of a dictionary trained on the documents, 1KiB to 1MiB; 0 for none
    /// [default: 0]
    #[arg(long, value_name = "SIZE")]
    dictionary: Option<Size>,
    /// Begin a new log file when the newest is this many seconds old, even if it is small; 0 for
    /// never [default: 0]
    #[arg(long, value_name = "SECONDS")]
    segment_age: Option<u64>,
    /// Delete documents this long after their last write: 30d, 12h, 90m; 0 for never [default: 0]
    #[arg(long, value_name = "AGE")]
    retention_age: Option<Age>,
    /// While all documents take more than this, uncompressed, delete those with the oldest last
    /// write: 100GiB; 0 for no bound [default: 0]
    #[arg(long, value_name = "SIZE")]
    retention_size: Option<Size>,
    /// Keep the changes of a wide collection for so long for `quire tail` and `_changes`: 7d, 12h;
    /// 0 to keep none for them [default: 0]
    #[arg(long, value_name = "AGE")]
    log_retention_age: Option<Age>,
    /// Have a server split each partition in two once one takes more than this on disk, at least
    /// 1MiB: 20GiB; 0 for never [default: 0]
    #[arg(long, value_name = "SIZE")]
    split_size: Option<Size>,
    /// Have a server split each partition in two once one takes more than this many writes a second
    /// over half a minute, while there are no more of them than cores; 0 for never [default: 0]
    #[arg(long, value_name = "WRITES")]
    split_rate: Option<u64>,
    /// Which fields have a search index: all, none, or some by name, as in abstract=none,body=none
    /// [default: all; none of a wide collection]
    #[arg(long, value_name = "FIELDS")]
    index: Option<Indexed>,
}

impl Storage {
    /// The fields that are to be indexed, if that is given.
    pub(super) fn index(&self) -> Option<&IndexedFields> {
        self.index.as_ref().map(|Indexed(fields)| fields)
    }

    /// Whether fields are to be indexed that may not be yet.
    pub(super) fn adds_index(&self) -> bool {
        self.index
            .as_ref()
            .is_some_and(|Indexed(fields)| !fields.is_none())
    }

    /// For how many seconds changes of a wide collection are to be kept, if that is given.
    pub(super) fn log_retention_secs(&self) -> Option<u64> {
        self.log_retention_age.map(|Age(seconds)| seconds)
    }

    /// Changes the settings that are given.
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
        if let Some(secs) = self.log_retention_secs() {
            settings.log_retention_secs = secs;
        }
        if let Some(Size(bytes)) = self.split_size {
            settings.split_bytes = bytes;
        }
        settings.split_rate = self.split_rate.unwrap_or(settings.split_rate);
        if let Some(Indexed(fields)) = &self.index {
            settings.index = fields.clone();
        }
    }
}

/// The settings in words: `zstd, blocks of 64 KiB`.
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
    let kept = match settings.log_retention_secs {
        0 => String::new(),
        secs => format!(", changes kept for {}", Age(secs)),
    };
    let split = match settings.split_bytes {
        0 => String::new(),
        bytes => format!(", partitions split beyond {bytes} bytes"),
    };
    let rate = match settings.split_rate {
        0 => String::new(),
        writes => format!(", partitions split beyond {writes} writes a second"),
    };
    let index = match &settings.index {
        fields if fields.is_none() => "no field indexed",
        fields if fields.includes_all() => "all fields indexed",
        _ => "some fields indexed",
    };
    format!(
        "{}{dictionary}, blocks of {} bytes{age}{retention}{kept}{split}{rate}, {index}",
        settings.codec, settings.block_bytes
    )
}
