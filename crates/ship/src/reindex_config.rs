//! The part `[reindex]` of a pipe's file.

use serde::Deserialize;
use std::path::PathBuf;

const VERIFY_DOCUMENTS: u32 = 1_000;
const VERIFY_DOCUMENTS_MAX: u32 = 1_000_000;
const SEGMENTS_MAX: u32 = 1;
const RECOVERIES_PER_NODE: u32 = 8;
const RECOVERY_BYTES_PER_S: &str = "500mb";

/// How the index of a sink is built anew. The sink's `index` is the alias that readers use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReindexConfig {
    /// The sink; not needed if only one is a server.
    pub sink: Option<String>,
    /// A JSON file with `settings` and `mappings` of the new index; those of the present index by
    /// default.
    pub index_file: Option<PathBuf>,
    /// Primary shards, or partitions of a collection; by default one for each data node, but at
    /// most one for two cores.
    pub shards: Option<u32>,
    /// Copies of each shard beside the primary; as the present index has by default.
    pub replicas: Option<u32>,
    /// Segments of a shard after the merge: 1 by default; 0 for no merge.
    pub segments_max: Option<u32>,
    /// Shards that a node receives at once while replicas are made; 8 by default.
    pub recoveries_per_node: Option<u32>,
    /// Bytes a second that a node receives for these, as the cluster writes it; `500mb` by default.
    pub recovery_bytes_per_s: Option<String>,
    /// Documents that are compared at the end; 1,000 by default.
    pub verify_documents: Option<u32>,
    /// Whether a run goes on following into the old and the new index; not by default.
    pub keep_following: Option<bool>,
}

impl ReindexConfig {
    /// Checks what can be checked without a server.
    ///
    /// # Errors
    /// A sentence that names the setting and its bounds.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.shards == Some(0) {
            return Err("[reindex] shards is 0, and must be 1 or more".to_owned());
        }
        if self.recoveries_per_node == Some(0) {
            return Err("[reindex] recoveries_per_node is 0, and must be 1 or more".to_owned());
        }
        match self.verify_documents {
            Some(VERIFY_DOCUMENTS_MAX..) => Err(format!(
                "[reindex] verify_documents must be less than {VERIFY_DOCUMENTS_MAX}"
            )),
            _ => Ok(()),
        }
    }

    pub(crate) fn segments_max(&self) -> u32 {
        self.segments_max.unwrap_or(SEGMENTS_MAX)
    }

    pub(crate) fn recoveries_per_node(&self) -> u32 {
        self.recoveries_per_node.unwrap_or(RECOVERIES_PER_NODE)
    }

    pub(crate) fn recovery_bytes_per_s(&self) -> &str {
        let own = self.recovery_bytes_per_s.as_deref();
        own.unwrap_or(RECOVERY_BYTES_PER_S)
    }

    pub(crate) fn verify_documents(&self) -> usize {
        self.verify_documents.unwrap_or(VERIFY_DOCUMENTS) as usize
    }
}
