//! `regexp` and `fuzzy`: queries of the strings that a regular expression matches, or that are near
//! to a text.

use super::clause::{like, on_field, text, unsupported};
use crate::http::failure::Outcome;
use quiredb::query::{Filter, Pattern};
use serde_json::Value as Json;

/// What Lucene calls all operators of a regular expression.
const ALL_OPERATORS: u64 = 255;

/// What needs an operator that `flags` may turn off.
const OPERATORS: [char; 5] = ['~', '&', '<', '@', '#'];

/// `{FIELD: "a.*"}` or `{FIELD: {"value": "a.*"}}`.
pub(super) fn regexp(body: &Json) -> Outcome<Filter> {
    // The states of Lucene's automaton: here there are limits of size of its own.
    let others = ["flags", "flags_value", "max_determinized_states"];
    let (at, value, ignores_case) = on_field(body, "regexp", &["value"], &others)?;
    let pattern = text(Some(value), "[regexp] needs a string")?;
    let is_all = |name, all: Json| option(body, at, name).is_none_or(|value| *value == all);
    let has_all = is_all("flags", "ALL".into()) && is_all("flags_value", ALL_OPERATORS.into());
    if !has_all && pattern.contains(OPERATORS) {
        return Err(unsupported(
            "[flags] of [regexp] must be [ALL] for a pattern with one of ~&<@#: a backslash before \
             the letter makes it one of its own",
        ));
    }
    like(at, Pattern::regexp(pattern), ignores_case)
}

/// `{FIELD: "text"}` or `{FIELD: {"value": "text", "fuzziness": 1}}`.
pub(super) fn fuzzy(body: &Json) -> Outcome<Filter> {
    let others = [
        "fuzziness",
        "max_expansions",
        "prefix_length",
        "transpositions",
    ];
    let (at, value, ignores_case) = on_field(body, "fuzzy", &["value"], &others)?;
    let value = match value {
        Json::Number(number) => number.to_string(),
        value => text(Some(value), "[fuzzy] needs a string")?.into(),
    };
    let option = |name| option(body, at, name);
    if option("transpositions").is_some_and(|value| *value != true) {
        return Err(unsupported(
            "[transpositions] of [fuzzy] must be true: two neighbours exchanged are one edit",
        ));
    }
    let prefix = match option("prefix_length") {
        None => 0,
        Some(value) => value
            .as_u64()
            .and_then(|letters| u32::try_from(letters).ok())
            .ok_or_else(|| unsupported("[prefix_length] of [fuzzy] is a number of letters"))?,
    };
    let edits = edits(option("fuzziness"), &value)?;
    // As in Lucene, no text is near to the empty one.
    let edits = if value.is_empty() { 0 } else { edits };
    like(at, Pattern::fuzzy(&value, edits, prefix), ignores_case)
}

/// An option of the query of a field.
fn option<'a>(body: &'a Json, at: &str, name: &str) -> Option<&'a Json> {
    let option = body.get(at)?.get(name)?;
    (!option.is_null()).then_some(option)
}

/// How many edits a fuzziness allows: `AUTO` and `AUTO:LOW,HIGH` go by the letters of the text.
pub(super) fn edits(fuzziness: Option<&Json>, value: &str) -> Outcome<u32> {
    let of_letters = |low: usize, high: usize| match value.chars().count() {
        letters if letters < low => 0,
        letters if letters < high => 1,
        _ => 2,
    };
    let refused =
        || unsupported("[fuzziness] of [fuzzy] is [0], [1], [2], [AUTO] or [AUTO:LOW,HIGH]");
    let said = match fuzziness {
        None => return Ok(of_letters(3, 6)),
        Some(Json::String(said)) => said.to_ascii_uppercase(),
        Some(said) => said.to_string(),
    };
    match said.strip_prefix("AUTO") {
        Some("") => Ok(of_letters(3, 6)),
        Some(bounds) => {
            let bounds = bounds
                .strip_prefix(':')
                .and_then(|both| both.split_once(','));
            let (low, high) = bounds.ok_or_else(refused)?;
            match (low.parse(), high.parse()) {
                (Ok(low), Ok(high)) if low <= high => Ok(of_letters(low, high)),
                _ => Err(refused()),
            }
        }
        None => match said.parse::<f64>() {
            Ok(0.0) => Ok(0),
            Ok(1.0) => Ok(1),
            Ok(2.0) => Ok(2),
            _ => Err(refused()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_fuzziness_goes_by_the_letters() {
        let cases = [
            (None, "ab", 0),
            (None, "abc", 1),
            (None, "abcdef", 2),
            (Some(json!("AUTO")), "\u{fc}\u{fc}", 0),
            (Some(json!("auto:1,2")), "a", 1),
            (Some(json!("AUTO:1,2")), "ab", 2),
            (Some(json!(1)), "abcdef", 1),
            (Some(json!("2")), "a", 2),
            (Some(json!("0.0")), "abc", 0),
        ];
        for (fuzziness, text, expected) in cases {
            assert_eq!(
                edits(fuzziness.as_ref(), text).unwrap(),
                expected,
                "{fuzziness:?} {text}"
            );
        }
        for refused in [
            json!(3),
            json!("AUTO:"),
            json!("AUTO:5,2"),
            json!("AUTO3"),
            json!([1]),
        ] {
            assert!(edits(Some(&refused), "abc").is_err(), "{refused}");
        }
    }
}
