//! Opens databases and collections; the errors have advice.

use crate::Context;
use crate::error::{Error, Result, causes};
use crate::files;
use crate::size::Size;
use quiredb::{Collection, Database, DatabaseOptions, ErrorKind, Medium};
use std::path::Path;

/// Opens an existing database.
///
/// # Errors
/// If there is none, or it is open in another process.
pub(crate) fn open_existing(context: &Context, path: &Path) -> Result<Database> {
    open_existing_with(context, path, None)
}

/// Opens an existing database, with a bound on its memory.
///
/// # Errors
/// As [`open_existing`].
pub(crate) fn open_existing_with(
    context: &Context,
    path: &Path,
    memory: Option<Size>,
) -> Result<Database> {
    require_directory(context, path)?;
    open(context, path, memory, false, false)
}

/// Opens a database; creates it if the directory is absent or empty.
///
/// # Errors
/// If the directory has other files, or the database is open in another process.
pub(crate) fn open_or_create(
    context: &Context,
    path: &Path,
    memory: Option<Size>,
) -> Result<Database> {
    open(context, path, memory, true, true)
}

/// Makes a database on several volumes.
///
/// # Errors
/// If there is one at `path`, or a directory holds something else.
pub(crate) fn create_on(
    context: &Context,
    path: &Path,
    medium: Option<Medium>,
    volumes: &[(&str, &Path, Medium)],
) -> Result<Database> {
    refuse_server(path)?;
    refuse_file(context, path)?;
    if matches!(context.env.list(path), Ok(names) if !names.is_empty()) {
        return Err(Error::Usage(format!(
            "{} is there already; `quire volume add` adds a volume to a database",
            path.display()
        )));
    }
    let mut builder = Database::builder(path).env(context.env.clone());
    builder = builder.medium(medium.unwrap_or(Medium::Ssd));
    for &(name, path, medium) in volumes {
        builder = builder.volume(name, path, medium);
    }
    builder.open().map_err(|source| refused(path, source))
}

/// Opens the database that a server serves. A missing one is made only if `create` says so: the
/// directory may be the mount point of a disk that is not there.
///
/// # Errors
/// As [`open_or_create`].
pub(crate) fn open_to_serve(
    context: &Context,
    path: &Path,
    memory: Option<Size>,
    create: bool,
) -> Result<Database> {
    match open(context, path, memory, create, true) {
        Err(Error::Engine { source, .. }) if source.kind() == ErrorKind::NotFound => {
            Err(Error::Failed(format!(
                "there is no database at {}; if its disk should be mounted there, mount it; to \
                 make a new database, add --create",
                path.display()
            )))
        }
        opened => opened,
    }
}

/// Fails if there is no directory at `path`.
///
/// # Errors
/// With the commands that create a database.
pub(crate) fn require_directory(context: &Context, path: &Path) -> Result<()> {
    refuse_server(path)?;
    match context.env.exists(path) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::Failed(format!(
            "there is no database at {}: no such directory; `quire load` and `quire create` make \
             one",
            path.display()
        ))),
        Err(error) => Err(Error::Failed(causes(&error))),
    }
}

/// Refuses the address of a server, which is no directory. `HOST:PORT` is one where there is no
/// such directory.
///
/// # Errors
/// With what a server understands.
pub(crate) fn refuse_server(path: &Path) -> Result<()> {
    let text = path.to_string_lossy();
    if is_host_and_port(&text) && !files::is_directory(path) && !files::is_file(path) {
        return Err(Error::Usage(format!(
            "{text} looks like the address of a server: write http://{text}, or ./{text} for a \
             directory of that name"
        )));
    }
    let is_url = text.starts_with("http://") || text.starts_with("https://");
    match is_url || text.starts_with("http:/") || text.starts_with("https:/") {
        true => Err(Error::Usage(format!(
            "{text} is the address of a server, and this command works on a directory; commands \
             for both are get, put, delete, load, scan, query, tail, count, collections, fields, \
             stats, create, alter, split, drop, backup, verify and token"
        ))),
        false => Ok(()),
    }
}

/// Whether a text is `HOST:PORT`.
fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok()
}

/// Says what a file at `path` is, where a directory is needed.
fn refuse_file(context: &Context, path: &Path) -> Result<()> {
    let is_file = context.env.exists(path).unwrap_or(false) && context.env.list(path).is_err();
    if !is_file {
        return Ok(());
    }
    Err(match is_frozen_file(path) {
        true => refused_frozen(path),
        false => Error::Failed(format!(
            "{} is a file, and no directory of a database",
            path.display()
        )),
    })
}

/// Whether there is a file at a path that is named as frozen files are.
pub(crate) fn is_frozen_file(path: &Path) -> bool {
    let extension = path.extension();
    extension.is_some_and(|extension| extension == "quire") && files::is_file(path)
}

/// What to say of a frozen file where a database is needed.
pub(crate) fn refused_frozen(path: &Path) -> Error {
    let shown = path.display();
    Error::Usage(format!(
        "{shown} is a frozen file, and this command works on a database; query it: quire query \
         {shown} --where \"_id = 'KEY'\", or --count"
    ))
}

fn open(
    context: &Context,
    path: &Path,
    memory: Option<Size>,
    create: bool,
    retention: bool,
) -> Result<Database> {
    refuse_server(path)?;
    refuse_file(context, path)?;
    let mut options = DatabaseOptions {
        create_if_missing: create,
        // The database may be the copy of a follower: a command that reads it deletes nothing.
        retention,
        ..DatabaseOptions::default()
    };
    if let Some(Size(bytes)) = memory {
        options.memory_bytes = bytes;
    }
    Database::builder(path)
        .env(context.env.clone())
        .options(options)
        .open()
        .map_err(|source| refused(path, source))
}

/// The error of a database that can't be opened.
pub(crate) fn refused(path: &Path, source: quiredb::Error) -> Error {
    let path = path.display();
    let context = match source.kind() {
        ErrorKind::Locked => format!(
            "{path} is open in another process; stop that one, or if it is `quire serve`, give its \
             HTTP address in place of the directory: quire get http://127.0.0.1:9200 COLLECTION \
             KEY, quire backup http://127.0.0.1:9200 NAME"
        ),
        _ => format!("cannot open the database at {path}"),
    };
    Error::Engine { context, source }
}

/// Opens a collection.
///
/// # Errors
/// If there is none of this name; the error lists the names.
pub(crate) fn collection(database: &Database, path: &Path, name: &str) -> Result<Collection> {
    database.collection(name).map_err(|source| {
        if source.kind() != ErrorKind::NotFound {
            return Error::Engine {
                context: format!("cannot open the collection `{name}`"),
                source,
            };
        }
        let names = database.collections();
        let known = match names.len() {
            0 => "the database has none yet".to_owned(),
            1..=20 => format!("there are: {}", names.join(", ")),
            count => format!("there are {count}; `quire collections` lists them"),
        };
        Error::Failed(format!(
            "no collection `{name}` in {}; {known}",
            path.display()
        ))
    })
}
