//! `_stats`: figures of collections in the shape of OpenSearch.

use quiredb::{CollectionStats, Usage};
use serde_json::{Map, Value, json};

use super::figures::{Shown, Sources, add, figures, part_names};
use super::selection::{Searched, Selection, searched_shards};
use super::states::States;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::patterns;
use crate::http::params::Params;
use crate::http::parts::Parts;
use crate::ids::uuid;
use crate::search::contexts::Contexts;
use crate::search::state::SearchState;
use crate::tasks::listed::NODE;

/// How far figures are taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Cluster,
    Indices,
    Shards,
}

impl Level {
    /// The parameter `level`; `default` without it.
    pub(crate) fn of(params: &Params, default: Level) -> Outcome<Level> {
        match params.text("level") {
            None => Ok(default),
            Some("cluster") => Ok(Level::Cluster),
            Some("indices") => Ok(Level::Indices),
            Some("shards") => Ok(Level::Shards),
            Some(other) => Err(Failure::illegal_argument(format!(
                "level parameter must be one of [cluster] or [indices] or [shards] but was \
                 [{other}]"
            ))),
        }
    }
}

/// What of the figures a request wants.
pub(crate) struct Wanted {
    pub(crate) parts: Parts,
    pub(crate) shown: Shown,
    /// Whether the segments of closed collections count.
    pub(crate) has_closed_segments: bool,
}

impl Wanted {
    /// Reads the parameters; `param` is that of the path with the names of the parts.
    pub(crate) fn of<S>(call: &Call<S>, param: &str) -> Outcome<Wanted> {
        let params = &call.params;
        params.flag("forbid_closed_indices")?;
        let has_closed = params.flag("include_unloaded_segments")?;
        let groups = params.text("groups").map(patterns);
        let has_files = params.flag("include_segment_file_sizes")?;
        Ok(Wanted {
            parts: Parts::of(call, param, &part_names())?,
            shown: Shown {
                groups: groups.unwrap_or_default(),
                has_files: has_files.unwrap_or(false),
            },
            has_closed_segments: has_closed.unwrap_or(false),
        })
    }
}

/// The figures of a collection, and of each of its partitions.
pub(crate) struct Figures {
    pub(crate) all: Value,
    /// None of a wide one. Also what they are made of.
    pub(crate) partitions: Vec<(Value, CollectionStats)>,
    /// What `quire stats` shows.
    pub(crate) quire: Value,
}

impl Figures {
    /// Those of no collection: zeros.
    pub(crate) fn none(engine: &Engine, wanted: &Wanted) -> Value {
        let sources = Sources {
            stats: &CollectionStats::default(),
            usage: Some(&Usage::unused(engine.database().env())),
            open: (0, 0),
            filled: 0,
        };
        figures(&sources, &wanted.shown, |part| wanted.parts.has(part))
    }

    /// Blocks.
    pub(crate) fn of(of: &Searched, contexts: &Contexts, wanted: &Wanted) -> Outcome<Figures> {
        let (stats, partitions) = (of.stats()?, of.partition_stats()?);
        let has = |part: &str| wanted.parts.has(part);
        let is_closed = of.plain().is_some_and(|plain| plain.settings().api.closed);
        let has_segments = wanted.has_closed_segments || !is_closed;
        let is_filled = |stats: &CollectionStats| has_segments && stats.documents > 0;
        let filled = partitions.iter().filter(|one| is_filled(one)).count() as u64;
        let sources = Sources {
            stats: &stats,
            usage: Some(of.usage()),
            open: contexts.open_of(of.name()),
            filled,
        };
        let is_one = partitions.len() == 1;
        let of_partition = |stats: CollectionStats| {
            let sources = Sources {
                stats: &stats,
                filled: u64::from(is_filled(&stats)),
                usage: sources.usage.filter(|_| is_one),
                ..sources
            };
            (figures(&sources, &wanted.shown, has), stats)
        };
        let quire = serde_json::to_value(&stats);
        Ok(Figures {
            all: figures(&sources, &wanted.shown, has),
            partitions: partitions.into_iter().map(of_partition).collect(),
            quire: quire.map_err(|error| Failure::internal(error.to_string()))?,
        })
    }
}

/// `GET /_stats`, `/{collection}/_stats`, and with `/{name}` some of the figures: as OpenSearch
/// counts, and in `quire` what `quire stats` shows.
pub(crate) async fn stats(call: Call<SearchState>) -> Outcome<Answer> {
    let wanted = Wanted::of(&call, "name")?;
    let level = Level::of(&call.params, Level::Indices)?;
    let selection = Selection::about(&call, States::OPEN)?;
    let contexts = call.state.contexts.clone();
    let work = move |engine: &Engine| {
        let collections = selection.all(engine)?;
        let (mut indices, mut sum) = (Map::new(), json!({}));
        for collection in &collections {
            let figures = Figures::of(collection, &contexts, &wanted)?;
            add(&mut sum, &figures.all);
            let uuid = uuid(collection.identity());
            let mut shown = json!({
                "uuid": uuid,
                "primaries": figures.all,
                "total": figures.all,
                "quire": figures.quire,
            });
            if level == Level::Shards {
                let partitions = figures.partitions.into_iter().enumerate();
                let of_number = |(number, (figures, stats))| {
                    let shard = shard(&uuid, number, figures, &stats);
                    (number.to_string(), json!([shard]))
                };
                shown["shards"] = partitions.map(of_number).collect::<Map<_, _>>().into();
            }
            indices.insert(collection.name().to_owned(), shown);
        }
        if collections.is_empty() {
            sum = Figures::none(engine, &wanted);
        }
        let mut answer = json!({
            "_shards": searched_shards(&collections),
            "_all": {"primaries": sum, "total": sum},
        });
        if level != Level::Cluster {
            answer["indices"] = indices.into();
        }
        Ok(Answer::ok(&answer))
    };
    call.state.engine.read(work).await?
}

/// A partition as a shard, with its figures.
fn shard(uuid: &str, number: usize, mut figures: Value, stats: &CollectionStats) -> Value {
    figures["routing"] = json!({
        "state": "STARTED",
        "primary": true,
        "node": NODE,
        "relocating_node": null,
    });
    let position = stats.positions.first().copied().unwrap_or_default();
    let flushed = position.saturating_sub(stats.unflushed_records);
    figures["commit"] = json!({
        "id": format!("{uuid}-{number}-{flushed}"),
        "generation": stats.flushes,
        "user_data": {},
        "num_docs": stats.documents,
    });
    figures["seq_no"] = json!({
        "max_seq_no": position,
        "local_checkpoint": position,
        "global_checkpoint": position,
    });
    figures
}
