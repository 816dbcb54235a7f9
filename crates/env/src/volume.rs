//! Volumes: the directories a database lives on, each a disk of its own (JBOD).

use crate::{Env, Error, Result};
use std::fmt;
use std::path::{Path, PathBuf};

/// A volume's place in the database's list; stored in manifests, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub u16);

/// What a volume is made of.
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
    /// Its place in the list.
    pub id: VolumeId,
    /// The directory.
    pub path: PathBuf,
    /// What it is made of.
    pub medium: Medium,
}

/// Names a file of a partition: the volume it is on and its number, unique within the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// Where.
    pub volume: VolumeId,
    /// Which.
    pub number: u64,
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.volume.0, self.number)
    }
}

/// The volumes of a database, at least one; the first holds the catalog, the manifests and the logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volumes(Vec<Volume>);

impl Volumes {
    /// Volumes from a list of directories; the first is volume 0.
    ///
    /// # Errors
    /// `InvalidArgument` if the list is empty or longer than 65,536.
    pub fn new(list: impl IntoIterator<Item = (PathBuf, Medium)>) -> Result<Volumes> {
        let mut volumes = Vec::new();
        for (index, (path, medium)) in list.into_iter().enumerate() {
            let id = u16::try_from(index)
                .map_err(|_| Error::invalid_argument("more than 65,536 volumes"))?;
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
    /// `NotFound` that names the missing volume.
    pub fn get(&self, id: VolumeId) -> Result<&Volume> {
        self.0
            .get(usize::from(id.0))
            .ok_or_else(|| Error::invalid_argument(format!("no volume {} in this database", id.0)))
    }

    /// The volume for a new file: of those with the most free room, the first. One that can't be asked is passed over.
    pub fn place(&self, env: &dyn Env) -> VolumeId {
        let mut best = (VolumeId(0), 0);
        if self.0.len() > 1 {
            for volume in &self.0 {
                let free = env.free_bytes(&volume.path).unwrap_or(0);
                if free > best.1 {
                    best = (volume.id, free);
                }
            }
        }
        best.0
    }
}
