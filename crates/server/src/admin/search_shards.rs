//! `_search_shards`: the partitions that a search would read, as shards.

use serde_json::{Map, Value, json};

use super::state::ClusterState;
use crate::collections::selection::Selection;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::search::filter::{known, object};
use crate::search::request::parse;
use crate::tasks::listed::{NODE, node};

/// One slice of several.
#[derive(Clone, Copy)]
struct Slice {
    id: usize,
    max: usize,
}

/// `GET|POST /_search_shards`, `/{collection}/_search_shards`
pub(crate) async fn search_shards(call: Call<ClusterState>) -> Outcome<Answer> {
    let listen = call.state.listen;
    let (engine, selection) = (call.state.engine.clone(), Selection::of(&call)?);
    let only = only_shards(call.params.text("preference"))?;
    let body = call.take_small_body().await?;
    let slice = slice(&parse(&body.bytes)?)?;
    drop(body);
    let work = move |engine: &Engine| {
        let (mut shards, mut indices) = (Vec::new(), Map::new());
        for collection in selection.searched_by(engine)? {
            let name = collection.searched.name();
            let partitions = 0..collection.searched.partitions();
            let is_preferred =
                |number: &u32| only.as_ref().is_none_or(|only| only.contains(number));
            for number in partitions.filter(is_preferred) {
                shards.push(json!([{
                    "state": "STARTED",
                    "primary": true,
                    "node": NODE,
                    "relocating_node": null,
                    "shard": number,
                    "index": name,
                }]));
            }
            let mut of_index = Map::new();
            if !collection.aliases.is_empty() {
                of_index.insert("aliases".to_owned(), collection.aliases.into());
            }
            if let Some(filter) = shown_filter(&collection.filters) {
                of_index.insert("filter".to_owned(), filter);
            }
            indices.insert(name.to_owned(), of_index.into());
        }
        // Of the shards that are left, a slice has every max-th.
        if let Some(Slice { id, max }) = slice {
            shards = shards.into_iter().skip(id).step_by(max).collect();
        }
        Ok(Answer::ok(&json!({
            "nodes": {NODE: node(listen)},
            "indices": indices,
            "shards": shards,
        })))
    };
    engine.read(work).await?
}

/// The numbers that a preference limits the shards to: `_shards:1,2`. All else chooses among
/// copies, of which there is one.
fn only_shards(preference: Option<&str>) -> Outcome<Option<Vec<u32>>> {
    let Some(list) = preference.and_then(|text| text.strip_prefix("_shards:")) else {
        return Ok(None);
    };
    let numbers = list.split('|').next().unwrap_or_default().split(',');
    let numbers = numbers.map(|number| number.trim().parse::<u32>());
    let numbers = numbers.collect::<Result<Vec<u32>, _>>().map_err(|_| {
        Failure::illegal_argument(format!(
            "parameter [preference]: [{list}] is no list of shards"
        ))
    })?;
    Ok(Some(numbers))
}

fn slice(body: &Map<String, Value>) -> Outcome<Option<Slice>> {
    known(body, "_search_shards", &["slice"])?;
    let slice = match body.get("slice") {
        None | Some(Value::Null) => return Ok(None),
        Some(slice) => object(slice, "slice")?,
    };
    known(slice, "slice", &["id", "max"])?;
    let number = |name: &str| {
        let number = slice.get(name).and_then(Value::as_u64);
        number.and_then(|number| usize::try_from(number).ok())
    };
    match (number("id"), number("max")) {
        (Some(id), Some(max)) if max > 1 && id < max => Ok(Some(Slice { id, max })),
        _ => Err(Failure::illegal_argument(
            "[slice] needs an [id] and a [max] of 2 or more, and the id is less than the max",
        )),
    }
}

/// The filters of aliases as one query, with what OpenSearch adds to it.
fn shown_filter(filters: &[Value]) -> Option<Value> {
    match filters {
        [] => None,
        [one] => Some(with_boost(one)),
        several => {
            let should: Vec<Value> = several.iter().map(with_boost).collect();
            Some(json!({"bool": {
                "should": should,
                "adjust_pure_negative": true,
                "boost": 1.0,
            }}))
        }
    }
}

/// `{"term": {"a": 1}}` as `{"term": {"a": {"value": 1, "boost": 1.0}}}`.
fn with_boost(filter: &Value) -> Value {
    let term = filter.get("term").and_then(Value::as_object);
    let one = term.and_then(|term| term.iter().next());
    match one {
        Some((field, value)) if !value.is_object() => {
            json!({"term": {field: {"value": value, "boost": 1.0}}})
        }
        _ => filter.clone(),
    }
}
