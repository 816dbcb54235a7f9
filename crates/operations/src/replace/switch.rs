//! The switch to what was prepared for lost volumes: names are changed, and no bytes are copied.
//!
//! The file `REPLACING` is a sealed text file (see `sealed.rs` of the store) of the kind
//! `quire-replacing`, version 1, whose JSON is a [`Switch`]. Each step can be taken again, so an
//! interrupted switch is finished by taking all of them again.

use quire_database::catalog::Catalog;
use quire_database::catalog::{CATALOG_NAME, FoundCatalog, NamedVolume, partition_dir};
use quire_database::directory::{REPLACEMENT_NAME, REPLACING_NAME};
use quire_database::{Error, Result};
use quire_env::{Env, FileLock, Volume, VolumeId, Volumes};
use quire_store::{seal, unseal};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

const KIND: &str = "quire-replacing";
const VERSION: u32 = 1;
const BYTES_MAX: u64 = 64 << 20;

/// What is switched to.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Switch {
    /// The volumes as they will be, all of them.
    volumes: Vec<NamedVolume>,
    /// The numbers of those that were lost. The directories of all partitions are prepared there.
    lost: Vec<u16>,
    /// Collection and number of each partition whose directories are prepared on all volumes.
    restored: Vec<(u32, u32)>,
}

/// Begins the switch to the volumes `after`, when all is prepared and durable, and takes it to its
/// end. `catalog` names them.
pub(super) fn begin(
    env: &Arc<dyn Env>,
    after: &Volumes,
    catalog: &Catalog,
    lost: &[VolumeId],
    restored: Vec<(u32, u32)>,
) -> Result<()> {
    let root = after.root();
    let lock = env.lock_dir(root)?;
    // The database was closed for an instant. If it was opened meanwhile, what was prepared is
    // gone, and perhaps the volumes are there again.
    let current = FoundCatalog::read(&**env, root)?.newest()?;
    let found = current.volumes_there(&**env, current.all_volumes(&Volumes::single(root))?)?;
    let is_lost = |id: &VolumeId| found.get(*id).is_ok_and(|volume| !volume.is_there);
    let mut prepared = true;
    for id in lost {
        let path = after.get(*id)?.path.join(REPLACEMENT_NAME);
        prepared = prepared && env.exists(&path)?;
    }
    if !prepared || !lost.iter().all(is_lost) || !current.same_collections(catalog) {
        return Err(Error::Invalid(
            "the database was opened while its volumes were replaced: run `quire volume replace` \
             again"
                .into(),
        ));
    }
    let switch = Switch {
        volumes: catalog.named_volumes.clone(),
        lost: lost.iter().map(|id| id.0).collect(),
        restored,
    };
    let text = seal(KIND, VERSION, &serde_json::json!(switch).to_string());
    env.replace(&root.join(REPLACING_NAME), &text)?;
    drop(lock);
    finish(env, root)?;
    Ok(())
}

/// The volumes that the database in `root` is being switched to, and which of them are new.
pub(super) fn read(env: &dyn Env, root: &Path) -> Result<(Volumes, Vec<VolumeId>)> {
    let switch = Switch::read(env, root)?;
    Ok((switch.volumes(root)?, switch.lost()))
}

/// Takes the switch to its end; also one that was interrupted. Returns as [`read`].
pub(super) fn finish(env: &Arc<dyn Env>, root: &Path) -> Result<(Volumes, Vec<VolumeId>)> {
    let _lock = env.lock_dir(root)?;
    let switch = Switch::read(&**env, root)?;
    let mut catalog = FoundCatalog::read(&**env, root)?.newest()?;
    let (volumes, lost) = (switch.volumes(root)?, switch.lost());
    let there = catalog.volumes_there(&**env, volumes.clone())?;
    for volume in there.iter().filter(|volume| !lost.contains(&volume.id)) {
        if !volume.is_there {
            return Err(volume.missing().into());
        }
    }
    let further = volumes.iter().skip(1);
    let _locks: Vec<Box<dyn FileLock>> = further
        .map(|volume| Ok(env.lock_dir(&volume.path)?))
        .collect::<Result<_>>()?;
    for volume in volumes.iter() {
        match lost.contains(&volume.id) {
            true => catalog
                .partitions()
                .try_for_each(|(id, number)| place(&**env, volume, id, number))?,
            false => switch
                .restored
                .iter()
                .try_for_each(|(id, number)| place(&**env, volume, *id, *number))?,
        }
    }
    for id in &lost {
        catalog.write_marker(&**env, volumes.get(*id)?)?;
    }
    if catalog.named_volumes != switch.volumes {
        catalog.named_volumes.clone_from(&switch.volumes);
        catalog.number += 1;
        catalog.write(&**env, root)?;
    }
    for volume in volumes.iter() {
        env.remove_dir_all(&volume.path.join(REPLACEMENT_NAME))?;
        env.sync_dir(&volume.path)?;
    }
    env.remove(&root.join(REPLACING_NAME))?;
    env.sync_dir(root)?;
    Ok((volumes, lost))
}

/// Puts what is prepared of a partition on a volume in its place, unless that is done.
fn place(env: &dyn Env, volume: &Volume, collection: u32, partition: u32) -> Result<()> {
    let dir = partition_dir(collection, partition);
    let (from, to) = (
        volume.path.join(REPLACEMENT_NAME).join(&dir),
        volume.path.join(&dir),
    );
    if !env.exists(&from)? {
        return match env.exists(&to)? {
            true => Ok(()),
            false => Err(volume.missing().into()),
        };
    }
    let (Some(above), Some(prepared)) = (to.parent(), from.parent()) else {
        return Ok(());
    };
    env.create_dir_all(above)?;
    env.remove_dir_all(&to)?;
    env.sync_dir(above)?;
    env.rename(&from, &to)?;
    env.sync_dir(above)?;
    Ok(env.sync_dir(prepared)?)
}

impl Switch {
    fn read(env: &dyn Env, root: &Path) -> Result<Switch> {
        let path = root.join(REPLACING_NAME);
        let bytes = env.read(&path, BYTES_MAX)?;
        let switch = unseal(KIND, VERSION, "replacement of volumes", &bytes).and_then(|json| {
            serde_json::from_str(json)
                .map_err(|error| format!("the replacement of volumes is damaged: {error}"))
        });
        switch.map_err(|what| Error::Catalog { path, what })
    }

    fn volumes(&self, root: &Path) -> Result<Volumes> {
        let named = self.volumes.iter().enumerate().map(|(index, volume)| {
            let path = match index {
                0 => root.to_path_buf(),
                _ => Path::new(&volume.path).to_path_buf(),
            };
            Ok((volume.name.clone(), path, volume.medium.parse()?))
        });
        let named: Vec<_> = named.collect::<quire_env::Result<_>>()?;
        let volumes = Volumes::named(named)?;
        let count = volumes.count();
        match self
            .lost
            .iter()
            .all(|id| usize::from(*id) < count && *id > 0)
        {
            true => Ok(volumes),
            false => Err(Error::Catalog {
                path: root.join(REPLACING_NAME),
                what: format!("it names volumes that {CATALOG_NAME} does not have"),
            }),
        }
    }

    fn lost(&self) -> Vec<VolumeId> {
        self.lost.iter().copied().map(VolumeId).collect()
    }
}
