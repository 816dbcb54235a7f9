//! The source of a query: a live collection, or frozen files.

use crate::Context;
use crate::database;
use crate::error::{Error, Result, causes};
use quiredb::operations::{FrozenDocument, FrozenView, Origin};
use quiredb::query::{Answer, Error as QueryError, Hit, Options, Prepared, UnknownFields};
use quiredb::{Database, ID, View};
use std::path::Path;

/// An open source.
pub(crate) enum Source {
    /// A live collection, as of one moment.
    Live {
        /// Keeps it open.
        _database: Database,
        view: View,
        /// The collection's key field.
        key_field: String,
    },
    /// A frozen file, or a folder of them.
    Frozen(FrozenView),
}

impl Source {
    /// Opens a collection of the database at `path`; without a collection, the frozen files there.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn open(context: &Context, path: &Path, collection: Option<&str>) -> Result<Source> {
        database::refuse_server(path)?;
        let Some(name) = collection else {
            return Source::open_frozen(context, path);
        };
        if context.env.exists(path).map_err(failed)? && context.env.list(path).is_err() {
            return Err(Error::Usage(format!(
                "{} is a file: a frozen file is queried without the name of a collection",
                path.display()
            )));
        }
        let database = database::open_existing(context, path)?;
        let collection = database::collection(&database, path, name)?;
        let view = collection.view().map_err(Error::engine("cannot query"))?;
        let key_field = collection.settings().key_field.clone();
        Ok(Source::Live {
            _database: database,
            view,
            key_field,
        })
    }

    fn open_frozen(context: &Context, path: &Path) -> Result<Source> {
        let names = context.env.list(path).unwrap_or_default();
        if names.iter().any(|name| name == "CATALOG") {
            return Err(Error::Usage(format!(
                "{} is a database: name the collection too; `quire collections` lists them",
                path.display()
            )));
        }
        FrozenView::open(&context.env, path)
            .map(Source::Frozen)
            .map_err(Error::engine("cannot open the frozen files"))
    }

    /// Answers a query. Reports a field that a frozen file does not have, which may be one that was
    /// not frozen.
    ///
    /// # Errors
    /// Of the query, and of damage.
    pub(crate) fn query(&self, query: &Prepared, options: &Options<'_>) -> Result<Answer> {
        let answer = match self {
            Source::Live { view, .. } => view.query(query, options),
            Source::Frozen(frozen) => {
                let strict = Options {
                    unknown_fields: UnknownFields::Refuse,
                    ..*options
                };
                match frozen.query(query, &strict) {
                    Err(quiredb::Error::Query(QueryError::UnknownField { path })) => {
                        let why = why_unknown(frozen, &path);
                        if options.unknown_fields == UnknownFields::Refuse {
                            return Err(Error::engine("cannot query")(quiredb::Error::Invalid(
                                why,
                            )));
                        }
                        crate::message::print_message(format_args!(
                            "quire: {why}: it has no values here"
                        ));
                        frozen.query(query, options)
                    }
                    answer => answer,
                }
            }
        };
        answer.map_err(Error::engine("cannot query"))
    }

    /// The field that documents have their keys in, if they have them in a field.
    pub(crate) fn key_field(&self) -> &str {
        match self {
            Source::Live { key_field, .. } => key_field,
            // A frozen file does not say. A key that is carried beside the field is read as well.
            Source::Frozen(_) => ID,
        }
    }

    /// The documents of hits.
    ///
    /// # Errors
    /// Of damage.
    pub(crate) fn documents(&self, hits: &[Hit]) -> Result<Vec<FrozenDocument>> {
        let documents = match self {
            Source::Live { view, .. } => view.documents(hits).map(|all| {
                let all = all.into_iter();
                all.map(|found| FrozenDocument {
                    origin: Some(Origin::of(&found)),
                    document: found.document,
                })
                .collect()
            }),
            Source::Frozen(frozen) => frozen.documents(hits),
        };
        documents.map_err(Error::engine("cannot read"))
    }
}

/// Why no file has a value at a path.
fn why_unknown(frozen: &FrozenView, path: &str) -> String {
    let files = frozen.files();
    let fields = || files.iter().flat_map(|file| file.fields());
    let is_below = |field: &str| {
        let rest = field.strip_prefix(path);
        rest.is_some_and(|rest| rest.starts_with('.'))
    };
    if let Some((field, _)) = fields().find(|(field, _)| is_below(field)) {
        return format!("{path:?} is an object; name a field in it, as {field:?}");
    }
    match fields().any(|(field, _)| field == path) {
        true => format!("no document has a value in the field {path:?}"),
        false => format!("the field {path:?} was not frozen, or no document has it"),
    }
}

fn failed(error: impl std::error::Error) -> Error {
    Error::Failed(causes(&error))
}
