//! Volumes: the directories that hold a database, each on a disk of its own (JBOD).

use crate::{Env, Error, ErrorKind, Medium, Result};
use std::cmp::Reverse;
use std::fmt;
use std::path::{Path, PathBuf};

/// The index of a volume in the list of the database; stored in manifests, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub u16);

/// One directory on one disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Its index in the list.
    pub id: VolumeId,
    /// What people call it.
    pub name: String,
    /// The directory.
    pub path: PathBuf,
    /// The kind of disk.
    pub medium: Medium,
    /// False if its disk was not mounted when the database was opened: nothing is read from it, and
    /// nothing is written to what is in its place.
    pub is_there: bool,
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
            name: self.name.clone(),
            path: self.path.clone(),
            source: Box::new(source),
        }
    }

    /// The error that the volume is lost: its directory is not there.
    pub fn missing(&self) -> Error {
        let source = std::io::ErrorKind::NotFound.into();
        self.lost(Error::io("open", &self.path, source))
    }
}

/// The volumes of a database, at least one; the first holds the catalog, the manifests and the
/// logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volumes(Vec<Volume>);

impl Volumes {
    /// Volumes from a list of directories; the first is volume 0. They are named `first`, then
    /// `volume1` and so on.
    ///
    /// # Errors
    /// `InvalidArgument` if the list is empty, longer than 65,536, or names a directory twice.
    pub fn new(list: impl IntoIterator<Item = (PathBuf, Medium)>) -> Result<Volumes> {
        let named = |(index, (path, medium))| (Volumes::default_name(index), path, medium);
        Volumes::named(list.into_iter().enumerate().map(named))
    }

