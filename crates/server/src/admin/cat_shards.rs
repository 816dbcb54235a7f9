//! `_cat` tables about shards: partitions, their segments, and how they were opened.

use quiredb::CollectionStats;
use serde_json::Value;

use super::shards::{Recovery, VERSION};
use super::state::ClusterState;
use crate::collections::figures::Shown;
use crate::collections::selection::{Searched, Selection};
use crate::collections::states::States;
use crate::collections::stats_calls::{Figures, Wanted};
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::Outcome;
use crate::http::parts::Parts;
use crate::http::table::{Cell, Column, TableFormat, millis};
use crate::tasks::listed::NODE;

/// The columns of shards that are no figures, then those that are, of which OpenSearch has more
/// than Quire.
const SHARDS: &[Column] = &[
    ("index", "i,idx", "the collection"),
    ("shard", "s,sh", "the partition's number"),
    (
        "prirep",
        "p,pr,primaryOrReplica",
        "p: there are no replicas",
    ),
    ("state", "st", "STARTED"),
    ("docs", "d,dc", "documents"),
    ("store", "sto", "bytes on disk"),
    ("ip", "ip", "the address"),
    ("id", "id", "the node's id"),
    ("node", "n", "the node's name"),
    ("sync_id", "sync_id", "none"),
    ("unassigned.reason", "ur", "none"),
    ("unassigned.at", "ua", "none"),
    ("unassigned.for", "uf", "none"),
    ("unassigned.details", "ud", "none"),
    ("recoverysource.type", "rs", "none"),
    ("completion.size", "cs,completionSize", "0"),
    ("fielddata.memory_size", "fm,fielddataMemory", "0"),
    ("fielddata.evictions", "fe,fielddataEvictions", "0"),
    ("query_cache.memory_size", "qcm,queryCacheMemory", "0"),
    ("query_cache.evictions", "qce,queryCacheEvictions", "0"),
    ("flush.total", "ft,flushTotal", "flushes"),
    ("flush.total_time", "ftt,flushTotalTime", "0"),
    ("get.current", "gc,getCurrent", "gets that are running"),
    ("get.time", "gti,getTime", "how long gets took"),
    ("get.total", "gto,getTotal", "gets"),
    (
        "get.exists_time",
        "geti,getExistsTime",
        "how long those of documents took",
    ),
    (
        "get.exists_total",
        "geto,getExistsTotal",
        "gets of documents",
    ),
    (
        "get.missing_time",
        "gmti,getMissingTime",
        "how long the others took",
    ),
    (
        "get.missing_total",
        "gmto,getMissingTotal",
        "gets of what is not there",
    ),
    (
        "indexing.delete_current",
        "idc,indexingDeleteCurrent",
        "deletes that are running",
    ),
    (
        "indexing.delete_time",
        "idti,indexingDeleteTime",
        "how long deletes took",
    ),
    (
        "indexing.delete_total",
        "idto,indexingDeleteTotal",
        "deletes",
    ),
    (
        "indexing.index_current",
        "iic,indexingIndexCurrent",
        "puts that are running",
    ),
    (
        "indexing.index_time",
        "iiti,indexingIndexTime",
        "how long puts took",
    ),
    ("indexing.index_total", "iito,indexingIndexTotal", "puts"),
    (
        "indexing.index_failed",
        "iif,indexingIndexFailed",
        "puts that were refused",
    ),
    ("merges.current", "mc,mergesCurrent", "0"),
    ("merges.current_docs", "mcd,mergesCurrentDocs", "0"),
    ("merges.current_size", "mcs,mergesCurrentSize", "0"),
    ("merges.total", "mt,mergesTotal", "compactions of trees"),
    ("merges.total_docs", "mtd,mergesTotalDocs", "0"),
    ("merges.total_size", "mts,mergesTotalSize", "0"),
    ("merges.total_time", "mtt,mergesTotalTime", "0"),
    ("refresh.total", "rto,refreshTotal", "0"),
    ("refresh.time", "rti,refreshTime", "0"),
    ("refresh.external_total", "rto,refreshTotal", "0"),
    ("refresh.external_time", "rti,refreshTime", "0"),
    ("refresh.listeners", "rli,refreshListeners", "0"),
    (
        "search.fetch_current",
        "sfc,searchFetchCurrent",
        "searches that read documents",
    ),
    (
        "search.fetch_time",
        "sfti,searchFetchTime",
        "how long reading documents took",
    ),
    (
        "search.fetch_total",
        "sfto,searchFetchTotal",
        "searches that read documents",
    ),
    (
        "search.open_contexts",
        "so,searchOpenContexts",
        "scrolls and points in time",
    ),
    (
        "search.query_current",
        "sqc,searchQueryCurrent",
        "searches that are running",
    ),
    (
        "search.query_time",
        "sqti,searchQueryTime",
        "how long searches took",
    ),
    ("search.query_total", "sqto,searchQueryTotal", "searches"),
    ("search.concurrent_query_current", "scqc", "0"),
    ("search.concurrent_query_time", "scqti", "0"),
    ("search.concurrent_query_total", "scqto", "0"),
    ("search.concurrent_avg_slice_count", "casc", "0"),
    (
        "search.scroll_current",
        "scc,searchScrollCurrent",
        "scrolls that are open",
    ),
    (
        "search.scroll_time",
        "scti,searchScrollTime",
        "how long pages of scrolls took",
    ),
    (
        "search.scroll_total",
        "scto,searchScrollTotal",
        "pages of scrolls",
    ),
    (
        "search.point_in_time_current",
        "spc",
        "points in time that are open",
    ),
    ("search.point_in_time_time", "spti", "0"),
    (
        "search.point_in_time_total",
        "spto",
        "points in time that were opened",
    ),
    ("search.search_idle_reactivate_count_total", "ssirct", "0"),
    (
        "segments.count",
        "sc,segmentsCount",
        "1 if it has documents",
    ),
    ("segments.memory", "sm,segmentsMemory", "0"),
    (
        "segments.index_writer_memory",
        "siwm,segmentsIndexWriterMemory",
        "bytes of memtables",
    ),
    (
        "segments.version_map_memory",
        "svmm,segmentsVersionMapMemory",
        "0",
    ),
    (
        "segments.fixed_bitset_memory",
        "sfbm,fixedBitsetMemory",
        "0",
    ),
    ("seq_no.max", "sqm,maxSeqNo", "the last position"),
    (
        "seq_no.local_checkpoint",
        "sql,localCheckpoint",
        "the last position",
    ),
    (
        "seq_no.global_checkpoint",
        "sqg,globalCheckpoint",
        "the last position",
    ),
    ("warmer.current", "wc,warmerCurrent", "0"),
    ("warmer.total", "wto,warmerTotal", "0"),
    ("warmer.total_time", "wtt,warmerTotalTime", "0"),
    ("path.data", "pd,dataPath", "none"),
    ("path.state", "ps,statsPath", "none"),
    ("docs.deleted", "dd,docsDeleted", "0"),
];

