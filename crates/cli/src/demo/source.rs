//! The documents of the demonstration: real data of this machine.

use super::documents::Documents;
use super::frozen::Question;
use super::{crates, packages};
use crate::error::{Error, Result};
use std::io::Read;

/// Real documents of this machine.
pub(super) struct Source {
    /// What they are.
    pub(super) title: String,
    /// The command that would load them.
    pub(super) command: &'static str,
    pub(super) collection: &'static str,
    pub(super) question: Question,
    pub(super) reader: Box<dyn Read + Send>,
}

impl Source {
    /// Finds data, and takes at most `limit` documents of it.
    ///
    /// # Errors
    /// If this machine has none.
    pub(super) fn find(limit: Option<usize>) -> Result<Source> {
        let limit = limit.unwrap_or(usize::MAX);
        if let Some(packages) = packages::available() {
            return Ok(Source {
                title: "this machine's Debian package index (apt-cache dumpavail)".to_owned(),
                command: "apt-cache dumpavail | TO_NDJSON | quire load DB packages -",
                collection: "packages",
                question: Question {
                    fields: None,
                    number: "installed_size",
                    at_least: 100_000,
                    facet: "section",
                },
                reader: Box::new(Documents::new(packages.take(limit))),
            });
        }
        if let Some(files) = crates::fetched() {
            return Ok(Source {
                title: "sources and manifests of the crates that cargo has fetched".to_owned(),
                command: "TO_NDJSON ~/.cargo/registry/src | quire load DB sources -",
                collection: "sources",
                // The text of a file is too long to be indexed.
                question: Question {
                    fields: Some(&["crate", "version", "path", "kind", "lines", "bytes"]),
                    number: "lines",
                    at_least: 1,
                    facet: "kind",
                },
                reader: Box::new(Documents::new(files.take(limit))),
            });
        }
        Err(Error::Failed(
            "no real data found: `apt-cache dumpavail` prints nothing (apt-get update fetches the \
             index) and cargo has fetched no crates; load data of your own: \
             quire load DB COLLECTION FILE"
                .to_owned(),
        ))
    }
}
