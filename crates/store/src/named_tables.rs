//! The tables that the manifest of a closed store names.

use crate::manifest::Manifest;
use crate::{Error, Place, Result};
use quire_env::{Env, ErrorKind as EnvErrorKind, FileId};

/// A table that a manifest names. Tables of one store with the same number, length and digest have
/// the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedTable {
    /// Which file it is.
    pub file: FileId,
    /// Its length in bytes.
    pub bytes: u64,
    /// A digest of its bytes.
    pub digest: u64,
}

/// The tables of a store, as its manifest names them: none if it has no manifest yet. Their files
/// are not read.
///
/// # Errors
/// `Corrupt` if the manifest is damaged or of another store; those of the machine.
pub fn named_tables(env: &dyn Env, place: &Place) -> Result<Vec<NamedTable>> {
    let manifest = match Manifest::read(env, &place.dir()) {
        Err(Error::Env(error)) if error.kind() == EnvErrorKind::NotFound => return Ok(Vec::new()),
        read => read?.checked(place)?,
    };
    let runs = manifest.trees.iter().flat_map(|tree| &tree.runs);
    let tables = runs.flat_map(|run| &run.tables);
    Ok(tables
        .map(|table| NamedTable {
            file: table.file,
            bytes: table.bytes,
            digest: table.digest,
        })
        .collect())
}
