//! Replacement of lost volumes: what they held comes from a snapshot of a backup, which may be the
//! backup of a follower.
//!
//! A partition with tables on a lost volume gets them back in one of two ways:
//! - The snapshot has files of the same numbers, lengths and digests: these are copied.
//! - Else the partition is restored as of the snapshot, and the records that came after it are
//!   taken from the log here, which lies on the first volume. Partitions without tables on a lost
//!   volume stay as they are.
//!
//! # Invariants
//! 1. All is prepared in directories named `replacement`, one in each volume, which no database
//!    reads. Until then nothing of the database changes: an interrupted replacement begins anew,
//!    and an opening removes what it left.
//! 2. When all is durable there, the file `REPLACING` is written. From then on the database is not
//!    opened, and the replacement is finished by renaming alone (`switch.rs`), again and again if
//!    need be.
//! 3. No record is lost: a partition that is restored ends at the position that it had here, or
//!    nothing is changed.

mod plan;
mod prepare;
mod switch;

use crate::backup::{BackupDir, SnapshotInfo};
use crate::restore::choose;
use plan::{Plan, plan};
use prepare::{Preparation, open};
use quire_database::directory::{LOCK_NAME, REPLACEMENT_NAME, REPLACING_NAME};
use quire_database::{Error, Result, engine};
use quire_env::{Env, ErrorKind as EnvErrorKind, VolumeId, Volumes};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What to replace lost volumes with.
#[derive(Debug, Clone, Default)]
pub struct ReplaceOptions {
    /// The number of the snapshot; the newest if none.
    pub snapshot: Option<u64>,
    /// The new directories of lost volumes, by the names of the volumes. One that is not named
    /// keeps its directory.
    pub paths: BTreeMap<String, PathBuf>,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// What a replacement did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReplaceReport {
    /// The volumes that were lost.
    pub volumes: Vec<ReplacedVolume>,
    /// The snapshot; none if an interrupted replacement was finished, which needs none.
    pub snapshot: Option<SnapshotInfo>,
    /// The partitions that had tables on them; none if an interrupted replacement was finished.
    pub partitions: Vec<ReplacedPartition>,
    /// Whether nothing was changed.
    pub dry_run: bool,
}

/// A volume that was lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReplacedVolume {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub path: String,
}

/// A partition that had tables on a lost volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReplacedPartition {
    /// The name of its collection.
    pub collection: String,
    /// Its number.
    pub partition: u32,
    /// Tables on lost volumes.
    pub lost_tables: u64,
    /// Bytes of these.
    pub lost_bytes: u64,
    /// Whether the partition is restored as a whole, since the snapshot does not have these tables.
    pub restored: bool,
    /// Records that are added from the log here to what was restored.
    pub records: u64,
}

