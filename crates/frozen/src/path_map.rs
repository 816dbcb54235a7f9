//! [`PathMap`]: what is known of some fields, by path.

use crate::prefix::prefix;
use quire_query::Path;

/// Something for each of some paths, behind the path's first bytes. There are few, and they are
/// looked up far more often than they change: a lookup compares some numbers and one path, and
/// hashes nothing.
#[derive(Debug, Clone)]
pub(crate) struct PathMap<T>(Vec<(u64, Path, T)>);

fn first_bytes(path: &Path) -> u64 {
    prefix(path.as_str().as_bytes())
}

impl<T> Default for PathMap<T> {
    fn default() -> PathMap<T> {
        PathMap(Vec::new())
    }
}

impl<T> PathMap<T> {
    fn place(&self, path: &Path) -> Result<usize, usize> {
        let wanted = first_bytes(path);
        // A greater path never has a smaller number.
        self.0
            .binary_search_by(|(own, other, _)| own.cmp(&wanted).then_with(|| other.cmp(path)))
    }

    pub(crate) fn get(&self, path: &Path) -> Option<&T> {
        let (.., found) = self.0.get(self.place(path).ok()?)?;
        Some(found)
    }

    /// Replaces what the path had.
    pub(crate) fn insert(&mut self, path: Path, value: T) {
        let entry = (first_bytes(&path), path, value);
        match self.place(&entry.1) {
            Ok(place) => self.0.splice(place..=place, [entry]).for_each(drop),
            Err(place) => self.0.insert(place, entry),
        }
    }

    pub(crate) fn remove(&mut self, path: &Path) {
        if let Ok(place) = self.place(path) {
            self.0.remove(place);
        }
    }

    /// In the order of their paths.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Path, &T)> {
        self.0.iter().map(|(_, path, value)| (path, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_path_has_what_was_last_put_there() {
        let (mut map, mut expected) = (PathMap::default(), BTreeMap::new());
        for number in 0..300u32 {
            let path = Path::new(["a", "b", "a.b", "c", ""][number as usize * 7 % 5]);
            match number % 4 {
                0 => {
                    map.remove(&path);
                    expected.remove(&path);
                }
                _ => {
                    map.insert(path.clone(), number);
                    expected.insert(path, number);
                }
            }
            for path in ["a", "b", "a.b", "c", "", "d"].map(Path::new) {
                assert_eq!(map.get(&path), expected.get(&path), "{number}");
            }
            assert!(map.iter().eq(expected.iter()), "{number}");
        }
    }
}
