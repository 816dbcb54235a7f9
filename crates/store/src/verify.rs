//! Verifying a closed store: every byte of its manifest, log and table files.

use crate::manifest::{self, Manifest};
use crate::{Error, Place, Result, Shared};
use quire_env::{Env, ErrorKind as EnvErrorKind};
use quire_log::LogIdentity;
use quire_lsm::{TableFiles, TableMeta, verify_table};
use quire_model::Position;
use std::path::PathBuf;
use std::sync::Arc;

/// One thing that is wrong with a store's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where in it, in bytes.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
    /// What can't be read because of it, in words.
    pub lost: String,
    /// The first and last position of the records that it loses, if it loses any.
    pub positions: Option<(Position, Position)>,
}

/// What a verification read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verified {
    /// Files.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes after the last whole write, which the next opening will cut off; no damage.
    pub torn_bytes: u64,
}

/// Reads every byte of a store that nobody has open, whose log is kept or not, and reports each
/// damage to `on_damage`, going on past it; `progress` is told the bytes read since it was last
/// called. Changes nothing.
///
/// # Errors
/// Only what the machine reports: that a file can't be read, and so on.
pub fn verify(
    shared: &Shared,
    place: &Place,
    log_is_kept: bool,
    on_damage: &mut dyn FnMut(Damage),
    progress: &mut dyn FnMut(u64),
) -> Result<Verified> {
    let env = shared.env();
    let dir = place.dir();
    let mut verified = Verified::default();
    let manifest = match Manifest::read(&**env, &dir) {
        Ok(manifest) => manifest,
        Err(error) => {
            on_damage(manifest_damage(place, log_is_kept, error)?);
            return Ok(verified);
        }
    };
    verified.files += 1;
    verified.bytes += manifest.encode().len() as u64;
    progress(verified.bytes);
    if manifest.identity != place.identity {
        on_damage(Damage {
            path: manifest::path(&dir),
            offset: 20,
            what: "the manifest belongs to another partition or database".into(),
            lost: "the whole partition, until its own files are put back".into(),
            positions: None,
        });
        return Ok(verified);
    }
    verify_log(&**env, place, &manifest, &mut verified, on_damage, progress)?;
    verify_tables(
        env,
        place,
        (&manifest, log_is_kept),
        &mut verified,
        on_damage,
        progress,
    )?;
    Ok(verified)
}

pub(crate) fn manifest_damage(place: &Place, log_is_kept: bool, error: Error) -> Result<Damage> {
    let lost = match log_is_kept {
        true => "which files make up the partition; its log can still give every document",
        false => "which files make up the partition: all that its log does not have",
    };
    let lost = lost.to_string();
    let path = manifest::path(&place.dir());
    match error {
        Error::Manifest { path, what, offset } => Ok(Damage {
            path,
            offset,
            what,
            lost,
            positions: None,
        }),
        Error::Env(error) if error.kind() == EnvErrorKind::NotFound => Ok(Damage {
            path,
            offset: 0,
            what: "the manifest is missing".into(),
            lost,
            positions: None,
        }),
        other => Err(other),
    }
}

fn verify_log(
    env: &dyn Env,
    place: &Place,
    manifest: &Manifest,
    verified: &mut Verified,
    on_damage: &mut dyn FnMut(Damage),
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let dir = place.log_dir();
    if !env.exists(&dir)? {
        // A store that was made and never opened has no log yet; one whose trees hold records must
        // have it.
        if manifest.synced > Position(0) {
            let lost = format!("all documents (positions 1 to {})", manifest.synced);
            on_damage(Damage {
                path: dir,
                offset: 0,
                what: "the log is missing".into(),
                lost,
                positions: Some((Position(1), manifest.synced)),
            });
        }
        return Ok(());
    }
    let identity = Some(LogIdentity(place.identity));
    let mut translate = |damage| on_damage(log_damage(damage));
    let summary = quire_log::verify(env, &dir, identity, &mut translate, progress)?;
    verified.files += summary.segments;
    verified.bytes += summary.disk_bytes;
    verified.torn_bytes += summary.torn_bytes;
    if summary.first > manifest.applied.next() && summary.damages == 0 {
        let (first, last) = (manifest.applied.next(), Position(summary.first.0 - 1));
        on_damage(Damage {
            path: dir.clone(),
            offset: 0,
            what: "the log begins after the position that the table files are at".into(),
            lost: format!("the records at positions {first} to {last}"),
            positions: Some((first, last)),
        });
    }
    if summary.last < manifest.synced && summary.damages == 0 {
        let lost = format!(
            "the records at positions {} to {}",
            summary.last.next(),
            manifest.synced
        );
        let what = "the log ends before the position that it was durable up to".to_string();
        on_damage(Damage {
            path: dir,
            offset: 0,
            what,
            lost,
            positions: Some((summary.last.next(), manifest.synced)),
        });
    }
    Ok(())
}

