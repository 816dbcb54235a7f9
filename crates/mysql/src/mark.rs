//! Which joined documents a changed row concerns.
//!
//! # Invariant
//! A document that differs after a change has a mark of it, if marks of related rows are resolved
//! in the state after the change, or in a later one. For a document contains the rows that are
//! related to its own row: if its own row changed, that has a mark of its own; if not, the changed
//! row was related to it before or after the change, by values that its own row still has.

use crate::options::MysqlOptions;
use crate::row;
use crate::stream::Images;
use crate::table::Layout;
use crate::value::{Kind, sql};
use mysql_async::Value;
use quire_ship::{JoinConfig, JoinKind};

/// What must be looked up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    /// The document with this key, whose row has these values in the primary key, as SQL. If there
    /// is no such row, it is deleted.
    Key { key: String, parts: Vec<String> },
    /// All documents to which a row with these values, as SQL, is related by this join.
    Related { join: usize, values: Vec<String> },
}

/// A changed row: its columns, and its values before and after.
pub(crate) struct Changed<'a> {
    pub(crate) columns: &'a [(String, Kind)],
    pub(crate) key: &'a [usize],
    pub(crate) before: Option<&'a [Value]>,
    pub(crate) after: Option<&'a [Value]>,
}

impl<'a> Changed<'a> {
    pub(crate) fn new(layout: &'a Layout, images: &'a Images) -> Self {
        Changed {
            columns: &layout.columns,
            key: &layout.key,
            before: images.0.as_deref(),
            after: images.1.as_deref(),
        }
    }

    fn images(&self) -> impl Iterator<Item = &'a [Value]> {
        [self.before, self.after].into_iter().flatten()
    }

    /// Whether a column that is used differs.
    fn differs(&self, is_used: impl Fn(&str) -> bool) -> bool {
        let (Some(before), Some(after)) = (self.before, self.after) else {
            return true;
        };
        let columns = self.columns.iter().enumerate();
        columns
            .filter(|(index, _)| before[*index] != after[*index])
            .any(|(index, (name, _))| self.key.contains(&index) || is_used(name))
    }
}

/// The marks of a changed row of a table.
///
/// # Errors
/// If the row has no column that a join needs: a sentence.
pub(crate) fn marks(
    options: &MysqlOptions,
    table: usize,
    changed: &Changed<'_>,
) -> Result<Vec<Mark>, String> {
    let mut marks = Vec::new();
    let is_base = |name: &str| {
        let joins = options.joins.iter();
        let mut related = joins.flat_map(|join| join.config.on.keys());
        options.fields.takes(name) || related.any(|column| column == name)
    };
    if table == 0 && changed.differs(is_base) {
        for values in changed.images() {
            let parts = changed.key.iter();
            let parts = parts.map(|at| sql(changed.columns[*at].1, &values[*at]));
            let mark = Mark::Key {
                key: row::key(changed.columns, changed.key, values),
                parts: parts.map(Option::unwrap_or_default).collect(),
            };
            if !marks.contains(&mark) {
                marks.push(mark);
            }
        }
    }
    for (number, join) in options.joins.iter().enumerate() {
        if join.table != table || !changed.differs(|name| uses(&join.config, name)) {
            continue;
        }
        let places = join.config.on.values().map(|name| {
            let mut columns = changed.columns.iter();
            let place = columns.position(|(column, _)| column == name);
            place.ok_or_else(|| {
                format!(
                    "the change has no column {name:?}, by which rows are joined as {:?}. Empty \
                     the sinks, remove their positions and run again",
                    join.config.field
                )
            })
        });
        let places: Vec<usize> = places.collect::<Result<_, _>>()?;
        for image in changed.images() {
            let values = places.iter();
            let values = values.map(|at| sql(changed.columns[*at].1, &image[*at]));
            // Null is equal to nothing, so such a row is in no document.
            let Some(values) = values.collect::<Option<Vec<String>>>() else {
                continue;
            };
            let mark = Mark::Related {
                join: number,
                values,
            };
            if !marks.contains(&mark) {
                marks.push(mark);
            }
        }
    }
    Ok(marks)
}

/// Whether a document depends on a column of a joined table, beside its primary key.
fn uses(join: &JoinConfig, column: &str) -> bool {
    let is_related = join.on.values().any(|name| name == column);
    let is_shown = || join.fields().takes(column);
    let orders = || {
        let mut order = join.order.iter();
        order.any(|name| name.trim_start_matches('-') == column)
    };
    is_related
        || match join.kind {
            JoinKind::One | JoinKind::Many => is_shown() || orders(),
            JoinKind::Count => false,
            JoinKind::Sum => join.sum.as_deref() == Some(column),
        }
}

#[cfg(test)]
mod tests;
