//! Salvaging a store whose files may be damaged: the records of its log that are whole, and what
//! its trees still know.
//!
//! # Invariants
//! 1. Only reads.
//! 2. The trees that `apply` writes are given only if the manifest and all their table files are
//!    whole: then they say what the whole log up to one position had made of them, whatever became
//!    of the log. Derived trees can be built anew, so nothing is salvaged from them.

use crate::manifest::{self, Manifest};
use crate::verify::{
    Again, Damage, log_damage, lost_entries, manifest_damage, table_damage, table_files,
};
use crate::{Error, Machine, Place, Result, Shared, TreeId, TreeSnapshots};
use bytes::Bytes;
use quire_env::{Env, ErrorKind as EnvErrorKind, FileId};
use quire_log::{Finding, Inspection, LogIdentity};
use quire_lsm::{TableMeta, Tree, TreeContext, TreeSnapshot, verify_table};
use quire_model::Position;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

/// What a salvage comes upon.
#[derive(Debug, Clone)]
pub enum Salvaged {
    /// This number of further bytes was read.
    Read(u64),
    /// Something is wrong.
    Damage(Damage),
    /// A whole record. They come in the order of their positions.
    Record(Position, Bytes),
    /// The records from the first position to the last, which come next, were written together with
    /// others that are lost.
    Part(Position, Position),
}

/// The trees of a store without the table files that are damaged.
#[derive(Debug, Clone)]
pub struct SalvagedParts {
    /// What is left of each. Where a file is missing, older entries show, or none.
    pub trees: SalvagedTrees,
    /// The files that are missing.
    pub damaged: Vec<DamagedTable>,
}

impl SalvagedParts {
    /// Whether a file of this tree is missing.
    pub fn is_damaged(&self, tree: TreeId) -> bool {
        self.damaged.iter().any(|table| table.tree == tree)
    }
}

/// A table file that can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedTable {
    /// Whose it was.
    pub tree: TreeId,
    /// Which one.
    pub file: FileId,
    /// Its first key.
    pub smallest: Vec<u8>,
    /// Its last key.
    pub largest: Vec<u8>,
}

/// The trees of a store, all of whose table files are whole, as of one position.
#[derive(Debug, Clone)]
pub struct SalvagedTrees {
    position: Position,
    trees: TreeSnapshots,
}

impl SalvagedTrees {
    /// The last record that they hold.
    pub fn position(&self) -> Position {
        self.position
    }

    /// A tree, if it is among them.
    pub fn tree(&self, tree: TreeId) -> Option<&TreeSnapshot> {
        self.trees.get(tree)
    }
}

/// A store that nobody has open, being salvaged: its log is read as this is iterated.
#[derive(Debug)]
pub struct Salvage {
    found: VecDeque<Salvaged>,
    parts: Option<SalvagedParts>,
    log: Option<Inspection>,
    /// Whether the manifest says how far the log went.
    end_known: bool,
}

/// Begins to salvage a store: reads its manifest and its tables, and tells `progress` how many
/// bytes. Damage does not end it.
///
/// # Errors
/// Only what the machine reports, of files that can't even be opened.
pub fn salvage<M: Machine>(
    shared: &Shared,
    place: &Place,
    progress: &mut dyn FnMut(u64),
) -> Result<Salvage> {
    let env = shared.env();
    let mut found = VecDeque::new();
    let manifest = match Manifest::read(&**env, &place.dir()) {
        Ok(manifest) if manifest.identity == place.identity => Some(manifest),
        Ok(_) => {
            found.push_back(Salvaged::Damage(Damage {
                path: manifest::path(&place.dir()),
                offset: 20,
                what: "the manifest belongs to another partition or database".into(),
                lost: "which files make up the partition".into(),
                positions: None,
            }));
            None
        }
        Err(error) => {
            found.push_back(Salvaged::Damage(manifest_damage(
                place,
                M::LOG_IS_KEPT,
                error,
            )?));
            None
        }
    };
    let parts = match &manifest {
        Some(manifest) => salvage_trees::<M>(shared, place, manifest, &mut found, progress)?,
        None => None,
    };
    let end_known = manifest.is_some();
    let known = manifest.map_or(Position(0), |manifest| manifest.synced);
    let dir = place.log_dir();
    let log = if env.exists(&dir)? {
        let identity = Some(LogIdentity(place.identity));
        Some(quire_log::salvage(&**env, &dir, identity, known)?)
    } else {
        if known > Position(0) {
            found.push_back(Salvaged::Damage(Damage {
                path: dir,
                offset: 0,
                what: "the log is missing".into(),
                lost: format!("all documents (positions 1 to {known})"),
                positions: Some((Position(1), known)),
            }));
        }
        None
    };
    Ok(Salvage {
        found,
        parts,
        log,
        end_known,
    })
}

