//! Damage: one thing that is wrong with the files of a database, as reports show it.

use serde::{Deserialize, Serialize};
use std::path::Path;

/// One thing that is wrong with the files of a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Damage {
    /// The file or directory.
    pub file: String,
    /// Where in it, in bytes.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
    /// What can't be read because of it.
    pub lost: String,
    /// The first and last position of the records of its partition that it loses, if it loses any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positions: Option<(u64, u64)>,
}

impl Damage {
    /// Damage that loses no positions, or does not say which.
    pub fn new(file: &Path, offset: u64, what: String, lost: &str) -> Damage {
        Damage {
            file: file.display().to_string(),
            offset,
            what,
            lost: lost.to_string(),
            positions: None,
        }
    }
}

impl From<quire_store::Damage> for Damage {
    fn from(found: quire_store::Damage) -> Damage {
        let positions = found.positions.map(|(first, last)| (first.0, last.0));
        Damage {
            positions,
            ..Damage::new(&found.path, found.offset, found.what, &found.lost)
        }
    }
}
