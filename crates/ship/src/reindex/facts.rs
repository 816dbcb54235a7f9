//! Reads from a cluster what a plan is made from.

use super::cluster::Cluster;
use super::plan::{Facts, Present};
use super::record::Place;
use super::settings::{Flat, of_index};
use crate::bulk_sink::Server;
use crate::error::{Error, Result};
use crate::http::segment;
use crate::reindex_config::ReindexConfig;
use crate::topic::Source;
use serde_json::{Value, json};

const INDEX_FILE_BYTES_MAX: u64 = 16 << 20;

/// Digits of the number in an index's name.
const NUMBER_DIGITS: usize = 6;

/// Reads all.
///
/// # Errors
/// If the cluster does not answer, the file of the index can't be read, or the alias is none or
/// stands for several indexes.
pub(crate) fn read(
    cluster: &Cluster<'_>,
    server: &Server,
    config: &ReindexConfig,
    alias: &str,
    source: &dyn Source,
) -> Result<Facts> {
    let is_quire = server.flavor == "quire";
    let present = present(cluster, alias)?;
    let is_own = match &present {
        Some(present) => {
            source.collection_at(cluster.http.url())?.as_deref() == Some(&*present.index)
        }
        None => false,
    };
    let new = free_name(cluster, alias, present.as_ref())?;
    let (mut transient, mut effective, mut disks) = (Flat::new(), Flat::new(), Vec::new());
    let (mut nodes, mut data_nodes, mut cores) = (1, 1, None);
    if !is_quire {
        transient = cluster.settings(&Place::Transient)?.unwrap_or_default();
        effective = cluster.effective_settings()?;
        disks = cluster.disks()?;
        cores = cluster.cores()?;
        let health = cluster.done("GET", "/_cluster/health", None)?;
        let count = |name: &str| health[name].as_u64().unwrap_or(1);
        (nodes, data_nodes) = (count("number_of_nodes"), count("number_of_data_nodes"));
    }
    Ok(Facts {
        source: source.identity(),
        is_own,
        url: cluster.http.url().to_owned(),
        server: server.clone(),
        nodes,
        data_nodes,
        cores,
        disks,
        alias: alias.to_owned(),
        present,
        new,
        index_file: index_file(cluster, config)?,
        transient,
        effective,
    })
}

fn present(cluster: &Cluster<'_>, alias: &str) -> Result<Option<Present>> {
    let behind: Vec<String> = cluster.alias(alias)?.into_keys().collect();
    let index = match behind.as_slice() {
        [] if cluster.exists(alias)? => {
            return Err(Error::Reindex(format!(
                "{alias} is an index, and an alias is needed, which can move to another index. \
                 Let readers and the pipe use another name: add an alias to {alias}, and give \
                 that as the sink's index"
            )));
        }
        [] => return Ok(None),
        [index] => index.clone(),
        several => {
            return Err(Error::Reindex(format!(
                "the alias {alias} stands for several indexes: {}. Leave one of them",
                several.join(", ")
            )));
        }
    };
    let place = Place::Index(index.clone());
    let settings = cluster.settings(&place)?.unwrap_or_default();
    let mappings = cluster.get(&format!("/{}/_mapping", segment(&index)))?;
    let mappings = mappings.map(|found| found[&index]["mappings"].clone());
    let stats = cluster.get(&format!("/{}/_stats", segment(&index)))?;
    let bytes = stats
        .and_then(|stats| stats["indices"][&index]["primaries"]["store"]["size_in_bytes"].as_u64());
    Ok(Some(Present {
        documents: cluster.count(&index)?,
        settings,
        mappings: mappings.unwrap_or_else(|| json!({})),
        bytes,
        index,
    }))
}

/// The name with the next number that no index has.
fn free_name(cluster: &Cluster<'_>, alias: &str, present: Option<&Present>) -> Result<String> {
    let number = |present: &Present| -> Option<u64> {
        let digits = present.index.strip_prefix(alias)?.strip_prefix('-')?;
        digits.parse().ok()
    };
    let mut next = present.and_then(number).unwrap_or(0);
    loop {
        next += 1;
        let name = format!("{alias}-{next:0NUMBER_DIGITS$}");
        if !cluster.exists(&name)? {
            return Ok(name);
        }
    }
}

fn index_file(cluster: &Cluster<'_>, config: &ReindexConfig) -> Result<Option<(Flat, Value)>> {
    let Some(path) = &config.index_file else {
        return Ok(None);
    };
    let bytes = cluster.env.read(path, INDEX_FILE_BYTES_MAX)?;
    let wrong = |why: String| Error::Config(format!("{}: {why}", path.display()));
    let json: Value = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    let known = ["settings", "mappings"];
    match json.as_object() {
        Some(members) if members.keys().all(|name| known.contains(&name.as_str())) => {}
        _ => {
            return Err(wrong(
                "it must be an object of settings and mappings".to_owned(),
            ));
        }
    }
    let mappings = json["mappings"].as_object().cloned().unwrap_or_default();
    Ok(Some((of_index(&json["settings"]), Value::Object(mappings))))
}
