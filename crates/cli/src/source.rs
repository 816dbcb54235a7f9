//! The source of a query: a live collection, or frozen files.

use crate::Context;
use crate::database;
use crate::error::{Error, Result, causes};
use crate::message::print_message;
use quire_server::{objects, unknown_fields as unknown};
use quiredb::operations::{FrozenDocument, FrozenView, Origin};
use quiredb::query::{Answer, Error as QueryError, Hit, Options, Prepared, Query, UnknownFields};
use quiredb::{Database, ID, View};
use std::collections::BTreeSet;
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
        let (view, settings) = match database.is_wide(name) {
            true => {
                let collection = database.wide_collection(name);
                let collection = collection.map_err(Error::engine("cannot query"))?;
                (collection.view(), collection.settings())
            }
            false => {
                let collection = database::collection(&database, path, name)?;
                (collection.view(), collection.settings())
            }
        };
        let view = view.map_err(Error::engine("cannot query"))?;
        let key_field = settings.key_field.clone();
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

    /// Has the conditions of a query that a field exists hold for objects too.
    ///
    /// # Errors
    /// For an object of very many fields; of damage.
    pub(crate) fn find_objects(
        &self,
        query: &mut Query,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<()> {
        let mut names_of = |prefixes: &[String]| match self {
            Source::Live { view, .. } => objects::names_of_view(view, prefixes, stop),
            Source::Frozen(frozen) => Ok(names_of_files(frozen)),
        };
        let found = objects::find_objects(query, &mut names_of);
        found.map_err(Error::engine("cannot query"))
    }

    /// Answers a query. Reports fields that no document has, and of frozen files those that were
    /// not frozen.
    ///
    /// # Errors
    /// Of the query, and of damage; such a field, by option.
    pub(crate) fn query(&self, query: &Prepared, options: &Options<'_>) -> Result<Answer> {
        let answer = match self {
            Source::Live {
                view, key_field, ..
            } => answer(
                || view.query(query, options),
                |hits| unknown::of_view(view, query, hits, key_field, options),
                options,
            ),
            Source::Frozen(frozen) => answer(
                || frozen.query(query, options),
                |hits| unknown::of_frozen(frozen, query, hits),
                options,
            ),
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

/// The answer of a query. Reports the fields that are `unknown`, or refuses them by option.
fn answer(
    query: impl Fn() -> quiredb::Result<Answer>,
    unknown: impl Fn(&[Hit]) -> quiredb::Result<Vec<String>>,
    options: &Options<'_>,
) -> quiredb::Result<Answer> {
    let answer = query();
    let is_unknown = matches!(
        &answer,
        Err(quiredb::Error::Query(QueryError::UnknownField { .. }))
    );
    if is_unknown {
        let why = unknown(&[])?;
        return match why.is_empty() {
            true => answer,
            false => Err(quiredb::Error::Invalid(why.join("; "))),
        };
    }
    let answer = answer?;
    // This may come to no end within the time that the query has.
    let unknown = unknown(&answer.hits).unwrap_or_default();
    if options.unknown_fields == UnknownFields::Refuse && !unknown.is_empty() {
        return Err(quiredb::Error::Invalid(unknown.join("; ")));
    }
    for why in unknown {
        print_message(format_args!("quire: {why}"));
    }
    Ok(answer)
}

/// The fields that were frozen and that a document has.
fn names_of_files(frozen: &FrozenView) -> BTreeSet<String> {
    let files = frozen.files();
    let fields = files.iter().flat_map(|file| file.fields());
    fields.map(|(field, _)| field.to_owned()).collect()
}

fn failed(error: impl std::error::Error) -> Error {
    Error::Failed(causes(&error))
}
