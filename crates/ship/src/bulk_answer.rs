//! The answer to a `_bulk` request: a verdict of each item.

use crate::http::Answer;
use crate::sink::{Failure, Verdict};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

/// Errors of items that concern the whole index, and that no document could avoid.
const FINAL: [&str; 4] = [
    "index_not_found_exception",
    "index_closed_exception",
    "security_exception",
    "invalid_index_name_exception",
];

#[derive(Deserialize)]
struct Bulk {
    /// Left out by servers whose answers are filtered and have nothing left.
    #[serde(default)]
    items: Vec<HashMap<String, Item>>,
}

#[derive(Deserialize)]
struct Item {
    status: u16,
    #[serde(default)]
    error: Value,
}

/// Reads the answer to a bulk of `count` items.
///
/// # Errors
/// If it says nothing of the items, or not of all.
pub(crate) fn read(answer: &Answer, count: usize) -> Result<Vec<Verdict>, Failure> {
    match answer.status {
        200 => {}
        408 | 429 | 500.. => return Err(Failure::Busy(answer.excerpt())),
        // A key that is too long, for instance.
        400 => return Err(Failure::Refused(answer.excerpt())),
        413 => return Err(Failure::TooLarge(answer.excerpt())),
        _ => return Err(Failure::Final(answer.excerpt())),
    }
    let bulk: Bulk = serde_json::from_slice(&answer.body)
        .map_err(|error| Failure::NoAnswer(format!("the answer can't be read: {error}")))?;
    if bulk.items.len() != count {
        return Err(Failure::NoAnswer(format!(
            "the answer has {} items of {count}",
            bulk.items.len()
        )));
    }
    bulk.items.iter().map(verdict).collect()
}

fn verdict(item: &HashMap<String, Item>) -> Result<Verdict, Failure> {
    let item = item.values().next();
    let item = item.ok_or_else(|| Failure::NoAnswer("an item says nothing".to_owned()))?;
    let kind = item.error["type"].as_str().unwrap_or_default();
    Ok(match item.status {
        200..=299 => Verdict::Done,
        // A deletion of what is not there.
        404 if item.error.is_null() => Verdict::Done,
        409 => Verdict::Had,
        408 | 429 | 500.. => Verdict::Again(reason(item)),
        // A disk that is too full, for instance.
        _ if kind == "cluster_block_exception" => Verdict::Again(reason(item)),
        _ if FINAL.contains(&kind) => return Err(Failure::Final(reason(item))),
        _ => Verdict::Refused(reason(item)),
    })
}

fn reason(item: &Item) -> String {
    let error = &item.error;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut reason = match error["type"].as_str() {
        Some(kind) => format!("{kind}: {}", text(&error["reason"])),
        None => text(error),
    };
    if let Some(cause) = error["caused_by"]["reason"].as_str() {
        reason.push_str(": ");
        reason.push_str(cause);
    }
    format!("status {}: {reason}", item.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer {
            status,
            body: body.as_bytes().to_vec(),
        }
    }

    #[test]
    fn every_item_has_a_verdict_and_half_an_answer_is_none() {
        let body = r#"{"errors":true,"items":[{"index":{"status":201}},
            {"index":{"status":409,"error":{"type":"version_conflict_engine_exception"}}},
            {"delete":{"status":404}},
            {"index":{"status":429,"error":{"type":"rejected","reason":"full"}}},
            {"index":{"status":400,"error":
                {"type":"mapper","reason":"no","caused_by":{"reason":"x"}}}},
            {"index":{"status":403,"error":{"type":"cluster_block_exception","reason":"disk"}}}]}"#;
        let verdicts = read(&answer(200, body), 6).unwrap();
        assert_eq!(
            verdicts,
            [
                Verdict::Done,
                Verdict::Had,
                Verdict::Done,
                Verdict::Again("status 429: rejected: full".into()),
                Verdict::Refused("status 400: mapper: no: x".into()),
                Verdict::Again("status 403: cluster_block_exception: disk".into()),
            ]
        );
        let cut = &body[..body.len() / 2];
        for (status, body, count) in [(200, cut, 6), (200, body, 7), (200, "{}", 1)] {
            let found = read(&answer(status, body), count);
            assert!(matches!(found, Err(Failure::NoAnswer(_))), "{found:?}");
        }
        assert!(matches!(read(&answer(503, ""), 1), Err(Failure::Busy(_))));
        assert!(matches!(
            read(&answer(413, ""), 1),
            Err(Failure::TooLarge(_))
        ));
        assert!(matches!(
            read(&answer(400, ""), 1),
            Err(Failure::Refused(_))
        ));
        assert!(matches!(read(&answer(401, ""), 1), Err(Failure::Final(_))));
    }
}
