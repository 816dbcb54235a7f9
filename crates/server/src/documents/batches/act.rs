//! What is done with the documents of a change by query, and where they are written.

use quiredb::wide::{self, RowWrite, WideCollection};
use quiredb::{Collection, Condition, Document, Found, ValueRef, Write, Written};

use crate::collections::selection::Searched;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::Fields;

/// What is done with each document.
pub(crate) enum Act {
    Delete,
    /// Writes it again as it is, as a new version.
    Rewrite,
    /// Puts it into another collection.
    Copy {
        to: Target,
        only_create: bool,
        /// What a document must be under at its destination, given the version that it has.
        versions: Option<fn(u64) -> Condition>,
        /// What of a document is copied.
        fields: Fields,
    },
}

/// A collection that is written.
#[derive(Clone)]
pub(crate) enum Target {
    Plain(Collection),
    Wide(WideCollection),
}

impl Target {
    pub(super) fn name(&self) -> &str {
        match self {
            Target::Plain(collection) => collection.name(),
            Target::Wide(wide) => wide.name(),
        }
    }

    /// Checks that documents of `sources` can be copied to it, with external versions or without.
    ///
    /// # Errors
    /// 400 if they can't.
    pub(super) fn check(&self, sources: &[Searched], has_versions: bool) -> Outcome<()> {
        if sources.iter().any(|from| from.name() == self.name()) {
            return Err(Failure::validation(&format!(
                "reindex cannot write into an index its reading from [{}]",
                self.name()
            )));
        }
        match self {
            Target::Wide(_) if has_versions => Err(Failure::illegal_argument(
                "[version_type] can't be external: rows of a wide collection have no external \
                 versions",
            )),
            _ => Ok(()),
        }
    }

    /// Does `act` to documents that were found: a result for each. Blocks.
    ///
    /// # Errors
    /// If a part of a document that is to be copied is none.
    pub(super) fn write(
        &self,
        act: &Act,
        found: &[Found],
    ) -> Outcome<Vec<quiredb::Result<Written>>> {
        match self {
            Target::Plain(collection) => {
                let writes = found.iter().map(|found| act.write(found));
                let writes: Vec<Write> = writes.collect::<Outcome<_>>()?;
                Ok(collection.batch().writes(writes).write())
            }
            Target::Wide(wide) => write_rows(wide, act, found),
        }
    }
}

fn write_rows(
    wide: &WideCollection,
    act: &Act,
    found: &[Found],
) -> Outcome<Vec<quiredb::Result<Written>>> {
    let mut rows = Vec::with_capacity(found.len());
    for found in found {
        let as_found = |row: RowWrite| Ok(row.condition(wide::Condition::IfVersion(found.version)));
        rows.push(match act {
            Act::Delete => as_found(RowWrite::delete(found.key.clone())),
            Act::Rewrite => as_found(RowWrite::renew(found.key.clone())),
            Act::Copy { .. } => wide.write_of(&act.write(found)?),
        });
    }
    Ok(wide.write_all(rows, None))
}

impl Act {
    /// The write that does it to one document.
    ///
    /// # Errors
    /// If a part of the document is none.
    fn write(&self, found: &Found) -> Outcome<Write> {
        let key = found.key.clone();
        let put = |document| Write::put(key.clone(), document).expiring(found.expiry());
        Ok(match self {
            Act::Delete => Write::delete(key).if_version(found.version),
            Act::Rewrite => put(found.document.clone()).if_version(found.version),
            Act::Copy {
                only_create,
                versions,
                fields,
                ..
            } => {
                let write = put(part_of(&found.document, fields)?);
                match (only_create, versions) {
                    (true, _) => write.if_absent(),
                    (false, Some(versions)) => Write {
                        condition: versions(found.shown_version()),
                        ..write
                    },
                    (false, None) => write,
                }
            }
        })
    }
}

/// The fields of a document that are copied.
fn part_of(document: &Document, fields: &Fields) -> Outcome<Document> {
    if fields.is_all() {
        return Ok(document.clone());
    }
    let mut json = Vec::new();
    fields.write(ValueRef::Object(document.root()), "", &mut json);
    Document::from_json(&json).map_err(|error| Failure::illegal_argument(error.to_string()))
}
