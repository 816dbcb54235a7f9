//! `quire query`: finds documents by their fields, counts and aggregates them.

use crate::Context;
use crate::error::{Error, Result};
use crate::field_names::fields_of;
use crate::message::print_message;
use crate::output::{Output, key_json};
use crate::source::Source;
use quiredb::query::{
    Aggregate, Aggregated, Answer, Explain, Filter, Group, Options, Order, Path as Field, Prepared,
    Query, Trace, UnknownFields, Value, find, write_fields,
};
use quiredb::{Document, ID, Key};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The default limit.
const LIMIT: u64 = 10;

/// The count of values of a facet.
const FACET_VALUES: u64 = 10;

/// Documents that are read together; it bounds the documents in memory.
const SHOWN_AT_ONCE: usize = 256;

/// Find documents by their fields; count and aggregate them
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Conditions are those of SQL: = <> < <= > >=, BETWEEN, IN, LIKE 'prefix%', IS NULL, IS NOT NULL,
AND, OR, NOT. A dotted name is a field within objects and arrays. Strings are in 'single quotes',
unusual names in \"double quotes\". A condition holds for an array if it holds for one value of it.
See docs/QUERYING.md.

Examples:
  quire query ./db cars --where \"mark = 'audi' AND price < 20000\" --order 'price desc'
  quire query ./db cars --where \"at.city LIKE 'Ul%'\" --fields mark,price --limit 3
  quire query ./db cars --where 'sold IS NULL' --count      only the count
  quire query ./db cars --facet mark --facet at.city        the documents of each value, counted
  quire query ./cars.quire --where \"mark = 'audi'\"         a frozen file, or a folder of them
  quire query ./db cars --aggregate 'avg(price)' \\
        --aggregate \"max(price) WHERE mark = 'fiat'\"
  quire query ./db cars --aggregate 'group(mark, sold: count(), avg(price) AS mean
        HAVING mean > 1000 ORDER BY mean DESC LIMIT 5)'")]
pub(crate) struct QueryCommand {
    /// The directory of the database; or a frozen file, or a folder of them
    db: PathBuf,
    /// The collection; none for frozen files
    collection: Option<String>,
    /// The condition that documents must fulfil [default: all documents]
    #[arg(long = "where", value_name = "CONDITION")]
    filter: Option<String>,
    /// The fields to sort by: `price desc, added`; documents with equal values, and all without
    /// this option, are in the order in which they were first written
    #[arg(long, value_name = "FIELDS")]
    order: Option<String>,
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
        let query = self.query()?;
        let query = query.prepare().map_err(|error| usage("", &error))?;
        let source = Source::open(context, &self.db, self.collection.as_deref())?;
        let env = context.env.clone();
        let clock = move || env.monotonic();
        let end = self.timeout.map(|seconds| {
            let timeout = Duration::try_from_secs_f64(seconds);
            clock().saturating_add(timeout.unwrap_or(Duration::ZERO))
        });
        let is_over = || end.is_some_and(|end| clock() >= end);
        let options = Options {
            unknown_fields: match self.strict {
                true => UnknownFields::Refuse,
                false => UnknownFields::MatchNothing,
            },
            clock: match self.explain {
                true => Some(&clock),
                false => None,
            },
            stop: Some(&is_over),
            partial: self.partial,
            ..Options::default()
        };
        let answer = source.query(&query, &options)?;
        if answer.is_partial {
            print_message("the time was over: this is what was found until then");
        }
        show_documents(&source, &query, &answer, &mut context.out)?;
        match context.out.is_json() {
            true => show_json(&answer, &mut context.out),
            false => show_text(&answer, &mut context.out),
        }
    }

    fn query(&self) -> Result<Query> {
        let filter = match &self.filter {
            Some(text) => Filter::parse(text).map_err(|error| usage("--where: ", &error))?,
            None => Filter::All,
        };
        let mut query = find(filter).skip(self.skip);
        if let Some(text) = &self.order {
            query.order = Order::parse_list(text).map_err(|error| usage("--order: ", &error))?;
        }
        query.count = self.count;
        let fields = self.fields.as_deref().map(fields_of);
        query.fields = fields.transpose()?;
        for field in fields_of(&self.facet)? {
            let name = field.as_str().to_owned();
            query = query.aggregate(&name, Aggregate::terms(field, FACET_VALUES));
        }
        for text in &self.aggregate {
            let aggregate =
                Aggregate::parse(text).map_err(|error| usage("--aggregate: ", &error))?;
            query = query.aggregate(text, aggregate);
        }
        let is_about_all = self.count || !query.aggregates.is_empty();
        query.limit = match (self.all, self.limit) {
            (true, _) => None,
            (false, Some(limit)) => Some(limit),
            (false, None) if is_about_all => Some(0),
            (false, None) => Some(LIMIT),
        };
        Ok(query)
    }
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

/// These fields of a document, as JSON. `_id` among them is the key, where the document has no such
/// field.
fn selected(fields: &[Field], document: &Document, key: Option<&Key>) -> String {
    let mut json = Vec::new();
    write_fields(document.root(), fields, &mut json);
    let json = String::from_utf8_lossy(&json).into_owned();
    let has_key = fields.iter().any(|field| field.as_str() == ID);
    let (Some(key), true, None) = (key, has_key, document.get(ID)) else {
        return json;
    };
    let comma = if json == "{}" { "" } else { "," };
    let rest = json.strip_prefix('{').unwrap_or_default();
    format!("{{\"{ID}\":{}{comma}{rest}", key_json(key))
}

/// Prints counts and aggregates of all documents that match, for people.
pub(crate) fn show_text(answer: &Answer, out: &mut Output) -> Result<()> {
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
    match &answer.explain {
        Some(explain) => out.line(explain.to_string().trim_end()),
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
fn show_json(answer: &Answer, out: &mut Output) -> Result<()> {
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
    if let Some(explain) = &answer.explain {
        all.insert("explain", explain_json(explain));
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

fn explain_json(explain: &Explain) -> serde_json::Value {
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
