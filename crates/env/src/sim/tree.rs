//! The simulated names: directories, what they hold now, and what a crash would leave of it.
//!
//! # Invariants
//! 1. A change of names (a creation, a removal, a rename) is one atomic list of entries set or
//!    cleared.
//! 2. `now` of every directory is its `durable` with the pending changes applied in order.
//! 3. A directory in `absent` is not accessible: either it fails, or another directory is found in
//!    its place.
//! 4. A crash leaves each directory with a prefix of the changes of it. Directories are cut
//!    separately, but a rename between two of them is kept in both or lost in both.

use super::file::{FileRef, SimFile};
use super::rng::Rng;
use parking_lot::Mutex;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Weak};

type DirId = usize;
const ROOT: DirId = 0;

/// What a name refers to.
#[derive(Debug, Clone)]
pub(super) enum Node {
    File(FileRef),
    Dir(DirId),
}

/// A name in a directory, and what it refers to from now on.
#[derive(Debug, Clone)]
struct Entry {
    dir: DirId,
    name: String,
    node: Option<Node>,
}

#[derive(Debug, Default, Clone)]
struct Dir {
    /// The path that led to it when it was made, as names.
    names: Vec<String>,
    now: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
}

/// All directories and files of a machine. Relative paths start at the root, which always exists.
#[derive(Debug)]
pub(super) struct Tree {
    /// By id. A directory that no name refers to any more stays: directories are few.
    dirs: Vec<Dir>,
    pending: Vec<Vec<Entry>>,
    files_made: u64,
    /// Files that had a name and lost it, with the directory it was in. They take space as long as
    /// they are open.
    nameless: Vec<(DirId, Weak<Mutex<SimFile>>)>,
    /// Directories whose disk has vanished, and the directory found there instead; `None` if it
    /// fails with EIO.
    absent: BTreeMap<DirId, Option<DirId>>,
}

impl Tree {
    pub(super) fn new() -> Tree {
        Tree {
            dirs: vec![Dir::default()],
            pending: Vec::new(),
            files_made: 0,
            nameless: Vec::new(),
            absent: BTreeMap::new(),
        }
    }

    /// What `path` refers to.
    pub(super) fn find(&self, path: &Path) -> io::Result<Node> {
        let mut node = Node::Dir(ROOT);
        for name in names_of(path) {
            let Node::Dir(dir) = node else {
                return Err(Errno::NOTDIR.into());
            };
            node = match self.entry(dir, &name).ok_or(Errno::NOENT)? {
                Node::File(file) => Node::File(Arc::clone(file)),
                Node::Dir(dir) => Node::Dir(self.present(*dir)?),
            };
        }
        Ok(node)
    }

    /// The directory that is found in place of one.
    fn present(&self, dir: DirId) -> io::Result<DirId> {
        match self.absent.get(&dir) {
            None => Ok(dir),
            Some(mount_point) => Ok(mount_point.ok_or(Errno::IO)?),
        }
    }

    /// The file at `path`.
    pub(super) fn file(&self, path: &Path) -> io::Result<FileRef> {
        match self.find(path)? {
            Node::File(file) => Ok(file),
            Node::Dir(_) => Err(Errno::ISDIR.into()),
        }
    }

    /// Makes a new, empty file.
    pub(super) fn create_file(&mut self, path: &Path) -> io::Result<FileRef> {
        let (dir, name) = self.free_name(path)?;
        self.files_made += 1;
        let file = FileRef::new(Mutex::new(SimFile::empty(self.files_made)));
        self.change(vec![Entry {
            dir,
            name,
            node: Some(Node::File(Arc::clone(&file))),
        }]);
        Ok(file)
    }

    /// Makes a directory, unless it exists.
    pub(super) fn make_dir(&mut self, path: &Path) -> io::Result<()> {
        if let Ok(Node::Dir(_)) = self.find(path) {
            return Ok(());
        }
        let (dir, name) = self.free_name(path)?;
        let id = self.new_dir(names_of(path));
        self.change(vec![Entry {
            dir,
            name,
            node: Some(Node::Dir(id)),
        }]);
        Ok(())
    }

