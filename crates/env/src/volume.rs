//! Volumes: the directories that hold a database, each on a disk of its own (JBOD).

use crate::{Env, Error, Result};
use std::fmt;
use std::path::{Path, PathBuf};

/// The index of a volume in the list of the database; stored in manifests, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub u16);

/// The kind of disk of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Random reads are cheap.
    Ssd,
    /// Random reads cost a seek.
    Hdd,
}

/// One directory on one disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Its index in the list.
    pub id: VolumeId,
    /// The directory.
    pub path: PathBuf,
    /// The kind of disk.
    pub medium: Medium,
}

/// Identifies a file of a partition: its volume, and its number, which is unique in the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The volume.
    pub volume: VolumeId,
    /// The number.
    pub number: u64,
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.volume.0, self.number)
    }
}

impl Volume {
    /// The error that the volume is lost, with `source` as the reason.
    pub fn lost(&self, source: Error) -> Error {
        Error::VolumeLost {
            volume: self.id.0,
            path: self.path.clone(),
            source: Box::new(source),
        }
    }
}

/// The volumes of a database, at least one; the first holds the catalog, the manifests and the
/// logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volumes(Vec<Volume>);

impl Volumes {
    /// Volumes from a list of directories; the first is volume 0.
    ///
    /// # Errors
    /// `InvalidArgument` if the list is empty, longer than 65,536, or names a directory twice.
    pub fn new(list: impl IntoIterator<Item = (PathBuf, Medium)>) -> Result<Volumes> {
        let mut volumes: Vec<Volume> = Vec::new();
        for (index, (path, medium)) in list.into_iter().enumerate() {
            let id = u16::try_from(index)
                .map_err(|_| Error::invalid_argument("more than 65,536 volumes"))?;
            if let Some(same) = volumes.iter().find(|volume| volume.path == path) {
                let (path, first) = (path.display(), same.id.0);
                let twice = format!("volume {id} at {path} is volume {first} already");
                return Err(Error::invalid_argument(twice));
            }
            volumes.push(Volume {
                id: VolumeId(id),
                path,
                medium,
            });
        }
        if volumes.is_empty() {
            return Err(Error::invalid_argument(
                "a database needs at least one volume",
            ));
        }
        assert!(
            volumes
                .iter()
                .enumerate()
                .all(|(at, volume)| at == usize::from(volume.id.0)),
            "the id of a volume is its index"
        );
        Ok(Volumes(volumes))
    }

    /// One SSD volume: the default.
    pub fn single(path: impl Into<PathBuf>) -> Volumes {
        Volumes(vec![Volume {
            id: VolumeId(0),
            path: path.into(),
            medium: Medium::Ssd,
        }])
    }

    /// The first volume's directory.
    pub fn root(&self) -> &Path {
        self.0.first().map_or(Path::new(""), |volume| &volume.path)
    }

    /// All of them, in order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &Volume> {
        self.0.iter()
    }

    /// The volume with this id.
    ///
    /// # Errors
    /// `NotFound` if the database was opened without it: too few directories were given.
    pub fn get(&self, id: VolumeId) -> Result<&Volume> {
        self.0.get(usize::from(id.0)).ok_or(Error::NoVolume {
            volume: id.0,
            given: self.0.len(),
        })
    }

    /// The volume for a new file: the first of those with the most free space. A volume whose free
    /// space is unknown is used only if it is unknown for all; then it is the first, and creating
    /// the file reports what is wrong.
    pub fn place(&self, env: &dyn Env) -> VolumeId {
        match self.0.as_slice() {
            [only] => only.id,
            volumes => most_free(
                volumes
                    .iter()
                    .map(|volume| (volume.id, env.free_bytes(&volume.path).ok())),
            ),
        }
    }

    /// Checks that the directory of each volume can be read.
    ///
    /// # Errors
    /// `VolumeLost` for the first that can't: it names the volume and its directory.
    pub fn check(&self, env: &dyn Env) -> Result<()> {
        for volume in &self.0 {
            env.list(&volume.path)
                .map_err(|source| volume.lost(source))?;
        }
        Ok(())
    }

    /// Checks that each volume except the first has the directory `subdir`, which was made on all
    /// of them. If a disk is not mounted, its mount point still exists and is empty: nothing must
    /// be written to it.
    ///
    /// # Errors
    /// `VolumeLost` for the first without it.
    pub fn check_subdir(&self, env: &dyn Env, subdir: &Path) -> Result<()> {
        for volume in self.0.iter().skip(1) {
            env.list(&volume.path.join(subdir))
                .map_err(|source| volume.lost(source))?;
        }
        Ok(())
    }
}

