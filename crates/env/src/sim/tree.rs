//! The simulated names: directories, what they hold now, and what of it a crash would leave.
//!
//! # Invariants
//! 1. A change of names (a creation, a removal, a rename) is one atomic list of entries set or cleared.
//! 2. `now` of every directory is `durable` with the pending changes applied in order.
//! 3. A crash leaves each directory with some first part of the changes that touch it; directories are cut apart from
//!    each other, but a rename between two of them is kept in both or lost in both.

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

/// What a name leads to.
#[derive(Debug, Clone)]
pub(super) enum Node {
    File(FileRef),
    Dir(DirId),
}

/// A name in a directory, and what it leads to from now on.
#[derive(Debug, Clone)]
struct Entry {
    dir: DirId,
    name: String,
    node: Option<Node>,
}

#[derive(Debug, Default)]
struct Dir {
    now: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
}

/// All directories and files of a machine. Relative paths start at the root, which always exists.
#[derive(Debug)]
pub(super) struct Tree {
    /// By id. One that no name leads to any more stays, empty or unreachable: directories are few.
    dirs: Vec<Dir>,
    pending: Vec<Vec<Entry>>,
    /// Files that had a name and lost it; they take room as long as they are open.
    nameless: Vec<Weak<Mutex<SimFile>>>,
}

impl Tree {
    pub(super) fn new() -> Tree {
        Tree {
            dirs: vec![Dir::default()],
            pending: Vec::new(),
            nameless: Vec::new(),
        }
    }

    /// What `path` leads to.
    pub(super) fn find(&self, path: &Path) -> io::Result<Node> {
        let mut node = Node::Dir(ROOT);
        for name in names_of(path) {
            let Node::Dir(dir) = node else {
                return Err(Errno::NOTDIR.into());
            };
            node = self.entry(dir, &name).cloned().ok_or(Errno::NOENT)?;
        }
        Ok(node)
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
        let file = FileRef::default();
        self.change(vec![Entry {
            dir,
            name,
            node: Some(Node::File(Arc::clone(&file))),
        }]);
        Ok(file)
    }

    /// Makes a directory. False if it was there already.
    pub(super) fn make_dir(&mut self, path: &Path) -> io::Result<bool> {
        if let Ok(Node::Dir(_)) = self.find(path) {
            return Ok(false);
        }
        let (dir, name) = self.free_name(path)?;
        let id = self.dirs.len();
        self.dirs.push(Dir::default());
        self.change(vec![Entry {
            dir,
            name,
            node: Some(Node::Dir(id)),
        }]);
        Ok(true)
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

    /// Makes the names in a directory durable, and with a rename from or to another directory all that went before it
    /// there.
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
                    Node::Dir(dir) => dirs.push((path.join(name), *dir)),
                }
            }
        }
        files.sort_by(|(a, _), (b, _)| a.cmp(b));
        files
    }

    /// Bytes of the disk in use: by files that have a name, and by those that are still open.
    pub(super) fn used_bytes(&mut self) -> u64 {
        let mut in_use: Vec<FileRef> = self.files().into_iter().map(|(_, file)| file).collect();
        self.nameless.retain(|file| {
            let open = file.upgrade().filter(|file| file.lock().open > 0);
            // A renamed file lost one name and has another.
            let other = open.filter(|open| !in_use.iter().any(|file| Arc::ptr_eq(file, open)));
            let keep = other.is_some();
            in_use.extend(other);
            keep
        });
        in_use.iter().map(|file| file.lock().room() as u64).sum()
    }

    /// What a crash now would leave; all of it durable.
    pub(super) fn after_crash(&self, rng: &mut Rng) -> Tree {
        let mut names: Vec<_> = self.dirs.iter().map(|dir| dir.durable.clone()).collect();
        for entry in self.surviving(rng) {
            if let Some(dir) = names.get_mut(entry.dir) {
                set(dir, entry.clone());
            }
        }
        let survive = |node: Node, rng: &mut Rng| match node {
            Node::Dir(dir) => Node::Dir(dir),
            Node::File(file) => {
                let bytes = file.lock().after_crash(rng);
                Node::File(Arc::new(Mutex::new(SimFile::durable(bytes))))
            }
        };
        let mut dirs = Vec::with_capacity(names.len());
        for names in names {
            let durable: BTreeMap<_, _> = names
                .into_iter()
                .map(|(name, node)| (name, survive(node, rng)))
                .collect();
            dirs.push(Dir {
                now: durable.clone(),
                durable,
            });
        }
        Tree {
            dirs,
            pending: Vec::new(),
            nameless: Vec::new(),
        }
    }

    /// The pending entries that a crash keeps, in order.
    fn surviving(&self, rng: &mut Rng) -> Vec<&Entry> {
        // How many changes each directory keeps.
        let mut kept = BTreeMap::new();
        for change in &self.pending {
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
        for change in &self.pending {
            let dirs: BTreeSet<_> = change.iter().map(|entry| entry.dir).collect();
            let keep = dirs
                .iter()
                .all(|dir| kept.get(dir).is_some_and(|left| *left > 0));
            for dir in dirs {
                if let Some(left) = kept.get_mut(&dir) {
                    // Lost in one directory, it is lost in the other, and all that came after it there.
                    *left = if keep { *left - 1 } else { 0 };
                }
            }
            if keep {
                surviving.extend(change);
            }
        }
        surviving
    }

    /// Applies one atomic change, which is durable after a sync.
    fn change(&mut self, change: Vec<Entry>) {
        for entry in &change {
            let Some(dir) = self.dirs.get_mut(entry.dir) else {
                continue;
            };
            if let Some(Node::File(file)) = set(&mut dir.now, entry.clone()) {
                self.nameless.push(Arc::downgrade(&file));
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
            Some(_) => Err(Errno::EXIST.into()),
            None => Ok((dir, name)),
        }
    }
}

/// Sets or clears an entry; what it led to before.
fn set(names: &mut BTreeMap<String, Node>, entry: Entry) -> Option<Node> {
    match entry.node {
        Some(node) => names.insert(entry.name, node),
        None => names.remove(&entry.name),
    }
}

fn names_of(path: &Path) -> Vec<String> {
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
