//! `quire query`: finds documents by their fields, counts and aggregates them.

use crate::Context;
use crate::client::ServerAccess;
use crate::documents::DocumentFormat;
use crate::error::{Error, Result};
use crate::field_names::fields_of;
use crate::message::print_message;
use crate::output::Output;
use crate::place::{self, Place};
use crate::remote::RemoteCollection;
use crate::size::Size;
use crate::source::Source;
use quire_pipeline::Target;
use quire_server::{ExplainText, Line, QueryText, selected};
use quiredb::query::{
    Aggregated, Answer, Group, Options, Path as Field, Prepared, UnknownFields, Value,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is printed beside an answer that is not of all documents.
const PARTIAL: &str = "the time was over: this is what was found until then";

/// The memory of a query in bytes, where no other limit is given.
const MEMORY_DEFAULT: usize = 64 << 20;

/// Documents that are read together; it bounds the documents in memory.
const SHOWN_AT_ONCE: usize = 256;

/// Find documents by their fields; count and aggregate them
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Conditions are those of SQL: = <> < <= > >=, BETWEEN, IN, LIKE, ILIKE, REGEXP, IS NULL, IS NOT NULL,
AND, OR, NOT. A dotted name is a field within objects and arrays. Strings are in 'single quotes',
unusual names in \"double quotes\". A condition holds for an array if it holds for one value of it.
number(FIELD) compares strings that hold a number by it. See docs/QUERYING.md.

Examples:
  quire query ./db cars --where \"mark = 'audi' AND price < 20000\" --order 'price desc'
  quire query ./db cars --where \"at.city LIKE 'Ul%'\" --fields mark,price --limit 3
  quire query ./db cars --where 'sold IS NULL' --count      only the count
  quire query ./db cars --facet mark --facet at.city        the documents of each value, counted
  quire query ./db cars --sample 100 --format csv           100 of them, chosen at random
  quire query ./db cars --where 'number(price) < 25'        also strings that hold a number
  quire query ./cars.quire --where \"mark = 'audi'\"         a frozen file, or a folder of them
  quire query ./db cars --aggregate 'avg(price)' \\
        --aggregate \"max(price) WHERE mark = 'fiat'\"
  quire query ./db cars --aggregate 'group(mark, sold: count(), avg(price) AS mean
        HAVING mean > 1000 ORDER BY mean DESC LIMIT 5)'
  quire query http://127.0.0.1:9200 cars --where 'sold IS NULL' --count")]
pub(crate) struct QueryCommand {
    /// The directory of the database, or http(s)://HOST:PORT of its server; or a frozen file, or a
    /// folder of them
    db: String,
    #[command(flatten)]
    access: ServerAccess,
    /// The collection; none for frozen files
    collection: Option<String>,
    /// The condition that documents must fulfil [default: all documents]
    #[arg(long = "where", value_name = "CONDITION")]
    filter: Option<String>,
    /// The fields to sort by: `price desc, added`; documents with equal values, and all without
    /// this option, are in the order in which they were first written
    #[arg(long, value_name = "FIELDS")]
    order: Option<String>,
    /// Print this many documents that match, chosen at random, each as likely as any other
    #[arg(long, value_name = "N", conflicts_with_all = ["order", "limit", "all"])]
    sample: Option<u64>,
    /// The number that decides which documents are in the sample
    #[arg(long, value_name = "N", default_value_t = 0, requires = "sample")]
    seed: u64,
    /// Skip this many documents
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u64,
    /// Print at most this many documents [default: 10; with --count, --facet or --aggregate 0]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print all documents that match
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Print only these fields, separated by commas
    #[arg(long, value_name = "FIELDS")]
    fields: Option<Vec<String>>,
    /// Count the documents that match
    #[arg(long)]
    count: bool,
    /// Count the documents of each value of a field, for the most frequent values
    #[arg(long, value_name = "FIELD")]
    facet: Vec<String>,
    /// count(), min(f), max(f), sum(f), avg(f), distinct(f), terms(f, N) or histogram(f, WIDTH),
    /// each with a WHERE of its own if needed
    #[arg(long, value_name = "WHAT")]
    aggregate: Vec<String>,
    /// How documents are printed [default: one JSON object a line]
    #[arg(long, conflicts_with_all = ["count", "facet", "aggregate", "explain"])]
    format: Option<DocumentFormat>,
    /// The memory that the query may take for sorting and counting, such as 256MiB [default: 64MiB;
    /// of a server 16MiB]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// Give up after this many seconds, such as 0.5
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
    /// With --timeout: print what was found until then
    #[arg(long, requires = "timeout")]
    partial: bool,
    /// Show how the answer was found, and the time of each step
    #[arg(long)]
    explain: bool,
    /// Fail if no document has a field, rather than treat it as a field without values
    #[arg(long)]
    strict: bool,
}

