//! What a query says of all documents that match, as JSON from which the same is made again.

use quiredb::Document;
use quiredb::query::{Aggregated, Answer, Explain, Group, Path, Trace, Value};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use std::time::Duration;

/// An answer without its documents.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct AnswerText {
    /// How many match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The aggregates, by name, in the order of the query.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregates: Vec<(String, AggregateText)>,
    /// The time was over, and this is what was found until then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// How the answer was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explain: Option<ExplainText>,
}

/// How an answer was found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExplainText {
    /// For people.
    pub text: String,
    /// For programs.
    pub json: serde_json::Value,
}

/// The result of an aggregate. Numbers and values are as the server wrote them: none is rounded.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AggregateText {
    /// A count.
    Count(u64),
    /// A value, or none.
    Value(Vec<Box<RawValue>>),
    /// A number, or none.
    Number(Vec<Box<RawValue>>),
    /// Values and how many documents have each, then the others' count.
    Terms(Vec<(Box<RawValue>, u64)>, u64),
    /// Where each interval begins, and how many documents are in it.
    Histogram(Vec<(Box<RawValue>, u64)>),
    /// Groups.
    Groups {
        /// The fields they were made by.
        by: Vec<String>,
        /// The names of the measures.
        names: Vec<String>,
        /// The values and the measures of each.
        groups: Vec<(Vec<Box<RawValue>>, Vec<AggregateText>)>,
        /// How many there are.
        all: u64,
    },
}

impl AnswerText {
    /// That of an answer.
    pub fn of(answer: &Answer) -> AnswerText {
        let aggregates = answer.aggregates.iter();
        AnswerText {
            count: answer.count,
            aggregates: aggregates
                .map(|(name, aggregated)| (name.clone(), AggregateText::of(aggregated)))
                .collect(),
            partial: answer.is_partial,
            explain: answer.explain.as_deref().map(ExplainText::of),
        }
    }

    /// Appends it as a line.
    pub(super) fn write_line(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"answer\":");
        // Writing to memory doesn't fail.
        let _ = serde_json::to_writer(&mut *out, self);
        out.extend_from_slice(b"}\n");
    }
}

impl ExplainText {
    /// That of an explanation.
    pub fn of(explain: &Explain) -> ExplainText {
        ExplainText {
            text: explain.to_string(),
            json: explain_json(explain),
        }
    }
}

impl AggregateText {
    fn of(aggregated: &Aggregated) -> AggregateText {
        match aggregated {
            Aggregated::Count(count) => AggregateText::Count(*count),
            Aggregated::Value(value) => AggregateText::Value(value.iter().map(raw).collect()),
            Aggregated::Number(number) => AggregateText::Number(
                number
                    .iter()
                    .filter_map(|number| raw_number(*number))
                    .collect(),
            ),
            Aggregated::Terms { terms, others } => AggregateText::Terms(
                terms
                    .iter()
                    .map(|(value, count)| (raw(value), *count))
                    .collect(),
                *others,
            ),
            Aggregated::Histogram(counts) => AggregateText::Histogram(
                counts
                    .iter()
                    .filter_map(|(start, count)| Some((raw_number(*start)?, *count)))
                    .collect(),
            ),
            Aggregated::Groups {
                by,
                names,
                groups,
                all,
            } => AggregateText::Groups {
                by: by.iter().map(|path| path.as_str().to_owned()).collect(),
                names: names.clone(),
                groups: groups
                    .iter()
                    .map(|group| {
                        let measures = group.measures.iter().map(AggregateText::of);
                        (group.values.iter().map(raw).collect(), measures.collect())
                    })
                    .collect(),
                all: *all,
            },
        }
    }

    /// The result that it is of; none if it is of no result.
    pub fn aggregated(&self) -> Option<Aggregated> {
        Some(match self {
            AggregateText::Count(count) => Aggregated::Count(*count),
            AggregateText::Value(values) => {
                Aggregated::Value(values.first().map(|raw| value(raw)).transpose_none()?)
            }
            AggregateText::Number(numbers) => {
                Aggregated::Number(numbers.first().map(|raw| number(raw)).transpose_none()?)
            }
            AggregateText::Terms(terms, others) => Aggregated::Terms {
                terms: terms
                    .iter()
                    .map(|(raw, count)| Some((value(raw)?, *count)))
                    .collect::<Option<_>>()?,
                others: *others,
            },
            AggregateText::Histogram(counts) => Aggregated::Histogram(
                counts
                    .iter()
                    .map(|(raw, count)| Some((number(raw)?, *count)))
                    .collect::<Option<_>>()?,
            ),
            AggregateText::Groups {
                by,
                names,
                groups,
                all,
            } => Aggregated::Groups {
                by: by.iter().map(|path| Path::new(path)).collect(),
                names: names.clone(),
                groups: groups.iter().map(group).collect::<Option<_>>()?,
                all: *all,
            },
        })
    }
}