/// Replaces all lost volumes of a closed database, of which `given` names the first: each gets what
/// it held from a snapshot of the backup in `from`. An interrupted replacement is gone on with.
///
/// `progress` receives the bytes taken from the backup so far, and of how many in all.
///
/// # Errors
/// `Invalid` if no volume is lost, if a directory holds something else, if the backup is that of
/// another database, or if the snapshot and the log here do not have what a lost table held: the
/// partition is named, and nothing is changed. `NotFound` if there is no such backup or snapshot;
/// `Locked` if the database is open; `Conflict` if the database was restored from an older backup
/// since the snapshot; `Corrupt` for damage; `Full` or `Io`.
pub fn replace_volumes(
    env: Arc<dyn Env>,
    given: &Volumes,
    from: &Path,
    options: &ReplaceOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ReplaceReport> {
    if env.exists(&given.root().join(REPLACING_NAME))? {
        return finish_left(&env, given.root(), options);
    }
    let backup = BackupDir::read(Arc::clone(&env), from)?;
    let snapshot = choose(&backup, options.snapshot)?;
    let database = open(&env, given)?;
    let mut catalog = engine::catalog(&database)?;
    if catalog.database != snapshot.catalog.database {
        return Err(Error::ForeignBackup {
            path: from.to_path_buf(),
            what: format!(
                "it is a backup of database {}, and this is {}",
                snapshot.catalog.database, catalog.database
            ),
        });
    }
    let before = engine::volumes(&database);
    let after = renewed(&before, &options.paths)?;
    let lost = before.iter().filter(|volume| !volume.is_there);
    let lost: Vec<_> = lost.map(|volume| volume.id).collect();
    for id in &lost {
        check_target(&*env, &after.get(*id)?.path)?;
    }
    let plans = plan(&database, &catalog, &before, &snapshot)?;
    let report = ReplaceReport {
        volumes: volumes_of(&after, &lost),
        snapshot: Some(SnapshotInfo::of(&snapshot)),
        partitions: plans.iter().map(ReplacedPartition::from).collect(),
        dry_run: options.dry_run,
    };
    if options.dry_run {
        database.close()?;
        return Ok(report);
    }
    let preparation = Preparation {
        env: &env,
        after: &after,
        lost: &lost,
        catalog: &catalog,
    };
    let prepared = preparation.run(&database, &backup, &snapshot, &plans, progress);
    database.close()?;
    if let Err(error) = prepared {
        // An opening would remove it too.
        let _ = preparation.discard();
        return Err(error);
    }
    catalog.set_volumes(&after)?;
    let restored = plans.iter().filter(|plan| plan.exact.is_none());
    let restored = restored.map(|plan| (plan.entry.id, plan.number)).collect();
    switch::begin(&env, &after, &catalog, &lost, restored)?;
    Ok(report)
}

fn finish_left(env: &Arc<dyn Env>, root: &Path, options: &ReplaceOptions) -> Result<ReplaceReport> {
    let (volumes, lost) = match options.dry_run {
        true => switch::read(&**env, root)?,
        false => switch::finish(env, root)?,
    };
    Ok(ReplaceReport {
        volumes: volumes_of(&volumes, &lost),
        snapshot: None,
        partitions: Vec::new(),
        dry_run: options.dry_run,
    })
}

fn volumes_of(volumes: &Volumes, lost: &[VolumeId]) -> Vec<ReplacedVolume> {
    let lost = volumes.iter().filter(|volume| lost.contains(&volume.id));
    lost.map(|volume| ReplacedVolume {
        name: volume.name.clone(),
        path: volume.path.display().to_string(),
    })
    .collect()
}

/// The volumes with the new directories of those that are lost.
fn renewed(volumes: &Volumes, paths: &BTreeMap<String, PathBuf>) -> Result<Volumes> {
    if volumes.check_there().is_ok() {
        return Err(Error::Invalid("no volume of the database is lost".into()));
    }
    for name in paths.keys() {
        match volumes.iter().find(|volume| volume.name == *name) {
            Some(volume) if !volume.is_there => {}
            Some(_) => return Err(Error::Invalid(format!("volume {name} is not lost"))),
            None => return Err(Error::Invalid(format!("there is no volume {name}"))),
        }
    }
    let named = volumes.iter().map(|volume| {
        let path = paths.get(&volume.name).unwrap_or(&volume.path);
        (volume.name.clone(), path.clone(), volume.medium)
    });
    Ok(Volumes::named(named)?)
}

/// Refuses a directory that holds anything else than what a replacement left that was interrupted.
fn check_target(env: &dyn Env, path: &Path) -> Result<()> {
    let names = match env.list(path) {
        Err(error) if error.kind() == EnvErrorKind::NotFound => return Ok(()),
        listed => listed?,
    };
    let ours = ["lost+found", LOCK_NAME, REPLACEMENT_NAME];
    match names.iter().find(|name| !ours.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(Error::Invalid(format!(
            "{} holds {name}: a lost volume is replaced in an absent or empty directory",
            path.display()
        ))),
    }
}

impl From<&Plan<'_>> for ReplacedPartition {
    fn from(plan: &Plan<'_>) -> ReplacedPartition {
        ReplacedPartition {
            collection: plan.entry.name.clone(),
            partition: plan.number,
            lost_tables: plan.tables.len() as u64,
            lost_bytes: plan.tables.iter().map(|table| table.bytes).sum(),
            restored: plan.exact.is_none(),
            records: plan.records,
        }
    }
}