impl QueryCommand {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let text = self.text()?;
        if let Some(format) = self.format {
            context.out.start_documents(format, &text.fields)?;
        }
        let query = text.query();
        let query = query.map_err(|error| usage(&format!("--{}: ", error.part), &error.source))?;
        query.clone().prepare().map_err(|error| usage("", &error))?;
        let place = Place {
            db: self.db,
            access: self.access,
        };
        if let Some(link) = place.server(context)? {
            let name = self.collection.as_deref().ok_or_else(|| {
                Error::Usage(format!(
                    "name the collection too; `quire collections {}` lists them",
                    link.url()
                ))
            })?;
            let collection = place::remote_collection(&link, name)?;
            return query_server(&collection, &text, context);
        }
        let source = Source::open(context, place.path(), self.collection.as_deref())?;
        let env = context.env.clone();
        let clock = move || env.monotonic();
        let end = text.timeout.map(|seconds| {
            let timeout = Duration::try_from_secs_f64(seconds);
            clock().saturating_add(timeout.unwrap_or(Duration::ZERO))
        });
        let is_over = || end.is_some_and(|end| clock() >= end);
        let options = Options {
            unknown_fields: match text.strict {
                true => UnknownFields::Refuse,
                false => UnknownFields::MatchNothing,
            },
            clock: match text.explain {
                true => Some(&clock),
                false => None,
            },
            stop: Some(&is_over),
            partial: text.partial,
            memory_bytes_max: text.memory.map_or(MEMORY_DEFAULT, |bytes| {
                usize::try_from(bytes).unwrap_or(usize::MAX)
            }),
            ..Options::default()
        };
        let mut query = query;
        source.find_objects(&mut query, &is_over)?;
        let query = query.prepare().map_err(|error| usage("", &error))?;
        let answer = source.query(&query, &options)?;
        if answer.is_partial {
            print_message(PARTIAL);
        }
        show_documents(&source, &query, &answer, &mut context.out)?;
        let explain = answer.explain.as_deref().map(ExplainText::of);
        show(&answer, explain.as_ref(), &mut context.out)
    }

    /// The query that the options say.
    fn text(&self) -> Result<QueryText> {
        let names = |paths: Vec<Field>| paths.iter().map(|path| path.as_str().to_owned()).collect();
        let fields = self.fields.as_deref().map(fields_of).transpose()?;
        Ok(QueryText {
            filter: self.filter.clone(),
            order: self.order.clone(),
            skip: self.skip,
            limit: self.limit.or(self.sample),
            shuffle: self.sample.map(|_| self.seed),
            memory: self.memory.map(|Size(bytes)| bytes),
            all: self.all,
            fields: fields.map(names),
            count: self.count,
            facet: names(fields_of(&self.facet)?),
            aggregate: self.aggregate.clone(),
            timeout: self.timeout,
            partial: self.partial,
            explain: self.explain,
            strict: self.strict,
        })
    }
}

