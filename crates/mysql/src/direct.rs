//! Documents of one table: each change of a row is one, with what the binlog has.

use crate::fields::Fields;
use crate::place::Offset;
use crate::row;
use crate::stream::Rows;
use quire_ship::FieldsConfig;

/// A changed document.
#[derive(Debug)]
pub(crate) struct RowChange {
    pub(crate) at: Offset,
    pub(crate) key: String,
    pub(crate) document: Option<Box<str>>,
}

/// The documents of changed rows. A changed key is a deletion and a document.
pub(crate) fn changes(rows: &Rows, config: &FieldsConfig) -> Vec<RowChange> {
    let layout = &rows.layout;
    let fields = Fields::of(config, &layout.columns);
    let mut changes = Vec::new();
    for (number, (before, after)) in (0..).zip(&rows.images) {
        let key = |values: &Vec<_>| row::key(&layout.columns, &layout.key, values);
        let (old, new) = (before.as_ref().map(key), after.as_ref().map(key));
        let had_old = old.is_some();
        // A row with two images has two bytes or more, so both changes have a place.
        let number = if had_old && new.is_some() {
            2 * number
        } else {
            number
        };
        let mut push = |number: u64, key: String, document| {
            changes.push(RowChange {
                at: Offset {
                    file: rows.start.file.clone(),
                    offset: rows.start.offset + number,
                },
                key,
                document,
            });
        };
        if let Some(old) = old
            && new.as_ref() != Some(&old)
        {
            push(number, old, None);
        }
        if let (Some(new), Some(values)) = (new, after) {
            let mut document = String::new();
            fields.write(values, &mut document);
            push(number + u64::from(had_old), new, Some(document.into()));
        }
    }
    changes
}