/// The columns of shards that are shown without `h`.
const SHARDS_SHOWN: [&str; 8] = [
    "index", "shard", "prirep", "state", "docs", "store", "ip", "node",
];

const SEGMENTS: &[Column] = &[
    ("index", "i,idx", "the collection"),
    ("shard", "s,sh", "the partition's number"),
    (
        "prirep",
        "p,pr,primaryOrReplica",
        "p: there are no replicas",
    ),
    ("ip", "ip", "the address"),
    ("id", "id", "the node's id"),
    ("segment", "seg", "_0: a partition with documents is one"),
    ("generation", "g,gen", "0"),
    ("docs.count", "dc,docsCount", "documents"),
    ("docs.deleted", "dd,docsDeleted", "0"),
    ("size", "si", "bytes on disk"),
    ("size.memory", "sm,sizeMemory", "0"),
    (
        "committed",
        "ic,isCommitted",
        "whether all of it is in tables",
    ),
    ("searchable", "is,isSearchable", "true"),
    ("version", "v,ver", "the version of Quire"),
    ("compound", "ico,isCompound", "false"),
];

const RECOVERY: &[Column] = &[
    ("index", "i,idx", "the collection"),
    ("shard", "s,sh", "the partition's number"),
    ("start_time", "start", "when it was opened"),
    (
        "start_time_millis",
        "start_millis",
        "the same: milliseconds since 1970 UTC",
    ),
    ("stop_time", "stop", "when it was open"),
    (
        "stop_time_millis",
        "stop_millis",
        "the same: milliseconds since 1970 UTC",
    ),
    ("time", "t,ti", "how long that took"),
    ("type", "ty", "empty_store or existing_store"),
    ("stage", "st", "done"),
    ("source_host", "shost", "none"),
    ("source_node", "snode", "none"),
    ("target_host", "thost", "the address"),
    ("target_node", "tnode", "the node's name"),
    ("repository", "rep", "none"),
    ("snapshot", "snap", "none"),
    ("files", "f", "0: files are opened where they are"),
    ("files_recovered", "fr", "0"),
    ("files_percent", "fp", "100.0%"),
    ("files_total", "tf", "files that were opened"),
    ("bytes", "b", "0"),
    ("bytes_recovered", "br", "0"),
    ("bytes_percent", "bp", "100.0%"),
    ("bytes_total", "tb", "bytes of these files"),
    ("translog_ops", "to", "-1: it is not counted"),
    ("translog_ops_recovered", "tor", "0"),
    ("translog_ops_percent", "top", "-1.0%"),
];

