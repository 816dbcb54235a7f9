//! Frozen files that are served, from the command line: `NAME=PATH`.

use crate::Context;
use crate::error::{Error, Result};
use quiredb::operations::FrozenView;
use quiredb::{Database, FrozenCollection};
use std::path::PathBuf;

/// A name, and the frozen file or the folder that is served under it.
#[derive(Debug, Clone)]
pub(crate) struct FrozenPath {
    name: String,
    path: PathBuf,
}

/// # Errors
/// What is wrong with the text.
pub(crate) fn parse(text: &str) -> std::result::Result<FrozenPath, String> {
    let (name, path) = text
        .split_once('=')
        .filter(|(_, path)| !path.is_empty())
        .ok_or("give NAME=PATH: the name that it is served under, and the file or the folder")?;
    quiredb::check_name(name).map_err(|error| error.to_string())?;
    Ok(FrozenPath {
        name: name.to_owned(),
        path: PathBuf::from(path),
    })
}

/// Attaches all of them to a database.
///
/// # Errors
/// Names the first that can't be.
pub(crate) fn attach_all(
    database: &Database,
    frozen: &[FrozenPath],
) -> Result<Vec<FrozenCollection>> {
    let attach = |one: &FrozenPath| {
        let attached = database.attach_frozen(&one.name, &one.path);
        attached.map_err(one.failed())
    };
    frozen.iter().map(attach).collect()
}

/// Opens all of them, where there is no database to attach them to.
///
/// # Errors
/// Names the first that can't be opened.
pub(crate) fn open_all(context: &Context, frozen: &[FrozenPath]) -> Result<()> {
    let mut all = frozen.iter();
    all.try_for_each(|one| {
        let opened = FrozenView::open(&context.env, &one.path);
        opened.map(drop).map_err(one.failed())
    })
}

impl FrozenPath {
    fn failed(&self) -> impl FnOnce(quiredb::Error) -> Error + use<> {
        let path = self.path.display();
        Error::engine(format!("cannot serve {path} as {}", self.name))
    }
}
