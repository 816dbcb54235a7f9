//! [`FrozenFolder`]: the frozen partitions of a folder, as one database.
//!
//! # Invariants
//! 1. A query keeps the [`Snapshot`] that it began with: whatever happens to the files, it sees
//!    each file once, as it was.
//! 2. The stamp of a file is read before the file is opened: if another file replaces it in
//!    between, the next refresh finds that.
//! 3. If a file can't be opened, the one that had its name before stays in use, if it is open.

use crate::partition::Partition;
use crate::snapshot::Snapshot;
use crate::{Error, ErrorKind, FolderOptions, FrozenFile, Result};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use quire_env::{Env, JobClass};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How the name of a frozen partition ends.
const SUFFIX: &str = ".quire";

/// All files of a folder whose names end with `.quire`, in the order of their names, as one
/// database.
///
/// To replace a file, write the new one under another name in the same folder and rename it, as
/// [`FrozenBuilder`](crate::FrozenBuilder) does. [`refresh`](FrozenFolder::refresh) takes over all
/// changes at once; running queries keep the files that they began with.
///
/// With [`Access::Read`](crate::Access::Read) each file takes a file descriptor, with
/// [`Access::Map`](crate::Access::Map) none.
///
/// ```
/// use quire_env::{Env, SimEnv};
/// use quire_frozen::{FieldSpec, FolderOptions, FrozenBuilder, FrozenFolder, FrozenOptions};
/// use quire_model::Document;
/// use quire_query::{Options, field, find};
/// use std::path::Path;
/// use std::sync::Arc;
///
/// let env: Arc<dyn Env> = SimEnv::new(1);
/// let dir = Path::new("/cars");
/// env.create_dir_all(dir)?;
/// let folder = FrozenFolder::open(Arc::clone(&env), dir, FolderOptions::default())?;
/// for (name, car) in [("a.quire", r#"{"price": 1200}"#), ("b.quire", r#"{"price": 700}"#)] {
///     let fields = [FieldSpec::full("price")];
///     let (path, options) = (dir.join(name), FrozenOptions::default());
///     let mut builder = FrozenBuilder::create(Arc::clone(&env), &path, &fields, options)?;
///     builder.add(&Document::from_json(car.as_bytes())?, b"")?;
///     builder.finish()?;
/// }
/// assert_eq!(folder.refresh()?.opened, ["a.quire", "b.quire"]);
///
/// let cheap = find(field("price").lt(1_000)).prepare()?;
/// let snapshot = folder.snapshot();
/// let answer = snapshot.query(&cheap, &Options::default())?;
/// let car = snapshot.document(answer.hits[0])?;
/// assert_eq!(car.map(|car| car.to_json()).as_deref(), Some(r#"{"price":700}"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FrozenFolder(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    env: Arc<dyn Env>,
    dir: PathBuf,
    options: FolderOptions,
    snapshot: ArcSwap<Snapshot>,
    failures: ArcSwap<Vec<Failure>>,
    /// Held during a refresh.
    refreshing: Mutex<()>,
}

/// A file that could not be opened.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Its name in the folder; empty if it was the folder that could not be read.
    pub name: String,
    /// What is wrong.
    pub error: Arc<Error>,
}

/// What changed in a folder.
#[derive(Debug, Clone, Default)]
pub struct Refreshed {
    /// Names of files that were opened, anew where one was replaced.
    pub opened: Vec<String>,
    /// Names of files that are gone.
    pub dropped: Vec<String>,
    /// Files that could not be opened. They are tried again each time.
    pub failures: Vec<Failure>,
}

impl FrozenFolder {
    /// Opens all files that can be opened; [`failures`](FrozenFolder::failures) has the others.
    ///
    /// # Errors
    /// The folder can't be read.
    pub fn open(env: Arc<dyn Env>, dir: &Path, options: FolderOptions) -> Result<FrozenFolder> {
        let none = Snapshot::new(&env, Vec::new(), &options, None);
        let folder = FrozenFolder(Arc::new(Shared {
            env,
            dir: dir.to_path_buf(),
            options,
            snapshot: ArcSwap::from_pointee(none),
            failures: ArcSwap::default(),
            refreshing: Mutex::default(),
        }));
        folder.refresh()?;
        Ok(folder)
    }

