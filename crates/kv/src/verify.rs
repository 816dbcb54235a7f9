//! Verifying keys and values that nobody has open.

use crate::directory::{self, MARKER_NAME};
use crate::pairs::Pairs;
use crate::{Error, ErrorKind, Result};
use quire_env::Env;
use quire_store::{Damage, Shared, Store, Verified};
use std::path::Path;
use std::sync::Arc;

/// What the store's own verification takes of memory is counted in buffers, not in memtables.
const MEMORY_BYTES: u64 = 64 << 20;

/// Reads every byte of the log and the table files in a directory, checks every checksum, and tells
/// `on_damage` of each damage, going on past it; `progress` is told the bytes read since it was
/// last called. Changes nothing.
///
/// # Errors
/// Only if it can't be done: of kind `Invalid` if there are no keys and values, `Locked` if a
/// process has them open, `Io`.
pub fn verify(
    env: Arc<dyn Env>,
    path: &Path,
    on_damage: &mut dyn FnMut(Damage),
    progress: &mut dyn FnMut(u64),
) -> Result<Verified> {
    let marker = path.join(MARKER_NAME);
    if !env.exists(&marker)? {
        return Err(Error::Foreign {
            path: path.to_path_buf(),
            what: "there are no keys and values",
        });
    }
    let lock = env.lock_dir(path)?;
    let place = match directory::place(&*env, path) {
        Ok(place) => place,
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            on_damage(Damage {
                path: marker,
                offset: 0,
                what: error.to_string(),
                lost: "the whole directory, until this file is put back".into(),
                positions: None,
            });
            return Ok(Verified::default());
        }
        Err(error) => return Err(error),
    };
    // The log can't give again what a table file has lost, as that of documents can.
    let mut damaged = |mut damage: Damage| {
        if damage.positions.is_none() {
            damage.lost = "the keys and values that it has".into();
        }
        on_damage(damage);
    };
    let shared = Shared::new(env, MEMORY_BYTES, Some(lock));
    // A crash before the first write leaves the marker alone.
    let verified = match Store::<Pairs>::exists(&shared, &place) {
        Ok(true) => quire_store::verify(&shared, &place, false, &mut damaged, progress),
        Ok(false) => Ok(Verified::default()),
        Err(error) => Err(error),
    };
    shared.unlock();
    Ok(verified?)
}
