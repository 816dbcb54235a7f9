//! [`About`]: what the clauses of a line of text are about.

use quiredb::query::{Filter, Pattern};
use serde_json::{Map, Value as Json};

use crate::http::failure::{Failure, Outcome};
use crate::search::clause::{WholeTexts, like, on, unsupported, values};
use crate::search::range::range;

/// The most clauses of a line, as in OpenSearch.
const CLAUSES_MAX: usize = 1_024;

/// How deep the brackets of a line are nested at most.
pub(super) const DEPTH_MAX: usize = 64;

/// Which operator stands between two clauses without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joined {
    Or,
    And,
}

/// What the clauses of a line are about.
pub(super) struct About<'a> {
    /// The name of the query.
    pub(super) name: &'a str,
    /// The fields of words without one.
    pub(super) fields: Vec<String>,
    pub(super) joined: Joined,
    pub(super) zone: Option<&'a str>,
    pub(super) texts: &'a mut WholeTexts,
    /// The current time, in milliseconds since 1970 UTC.
    pub(super) now: i64,
    pub(super) clauses: usize,
}

impl About<'_> {
    /// Counts a clause.
    pub(super) fn count(&mut self) -> Outcome<()> {
        self.clauses += 1;
        match self.clauses > CLAUSES_MAX {
            true => Err(self.refused(&format!("has more than {CLAUSES_MAX} clauses"))),
            false => Ok(()),
        }
    }

    pub(super) fn refused(&self, what: &str) -> Failure {
        unsupported(format!("[{}] {what}", self.name))
    }

    /// What `make` gives for the field of a clause, or for any of the default fields.
    fn each_field(
        &mut self,
        field: Option<&str>,
        mut make: impl FnMut(&mut Self, &str) -> Outcome<Filter>,
    ) -> Outcome<Filter> {
        if let Some(field) = field {
            return make(self, field);
        }
        let fields = std::mem::take(&mut self.fields);
        if fields.is_empty() {
            return Err(self.refused(
                "has a word without a field, which would be looked for in all fields: name one, \
                 as in field:word, or give [default_field] or [fields]",
            ));
        }
        let any = fields.iter().map(|field| make(self, field));
        let any = any.collect::<Outcome<Vec<Filter>>>();
        self.fields = fields;
        Ok(one_of(any?))
    }

    /// The documents with a value that a text says.
    pub(super) fn equal(&mut self, field: Option<&str>, word: &str) -> Outcome<Filter> {
        self.each_field(field, |about, at| {
            let value = value(word);
            if value.is_string() {
                about.texts.add(about.name, at);
            }
            let values = values(at, [&value], about.name)?;
            on(at, |field| field.is_in(values.clone()))
        })
    }

    /// The documents with a string that a pattern matches.
    pub(super) fn like(
        &mut self,
        field: Option<&str>,
        pattern: quiredb::query::Result<Pattern>,
    ) -> Outcome<Filter> {
        let pattern = pattern.map_err(|error| self.refused(&error.to_string()))?;
        self.each_field(field, |about, at| {
            about.texts.add(about.name, at);
            like(at, Ok(pattern.clone()), false)
        })
    }

    /// The documents with a string that begins with a text, in any of the default fields.
    pub(super) fn beginning(&mut self, text: &str) -> Outcome<Filter> {
        self.each_field(None, |about, at| {
            about.texts.add(about.name, at);
            on(at, |field| field.starts_with(text))
        })
    }

    /// The documents that have a field.
    pub(super) fn exists(&mut self, field: Option<&str>) -> Outcome<Filter> {
        self.each_field(field, |_, at| on(at, |field| field.exists()))
    }

    /// The documents with a value between two bounds: `{"gte": …}`.
    pub(super) fn between(
        &mut self,
        field: Option<&str>,
        bounds: &Map<String, Json>,
    ) -> Outcome<Filter> {
        self.each_field(field, |about, at| {
            let mut bounds = bounds.clone();
            if let Some(zone) = about.zone
                && !bounds.values().all(Json::is_number)
            {
                bounds.insert("time_zone".into(), zone.into());
            }
            let body = Map::from_iter([(at.to_owned(), Json::Object(bounds))]);
            range(&body, about.now)
        })
    }
}

/// The number or boolean that a word is written as, or the word.
pub(super) fn value(word: &str) -> Json {
    let written = match serde_json::from_str::<Json>(word) {
        Ok(value) if value.is_number() || value.is_boolean() => (value.to_string(), value),
        _ => return word.into(),
    };
    match written {
        (text, value) if text == word => value,
        _ => word.into(),
    }
}

/// What matches one of some filters.
pub(super) fn one_of(mut filters: Vec<Filter>) -> Filter {
    match (filters.len(), filters.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            filters.extend(last);
            Filter::Or(filters)
        }
    }
}
