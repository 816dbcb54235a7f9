//! The action lines of a bulk body: `{"index":{"_index":"jobs","_id":"1"}}`.

use std::borrow::Cow;
use std::fmt;

use quiredb::Condition;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer};

use crate::documents::conditions::{external, version_condition};
use crate::documents::source::{Source, SourceBody};
use crate::http::failure::{Failure, Outcome};

/// What an item does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Index,
    Create,
    Update,
    Delete,
}

impl Op {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Op::Index => "index",
            Op::Create => "create",
            Op::Update => "update",
            Op::Delete => "delete",
        }
    }
}

/// What an action line says.
#[derive(Debug)]
pub(crate) struct Action {
    pub(crate) op: Op,
    pub(crate) index: Option<String>,
    pub(crate) id: Option<String>,
    /// What must hold, or why the item can't be done.
    pub(crate) condition: Outcome<Condition>,
    pub(crate) retries: Option<u32>,
    /// Whether the item says that its collection must be an alias.
    pub(crate) requires_alias: Option<bool>,
    /// Which part of an updated document the answer shows, if the item says that.
    pub(crate) shows: Option<Source>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line<'a> {
    #[serde(borrow)]
    Index(Meta<'a>),
    #[serde(borrow)]
    Create(Meta<'a>),
    #[serde(borrow)]
    Update(Meta<'a>),
    #[serde(borrow)]
    Delete(Meta<'a>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Meta<'a> {
    #[serde(borrow, rename = "_index")]
    index: Option<Cow<'a, str>>,
    #[serde(default, rename = "_id")]
    id: Option<Id>,
    // A document's place follows from its id alone.
    #[serde(default, rename = "routing", alias = "_routing")]
    _routing: Option<Id>,
    // What shippers for servers of any age send: the only type that there ever is.
    #[serde(borrow, rename = "_type")]
    document_type: Option<Cow<'a, str>>,
    #[serde(borrow)]
    op_type: Option<Cow<'a, str>>,
    if_seq_no: Option<u64>,
    if_primary_term: Option<u64>,
    #[serde(alias = "_retry_on_conflict")]
    retry_on_conflict: Option<u32>,
    #[serde(default)]
    require_alias: Option<bool>,
    #[serde(borrow)]
    pipeline: Option<Cow<'a, str>>,
    #[serde(alias = "_version")]
    version: Option<i64>,
    #[serde(borrow, alias = "_version_type")]
    version_type: Option<Cow<'a, str>>,
    #[serde(rename = "_source")]
    source: Option<SourceBody>,
}

/// An id, which may be written as a number.
#[derive(Debug)]
pub(crate) struct Id(pub(crate) String);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        struct IdVisitor;
        impl Visitor<'_> for IdVisitor {
            type Value = Id;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an id: a string or an integer")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Id, E> {
                Ok(Id(text.to_owned()))
            }
            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Id, E> {
                Ok(Id(number.to_string()))
            }
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Id, E> {
                Ok(Id(number.to_string()))
            }
            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Id, E> {
                Err(E::custom(format!(
                    "the number {number} can't be an id; write it as a string"
                )))
            }
        }
        deserializer.deserialize_any(IdVisitor)
    }
}

impl Action {
    /// Reads the action on line `number`.
    ///
    /// # Errors
    /// A line that is no action, which makes it unknown what the lines after it are. What is merely
    /// not possible is left to the item.
    pub(crate) fn parse(line: &[u8], number: u64) -> Outcome<Action> {
        let malformed = |what: &dyn fmt::Display| {
            Failure::illegal_argument(format!("Malformed action/metadata line [{number}]: {what}"))
        };
        let line = serde_json::from_slice(line).map_err(|error| malformed(&error))?;
        let (op, meta) = match line {
            Line::Index(meta) => (Op::Index, meta),
            Line::Create(meta) => (Op::Create, meta),
            Line::Update(meta) => (Op::Update, meta),
            Line::Delete(meta) => (Op::Delete, meta),
        };
        if meta
            .document_type
            .as_ref()
            .is_some_and(|name| name != "_doc")
        {
            return Err(malformed(&"_type must be [_doc]: there are no other types"));
        }
        let op = match (op, meta.op_type.as_deref()) {
            (op, None) => op,
            (Op::Index, Some("index")) => Op::Index,
            (Op::Index | Op::Create, Some("create")) => Op::Create,
            (_, Some(_)) => return Err(malformed(&"op_type must be [index] or [create]")),
        };
        let mut meta = meta;
        let source = meta.source.take().map(SourceBody::source);
        let shows = source
            .transpose()
            .map_err(|failure| malformed(&failure.cause()))?;
        let condition = check(op, &meta).and_then(|()| condition(op, &meta));
        Ok(Action {
            op,
            index: meta.index.map(Cow::into_owned),
            id: meta.id.map(|id| id.0),
            condition,
            retries: meta.retry_on_conflict,
            requires_alias: meta.require_alias,
            shows,
        })
    }
}

/// Refuses what can't be honoured.
fn check(op: Op, meta: &Meta<'_>) -> Outcome<()> {
    let refused = |what: &str| Err(Failure::illegal_argument(what));
    if let Some(pipeline) = meta.pipeline.as_ref().filter(|name| *name != "_none") {
        return refused(&format!("pipeline with id [{pipeline}] does not exist"));
    }
    if op == Op::Create && meta.if_seq_no.is_some() {
        return Err(Failure::validation(
            "create operations do not support compare and set. use index instead",
        ));
    }
    Ok(())
}

/// What must hold for the item to be done, but that a `create` creates.
fn condition(op: Op, meta: &Meta<'_>) -> Outcome<Condition> {
    let required = version_condition(meta.if_seq_no, meta.if_primary_term)?;
    let (version, version_type) = (meta.version, meta.version_type.as_deref());
    let is_internal = matches!(version_type, None | Some("internal"));
    if op == Op::Update && (version.is_some() || !is_internal) {
        return Err(Failure::validation(
            "update requests do not support versioning. Please use `if_seq_no` and \
             `if_primary_term` instead",
        ));
    }
    let external = external(version, version_type, op == Op::Create, required)?;
    if external.is_some() && meta.id.is_none() && op == Op::Index {
        return Err(Failure::validation(
            "an id must be provided if version type or value are set",
        ));
    }
    let required = required.map(Condition::IfVersion);
    Ok(required.or(external).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiredb::Position;

    #[test]
    fn actions_are_read_and_what_is_no_action_is_refused_by_line() {
        let action = Action::parse(
            br#"{"index":{"_index":"a","_id":7,"routing":"elsewhere"}}"#,
            1,
        )
        .unwrap();
        assert_eq!(
            (action.op, action.index.as_deref(), action.id.as_deref()),
            (Op::Index, Some("a"), Some("7"))
        );
        let action = Action::parse(
            br#" {"delete": {"_id": "x\n", "if_seq_no": 3, "if_primary_term": 1}} "#,
            1,
        )
        .unwrap();
        assert_eq!((action.op, action.id.as_deref()), (Op::Delete, Some("x\n")));
        assert_eq!(action.condition.unwrap(), Condition::IfVersion(Position(3)));
        let action = Action::parse(br#"{"index":{"op_type":"create","_id":null}}"#, 1).unwrap();
        assert_eq!((action.op, action.id), (Op::Create, None));

        let malformed: [&[u8]; 11] = [
            b"",
            b"5",
            b"{}",
            br#"{"index":5}"#,
            br#"{"index":{}"#,
            br#"{"index":{}}}"#,
            br#"{"put":{}}"#,
            br#"{"index":{},"create":{}}"#,
            br#"{"index":{"_type":"t"}}"#,
            br#"{"index":{"_id":1.5}}"#,
            b"{\"index\":{\"_id\":\"\xff\"}}",
        ];
        for line in malformed {
            let failure = Action::parse(line, 41).unwrap_err();
            assert!(
                failure.cause().to_string().contains("line [41]"),
                "{:?}",
                failure.cause()
            );
        }
    }

    #[test]
    fn what_cannot_be_honoured_fails_its_item_alone() {
        for meta in [
            r#""pipeline":"p""#,
            r#""version":4"#,
            r#""version":-1,"version_type":"external""#,
            r#""version_type":"external_gte""#,
            r#""version":4,"version_type":"force""#,
            r#""version":4,"version_type":"external","if_seq_no":1,"if_primary_term":1"#,
            r#""if_seq_no":4"#,
        ] {
            let line = format!(r#"{{"index":{{"_id":"1",{meta}}}}}"#);
            let failure = Action::parse(line.as_bytes(), 1)
                .unwrap()
                .condition
                .unwrap_err();
            assert_eq!(failure.status.as_u16(), 400, "{meta}");
        }
    }
}
