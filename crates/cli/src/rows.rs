//! Documents as rows: a column for each field, which an object's fields have under their paths.
//!
//! The first documents decide the columns, unless fields are named. They are kept until there are
//! enough, so the memory is bounded.

use crate::error::{Error, Result};
use crate::table::shortened;
use quiredb::{Document, ObjectRef, ValueRef};
use std::io::Write;

/// The first documents, which decide the columns: at most this many rows, and bytes.
const HEAD_ROWS: usize = 1_000;
const HEAD_BYTES: usize = 4 << 20;

/// The width of a table where the terminal does not say it.
const WIDTH_DEFAULT: usize = 100;

/// The narrowest column that others are not left out for, and the widest that a cell makes.
const CELL_WIDTH_MIN: usize = 6;
const CELL_WIDTH_MAX: usize = 60;

/// Between two columns of a table.
const GAP: &str = "  ";

/// A document: its cells by path, in its order.
pub(crate) struct Row(Vec<(String, String)>);

impl Row {
    /// The row of a document that is given as JSON: a string is its text, an array is JSON, null
    /// and what is not there are empty.
    ///
    /// # Errors
    /// It is no document; it has a path twice, as `{"a.b":1,"a":{"b":2}}` has.
    pub(crate) fn of(json: &str) -> Result<Row> {
        let document = Document::from_json(json.as_bytes());
        let document = document.map_err(|error| Error::Failed(error.to_string()))?;
        let mut cells = Vec::new();
        add_fields(document.root(), "", &mut cells);
        let mut paths: Vec<&str> = cells.iter().map(|(path, _)| path.as_str()).collect();
        paths.sort_unstable();
        let mut pairs = paths.iter().zip(paths.iter().skip(1));
        match pairs.find(|(one, next)| one == next) {
            Some((path, _)) => Err(Error::Failed(format!(
                "a document has two fields {path:?}, which one column can't have: {}",
                shortened(json, CELL_WIDTH_MAX)
            ))),
            None => Ok(Row(cells)),
        }
    }

    fn cell(&self, path: &str) -> &str {
        let found = self.0.iter().find(|(own, _)| own == path);
        found.map_or("", |(_, cell)| cell)
    }

    fn bytes(&self) -> usize {
        self.0
            .iter()
            .map(|(path, cell)| path.len() + cell.len())
            .sum()
    }
}

/// Appends the cells of an object whose fields' paths begin with `prefix`. Recursion is bounded by
/// the depth of documents.
fn add_fields(object: ObjectRef<'_>, prefix: &str, cells: &mut Vec<(String, String)>) {
    for (name, value) in object.fields() {
        let path = format!("{prefix}{name}");
        let cell = match value {
            ValueRef::Object(inner) if inner.fields().next().is_some() => {
                add_fields(inner, &format!("{path}."), cells);
                continue;
            }
            ValueRef::Null => String::new(),
            ValueRef::String(text) => text.to_owned(),
            other => {
                let mut json = Vec::new();
                other.write_json(&mut json);
                String::from_utf8_lossy(&json).into_owned()
            }
        };
        cells.push((path, cell));
    }
}

/// Rows that are being printed.
pub(crate) struct Rows {
    /// The fields that are wanted, in this order; all if empty.
    fields: Vec<String>,
    /// The rows before the columns are known, and their bytes.
    head: Vec<Row>,
    head_bytes: usize,
    sheet: Sheet,
}

enum Sheet {
    /// The columns, once they are known.
    Csv(Option<Vec<String>>),
    Table(Option<Table>),
}

/// The columns of a table.
struct Table {
    columns: Vec<Column>,
    /// What is not in the table: columns for which there is no room, and cells of later documents.
    columns_left_out: Vec<String>,
    cells_left_out: u64,
}

struct Column {
    path: String,
    width: usize,
    /// Numbers alone are to the right.
    is_right: bool,
}

impl Rows {
    /// Rows of a table as wide as the terminal.
    pub(crate) fn table(fields: Vec<String>) -> Rows {
        Rows::new(fields, Sheet::Table(None))
    }

    /// Rows of comma-separated values.
    pub(crate) fn csv(fields: Vec<String>) -> Rows {
        Rows::new(fields, Sheet::Csv(None))
    }

    fn new(fields: Vec<String>, sheet: Sheet) -> Rows {
        Rows {
            fields,
            head: Vec::new(),
            head_bytes: 0,
            sheet,
        }
    }

    /// Prints a row, or keeps it until the columns are known.
    ///
    /// # Errors
    /// In CSV, a field that is not among the columns: it would be lost.
    pub(crate) fn add(&mut self, row: Row, out: &mut dyn Write) -> Result<()> {
        let is_known = match &self.sheet {
            Sheet::Csv(columns) => columns.is_some(),
            Sheet::Table(table) => table.is_some(),
        };
        if is_known {
            return self.write(&row, out);
        }
        self.head_bytes += row.bytes();
        self.head.push(row);
        match self.head.len() >= HEAD_ROWS || self.head_bytes >= HEAD_BYTES {
            true => self.begin(out),
            false => Ok(()),
        }
    }