/// Has a server answer a query, and prints the answer as it comes.
fn query_server(
    collection: &RemoteCollection,
    text: &QueryText,
    context: &mut Context,
) -> Result<()> {
    let key_field = collection.settings().key_field.clone();
    let (mut answer, mut explain) = (Answer::default(), None);
    let out = &mut context.out;
    let mut each = |line: Line<'_>| -> Result<()> {
        match line {
            Line::Row(row) if text.fields.is_none() => {
                let found = place::found(&row)?;
                out.keyed(&key_field, &found.origin, &found.document)
            }
            Line::Row(row) => match row.origin() {
                Some(origin) => out.found_as(&origin, row.json()),
                None => Err(not_understood()),
            },
            Line::Warning(why) => {
                print_message(format_args!("quire: {why}"));
                Ok(())
            }
            Line::Answer(text) => {
                answer.count = text.count;
                answer.is_partial = text.partial;
                for (name, aggregate) in text.aggregates {
                    let aggregated = aggregate.aggregated().ok_or_else(not_understood)?;
                    answer.aggregates.push((name, aggregated));
                }
                explain = text.explain;
                Ok(())
            }
            _ => Ok(()),
        }
    };
    let done = collection.query(text, &mut each);
    done.map_err(|error: Error| error.because("cannot query"))?;
    if answer.is_partial {
        print_message(PARTIAL);
    }
    show(&answer, explain.as_ref(), &mut context.out)
}

fn not_understood() -> Error {
    Error::Failed("the server's answer is of another version of Quire".to_owned())
}

fn usage(what: &str, error: &quiredb::query::Error) -> Error {
    Error::Usage(format!("{what}{error}"))
}

/// Prints the documents, one a line.
fn show_documents(
    source: &Source,
    query: &Prepared,
    answer: &Answer,
    out: &mut Output,
) -> Result<()> {
    for hits in answer.hits.chunks(SHOWN_AT_ONCE) {
        for found in source.documents(hits)? {
            let key = found.origin.as_ref().map(|origin| &origin.key);
            match (query.fields(), &found.origin) {
                (None, Some(origin)) => out.keyed(source.key_field(), origin, &found.document)?,
                (None, None) => out.found_bare(&found.document.to_json())?,
                (Some(fields), Some(origin)) => {
                    out.found_as(origin, &selected(fields, &found.document, key))?;
                }
                (Some(fields), None) => {
                    out.found_bare(&selected(fields, &found.document, key))?;
                }
            }
        }
    }
    Ok(())
}

/// Prints counts and aggregates of all documents that match.
fn show(answer: &Answer, explain: Option<&ExplainText>, out: &mut Output) -> Result<()> {
    match out.is_json() {
        true => show_json(answer, explain, out),
        false => show_text(answer, explain, out),
    }
}

/// Prints counts and aggregates of all documents that match, for people.
pub(crate) fn show_text(
    answer: &Answer,
    explain: Option<&ExplainText>,
    out: &mut Output,
) -> Result<()> {
    if let Some(count) = answer.count {
        out.line(format_args!("{count} match"))?;
    }
    for (name, aggregated) in &answer.aggregates {
        match aggregated {
            Aggregated::Count(count) => out.line(format_args!("{name}: {count}"))?,
            Aggregated::Value(Some(value)) => out.line(format_args!("{name}: {value}"))?,
            Aggregated::Number(Some(number)) => out.line(format_args!("{name}: {number}"))?,
            Aggregated::Value(None) | Aggregated::Number(None) => {
                out.line(format_args!("{name}: no value"))?;
            }
            Aggregated::Terms { terms, others } => {
                let mut rows: Vec<_> = terms
                    .iter()
                    .map(|(value, count)| (shown(value), *count))
                    .collect();
                if *others > 0 {
                    rows.push(("(others)".into(), *others));
                }
                show_table(name, &rows, out)?;
            }
            Aggregated::Histogram(counts) => {
                let rows: Vec<_> = counts
                    .iter()
                    .map(|(start, count)| (start.to_string(), *count))
                    .collect();
                show_table(name, &rows, out)?;
            }
            Aggregated::Groups {
                by,
                names,
                groups,
                all,
            } => {
                out.line(name)?;
                show_groups(by, names, groups, out)?;
                if *all > groups.len() as u64 {
                    out.line(format_args!("  {} of {all} groups", groups.len()))?;
                }
            }
        }
    }
    match explain {
        Some(explain) => out.line(explain.text.trim_end()),
        None => Ok(()),
    }
}

