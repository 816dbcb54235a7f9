//! What can go wrong, and what a caller can do about it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::mapping::Violation;

/// Result of a call to Quire.
pub type Result<T> = std::result::Result<T, Error>;

/// What a caller can act on; the text of an error is for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such database, collection, document or position.
    NotFound,
    /// There is such a collection already.
    AlreadyExists,
    /// A condition (`if_version`, `if_absent`) did not hold.
    Conflict,
    /// The caller's input can't be taken: malformed JSON, a bad key, an unknown setting.
    Invalid,
    /// Larger than a limit.
    TooLarge,
    /// Damaged bytes on disk, or files that do not belong together.
    Corrupt,
    /// The database is open elsewhere.
    Locked,
    /// The disk is full, or writes wait for memory that can't be freed. Nothing was written.
    Full,
    /// Read-only after a failed sync; reopen the database to recover.
    ReadOnly,
    /// The log no longer holds the position that was given.
    Gone,
    /// The operating system refused.
    Io,
    /// The database or collection was closed or dropped, or the caller stopped the work.
    Closed,
}

/// An error. Cheap to clone. Its message says all that its sources say; `source()` leads to the
/// layer that met the cause.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no database in the directory.
    #[error("{path}: no database here; make one by loading documents into it, or check the path")]
    NoDatabase {
        /// The directory.
        path: PathBuf,
    },
    /// Keys and values, being verified.
    #[error("{0}")]
    OfKeysAndValues(#[source] Arc<quire_kv::Error>),
    /// The directory holds keys and values.
    #[error("{path}: keys and values are there, and no documents; open it with `quiredb::kv`")]
    KeysAndValues {
        /// The directory.
        path: PathBuf,
    },
    /// The directory holds something else.
    #[error(
        "{path}: not a Quire database (it has files but no CATALOG); give an empty or a new \
         directory"
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// The catalog is damaged or of another version.
    #[error("{path}: {what}")]
    Catalog {
        /// The catalog.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// There is no such collection.
    #[error("no collection {name:?} in this database ({existing})")]
    NoCollection {
        /// The name that was given.
        name: String,
        /// What there is, in words.
        existing: String,
    },
    /// A collection does not have this alias.
    #[error("aliases [{alias}] missing: collection {collection:?} does not have it")]
    NoAlias {
        /// The alias.
        alias: String,
        /// The collection.
        collection: String,
    },
    /// There is such a collection already.
    #[error("collection {name:?} exists already")]
    CollectionExists {
        /// The name.
        name: String,
    },
    /// The caller's input can't be taken.
    #[error("{0}")]
    Invalid(String),
    /// A value is no document, or a document is no such value.
    #[error("{}{what}", at_field(.path))]
    Typed {
        /// The field, as `authors[0].name`; empty for the document itself.
        path: String,
        /// What is wrong with it.
        what: String,
    },
    /// A document contradicts the mapping of its collection.
    #[error("{}", .0.in_full())]
    Mapping(Arc<Violation>),
    /// A restore into the directory did not end.
    #[error(
        "{path}: a restore into this directory did not end; run `quire restore` again to begin it \
         anew"
    )]
    Restoring {
        /// The directory.
        path: PathBuf,
    },
    /// A replacement of lost volumes did not end.
    #[error(
        "{path}: a replacement of lost volumes did not end; run `quire volume replace` again to \
         finish it"
    )]
    Replacing {
        /// The directory.
        path: PathBuf,
    },
    /// A repair into the directory did not end.
    #[error(
        "{path}: a repair into this directory did not end, so documents are missing; run `quire \
         repair` again to begin it anew"
    )]
    Repairing {
        /// The directory.
        path: PathBuf,
    },
    /// There is no backup in the directory.
    #[error("{path}: no backup here; `quire backup` makes one")]
    NoBackup {
        /// The directory.
        path: PathBuf,
    },
    /// There is no such snapshot.
    #[error("{path}: {}", no_snapshot(*.wanted, .existing))]
    NoSnapshot {
        /// The backup's directory.
        path: PathBuf,
        /// The number that was given; the newest if `None`.
        wanted: Option<u64>,
        /// Those there are.
        existing: Vec<u64>,
    },
    /// The directory holds something else than a backup of this database.
    #[error("{path}: {what}; give a new or an empty directory, or that of this database's backup")]
    ForeignBackup {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A file of a backup is damaged.
    #[error("{path}: {what}")]
    Backup {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A follower and its leader differ: nothing was changed.
    #[error("this follower is no copy of its leader: {0}")]
    Diverged(String),
    /// What a leader sent can't be used, or it sends no more.
    #[error("{0}")]
    Leader(String),
    /// The directory holds something else than what a follower made.
    #[error(
        "{path}: {what}; give a new or an empty directory, or that of a follower of this database"
    )]
    ForeignFollower {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A backup or a merge was stopped by its caller.
    #[error("it was stopped; the next one goes on with what was done")]
    Stopped,
    /// The database was closed.
    #[error("the database is closed")]
    Closed,
    /// A document, a key or a write.
    #[error("{0}")]
    Partition(#[source] Arc<quire_collection::Error>),
    /// Documents have more fields than are frozen without being named.
    #[error("the documents have more than {fields_max} fields; name those to freeze")]
    TooManyFields {
        /// The limit.
        fields_max: usize,
    },
    /// A frozen partition.
    #[error("{0}")]
    Frozen(#[source] Arc<quire_frozen::Error>),
    /// A row of a wide collection.
    #[error("{0}")]
    Wide(#[source] Arc<quire_wide::Error>),
    /// The collection is wide.
    #[error(
        "collection {name:?} is wide, and this is not done with wide collections; see the page \
         \"Wide documents\""
    )]
    IsWide {
        /// Its name.
        name: String,
    },
    /// The collection is wide, and keeps no changes.
    #[error(
        "collection {name:?} is wide, and keeps no log for those who tail it: set \
         log_retention_secs (`quire alter --log-retention-age`), and what is written from then on \
         can be tailed for so long"
    )]
    NotTailed {
        /// Its name.
        name: String,
    },
    /// What has this name is frozen.
    #[error(
        "{name} is frozen: it is searched and read, and this is not done with it; see the page \
         \"Freeze\""
    )]
    IsFrozen {
        /// Its name.
        name: String,
    },
    /// The catalog would be larger than one that can be read again.
    #[error(
        "the catalog would have {bytes} bytes, and may have {bytes_max}: drop collections, columns \
         or templates, or give them shorter names"
    )]
    CatalogTooLarge {
        /// Its length.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// There is no such coprocessor.
    #[error("no coprocessor {name:?} in this database ({existing})")]
    NoCoprocessor {
        /// The name that was given, perhaps with a version.
        name: String,
        /// What there is, in words.
        existing: String,
    },
    /// A coprocessor.
    #[error("{0}")]
    Coprocessor(#[from] quire_coprocessor::Error),
    /// A query.
    #[error("{0}")]
    Query(#[from] quire_query::Error),
    /// A server that was called refused, or does not answer.
    #[error("{what}")]
    Server {
        /// What a caller can act on.
        kind: ErrorKind,
        /// What it says.
        what: String,
    },
    /// The machine.
    #[error("{0}")]
    Env(#[source] Arc<quire_env::Error>),
}

impl Error {
    /// What a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::NoDatabase { .. }
            | Error::NoCollection { .. }
            | Error::NoAlias { .. }
            | Error::NoCoprocessor { .. }
            | Error::NoBackup { .. }
            | Error::NoSnapshot { .. } => ErrorKind::NotFound,
            Error::CollectionExists { .. } => ErrorKind::AlreadyExists,
            Error::Foreign { .. }
            | Error::KeysAndValues { .. }
            | Error::Restoring { .. }
            | Error::Replacing { .. }
            | Error::Repairing { .. }
            | Error::ForeignBackup { .. }
            | Error::ForeignFollower { .. }
            | Error::Typed { .. }
            | Error::IsWide { .. }
            | Error::NotTailed { .. }
            | Error::IsFrozen { .. }
            | Error::Mapping(_)
            | Error::Coprocessor(_)
            | Error::Invalid(_) => ErrorKind::Invalid,
            Error::Diverged(_) => ErrorKind::Conflict,
            Error::Leader(_) => ErrorKind::Io,
            Error::Catalog { .. } | Error::Backup { .. } => ErrorKind::Corrupt,
            Error::Closed | Error::Stopped => ErrorKind::Closed,
            Error::Partition(error) => partition_kind(error.kind()),
            Error::OfKeysAndValues(error) => {
                partition_kind(quire_collection::ErrorKind::Store(error.kind()))
            }
            Error::Wide(error) => wide_kind(error.kind()),
            Error::TooManyFields { .. } | Error::CatalogTooLarge { .. } => ErrorKind::TooLarge,
            Error::Frozen(error) => frozen_kind(error.kind()),
            Error::Query(quire_query::Error::Shard(error)) => {
                if let Some(error) = error.downcast_ref::<quire_frozen::Error>() {
                    frozen_kind(error.kind())
                } else if let Some(error) = error.downcast_ref::<quire_collection::Error>() {
                    partition_kind(error.kind())
                } else {
                    ErrorKind::Io
                }
            }
            Error::Query(error) => match error.kind() {
                quire_query::ErrorKind::TooLarge => ErrorKind::TooLarge,
                quire_query::ErrorKind::Stopped => ErrorKind::Closed,
                _ => ErrorKind::Invalid,
            },
            Error::Env(error) => env_kind(error.kind()),
            Error::Server { kind, .. } => *kind,
        }
    }

    /// What to do about it, where the message does not say: about a disk that takes no writes, and
    /// a follower that differs from its leader.
    pub fn advice(&self) -> Option<&'static str> {
        if self.kind() == ErrorKind::Full {
            return Some("make room on the disk");
        }
        if matches!(self, Error::Diverged(_)) {
            return Some(
                "nothing was changed: if the leader is right, remove the follower's directory and \
                 follow anew; if the follower is, stop writing to the leader and serve the \
                 follower's copy in its place",
            );
        }
        match machine_kind(self)? {
            io::ErrorKind::ReadOnlyFilesystem => {
                Some("the disk is mounted read-only: make it writable, or use another directory")
            }
            io::ErrorKind::PermissionDenied => {
                Some("let this user read and write the directory, or use another one")
            }
            _ => None,
        }
    }
}