/// The columns of recoveries that are not shown without `h`.
const RECOVERY_HIDDEN: [&str; 4] = [
    "start_time",
    "start_time_millis",
    "stop_time",
    "stop_time_millis",
];

/// What a row about a partition is made of.
struct Partition<'p> {
    of: &'p Searched,
    number: usize,
    stats: &'p CollectionStats,
    figures: &'p Value,
    ip: &'p str,
}

/// `GET /_cat/shards`, `/_cat/shards/{collection}`
pub(crate) async fn shards(call: Call<ClusterState>) -> Outcome<Answer> {
    let is_default = |name: &str| SHARDS_SHOWN.contains(&name);
    let format = TableFormat::with(&call.params, SHARDS, is_default)?;
    let selection = Selection::about(&call, States::ALL)?;
    by_partition(call, selection, format, |of| {
        let cells = SHARDS.iter().map(|(name, ..)| shard_cell(name, &of));
        Some(cells.collect())
    })
    .await
}

/// The cell of a shard in a column. What is not known of one partition of several is unknown.
fn shard_cell(name: &str, of: &Partition<'_>) -> Cell {
    let position = of.stats.positions.first().copied();
    match name {
        "index" => Cell::text(of.of.name()),
        "shard" => Cell::Number(of.number as u64),
        "prirep" => Cell::text("p"),
        "state" => Cell::text("STARTED"),
        "docs" => Cell::Number(of.stats.documents),
        "store" => Cell::Bytes(of.stats.disk_bytes),
        "ip" => Cell::text(of.ip),
        "id" | "node" => Cell::text(NODE),
        "seq_no.max" | "seq_no.local_checkpoint" | "seq_no.global_checkpoint" => {
            position.map_or(Cell::Unknown, Cell::Number)
        }
        name => figure_cell(name, of.figures),
    }
}

/// The figure of a column such as `get.missing_time`.
fn figure_cell(name: &str, figures: &Value) -> Cell {
    let Some((part, figure)) = name.split_once('.') else {
        return Cell::Unknown;
    };
    let figure = match (part, figure) {
        ("segments", "fixed_bitset_memory") => "fixed_bit_set_memory",
        ("refresh", "time") => "total_time",
        ("refresh", "external_time") => "external_total_time",
        (_, figure) => figure,
    };
    let at = |end: &str| {
        let figure = figures.get(part)?.get(format!("{figure}{end}"))?;
        figure.as_f64().map(|figure| figure as u64)
    };
    match (at(""), at("_in_millis"), at("_in_bytes")) {
        (Some(number), ..) => Cell::Number(number),
        (_, Some(time), _) => Cell::text(millis(time)),
        (.., Some(bytes)) => Cell::Bytes(bytes),
        _ => Cell::Unknown,
    }
}

