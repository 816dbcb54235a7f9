//! Where a repair writes: a new directory, marked until all is there.

use quire_database::catalog::{CATALOG_NAME, parse_collection_dir};
use quire_database::directory::{LOCK_NAME, REPAIRING_NAME};
use quire_database::volumes::VOLUME_NAME;
use quire_database::{Error, Result};
use quire_env::{Env, ErrorKind as EnvErrorKind, Volume, Volumes};
use quire_seeded::{Bug, seeded};
use std::path::Path;

/// Fails unless the new database would be a new one, and somewhere else. What an interrupted repair
/// left counts as new.
pub(super) fn check_target(env: &dyn Env, from: &Volumes, to: &Volumes) -> Result<()> {
    let is_marked = names(env, to.root())?
        .iter()
        .any(|name| name == REPAIRING_NAME);
    for volume in to.iter() {
        let inside = |old: &Volume| volume.path.starts_with(&old.path);
        if from.iter().any(inside) {
            let what = format!(
                "{} is within the damaged database, which is only read; give a new directory \
                 elsewhere",
                volume.path.display()
            );
            return Err(Error::Invalid(what));
        }
        let ours = |name: &String| name.starts_with(REPAIRING_NAME) || is_marked && is_made(name);
        if !names(env, &volume.path)?.iter().all(ours) {
            let what = format!(
                "{} is not empty; give a new directory for what is salvaged",
                volume.path.display()
            );
            return Err(Error::Invalid(what));
        }
    }
    Ok(())
}

/// Says that a repair is under way in each volume, and removes what an earlier one left there.
pub(super) fn begin(env: &dyn Env, to: &Volumes) -> Result<()> {
    let text = b"A database is being repaired into this directory. If that was interrupted, run \
                 `quire repair` again.\n";
    for volume in to.iter() {
        env.create_dir_all(&volume.path)?;
        if !seeded(Bug::RepairUnmarked) {
            env.replace(&volume.path.join(REPAIRING_NAME), text)?;
        }
        for name in names(env, &volume.path)? {
            let path = volume.path.join(&name);
            if parse_collection_dir(&name).is_some() {
                env.remove_dir_all(&path)?;
            } else if is_made(&name) && name != LOCK_NAME {
                env.remove(&path)?;
            }
        }
        env.sync_dir(&volume.path)?;
    }
    Ok(())
}

/// All is there, and durable. The first volume is the last to lose its mark, since that is where a
/// database is looked for.
pub(super) fn end(env: &dyn Env, to: &Volumes) -> Result<()> {
    let volumes: Vec<_> = to.iter().collect();
    for volume in volumes.into_iter().rev() {
        let marker = volume.path.join(REPAIRING_NAME);
        if env.exists(&marker)? {
            env.remove(&marker)?;
            env.sync_dir(&volume.path)?;
        }
    }
    Ok(())
}

/// Whether a repair makes a file or directory of this name.
fn is_made(name: &str) -> bool {
    name == LOCK_NAME
        || name.starts_with(CATALOG_NAME)
        || name.starts_with("SCRUB")
        || name.starts_with(VOLUME_NAME)
        || parse_collection_dir(name).is_some()
}

/// The names in the directory of a volume; none if it is not there.
fn names(env: &dyn Env, volume: &Path) -> Result<Vec<String>> {
    match env.list(volume) {
        Err(error) if error.kind() == EnvErrorKind::NotFound => Ok(Vec::new()),
        names => Ok(names?),
    }
}
