//! Tables of `_cat`: text for people, or the same as JSON.

use serde_json::{Map, Value};

use super::answer::Answer;
use super::failure::{Failure, Outcome};
use super::fields::glob;
use super::params::Params;

/// A column: its name, OpenSearch's short name, whether it is a number, which is aligned to the
/// right.
pub(crate) type Column = (&'static str, &'static str, bool);

/// How a table is shown.
pub(crate) struct Table {
    all: &'static [Column],
    /// The columns to show, as indices into `all`.
    columns: Vec<usize>,
    is_json: bool,
    has_head: bool,
}

/// A cell for each column.
pub(crate) type Row = Vec<String>;

impl Table {
    /// A table of these columns, as the parameters want it.
    ///
    /// # Errors
    /// 400 if a parameter is wrong.
    pub(crate) fn of(params: &Params, all: &'static [Column]) -> Outcome<Table> {
        params.only(
            "format",
            &["", "text", "json"],
            "only [text] and [json] are supported",
        )?;
        Ok(Table {
            all,
            columns: columns(all, params.text("h"))?,
            is_json: params.text("format") == Some("json"),
            has_head: params.flag("v")?.unwrap_or(false),
        })
    }

    /// The table of these rows.
    pub(crate) fn answer(&self, rows: &[Row]) -> Answer {
        match self.is_json {
            true => self.as_json(rows),
            false => self.as_text(rows),
        }
    }

    fn as_json(&self, rows: &[Row]) -> Answer {
        let object = |row: &Row| -> Value {
            let member = |column: &usize| {
                let (name, _, _) = self.all.get(*column)?;
                Some(((*name).to_owned(), row.get(*column)?.as_str().into()))
            };
            Value::Object(
                self.columns
                    .iter()
                    .filter_map(member)
                    .collect::<Map<_, _>>(),
            )
        };
        Answer::ok(&Value::Array(rows.iter().map(object).collect()))
    }

    fn as_text(&self, rows: &[Row]) -> Answer {
        let names: Row = self
            .all
            .iter()
            .map(|(name, _, _)| (*name).to_owned())
            .collect();
        let head = self.has_head.then_some(&names);
        let lines: Vec<&Row> = head.into_iter().chain(rows).collect();
        let chars = |line: &&Row, column: usize| line.get(column).map_or(0, |c| c.chars().count());
        let width = |column: &usize| lines.iter().map(|line| chars(line, *column)).max();
        let widths: Vec<usize> = self
            .columns
            .iter()
            .map(|column| width(column).unwrap_or(0))
            .collect();
        let mut text = String::new();
        for line in &lines {
            let mut cells = Vec::new();
            for (&column, &width) in self.columns.iter().zip(&widths) {
                let cell = line.get(column).map_or("", String::as_str);
                cells.push(match self.all.get(column) {
                    Some((_, _, true)) => format!("{cell:>width$}"),
                    _ => format!("{cell:<width$}"),
                });
            }
            text.push_str(&cells.join(" "));
            text.push('\n');
        }
        Answer::text("text/plain; charset=UTF-8", text)
    }
}

/// The columns to show, as indices into `all`.
fn columns(all: &[Column], wanted: Option<&str>) -> Outcome<Vec<usize>> {
    let Some(wanted) = wanted else {
        return Ok((0..all.len()).collect());
    };
    let mut columns = Vec::new();
    for pattern in wanted.split(',').map(str::trim) {
        let matched = all.iter().enumerate().filter(|(_, (name, short, _))| {
            glob(pattern.as_bytes(), name.as_bytes()) || pattern == *short
        });
        let before = columns.len();
        columns.extend(matched.map(|(column, _)| column));
        if columns.len() == before {
            return Err(Failure::illegal_argument(format!(
                "parameter [h]: there is no column [{pattern}]; leave it out to see all columns"
            )));
        }
    }
    // A request could name the same column any number of times.
    columns.truncate(4 * all.len());
    Ok(columns)
}
