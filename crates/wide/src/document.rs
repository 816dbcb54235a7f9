//! Documents and rows: a document's fields as changes of cells, and cells as a document.

use crate::schema::Schema;
use crate::{Cell, Change, Error, REST, Result};
use quire_model::{DOCUMENT_BYTES_MAX, Document, Key, ValueRef};

impl Schema {
    /// The changes that a document is made of, or, of a patch, those that it says: null removes.
    /// The key field is no column; it names `key`, or is absent.
    ///
    /// # Errors
    /// `Invalid` for a field that is not declared, a value of another type than its column's, or
    /// another key.
    pub fn changes_of(
        &self,
        key: &Key,
        key_field: &str,
        document: &Document,
        is_patch: bool,
    ) -> Result<Vec<Change>> {
        let mut changes = Vec::new();
        for (name, value) in document.fields() {
            if name == key_field {
                check_key(key, key_field, value)?;
                continue;
            }
            self.field_changes(name, value, is_patch, &mut changes)?;
        }
        Ok(changes)
    }

    fn field_changes(
        &self,
        name: &str,
        value: ValueRef<'_>,
        is_patch: bool,
        changes: &mut Vec<Change>,
    ) -> Result<()> {
        let Some(column) = self.column(name) else {
            let rest = self.rest_of(name)?;
            let wrong = |what| Error::Invalid(format!("field {name:?}: {what}"));
            let cell = Cell::from_json(rest, value).map_err(wrong)?;
            changes.extend(changed(REST, cell, is_patch).map(|change| change.of_member(name)));
            return Ok(());
        };
        let wrong = |what| Error::Invalid(format!("column {name:?}: {what}"));
        if !column.family {
            let cell = Cell::from_json(column.kind, value).map_err(wrong)?;
            changes.extend(changed(name, cell, is_patch));
            return Ok(());
        }
        match value {
            ValueRef::Null => changes.extend(is_patch.then(|| Change::remove(name))),
            ValueRef::Object(members) => {
                for (member, value) in members.fields() {
                    let cell = Cell::from_json(column.kind, value)
                        .map_err(|what| wrong(format!("member {member:?}: {what}")))?;
                    let change = changed(name, cell, is_patch);
                    changes.extend(change.map(|change| change.of_member(member)));
                }
            }
            value => {
                let what = format!("expected an object of members, found {}", value.type_name());
                return Err(wrong(what));
            }
        }
        Ok(())
    }

    /// The type that an undeclared field is kept as.
    fn rest_of(&self, name: &str) -> Result<crate::ColumnType> {
        match self.keeps_undeclared() && name != REST {
            true => Ok(crate::ColumnType::Json),
            false => self.declared(name).and_then(|_| {
                Err(Error::Invalid(format!(
                    "{REST:?} can't be a field of a document"
                )))
            }),
        }
    }
}

/// What a value makes of a cell: null removes it, and is none of a whole document.
fn changed(name: &str, cell: Option<Cell>, is_patch: bool) -> Option<Change> {
    match cell {
        Some(cell) => Some(Change::set(name, cell)),
        None => is_patch.then(|| Change::remove(name)),
    }
}

fn check_key(key: &Key, key_field: &str, value: ValueRef<'_>) -> Result<()> {
    let named = Key::from_value(value)?;
    match named == *key {
        true => Ok(()),
        false => Err(Error::Invalid(format!(
            "the field {key_field:?} names document {named}, and the write {key}"
        ))),
    }
}

/// A document being made of cells, which come by column, those of a family in the order of their
/// members.
pub(crate) struct Assembly {
    json: Vec<u8>,
    key: Key,
    key_field: String,
    in_family: Option<u32>,
}

impl Assembly {
    /// One that begins with the key.
    pub(crate) fn new(key_field: &str, key: &Key) -> Assembly {
        let mut json = b"{".to_vec();
        write_string(key_field, &mut json);
        json.push(b':');
        write_key(key, &mut json);
        Assembly {
            json,
            key: key.clone(),
            key_field: key_field.to_string(),
            in_family: None,
        }
    }

    /// Adds a cell by the number of its column, unless the column was dropped.
    pub(crate) fn cell(
        &mut self,
        schema: &Schema,
        number: u32,
        member: &str,
        cell: &Cell,
    ) -> Result<()> {
        let Some(column) = schema.numbered(number) else {
            return Ok(());
        };
        match column.family {
            false => self.field(&column.name, cell),
            // A column that was declared since has the field's place; so has the key, of what an
            // older program wrote.
            true if column.number == 0 && schema.is_taken(member, &self.key_field) => Ok(()),
            true if column.number == 0 => self.field(member, cell),
            true => self.member(&column.name, column.number, member, cell),
        }
    }

    /// Adds the cell of a plain column, or an undeclared field.
    pub(crate) fn field(&mut self, name: &str, cell: &Cell) -> Result<()> {
        self.end_family();
        self.add(name, cell)
    }

    /// Adds a member of the family `number`.
    fn member(&mut self, family: &str, number: u32, member: &str, cell: &Cell) -> Result<()> {
        if self.in_family != Some(number) {
            self.end_family();
            self.json.push(b',');
            write_string(family, &mut self.json);
            self.json.extend_from_slice(b":{");
            self.in_family = Some(number);
        }
        self.add(member, cell)
    }

    fn add(&mut self, name: &str, cell: &Cell) -> Result<()> {
        if self.json.last() != Some(&b'{') {
            self.json.push(b',');
        }
        write_string(name, &mut self.json);
        self.json.push(b':');
        cell.write_json(&mut self.json);
        match self.json.len() < DOCUMENT_BYTES_MAX {
            true => Ok(()),
            false => Err(Error::TooLarge {
                what: format!("document {}, so far,", self.key),
                bytes: self.json.len(),
                bytes_max: DOCUMENT_BYTES_MAX,
                hint: "; name the columns to read, or read members of a family by range",
            }),
        }
    }

    fn end_family(&mut self) {
        if self.in_family.take().is_some() {
            self.json.push(b'}');
        }
    }

    /// Its bytes until now.
    pub(crate) fn bytes(&self) -> usize {
        self.json.len()
    }

    /// The document.
    pub(crate) fn finish(mut self) -> Result<Document> {
        self.end_family();
        self.json.push(b'}');
        Ok(Document::from_json(&self.json)?)
    }
}

/// Appends a key as documents have it.
pub(crate) fn write_key(key: &Key, out: &mut Vec<u8>) {
    let number = key.as_integer();
    match number.and_then(|number| i64::try_from(number).ok()) {
        Some(number) => out.extend(number.to_string().bytes()),
        None => write_string(&key.to_string(), out),
    }
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    out.extend(serde_json::json!(text).to_string().bytes());
}
