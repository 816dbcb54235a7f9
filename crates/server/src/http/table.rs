//! The tables of `_cat`: text for people, or the same as JSON.
//!
//! | parameter | what it does |
//! | --- | --- |
//! | `h` | the columns to show: names, short names, patterns |
//! | `s` | the columns to sort by, each with `:asc` or `:desc` |
//! | `v` | a line with the names of the columns |
//! | `format` | `text` or `json` |
//! | `bytes` | the unit of sizes, which are then numbers |
//! | `help` | the columns that there are, in place of the table |

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::answer::Answer;
use super::failure::{Failure, Outcome};
use super::fields::glob;
use super::params::Params;

/// The most columns that a request can show or sort by.
const SHOWN_MAX: usize = 100;

/// A column: its name, its short names between commas, and what it says.
pub(crate) type Column = (&'static str, &'static str, &'static str);

/// One field of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cell {
    Text(String),
    /// Aligned to the right.
    Number(u64),
    Bytes(u64),
    /// A number that is not known.
    Unknown,
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    fn shown(&self, unit: Option<u64>) -> String {
        match (self, unit) {
            (Cell::Text(text), _) => text.clone(),
            (Cell::Number(number), _) => number.to_string(),
            (Cell::Bytes(bytes), Some(unit)) => (bytes / unit).to_string(),
            (Cell::Bytes(bytes), None) => size(*bytes),
            (Cell::Unknown, _) => "-".into(),
        }
    }

    fn to_json(&self, unit: Option<u64>) -> Value {
        match self {
            Cell::Unknown => Value::Null,
            cell => cell.shown(unit).into(),
        }
    }
}

/// How a request wants its table.
pub(crate) struct TableFormat {
    columns: &'static [Column],
    /// Those to show, as indices into `columns`, each with the name that it was wanted by.
    shown: Vec<(usize, String)>,
    /// Those to sort by, and whether the greatest comes first.
    sorted: Vec<(usize, bool)>,
    /// The unit of sizes in bytes; none if each has the unit that suits it.
    unit: Option<u64>,
    is_json: bool,
    has_head: bool,
    is_help: bool,
}

impl TableFormat {
    /// Reads the parameters of a request for a table of these columns.
    pub(crate) fn of(params: &Params, columns: &'static [Column]) -> Outcome<TableFormat> {
        TableFormat::with(params, columns, |_| true)
    }

    /// As [`of`](TableFormat::of), for a table of which only some columns are shown without `h`.
    pub(crate) fn with(
        params: &Params,
        columns: &'static [Column],
        is_default: impl Fn(&str) -> bool,
    ) -> Outcome<TableFormat> {
        params.only(
            "format",
            &["", "text", "json"],
            "only [text] and [json] are supported",
        )?;
        Ok(TableFormat {
            columns,
            shown: match params.text("h") {
                None => {
                    let names = columns.iter().map(|(name, ..)| (*name).to_owned());
                    let named = names.enumerate().filter(|(_, name)| is_default(name));
                    named.collect()
                }
                Some(wanted) => shown(columns, wanted)?,
            },
            sorted: sorted(columns, params.text("s").unwrap_or_default())?,
            unit: unit(params.text("bytes").unwrap_or_default())?,
            is_json: params.text("format") == Some("json"),
            has_head: params.flag("v")?.unwrap_or(false),
            is_help: params.flag("help")?.unwrap_or(false),
        })
    }

    /// The answer with these rows, which have a cell for each column.
    pub(crate) fn answer(&self, mut rows: Vec<Vec<Cell>>) -> Answer {
        assert!(
            rows.iter().all(|row| row.len() == self.columns.len()),
            "a row has a cell for each column"
        );
        if self.is_help {
            let lines = self.columns.iter();
            let lines = lines.map(|(name, short, what)| format!("{name} | {short} | {what}\n"));
            return text(lines.collect());
        }
        rows.sort_by(|one, other| self.compare(one, other));
        match self.is_json {
            true => self.json(&rows),
            false => self.text(&rows),
        }
    }

    fn compare(&self, one: &[Cell], other: &[Cell]) -> Ordering {
        let by = self.sorted.iter().map(|(column, is_descending)| {
            let order = one.get(*column).cmp(&other.get(*column));
            match is_descending {
                true => order.reverse(),
                false => order,
            }
        });
        by.fold(Ordering::Equal, Ordering::then)
    }

    fn json(&self, rows: &[Vec<Cell>]) -> Answer {
        let object = |row: &Vec<Cell>| {
            let member = |(at, name): &(usize, String)| {
                Some((name.clone(), row.get(*at)?.to_json(self.unit)))
            };
            Value::Object(self.shown.iter().filter_map(member).collect::<Map<_, _>>())
        };
        Answer::ok(&Value::Array(rows.iter().map(object).collect()))
    }

    fn text(&self, rows: &[Vec<Cell>]) -> Answer {
        let mut lines = vec![String::new(); rows.len() + usize::from(self.has_head)];
        for (number, (at, name)) in self.shown.iter().enumerate() {
            let head = self.has_head.then(|| name.clone());
            let cell = |row: &Vec<Cell>| row.get(*at).map(|cell| cell.shown(self.unit));
            let cells = head.into_iter().chain(rows.iter().filter_map(cell));
            let cells: Vec<String> = cells.collect();
            let width = cells
                .iter()
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0);
            let first = rows.first().and_then(|row| row.get(*at));
            let is_number = matches!(first, Some(Cell::Number(_) | Cell::Bytes(_)));
            // Nothing follows the last column that it would have to be aligned with.
            let width = match number + 1 == self.shown.len() && !is_number {
                true => 0,
                false => width,
            };
            for (line, cell) in lines.iter_mut().zip(cells) {
                if number > 0 {
                    line.push(' ');
                }
                line.push_str(&match is_number {
                    true => format!("{cell:>width$}"),
                    false => format!("{cell:<width$}"),
                });
            }
        }
        text(lines.into_iter().map(|line| line + "\n").collect())
    }
}

