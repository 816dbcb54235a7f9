//! `_cat/tasks`: a table of what is running.

use std::time::Duration;

use super::calls::{TasksState, selected};
use super::listed::{NODE, id_of};
use super::task::Task;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::Outcome;
use crate::http::table::{Cell, Column, TableFormat, time_of_day};

const COLUMNS: &[Column] = &[
    ("action", "ac", "what it does"),
    ("task_id", "ti", "its id, by which it is cancelled"),
    ("parent_task_id", "pti", "the request that it is part of"),
    ("type", "ty", "transport"),
    (
        "start_time",
        "start",
        "when it began: milliseconds since 1970 UTC",
    ),
    ("timestamp", "ts", "the time of the day when it began, UTC"),
    ("running_time", "time", "how long it has been running"),
    ("ip", "i", "the address of the caller"),
    ("node", "n", "the server"),
    ("description", "desc", "what it was sent"),
    (
        "x_opaque_id",
        "x",
        "the name that the client gave the request",
    ),
];

/// `GET /_cat/tasks`
pub(crate) async fn table(call: Call<TasksState>) -> Outcome<Answer> {
    let is_detailed = call.params.flag("detailed")?.unwrap_or(false);
    let is_shown = |name: &str| match name {
        "description" => is_detailed,
        name => name != "x_opaque_id",
    };
    let format = TableFormat::with(&call.params, COLUMNS, is_shown)?;
    let now = call.state.engine.now();
    let rows = selected(&call)?.iter().map(|task| row(task, now)).collect();
    Ok(format.answer(rows))
}

fn row(task: &Task, now: Duration) -> Vec<Cell> {
    let address = task.request.address;
    vec![
        Cell::text(task.action),
        Cell::text(id_of(task.id)),
        Cell::text(task.parent.map_or("-".to_owned(), id_of)),
        Cell::text("transport"),
        Cell::text((task.start_micros / 1000).to_string()),
        Cell::text(time_of_day(task.start_micros)),
        Cell::text(running_time(now.saturating_sub(task.begun))),
        Cell::text(address.map_or("-".to_owned(), |address| address.ip().to_string())),
        Cell::text(NODE),
        // A row is a line.
        Cell::text(task.description().replace(char::is_control, " ")),
        Cell::text(task.request.opaque_id.as_deref().unwrap_or("-")),
    ]
}

/// A duration as OpenSearch writes it for people: `2.3ms`, `1.5s`.
fn running_time(took: Duration) -> String {
    let nanos = took.as_nanos() as f64;
    let units = [
        ("micros", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("m", 6e10),
        ("h", 3.6e12),
    ];
    let fits = |(_, unit): &&(&str, f64)| nanos >= *unit;
    match units.iter().rev().find(fits) {
        Some((name, unit)) => {
            let text = format!("{:.1}", nanos / unit);
            format!("{}{name}", text.trim_end_matches(".0"))
        }
        None => format!("{nanos}nanos"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_opensearch_does() {
        let cases = [
            (12, "12nanos"),
            (1_500, "1.5micros"),
            (2_000_000, "2ms"),
            (90_000_000_000, "1.5m"),
        ];
        for (nanos, expected) in cases {
            assert_eq!(running_time(Duration::from_nanos(nanos)), expected);
        }
    }
}
