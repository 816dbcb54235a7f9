//! `_nodes/stats`: what the node holds, has done, and has of the machine.
//!
//! There is no virtual machine: `jvm` has the memory that the database may use as its heap, the
//! threads of the process, and the buffers of requests as direct buffers. Of what a share of time
//! is needed, that is not measured, the share is -1, as OpenSearch says where it does not know.

use serde_json::{Map, Value, json};

use super::machine::{FileSystem, Machine};
use super::nodes::{answer, is_named, node};
use super::state::ClusterState;
use crate::collections::figures::{add, part_names};
use crate::collections::selection::Selection;
use crate::collections::states::States;
use crate::collections::stats_calls::{Figures, Level, Wanted};
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::parts::Parts;
use crate::tasks::pools::{KINDS, kind_of};

/// The parts of what `_nodes/stats` says.
const PARTS: [&str; 15] = [
    "indices",
    "os",
    "process",
    "jvm",
    "thread_pool",
    "fs",
    "transport",
    "http",
    "breaker",
    "script",
    "discovery",
    "ingest",
    "adaptive_selection",
    "indexing_pressure",
    "search_backpressure",
];

/// `GET /_nodes/stats`, `/_nodes/stats/{name}`, `/_nodes/stats/{name}/{index_metric}`, and the same
/// behind `/_nodes/{id}`.
pub(crate) async fn stats(call: Call<ClusterState>) -> Outcome<Answer> {
    let level = Level::of(&call.params, Level::Cluster)?;
    let wanted = Wanted::of(&call, "index_metric")?;
    let parts = Parts::of(&call, "name", &PARTS)?;
    if !is_named(&call.state, call.path_param("id").unwrap_or("_all")) {
        return Ok(answer(None));
    }
    let selection = Selection::watched(&call, States::ALL)?;
    let state = call.state;
    let engine = state.engine.clone();
    let work = move |engine: &Engine| {
        let mut shown = node(&state);
        shown.insert("timestamp".to_owned(), engine.now_millis().into());
        let machine = Machine::read(&**engine.database().env());
        // opensearch-java requires figures of pools that are not counted here.
        let is_wanted =
            |part: &&str| parts.has(part) && !(*part == "thread_pool" && parts.are_all());
        for part in PARTS.into_iter().filter(is_wanted) {
            let value = match part {
                "indices" => indices(engine, &state, &selection, &wanted, level)?,
                "fs" => fs(engine)?,
                "jvm" => jvm(engine, &state, &machine)?,
                part => match simple(engine, &state, &machine, part) {
                    Some(value) => value,
                    None => continue,
                },
            };
            let name = if part == "breaker" { "breakers" } else { part };
            shown.insert(name.to_owned(), value);
        }
        Ok(answer(Some(shown)))
    };
    engine.read(work).await?
}

/// The figures of all collections together, and apart as far as the level says.
fn indices(
    engine: &Engine,
    state: &ClusterState,
    selection: &Selection,
    wanted: &Wanted,
    level: Level,
) -> Outcome<Value> {
    let (mut sum, mut by_name, mut by_shard) = (json!({}), Map::new(), Map::new());
    for collection in selection.all(engine)? {
        let figures = Figures::of(&collection, &state.contexts, wanted)?;
        add(&mut sum, &figures.all);
        let shards = figures.partitions.into_iter().enumerate();
        let shards = shards.map(|(at, (figures, _))| json!({at.to_string(): figures}));
        by_shard.insert(
            collection.name().to_owned(),
            shards.collect::<Vec<_>>().into(),
        );
        by_name.insert(collection.name().to_owned(), figures.all);
    }
    if by_name.is_empty() {
        sum = Figures::none(engine, wanted);
    }
    match level {
        Level::Cluster => {}
        Level::Indices => sum["indices"] = by_name.into(),
        Level::Shards => sum["shards"] = by_shard.into(),
    }
    debug_assert!(
        sum.as_object()
            .is_none_or(|sum| sum.len() <= part_names().len() + 1),
        "figures have the parts that there are"
    );
    Ok(sum)
}

pub(super) fn fs(engine: &Engine) -> Outcome<Value> {
    let stats = engine.database().stats();
    let stats = stats.map_err(|error| Failure::engine(&error, None))?;
    let volumes = stats.volumes.iter().filter(|volume| !volume.lost);
    let found: Vec<FileSystem> = volumes
        .filter_map(|volume| FileSystem::of(&volume.path))
        .collect();
    let (mut data, mut mounts) = (Vec::new(), Vec::new());
    let mut total = [0; 3];
    for system in &found {
        let FileSystem {
            path,
            mount,
            kind,
            total_bytes,
            free_bytes,
            available_bytes,
        } = system;
        data.push(json!({
            "path": path,
            "mount": mount,
            "type": kind,
            "total_in_bytes": total_bytes,
            "free_in_bytes": free_bytes,
            "available_in_bytes": available_bytes,
        }));
        // Two volumes of one file system have its room once.
        if !mounts.contains(&mount) {
            mounts.push(mount);
            total[0] += total_bytes;
            total[1] += free_bytes;
            total[2] += available_bytes;
        }
    }
    Ok(json!({
        "timestamp": engine.now_millis(),
        "total": {
            "total_in_bytes": total[0],
            "free_in_bytes": total[1],
            "available_in_bytes": total[2],
            "cache_reserved_in_bytes": 0,
        },
        "data": data,
        "io_stats": {},
    }))
}