/// A table, or a list of them, as text.
pub(crate) fn text(text: String) -> Answer {
    Answer::text("text/plain; charset=UTF-8", text)
}

/// The columns that `h` names.
fn shown(columns: &[Column], wanted: &str) -> Outcome<Vec<(usize, String)>> {
    let mut shown = Vec::new();
    for pattern in wanted.split(',').map(str::trim) {
        let before = shown.len();
        let is_pattern = pattern.contains('*');
        let found = matching(columns, pattern).filter_map(|at| {
            let (name, ..) = columns.get(at)?;
            let name = if is_pattern { name } else { pattern };
            Some((at, name.to_owned()))
        });
        shown.extend(found);
        if shown.len() == before {
            return Err(no_column("h", pattern));
        }
    }
    // A request could name the same column any number of times.
    shown.truncate(SHOWN_MAX);
    Ok(shown)
}

/// The columns that `s` names.
fn sorted(columns: &[Column], wanted: &str) -> Outcome<Vec<(usize, bool)>> {
    let parts = wanted
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let of = |part: &str| {
        let (name, is_descending) = match part.rsplit_once(':') {
            Some((name, "desc")) => (name, true),
            Some((name, "asc")) => (name, false),
            _ => (part, false),
        };
        let column = matching(columns, name).next();
        column
            .map(|column| (column, is_descending))
            .ok_or_else(|| no_column("s", name))
    };
    parts.take(SHOWN_MAX).map(of).collect()
}

fn matching<'a>(columns: &'a [Column], pattern: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_match = move |(_, (name, short, _)): &(usize, &Column)| {
        let is_short = || short.split(',').any(|short| short == pattern);
        glob(pattern.as_bytes(), name.as_bytes()) || is_short()
    };
    columns
        .iter()
        .enumerate()
        .filter(is_match)
        .map(|(at, _)| at)
}

fn no_column(param: &str, name: &str) -> Failure {
    Failure::illegal_argument(format!(
        "parameter [{param}]: there is no column [{name}]; [help] lists the columns"
    ))
}

/// Bytes in the unit that `bytes` names; none if it names none.
pub(crate) fn unit(name: &str) -> Outcome<Option<u64>> {
    let shift = match name {
        "" => return Ok(None),
        "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        "t" | "tb" => 40,
        "p" | "pb" => 50,
        _ => {
            return Err(Failure::illegal_argument(format!(
                "parameter [bytes] can't be [{name}]: it is one of b, kb, mb, gb, tb, pb"
            )));
        }
    };
    Ok(Some(1 << shift))
}

/// Milliseconds as OpenSearch writes them for people: `12ms`, `1.5s`, `2.1m`.
pub(crate) fn millis(millis: u64) -> String {
    let (unit, name) = match millis {
        0..1_000 => return format!("{millis}ms"),
        1_000..60_000 => (1e3, "s"),
        60_000..3_600_000 => (6e4, "m"),
        3_600_000..86_400_000 => (3.6e6, "h"),
        _ => (8.64e7, "d"),
    };
    let text = format!("{:.1}", millis as f64 / unit);
    format!("{}{name}", text.trim_end_matches(".0"))
}

/// The time of day in UTC; `micros` since 1970.
pub(crate) fn time_of_day(micros: i64) -> String {
    let seconds = micros.div_euclid(1_000_000).rem_euclid(24 * 60 * 60);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}", seconds % 60)
}

/// Bytes as OpenSearch writes them for people: `208b`, `5.2kb`.
fn size(bytes: u64) -> String {
    let units = ["b", "kb", "mb", "gb", "tb", "pb"];
    let mut unit = 0;
    let mut value = bytes as f64;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let text = if unit == 0 {
        bytes.to_string()
    } else {
        format!("{value:.1}")
    };
    format!(
        "{}{}",
        text.trim_end_matches(".0"),
        units.get(unit).unwrap_or(&"b")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_opensearch_does() {
        let cases = [
            (0, "0b"),
            (208, "208b"),
            (1024, "1kb"),
            (5325, "5.2kb"),
            (3 << 20, "3mb"),
            (u64::MAX, "16384pb"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(size(bytes), expected);
        }
    }

    #[test]
    fn the_time_of_day_is_that_of_utc() {
        assert_eq!(time_of_day(0), "00:00:00");
        assert_eq!(time_of_day(-1_000_000), "23:59:59");
        assert_eq!(time_of_day(86_399_000_000 + 86_400_000_000), "23:59:59");
    }

    #[test]
    fn sizes_and_numbers_are_sorted_as_numbers() {
        let columns: &'static [Column] = &[("name", "n", "a name"), ("size", "s", "a size")];
        let format = TableFormat {
            columns,
            shown: shown(columns, "*").unwrap(),
            sorted: sorted(columns, "size:desc,n").unwrap(),
            unit: None,
            is_json: false,
            has_head: true,
            is_help: false,
        };
        let row = |name: &str, bytes| vec![Cell::text(name), Cell::Bytes(bytes)];
        let mut rows = [row("b", 900), row("c", 2048), row("a", 900)];
        rows.sort_by(|one, other| format.compare(one, other));
        let names: Vec<String> = rows.iter().map(|row| row[0].shown(None)).collect();
        assert_eq!(names, ["c", "a", "b"]);
        assert!(sorted(columns, "colour").is_err());
        assert_eq!(unit("kb").unwrap(), Some(1024));
    }
}
