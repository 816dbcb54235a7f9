//! `_cat` tables about nodes, and those that are empty, as there is nothing of the kind.

use serde_json::Value;

use super::cluster_stats::totals;
use super::machine::Machine;
use super::node_stats;
use super::nodes::is_named;
use super::state::ClusterState;
use crate::collections::selection::Selection;
use crate::collections::states::States;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::glob;
use crate::http::table::{Cell, Column, TableFormat, millis};
use crate::tasks::listed::NODE;

/// The letters of a node's id that are shown where it is not to be whole.
const ID_CHARS: usize = 4;

const NODES: &[Column] = &[
    (
        "id",
        "id,nodeId",
        "the node's id; four letters of it without full_id",
    ),
    ("pid", "p", "the process"),
    ("ip", "i", "the address"),
    ("port", "po", "the port"),
    ("http_address", "http", "the address and the port"),
    (
        "version",
        "v",
        "the version of OpenSearch that is answered as",
    ),
    ("type", "t", "quire"),
    ("build", "b", "unknown"),
    (
        "disk.total",
        "dt,diskTotal",
        "bytes of the file systems of the volumes",
    ),
    ("disk.used", "du,diskUsed", "bytes of them that are used"),
    (
        "disk.avail",
        "d,da,disk,diskAvail",
        "bytes of them that are free",
    ),
    (
        "disk.used_percent",
        "dup,diskUsedPercent",
        "the share that is used",
    ),
    (
        "heap.current",
        "hc,heapCurrent",
        "bytes of memory that the database uses",
    ),
    (
        "heap.percent",
        "hp,heapPercent",
        "the share of what it may use",
    ),
    (
        "heap.max",
        "hm,heapMax",
        "bytes of memory that the database may use",
    ),
    (
        "ram.current",
        "rc,ramCurrent",
        "bytes of the machine's memory that are used",
    ),
    ("ram.percent", "rp,ramPercent", "the share of them"),
    ("ram.max", "rn,ramMax", "bytes of the machine's memory"),
    (
        "file_desc.current",
        "fdc,fileDescriptorCurrent",
        "files that are open",
    ),
    (
        "file_desc.percent",
        "fdp,fileDescriptorPercent",
        "the share of them",
    ),
    (
        "file_desc.max",
        "fdm,fileDescriptorMax",
        "files that may be open",
    ),
    ("cpu", "cpu", "-1: it is not measured"),
    ("load_1m", "l", "the load of the machine over a minute"),
    ("load_5m", "l5", "over five minutes"),
    ("load_15m", "l15", "over fifteen"),
    ("uptime", "u", "how long it has been serving"),
    (
        "node.role",
        "r,role,nodeRole",
        "d for data, m for cluster manager",
    ),
    ("node.roles", "rs,all roles", "the same in full"),
    ("cluster_manager", "cm,m,master", "*"),
    ("name", "n", "the node's name"),
];

/// The columns of nodes that are shown without `h`.
const NODES_SHOWN: [&str; 11] = [
    "ip",
    "heap.percent",
    "ram.percent",
    "cpu",
    "load_1m",
    "load_5m",
    "load_15m",
    "node.role",
    "node.roles",
    "cluster_manager",
    "name",
];

const MANAGER: &[Column] = &[
    ("id", "id", "the node's id"),
    ("host", "h", "the address"),
    ("ip", "ip", "the address"),
    ("node", "n", "the node's name"),
];

const ALLOCATION: &[Column] = &[
    ("shards", "s", "partitions"),
    ("disk.indices", "di,diskIndices", "bytes of collections"),
    (
        "disk.used",
        "du,diskUsed",
        "bytes of the file systems of the volumes that are used",
    ),
    ("disk.avail", "da,diskAvail", "bytes of them that are free"),
    ("disk.total", "dt,diskTotal", "bytes of them"),
    ("disk.percent", "dp,diskPercent", "the share that is used"),
    ("host", "h", "the address"),
    ("ip", "ip", "the address"),
    ("node", "n", "the node's name"),
];

const PLUGINS: &[Column] = &[
    ("id", "id", "none"),
    ("name", "n", "none"),
    ("component", "c", "none"),
    ("version", "v", "none"),
    ("description", "d", "none"),
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
    ("node", "name", "none"),
    ("id", "id,nodeId", "none"),
    ("pid", "p", "none"),
    ("host", "h", "none"),
    ("ip", "i", "none"),
    ("port", "po", "none"),
    ("attr", "attr.name", "none"),
    ("value", "attr.value", "none"),
];

const SNAPSHOTS: &[Column] = &[
    ("id", "id,snapshot", "none"),
    ("status", "s", "none"),
    ("start_epoch", "ste,startEpoch", "none"),
    ("start_time", "sti,startTime", "none"),
    ("end_epoch", "ete,endEpoch", "none"),
    ("end_time", "eti,endTime", "none"),
    ("duration", "dur", "none"),
    ("indices", "i", "none"),
    ("successful_shards", "ss", "none"),
    ("failed_shards", "fs", "none"),
    ("total_shards", "ts", "none"),
    ("reason", "r", "none"),
];

const REPOSITORIES: &[Column] = &[("id", "id", "none"), ("type", "t", "none")];

