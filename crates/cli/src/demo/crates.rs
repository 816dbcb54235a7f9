//! The sources and manifests of the crates that cargo has fetched, one document for each file.

use super::documents::Object;
use crate::files;
use std::io;
use std::path::{Path, PathBuf};

/// Larger files are skipped.
const TEXT_BYTES_MAX: u64 = 256 << 10;

const EXTENSIONS: [&str; 3] = ["rs", "toml", "md"];

/// The files of all crates in cargo's home; none if there are none.
pub(super) fn fetched() -> Option<impl Iterator<Item = io::Result<Object>> + Send + 'static> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cargo")))?;
    let (registries, _) = files::list(&home.join("registry").join("src"));
    let crates: Vec<PathBuf> = registries
        .iter()
        .flat_map(|registry| files::list(registry).0)
        .collect();
    let mut objects = crates.into_iter().flat_map(CrateFiles::new).peekable();
    objects.peek()?;
    Some(objects.map(Ok))
}

/// The text files of one crate.
struct CrateFiles {
    root: PathBuf,
    directories: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl CrateFiles {
    fn new(root: PathBuf) -> CrateFiles {
        CrateFiles {
            directories: vec![root.clone()],
            root,
            files: Vec::new(),
        }
    }

    /// The document of a file; none if the file is too large or not text.
    fn object(&self, file: &Path) -> Option<Object> {
        let extension = file
            .extension()?
            .to_str()
            .filter(|extension| EXTENSIONS.contains(extension))?;
        let folder = self.root.file_name()?.to_str()?;
        let (name, version) = name_and_version(folder);
        let path = file.strip_prefix(&self.root).ok()?.to_str()?;
        let text = files::read_text(file, TEXT_BYTES_MAX).ok()?;
        let mut object = Object::new();
        object.insert("_id".to_owned(), format!("{folder}/{path}").into());
        object.insert("crate".to_owned(), name.into());
        object.insert("version".to_owned(), version.into());
        object.insert("path".to_owned(), path.into());
        object.insert("kind".to_owned(), extension.into());
        object.insert("lines".to_owned(), text.lines().count().into());
        object.insert("bytes".to_owned(), text.len().into());
        object.insert("text".to_owned(), text.into());
        Some(object)
    }
}

impl Iterator for CrateFiles {
    type Item = Object;

    fn next(&mut self) -> Option<Object> {
        loop {
            while let Some(file) = self.files.pop() {
                if let Some(object) = self.object(&file) {
                    return Some(object);
                }
            }
            let (mut below, files) = files::list(&self.directories.pop()?);
            self.directories.append(&mut below);
            self.files = files;
        }
    }
}

/// `serde_json-1.0.1+build` is `serde_json` and `1.0.1+build`: the version starts at the first
/// hyphen before a digit that has a dot after it.
fn name_and_version(folder: &str) -> (&str, &str) {
    let starts_version = |rest: &str| {
        let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        digits.len() < rest.len() && digits.starts_with('.')
    };
    let hyphens = folder.match_indices('-').map(|(at, _)| folder.split_at(at));
    let mut splits = hyphens.filter_map(|(name, rest)| Some((name, rest.strip_prefix('-')?)));
    splits
        .find(|(_, rest)| starts_version(rest))
        .unwrap_or((folder, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_crates_are_split_into_name_and_version() {
        let table = [
            ("serde-1.0.228", ("serde", "1.0.228")),
            (
                "zstd-sys-2.0.1+zstd.1.5.2",
                ("zstd-sys", "2.0.1+zstd.1.5.2"),
            ),
            ("x-3-y-0.1.0-rc.1", ("x-3-y", "0.1.0-rc.1")),
            ("odd", ("odd", "")),
        ];
        for (folder, expected) in table {
            assert_eq!(name_and_version(folder), expected);
        }
    }
}
