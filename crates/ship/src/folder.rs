//! The files of a folder, by numbers that they keep.
//!
//! # Invariants
//! 1. A file keeps its number as long as a place that has it is stored. New files get the next
//!    numbers, in the order of their names.
//! 2. A file that is found while changes are read is read only when the place that has its number
//!    is stored: another run would number it otherwise if a file came before it meanwhile.

use crate::error::{Error, Result};
use quire_env::Env;
use serde_json::{Value, json};
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

/// Files that are kept track of: their names are in the stored place.
const FILES_MAX: usize = 50_000;

/// Ends of the names of files that are read.
const ENDS: [&str; 5] = [".ndjson", ".jsonl", ".json", ".csv", ".parquet"];

/// The known files of a folder.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// The number of the first name.
    first: usize,
    names: VecDeque<String>,
    /// Files whose numbers are stored.
    stored: usize,
}

impl Folder {
    /// The files of a place, and those that are there beside them.
    ///
    /// # Errors
    /// If the folder can't be read, or has too many files.
    pub(crate) fn open(env: &dyn Env, path: &Path, place: Option<&Value>) -> Result<Folder> {
        let first = place.and_then(|place| place["first"].as_u64());
        let names = place.and_then(|place| place["files"].as_array());
        let names = names.into_iter().flatten().filter_map(Value::as_str);
        let mut folder = Folder {
            path: path.to_owned(),
            first: first.and_then(|first| first.try_into().ok()).unwrap_or(0),
            names: names.map(str::to_owned).collect(),
            stored: 0,
        };
        folder.look(env, 0)?;
        // The place of a reader that was opened is stored before anything is read.
        folder.stored = folder.end();
        Ok(folder)
    }

    /// Looks for new files. Forgets those before `number` that are gone.
    ///
    /// # Errors
    /// As [`open`](Folder::open).
    pub(crate) fn look(&mut self, env: &dyn Env, number: usize) -> Result<()> {
        let there = env.list(&self.path)?;
        let there: BTreeSet<&str> = there.iter().map(String::as_str).collect();
        while self.first < number
            && let Some(name) = self.names.front()
            && !there.contains(name.as_str())
        {
            self.first += 1;
            self.names.pop_front();
        }
        let known: BTreeSet<&str> = self.names.iter().map(String::as_str).collect();
        let is_new = |name: &&&str| is_read(name) && !known.contains(**name);
        let new: Vec<String> = there
            .iter()
            .filter(is_new)
            .map(|name| (*name).to_owned())
            .collect();
        if self.names.len() + new.len() > FILES_MAX {
            return Err(Error::Source(format!(
                "{} has more than {FILES_MAX} files; remove those that are shipped",
                self.path.display()
            )));
        }
        self.names.extend(new);
        Ok(())
    }

    /// The number after that of the last file.
    fn end(&self) -> usize {
        self.first + self.names.len()
    }

    /// The number after that of the last file that may be read.
    pub(crate) fn readable(&self) -> usize {
        self.stored.min(self.end())
    }

    /// The path of a file; none if it is not known.
    pub(crate) fn path(&self, number: usize) -> Option<PathBuf> {
        let name = self.names.get(number.checked_sub(self.first)?)?;
        Some(self.path.join(name))
    }

    /// What a later reader needs.
    pub(crate) fn place(&self) -> Value {
        json!({"first": self.first, "files": self.names})
    }

    /// A place is stored.
    pub(crate) fn set_stored(&mut self, place: &Value) {
        let count = place["files"].as_array().map_or(0, Vec::len);
        let first = place["first"]
            .as_u64()
            .and_then(|first| usize::try_from(first).ok());
        self.stored = self.stored.max(first.unwrap_or(0) + count);
    }
}

/// Whether a file is read: not one that is still written under another name.
fn is_read(name: &str) -> bool {
    !name.starts_with('.') && ENDS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiredb::OsEnv;

    #[test]
    fn files_keep_their_numbers_whatever_comes_and_goes() {
        let env = OsEnv::new().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let add = |name: &str| env.replace(&dir.path().join(name), b"").unwrap();
        for name in ["b.csv", "d.ndjson", ".c.csv", "x.csv.part", "notes.txt"] {
            add(name);
        }
        let mut folder = Folder::open(&*env, dir.path(), None).unwrap();
        let path = |name: &str| Some(dir.path().join(name));
        assert_eq!(
            (folder.path(0), folder.path(1)),
            (path("b.csv"), path("d.ndjson"))
        );
        assert_eq!((folder.readable(), folder.path(2)), (2, None));
        add("a.parquet");
        folder.look(&*env, 0).unwrap();
        assert_eq!((folder.readable(), folder.path(2)), (2, path("a.parquet")));
        let place = folder.place();
        folder.set_stored(&place);
        assert_eq!(folder.readable(), 3);

        // Files that were read may go; one that was not is missed.
        for name in ["b.csv", "d.ndjson"] {
            env.remove(&dir.path().join(name)).unwrap();
        }
        folder.look(&*env, 1).unwrap();
        assert_eq!((folder.path(0), folder.path(1)), (None, path("d.ndjson")));
        add("b.csv");
        let again = Folder::open(&*env, dir.path(), Some(&folder.place())).unwrap();
        assert_eq!(again.path(2), path("a.parquet"));
        assert_eq!((again.path(3), again.readable()), (path("b.csv"), 4));
    }
}