    /// Volumes from a list of names, directories and media; the first is volume 0.
    ///
    /// # Errors
    /// As of [`new`](Volumes::new); `InvalidArgument` also for a bad name or one that is there
    /// twice.
    pub fn named(list: impl IntoIterator<Item = (String, PathBuf, Medium)>) -> Result<Volumes> {
        let mut volumes: Vec<Volume> = Vec::new();
        for (index, (name, path, medium)) in list.into_iter().enumerate() {
            let id = u16::try_from(index)
                .map_err(|_| Error::invalid_argument("more than 65,536 volumes"))?;
            check_name(&name)?;
            if let Some(same) = volumes.iter().find(|volume| volume.path == path) {
                let (path, first) = (path.display(), same.id.0);
                let twice = format!("volume {id} at {path} is volume {first} already");
                return Err(Error::invalid_argument(twice));
            }
            if volumes.iter().any(|volume| volume.name == name) {
                let twice = format!("there is a volume {name} already; give another name");
                return Err(Error::invalid_argument(twice));
            }
            volumes.push(Volume {
                id: VolumeId(id),
                name,
                path,
                medium,
                is_there: true,
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
            name: Volumes::default_name(0),
            path: path.into(),
            medium: Medium::Ssd,
            is_there: true,
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

    /// The name of the volume at this place of the list, if it was given none.
    pub fn default_name(index: usize) -> String {
        match index {
            0 => "first".to_string(),
            _ => format!("volume{index}"),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The volume for a new file of a tier: one with much room and little load. `inputs` are those
    /// that the bytes of the file are read from meanwhile, `failing` those that just failed. A tier
    /// has the volumes of its medium; without a tier it is that of the first volume. If none of
    /// them is there, the first takes the file.
    pub fn place(
        &self,
        env: &dyn Env,
        tier: Option<Medium>,
        inputs: &[VolumeId],
        failing: &[VolumeId],
    ) -> VolumeId {
        let medium = self.medium_of(tier);
        let of_tier = |volume: &&Volume| {
            volume.is_there && volume.medium == medium && !failing.contains(&volume.id)
        };
        let of_tier: Vec<_> = self.0.iter().filter(of_tier).collect();
        match of_tier.as_slice() {
            [] => VolumeId(0),
            [only] => only.id,
            many => {
                let candidates = many.iter().map(|volume| Candidate {
                    id: volume.id,
                    free: env.free_bytes(&volume.path).ok(),
                    load: env.load_bytes(&volume.path),
                    is_input: inputs.contains(&volume.id),
                });
                choose(&candidates.collect::<Vec<_>>())
            }
        }
    }

    /// The medium of a tier; without a tier it is that of the first volume.
    pub fn medium_of(&self, tier: Option<Medium>) -> Medium {
        let of_first = || self.0.first().map_or(Medium::Ssd, |volume| volume.medium);
        tier.unwrap_or_else(of_first)
    }

    /// Whether a volume of this medium is among them.
    pub fn has(&self, medium: Medium) -> bool {
        self.0.iter().any(|volume| volume.medium == medium)
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

    /// The same volumes; those are not there of which `is_there` says no. The first is
    /// always there.
    #[must_use]
    pub fn noting(mut self, mut is_there: impl FnMut(&Volume) -> bool) -> Volumes {
        for volume in self.0.iter_mut().skip(1) {
            volume.is_there = volume.is_there && is_there(volume);
        }
        self
    }

    /// The same volumes; those are not there that lack the directory `subdir`, which was made on
    /// all of them. If a disk is not mounted, its mount point still exists and is empty: nothing
    /// must be written to it. One that can't be listed for another reason is not there either;
    /// `unreadable` is given that error.
    #[must_use]
    pub fn with_subdir(
        self,
        env: &dyn Env,
        subdir: &Path,
        mut unreadable: impl FnMut(Error),
    ) -> Volumes {
        self.noting(
            |volume| match found(|| env.list(&volume.path.join(subdir))) {
                Ok(_) => true,
                Err(error) if error.kind() == ErrorKind::NotFound => false,
                Err(source) => {
                    unreadable(volume.lost(source));
                    false
                }
            },
        )
    }

    /// Fails if a volume is not there.
    ///
    /// # Errors
    /// `VolumeLost` for the first of these.
    pub fn check_there(&self) -> Result<()> {
        match self.0.iter().find(|volume| !volume.is_there) {
            Some(lost) => Err(lost.missing()),
            None => Ok(()),
        }
    }
}

/// What `find` finds. An error is not believed before it comes twice, unless nothing is there: a
/// disk is not given up for one read that fails.
pub fn found<T>(find: impl Fn() -> Result<T>) -> Result<T> {
    match find() {
        Err(error) if error.kind() != ErrorKind::NotFound => find(),
        found => found,
    }
}

/// The longest name of a volume, in bytes.
const NAME_BYTES_MAX: usize = 64;

fn check_name(name: &str) -> Result<()> {
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.".contains(c);
    match !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(is_fine) {
        true => Ok(()),
        false => Err(Error::invalid_argument(format!(
            "volume {:?}: a name has 1 to {NAME_BYTES_MAX} of a to z, 0 to 9, _ - and .",
            name.chars().take(NAME_BYTES_MAX).collect::<String>()
        ))),
    }
}

/// A volume that could take a new file.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    id: VolumeId,
    /// Free bytes; none if that is unknown.
    free: Option<u64>,
    /// Bytes that are on their way to the disk or from it.
    load: u64,
    /// Whether the bytes of the file are read from it meanwhile.
    is_input: bool,
}

/// What reading the input counts as load.
const INPUT_LOAD_BYTES: u64 = 8 << 20;

/// Where a new file goes. Those with at least half of the most free room are equal in that: of
/// them the one with the least load, then the one with the most room, then the first. Unknown
/// free room counts as none.
fn choose(candidates: &[Candidate]) -> VolumeId {
    let most = candidates.iter().filter_map(|one| one.free).max();
    let half = most.map(|bytes| bytes.div_ceil(2));
    let roomy = candidates.iter().filter(|one| one.free >= half);
    let order = |one: &&Candidate| {
        let input = if one.is_input { INPUT_LOAD_BYTES } else { 0 };
        (one.load.saturating_add(input), Reverse(one.free), one.id)
    };
    roomy.min_by_key(order).map_or(VolumeId(0), |one| one.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReadFault, SimEnv};

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
            text.contains("volume volume1") && text.contains("/disk2"),
            "{text}"
        );
        list(&["/a"])?.check(&*env)
    }

    #[test]
    fn volume_without_its_directories_is_not_there_and_the_first_is_known_by_other_files()
    -> Result<()> {
        let env = SimEnv::new(0);
        env.create_dir_all(Path::new("/b/c"))?;
        let volumes = list(&["/a", "/b"])?;
        volumes
            .clone()
            .with_subdir(&*env, Path::new("c"), |error| panic!("{error}"))
            .check_there()?;
        let noted = volumes.with_subdir(&*env, Path::new("d"), |error| panic!("{error}"));
        let error = noted.check_there().expect_err("/b has no d");
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(
            error.to_string().contains("volume volume1 at /b"),
            "{error}"
        );
        assert_eq!(noted.place(&*env, None, &[], &[]), VolumeId(0));
        Ok(())
    }

    #[test]
    fn volume_that_can_not_be_listed_is_not_there_and_its_error_is_reported() -> Result<()> {
        let env = SimEnv::new(0);
        env.create_dir_all(Path::new("/b/c"))?;
        let note = |fault: fn(&SimEnv)| -> Result<(Volumes, Vec<String>)> {
            fault(&env);
            let mut errors = Vec::new();
            let noted = list(&["/a", "/b"])?.with_subdir(&*env, Path::new("c"), |error| {
                errors.push(error.to_string());
            });
            env.heal();
            Ok((noted, errors))
        };
        // One read that fails is read again.
        let (once, errors) = note(|env| env.fail_read_at(env.reads(), ReadFault::Eio))?;
        once.check_there()?;
        assert_eq!(errors, [""; 0]);
        let (lost, errors) = note(|env| env.fail_reads_of(Path::new("/b")))?;
        assert!(lost.check_there().is_err());
        let [error] = errors.as_slice() else {
            panic!("{errors:?}");
        };
        let reason = std::io::Error::from_raw_os_error(5).to_string();
        assert!(error.contains("volume1 at /b"), "{error}");
        assert!(error.contains(&reason), "{error}");
        Ok(())
    }

    #[test]
    fn new_file_goes_where_room_and_load_allow() {
        let gib = |count: u64| Some(count << 30);
        // Of each volume: free room, load in MiB, whether the input lies on it.
        type One = (Option<u64>, u64, bool);
        let cases: &[(&[One], u16)] = &[
            (&[(gib(5), 0, false)], 0),
            // Room.
            (
                &[(gib(5), 0, false), (gib(9), 0, false), (gib(9), 0, false)],
                1,
            ),
            (&[(gib(4), 0, false), (gib(9), 99, false)], 1),
            (&[(None, 0, false), (Some(1), 99, true)], 1),
            (&[(Some(0), 0, false), (None, 0, false)], 0),
            (&[(None, 0, false), (None, 0, false)], 0),
            // Load, among those with much room.
            (&[(gib(9), 1, false), (gib(5), 0, false)], 1),
            (
                &[(gib(9), 2, false), (gib(5), 1, false), (gib(1), 0, false)],
                1,
            ),
            // The disk that the input lies on is as good as a busy one.
            (&[(gib(9), 0, true), (gib(5), 0, false)], 1),
            (&[(gib(9), 0, true), (gib(5), 7, false)], 1),
            (&[(gib(9), 0, true), (gib(5), 9, false)], 0),
            (&[(gib(9), 0, true), (gib(9), 0, true)], 0),
        ];
        for (volumes, expected) in cases {
            let candidates = volumes.iter().zip(0..);
            let candidates = candidates.map(|(&(free, load, is_input), id)| Candidate {
                id: VolumeId(id),
                free,
                load: load << 20,
                is_input,
            });
            let chosen = choose(&candidates.collect::<Vec<_>>());
            assert_eq!(chosen, VolumeId(*expected), "{volumes:?}");
        }
    }

    #[test]
    fn tier_has_the_volumes_of_its_medium() -> Result<()> {
        let env = SimEnv::new(0);
        let one =
            |name: &str, medium| (name.to_string(), PathBuf::from(format!("/{name}")), medium);
        let volumes = Volumes::named([
            one("a", Medium::Ssd),
            one("b", Medium::Hdd),
            one("c", Medium::Ssd),
            one("d", Medium::Hdd),
        ])?;
        for volume in volumes.iter() {
            env.create_dir_all(&volume.path)?;
        }
        let place = |volumes: &Volumes, tier, failing: &[u16]| {
            let failing: Vec<_> = failing.iter().copied().map(VolumeId).collect();
            volumes.place(&*env, tier, &[], &failing).0
        };
        let (ssd, hdd) = (Some(Medium::Ssd), Some(Medium::Hdd));
        assert_eq!(
            [place(&volumes, None, &[]), place(&volumes, hdd, &[])],
            [0, 1]
        );
        assert_eq!(
            [place(&volumes, ssd, &[0]), place(&volumes, hdd, &[1])],
            [2, 3]
        );
        let lost = volumes.noting(|volume| volume.medium == Medium::Ssd);
        assert_eq!(
            [place(&lost, None, &[0, 2]), place(&lost, hdd, &[])],
            [0, 0]
        );
        Ok(())
    }

    #[test]
    fn names_and_media_are_checked() {
        for name in ["", "Disk", "a b", "a/b", &"x".repeat(65)] {
            let named = Volumes::named([(name.to_string(), PathBuf::from("/a"), Medium::Ssd)]);
            assert_eq!(
                named.unwrap_err().kind(),
                ErrorKind::InvalidArgument,
                "{name}"
            );
        }
        let twice = ["/a", "/b"].map(|path| ("d".to_string(), path.into(), Medium::Ssd));
        assert!(Volumes::named(twice).is_err());
        assert_eq!("hdd".parse::<Medium>().unwrap(), Medium::Hdd);
        assert!("tape".parse::<Medium>().is_err());
    }
}
