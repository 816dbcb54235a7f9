//! [`FrozenOptions`] and [`FieldSpec`]: what a frozen partition holds, and how.

use crate::{Error, Result};
use quire_pack::Codec;

/// A field that is indexed: a dotted path, as in a query, and what it is indexed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldSpec {
    /// The path.
    pub path: String,
    /// Whether queries filter by it.
    pub filterable: bool,
    /// Whether queries sort by it and aggregate it.
    pub sortable: bool,
}

impl FieldSpec {
    /// A field to filter by.
    #[must_use]
    pub fn filterable(path: &str) -> FieldSpec {
        FieldSpec {
            path: path.to_string(),
            filterable: true,
            sortable: false,
        }
    }

    /// A field to sort by and to aggregate.
    #[must_use]
    pub fn sortable(path: &str) -> FieldSpec {
        FieldSpec {
            path: path.to_string(),
            filterable: false,
            sortable: true,
        }
    }

    /// A field for both.
    #[must_use]
    pub fn full(path: &str) -> FieldSpec {
        FieldSpec {
            path: path.to_string(),
            filterable: true,
            sortable: true,
        }
    }
}

/// How a frozen partition is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrozenOptions {
    /// How blocks of documents and payloads are packed (default LZ4).
    pub codec: Codec,
    /// Raw bytes at which a block of rows is full (1 to 16 MiB; by default 512, and 4 KiB of zstd
    /// without a dictionary). Larger blocks pack better, and make reading a single row slower. With
    /// LZ4, blocks share a dictionary of 4 KiB, so that small ones pack well too.
    pub block_bytes: Option<usize>,
    /// Whether the documents themselves are stored (default true). Without, a query gets only
    /// docids, values and payloads.
    pub documents: bool,
    /// About how many bytes of memory building may take (8 MiB or more; default 256 MiB). Data that
    /// does not fit goes to temporary files beside the partition. One bit for each document, one
    /// document and one block come on top.
    pub memory_bytes: usize,
}

impl Default for FrozenOptions {
    fn default() -> FrozenOptions {
        FrozenOptions {
            codec: Codec::default(),
            block_bytes: None,
            documents: true,
            memory_bytes: 256 << 20,
        }
    }
}

/// The longest path, in bytes.
const PATH_BYTES_MAX: usize = 1024;
/// The most fields.
const FIELDS_MAX: usize = 1 << 16;
const BLOCK_BYTES_MAX: usize = 16 << 20;
const MEMORY_BYTES_MIN: usize = 8 << 20;

impl FrozenOptions {
    /// Raw bytes at which a block is full.
    pub(crate) fn block_bytes(&self) -> usize {
        let of_codec = match self.codec {
            Codec::Zstd {
                dictionary_bytes: 0,
                ..
            } => 4 << 10,
            _ => 512,
        };
        self.block_bytes.unwrap_or(of_codec)
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.codec.check().map_err(Error::InvalidArgument)?;
        let block_bytes = self.block_bytes();
        if block_bytes == 0 || block_bytes > BLOCK_BYTES_MAX {
            return Err(Error::InvalidArgument(format!(
                "block_bytes is {block_bytes}, and must be from 1 to {BLOCK_BYTES_MAX}"
            )));
        }
        if self.memory_bytes < MEMORY_BYTES_MIN {
            return Err(Error::InvalidArgument(format!(
                "memory_bytes is {}, and must be {MEMORY_BYTES_MIN} or more",
                self.memory_bytes
            )));
        }
        Ok(())
    }
}

/// Refuses fields that a file can't have.
pub(crate) fn check_fields(fields: &[FieldSpec]) -> Result<()> {
    let refused = |what| Err(Error::InvalidArgument(what));
    if fields.len() > FIELDS_MAX {
        return refused(format!(
            "{} fields, over the limit of {FIELDS_MAX}",
            fields.len()
        ));
    }
    let mut paths: Vec<_> = fields.iter().map(|field| field.path.as_str()).collect();
    paths.sort_unstable();
    for pair in paths.windows(2) {
        if let [one, other] = pair
            && one == other
        {
            return refused(format!("the field {one:?} is given twice"));
        }
    }
    for path in paths {
        if path.len() > PATH_BYTES_MAX || path.split('.').any(str::is_empty) {
            let shown: String = path.chars().take(64).collect();
            return refused(format!(
                "the path {shown:?} has an empty name, or more than {PATH_BYTES_MAX} bytes"
            ));
        }
    }
    Ok(())
}
