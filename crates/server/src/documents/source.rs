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
        includes: Vec<String>,
        #[serde(default, alias = "exclude")]
        excludes: Vec<String>,
    },
}

impl SourceBody {
    pub(crate) fn source(self) -> Outcome<Source> {
        let (shown, includes, excludes) = match self {
            SourceBody::Switch(shown) => (shown, Vec::new(), Vec::new()),
            SourceBody::Pattern(pattern) => (true, vec![pattern], Vec::new()),
            SourceBody::Patterns(includes) => (true, includes, Vec::new()),
            SourceBody::Both { includes, excludes } => (true, includes, excludes),
        };
        Ok(Source {
            shown,
            fields: Fields::checked(includes, excludes)?,
        })
    }
}