/// Damage of a log, with what it loses in words.
pub(crate) fn log_damage(damage: quire_log::LogDamage) -> Damage {
    let lost = match damage.lost {
        Some((first, last)) if first == last => format!("the record at position {first}"),
        Some((first, last)) => format!("the records at positions {first} to {last}"),
        None => "no record".to_string(),
    };
    Damage {
        path: damage.path,
        offset: damage.offset,
        what: damage.what,
        lost,
        positions: damage.lost,
    }
}

/// The table files of a store, as far as its manifest names them.
pub(crate) fn table_files(env: &Arc<dyn Env>, place: &Place, manifest: &Manifest) -> TableFiles {
    TableFiles::new(
        Arc::clone(env),
        place.volumes_there(&**env),
        place.tables_subdir(),
        manifest.next_file,
    )
}

fn verify_tables(
    env: &Arc<dyn Env>,
    place: &Place,
    (manifest, log_is_kept): (&Manifest, bool),
    verified: &mut Verified,
    on_damage: &mut dyn FnMut(Damage),
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let files = table_files(env, place, manifest);
    for tree in &manifest.trees {
        for table in tree.runs.iter().flat_map(|run| &run.tables) {
            let path = files.path(table.file)?;
            let lost = lost_entries(
                &tree.name,
                Again::of(tree.derived.is_some(), log_is_kept),
                table,
            );
            if let Some(volume) = files.lost([table]) {
                on_damage(table_damage(volume.missing().into(), path, lost));
                continue;
            }
            if let Err(error) = verify_table(&**env, &path, table) {
                if !damaged(&error) {
                    return Err(error.into());
                }
                on_damage(table_damage(error, path, lost));
            }
            verified.files += 1;
            verified.bytes += table.bytes;
            progress(table.bytes);
        }
    }
    Ok(())
}

/// What gives the entries of a tree again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    Log,
    Opening,
    Nothing,
}

impl Again {
    /// Of a tree of a store whose log is kept, or not.
    pub(crate) fn of(is_derived: bool, log_is_kept: bool) -> Again {
        match (is_derived, log_is_kept) {
            (true, _) => Again::Opening,
            (false, true) => Again::Log,
            (false, false) => Again::Nothing,
        }
    }
}

/// What a table file that can't be read loses, in words.
pub(crate) fn lost_entries(name: &str, again: Again, table: &TableMeta) -> String {
    let again = match again {
        Again::Log => "the log can give them again",
        Again::Opening => "an opening builds the tree anew, and answers do not need it",
        Again::Nothing => "nothing else of this partition has them",
    };
    let entries = table.entries;
    format!("{entries} entries of the {name} tree; {again}")
}

/// What is wrong with the table file at `path`.
pub(crate) fn table_damage(error: quire_lsm::Error, path: PathBuf, lost: String) -> Damage {
    let (path, offset, what) = match error {
        quire_lsm::Error::Corrupt {
            path,
            what,
            offset,
            expected,
            found,
        } => {
            let what = format!("{what}: expected {expected:#x}, found {found:#x}");
            (path, offset, what)
        }
        error => (path, 0, error.to_string()),
    };
    Damage {
        path,
        offset,
        what,
        lost,
        positions: None,
    }
}

/// Whether it is the file that is wrong, and not the machine.
pub(crate) fn damaged(error: &quire_lsm::Error) -> bool {
    use quire_lsm::ErrorKind as Tree;
    matches!(
        error.kind(),
        Tree::Corrupt
            | Tree::UnsupportedVersion
            | Tree::Env(
                EnvErrorKind::NotFound | EnvErrorKind::UnexpectedEnd | EnvErrorKind::TooLarge
            )
    )
}