/// `Option<Option<T>>`, where an inner none is a failure.
trait TransposeNone<T> {
    fn transpose_none(self) -> Option<Option<T>>;
}

impl<T> TransposeNone<T> for Option<Option<T>> {
    fn transpose_none(self) -> Option<Option<T>> {
        match self {
            None => Some(None),
            Some(None) => None,
            Some(some) => Some(some),
        }
    }
}

/// Groups nest no further: recursion ends.
fn group((values, measures): &(Vec<Box<RawValue>>, Vec<AggregateText>)) -> Option<Group> {
    Some(Group {
        values: values.iter().map(|raw| value(raw)).collect::<Option<_>>()?,
        measures: measures
            .iter()
            .map(AggregateText::aggregated)
            .collect::<Option<_>>()?,
    })
}

fn raw(value: &Value) -> Box<RawValue> {
    let mut json = Vec::new();
    value.write_json(&mut json);
    let json = String::from_utf8(json).unwrap_or_default();
    RawValue::from_string(json).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// JSON has no infinities: those are left out.
fn raw_number(number: f64) -> Option<Box<RawValue>> {
    RawValue::from_string(format!("{number:?}")).ok()
}

fn value(raw: &RawValue) -> Option<Value> {
    let document = Document::from_json(format!("{{\"v\":{raw}}}").as_bytes()).ok()?;
    Value::from_document(document.get("v")?)
}

fn number(raw: &RawValue) -> Option<f64> {
    raw.get().parse().ok()
}

/// How an answer was found, as JSON.
pub(crate) fn explain_json(explain: &Explain) -> serde_json::Value {
    json!({
        "documents": explain.documents,
        "shards": explain.shards,
        "pruned": explain.pruned,
        "merged": explain.is_merged,
        "outranked": explain.outranked,
        "first_tested": explain.first,
        "planning_micros": micros(explain.planning),
        "filtering_micros": micros(explain.filtering),
        "ordering_micros": micros(explain.ordering),
        "aggregating_micros": micros(explain.aggregating),
        "filter": trace_json(&explain.filter),
    })
}

/// Recursion ends with the filter, which is not nested deep.
fn trace_json(trace: &Trace) -> serde_json::Value {
    let accesses = trace.accesses.iter();
    let accesses: serde_json::Map<_, _> = accesses
        .map(|(access, shards)| (access.to_string(), json!(shards)))
        .collect();
    json!({
        "what": trace.what,
        "at_least": trace.at_least,
        "at_most": trace.at_most,
        "expected": trace.expected,
        "access": accesses,
        "cost_micros": micros(trace.cost),
        "counted": trace.counted,
        "built": trace.built,
        "tested": trace.tested,
        "found": trace.rows,
        "micros": micros(trace.time),
        "parts": trace.parts.iter().map(trace_json).collect::<Vec<_>>(),
    })
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiredb::ValueRef;

    #[test]
    fn an_answer_is_the_same_after_it_was_text() {
        let value = |json: &str| value(&RawValue::from_string(json.to_owned()).unwrap()).unwrap();
        let values = [
            "null",
            "true",
            "-7",
            "18446744073709551615",
            "0.1",
            "\"q\\\"é\"",
        ];
        let values: Vec<Value> = values.into_iter().map(value).collect();
        assert_eq!(
            values[1],
            Value::from_document(ValueRef::Bool(true)).unwrap()
        );
        let terms = Aggregated::Terms {
            terms: values.iter().cloned().zip(1..).collect(),
            others: 9,
        };
        let all = [
            Aggregated::Count(3),
            Aggregated::Value(None),
            Aggregated::Value(Some(Value::null())),
            Aggregated::Value(values.last().cloned()),
            Aggregated::Number(None),
            Aggregated::Number(Some(0.1 + 0.2)),
            Aggregated::Number(Some(1e300)),
            terms,
            Aggregated::Histogram(vec![(-0.5, 1), (2.0, 3)]),
            Aggregated::Groups {
                by: vec![Path::new("a.b"), Path::new("odd, name")],
                names: vec!["n".into()],
                groups: vec![Group {
                    values: values.clone(),
                    measures: vec![Aggregated::Count(1), Aggregated::Number(Some(1.5))],
                }],
                all: 4,
            },
        ];
        let answer = Answer {
            count: Some(5),
            aggregates: all.into_iter().map(|one| ("x".to_owned(), one)).collect(),
            is_partial: true,
            ..Answer::default()
        };
        let text = serde_json::to_string(&AnswerText::of(&answer)).unwrap();
        let read: AnswerText = serde_json::from_str(&text).unwrap();
        assert_eq!((read.count, read.partial), (Some(5), true));
        let aggregates = read.aggregates.iter();
        let aggregates = aggregates.map(|(name, one)| (name.clone(), one.aggregated().unwrap()));
        assert_eq!(aggregates.collect::<Vec<_>>(), answer.aggregates);
    }
}