const TEMPLATES: &[Column] = &[
    ("name", "n", "the template"),
    ("index_patterns", "t", "the names that it is for"),
    ("order", "o", "its priority or order"),
    ("version", "v", "its version"),
    ("composed_of", "c", "its component templates"),
];

/// What the file systems of the volumes have together: all, used and free bytes.
fn disk(engine: &Engine) -> Outcome<[u64; 3]> {
    let fs = node_stats::fs(engine)?;
    let of = |name: &str| fs["total"][name].as_u64().unwrap_or_default();
    let (total, free) = (of("total_in_bytes"), of("available_in_bytes"));
    Ok([total, total.saturating_sub(free), free])
}

/// `GET /_cat/nodes`
pub(crate) async fn nodes(call: Call<ClusterState>) -> Outcome<Answer> {
    let is_default = |name: &str| NODES_SHOWN.contains(&name);
    let format = TableFormat::with(&call.params, NODES, is_default)?;
    let is_full = call.params.flag("full_id")?.unwrap_or(false);
    let (engine, state) = (call.state.engine.clone(), call.state);
    let work = move |engine: &Engine| {
        let stats = engine.database().stats();
        let stats = stats.map_err(|error| Failure::engine(&error, None))?;
        let machine = Machine::read(&**engine.database().env());
        let [total, used, free] = disk(engine)?;
        let share = 100.0 * used as f64 / total.max(1) as f64;
        let percent = |part: u64, all: u64| (part * 100).checked_div(all).unwrap_or_default();
        let bytes = |bytes: Option<u64>| bytes.map_or(Cell::Unknown, Cell::Bytes);
        let number = |number: Option<u64>| number.map_or(Cell::Unknown, Cell::Number);
        let load = |at: usize| {
            let load = machine.load.and_then(|load| load.get(at).copied());
            load.map_or(Cell::Unknown, |load| Cell::text(format!("{load:.2}")))
        };
        let ram_used = machine.memory_bytes.zip(machine.memory_free_bytes);
        let files = machine.files.zip(machine.files_max);
        let id = NODE.get(..ID_CHARS).filter(|_| !is_full).unwrap_or(NODE);
        let uptime = u64::try_from(engine.uptime().as_millis()).unwrap_or(u64::MAX);
        let row = vec![
            Cell::text(id),
            Cell::text(std::process::id().to_string()),
            Cell::text(state.listen.ip().to_string()),
            Cell::text(state.listen.port().to_string()),
            Cell::text(state.listen.to_string()),
            Cell::text(state.compat.version()),
            Cell::text("quire"),
            Cell::text("unknown"),
            Cell::Bytes(total),
            Cell::Bytes(used),
            Cell::Bytes(free),
            Cell::text(format!("{share:.2}")),
            Cell::Bytes(stats.memory_used_bytes),
            Cell::Number(percent(stats.memory_used_bytes, stats.memory_bytes)),
            Cell::Bytes(stats.memory_bytes),
            bytes(ram_used.map(|(all, free)| all.saturating_sub(free))),
            number(machine.memory_percent()),
            bytes(machine.memory_bytes),
            number(machine.files),
            number(files.map(|(open, most)| percent(open, most))),
            number(machine.files_max),
            Cell::text("-1"),
            load(0),
            load(1),
            load(2),
            Cell::text(millis(uptime)),
            Cell::text("dm"),
            Cell::text("cluster_manager,data"),
            Cell::text("*"),
            Cell::text(NODE),
        ];
        Ok(format.answer(vec![row]))
    };
    engine.read(work).await?
}

/// `GET /_cat/cluster_manager`, `/_cat/master`
pub(crate) async fn manager(call: Call<ClusterState>) -> Outcome<Answer> {
    let format = TableFormat::of(&call.params, MANAGER)?;
    let ip = call.state.listen.ip().to_string();
    let row = [NODE, &ip, &ip, NODE].map(Cell::text);
    Ok(format.answer(vec![row.to_vec()]))
}

/// `GET /_cat/allocation`, `/_cat/allocation/{id}`
pub(crate) async fn allocation(call: Call<ClusterState>) -> Outcome<Answer> {
    let format = TableFormat::of(&call.params, ALLOCATION)?;
    if !is_named(&call.state, call.path_param("id").unwrap_or("_all")) {
        return Ok(format.answer(Vec::new()));
    }
    let ip = call.state.listen.ip().to_string();
    let (engine, selection) = (
        call.state.engine.clone(),
        Selection::watched(&call, States::ALL)?,
    );
    let work = move |engine: &Engine| {
        let totals = totals(engine, &selection)?;
        let [total, used, free] = disk(engine)?;
        let percent = (used * 100).checked_div(total).unwrap_or_default();
        let mut row = vec![
            Cell::Number(totals.partitions),
            Cell::Bytes(totals.bytes),
            Cell::Bytes(used),
            Cell::Bytes(free),
            Cell::Bytes(total),
            Cell::Number(percent),
        ];
        row.extend([ip.as_str(), ip.as_str(), NODE].map(Cell::text));
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

/// `GET /_cat/snapshots`, which are none: backups are made by `_backup`.
pub(crate) async fn snapshots(call: Call<Engine>) -> Outcome<Answer> {
    Ok(TableFormat::of(&call.params, SNAPSHOTS)?.answer(Vec::new()))
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
