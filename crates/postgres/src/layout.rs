//! The columns of changes, as the stream says, and changes of rows by them.

use crate::pgoutput::{Cell, Message, Old, Relation, Tuple};
use crate::row;
use crate::types::Types;
use crate::value::Kind;

/// The columns of changes from here on.
#[derive(Debug)]
pub(crate) struct Layout {
    columns: Vec<(String, Kind)>,
    key: Vec<usize>,
}

/// A changed row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RowChange {
    pub(crate) key: String,
    pub(crate) what: What,
}

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum What {
    Gone,
    Is(Box<str>),
    /// It has a large value that was not changed and is not sent: the parts of its key.
    LookUp(Vec<String>),
}

impl Layout {
    /// Reads what the stream says of a table whose primary key has columns of these names.
    ///
    /// # Errors
    /// If changes would not name their rows by this key: a sentence.
    pub(crate) fn of(relation: &Relation, types: &Types, key: &[String]) -> Result<Layout, String> {
        let place_of = |name: &String| {
            let mut columns = relation.columns.iter();
            columns.position(|column| column.name == *name)
        };
        let places: Option<Vec<usize>> = key.iter().map(place_of).collect();
        let is_key = |places: &[usize]| {
            let mut columns = relation.columns.iter().enumerate();
            columns.all(|(at, column)| column.is_identity == places.contains(&at))
        };
        match places {
            Some(places) if relation.identity == b'f' || is_key(&places) => Ok(Layout {
                columns: relation
                    .columns
                    .iter()
                    .map(|column| (column.name.clone(), types.kind(column.type_id)))
                    .collect(),
                key: places,
            }),
            _ => Err(
                "its changes name their rows by other columns than its primary key has now. \
                      Empty the sinks, remove their positions and run again"
                    .to_owned(),
            ),
        }
    }

    /// The changes of keys that a change of a row is.
    ///
    /// # Errors
    /// If the change does not fit the columns: a sentence.
    pub(crate) fn changes(&self, message: &Message<'_>) -> Result<Vec<RowChange>, String> {
        match message {
            Message::Insert { new, .. } => Ok(vec![self.row(new, None)?]),
            Message::Delete { old, .. } => Ok(vec![self.gone(old)?]),
            Message::Update { old, new, .. } => {
                let new = self.row(new, old.as_ref())?;
                let old = old.as_ref().map(|old| self.gone(old)).transpose()?;
                let moved = old.filter(|old| old.key != new.key);
                Ok(moved.into_iter().chain([new]).collect())
            }
            _ => Ok(Vec::new()),
        }
    }

    fn gone(&self, old: &Old<'_>) -> Result<RowChange, String> {
        self.check(&old.tuple)?;
        Ok(RowChange {
            key: self.key(&self.parts(|at| old.tuple[at])?),
            what: What::Gone,
        })
    }

    fn row(&self, new: &Tuple<'_>, old: Option<&Old<'_>>) -> Result<RowChange, String> {
        self.check(new)?;
        if let Some(old) = old {
            self.check(&old.tuple)?;
        }
        let cell = |at: usize| match (new[at], old) {
            (Cell::Unchanged, Some(old)) if old.is_whole || self.key.contains(&at) => old.tuple[at],
            (cell, _) => cell,
        };
        let parts = self.parts(cell)?;
        let key = self.key(&parts);
        let values = (0..self.columns.len()).map(|at| match cell(at) {
            Cell::Text(text) => Some(Some(text)),
            Cell::Null => Some(None),
            Cell::Unchanged => None,
        });
        let values: Option<Vec<Option<&str>>> = values.collect();
        let what = match values {
            Some(values) => What::Is(row::document(&self.columns, &values)),
            None => What::LookUp(parts.into_iter().map(str::to_owned).collect()),
        };
        Ok(RowChange { key, what })
    }

