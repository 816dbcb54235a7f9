//! The volumes of an open database: added, and their figures.

use super::Database;
use crate::settings::CollectionSettings;
use crate::stats::{IoStats, VolumeStats};
use crate::{Error, Result};
use quire_env::{Medium, Volume, Volumes};
use quire_wide::Schema;
use std::path::Path;

impl Database {
    /// Adds a volume: a directory that is absent or empty, on a disk of its own. Collections that
    /// are open use it once the database is opened again. Durable when it returns.
    ///
    /// # Errors
    /// `Invalid` for a name or directory of another volume, or a directory with other files; those
    /// of the machine.
    pub fn add_volume(&self, name: &str, path: &Path, medium: Medium) -> Result<()> {
        let mut state = self.state()?;
        let volumes = state.catalog.volumes_there(&**self.env(), self.volumes())?;
        volumes.check_there()?;
        let of_all = |volume: &Volume| (volume.name.clone(), volume.path.clone(), volume.medium);
        let added = (name.to_string(), path.to_path_buf(), medium);
        let all = volumes.iter().map(of_all).chain([added]);
        let volumes = Volumes::named(all).map_err(Error::from)?;
        let mut catalog = state.catalog.clone();
        catalog.set_volumes(&volumes)?;
        for volume in volumes.iter().skip(1) {
            catalog.mark(&**self.env(), volume)?;
            catalog.make_dirs(&**self.env(), volume)?;
        }
        let added = self.env().lock_dir(path)?;
        self.replace_catalog(&mut state, catalog)?;
        self.inner.volume_locks.lock().push(added);
        *self.inner.volumes.write() = volumes;
        Ok(())
    }

    /// Figures of the volumes, in their order.
    pub fn volume_stats(&self) -> Vec<VolumeStats> {
        let volumes = self.volumes();
        let of_one = |volume: &Volume| VolumeStats {
            name: volume.name.clone(),
            path: volume.path.display().to_string(),
            medium: volume.medium.to_string(),
            lost: !volume.is_there,
            free_bytes: match volume.is_there {
                true => self.env().free_bytes(&volume.path).ok(),
                false => None,
            },
            io: self
                .env()
                .volume_io(&volume.path)
                .map(|disk| IoStats::of(&disk)),
        };
        volumes.iter().map(of_one).collect()
    }

    /// Refuses a tier without a volume.
    pub(super) fn check_tiers(&self, settings: &CollectionSettings) -> Result<()> {
        let groups = settings.wide.iter().flat_map(Schema::groups);
        let volumes = self.inner.volumes.read();
        for group in groups {
            let two = group.tiers.iter().flat_map(|tiers| [tiers.hot, tiers.cold]);
            for tier in group.tier.into_iter().chain(two) {
                if !volumes.has(tier) {
                    return Err(Error::Invalid(format!(
                        "group {:?}: no volume is of the tier {tier}; add one by `quire volume \
                         add DB --volume NAME=PATH:{tier}`",
                        group.name
                    )));
                }
            }
        }
        Ok(())
    }

    /// The volumes that collections are opened on; those whose disk is not mounted are not there.
    pub(crate) fn volumes(&self) -> Volumes {
        self.inner.volumes.read().clone()
    }
}
