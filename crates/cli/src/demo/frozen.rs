//! The last step of the demonstration: the documents are frozen, and a query has the same answer
//! from the collection and from the file.

use super::steps::{say, step};
use crate::commands::freeze::{freeze, sentence};
use crate::commands::query::show_text;
use crate::error::{Error, Result};
use crate::source::Source;
use crate::table::shortened;
use crate::{Context, database};
use quire_server::ExplainText;
use quiredb::frozen::FieldSpec;
use quiredb::operations::FreezeOptions;
use quiredb::query::{Aggregate, Answer, Options, Prepared, field, find};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Documents that are printed, and characters of each.
const SHOWN: u64 = 3;
const SHOWN_CHARACTERS: usize = 120;
/// The count of values of the facet.
const FACET_VALUES: u64 = 8;

/// The query.
#[derive(Debug, Clone)]
pub(super) struct Question {
    /// The fields to freeze; all if none are named.
    pub(super) fields: Option<&'static [&'static str]>,
    /// A field with a number, and the least number that matches.
    pub(super) number: &'static str,
    pub(super) at_least: i64,
    /// A field with few values.
    pub(super) facet: &'static str,
}

/// The part of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    documents: u64,
    bytes: u64,
    matches: Option<u64>,
    live_micros: u128,
    frozen_micros: u128,
}

/// The file beside a database.
pub(super) fn file_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".quire");
    name.into()
}

/// Freezes a collection, and runs the query on both.
pub(super) fn show(
    context: &mut Context,
    path: &Path,
    collection: &str,
    question: &Question,
) -> Result<Report> {
    let file = file_of(path);
    let (shown, shown_file) = (path.display(), file.display());
    let fields = match question.fields {
        Some(fields) => format!(" --full {}", fields.join(",")),
        None => String::new(),
    };
    let &Question {
        number,
        at_least,
        facet,
        ..
    } = question;
    step(
        context,
        "8. Freeze it, and query it there",
        &format!("quire freeze {shown} {collection} {shown_file}{fields}"),
    )?;
    let options = FreezeOptions {
        fields: question
            .fields
            .map(|fields| fields.iter().map(|path| FieldSpec::full(path)).collect()),
        ..FreezeOptions::default()
    };
    let database = database::open_existing(context, path)?;
    let collection = database::collection(&database, path, collection)?;
    let view = collection.view().map_err(Error::engine("cannot freeze"))?;
    let frozen = freeze(&view, &file, false, &options)?;
    say(context, format_args!("   {}", sentence(&frozen)))?;
    let command = format!(
        "   $ quire query {shown_file} --where '{number} >= {at_least}' --order '{number} desc' \
         --limit {SHOWN} --count --facet {facet}"
    );
    say(context, command)?;
    let query = find(field(number).gte(at_least))
        .order_by(field(number).descending())
        .limit(SHOWN)
        .with_count()
        .aggregate(facet, Aggregate::terms(facet, FACET_VALUES))
        .prepare()
        .map_err(|error| Error::Failed(error.to_string()))?;
    let live = Source::Live {
        _database: database,
        key_field: collection.settings().key_field.clone(),
        view,
    };
    let (live_answer, live_documents, live_time) = run_query(context, &live, &query)?;
    let frozen_file = Source::open(context, &file, None)?;
    let (answer, documents, time) = run_query(context, &frozen_file, &query)?;
    let is_same = documents == live_documents
        && answer.count == live_answer.count
        && answer.aggregates == live_answer.aggregates;
    if !is_same {
        return Err(Error::Failed(
            "the answers of the frozen file and of the collection differ".to_owned(),
        ));
    }
    for document in &documents {
        say(context, shortened(document, SHOWN_CHARACTERS))?;
    }
    if !context.out.is_json() {
        let explain = answer.explain.as_deref().map(ExplainText::of);
        show_text(&answer, explain.as_ref(), &mut context.out)?;
    }
    say(
        context,
        format_args!(
            "   the same answer from both: {:.1} ms from the collection, {:.2} ms from the file, \
             just opened",
            live_time.as_secs_f64() * 1e3,
            time.as_secs_f64() * 1e3
        ),
    )?;
    Ok(Report {
        documents: frozen.documents,
        bytes: frozen.files.iter().map(|(_, bytes)| bytes).sum(),
        matches: answer.count,
        live_micros: live_time.as_micros(),
        frozen_micros: time.as_micros(),
    })
}

/// Runs a query. Returns the answer, its documents, and the time.
fn run_query(
    context: &Context,
    source: &Source,
    query: &Prepared,
) -> Result<(Answer, Vec<String>, Duration)> {
    let start = context.env.monotonic();
    let answer = source.query(query, &Options::default())?;
    let documents = source.documents(&answer.hits)?;
    let time = context.env.monotonic().saturating_sub(start);
    let documents = documents.iter().map(|found| found.document.to_json());
    Ok((answer, documents.collect(), time))
}