    /// Prints what is left. Returns what a table has no room for, if there is anything.
    pub(crate) fn end(mut self, out: &mut dyn Write) -> Result<Option<String>> {
        if !self.head.is_empty() {
            self.begin(out)?;
        }
        Ok(match &self.sheet {
            Sheet::Table(Some(table)) => table.left_out(),
            _ => None,
        })
    }

    /// Decides the columns, and prints the rows that were kept.
    fn begin(&mut self, out: &mut dyn Write) -> Result<()> {
        let columns = columns(&self.fields, &self.head);
        let head = std::mem::take(&mut self.head);
        match &mut self.sheet {
            Sheet::Csv(known) => {
                write_csv(columns.iter().map(String::as_str), out)?;
                *known = Some(columns);
            }
            Sheet::Table(known) => {
                let table = Table::new(columns, &head, terminal_width());
                let names = table.columns.iter().map(|column| column.path.as_str());
                table.write(names, out)?;
                *known = Some(table);
            }
        }
        head.iter().try_for_each(|row| self.write(row, out))
    }

    fn write(&mut self, row: &Row, out: &mut dyn Write) -> Result<()> {
        match &mut self.sheet {
            Sheet::Csv(columns) => {
                let columns = columns.as_deref().unwrap_or_default();
                if let Some((path, _)) = row.0.iter().find(|(path, _)| !columns.contains(path)) {
                    return Err(Error::Failed(format!(
                        "the field {path:?} has no column: none of the first documents has it; \
                         name the columns with `quire query --all --fields`"
                    )));
                }
                write_csv(columns.iter().map(|path| row.cell(path)), out)
            }
            Sheet::Table(table) => {
                let Some(table) = table else { return Ok(()) };
                let is_new = |path: &String| {
                    table.columns.iter().all(|column| column.path != *path)
                        && !table.columns_left_out.contains(path)
                };
                let new = row.0.iter().filter(|(path, _)| is_new(path)).count();
                table.cells_left_out += new as u64;
                let cells = table.columns.iter().map(|column| row.cell(&column.path));
                table.write(cells, out)
            }
        }
    }
}

/// The columns of some rows: the paths in the order in which they come, or those of each wanted
/// field. A wanted field that no row has is a column too.
fn columns(fields: &[String], rows: &[Row]) -> Vec<String> {
    let mut found: Vec<&str> = Vec::new();
    for (path, _) in rows.iter().flat_map(|row| &row.0) {
        if !found.contains(&path.as_str()) {
            found.push(path);
        }
    }
    if fields.is_empty() {
        return found.into_iter().map(str::to_owned).collect();
    }
    let mut columns: Vec<String> = Vec::new();
    for field in fields {
        let is_of = |path: &&&str| is_within(path, field) || is_within(field, path);
        let own: Vec<&str> = found.iter().filter(is_of).copied().collect();
        let own = if own.is_empty() {
            vec![field.as_str()]
        } else {
            own
        };
        for path in own {
            if !columns.iter().any(|column| column == path) {
                columns.push(path.to_owned());
            }
        }
    }
    columns
}

/// Whether a path is another one or lies below it.
fn is_within(path: &str, outer: &str) -> bool {
    let rest = path.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn write_csv<'c>(cells: impl Iterator<Item = &'c str>, out: &mut dyn Write) -> Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    let written = writer.write_record(cells);
    written.map_err(|error| Error::Output(error.into()))?;
    writer.flush().map_err(Error::Output)
}

/// The columns of the terminal.
fn terminal_width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { WIDTH_DEFAULT } else { columns }
}

impl Table {
    /// A table of these columns, with room for the cells of `rows` where `width` letters give it.
    /// The widest columns are made narrower first; then the last ones are left out.
    fn new(paths: Vec<String>, rows: &[Row], width: usize) -> Table {
        let mut left_out = Vec::new();
        let mut columns: Vec<Column> = paths
            .into_iter()
            .map(|path| {
                let cells = || rows.iter().map(|row| row.cell(&path));
                let widths = cells()
                    .chain([path.as_str()])
                    .map(|cell| cell.chars().count());
                Column {
                    width: widths.max().unwrap_or(0).min(CELL_WIDTH_MAX),
                    is_right: cells().all(|cell| cell.is_empty() || cell.parse::<f64>().is_ok()),
                    path,
                }
            })
            .collect();
        let taken = |columns: &[Column]| -> usize {
            let gaps = GAP.len() * columns.len().saturating_sub(1);
            columns.iter().map(|column| column.width).sum::<usize>() + gaps
        };
        while taken(&columns) > width {
            let count = columns.len();
            match columns.iter_mut().max_by_key(|column| column.width) {
                Some(widest) if widest.width > CELL_WIDTH_MIN => widest.width -= 1,
                _ if count > 1 => left_out.extend(columns.pop().map(|last| last.path)),
                _ => break,
            }
        }
        left_out.reverse();
        Table {
            columns_left_out: left_out,
            cells_left_out: 0,
            columns,
        }
    }

