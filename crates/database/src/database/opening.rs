//! Opening a database: its locks, its volumes, and the catalog that counts.

use super::{Database, Inner, State, opened::Opened, scrubbed::Scrubbed};
use crate::catalog::{Catalog, FoundCatalog};
use crate::directory::{holds_database, holds_repair, remove_leftovers};
use crate::options::DatabaseOptions;
use crate::scrub::Scrubber;
use crate::volumes::name;
use crate::{Error, ErrorKind, Result};
use parking_lot::{Mutex, RwLock};
use quire_env::{
    Env, ErrorKind as EnvErrorKind, FileLock, IoLimits, JobClass, ManagedEnv, Volume, Volumes,
};
use quire_seeded::{Bug, seeded};
use quire_store::Shared;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

impl Database {
    /// Opens a database: what a [`DatabaseBuilder`](crate::DatabaseBuilder) does with what it was
    /// given.
    /// One that a repair is making is opened only by that repair, which says so.
    pub(crate) fn open_on(
        env: Arc<dyn Env>,
        volumes: Volumes,
        options: DatabaseOptions,
        repairing: bool,
    ) -> Result<Database> {
        options.check()?;
        let root = volumes.root().to_path_buf();
        let is_there = match repairing {
            true => holds_repair(&*env, &root)?,
            false => holds_database(&*env, &root)?,
        };
        if is_there {
            env.list(&root)?;
        } else {
            if !options.create_if_missing {
                return Err(Error::NoDatabase { path: root });
            }
            env.create_dir_all(&root)?;
        }
        let lock = env.lock_dir(&root)?;
        // Who held the lock until now may have been a repair.
        if !repairing {
            holds_database(&*env, &root)?;
        }
        let mut catalog = if Catalog::exists(&*env, &root)? {
            find_catalog(&*env, &root)?
        } else {
            let mut catalog = Catalog::new(&*env);
            name(&*env, &mut catalog, &volumes)?;
            catalog.write(&*env, &root)?;
            catalog
        };
        let volumes = open_volumes(&*env, &volumes, &mut catalog)?;
        let locks = lock_volumes(&*env, &volumes)?;
        let env = match options.io_manager {
            true => managed(env, &volumes, &catalog, options.io)?,
            false => env,
        };
        remove_leftovers(&*env, &volumes, &catalog)?;
        let shared = Shared::new(Arc::clone(&env), options.memory_bytes, Some(lock));
        let aliases = RwLock::new(Arc::new(catalog.aliases()));
        let api_settings = RwLock::new(Arc::new(catalog.api_settings()));
        let opened = RwLock::new(Opened::of(&catalog));
        let state = Mutex::new(State {
            catalog,
            in_doubt: BTreeSet::new(),
            repartitioned: BTreeSet::new(),
            closed: false,
        });
        let inner = Arc::new_cyclic(|me: &Weak<Inner>| {
            let scrubber = options.scrub_period.map(|period| {
                let source = Box::new(Scrubbed(Weak::clone(me)));
                Scrubber::start(env, source, &root, period)
            });
            Inner {
                changed: shared.env().gate(),
                root,
                volumes: RwLock::new(volumes),
                volume_locks: Mutex::new(locks),
                options,
                state,
                opened,
                aliases,
                frozen: RwLock::default(),
                api_settings,
                shared,
                closing: AtomicBool::new(false),
                scrubber,
            }
        });
        Ok(Database { inner })
    }
}

/// The machine, with an I/O manager for each volume if the catalog names them.
fn managed(
    env: Arc<dyn Env>,
    volumes: &Volumes,
    catalog: &Catalog,
    limits: Option<IoLimits>,
) -> Result<Arc<dyn Env>> {
    if catalog.named_volumes.is_empty() {
        return Ok(env);
    }
    let limits = |volume: &Volume| limits.unwrap_or_else(|| IoLimits::of(volume.medium));
    // As many as all volumes together let run: none waits for a thread that another one has.
    let compactions = volumes.iter().map(|volume| limits(volume).merges.most());
    env.reserve(JobClass::Compaction, compactions.sum())?;
    // A flush to each, and two threads for what waits for no disk.
    env.reserve(JobClass::Flush, volumes.count() + 2)?;
    let disk = |volume: &Volume| ManagedEnv::disk_of(&env, &volume.path, limits(volume));
    Ok(Arc::new(ManagedEnv::new(Arc::clone(&env), volumes, disk)))
}

/// Locks on the volumes that are there, but for the first.
fn lock_volumes(env: &dyn Env, volumes: &Volumes) -> Result<Vec<Box<dyn FileLock>>> {
    let others = volumes.iter().skip(1).filter(|volume| volume.is_there);
    others
        .map(|volume| Ok(env.lock_dir(&volume.path)?))
        .collect()
}

/// The volumes of a database that is opened with `given`. The catalog takes paths that have
/// changed.
fn open_volumes(env: &dyn Env, given: &Volumes, catalog: &mut Catalog) -> Result<Volumes> {
    let volumes = catalog.all_volumes(given)?;
    if catalog.named_volumes.is_empty() {
        volumes.check(env)?;
        return Ok(volumes);
    }
    let volumes = catalog.volumes_there(env, volumes)?;
    for volume in volumes.iter().filter(|volume| !volume.is_there) {
        tracing::error!(error = %volume.missing(), "what does not lie on it is served");
    }
    let named = catalog.named_volumes.clone();
    catalog.set_volumes(&volumes)?;
    if catalog.named_volumes != named {
        catalog.number += 1;
        catalog.write(env, volumes.root())?;
    }
    Ok(volumes)
}

/// The catalog that counts, in both copies.
fn find_catalog(env: &dyn Env, root: &Path) -> Result<Catalog> {
    let found = FoundCatalog::read(env, root)?;
    if let Some((path, what)) = found.damage() {
        tracing::error!(path = %path.display(), what, "a copy of the catalog is damaged");
    }
    let is_settled = found.is_settled();
    let mut catalog = found.newest()?;
    // One whose writer could not sync its name must not give way to the one before it once it was
    // read.
    if !seeded(Bug::FoundCatalogBelieved) {
        env.sync_dir(root)?;
    }
    if !is_settled && !seeded(Bug::CatalogCopyStale) {
        catalog.number += 1;
        // Without room, or in a directory that can only be read, one copy does.
        if let Err(error) = catalog.write(env, root) {
            let is_denied =
                matches!(&error, Error::Env(error) if error.kind() == EnvErrorKind::Denied);
            if error.kind() != ErrorKind::Full && !is_denied {
                return Err(error);
            }
            tracing::warn!(%error, "the copies of the catalog differ, and could not be written");
        }
    }
    Ok(catalog)
}
