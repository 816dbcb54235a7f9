//! `_cat` tables about nodes and shards, and those that are empty, as there is nothing of the kind.

use serde_json::Value;

use super::placement::NODE_ID;
use super::state::ClusterState;
use crate::collections::selection::Selection;
use crate::collections::states::States;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::glob;
use crate::http::table::{Cell, Column, TableFormat};

const NODES: &[Column] = &[
    ("ip", "i", "the address"),
    ("heap.percent", "hp", "none"),
    ("ram.percent", "rp", "none"),
    ("cpu", "cpu", "none"),
    ("load_1m", "l", "none"),
    ("load_5m", "l5", "none"),
    ("load_15m", "l15", "none"),
    ("node.role", "r", "d for data, m for cluster manager"),
    ("node.roles", "rs", "the same in full"),
    ("cluster_manager", "cm", "*"),
    ("name", "n", "the node's name"),
];

const MANAGER: &[Column] = &[
    ("id", "id", "the node's id"),
    ("host", "h", "the address"),
    ("ip", "ip", "the address"),
    ("node", "n", "the node's name"),
];

const SHARDS: &[Column] = &[
    ("index", "i", "the collection"),
    ("shard", "s", "the partition's number"),
    ("prirep", "p", "p: there are no replicas"),
    ("state", "st", "STARTED"),
    (
        "docs",
        "d",
        "documents, of the collection's first partition for all",
    ),
    (
        "store",
        "sto",
        "bytes on disk, of the collection's first partition for all",
    ),
    ("ip", "ip", "the address"),
    ("node", "n", "the node's name"),
];

const ALLOCATION: &[Column] = &[
    ("shards", "s", "partitions"),
    ("disk.indices", "di", "bytes of collections"),
    ("host", "h", "the address"),
    ("ip", "ip", "the address"),
    ("node", "n", "the node's name"),
];

const PLUGINS: &[Column] = &[
    ("name", "n", "the node's name"),
    ("component", "c", "none"),
    ("version", "v", "none"),
];

const PENDING: &[Column] = &[
    ("insertOrder", "o", "none"),
    ("timeInQueue", "t", "none"),
    ("priority", "p", "none"),
    ("source", "s", "none"),
];

const FIELDDATA: &[Column] = &[
    ("id", "id", "none"),
    ("host", "h", "none"),
    ("ip", "ip", "none"),
    ("node", "n", "none"),
    ("field", "f", "none"),
    ("size", "s", "none"),
];

const NODEATTRS: &[Column] = &[
    ("node", "name", "the node's name"),
    ("host", "h", "the address"),
    ("ip", "i", "the address"),
    ("attr", "attr.name", "none"),
    ("value", "attr.value", "none"),
];

const RECOVERY: &[Column] = &[
    ("index", "i", "none"),
    ("shard", "s", "none"),
    ("time", "t", "none"),
    ("type", "ty", "none"),
    ("stage", "st", "none"),
    ("source_node", "snode", "none"),
    ("target_node", "tnode", "none"),
    ("files_percent", "fp", "none"),
    ("bytes_percent", "bp", "none"),
];

const SEGMENTS: &[Column] = &[
    ("index", "i", "the collection"),
    ("shard", "s", "the partition's number"),
    ("prirep", "p", "p: there are no replicas"),
    ("ip", "ip", "the address"),
    ("segment", "seg", "_0: a partition is one"),
    ("generation", "g", "0"),
    (
        "docs.count",
        "dc",
        "documents, of the collection's first partition for all",
    ),
    ("docs.deleted", "dd", "0"),
    (
        "size",
        "si",
        "bytes on disk, of the collection's first partition for all",
    ),
    ("size.memory", "sm", "0"),
    ("committed", "ic", "true"),
    ("searchable", "is", "true"),
    ("version", "v", "none"),
    ("compound", "ico", "true"),
];

const REPOSITORIES: &[Column] = &[("id", "id", "none"), ("type", "t", "none")];

