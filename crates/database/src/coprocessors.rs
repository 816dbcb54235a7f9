//! Coprocessors that a database keeps: WebAssembly modules by name and version, in the catalog.

use crate::catalog::{CATALOG_BYTES_MAX, StoredCoprocessor, StoredModule};
use crate::stored_code::{code_of, decode, find};
use crate::{Database, Error, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quire_coprocessor::{Code, Kind};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// The most bytes of base64 that all modules have together.
const BYTES_MAX: u64 = CATALOG_BYTES_MAX / 4;

const NAME_BYTES_MAX: usize = 100;

/// A version of a coprocessor, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CoprocessorInfo {
    /// Its name.
    pub name: String,
    /// Its version, from 1 on; a number is not used again while the name has a version.
    pub version: u32,
    /// What it can be used as.
    #[serde(serialize_with = "names")]
    pub kinds: Vec<Kind>,
    /// The length of the module in bytes.
    pub bytes: usize,
    /// When it was added: microseconds since 1970 UTC.
    pub time_micros: i64,
}

fn names<S: Serializer>(kinds: &[Kind], serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_seq(kinds.iter().map(|kind| kind.name()))
}

impl Database {
    /// Keeps a WebAssembly module as the next version of a coprocessor, or as the first of a new
    /// one. Durable when it returns.
    ///
    /// # Errors
    /// `Invalid` for a bad name, a module that can't run here, or more than 16 MiB of modules in
    /// base64.
    pub fn add_coprocessor(&self, name: &str, wasm: &[u8]) -> Result<CoprocessorInfo> {
        check_name(name)?;
        let code = Code::wasm(name, wasm)?;
        let module = StoredModule {
            time_micros: self.env().now_micros(),
            wasm: STANDARD.encode(wasm).into(),
        };
        self.replace_coprocessors(|stored| {
            let bytes = stored.values().flat_map(|one| one.versions.values());
            let bytes: usize = bytes.map(|module| module.wasm.0.len()).sum();
            if (bytes + module.wasm.0.len()) as u64 > BYTES_MAX {
                return Err(Error::Invalid(format!(
                    "modules take {bytes} bytes of {BYTES_MAX} in base64: drop versions that are \
                     not used"
                )));
            }
            let empty = || StoredCoprocessor {
                next_version: 1,
                versions: BTreeMap::new(),
            };
            let entry = stored.entry(name.to_string()).or_insert_with(empty);
            let version = entry.next_version;
            entry.next_version = version.saturating_add(1);
            entry.versions.insert(version, module.clone());
            Ok(CoprocessorInfo {
                name: name.to_string(),
                version,
                kinds: code.kinds().to_vec(),
                bytes: wasm.len(),
                time_micros: module.time_micros,
            })
        })
    }

    /// All versions of all coprocessors, by name and version.
    ///
    /// # Errors
    /// `Invalid` for a module that this program can't run.
    pub fn coprocessors(&self) -> Result<Vec<CoprocessorInfo>> {
        let stored = self.catalog_coprocessors();
        let all = stored.iter().flat_map(|(name, one)| {
            let versions = one.versions.iter();
            versions.map(move |(version, module)| {
                let wasm = decode(module)?;
                info(name, *version, module.time_micros, &wasm)
            })
        });
        all.collect()
    }

    /// The newest version of a coprocessor, or that of `name/version`, with its module.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` as of [`coprocessors`](Database::coprocessors).
    pub fn coprocessor_module(&self, name: &str) -> Result<(CoprocessorInfo, Vec<u8>)> {
        let stored = self.catalog_coprocessors();
        let (name, version) = find(&stored, name)?;
        let module = &stored[name].versions[&version];
        let wasm = decode(module)?;
        Ok((info(name, version, module.time_micros, &wasm)?, wasm))
    }

    /// The newest version of a coprocessor, or that of `name/version`, to run.
    ///
    /// # Errors
    /// As of [`coprocessor_module`](Database::coprocessor_module).
    pub fn coprocessor(&self, name: &str) -> Result<Code> {
        let stored = self.catalog_coprocessors();
        let (name, version) = find(&stored, name)?;
        code_of(&stored, name, version)
    }

    /// Drops a coprocessor, or the one version of `name/version`. Runs that have begun go on.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` if it is a trigger of a collection.
    pub fn drop_coprocessor(&self, name: &str) -> Result<()> {
        self.replace_coprocessors(|stored| {
            let (found, version) = find(stored, name)?;
            let found = found.to_string();
            let is_whole = !name.contains('/');
            let entry = stored.get_mut(&found).filter(|_| !is_whole);
            let is_empty = entry.is_none_or(|entry| {
                entry.versions.remove(&version);
                entry.versions.is_empty()
            });
            if is_empty {
                stored.remove(&found);
            }
            Ok(())
        })
    }
}

fn info(name: &str, version: u32, time_micros: i64, wasm: &[u8]) -> Result<CoprocessorInfo> {
    Ok(CoprocessorInfo {
        name: name.to_string(),
        version,
        kinds: Code::wasm(name, wasm)?.kinds().to_vec(),
        bytes: wasm.len(),
        time_micros,
    })
}

fn check_name(name: &str) -> Result<()> {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_good = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(is_known)
        && name.as_bytes()[0].is_ascii_alphanumeric();
    match is_good {
        true => Ok(()),
        false => Err(Error::Invalid(format!(
            "a coprocessor can't have the name {name:?}: 1 to {NAME_BYTES_MAX} ASCII letters, \
             digits, `-`, `_` and `.`, a letter or digit first"
        ))),
    }
}