/// Prints groups as a table, its columns the fields and the measures.
fn show_groups(by: &[Field], names: &[String], groups: &[Group], out: &mut Output) -> Result<()> {
    let head = by.iter().map(ToString::to_string).chain(names.to_vec());
    let mut rows = vec![head.collect::<Vec<_>>()];
    rows.extend(groups.iter().map(|group| {
        let measures = group.measures.iter().map(shown_measure);
        group.values.iter().map(shown).chain(measures).collect()
    }));
    let columns = by.len() + names.len();
    let mut widths = vec![0; columns];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| match column < by.len() {
            true => format!("  {cell:width$}"),
            false => format!("  {cell:>width$}"),
        });
        out.line(cells.collect::<String>().trim_end())?;
    }
    Ok(())
}

/// What a measure of a group says.
fn shown_measure(measured: &Aggregated) -> String {
    match measured {
        Aggregated::Count(count) => count.to_string(),
        Aggregated::Number(Some(number)) => number.to_string(),
        Aggregated::Value(Some(value)) => shown(value),
        _ => "-".into(),
    }
}

/// A value in a table: a string has no quotes.
fn shown(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), |text| text.into_owned())
}

fn show_table(name: &str, rows: &[(String, u64)], out: &mut Output) -> Result<()> {
    out.line(name)?;
    let widths = rows.iter().map(|(value, _)| value.chars().count());
    let width = widths.max().unwrap_or(0);
    for (value, count) in rows {
        out.line(format_args!("  {value:width$}  {count:>8}"))?;
    }
    Ok(())
}

/// Prints counts and aggregates of all documents that match, as one object, if there are any.
fn show_json(answer: &Answer, explain: Option<&ExplainText>, out: &mut Output) -> Result<()> {
    let mut all = BTreeMap::new();
    if let Some(count) = answer.count {
        all.insert("count", json!(count));
    }
    if !answer.aggregates.is_empty() {
        let aggregates = answer.aggregates.iter();
        let aggregates: serde_json::Map<_, _> = aggregates
            .map(|(name, aggregated)| (name.clone(), aggregated_json(aggregated)))
            .collect();
        all.insert("aggregates", aggregates.into());
    }
    if let Some(explain) = explain {
        all.insert("explain", explain.json.clone());
    }
    if answer.is_partial {
        all.insert("partial", json!(true));
    }
    match all.is_empty() {
        true => Ok(()),
        false => out.json_line(&all),
    }
}

fn aggregated_json(aggregated: &Aggregated) -> serde_json::Value {
    match aggregated {
        Aggregated::Count(count) => json!(count),
        Aggregated::Value(value) => json!(value.as_ref().map(value_json)),
        Aggregated::Number(number) => json!(number),
        Aggregated::Terms { terms, others } => {
            let terms: Vec<_> = terms
                .iter()
                .map(|(value, count)| json!({"value": value_json(value), "count": count}))
                .collect();
            json!({"values": terms, "others": others})
        }
        Aggregated::Histogram(counts) => counts
            .iter()
            .map(|(start, count)| json!({"from": start, "count": count}))
            .collect(),
        Aggregated::Groups {
            by,
            names,
            groups,
            all,
        } => {
            let object = |group: &Group| {
                let values = by.iter().map(ToString::to_string);
                let values = values.zip(group.values.iter().map(value_json));
                let measures = group.measures.iter().map(aggregated_json);
                let measures = names.iter().cloned().zip(measures);
                json!({
                    "group": values.collect::<serde_json::Map<_, _>>(),
                    "measures": measures.collect::<serde_json::Map<_, _>>(),
                })
            };
            json!({"groups": groups.iter().map(object).collect::<Vec<_>>(), "all": all})
        }
    }
}

fn value_json(value: &Value) -> serde_json::Value {
    let mut json = Vec::new();
    value.write_json(&mut json);
    // What was just written is JSON.
    serde_json::from_slice(&json).unwrap_or_default()
}
