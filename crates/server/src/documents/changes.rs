//! `_changes`: the changes of a collection after a position of each partition, and what comes while
//! the caller waits.
//!
//! Lines of JSON: the changes, as `quire tail` prints them, then a last one, `{"cursor":"…"}`, from
//! where to go on. The cursor is the last position seen of each partition, between commas. Nobody's
//! place is kept here: whoever comes back with a cursor goes on from there, and has missed nothing.

use std::time::Duration;

use quiredb::{Change, Collection, Position, ValueRef};
use tokio::time::Instant;

use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};

/// Changes in an answer, where the caller says nothing and at most.
const LIMIT_DEFAULT: usize = 1_000;
const LIMIT_MAX: usize = 100_000;

/// An answer ends after so many bytes, or changes looked at.
const ANSWER_BYTES: usize = 4 << 20;
const LOOKED_AT_MAX: usize = 100_000;

/// The longest that a caller may wait.
const WAIT_MS_MAX: u64 = 60_000;

/// How often it is looked whether there is something new for one who waits. Looking costs a few
/// atomic reads.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What is asked for.
#[derive(Debug, Clone)]
struct Asked {
    seen: Vec<Position>,
    partition: Option<u32>,
    prefix: String,
    limit: usize,
}

/// `GET /{collection}/_changes`
pub(crate) async fn changes(call: Call) -> Outcome<Answer> {
    let name = call.collection();
    let server = call.server.clone();
    let opened = {
        let name = name.clone();
        server
            .read(move |server| server.collection(&name))
            .await??
    };
    let mut asked = asked(&call, &opened)?;
    let wait = call.params.number("wait_ms")?.unwrap_or(0).min(WAIT_MS_MAX);
    let end = Instant::now() + Duration::from_millis(wait);
    loop {
        let (collection, name) = (opened.clone(), name.clone());
        let read = server.read(move |_| {
            let read = read(&collection, &mut asked);
            read.map(|lines| (lines, asked))
                .map_err(|error| Failure::engine(&error, Some(&name)))
        });
        let lines;
        (lines, asked) = read.await??;
        while lines.is_empty() && !is_new(&opened, &asked) {
            if Instant::now() >= end || server.is_stopping() {
                break;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        if !lines.is_empty() || !is_new(&opened, &asked) || Instant::now() >= end {
            return Ok(Answer::lines(with_cursor(lines, &asked.seen)));
        }
    }
}

fn asked(call: &Call, collection: &Collection) -> Outcome<Asked> {
    let partitions = collection.settings().partitions as usize;
    let wrong = |what: String| Err(Failure::illegal_argument(what));
    let seen = match call.params.text("after") {
        None | Some("") => vec![Position(0); partitions],
        Some(cursor) => {
            let seen = cursor.split(',').map(|one| one.parse().map(Position));
            match seen.collect::<Result<Vec<_>, _>>() {
                Ok(seen) if seen.len() == partitions => seen,
                _ => {
                    return wrong(format!(
                        "parameter [after] is not {partitions} positions between commas: [{cursor}]"
                    ));
                }
            }
        }
    };
    let partition = call.params.number("partition")?;
    if let Some(partition) = partition.filter(|number: &u32| *number as usize >= partitions) {
        return wrong(format!(
            "parameter [partition] is [{partition}], and there are {partitions}, from 0"
        ));
    }
    let limit = call.params.number("limit")?.unwrap_or(LIMIT_DEFAULT);
    if limit == 0 || limit > LIMIT_MAX {
        return wrong(format!("parameter [limit] must be from 1 to {LIMIT_MAX}"));
    }
    Ok(Asked {
        seen,
        partition,
        prefix: call.params.text("prefix").unwrap_or_default().to_owned(),
        limit,
    })
}

/// Whether something can be read that was not.
fn is_new(collection: &Collection, asked: &Asked) -> bool {
    let positions = collection.positions();
    let mut all = positions.iter().zip(&asked.seen).enumerate();
    all.any(|(number, (position, seen))| {
        position > seen && asked.partition.is_none_or(|only| only as usize == number)
    })
}

/// The lines of what comes after what was seen, which moves on.
fn read(collection: &Collection, asked: &mut Asked) -> quiredb::Result<Vec<u8>> {
    let mut lines = Vec::new();
    let mut from = asked.seen.clone();
    if let Some(only) = asked.partition {
        // Of the others nothing is to be read.
        for (number, (seen, now)) in from.iter_mut().zip(collection.positions()).enumerate() {
            if number != only as usize {
                *seen = now;
            }
        }
    }
    let mut changes = collection.tail_after(&from)?;
    let (mut found, mut looked_at) = (0, 0);
    while found < asked.limit && looked_at < LOOKED_AT_MAX && lines.len() < ANSWER_BYTES {
        let Some(change) = changes.next() else { break };
        let change = change?;
        looked_at += 1;
        if asked.partition.is_none_or(|only| only == change.partition)
            && change.key.to_string().starts_with(&asked.prefix)
        {
            write_change(&change, &mut lines);
            found += 1;
        }
    }
    for (number, seen) in changes.seen().into_iter().enumerate() {
        if asked.partition.is_none_or(|only| only as usize == number)
            && let Some(place) = asked.seen.get_mut(number)
        {
            *place = seen;
        }
    }
    Ok(lines)
}

fn write_change(change: &Change, out: &mut Vec<u8>) {
    let Change {
        version,
        partition,
        time_micros,
        key,
        document,
    } = change;
    let head = format!(
        "{{\"partition\":{partition},\"position\":{version},\"time_micros\":{time_micros},\"key\":"
    );
    out.extend_from_slice(head.as_bytes());
    match key.as_str() {
        Some(text) => ValueRef::String(text).write_json(out),
        None => out.extend_from_slice(key.to_string().as_bytes()),
    }
    match document {
        Some(document) => {
            out.extend_from_slice(b",\"document\":");
            ValueRef::Object(document.root()).write_json(out);
        }
        None => out.extend_from_slice(b",\"deleted\":true"),
    }
    out.extend_from_slice(b"}\n");
}

fn with_cursor(mut lines: Vec<u8>, seen: &[Position]) -> Vec<u8> {
    let seen: Vec<String> = seen.iter().map(ToString::to_string).collect();
    let last = format!("{{\"cursor\":\"{}\"}}\n", seen.join(","));
    lines.extend_from_slice(last.as_bytes());
    lines
}