    /// The files as of the last refresh.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.snapshot.load_full()
    }

    /// Calls `read` with the files as of the last refresh. Unlike [`snapshot`](Self::snapshot) it
    /// updates no count that threads share, which matters to queries of less than a microsecond.
    pub fn with_snapshot<T>(&self, read: impl FnOnce(&Snapshot) -> T) -> T {
        read(&self.0.snapshot.load())
    }

    /// The files that could not be opened at the last refresh.
    #[must_use]
    pub fn failures(&self) -> Arc<Vec<Failure>> {
        self.0.failures.load_full()
    }

    /// Lists the folder again: opens files that are new or were replaced, keeps the others open,
    /// and drops those that are gone.
    ///
    /// # Errors
    /// The folder can't be read; nothing changes then.
    pub fn refresh(&self) -> Result<Refreshed> {
        self.0.refresh()
    }

    /// Refreshes one file, by its name in the folder: for callers that know which one was replaced,
    /// added or removed. Returns whether it is another file than before, or gone.
    ///
    /// # Errors
    /// `InvalidArgument` if the name is not that of a file that ends with `.quire`. Or the file
    /// can't be opened; the one that had its name before stays in use.
    pub fn refresh_file(&self, name: &str) -> Result<bool> {
        let is_name = Path::new(name).file_name().is_some_and(|own| own == name);
        if !is_name || !name.ends_with(SUFFIX) {
            return Err(Error::InvalidArgument(format!(
                "{name:?} is no name of a file that ends with {SUFFIX}"
            )));
        }
        self.0.refresh_file(name)
    }

    /// Refreshes the folder at intervals of `every`, until the returned value is dropped. Errors
    /// are among the [`failures`](FrozenFolder::failures).
    pub fn watch(&self, every: Duration) -> Watch {
        let duty = Arc::new(Duty {
            shared: Arc::clone(&self.0),
            every,
        });
        duty.schedule();
        Watch { _duty: duty }
    }
}

/// Keeps a folder up to date until it is dropped.
#[derive(Debug)]
#[must_use = "nothing is watched once it is dropped"]
pub struct Watch {
    _duty: Arc<Duty>,
}

#[derive(Debug)]
struct Duty {
    shared: Arc<Shared>,
    every: Duration,
}

impl Duty {
    fn schedule(self: &Arc<Duty>) {
        let duty = Arc::downgrade(self);
        let look = move || {
            if let Some(duty) = duty.upgrade() {
                if let Err(error) = duty.shared.refresh() {
                    duty.shared.failures.store(Arc::new(vec![Failure {
                        name: String::new(),
                        error: Arc::new(error),
                    }]));
                }
                duty.schedule();
            }
        };
        let env = &self.shared.env;
        env.schedule(JobClass::Flush, self.every, Box::new(look));
    }
}

impl Shared {
    fn refresh(&self) -> Result<Refreshed> {
        let _alone = self.refreshing.lock();
        let before = self.snapshot.load_full();
        let mut found = Refreshed::default();
        let mut partitions = Vec::with_capacity(before.partitions().len());
        for name in self.env.list(&self.dir)? {
            if !name.ends_with(SUFFIX) {
                continue;
            }
            let former = before.partition(&name);
            match self.look(&name, former) {
                Ok(partition) => {
                    if former.is_none_or(|former| !Arc::ptr_eq(former, &partition)) {
                        found.opened.push(name);
                    }
                    partitions.push(partition);
                }
                // It was removed after the folder was listed.
                Err(error) if is_absence(&error) => {}
                Err(error) => {
                    partitions.extend(former.cloned());
                    let error = Arc::new(error);
                    found.failures.push(Failure { name, error });
                }
            }
        }
        let is_open = |name: &String| {
            let found = partitions.binary_search_by(|one: &Arc<Partition>| one.name.cmp(name));
            found.is_ok()
        };
        let names = before.partitions().iter().map(|one| &one.name);
        found.dropped = names.filter(|name| !is_open(name)).cloned().collect();
        if !found.opened.is_empty() || !found.dropped.is_empty() {
            self.serve(partitions, &before);
        }
        self.failures.store(Arc::new(found.failures.clone()));
        Ok(found)
    }

    fn refresh_file(&self, name: &str) -> Result<bool> {
        let _alone = self.refreshing.lock();
        let before = self.snapshot.load_full();
        let former = before.partition(name);
        let now = match self.look(name, former) {
            Ok(now) => Some(now),
            Err(error) if is_absence(&error) => None,
            Err(error) => return Err(error),
        };
        if former.map(Arc::as_ptr) == now.as_ref().map(Arc::as_ptr) {
            return Ok(false);
        }
        let mut partitions = before.partitions().to_vec();
        let place = partitions.partition_point(|one| one.name.as_str() < name);
        partitions.splice(place..place + usize::from(former.is_some()), now);
        self.serve(partitions, &before);
        Ok(true)
    }

    fn serve(&self, partitions: Vec<Arc<Partition>>, before: &Snapshot) {
        let now = Snapshot::new(&self.env, partitions, &self.options, Some(before));
        self.snapshot.store(Arc::new(now));
    }

    /// The file of a name: the open one, if it is the same.
    fn look(&self, name: &str, former: Option<&Arc<Partition>>) -> Result<Arc<Partition>> {
        let path = self.dir.join(name);
        let stamp = self.env.stamp(&path)?;
        if let Some(former) = former
            && former.stamp == stamp
        {
            return Ok(Arc::clone(former));
        }
        let file = FrozenFile::open(&*self.env, &path, self.options.files)?;
        Ok(Arc::new(Partition {
            name: name.to_string(),
            stamp,
            file,
        }))
    }
}

fn is_absence(error: &Error) -> bool {
    error.kind() == ErrorKind::Env(quire_env::ErrorKind::NotFound)
}
