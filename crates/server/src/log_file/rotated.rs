//! The files of a log: the newest is `FILE`, the one before it `FILE.1`, and so on.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quiredb::Env;

/// Where a log is, and how long it may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFileOptions {
    /// The newest file.
    pub path: PathBuf,
    /// A longer file is renamed to `FILE.1`, and a new one begun. Default 16 MiB.
    pub bytes_max: u64,
    /// Files kept, the newest included. Default 8.
    pub files_max: u32,
}

impl LogFileOptions {
    /// The defaults, for a file.
    pub fn new(path: impl Into<PathBuf>) -> LogFileOptions {
        LogFileOptions {
            path: path.into(),
            bytes_max: 16 << 20,
            files_max: 8,
        }
    }
}

/// The newest file, open.
pub(super) struct RotatedFile {
    env: Arc<dyn Env>,
    options: LogFileOptions,
    file: Box<dyn quire_env::AppendFile>,
}

impl RotatedFile {
    pub(super) fn open(
        env: Arc<dyn Env>,
        options: LogFileOptions,
    ) -> Result<RotatedFile, quire_env::Error> {
        let file = match env.exists(&options.path)? {
            true => env.open_append(&options.path)?,
            false => env.create(&options.path)?,
        };
        Ok(RotatedFile { env, options, file })
    }

    /// Appends whole lines, durably.
    pub(super) fn append(&mut self, lines: &[u8]) -> Result<(), quire_env::Error> {
        if !self.file.is_empty() && self.file.len() + lines.len() as u64 > self.options.bytes_max {
            self.rotate()?;
        }
        self.file.append(lines)?;
        self.file.sync()
    }

    /// Renames each file to the next number, and begins a new one.
    fn rotate(&mut self) -> Result<(), quire_env::Error> {
        let last = self.options.files_max.max(1) - 1;
        for number in (0..last).rev() {
            let (from, to) = (self.numbered(number), self.numbered(number + 1));
            if self.env.exists(&from)? {
                self.env.rename(&from, &to)?;
            }
        }
        self.file = self.env.create(&self.options.path)?;
        let parent = self.options.path.parent();
        let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
        self.env.sync_dir(parent.unwrap_or(Path::new(".")))
    }

    fn numbered(&self, number: u32) -> PathBuf {
        match number {
            0 => self.options.path.clone(),
            number => {
                let mut name = OsString::from(&self.options.path);
                name.push(format!(".{number}"));
                name.into()
            }
        }
    }
}
