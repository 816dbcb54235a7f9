//! The directory of the demonstration's database.

use super::frozen;
use crate::Context;
use crate::error::{Error, Result, causes};
use quiredb::Env;
use std::path::PathBuf;
use std::sync::Arc;

/// A directory that is removed when this is dropped, unless it is kept.
pub(super) struct Directory {
    pub(super) path: PathBuf,
    env: Arc<dyn Env>,
    pub(super) keep: bool,
}

impl Directory {
    /// Finds a directory that is absent or empty; a temporary one, if none is named.
    ///
    /// # Errors
    /// If it has files.
    pub(super) fn prepare(
        context: &Context,
        named: Option<PathBuf>,
        keep: bool,
    ) -> Result<Directory> {
        let keep = keep || named.is_some();
        let path = named.unwrap_or_else(|| {
            std::env::temp_dir().join(format!("quire-demo-{}", std::process::id()))
        });
        let failed = |error| Error::Failed(causes(&error));
        let is_used = context.env.exists(&path).map_err(failed)?
            && !context.env.list(&path).map_err(failed)?.is_empty();
        if is_used {
            return Err(Error::Usage(format!(
                "{} is not empty; name a new directory",
                path.display()
            )));
        }
        Ok(Directory {
            path,
            env: Arc::clone(&context.env),
            keep,
        })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.keep {
            // The system removes what is left of a temporary directory.
            let _ = self.env.remove_dir_all(&self.path);
            let _ = self.env.remove(&frozen::file_of(&self.path));
        }
    }
}