fn jvm(engine: &Engine, state: &ClusterState, machine: &Machine) -> Outcome<Value> {
    let stats = engine.database().stats();
    let stats = stats.map_err(|error| Failure::engine(&error, None))?;
    let percent = (stats.memory_used_bytes * 100).checked_div(stats.memory_bytes);
    let buffers = state.buffers.used_bytes();
    Ok(json!({
        "timestamp": engine.now_millis(),
        "uptime_in_millis": u64::try_from(engine.uptime().as_millis()).unwrap_or(u64::MAX),
        "mem": {
            "heap_used_in_bytes": stats.memory_used_bytes,
            "heap_used_percent": percent,
            "heap_committed_in_bytes": stats.memory_bytes,
            "heap_max_in_bytes": stats.memory_bytes,
            "non_heap_used_in_bytes": 0,
            "non_heap_committed_in_bytes": 0,
            "pools": {},
        },
        "threads": {"count": machine.threads, "peak_count": machine.threads},
        "gc": {"collectors": {}},
        "buffer_pools": {
            "direct": {
                "count": u64::from(buffers > 0),
                "used_in_bytes": buffers,
                "total_capacity_in_bytes": state.buffers.bytes(),
            },
            "mapped": {"count": 0, "used_in_bytes": 0, "total_capacity_in_bytes": 0},
        },
        "classes": {
            "current_loaded_count": 0,
            "total_loaded_count": 0,
            "total_unloaded_count": 0,
        },
    }))
}

fn simple(engine: &Engine, state: &ClusterState, machine: &Machine, part: &str) -> Option<Value> {
    let now = engine.now_millis();
    Some(match part {
        "os" => os(machine, now),
        "process" => json!({
            "timestamp": now,
            "open_file_descriptors": machine.files,
            "max_file_descriptors": machine.files_max,
            "cpu": {"percent": -1, "total_in_millis": machine.cpu_millis},
            "mem": {"total_virtual_in_bytes": machine.virtual_bytes},
        }),
        "thread_pool" => thread_pools(engine, state),
        // Nodes do not speak to one another.
        "transport" => json!({
            "server_open": 0,
            "total_outbound_connections": 0,
            "rx_count": 0,
            "rx_size_in_bytes": 0,
            "tx_count": 0,
            "tx_size_in_bytes": 0,
        }),
        "http" => json!({
            "current_open": state.connections.open(),
            "total_opened": state.connections.opened(),
        }),
        "breaker" | "adaptive_selection" => json!({}),
        "script" => json!({
            "compilations": 0,
            "cache_evictions": 0,
            "compilation_limit_triggered": 0,
        }),
        "discovery" => json!({
            "cluster_state_queue": {"total": 0, "pending": 0, "committed": 0},
            "published_cluster_states": {
                "full_states": 0,
                "incompatible_diffs": 0,
                "compatible_diffs": 0,
            },
        }),
        "ingest" => json!({
            "total": {"count": 0, "time_in_millis": 0, "current": 0, "failed": 0},
            "pipelines": {},
        }),
        "indexing_pressure" => pressure(engine, state),
        _ => json!({"mode": "disabled"}),
    })
}

fn os(machine: &Machine, now: i64) -> Value {
    let memory = |all: Option<u64>, free: Option<u64>| {
        let used = all.zip(free).map(|(all, free)| all.saturating_sub(free));
        json!({"total_in_bytes": all, "free_in_bytes": free, "used_in_bytes": used})
    };
    let mut mem = memory(machine.memory_bytes, machine.memory_free_bytes);
    let percent = machine.memory_percent();
    mem["used_percent"] = json!(percent);
    mem["free_percent"] = json!(percent.map(|used| 100 - used));
    let mut cpu = json!({"percent": -1});
    if let Some([one, five, fifteen]) = machine.load {
        cpu["load_average"] = json!({"1m": one, "5m": five, "15m": fifteen});
    }
    json!({
        "timestamp": now,
        "cpu": cpu,
        "mem": mem,
        "swap": memory(machine.swap_bytes, machine.swap_free_bytes),
    })
}

fn thread_pools(engine: &Engine, state: &ClusterState) -> Value {
    let tasks = state.tasks.all();
    let pool = |kind: &str| {
        let active = tasks.iter().filter(|task| kind_of(task.action) == kind);
        let size = state.pools.iter().find(|(name, _)| *name == kind);
        let pool = json!({
            "threads": size.map(|(_, size)| size),
            "queue": 0,
            "active": active.count(),
            "rejected": engine.rejected(kind),
        });
        (kind.to_owned(), pool)
    };
    let pools: Map<String, Value> = KINDS.into_iter().map(pool).collect();
    pools.into()
}

/// The memory of requests, which is that of reads and searches too. What they have had in all is
/// not summed, and is 0.
fn pressure(engine: &Engine, state: &ClusterState) -> Value {
    let used = state.buffers.used_bytes();
    let memory = |bytes: u64| {
        json!({
            "combined_coordinating_and_primary_in_bytes": bytes,
            "coordinating_in_bytes": bytes,
            "primary_in_bytes": 0,
            "replica_in_bytes": 0,
            "all_in_bytes": bytes,
        })
    };
    let mut total = memory(0);
    total["coordinating_rejections"] = state.requests.rejected().into();
    total["primary_rejections"] = 0.into();
    total["replica_rejections"] = 0.into();
    json!({"memory": {
        "current": memory(used),
        "total": total,
        "limit_in_bytes": engine.database().work().limit(),
    }})
}
