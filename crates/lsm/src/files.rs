//! Table files of one partition: their numbers, names and places.
//!
//! A further volume is written to only if its directory exists: it was made with the partition. A
//! mount point without its disk must not be taken for the volume.
//!
//! A table lies on one volume, at `{volume}/{subdir}/{number:010}.table`. Numbers are unique within
//! the partition and never used twice while a file of that number is there.

use crate::{Result, TableMeta};
use quire_env::{AppendFile, Env, ErrorKind, FileId, Medium, Volume, VolumeId, VolumeIo, Volumes};
use quire_sync::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SUFFIX: &str = ".table";

/// Names, creates and removes the table files of one partition, for all its trees.
#[derive(Debug)]
pub struct TableFiles {
    env: Arc<dyn Env>,
    volumes: Volumes,
    subdir: PathBuf,
    next_number: AtomicU64,
    /// Whether the first volume's directory is known to be there, durably: finding out costs a
    /// sync.
    ready: AtomicBool,
    /// Why a volume was last passed over for another one.
    trouble: Mutex<Option<String>>,
}

impl TableFiles {
    /// Files under `subdir` (such as `c1/p0/tables`) of each volume, numbered from `next_number`.
    pub fn new(
        env: Arc<dyn Env>,
        volumes: Volumes,
        subdir: PathBuf,
        next_number: u64,
    ) -> TableFiles {
        TableFiles {
            env,
            volumes,
            subdir,
            next_number: AtomicU64::new(next_number),
            ready: AtomicBool::new(false),
            trouble: Mutex::new(None),
        }
    }

    /// A new, empty file on the volume `at`, or else on one of the tier, chosen by free room and
    /// load; `inputs` are the volumes that its bytes are read from meanwhile. A volume that fails
    /// is passed over for another of the tier. The name is not durable before
    /// [`sync_dirs`](TableFiles::sync_dirs).
    ///
    /// # Errors
    /// Those of the machine, if every volume fails; `VolumeLost` if the directory is not there.
    pub fn create(
        &self,
        tier: Option<Medium>,
        inputs: &[VolumeId],
        mut at: Option<VolumeId>,
    ) -> Result<(FileId, Box<dyn AppendFile>)> {
        let mut failing = Vec::new();
        loop {
            let place = || self.volumes.place(&*self.env, tier, inputs, &failing);
            let volume = at.take().unwrap_or_else(place);
            match self.create_on(volume) {
                Err(error)
                    if !failing.contains(&volume) && failing.len() + 1 < self.volumes.count() =>
                {
                    *self.trouble.lock() = Some(error.to_string());
                    failing.push(volume);
                }
                created => return created,
            }
        }
    }

    /// Where [`create`](TableFiles::create) would put a file now, and what admits I/O there; none
    /// if nothing does.
    pub(crate) fn managed_place(
        &self,
        tier: Option<Medium>,
        inputs: &[VolumeId],
    ) -> Option<(VolumeId, Arc<VolumeIo>)> {
        let io = self.env.volume_io(self.volumes.root())?;
        let id = self.volumes.place(&*self.env, tier, inputs, &[]);
        let volume = self.volumes.get(id).ok();
        let of_volume = volume.and_then(|volume| self.env.volume_io(&volume.path));
        Some((id, of_volume.unwrap_or(io)))
    }

    /// The medium of the volumes of a tier.
    pub(crate) fn medium_of(&self, tier: Option<Medium>) -> Medium {
        self.volumes.medium_of(tier)
    }

