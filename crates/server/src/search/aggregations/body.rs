//! [`Body`]: the members of one aggregation, read by name.

use axum::http::StatusCode;
use quiredb::query::{Filter, Path, Value};
use serde_json::{Map, Value as Json};
use std::cell::{Cell, RefCell};
use std::ops::RangeInclusive;

use crate::collections::coerce::Mappings;
use crate::http::failure::{Failure, Outcome};
use crate::search::filter::{
    WholeTexts, check_field, filter_with, known, object, scalar, text, unsupported, whole_number,
};

/// What reading needs beside the body.
pub(crate) struct Reading<'m> {
    /// The current time, in milliseconds since 1970 UTC.
    pub(super) now: i64,
    /// Those of the collections, once they are known.
    pub(super) mappings: Option<&'m Mappings>,
    /// Whether there is a date that no format read, which those of a mapping may.
    pub(super) is_unread: Cell<bool>,
    /// What of its filters holds only with some mappings.
    texts: RefCell<WholeTexts>,
}

impl<'m> Reading<'m> {
    /// At a time, in milliseconds since 1970 UTC, and with the mappings if they are known.
    pub(crate) fn new(now: i64, mappings: Option<&'m Mappings>) -> Reading<'m> {
        Reading {
            now,
            mappings,
            is_unread: Cell::new(false),
            texts: RefCell::default(),
        }
    }

    /// The filter that a query is, which holds once the texts are checked.
    pub(super) fn filter(&self, query: &Json) -> Outcome<Filter> {
        filter_with(query, &mut self.texts.borrow_mut(), self.now)
    }

    /// What of the filters that were read holds only with some mappings.
    pub(crate) fn into_texts(self) -> WholeTexts {
        self.texts.into_inner()
    }

    /// Whether a failure may be none once the mappings are known.
    pub(crate) fn is_early(&self) -> bool {
        self.mappings.is_none() && self.is_unread.get()
    }
}

/// The members of an aggregation of one kind.
#[derive(Clone, Copy)]
pub(super) struct Body<'a> {
    pub(super) kind: &'a str,
    pub(super) members: &'a Map<String, Json>,
}

impl<'a> Body<'a> {
    /// Refuses members that are not in `names`.
    pub(super) fn of(kind: &'a str, body: &'a Json, names: &[&str]) -> Outcome<Body<'a>> {
        let members = object(body, kind)?;
        known(members, kind, names)?;
        Ok(Body { kind, members })
    }

    pub(super) fn refused(&self, what: &str) -> Failure {
        unsupported(format!("[{}]: {what}", self.kind))
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Json> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn field(&self) -> Outcome<Path> {
        let needed = || {
            self.refused(
                "Required one of fields [field, script], but none were specified: it needs a \
                 [field]",
            )
        };
        let field = self.members.get("field").and_then(Json::as_str);
        let field = field.ok_or_else(needed)?;
        check_field(field)?;
        Ok(Path::new(field))
    }

    pub(super) fn text(&self, name: &str) -> Outcome<Option<&'a str>> {
        let value = self.get(name);
        let needed = format!("[{name}] of [{}] must be a string", self.kind);
        value.map(|value| text(Some(value), &needed)).transpose()
    }

    pub(super) fn flag(&self, name: &str) -> Outcome<bool> {
        match self.get(name) {
            None => Ok(false),
            Some(Json::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.refused(&format!("[{name}] must be a boolean"))),
        }
    }

    pub(super) fn number(&self, name: &str) -> Outcome<Option<f64>> {
        let number = |value: &Json| {
            let number = value.as_f64().or_else(|| value.as_str()?.parse().ok());
            number.filter(|number| number.is_finite()).ok_or_else(|| {
                Failure::new(
                    StatusCode::BAD_REQUEST,
                    "x_content_parse_exception",
                    format!("[{}]: [{name}] must be a number", self.kind),
                )
            })
        };
        self.get(name).map(number).transpose()
    }

    /// A whole number, within bounds.
    pub(super) fn whole(
        &self,
        name: &str,
        default: u64,
        within: RangeInclusive<u64>,
    ) -> Outcome<u64> {
        let given = self.get(name).map_or(Some(default), whole_number);
        given
            .filter(|number| within.contains(number))
            .ok_or_else(|| {
                let (start, end) = (within.start(), within.end());
                self.refused(&format!(
                    "[{name}] must be a whole number from {start} to {end}"
                ))
            })
    }

    /// The value of documents that have none.
    pub(super) fn missing(&self) -> Outcome<Option<Value>> {
        let missing = self.get("missing");
        missing.map(|value| scalar(value, "missing")).transpose()
    }

    /// Refuses an option unless it is absent or has this value.
    pub(super) fn only(&self, name: &str, value: &Json) -> Outcome<()> {
        match self.get(name) {
            Some(given) if given != value => {
                Err(self.refused(&format!("[{name}] must be [{value}], not [{given}]")))
            }
            _ => Ok(()),
        }
    }
}