    fn new_dir(&mut self, names: Vec<String>) -> DirId {
        self.dirs.push(Dir {
            names,
            ..Dir::default()
        });
        self.dirs.len() - 1
    }

    /// Renames a file or a directory, replacing a file or an empty directory at `to`.
    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (from_dir, from_name) = self.split(from)?;
        let (to_dir, to_name) = self.split(to)?;
        let node = self
            .entry(from_dir, &from_name)
            .cloned()
            .ok_or(Errno::NOENT)?;
        match (&node, self.entry(to_dir, &to_name)) {
            (Node::File(file), Some(Node::File(same))) if Arc::ptr_eq(file, same) => return Ok(()),
            (Node::Dir(dir), Some(Node::Dir(same))) if dir == same => return Ok(()),
            (Node::Dir(_), _) if names_of(to).starts_with(&names_of(from)) => {
                return Err(Errno::INVAL.into());
            }
            _ if names_of(from).starts_with(&names_of(to)) => {
                return Err(Errno::NOTEMPTY.into());
            }
            (Node::File(_), Some(Node::Dir(_))) => return Err(Errno::ISDIR.into()),
            (Node::Dir(_), Some(Node::File(_))) => return Err(Errno::NOTDIR.into()),
            (Node::Dir(_), Some(Node::Dir(_))) if !self.list(to)?.is_empty() => {
                return Err(Errno::NOTEMPTY.into());
            }
            _ => {}
        }
        self.change(vec![
            Entry {
                dir: from_dir,
                name: from_name,
                node: None,
            },
            Entry {
                dir: to_dir,
                name: to_name,
                node: Some(node),
            },
        ]);
        Ok(())
    }

    /// Removes a file.
    pub(super) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        self.file(path)?;
        let (dir, name) = self.split(path)?;
        self.change(vec![Entry {
            dir,
            name,
            node: None,
        }]);
        Ok(())
    }

    /// Removes an empty directory.
    pub(super) fn remove_dir(&mut self, path: &Path) -> io::Result<()> {
        if !self.list(path)?.is_empty() {
            return Err(Errno::NOTEMPTY.into());
        }
        let (dir, name) = self.split(path)?;
        self.change(vec![Entry {
            dir,
            name,
            node: None,
        }]);
        Ok(())
    }

    /// The names in a directory, sorted.
    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let Node::Dir(dir) = self.find(path)? else {
            return Err(Errno::NOTDIR.into());
        };
        Ok(self
            .dirs
            .get(dir)
            .map(|dir| dir.now.keys().cloned().collect())
            .unwrap_or_default())
    }

    /// Makes the names in a directory durable. If one of them was renamed from or to another
    /// directory, the earlier changes there become durable too.
    pub(super) fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        let Node::Dir(dir) = self.find(path)? else {
            return Err(Errno::NOTDIR.into());
        };
        let mut synced = BTreeSet::from([dir]);
        let mut durable = Vec::new();
        let mut pending = Vec::new();
        for change in self.pending.drain(..).rev() {
            if change.iter().any(|entry| synced.contains(&entry.dir)) {
                synced.extend(change.iter().map(|entry| entry.dir));
                durable.push(change);
            } else {
                pending.push(change);
            }
        }
        pending.reverse();
        self.pending = pending;
        for entry in durable.into_iter().rev().flatten() {
            if let Some(dir) = self.dirs.get_mut(entry.dir) {
                set(&mut dir.durable, entry);
            }
        }
        Ok(())
    }

    /// All files, by path.
    pub(super) fn files(&self) -> Vec<(PathBuf, FileRef)> {
        let mut files = Vec::new();
        let mut dirs = vec![(PathBuf::from("/"), ROOT)];
        while let Some((path, id)) = dirs.pop() {
            for (name, node) in self.dirs.get(id).iter().flat_map(|dir| &dir.now) {
                match node {
                    Node::File(file) => files.push((path.join(name), Arc::clone(file))),
                    Node::Dir(dir) => {
                        dirs.extend(self.present(*dir).map(|dir| (path.join(name), dir)));
                    }
                }
            }
        }
        files.sort_by(|(a, _), (b, _)| a.cmp(b));
        files
    }

    /// Bytes in use in the directories that `of_disk` picks: by files that have a name, and by
    /// those that are still open.
    pub(super) fn used_bytes(&mut self, of_disk: impl Fn(&[String]) -> bool) -> u64 {
        let in_dir = |names: &[String]| of_disk(names.split_last().map_or(&[], |(_, dir)| dir));
        let files = self.files();
        let named = files.iter().filter(|(path, _)| in_dir(&names_of(path)));
        let mut bytes: u64 = named.map(|(_, file)| file.lock().room() as u64).sum();
        let dirs = &self.dirs;
        self.nameless.retain(|(dir, file)| {
            let open = file.upgrade().filter(|file| file.lock().open > 0);
            // A renamed file lost one name and has another.
            let other = open.filter(|open| !files.iter().any(|(_, file)| Arc::ptr_eq(file, open)));
            if let Some(file) = &other
                && dirs.get(*dir).is_some_and(|dir| of_disk(&dir.names))
            {
                bytes += file.lock().room() as u64;
            }
            other.is_some()
        });
        bytes
    }

    /// What a crash now would leave. All of it is durable, and no disk is absent.
    pub(super) fn after_crash(&self, rng: &mut Rng) -> Tree {
        let mut tree = Tree {
            dirs: self.dirs.clone(),
            pending: self.pending.clone(),
            files_made: self.files_made,
            nameless: Vec::new(),
            absent: BTreeMap::new(),
        };
        tree.cut_power(&(0..tree.dirs.len()).collect(), rng);
        tree
    }

    /// Takes away the disk mounted at `path`; it keeps what a crash would leave. If `unmounted`, an
    /// empty directory is found in its place; otherwise calls there fail.
    pub(super) fn vanish(&mut self, path: &Path, unmounted: bool, rng: &mut Rng) -> io::Result<()> {
        let dir = match self.find(path)? {
            Node::Dir(ROOT) => return Err(Errno::BUSY.into()),
            Node::Dir(dir) => dir,
            Node::File(_) => return Err(Errno::NOTDIR.into()),
        };
        self.cut_power(&self.below(dir), rng);
        let mount_point = unmounted.then(|| self.new_dir(names_of(path)));
        self.absent.insert(dir, mount_point);
        Ok(())
    }

    /// Brings back the disk of a directory that has vanished.
    pub(super) fn bring_back(&mut self, path: &Path) {
        if let Ok((parent, name)) = self.split(path)
            && let Some(Node::Dir(dir)) = self.entry(parent, &name).cloned()
        {
            self.absent.remove(&dir);
        }
    }

    pub(super) fn bring_all_back(&mut self) {
        self.absent.clear();
    }

    /// A directory, and all directories below it now, or possibly after a crash.
    fn below(&self, dir: DirId) -> BTreeSet<DirId> {
        let (mut found, mut next) = (BTreeSet::new(), vec![dir]);
        while let Some(id) = next.pop() {
            if !found.insert(id) {
                continue;
            }
            let names = self.dirs.get(id);
            let nodes = names.map(|dir| dir.now.values().chain(dir.durable.values()));
            let pending = self
                .pending
                .iter()
                .flatten()
                .filter(|entry| entry.dir == id);
            let pending = pending.filter_map(|entry| entry.node.as_ref());
            next.extend(
                nodes
                    .into_iter()
                    .flatten()
                    .chain(pending)
                    .filter_map(|node| match node {
                        Node::Dir(dir) => Some(*dir),
                        Node::File(_) => None,
                    }),
            );
        }
        found
    }

    /// Does to these directories and their files what a crash does. All that is left is durable.
    fn cut_power(&mut self, dirs: &BTreeSet<DirId>, rng: &mut Rng) {
        let changes = |change: &Vec<Entry>| change.iter().any(|entry| dirs.contains(&entry.dir));
        let (cut, pending) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(changes);
        self.pending = pending;
        for entry in surviving(&cut, rng) {
            if let Some(dir) = self.dirs.get_mut(entry.dir) {
                set(&mut dir.durable, entry.clone());
            }
        }
        for id in dirs {
            let Some(dir) = self.dirs.get_mut(*id) else {
                continue;
            };
            for node in dir.durable.values_mut() {
                if let Node::File(file) = node {
                    let reborn = file.lock().reborn(rng);
                    *file = Arc::new(Mutex::new(reborn));
                }
            }
            dir.now = dir.durable.clone();
        }
        let pending = |entry: &Entry| dirs.contains(&entry.dir);
        assert!(
            !self.pending.iter().flatten().any(pending),
            "a power cut leaves no pending change"
        );
    }

    /// Applies one atomic change, which becomes durable with a sync.
    fn change(&mut self, change: Vec<Entry>) {
        for entry in &change {
            let Some(dir) = self.dirs.get_mut(entry.dir) else {
                continue;
            };
            if let Some(Node::File(file)) = set(&mut dir.now, entry.clone()) {
                self.nameless.push((entry.dir, Arc::downgrade(&file)));
            }
        }
        self.pending.push(change);
    }

    fn entry(&self, dir: DirId, name: &str) -> Option<&Node> {
        self.dirs.get(dir)?.now.get(name)
    }

    /// The directory and the name in it; the directory exists.
    fn split(&self, path: &Path) -> io::Result<(DirId, String)> {
        let mut names = names_of(path);
        let name = names.pop().ok_or(Errno::BUSY)?;
        match self.find(&names.iter().collect::<PathBuf>())? {
            Node::Dir(dir) => Ok((dir, name)),
            Node::File(_) => Err(Errno::NOTDIR.into()),
        }
    }

    /// [`split`](Self::split), for a name not taken yet.
    fn free_name(&self, path: &Path) -> io::Result<(DirId, String)> {
        let (dir, name) = self.split(path)?;
        match self.entry(dir, &name) {
            Some(Node::Dir(taken)) => self.present(*taken).and(Err(Errno::EXIST.into())),
            Some(Node::File(_)) => Err(Errno::EXIST.into()),
            None => Ok((dir, name)),
        }
    }
}