/// The first of those with the most free bytes. Unknown counts as less than 0.
fn most_free(volumes: impl Iterator<Item = (VolumeId, Option<u64>)>) -> VolumeId {
    let mut best = (VolumeId(0), None);
    for (id, free) in volumes {
        if free > best.1 {
            best = (id, free);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, SimEnv};

    fn list(paths: &[&str]) -> Result<Volumes> {
        Volumes::new(paths.iter().map(|path| (PathBuf::from(path), Medium::Hdd)))
    }

    #[test]
    fn volumes_keep_their_place_in_the_list() -> Result<()> {
        let volumes = list(&["/a", "/b"])?;
        assert_eq!(volumes.root(), Path::new("/a"));
        assert_eq!(volumes.get(VolumeId(1))?.path, Path::new("/b"));
        assert_eq!(volumes.iter().map(|v| v.id.0).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(Volumes::single("/x").root(), Path::new("/x"));
        Ok(())
    }

    #[test]
    fn bad_lists_are_refused() {
        for paths in [&[][..], &["/a", "/b", "/a"], &["x"; 65_537]] {
            let kind = list(paths).map_err(|error| error.kind());
            assert_eq!(kind, Err(ErrorKind::InvalidArgument));
        }
    }

    #[test]
    fn volume_that_was_not_given_is_named() -> Result<()> {
        let error = list(&["/a", "/b"])?
            .get(VolumeId(2))
            .expect_err("there are two");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("volume 2"), "{error}");
        Ok(())
    }

    #[test]
    fn lost_volume_is_named() -> Result<()> {
        let env = SimEnv::new(0);
        env.create_dir_all(Path::new("/a"))?;
        let error = list(&["/a", "/disk2"])?
            .check(&*env)
            .expect_err("/disk2 is not there");
        assert_eq!(error.kind(), ErrorKind::Io);
        let text = error.to_string();
        assert!(
            text.contains("volume 1") && text.contains("/disk2"),
            "{text}"
        );
        list(&["/a"])?.check(&*env)
    }

    #[test]
    fn volume_without_its_directories_is_lost_and_the_first_is_known_by_other_files() -> Result<()>
    {
        let env = SimEnv::new(0);
        env.create_dir_all(Path::new("/b/c"))?;
        let volumes = list(&["/a", "/b"])?;
        volumes.check_subdir(&*env, Path::new("c"))?;
        let error = volumes
            .check_subdir(&*env, Path::new("d"))
            .expect_err("/b has no d");
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("volume 1 at /b"), "{error}");
        Ok(())
    }

    #[test]
    fn new_file_goes_to_the_first_volume_with_the_most_room() {
        for (free, expected) in [
            (&[Some(5)][..], 0),
            (&[Some(5), Some(9), Some(9)], 1),
            (&[Some(9), Some(5)], 0),
            (&[None, Some(0)], 1),
            (&[Some(0), None], 0),
            (&[None, None], 0),
            (&[Some(0), Some(0)], 0),
        ] {
            let ids = (0..).map(VolumeId);
            assert_eq!(
                most_free(ids.zip(free.iter().copied())),
                VolumeId(expected),
                "{free:?}"
            );
        }
    }

    #[test]
    fn volume_whose_free_space_is_unknown_is_passed_over() -> Result<()> {
        let env = SimEnv::new(0);
        env.create_dir_all(Path::new("/b"))?;
        assert_eq!(list(&["/a", "/b"])?.place(&*env), VolumeId(1));
        assert_eq!(Volumes::single("/a").place(&*env), VolumeId(0));
        Ok(())
    }
}