/// Runs all of them; gives the first error.
pub(crate) fn first_error(results: impl Iterator<Item = Result<()>>) -> Result<()> {
    results.fold(Ok(()), Result::and)
}

fn at_field(path: &str) -> String {
    match path {
        "" => String::new(),
        path => format!("field {path:?}: "),
    }
}

fn no_snapshot(wanted: Option<u64>, existing: &[u64]) -> String {
    let wanted = match wanted {
        Some(number) => format!("no snapshot {number} in this backup"),
        None => "no snapshot in this backup".to_string(),
    };
    match existing {
        [] => format!("{wanted}: none was ever finished"),
        some => {
            let numbers: Vec<_> = some.iter().map(ToString::to_string).collect();
            format!("{wanted} (it has: {})", numbers.join(", "))
        }
    }
}

/// What the operating system said, if it is behind an error.
fn machine_kind(error: &(dyn std::error::Error + 'static)) -> Option<io::ErrorKind> {
    let mut error = Some(error);
    while let Some(cause) = error {
        if let Some(machine) = cause.downcast_ref::<io::Error>() {
            return Some(machine.kind());
        }
        error = cause.source();
    }
    None
}

impl From<quire_collection::Error> for Error {
    fn from(error: quire_collection::Error) -> Error {
        Error::Partition(Arc::new(error))
    }
}

impl From<quire_store::Error> for Error {
    fn from(error: quire_store::Error) -> Error {
        quire_collection::Error::from(error).into()
    }
}

impl From<quire_model::Error> for Error {
    fn from(error: quire_model::Error) -> Error {
        quire_collection::Error::from(error).into()
    }
}

impl From<quire_env::Error> for Error {
    fn from(error: quire_env::Error) -> Error {
        Error::Env(Arc::new(error))
    }
}

impl From<quire_wide::Error> for Error {
    fn from(error: quire_wide::Error) -> Error {
        Error::Wide(Arc::new(error))
    }
}

impl From<quire_frozen::Error> for Error {
    fn from(error: quire_frozen::Error) -> Error {
        Error::Frozen(Arc::new(error))
    }
}

fn frozen_kind(kind: quire_frozen::ErrorKind) -> ErrorKind {
    use quire_frozen::ErrorKind as From;
    match kind {
        From::Env(kind) => env_kind(kind),
        From::Corrupt => ErrorKind::Corrupt,
        From::TooLarge => ErrorKind::TooLarge,
        _ => ErrorKind::Invalid,
    }
}

fn wide_kind(kind: quire_wide::ErrorKind) -> ErrorKind {
    use quire_collection::ErrorKind as Partition;
    use quire_wide::ErrorKind as From;
    match kind {
        From::NotFound => ErrorKind::NotFound,
        From::Conflict => ErrorKind::Conflict,
        From::Corrupt => ErrorKind::Corrupt,
        From::Gone => ErrorKind::Gone,
        From::Full => ErrorKind::Full,
        From::TooLarge => ErrorKind::TooLarge,
        From::Model(kind) => partition_kind(Partition::Model(kind)),
        From::Store(kind) => store_kind(kind),
        _ => ErrorKind::Invalid,
    }
}

fn partition_kind(kind: quire_collection::ErrorKind) -> ErrorKind {
    use quire_collection::ErrorKind as From;
    match kind {
        From::NotFound => ErrorKind::NotFound,
        From::Conflict => ErrorKind::Conflict,
        From::Corrupt | From::Model(quire_model::ErrorKind::Corrupt) => ErrorKind::Corrupt,
        From::Full => ErrorKind::Full,
        From::TooLarge | From::Model(quire_model::ErrorKind::TooLarge) => ErrorKind::TooLarge,
        From::Model(_) | From::Trigger => ErrorKind::Invalid,
        From::Store(kind) => store_kind(kind),
        _ => ErrorKind::Io,
    }
}

fn store_kind(kind: quire_store::ErrorKind) -> ErrorKind {
    use quire_store::ErrorKind as From;
    match kind {
        // A file that a manifest names and that is not there is damage, not a question with the
        // answer no.
        From::Corrupt | From::NotFound | From::AlreadyExists => ErrorKind::Corrupt,
        From::Gone => ErrorKind::Gone,
        From::Full => ErrorKind::Full,
        From::ReadOnly => ErrorKind::ReadOnly,
        From::Locked => ErrorKind::Locked,
        From::TooLarge => ErrorKind::TooLarge,
        From::Invalid => ErrorKind::Invalid,
        From::Closed => ErrorKind::Closed,
        _ => ErrorKind::Io,
    }
}

fn env_kind(kind: quire_env::ErrorKind) -> ErrorKind {
    use quire_env::ErrorKind as From;
    match kind {
        From::NotFound => ErrorKind::NotFound,
        From::AlreadyExists => ErrorKind::AlreadyExists,
        From::Locked => ErrorKind::Locked,
        From::NoSpace => ErrorKind::Full,
        From::UnexpectedEnd | From::TooLarge => ErrorKind::Corrupt,
        From::InvalidArgument => ErrorKind::Invalid,
        _ => ErrorKind::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_takes_no_writes_is_told_with_what_to_do() {
        let machine = |kind: io::ErrorKind| -> quire_env::Error {
            quire_env::Error::Io {
                op: "append to",
                path: "db/log".into(),
                source: kind.into(),
            }
        };
        for (kind, word) in [
            (io::ErrorKind::StorageFull, "room"),
            (io::ErrorKind::ReadOnlyFilesystem, "writable"),
            (io::ErrorKind::PermissionDenied, "user"),
        ] {
            let direct = Error::from(machine(kind));
            assert!(direct.advice().unwrap().contains(word));
            let store = quire_store::Error::from(machine(kind));
            let deep = Error::from(quire_collection::Error::from(store));
            assert!(deep.advice().unwrap().contains(word), "{deep:?}");
        }
        assert_eq!(Error::Closed.advice(), None);
        assert_eq!(
            Error::from(machine(io::ErrorKind::BrokenPipe)).advice(),
            None
        );
    }
}