/// `GET /_cat/segments`, `/_cat/segments/{collection}`
pub(crate) async fn segments(call: Call<ClusterState>) -> Outcome<Answer> {
    let format = TableFormat::with(&call.params, SEGMENTS, |name| name != "id")?;
    let selection = Selection::of(&call)?;
    by_partition(call, selection, format, |of| {
        let stats = of.stats;
        (stats.documents > 0).then(|| {
            vec![
                Cell::text(of.of.name()),
                Cell::Number(of.number as u64),
                Cell::text("p"),
                Cell::text(of.ip),
                Cell::text(NODE),
                Cell::text("_0"),
                Cell::Number(0),
                Cell::Number(stats.documents),
                Cell::Number(0),
                Cell::Bytes(stats.disk_bytes),
                Cell::Number(0),
                Cell::text((stats.unflushed_records == 0).to_string()),
                Cell::text("true"),
                Cell::text(VERSION),
                Cell::text("false"),
            ]
        })
    })
    .await
}

/// `GET /_cat/recovery`, `/_cat/recovery/{collection}`
pub(crate) async fn recovery(call: Call<ClusterState>) -> Outcome<Answer> {
    for flag in ["active_only", "detailed"] {
        call.params.flag(flag)?;
    }
    let is_active_only = call.params.flag("active_only")?.unwrap_or(false);
    let is_default = |name: &str| !RECOVERY_HIDDEN.contains(&name);
    let format = TableFormat::with(&call.params, RECOVERY, is_default)?;
    if is_active_only {
        return Ok(format.answer(Vec::new()));
    }
    let selection = Selection::about(&call, States::ALL)?;
    by_partition(call, selection, format, |of| {
        let recovery = Recovery::of(of.of, of.stats);
        let [start, stop] = [recovery.start_millis, recovery.stop_millis];
        let zero = || Cell::text("0");
        Some(vec![
            Cell::text(of.of.name()),
            Cell::text(of.number.to_string()),
            Cell::text(super::shards::date(start)),
            Cell::text(start.to_string()),
            Cell::text(super::shards::date(stop)),
            Cell::text(stop.to_string()),
            Cell::text(millis(recovery.took_millis)),
            Cell::text(recovery.kind.to_lowercase()),
            Cell::text("done"),
            Cell::text("n/a"),
            Cell::text("n/a"),
            Cell::text(of.ip),
            Cell::text(NODE),
            Cell::text("n/a"),
            Cell::text("n/a"),
            zero(),
            zero(),
            Cell::text("100.0%"),
            Cell::text(recovery.files.to_string()),
            zero(),
            zero(),
            Cell::text("100.0%"),
            Cell::text(recovery.bytes.to_string()),
            Cell::text("-1"),
            zero(),
            Cell::text("-1.0%"),
        ])
    })
    .await
}

/// A table with a row for each partition that has one.
async fn by_partition(
    call: Call<ClusterState>,
    selection: Selection,
    format: TableFormat,
    row: fn(Partition<'_>) -> Option<Vec<Cell>>,
) -> Outcome<Answer> {
    let ip = call.state.listen.ip().to_string();
    let contexts = call.state.contexts.clone();
    let engine = call.state.engine.clone();
    let wanted = Wanted {
        parts: Parts::all(),
        shown: Shown::default(),
        has_closed_segments: false,
    };
    let work = move |engine: &Engine| {
        let mut rows = Vec::new();
        for collection in selection.all(engine)? {
            let figures = Figures::of(&collection, &contexts, &wanted)?;
            for (number, (figures, stats)) in figures.partitions.iter().enumerate() {
                rows.extend(row(Partition {
                    of: &collection,
                    number,
                    stats,
                    figures,
                    ip: &ip,
                }));
            }
        }
        Ok(format.answer(rows))
    };
    engine.read(work).await?
}
