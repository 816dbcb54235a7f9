//! [`FrozenCollection`]: a frozen file, or a folder of them, that a database serves beside its
//! collections, under a name of its own.
//!
//! # Invariants
//! 1. Nothing of it is written: the catalog does not name it, and it goes when the database is
//!    closed.
//! 2. No collection and no alias that is made here gets its name.
//! 3. A file that can't be opened at a refresh leaves the one that had its name before in use.

use crate::frozen_view::{FrozenView, has_keys, open_folder};
use crate::stats::CollectionStats;
use crate::usage::Usage;
use crate::{Error, Result};
use parking_lot::RwLock;
use quire_env::{Env, FileStamp};
use quire_frozen::{FrozenFile, FrozenFolder, OpenOptions, Refreshed};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A frozen file, or a folder of them, that was
/// [attached](crate::Database::attach_frozen) to a database. Cheap to clone; any number of threads.
#[derive(Debug, Clone)]
pub struct FrozenCollection {
    state: Arc<FrozenState>,
}

/// What its views share.
#[derive(Debug)]
pub(crate) struct FrozenState {
    pub(crate) name: String,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) usage: Usage,
    path: PathBuf,
    identity: [u8; 16],
    files: Files,
}

#[derive(Debug)]
enum Files {
    /// The stamp of the file is read before the file is opened.
    One(RwLock<(FileStamp, FrozenView)>),
    Folder(FrozenFolder),
}

impl FrozenCollection {
    /// Opens what is at `path`.
    pub(crate) fn open(env: &Arc<dyn Env>, name: &str, path: &Path) -> Result<FrozenCollection> {
        let begun = env.monotonic();
        let files = match env.list(path) {
            Ok(_) => Files::Folder(open_folder(env, path)?),
            Err(_) => Files::One(RwLock::new(open_file(&**env, path)?)),
        };
        let mut identity = [0; 16];
        env.random(&mut identity);
        let collection = FrozenCollection {
            state: Arc::new(FrozenState {
                name: name.to_owned(),
                usage: Usage::new(env, begun, false),
                env: Arc::clone(env),
                path: path.to_path_buf(),
                identity,
                files,
            }),
        };
        for file in collection.files().files() {
            if !has_keys(file)? {
                let path = file.path().display();
                return Err(Error::Invalid(format!(
                    "{path}: documents are not found by their keys here: index the field \
                     \"_id\" for conditions, as `quire freeze` does"
                )));
            }
        }
        Ok(collection)
    }

    /// The name that it was attached under.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// The file or the folder.
    pub fn path(&self) -> &Path {
        &self.state.path
    }

    /// What no collection has, and nothing else that was ever attached.
    pub fn identity(&self) -> [u8; 16] {
        self.state.identity
    }

    /// What was done with it since it was attached, as those that serve it count.
    pub fn usage(&self) -> &Usage {
        &self.state.usage
    }

    /// The files as of the last refresh.
    pub fn files(&self) -> FrozenView {
        match &self.state.files {
            Files::One(file) => file.read().1.clone(),
            Files::Folder(folder) => FrozenView::of_folder(folder),
        }
    }

    pub(crate) fn state(&self) -> &Arc<FrozenState> {
        &self.state
    }

    /// How many documents there are.
    pub fn count(&self) -> u64 {
        self.files().count()
    }

    /// Its figures: those of a frozen collection are its documents, its files, which are its
    /// partitions, and their bytes.
    pub fn stats(&self) -> CollectionStats {
        let files = self.files();
        let files = files.files();
        CollectionStats {
            name: self.state.name.clone(),
            documents: files.iter().map(|file| u64::from(file.documents())).sum(),
            partitions: files.len() as u32,
            disk_bytes: files.iter().map(|file| file.bytes()).sum(),
            positions: vec![0; files.len()],
            ..CollectionStats::default()
        }
    }

    /// Opens what is new at the path: a file in the place of the one that was there, and of a
    /// folder all files that were added or replaced; and drops those of a folder that are gone.
    /// Views keep what they have.
    ///
    /// # Errors
    /// The folder can't be read, or the file can't be opened: nothing changes then. Files of a
    /// folder that can't be opened are named in the report.
    pub fn refresh(&self) -> Result<Refreshed> {
        let file = match &self.state.files {
            Files::Folder(folder) => return Ok(folder.refresh()?),
            Files::One(file) => file,
        };
        let (env, path) = (&*self.state.env, &*self.state.path);
        if env.stamp(path)? == file.read().0 {
            return Ok(Refreshed::default());
        }
        *file.write() = open_file(env, path)?;
        Ok(Refreshed {
            opened: vec![path.display().to_string()],
            ..Refreshed::default()
        })
    }
}

fn open_file(env: &dyn Env, path: &Path) -> Result<(FileStamp, FrozenView)> {
    let stamp = env.stamp(path)?;
    let file = FrozenFile::open(env, path, OpenOptions::default())?;
    Ok((stamp, FrozenView::of_file(file)))
}
