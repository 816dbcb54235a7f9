//! The directory of keys and values: a file that says what it is, a lock, and a store.
//!
//! The file `KEYVALUE` is a sealed text file (see [`quire_store::seal`]) of the kind
//! `quire-keyvalue`, version 1. It holds the identity that manifest and log have too.

use crate::{Error, Result};
use quire_env::{Env, ErrorKind as EnvErrorKind, Volumes};
use quire_store::{Place, seal, unseal};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The file by which a directory of keys and values is known.
pub const MARKER_NAME: &str = "KEYVALUE";

/// The file by which a database of documents is known.
const CATALOG_NAME: &str = "CATALOG";

/// The name of the file that the process which has the directory open holds a lock on.
pub(crate) use quire_env::LOCK_NAME;

/// The directory of the store, below that of the marker.
const STORE_DIR: &str = "store";

const KIND: &str = "quire-keyvalue";
const VERSION: u32 = 1;
const MARKER_BYTES_MAX: u64 = 4096;

#[derive(Serialize, Deserialize)]
struct Marker {
    /// 32 hex digits, random.
    identity: String,
}

/// Makes the directory if there is none, and refuses one that holds something else. Nothing in it
/// is changed.
pub(crate) fn prepare(env: &dyn Env, path: &Path, create_if_missing: bool) -> Result<()> {
    let foreign = |what| {
        let path = path.to_path_buf();
        Err(Error::Foreign { path, what })
    };
    let names = match env.list(path) {
        Ok(names) => names,
        Err(error) if error.kind() == EnvErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    // What a crash between the lock and the marker leaves is ours.
    let ours = |name: &String| name == LOCK_NAME || name.starts_with(MARKER_NAME);
    match () {
        () if has(MARKER_NAME) => Ok(()),
        () if has(CATALOG_NAME) => foreign("a database of documents is there"),
        () if !names.iter().all(ours) => foreign("there are files, and no KEYVALUE among them"),
        () if !create_if_missing => foreign("there are no keys and values"),
        () => Ok(env.create_dir_all(path)?),
    }
}

/// Reads the marker, or makes it with a new identity; gives the place of the store. Called with the
/// lock.
pub(crate) fn place(env: &dyn Env, path: &Path) -> Result<Place> {
    let file = path.join(MARKER_NAME);
    let identity = match env.exists(&file)? {
        true => {
            let bytes = env.read(&file, MARKER_BYTES_MAX)?;
            let identity = decode(&bytes).map_err(|what| Error::Marker {
                path: file.clone(),
                what,
            })?;
            // One whose writer could not sync its name must not give way to another identity once
            // it was read.
            env.sync_dir(path)?;
            identity
        }
        false => {
            let mut identity = [0; 16];
            env.random(&mut identity);
            env.replace(&file, &encode(identity))?;
            identity
        }
    };
    Ok(Place {
        volumes: Volumes::single(path),
        subdir: STORE_DIR.into(),
        identity,
    })
}

fn encode(identity: [u8; 16]) -> Vec<u8> {
    let identity = format!("{:032x}", u128::from_be_bytes(identity));
    let marker = Marker { identity };
    seal(KIND, VERSION, &serde_json::json!(marker).to_string())
}

fn decode(bytes: &[u8]) -> std::result::Result<[u8; 16], String> {
    let json = unseal(KIND, VERSION, "directory of keys and values", bytes)?;
    let marker: Marker = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let number = u128::from_str_radix(&marker.identity, 16).map_err(|error| error.to_string())?;
    Ok(number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_comes_back_and_every_changed_byte_and_every_cut_is_an_error() {
        let identity = *b"\x00123456789abcdef";
        let bytes = encode(identity);
        assert_eq!(decode(&bytes), Ok(identity));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(decode(&damaged).is_err(), "byte {at}");
            assert!(decode(&bytes[..at]).is_err(), "cut at {at}");
        }
    }
}
