//! Which part of a document an answer shows: `_source` and its patterns.

use serde::Deserialize;

use crate::http::failure::Outcome;
use crate::http::fields::Fields;
use crate::http::params::Params;

/// Which part of a document to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) shown: bool,
    pub(crate) fields: Fields,
}

impl Source {
    /// Shows nothing.
    pub(crate) fn none() -> Source {
        Source {
            shown: false,
            fields: Fields::default(),
        }
    }

    /// `_source` is a switch or patterns; `_source_includes` and `_source_excludes` are patterns.
    pub(crate) fn of(params: &Params) -> Outcome<Source> {
        let (shown, patterns) = match params.text("_source") {
            None | Some("" | "true") => (true, ""),
            Some("false") => (false, ""),
            Some(patterns) => (true, patterns),
        };
        let includes = params.text("_source_includes").unwrap_or(patterns);
        let excludes = params.text("_source_excludes").unwrap_or_default();
        Ok(Source {
            shown,
            fields: Fields::new(includes, excludes)?,
        })
    }
}

/// Which part of a document to show, as a body says it.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum SourceBody {
    Switch(bool),
    Pattern(String),
    Patterns(Vec<String>),
    Both {
        #[serde(default, alias = "include")]
        includes: Option<Patterns>,
        #[serde(default, alias = "exclude")]
        excludes: Option<Patterns>,
    },
}

/// A pattern, or a list of patterns.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Patterns {
    One(String),
    Many(Vec<String>),
}

impl Patterns {
    fn list(patterns: Option<Patterns>) -> Vec<String> {
        match patterns {
            None => Vec::new(),
            Some(Patterns::One(pattern)) => vec![pattern],
            Some(Patterns::Many(patterns)) => patterns,
        }
    }
}

impl SourceBody {
    pub(crate) fn source(self) -> Outcome<Source> {
        let (shown, includes, excludes) = match self {
            SourceBody::Switch(shown) => (shown, Vec::new(), Vec::new()),
            SourceBody::Pattern(pattern) => (true, vec![pattern], Vec::new()),
            SourceBody::Patterns(includes) => (true, includes, Vec::new()),
            SourceBody::Both { includes, excludes } => {
                (true, Patterns::list(includes), Patterns::list(excludes))
            }
        };
        Ok(Source {
            shown,
            fields: Fields::checked(includes, excludes)?,
        })
    }
}
