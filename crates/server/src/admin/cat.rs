//! `_cat`: what there is, as tables.

use serde_json::Value;

use super::cluster::status;
use crate::collections::api_settings::{created, date_text};
use crate::collections::selection::{Searched, Selection};
use crate::collections::states::States;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::Outcome;
use crate::http::fields::glob;
use crate::http::table::{Cell, Column, TableFormat, time_of_day};
use crate::ids::uuid;

const INDICES: &[Column] = &[
    ("health", "h", "whether it serves"),
    ("status", "s", "open or close"),
    ("index", "i,idx", "the collection"),
    ("uuid", "id,uuid", "what no other collection has"),
    ("pri", "p,shards.primary,shardsPrimary", "partitions"),
    (
        "rep",
        "r,shards.replica,shardsReplica",
        "copies of each partition: none",
    ),
    ("docs.count", "dc,docsCount", "documents"),
    ("docs.deleted", "dd,docsDeleted", "0"),
    ("store.size", "ss,storeSize", "bytes on disk"),
    ("pri.store.size", "pri.store.size", "bytes on disk"),
    (
        "creation.date",
        "cd",
        "when it was made over HTTP: milliseconds since 1970 UTC",
    ),
    ("creation.date.string", "cds", "the same as text"),
];

const ALIASES: &[Column] = &[
    ("alias", "a", "the alias"),
    ("index", "i", "a collection that it stands for"),
    ("filter", "f", "* if it has a filter"),
    (
        "routing.index",
        "ri",
        "the routing that was given for writes",
    ),
    (
        "routing.search",
        "rs",
        "the routing that was given for searches",
    ),
    (
        "is_write_index",
        "w",
        "whether writes go there, if that is said",
    ),
];

const COUNT: &[Column] = &[
    ("epoch", "t,time", "seconds since 1970 UTC"),
    ("timestamp", "ts,hms,hhmmss", "the time of the day, UTC"),
    ("count", "dc", "documents"),
];

const HEALTH: &[Column] = &[
    ("epoch", "t,time", "seconds since 1970 UTC"),
    ("timestamp", "ts,hms,hhmmss", "the time of the day, UTC"),
    ("cluster", "cl", "the cluster's name"),
    ("status", "st", "green, yellow or red"),
    ("node.total", "nt", "1"),
    ("node.data", "nd", "1"),
    ("discovered_cluster_manager", "dcm", "true"),
    ("shards", "sh", "partitions"),
    ("pri", "p", "partitions"),
    ("relo", "r", "0"),
    ("init", "i", "0"),
    ("unassign", "u", "0"),
    ("pending_tasks", "pt", "0"),
    ("max_task_wait_time", "mtwt", "none"),
    ("active_shards_percent", "asp", "100.0%"),
];

/// `GET /_cat/indices`
pub(crate) async fn indices(call: Call<Engine>) -> Outcome<Answer> {
    let is_default = |name: &str| !name.starts_with("creation.date");
    let format = TableFormat::with(&call.params, INDICES, is_default)?;
    let why = "it is green, yellow or red";
    call.params
        .only("health", &["green", "yellow", "red"], why)?;
    let is_shown = call.params.text("health").is_none_or(|it| it == "green");
    let selection = Selection::about(&call, States::VISIBLE)?;
    let work = move |engine: &Engine| {
        let mut rows = Vec::new();
        for collection in selection.all(engine)? {
            if !is_shown {
                continue;
            }
            let stats = collection.stats()?;
            let plain = collection.plain();
            let is_closed = plain.is_some_and(|plain| plain.settings().api.closed);
            let created = plain.and_then(|plain| created(&plain.settings().api));
            let of_open = |cell| if is_closed { Cell::text("") } else { cell };
            rows.push(vec![
                Cell::text("green"),
                Cell::text(if is_closed { "close" } else { "open" }),
                Cell::text(stats.name),
                Cell::text(uuid(collection.identity())),
                Cell::Number(stats.partitions.into()),
                Cell::Number(0),
                of_open(Cell::Number(stats.documents)),
                of_open(Cell::Number(0)),
                of_open(Cell::Bytes(stats.disk_bytes)),
                of_open(Cell::Bytes(stats.disk_bytes)),
                created.map_or(Cell::Unknown, |created| {
                    Cell::Number(u64::try_from(created).unwrap_or(0))
                }),
                created.map_or(Cell::Unknown, |created| Cell::text(date_text(created))),
            ]);
        }
        Ok(format.answer(rows))
    };
    call.state.read(work).await?
}