    fn check(&self, tuple: &Tuple<'_>) -> Result<(), String> {
        match tuple.len() == self.columns.len() {
            true => Ok(()),
            false => Err("a change has not the columns that the table has".to_owned()),
        }
    }

    fn parts<'a>(&self, cell: impl Fn(usize) -> Cell<'a>) -> Result<Vec<&'a str>, String> {
        let parts = self.key.iter().map(|at| match cell(*at) {
            Cell::Text(text) => Ok(text),
            _ => Err("a change does not name its row by its primary key".to_owned()),
        });
        parts.collect()
    }

    fn key(&self, parts: &[&str]) -> String {
        let kinds = self.key.iter().map(|at| &self.columns[*at].1);
        row::key(kinds.zip(parts.iter().copied()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pgoutput::Column;

    fn layout(identity: u8, flags: [bool; 3], key: &[&str]) -> Result<Layout, String> {
        let columns = [("a", 23), ("b", 25), ("large", 25)].into_iter().zip(flags);
        let columns = columns.map(|((name, type_id), is_identity)| Column {
            name: name.to_owned(),
            type_id,
            is_identity,
        });
        let relation = Relation {
            id: 7,
            schema: "public".to_owned(),
            table: "t".to_owned(),
            identity,
            columns: columns.collect(),
        };
        let key: Vec<String> = key.iter().map(|name| (*name).to_owned()).collect();
        Layout::of(&relation, &Types::default(), &key)
    }

    fn change(key: &str, what: What) -> RowChange {
        RowChange {
            key: key.to_owned(),
            what,
        }
    }

    #[test]
    fn a_changed_key_is_a_deletion_and_a_document_and_a_value_that_is_not_sent_is_looked_up() {
        let layout = layout(b'd', [true, true, false], &["b", "a"]).unwrap();
        let row = |a, b, large| vec![Cell::Text(a), Cell::Text(b), large];
        let old = |is_whole, tuple| Some(Old { is_whole, tuple });
        let update = |old, new| {
            layout.changes(&Message::Update {
                relation: 7,
                old,
                new,
            })
        };
        let document = |text: &str| What::Is(text.into());
        let found = update(
            old(false, row("1", "x", Cell::Null)),
            row("1", "y", Cell::Text("l")),
        );
        let is = document(r#"{"a":1,"b":"y","large":"l"}"#);
        assert_eq!(
            found,
            Ok(vec![change("x:1", What::Gone), change("y:1", is)])
        );
        let found = update(None, row("1", "y", Cell::Unchanged));
        let look_up = What::LookUp(vec!["y".to_owned(), "1".to_owned()]);
        assert_eq!(found, Ok(vec![change("y:1", look_up)]));
        let before = row("1", "y", Cell::Text("before"));
        let found = update(old(true, before), row("1", "y", Cell::Unchanged));
        let is = document(r#"{"a":1,"b":"y","large":"before"}"#);
        assert_eq!(found, Ok(vec![change("y:1", is)]));
        // A large part of a key comes with the old one.
        let unsent = vec![Cell::Text("1"), Cell::Unchanged, Cell::Null];
        let found = update(old(false, row("1", "x", Cell::Null)), unsent.clone());
        let is = document(r#"{"a":1,"b":"x","large":null}"#);
        assert_eq!(found, Ok(vec![change("x:1", is)]));
        assert!(update(None, unsent).is_err());
        assert!(update(None, vec![Cell::Null]).is_err());
    }

    #[test]
    fn changes_that_do_not_name_their_rows_by_the_key_are_refused() {
        assert!(layout(b'd', [true, false, false], &["a"]).is_ok());
        assert!(layout(b'f', [true, true, true], &["a"]).is_ok());
        assert!(layout(b'd', [true, false, false], &["b"]).is_err());
        assert!(layout(b'd', [true, false, false], &["a", "b"]).is_err());
        assert!(layout(b'n', [false, false, false], &["a"]).is_err());
        assert!(layout(b'f', [true, true, true], &["renamed"]).is_err());
    }
}