const TEMPLATES: &[Column] = &[
    ("name", "n", "the template"),
    ("index_patterns", "t", "the names that it is for"),
    ("order", "o", "its priority or order"),
    ("version", "v", "its version"),
    ("composed_of", "c", "its component templates"),
];

/// `GET /_cat/nodes`
pub(crate) async fn nodes(call: Call<ClusterState>) -> Outcome<Answer> {
    let format = TableFormat::of(&call.params, NODES)?;
    let mut row = vec![Cell::text(call.state.listen.ip().to_string())];
    row.extend((0..6).map(|_| Cell::Unknown));
    row.extend(["dm", "cluster_manager,data", "*", "quire"].map(Cell::text));
    Ok(format.answer(vec![row]))
}

/// `GET /_cat/cluster_manager`, `/_cat/master`
pub(crate) async fn manager(call: Call<ClusterState>) -> Outcome<Answer> {
    let format = TableFormat::of(&call.params, MANAGER)?;
    let ip = call.state.listen.ip().to_string();
    let row = [NODE_ID, &ip, &ip, "quire"].map(Cell::text);
    Ok(format.answer(vec![row.to_vec()]))
}

/// `GET /_cat/shards`, `/_cat/shards/{collection}`
pub(crate) async fn shards(call: Call<ClusterState>) -> Outcome<Answer> {
    let format = TableFormat::of(&call.params, SHARDS)?;
    by_partition(call, format, |of| {
        vec![
            Cell::text(of.collection),
            Cell::Number(of.number.into()),
            Cell::text("p"),
            Cell::text("STARTED"),
            Cell::Number(of.documents),
            Cell::Bytes(of.bytes),
            Cell::text(of.ip),
            Cell::text("quire"),
        ]
    })
    .await
}

/// `GET /_cat/segments`, `/_cat/segments/{collection}`
pub(crate) async fn segments(call: Call<ClusterState>) -> Outcome<Answer> {
    let format = TableFormat::of(&call.params, SEGMENTS)?;
    by_partition(call, format, |of| {
        vec![
            Cell::text(of.collection),
            Cell::Number(of.number.into()),
            Cell::text("p"),
            Cell::text(of.ip),
            Cell::text("_0"),
            Cell::Number(0),
            Cell::Number(of.documents),
            Cell::Number(0),
            Cell::Bytes(of.bytes),
            Cell::Number(0),
            Cell::text("true"),
            Cell::text("true"),
            Cell::text("-"),
            Cell::text("true"),
        ]
    })
    .await
}

/// What a row about a partition is made of.
struct Partition<'p> {
    collection: &'p str,
    number: u32,
    documents: u64,
    bytes: u64,
    ip: &'p str,
}

