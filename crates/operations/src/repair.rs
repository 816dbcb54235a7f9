//! Repairing: what is whole of a damaged database goes into a new one, and what is lost into a
//! report.
//!
//! # Invariants
//! 1. The damaged database is only read, under its lock; the new one is made through the ordinary
//!    write path.
//! 2. A document of the new database is one that was written under its key: the newest whole one
//!    that the log holds, unless the index, all of whose bytes are whole, says that it was deleted
//!    later.
//! 3. Everything that may be older than it was, or missing, is reported: by key where the index
//!    still knows it, else by position.
//! 4. Until it is whole and closed, each volume of the new database holds a file that says that a
//!    repair is under way: such a directory is not opened, and a repair begins anew in it.
//! 5. Memory does not grow with the documents, but with the rows that the log of a wide collection
//!    has and its trees do not.
//! 6. Of a wide collection the log has the newest records alone. Its rows come from the whole table
//!    files of each column group, and a row that may lack cells is reported.

mod compare;
mod marker;
mod origins;
mod report;
mod survey;
mod target;
mod wide;
mod work;

use quire_database::{DatabaseBuilder, DatabaseOptions, Result, engine};
use quire_env::{Env, Volumes};
use quire_store::Shared;
use std::sync::Arc;
use survey::Survey;
use work::Repair;

pub use report::{LostKey, RepairEvent, RepairReport};

/// Salvages what is whole of the database on the volumes `from`, which no process has open, into a
/// new database on `to`. `on_event` receives everything else. The documents of an
/// undamaged database come out equal, versions included.
///
/// If it fails, what is there of the new database is not opened; a repair into it begins anew.
///
/// ```
/// use quiredb::operations::repair;
/// use quiredb::{Database, Document, Key, OsEnv, Volumes};
/// # let dir = tempfile::tempdir()?;
/// # let (damaged, repaired) = (dir.path().join("old"), dir.path().join("new"));
///
/// let database = Database::open(&damaged)?;
/// let books = database.collection_or_create("books", Default::default)?;
/// books.put_at(&Key::parse("emma")?, &Document::from_json(br#"{"year":1815}"#)?)?;
/// database.close()?;
///
/// let (from, to) = (Volumes::single(&damaged), Volumes::single(&repaired));
/// let report = repair(OsEnv::new()?, from, to, &mut |event| println!("{event:?}"))?;
/// assert!(report.is_whole());
/// assert_eq!(Database::open(&repaired)?.collection("books")?.count()?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `NotFound` or `Invalid` if there is no database; `Locked`; `Invalid` if there is something at
/// `to`; `Full` or `Io` if the new one can't be written, or a file of the old one not be opened.
/// Damage is no error.
pub fn repair(
    env: Arc<dyn Env>,
    from: Volumes,
    to: Volumes,
    on_event: &mut dyn FnMut(RepairEvent),
) -> Result<RepairReport> {
    let from = engine::volumes_of(&*env, from);
    marker::check_target(&*env, &from, &to)?;
    survey::require(&*env, &from)?;
    let lock = env.lock_dir(from.root())?;
    let shared = Shared::new(
        Arc::clone(&env),
        DatabaseOptions::default().memory_bytes,
        Some(lock),
    );
    let survey = Survey::of(&*env, &from)?;
    let total = survey.total_bytes(&*env, &from)?;
    let mut repair = Repair {
        shared,
        from,
        report: RepairReport::default(),
        total,
        on_event,
    };
    marker::begin(&*env, &to)?;
    // All that is whole is to come out of it: retention is off.
    let builder = DatabaseBuilder::on(&to).env(Arc::clone(&env));
    let database = engine::open_for_repair(builder.retention(false))?;
    for damage in survey.damage.clone() {
        repair.damage("", 0, damage);
    }
    for surveyed in &survey.collections {
        match &surveyed.settings.wide {
            Some(schema) => repair.wide_collection(&database, &survey, surveyed, schema)?,
            None => repair.collection(&database, &survey, surveyed)?,
        }
    }
    for name in database.collections() {
        repair.report.documents += database.collection(&name)?.count()?;
    }
    database.flush()?;
    database.close()?;
    marker::end(&*env, &to)?;
    Ok(repair.report)
}
