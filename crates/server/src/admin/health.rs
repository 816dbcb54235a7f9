//! `_cluster/health`: whether the database serves, and what a request waits for.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use super::cluster::status;
use crate::collections::selection::{Searched, Selection};
use crate::collections::states::States;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::params::Params;
use crate::search::lease::lease;

/// The wait of a request that names none.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The time between two looks while a request waits.
const PAUSE: Duration = Duration::from_millis(50);

/// How much an answer shows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Cluster,
    Indices,
    Shards,
}

/// What a request waits for.
#[derive(Clone, Default)]
struct Wanted {
    /// The worst status, from 0 for green to 2 for red.
    status: Option<usize>,
    /// The number of nodes is 1: whether that is enough.
    lacks_nodes: bool,
    /// Partitions that serve.
    partitions: Option<u64>,
}

const COLOURS: [&str; 3] = ["green", "yellow", "red"];

impl Wanted {
    fn of(params: &Params) -> Outcome<Wanted> {
        let colour = |text: &str| COLOURS.iter().position(|colour| *colour == text);
        let status = match params.text("wait_for_status") {
            None => None,
            Some(text) => Some(colour(text).ok_or_else(|| {
                Failure::illegal_argument(format!(
                    "parameter [wait_for_status] can't be [{text}]: it must be a colour"
                ))
            })?),
        };
        for flag in [
            "wait_for_no_initializing_shards",
            "wait_for_no_relocating_shards",
        ] {
            params.flag(flag)?;
        }
        let events = ["immediate", "urgent", "high", "normal", "low", "languid"];
        params.only("wait_for_events", &events, "it must be a priority")?;
        let nodes = params.text("wait_for_nodes").map(is_one_enough);
        Ok(Wanted {
            status,
            lacks_nodes: !nodes.transpose()?.unwrap_or(true),
            partitions: match params.text("wait_for_active_shards") {
                None | Some("all") => None,
                Some(_) => params.number("wait_for_active_shards")?,
            },
        })
    }
}

/// Whether one node is as many as `wait_for_nodes` wants: `3`, `>=2`, `ge(2)` and the like.
fn is_one_enough(wanted: &str) -> Outcome<bool> {
    let wrong = || {
        Failure::illegal_argument(format!(
            "parameter [wait_for_nodes] can't be [{wanted}]: it is a number, or >=N, <=N, >N, <N"
        ))
    };
    for (sign, word) in [(">=", "ge("), ("<=", "le("), (">", "gt("), ("<", "lt(")] {
        let inner = wanted.strip_prefix(word);
        let inner = inner.and_then(|rest| rest.strip_suffix(')'));
        let Some(number) = wanted.strip_prefix(sign).or(inner) else {
            continue;
        };
        let number: u64 = number.trim().parse().map_err(|_| wrong())?;
        return Ok(match sign {
            ">=" => 1 >= number,
            "<=" => 1 <= number,
            ">" => 1 > number,
            _ => 1 < number,
        });
    }
    wanted
        .parse()
        .map(|exact: u64| exact == 1)
        .map_err(|_| wrong())
}

/// `GET /_cluster/health`, `/_cluster/health/{collection}`. All there is serves: a request that
/// waits for more is answered with 408 when its time is over.
pub(crate) async fn health(call: Call<Engine>) -> Outcome<Answer> {
    let level = match call.params.text("level") {
        None | Some("cluster") => Level::Cluster,
        Some("indices") => Level::Indices,
        Some("shards") => Level::Shards,
        Some(other) => {
            return Err(Failure::illegal_argument(format!(
                "parameter [level] can't be [{other}]: it is cluster, indices or shards"
            )));
        }
    };
    let wanted = Wanted::of(&call.params)?;
    let timeout = call.params.text("timeout").map(lease).transpose()?;
    let ends = tokio::time::Instant::now() + timeout.unwrap_or(TIMEOUT);
    loop {
        let (selection, wanted) = (Selection::watched(&call, States::ALL)?, wanted.clone());
        let is_over = tokio::time::Instant::now() >= ends;
        let look = move |engine: &Engine| look(engine, &selection, &wanted, level, is_over);
        if let Some(answer) = call.state.read(look).await?? {
            return Ok(answer);
        }
        let left = ends.saturating_duration_since(tokio::time::Instant::now());
        tokio::time::sleep(PAUSE.min(left)).await;
    }
}

