//! `_cat/tasks`: a table of what is running.

use std::time::Duration;

use super::calls::{TasksState, selected};
use super::listed::{NODE, id_of};
use super::task::Task;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::Outcome;
use crate::http::table::{Column, Row, Table};

const COLUMNS: &[Column] = &[
    ("action", "ac", false),
    ("task_id", "ti", false),
    ("parent_task_id", "pti", false),
    ("type", "ty", false),
    ("start_time", "start", true),
    ("timestamp", "ts", false),
    ("running_time", "time", true),
    ("ip", "i", false),
    ("node", "n", false),
    ("description", "desc", false),
];

/// `GET /_cat/tasks`
pub(crate) async fn table(call: Call<TasksState>) -> Outcome<Answer> {
    call.params.flag("detailed")?;
    let table = Table::of(&call.params, COLUMNS)?;
    let now = call.state.engine.now();
    let rows: Vec<Row> = selected(&call)?.iter().map(|task| row(task, now)).collect();
    Ok(table.answer(&rows))
}

fn row(task: &Task, now: Duration) -> Row {
    let address = task.request.address;
    vec![
        task.action.to_owned(),
        id_of(task.id),
        task.parent.map_or("-".to_owned(), id_of),
        "transport".to_owned(),
        (task.start_micros / 1000).to_string(),
        clock(task.start_micros),
        running_time(now.saturating_sub(task.begun)),
        address.map_or("-".to_owned(), |address| address.ip().to_string()),
        NODE.to_owned(),
        // A row is a line.
        task.description().replace(char::is_control, " "),
    ]
}

/// The time of day in UTC; `micros` since 1970.
fn clock(micros: i64) -> String {
    let seconds = micros.div_euclid(1_000_000).rem_euclid(24 * 60 * 60);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}", seconds % 60)
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
        assert_eq!(clock(0), "00:00:00");
        assert_eq!(clock(-1_000_000), "23:59:59");
        assert_eq!(clock(86_399_000_000 + 86_400_000_000), "23:59:59");
    }
}