/// A table with a row for each partition.
async fn by_partition(
    call: Call<ClusterState>,
    format: TableFormat,
    row: fn(Partition<'_>) -> Vec<Cell>,
) -> Outcome<Answer> {
    let ip = call.state.listen.ip().to_string();
    let (engine, selection) = (
        call.state.engine.clone(),
        Selection::about(&call, States::ALL)?,
    );
    let work = move |engine: &Engine| {
        let mut rows = Vec::new();
        for collection in selection.collections(engine)? {
            let failed = |error: quiredb::Error| Failure::engine(&error, Some(collection.name()));
            let stats = collection.stats().map_err(failed)?;
            for number in 0..collection.settings().partitions {
                // What each partition has is not known apart.
                let (documents, bytes) = match number {
                    0 => (stats.documents, stats.disk_bytes),
                    _ => (0, 0),
                };
                rows.push(row(Partition {
                    collection: collection.name(),
                    number,
                    documents,
                    bytes,
                    ip: &ip,
                }));
            }
        }
        Ok(format.answer(rows))
    };
    engine.read(work).await?
}

/// `GET /_cat/allocation`
pub(crate) async fn allocation(call: Call<ClusterState>) -> Outcome<Answer> {
    let format = TableFormat::of(&call.params, ALLOCATION)?;
    let ip = call.state.listen.ip().to_string();
    let (engine, selection) = (
        call.state.engine.clone(),
        Selection::about(&call, States::ALL)?,
    );
    let work = move |engine: &Engine| {
        let (mut partitions, mut bytes) = (0, 0);
        for collection in selection.collections(engine)? {
            let failed = |error: quiredb::Error| Failure::engine(&error, Some(collection.name()));
            bytes += collection.stats().map_err(failed)?.disk_bytes;
            partitions += u64::from(collection.settings().partitions);
        }
        let mut row = vec![Cell::Number(partitions), Cell::Bytes(bytes)];
        row.extend([ip.as_str(), ip.as_str(), "quire"].map(Cell::text));
        Ok(format.answer(vec![row]))
    };
    engine.read(work).await?
}

/// `GET /_cat/plugins`, which are none.
pub(crate) async fn plugins(call: Call<Engine>) -> Outcome<Answer> {
    Ok(TableFormat::of(&call.params, PLUGINS)?.answer(Vec::new()))
}

/// `GET /_cat/pending_tasks`, which are none: changes are made at once.
pub(crate) async fn pending(call: Call<Engine>) -> Outcome<Answer> {
    Ok(TableFormat::of(&call.params, PENDING)?.answer(Vec::new()))
}

/// `GET /_cat/fielddata`, which there is not.
pub(crate) async fn fielddata(call: Call<Engine>) -> Outcome<Answer> {
    Ok(TableFormat::of(&call.params, FIELDDATA)?.answer(Vec::new()))
}

/// `GET /_cat/nodeattrs`, which are none.
pub(crate) async fn nodeattrs(call: Call<Engine>) -> Outcome<Answer> {
    Ok(TableFormat::of(&call.params, NODEATTRS)?.answer(Vec::new()))
}

/// `GET /_cat/recovery`, which are none: no partition is copied from node to node.
pub(crate) async fn recovery(call: Call<Engine>) -> Outcome<Answer> {
    Ok(TableFormat::of(&call.params, RECOVERY)?.answer(Vec::new()))
}

/// `GET /_cat/repositories`, which are none: backups are made by `_backup`.
pub(crate) async fn repositories(call: Call<Engine>) -> Outcome<Answer> {
    Ok(TableFormat::of(&call.params, REPOSITORIES)?.answer(Vec::new()))
}

/// `GET /_cat/templates`, `/_cat/templates/{name}`: index templates and legacy templates.
pub(crate) async fn templates(call: Call<Engine>) -> Outcome<Answer> {
    let format = TableFormat::of(&call.params, TEMPLATES)?;
    let patterns = call.path_param("name").unwrap_or("*");
    let is_named = |name: &str| glob(patterns.as_bytes(), name.as_bytes());
    let list = |texts: Option<&Value>| {
        let texts = texts.and_then(Value::as_array).into_iter().flatten();
        let texts: Vec<&str> = texts.filter_map(Value::as_str).collect();
        format!("[{}]", texts.join(", "))
    };
    let number = |number: Option<&Value>| number.map_or(String::new(), Value::to_string);
    let mut rows = Vec::new();
    for (key, template) in call.state.database().templates() {
        let (kind, name) = key.split_once('/').unwrap_or_default();
        let (order, composed_of) = match kind {
            "index" => (template.get("priority"), list(template.get("composed_of"))),
            "legacy" => (template.get("order"), String::new()),
            _ => continue,
        };
        if !is_named(name) {
            continue;
        }
        rows.push(vec![
            Cell::text(name),
            Cell::text(list(template.get("index_patterns"))),
            Cell::text(number(order)),
            Cell::text(number(template.get("version"))),
            Cell::text(composed_of),
        ]);
    }
    Ok(format.answer(rows))
}
