//! Opening: what the handles of one opening of a directory share.

use crate::directory;
use crate::lease::Leases;
use crate::pairs::{PAIRS, Pairs};
use crate::{Durability, KvOptions, Merger, Result};
use quire_env::Env;
use quire_lsm::{Load, TreeSnapshot, wall_clock_micros};
use quire_store::{Shared, Store, StoreOptions};
use std::path::Path;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) shared: Arc<Shared>,
    pub(crate) store: Store<Pairs>,
    pub(crate) durability: Durability,
    pub(crate) merger: Option<Arc<dyn Merger>>,
    pub(crate) leases: Arc<Leases>,
}

impl Drop for Opening {
    fn drop(&mut self) {
        // An error has no receiver here. Writes acknowledged under `sync` are safe whatever the
        // close meets.
        let _ = self.close();
    }
}

impl Opening {
    /// Opens the keys and values in a directory, with the options of the store below given.
    pub(crate) fn open(
        env: Arc<dyn Env>,
        path: &Path,
        options: KvOptions,
        of_store: StoreOptions,
    ) -> Result<Opening> {
        options.check()?;
        directory::prepare(&*env, path, options.create_if_missing)?;
        let lock = env.lock_dir(path)?;
        let place = directory::place(&*env, path)?;
        let changed = env.gate();
        let leases = Leases::new(Arc::clone(&env), options.view_age_max);
        let shared = Shared::with_memtables(
            env,
            options.memory_bytes,
            options.memtables_bytes(),
            Some(lock),
        );
        if !Store::<Pairs>::exists(&shared, &place)? {
            Store::<Pairs>::create(&shared, &place)?;
        }
        let store = Store::open(Arc::clone(&shared), place, of_store, changed)?;
        Ok(Opening {
            shared,
            store,
            durability: options.durability,
            merger: options.merger,
            leases,
        })
    }

    pub(crate) fn close(&self) -> Result<()> {
        let closed = self.store.close();
        self.shared.unlock();
        Ok(closed?)
    }

    /// Microseconds since 1970 UTC.
    pub(crate) fn now(&self) -> u64 {
        wall_clock_micros(&**self.shared.env())
    }

    /// The tree as it is now.
    pub(crate) fn tree(&self) -> Result<TreeSnapshot> {
        Ok(self.store.tree_snapshot(PAIRS)?)
    }

    pub(crate) fn finish_load(&self, load: Load) -> Result<()> {
        Ok(self.store.finish_load(PAIRS, load)?)
    }
}