/// The answer, unless the request waits on.
fn look(
    engine: &Engine,
    selection: &Selection,
    wanted: &Wanted,
    level: Level,
    is_over: bool,
) -> Outcome<Option<Answer>> {
    let collections = selection.all(engine)?;
    // Counted once: one may be split meanwhile.
    let counted = collections.iter().map(|one| (one, one.partitions().into()));
    let counted: Vec<(&Searched, u64)> = counted.collect();
    let partitions: u64 = counted.iter().map(|(_, partitions)| partitions).sum();
    let colour = status(engine);
    let is_worse = |worst: usize| COLOURS.iter().position(|one| *one == colour) > Some(worst);
    let is_unmet = wanted.status.is_some_and(is_worse)
        || wanted.lacks_nodes
        || wanted.partitions.is_some_and(|least| partitions < least);
    if is_unmet && !is_over {
        return Ok(None);
    }
    let mut shown = json!({
        "cluster_name": "quire",
        "status": colour,
        "timed_out": is_unmet,
        "number_of_nodes": 1,
        "number_of_data_nodes": 1,
        "discovered_master": true,
        "discovered_cluster_manager": true,
    });
    add_counts(&mut shown, partitions);
    shown["delayed_unassigned_shards"] = 0.into();
    shown["number_of_pending_tasks"] = 0.into();
    shown["number_of_in_flight_fetch"] = 0.into();
    shown["task_max_waiting_in_queue_millis"] = 0.into();
    shown["active_shards_percent_as_number"] = 100.0.into();
    if level > Level::Cluster {
        let of_each = counted.into_iter().map(|(one, partitions)| {
            let shown = describe(partitions, colour, level);
            (one.name().to_owned(), shown)
        });
        shown["indices"] = Value::Object(of_each.collect::<Map<_, _>>());
    }
    let status = match is_unmet {
        true => StatusCode::REQUEST_TIMEOUT,
        false => StatusCode::OK,
    };
    Ok(Some(Answer::value(status, &shown)))
}

/// Partitions that serve, and those in states that they are never in.
fn add_counts(shown: &mut Value, partitions: u64) {
    shown["active_primary_shards"] = partitions.into();
    shown["active_shards"] = partitions.into();
    shown["relocating_shards"] = 0.into();
    shown["initializing_shards"] = 0.into();
    shown["unassigned_shards"] = 0.into();
}

/// The health of a collection.
fn describe(partitions: u64, colour: &str, level: Level) -> Value {
    let mut shown = json!({
        "status": colour,
        "number_of_shards": partitions,
        "number_of_replicas": 0,
    });
    add_counts(&mut shown, partitions);
    if level == Level::Shards {
        let of_one = |number: u64| {
            let shown = json!({
                "status": colour,
                "primary_active": true,
                "active_shards": 1,
                "relocating_shards": 0,
                "initializing_shards": 0,
                "unassigned_shards": 0,
            });
            (number.to_string(), shown)
        };
        shown["shards"] = Value::Object((0..partitions).map(of_one).collect::<Map<_, _>>());
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_node_is_compared_with_what_is_wanted() {
        for (wanted, expected) in [
            ("1", true),
            ("2", false),
            (">=1", true),
            ("ge(2)", false),
            ("<=1", true),
            ("lt(1)", false),
            (">0", true),
        ] {
            assert_eq!(is_one_enough(wanted).unwrap(), expected, "{wanted}");
        }
        assert!(is_one_enough("many").is_err());
        assert!(is_one_enough("ge(2").is_err());
    }
}