/// `GET /_cat/aliases`, `/_cat/aliases/{name}`
pub(crate) async fn aliases(call: Call<Engine>) -> Outcome<Answer> {
    let format = TableFormat::of(&call.params, ALIASES)?;
    let patterns = call.path_param("name").unwrap_or("*").to_owned();
    let states = call.params.text("expand_wildcards").map(States::parse);
    let states = states.transpose()?.unwrap_or(States::ALL);
    let database = call.state.database();
    let (aliases, kept) = (database.aliases(), database.api_settings());
    let is_named = |alias: &str| {
        let mut patterns = patterns.split(',');
        patterns.any(|pattern| glob(pattern.as_bytes(), alias.as_bytes()))
    };
    let mut rows = Vec::new();
    for (name, collections) in aliases.iter().filter(|(name, _)| is_named(name)) {
        let shown = collections.iter().filter(|(name, alias)| {
            let is_shown = states.has_hidden() || alias.is_hidden != Some(true);
            is_shown && states.has(kept.get(*name))
        });
        for (collection, alias) in shown {
            let filter = alias.filter.as_ref().map_or("-", |_: &Value| "*");
            let is_write_index = alias.is_write_index.map(|it| it.to_string());
            rows.push(vec![
                Cell::text(name),
                Cell::text(collection),
                Cell::text(filter),
                Cell::text(alias.index_routing.as_deref().unwrap_or("-")),
                Cell::text(alias.search_routing.as_deref().unwrap_or("-")),
                Cell::text(is_write_index.unwrap_or_else(|| "-".to_owned())),
            ]);
        }
    }
    Ok(format.answer(rows))
}

/// `GET /_cat/count`, `/_cat/count/{collection}`
pub(crate) async fn count(call: Call<Engine>) -> Outcome<Answer> {
    let format = TableFormat::of(&call.params, COUNT)?;
    let selection = Selection::of(&call)?;
    let work = move |engine: &Engine| {
        let collections = selection.all(engine)?;
        let count: Outcome<u64> = collections.iter().map(Searched::count).sum();
        let mut row = now(engine);
        row.push(Cell::Number(count?));
        Ok(format.answer(vec![row]))
    };
    call.state.read(work).await?
}

/// `GET /_cat/health`
pub(crate) async fn health(call: Call<Engine>) -> Outcome<Answer> {
    let has_time = call.params.flag("ts")?.unwrap_or(true);
    let is_shown = |name: &str| has_time || !matches!(name, "epoch" | "timestamp");
    let format = TableFormat::with(&call.params, HEALTH, is_shown)?;
    let selection = Selection::watched(&call, States::ALL)?;
    let work = move |engine: &Engine| {
        let collections = selection.all(engine)?;
        let partitions = collections.iter();
        let partitions = partitions.map(|one| u64::from(one.partitions())).sum();
        let mut row = now(engine);
        row.extend([
            Cell::text("quire"),
            Cell::text(status(engine)),
            Cell::Number(1),
            Cell::Number(1),
            Cell::text("true"),
            Cell::Number(partitions),
            Cell::Number(partitions),
        ]);
        row.extend((0..4).map(|_| Cell::Number(0)));
        row.extend([Cell::text("-"), Cell::text("100.0%")]);
        Ok(format.answer(vec![row]))
    };
    call.state.read(work).await?
}

/// The seconds since 1970, and the time of the day.
fn now(engine: &Engine) -> Vec<Cell> {
    let (micros, _) = engine.clock();
    let seconds = micros.div_euclid(1_000_000);
    vec![
        Cell::text(seconds.to_string()),
        Cell::text(time_of_day(micros)),
    ]
}