/// The identities that the files of a store say are theirs: its manifest's, and those of its log's
/// segments.
///
/// # Errors
/// Only what the machine reports.
pub fn identities(env: &dyn Env, place: &Place) -> Result<Vec<[u8; 16]>> {
    let mut found = Vec::new();
    found.extend(Manifest::read(env, &place.dir()).map(|manifest| manifest.identity));
    let dir = place.log_dir();
    if env.exists(&dir)? {
        let segments = quire_log::identities(env, &dir)?;
        found.extend(segments.into_iter().map(|identity| identity.0));
    }
    Ok(found)
}

/// Reads all tables, and opens the trees without those that are damaged.
fn salvage_trees<M: Machine>(
    shared: &Shared,
    place: &Place,
    manifest: &Manifest,
    found: &mut VecDeque<Salvaged>,
    progress: &mut dyn FnMut(u64),
) -> Result<Option<SalvagedParts>> {
    let env = shared.env();
    let files = Arc::new(table_files(env, place, manifest));
    let mut damaged: Vec<DamagedTable> = Vec::new();
    for tree in &manifest.trees {
        for table in tree.runs.iter().flat_map(|run| &run.tables) {
            let lost = lost_entries(
                &tree.name,
                Again::of(tree.derived.is_some(), M::LOG_IS_KEPT),
                table,
            );
            let before = found.len();
            match files.path(table.file) {
                Err(error) => note(found, error, place.dir(), lost)?,
                Ok(path) => {
                    if let Err(error) = verify_table(&**env, &path, table) {
                        note(found, error, path, lost)?;
                    }
                }
            }
            if found.len() > before && tree.derived.is_none() {
                damaged.push(DamagedTable {
                    tree: tree.id,
                    file: table.file,
                    smallest: table.smallest.clone(),
                    largest: table.largest.clone(),
                });
            }
            progress(table.bytes);
        }
    }
    let is_damaged = |table: &TableMeta| damaged.iter().any(|one| one.file == table.file);
    let context = TreeContext {
        files,
        env: Arc::clone(env),
        cache: Arc::clone(shared.cache()),
        filters: Arc::clone(shared.filters()),
        budget: Arc::clone(shared.memtables()),
    };
    let mut trees = SmallVec::new();
    for spec in M::trees() {
        let id = TreeId(spec.id);
        let runs = manifest.trees.iter().find(|tree| tree.id == id);
        let mut runs = runs.map(|tree| tree.runs.clone()).unwrap_or_default();
        for run in &mut runs {
            run.tables.retain(|table| !is_damaged(table));
        }
        runs.retain(|run| !run.tables.is_empty());
        match Tree::open(spec, context.clone(), runs) {
            Ok(tree) => trees.push((id, tree.snapshot(manifest.applied))),
            Err(error) => {
                note(found, error, place.dir(), "what the trees say".into())?;
                return Ok(None);
            }
        }
    }
    Ok(Some(SalvagedParts {
        trees: SalvagedTrees {
            position: manifest.applied,
            trees: TreeSnapshots(trees),
        },
        damaged,
    }))
}

/// Notes that a table can't be read. A disk that fails to is no reason to give up the log.
fn note(
    found: &mut VecDeque<Salvaged>,
    error: quire_lsm::Error,
    path: PathBuf,
    lost: String,
) -> Result<()> {
    if matches!(&error, quire_lsm::Error::Env(error) if error.kind() == EnvErrorKind::Crashed) {
        return Err(Error::from(error));
    }
    found.push_back(Salvaged::Damage(table_damage(error, path, lost)));
    Ok(())
}

impl Salvage {
    /// What the trees knew; none if any of them is damaged.
    pub fn trees(&self) -> Option<SalvagedTrees> {
        let whole = self.parts.as_ref().filter(|parts| parts.damaged.is_empty());
        whole.map(|parts| parts.trees.clone())
    }

    /// What is left of the trees; none if nothing says what they are made of.
    pub fn parts(&self) -> Option<SalvagedParts> {
        self.parts.clone()
    }

    /// Without a manifest nothing says how far the log went: the last position that anything in it
    /// speaks of, once this has been iterated to its end.
    pub fn end_unknown(&self) -> Option<Position> {
        let last = |log: &Inspection| log.summary().last;
        (!self.end_known).then(|| self.log.as_ref().map_or(Position(0), last))
    }

    /// Bytes after the last whole write, as a crash leaves them; no damage.
    pub fn torn_bytes(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.summary().torn_bytes)
    }
}

impl Iterator for Salvage {
    type Item = Result<Salvaged>;

    fn next(&mut self) -> Option<Result<Salvaged>> {
        if let Some(found) = self.found.pop_front() {
            return Some(Ok(found));
        }
        loop {
            return Some(match self.log.as_mut()?.next()? {
                Ok(Finding::Read(bytes)) => Ok(Salvaged::Read(bytes)),
                Ok(Finding::Damage(damage)) => Ok(Salvaged::Damage(log_damage(damage))),
                Ok(Finding::Record(position, record)) => Ok(Salvaged::Record(position, record)),
                Ok(Finding::Part(first, last)) => Ok(Salvaged::Part(first, last)),
                Ok(_) => continue,
                Err(error) => Err(error.into()),
            });
        }
    }
}