    /// What it has no room for.
    fn left_out(&self) -> Option<String> {
        let columns = match self.columns_left_out.as_slice() {
            [] => None,
            names => {
                let names = names.join(", ");
                let names = shortened(&names, CELL_WIDTH_MAX);
                Some(format!(
                    "columns for which the terminal is too narrow ({names})"
                ))
            }
        };
        let cells = match self.cells_left_out {
            0 => None,
            count => Some(format!(
                "{count} values of fields that the first documents lack"
            )),
        };
        let left_out: Vec<String> = columns.into_iter().chain(cells).collect();
        let text = left_out.join(", and ");
        (!text.is_empty()).then(|| format!("quire: not shown: {text}; --fields names columns"))
    }

    fn write<'c>(&self, cells: impl Iterator<Item = &'c str>, out: &mut dyn Write) -> Result<()> {
        let mut line = String::new();
        for (cell, column) in cells.zip(&self.columns) {
            if !line.is_empty() {
                line.push_str(GAP);
            }
            let (cell, width) = (shown(cell, column.width), column.width);
            line += &match column.is_right {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            };
        }
        writeln!(out, "{}", line.trim_end()).map_err(Error::Output)
    }
}

/// A cell of at most `width` letters on one line: no terminal obeys what a document says.
fn shown(cell: &str, width: usize) -> String {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    let cell: String = cell.chars().take(width + 1).map(plain).collect();
    match cell.chars().count() > width {
        true => shortened(&cell, width.saturating_sub(1)),
        false => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(mut rows: Rows, documents: &[&str]) -> Result<(String, Option<String>)> {
        let mut out = Vec::new();
        for json in documents {
            rows.add(Row::of(json)?, &mut out)?;
        }
        let left_out = rows.end(&mut out)?;
        Ok((String::from_utf8(out).unwrap(), left_out))
    }

    #[test]
    fn an_object_has_a_column_for_each_field_and_an_array_is_json() {
        let documents = [
            r#"{"_id":"a","at":{"city":"Ulm","geo":{}},"tags":["x",1],"n":1.10,"none":null}"#,
            r#"{"_id":"b","at":{"city":"a \"b\", c"},"more":true}"#,
        ];
        let (csv, _) = printed(Rows::csv(Vec::new()), &documents).unwrap();
        let right = "_id,at.city,at.geo,tags,n,none,more\n\
                     a,Ulm,{},\"[\"\"x\"\",1]\",1.10,,\nb,\"a \"\"b\"\", c\",,,,,true\n";
        assert_eq!(csv, right);
        assert!(printed(Rows::csv(Vec::new()), &[r#"{"a.b":1,"a":{"b":2}}"#]).is_err());
    }

    #[test]
    fn wanted_fields_are_columns_in_their_order_also_where_no_document_has_them() {
        let fields = ["z", "offers.by", "at", "a"].map(str::to_owned).to_vec();
        let documents = [r#"{"a":1,"at":{"x":2,"y":3},"offers":[{"by":"q"}]}"#];
        let (csv, _) = printed(Rows::csv(fields.clone()), &documents).unwrap();
        assert_eq!(
            csv,
            "z,offers,at.x,at.y,a\n,\"[{\"\"by\"\":\"\"q\"\"}]\",2,3,1\n"
        );
        assert_eq!(printed(Rows::csv(fields), &[]).unwrap().0, "");
    }

    #[test]
    fn csv_loses_no_field_that_comes_late() {
        let mut documents = vec![r#"{"a":1}"#; HEAD_ROWS];
        documents.push(r#"{"b":2}"#);
        let error = printed(Rows::csv(Vec::new()), &documents).unwrap_err();
        assert!(format!("{error:?}").contains("\\\"b\\\""), "{error:?}");
    }

    #[test]
    fn a_table_is_as_wide_as_it_may_be() {
        let long = format!(
            r#"{{"id":7,"text":"{}\n\u001b[2J","word":"w","last":"end"}}"#,
            "long ".repeat(30)
        );
        let row = || vec![Row::of(&long).unwrap(), Row::of(r#"{"id":10}"#).unwrap()];
        let paths = || columns(&[], &row());
        for width in 1..120 {
            let table = Table::new(paths(), &row(), width);
            let mut out = Vec::new();
            for row in row() {
                let cells = table.columns.iter().map(|column| row.cell(&column.path));
                table.write(cells, &mut out).unwrap();
            }
            let text = String::from_utf8(out).unwrap();
            assert_eq!(text.lines().count(), 2, "{text}");
            assert!(!text.contains('\u{1b}'));
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(
                widest.unwrap() <= width.max(CELL_WIDTH_MIN),
                "{width}: {text}"
            );
            assert_eq!(table.columns.len() + table.columns_left_out.len(), 4);
        }
        let table = Table::new(paths(), &row(), 40);
        let mut out = Vec::new();
        let rows = row();
        let cells = table
            .columns
            .iter()
            .map(|column| rows[0].cell(&column.path));
        table.write(cells, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            " 7  long long long long lon…  w     end\n"
        );
    }
}
