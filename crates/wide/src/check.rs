//! Checking that the trees of a partition agree: one pass over each, nothing kept per row.

use crate::machine::{EXPIRIES, KEYS, NAMES, ROWS};
use crate::row::Row;
use crate::stored::Stored;
use crate::tree_scan::scan;
use crate::{GROUPS_MAX, Result, Schema, WidePartition, WideView, cell_key, expiry_key};
use quire_lsm::SmallBytes;
use quire_search::IndexedView;
use std::sync::Arc;

impl WidePartition {
    /// Compares the trees with each other: every row has a key that leads to it, every cell a row
    /// that says that its group has some, and every cell can be read. Gives the number of rows;
    /// disagreements are reported to `on_problem` and do not end the check.
    ///
    /// # Errors
    /// Damaged bytes, by file and offset.
    pub fn check(&self, on_problem: &mut dyn FnMut(String)) -> Result<u64> {
        // All groups, also those that no schema names.
        let view = self.view_of_all(&Arc::new(Schema::new()))?;
        let rows = check_rows(&view, on_problem)?;
        for group in 0..GROUPS_MAX as u8 {
            check_group(&view, group, false, on_problem)?;
            check_group(&view, group, true, on_problem)?;
        }
        check_expiries(&view, on_problem)?;
        self.check_index(on_problem)?;
        let counted = [("rows", rows), ("keys", scan(&view, KEYS)?.count() as u64)];
        for (what, found) in counted {
            if found != view.count() {
                let counted = view.count();
                on_problem(format!(
                    "{found} {what}, but {counted} documents are counted"
                ));
            }
        }
        Ok(rows)
    }
}

impl WidePartition {
    /// Compares each complete search index with the rows.
    fn check_index(&self, on_problem: &mut dyn FnMut(String)) -> Result<()> {
        let Some(columns) = self.row_index().columns() else {
            return Ok(());
        };
        let view = self.indexed_view(&columns.schema())?;
        let indexed: &dyn IndexedView = &view;
        indexed.check_search()?.into_iter().for_each(on_problem);
        Ok(())
    }
}

/// Whether each row has a name, and each name leads to it; and whether as many are in cold trees as
/// are counted.
fn check_rows(view: &WideView, on_problem: &mut dyn FnMut(String)) -> Result<u64> {
    let mut names = scan(view, NAMES)?;
    let (mut count, mut cold) = (0, [0; GROUPS_MAX]);
    for item in scan(view, ROWS)? {
        let (docid, row) = item?;
        count += 1;
        let shown = number(&docid);
        match Row::decode(&row) {
            None => on_problem(format!("document number {shown}: its row can't be read")),
            Some(row) => {
                let groups = cold.iter_mut().enumerate();
                groups.for_each(|(group, rows)| *rows += u64::from(row.is_cold(group as u8)));
            }
        }
        let Some((named, key)) = names.next().transpose()? else {
            on_problem(format!("document number {shown} has no name"));
            continue;
        };
        if named != docid {
            let other = number(&named);
            on_problem(format!(
                "document number {shown}: the name is of number {other}"
            ));
        } else if view.tree(KEYS)?.get(&key)?.as_ref() != Some(&docid) {
            on_problem(format!(
                "document number {shown}: its key does not lead to it"
            ));
        }
    }
    if names.next().transpose()?.is_some() {
        on_problem("there are names without rows".into());
    }
    if cold != *view.cold_rows() {
        let counted = view.cold_rows();
        on_problem(format!(
            "{cold:?} rows are in cold trees, but {counted:?} are counted"
        ));
    }
    Ok(count)
}

/// Whether each entry of the tree of expiries can be read.
fn check_expiries(view: &WideView, on_problem: &mut dyn FnMut(String)) -> Result<()> {
    for item in scan(view, EXPIRIES)? {
        let (key, group) = item?;
        let cell = expiry_key::split(&key).and_then(|(_, cell)| cell_key::decode(cell));
        if cell.is_none() || !matches!(*group, [group] if usize::from(group) < GROUPS_MAX) {
            on_problem("an entry of the tree expiries can't be read".into());
        }
    }
    Ok(())
}

/// Whether each cell can be read, and its row says that this tree of the group has some.
fn check_group(
    view: &WideView,
    group: u8,
    is_cold: bool,
    on_problem: &mut dyn FnMut(String),
) -> Result<()> {
    let mut rows = scan(view, ROWS)?;
    let mut row: Option<(SmallBytes, SmallBytes)> = None;
    for item in scan(view, crate::machine::tree_of(group, is_cold))? {
        let (key, value) = item?;
        let (docid, column, member) = view.split(&key)?;
        let of_docid = docid;
        let docid = docid.0.to_be_bytes();
        while row.as_ref().is_none_or(|(at, _)| **at < docid[..]) {
            match rows.next().transpose()? {
                Some(next) => row = Some(next),
                None => break,
            }
        }
        let of = row.as_ref().filter(|(at, _)| **at == docid[..]);
        let named = of.and_then(|(_, row)| Row::decode(row));
        let at = || {
            format!(
                "{}group {group}, column {column}, document {}",
                if is_cold { "cold " } else { "" },
                number(&docid)
            )
        };
        let is_named = |row: &Row| row.groups & (1 << group) != 0 && row.is_cold(group) == is_cold;
        if !named.as_ref().is_some_and(is_named) {
            on_problem(format!("{}: its row does not have cells there", at()));
        }
        if let Err(error) = view.decode(&value) {
            on_problem(format!("{}: {error}", at()));
        }
        if let Some(moved) = view.moves().get(column) {
            let is_before = (of_docid, member) < moved.next.at();
            if group != if is_before { moved.to } else { moved.from } {
                on_problem(format!("{}: the column has moved to another group", at()));
            }
        }
        if let Ok(Some(expires)) = Stored::split(&value).map(|stored| stored.expires) {
            let entry = view.tree(EXPIRIES)?.get(&expiry_key::key(expires, &key))?;
            if entry.as_deref() != Some(&[group][..]) {
                on_problem(format!("{}: it expires, and expiries has no entry", at()));
            }
            if named.is_some_and(|row| row.expiring & (1 << group) == 0) {
                on_problem(format!(
                    "{}: it expires, and its row has none that do",
                    at()
                ));
            }
        }
    }
    Ok(())
}

/// A docid, for messages.
fn number(docid: &[u8]) -> u64 {
    docid
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}
