//! `_cat/indices`: a table of collections for people, or the same as JSON.

use serde_json::{Map, Value};

use crate::collections::selection::Selection;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::glob;

/// The columns in their order: name, OpenSearch's short name, whether it is a number, which is
/// aligned to the right.
const COLUMNS: [(&str, &str, bool); 10] = [
    ("health", "h", false),
    ("status", "s", false),
    ("index", "i", false),
    ("uuid", "id", false),
    ("pri", "p", true),
    ("rep", "r", true),
    ("docs.count", "dc", true),
    ("docs.deleted", "dd", true),
    ("store.size", "ss", true),
    ("pri.store.size", "pri.store.size", true),
];

/// `GET /_cat/indices`
pub(crate) async fn indices(call: Call<Engine>) -> Outcome<Answer> {
    let params = &call.params;
    params.only(
        "format",
        &["", "text", "json"],
        "only [text] and [json] are supported",
    )?;
    params.only("bytes", &["", "b"], "only [b] is supported")?;
    let is_json = params.text("format") == Some("json");
    let is_exact = params.text("bytes") == Some("b");
    let head = params.flag("v")?.unwrap_or(false);
    let columns = columns(params.text("h"))?;
    let selection = Selection::of(&call)?;
    let work = move |engine: &Engine| {
        let mut rows = Vec::new();
        for collection in selection.collections(engine)? {
            let failed = |error: quiredb::Error| Failure::engine(&error, Some(collection.name()));
            let stats = collection.stats().map_err(failed)?;
            let size = if is_exact {
                stats.disk_bytes.to_string()
            } else {
                size(stats.disk_bytes)
            };
            let row: [String; COLUMNS.len()] = [
                "green".into(),
                "open".into(),
                stats.name,
                "_na_".into(),
                stats.partitions.to_string(),
                "0".into(),
                stats.documents.to_string(),
                "0".into(),
                size.clone(),
                size,
            ];
            rows.push(row);
        }
        Ok(if is_json {
            as_json(&columns, &rows)
        } else {
            as_text(&columns, &rows, head)
        })
    };
    call.state.read(work).await?
}

type Row = [String; COLUMNS.len()];

/// The columns to show, as indices into [`COLUMNS`].
fn columns(wanted: Option<&str>) -> Outcome<Vec<usize>> {
    let Some(wanted) = wanted else {
        return Ok((0..COLUMNS.len()).collect());
    };
    let mut columns = Vec::new();
    for pattern in wanted.split(',').map(str::trim) {
        let matched = COLUMNS.iter().enumerate().filter(|(_, (name, short, _))| {
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
    columns.truncate(4 * COLUMNS.len());
    Ok(columns)
}

fn as_json(columns: &[usize], rows: &[Row]) -> Answer {
    let object = |row: &Row| -> Value {
        let members: Map<String, Value> = columns
            .iter()
            .filter_map(|column| {
                Some((
                    COLUMNS.get(*column)?.0.to_owned(),
                    row.get(*column)?.as_str().into(),
                ))
            })
            .collect();
        Value::Object(members)
    };
    Answer::ok(&Value::Array(rows.iter().map(object).collect()))
}

fn as_text(columns: &[usize], rows: &[Row], head: bool) -> Answer {
    let names: Row = COLUMNS.map(|(name, _, _)| name.to_owned());
    let lines: Vec<&Row> = head.then_some(&names).into_iter().chain(rows).collect();
    let mut text = String::new();
    for line in &lines {
        let mut cells = Vec::new();
        for &column in columns {
            let cell = |line: &Row| line.get(column).cloned().unwrap_or_default();
            let width = lines
                .iter()
                .map(|line| cell(line).chars().count())
                .max()
                .unwrap_or(0);
            let is_number = COLUMNS
                .get(column)
                .is_some_and(|(_, _, is_number)| *is_number);
            let cell = cell(line);
            cells.push(if is_number {
                format!("{cell:>width$}")
            } else {
                format!("{cell:<width$}")
            });
        }
        text.push_str(&cells.join(" "));
        text.push('\n');
    }
    Answer::text("text/plain; charset=UTF-8", text)
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
}