/// Of pending changes, the entries that a crash keeps, in order.
fn surviving<'a>(pending: &'a [Vec<Entry>], rng: &mut Rng) -> Vec<&'a Entry> {
    // The number of changes that each directory keeps.
    let mut kept = BTreeMap::new();
    for change in pending {
        for dir in change
            .iter()
            .map(|entry| entry.dir)
            .collect::<BTreeSet<_>>()
        {
            *kept.entry(dir).or_insert(0) += 1;
        }
    }
    for kept in kept.values_mut() {
        *kept = rng.up_to(*kept);
    }
    let mut surviving = Vec::new();
    for change in pending {
        let dirs: BTreeSet<_> = change.iter().map(|entry| entry.dir).collect();
        let keep = dirs
            .iter()
            .all(|dir| kept.get(dir).is_some_and(|left| *left > 0));
        for dir in dirs {
            if let Some(left) = kept.get_mut(&dir) {
                // A change lost in one directory is lost in the other, with all later changes
                // there.
                *left = if keep { *left - 1 } else { 0 };
            }
        }
        if keep {
            surviving.extend(change);
        }
    }
    surviving
}

/// Sets or clears an entry, and returns what it referred to before.
fn set(names: &mut BTreeMap<String, Node>, entry: Entry) -> Option<Node> {
    match entry.node {
        Some(node) => names.insert(entry.name, node),
        None => names.remove(&entry.name),
    }
}

/// The names on the path from the root to `path`.
pub(super) fn names_of(path: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_string_lossy().into_owned()),
            Component::ParentDir => drop(names.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    names
}