    fn create_on(&self, volume: VolumeId) -> Result<(FileId, Box<dyn AppendFile>)> {
        self.make_dir(volume)?;
        loop {
            let number = self.next_number.fetch_add(1, Ordering::Relaxed);
            let file = FileId { volume, number };
            match self.env.create(&self.path(file)?) {
                Ok(created) => return Ok((file, created)),
                // An orphan of an earlier life, not removed yet: pass over its number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Err(self.volumes.get(volume)?.lost(error).into());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The volume of one of these tables that is not there.
    pub fn lost<'a>(&self, tables: impl IntoIterator<Item = &'a TableMeta>) -> Option<&Volume> {
        let volumes = tables.into_iter().map(|table| table.file.volume);
        let found = volumes.filter_map(|volume| self.volumes.get(volume).ok());
        let mut lost = found.filter(|volume| !volume.is_there);
        lost.next()
    }

    fn make_dir(&self, volume: VolumeId) -> Result<()> {
        if volume == VolumeId(0) && !self.ready.load(Ordering::Relaxed) {
            let dir = self.volumes.root().join(&self.subdir);
            let is_deep = self.subdir.components().nth(1).is_some();
            // What is above it was made with the partition. If that is gone, another directory is
            // in place of the volume, or none, and is left as it is.
            let made = match is_deep {
                true => self.env.create_dir(&dir),
                false => self.env.create_dir_all(&dir),
            };
            match made {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Err(self.volumes.get(volume)?.lost(error).into());
                }
                made => made?,
            }
            self.ready.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Why a volume was last passed over for another one; none if none ever was.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    /// Where a file is.
    ///
    /// # Errors
    /// If the database has no such volume.
    pub fn path(&self, file: FileId) -> Result<PathBuf> {
        let volume = self.volumes.get(file.volume)?;
        Ok(volume
            .path
            .join(&self.subdir)
            .join(format!("{:010}{SUFFIX}", file.number)))
    }

    /// A number above those of all files created here: what a manifest keeps.
    pub fn next_number(&self) -> u64 {
        self.next_number.load(Ordering::Relaxed)
    }

    /// All table files present, in order of volume and number; to find those that no manifest
    /// names.
    ///
    /// # Errors
    /// Those of the machine.
    pub fn list(&self) -> Result<Vec<FileId>> {
        let mut files = Vec::new();
        for volume in self.volumes.iter().filter(|volume| volume.is_there) {
            let dir = volume.path.join(&self.subdir);
            if !self.env.exists(&dir)? {
                continue;
            }
            let names = self.env.list(&dir)?;
            files.extend(
                names
                    .iter()
                    .filter_map(|name| number(name))
                    .map(|number| FileId {
                        volume: volume.id,
                        number,
                    }),
            );
        }
        files.sort_unstable();
        Ok(files)
    }

    /// Removes a file. Snapshots that hold it go on reading.
    ///
    /// # Errors
    /// Those of the machine.
    pub fn remove(&self, file: FileId) -> Result<()> {
        Ok(self.env.remove(&self.path(file)?)?)
    }

    /// Makes the names of `files` durable.
    ///
    /// # Errors
    /// Those of the machine.
    pub fn sync_dirs(&self, files: impl Iterator<Item = FileId>) -> Result<()> {
        let mut volumes: Vec<_> = files.map(|file| file.volume).collect();
        volumes.sort_unstable();
        volumes.dedup();
        for volume in volumes {
            let volume = self.volumes.get(volume)?;
            match self.env.sync_dir(&volume.path.join(&self.subdir)) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Err(volume.lost(error).into());
                }
                synced => synced?,
            }
        }
        Ok(())
    }
}

/// The number in a table file's name; `None` for any other name.
fn number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let number = digits.parse().ok()?;
    (format!("{number:010}") == digits).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quire_env::SimEnv;
    use std::path::Path;

    #[test]
    fn no_table_is_made_where_the_partition_is_gone() {
        let env = SimEnv::new(1);
        let root = Path::new("/db");
        let subdir = PathBuf::from("c1/p0/tables");
        env.create_dir_all(&root.join("c1/p0")).unwrap();
        let files = |env| TableFiles::new(env, Volumes::single("/db"), subdir.clone(), 1);
        files(env.clone()).create(None, &[], None).unwrap();
        // As if the directory of the database had been replaced by an empty one.
        env.remove_dir_all(&root.join("c1")).unwrap();
        let lost = files(env.clone())
            .create(None, &[], None)
            .map(drop)
            .unwrap_err();
        assert!(lost.to_string().contains("is lost"), "{lost}");
        assert!(env.list(root).unwrap().is_empty());
    }

    #[test]
    fn only_names_that_we_give_are_table_files() {
        assert_eq!(number("0000000012.table"), Some(12));
        assert_eq!(number("12345678901.table"), Some(12_345_678_901));
        for name in [
            "12.table",
            "+000000012.table",
            "0000000012",
            ".table",
            "0000000012.table.tmp",
        ] {
            assert_eq!(number(name), None, "{name}");
        }
    }
}
