//! What a reindex is going to do, decided from what the cluster is: a policy without I/O.

use super::cluster::Disk;
use super::record::{Begin, Place, Step, shown};
use super::settings::{Flat, PARTITIONS, REPLICAS, SHARDS, is_copied, is_same, raised, tuned};
use crate::bulk_sink::Server;
use crate::reindex_config::ReindexConfig;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt;

/// The part of a disk that stays free: nodes get no shards above 85 %.
const FREE_PART: f64 = 0.15;

const REPLICAS_DEFAULT: u64 = 1;

/// A shard that is filled and merged keeps as many cores busy: one writes, one merges.
const CORES_PER_SHARD: u64 = 2;

/// The index behind the alias.
#[derive(Debug, Clone)]
pub(crate) struct Present {
    pub(crate) index: String,
    pub(crate) settings: Flat,
    pub(crate) mappings: Value,
    pub(crate) documents: u64,
    /// Of the primary shards.
    pub(crate) bytes: Option<u64>,
}

/// What the plan is made from.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) source: String,
    /// The source is the index behind the alias.
    pub(crate) is_own: bool,
    pub(crate) url: String,
    pub(crate) server: Server,
    pub(crate) nodes: u64,
    pub(crate) data_nodes: u64,
    /// Of the hosts that hold data, if they are known.
    pub(crate) cores: Option<u64>,
    pub(crate) disks: Vec<Disk>,
    pub(crate) alias: String,
    pub(crate) present: Option<Present>,
    /// The first free name.
    pub(crate) new: String,
    /// Settings and mappings of the file that has them.
    pub(crate) index_file: Option<(Flat, Value)>,
    pub(crate) transient: Flat,
    pub(crate) effective: Flat,
}

/// A setting that will change for a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedChange {
    /// Where.
    pub place: Place,
    /// Its whole name.
    pub setting: String,
    /// What it is set to.
    pub during: Value,
    /// What it is put back to; null is the default.
    pub after: Value,
}

/// A node's disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedDisk {
    /// The node's name.
    pub node: String,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Bytes that the new index takes there at most, while it is merged; none if the size of the
    /// present index is not known.
    pub needed_bytes: Option<u64>,
}

/// What a run will do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The server and its version.
    pub server: String,
    /// All nodes, and those that hold data.
    pub nodes: u64,
    /// Nodes that hold data.
    pub data_nodes: u64,
    /// Cores of their hosts, if they are known.
    pub cores: Option<u64>,
    /// What readers use.
    pub alias: String,
    /// The index behind it.
    pub old: Option<String>,
    /// Its documents.
    pub documents: Option<u64>,
    /// Bytes of its primary shards.
    pub bytes: Option<u64>,
    /// The index that is built.
    pub new: String,
    /// Its primary shards, or its partitions.
    pub shards: u64,
    /// Copies of each.
    pub replicas: u64,
    /// Every setting that changes for a time.
    pub changes: Vec<PlannedChange>,
    /// The disks of the nodes that hold data.
    pub disks: Vec<PlannedDisk>,
    /// What may go wrong.
    pub warnings: Vec<String>,
    /// What a run that was begun has done.
    pub done: Vec<Step>,
    #[serde(skip)]
    pub(crate) begin: Begin,
}

/// Decides.
pub(crate) fn decide(facts: &Facts, config: &ReindexConfig) -> Plan {
    let is_quire = facts.server.flavor == "quire";
    let (mut settings, mappings) = match (&facts.index_file, &facts.present) {
        (Some((settings, mappings)), _) => (settings.clone(), mappings.clone()),
        // Quire reports as mappings what the documents have.
        (None, Some(present)) if is_quire => (present.settings.clone(), json!({})),
        (None, Some(present)) => (present.settings.clone(), present.mappings.clone()),
        (None, None) => (Flat::new(), json!({})),
    };
    settings.retain(|name, value| is_copied(name) && !value.is_null());
    let of_file = |name: &str| number(facts.index_file.as_ref()?.0.get(name)?);
    let of_present = |name: &str| number(facts.present.as_ref()?.settings.get(name)?);
    let shards = config.shards.map(u64::from);
    let shards = shards.or_else(|| of_file(SHARDS).or_else(|| of_file(PARTITIONS)));
    let shards = shards.unwrap_or_else(|| match is_quire {
        true => of_present(SHARDS).unwrap_or(1),
        false => shards_for(facts),
    });
    let replicas = config.replicas.map(u64::from);
    let replicas = replicas
        .or_else(|| of_file(REPLICAS))
        .or_else(|| of_present(REPLICAS))
        .unwrap_or(REPLICAS_DEFAULT);
    settings.insert(SHARDS.to_owned(), json!(shards.to_string()));
    if !is_quire {
        settings.insert(REPLICAS.to_owned(), json!(replicas.to_string()));
    }
    let mut tuned = tuned(&facts.server, &settings);
    tuned.retain(|name, value| !settings.get(name).is_some_and(|now| is_same(now, value)));
    let mut raise = raised(
        &facts.server,
        &facts.effective,
        config.recoveries_per_node(),
        config.recovery_bytes_per_s(),
    );
    if replicas == 0 {
        raise.clear();
    }
    let scope = scope(&facts.server, &facts.transient, &raise);
    let begin = Begin {
        source: facts.source.clone(),
        url: facts.url.clone(),
        alias: facts.alias.clone(),
        old: facts.present.as_ref().map(|present| present.index.clone()),
        is_own: facts.is_own,
        new: facts.new.clone(),
        settings,
        mappings,
        tuned,
        scope,
        raised: raise,
    };
    let disks = disks(facts, replicas);
    Plan {
        server: format!("{} {}", facts.server.flavor, facts.server.version),
        nodes: facts.nodes,
        data_nodes: facts.data_nodes,
        cores: facts.cores,
        alias: facts.alias.clone(),
        old: begin.old.clone(),
        documents: facts.present.as_ref().map(|present| present.documents),
        bytes: facts.present.as_ref().and_then(|present| present.bytes),
        new: facts.new.clone(),
        shards,
        replicas,
        changes: changes(&begin, &facts.effective),
        warnings: warnings(facts, &disks, replicas, is_quire),
        disks,
        done: Vec::new(),
        begin,
    }
}

/// A shard for each node that holds data, but no more than their cores can fill side by side: nodes
/// on one host share its cores.
fn shards_for(facts: &Facts) -> u64 {
    let filled = facts.cores.map(|cores| cores / CORES_PER_SHARD);
    facts.data_nodes.min(filled.unwrap_or(u64::MAX)).max(1)
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    }
}

/// Where settings are raised. Transient ones are gone after a restart of the cluster, which suits;
/// later versions advise against them. One that is there already would hide a persistent one.
fn scope(server: &Server, transient: &Flat, raised: &Flat) -> Place {
    let is_hidden = raised.keys().any(|name| transient.contains_key(name));
    let major_minor = {
        let mut parts = server.version.split('.').map(|part| part.parse().ok());
        let mut part = || parts.next().flatten().unwrap_or(0_u32);
        (part(), part())
    };
    match server.flavor == "elasticsearch" && major_minor >= (7, 16) && !is_hidden {
        true => Place::Persistent,
        false => Place::Transient,
    }
}

fn changes(begin: &Begin, effective: &Flat) -> Vec<PlannedChange> {
    let of_index = begin.tuned.iter().map(|(name, during)| PlannedChange {
        place: Place::Index(begin.new.clone()),
        setting: name.clone(),
        during: during.clone(),
        after: begin.settings.get(name).cloned().unwrap_or_default(),
    });
    let of_cluster = begin.raised.iter().map(|(name, during)| PlannedChange {
        place: begin.scope.clone(),
        setting: name.clone(),
        during: during.clone(),
        after: effective.get(name).cloned().unwrap_or_default(),
    });
    of_index.chain(of_cluster).collect()
}

/// The new index beside the old one, and as much of its primary shards again: a merge writes a
/// shard anew before it removes what it merged.
fn disks(facts: &Facts, replicas: u64) -> Vec<PlannedDisk> {
    let bytes = facts.present.as_ref().and_then(|present| present.bytes);
    let needed = bytes.map(|bytes| {
        let all = bytes.saturating_mul(replicas + 2);
        all.div_ceil(facts.data_nodes.max(1))
    });
    let disks = facts.disks.iter().map(|disk| PlannedDisk {
        node: disk.node.clone(),
        free_bytes: disk.free_bytes,
        needed_bytes: needed,
    });
    disks.collect()
}

fn warnings(facts: &Facts, disks: &[PlannedDisk], replicas: u64, is_quire: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    for (planned, disk) in disks.iter().zip(&facts.disks) {
        let kept = (disk.total_bytes as f64 * FREE_PART) as u64;
        if let Some(needed) = planned.needed_bytes
            && disk.free_bytes < needed.saturating_add(kept)
        {
            warnings.push(format!(
                "too little disk on {}: {} MB are free, the new index takes up to {} MB, and \
                 {} MB must stay free",
                disk.node,
                disk.free_bytes / 1_000_000,
                needed / 1_000_000,
                kept / 1_000_000
            ));
        }
    }
    if !is_quire && replicas >= facts.data_nodes {
        warnings.push(format!(
            "{replicas} replicas need {} nodes that hold data, and there are {}: the others stay \
             unassigned",
            replicas + 1,
            facts.data_nodes
        ));
    }
    if facts.is_own {
        warnings.push(format!(
            "{} is built from what {} stands for: a switch refuses writes for a moment, and there \
             is no rollback after it",
            facts.new, facts.alias
        ));
    }
    if facts.present.is_none() && facts.index_file.is_none() && !is_quire {
        warnings.push(format!(
            "there is no index behind {}, and no index_file: the cluster will guess the mappings",
            facts.alias
        ));
    }
    warnings
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, nodes: {}, of these with data: {}",
            self.server, self.nodes, self.data_nodes
        )?;
        match self.cores {
            Some(cores) => writeln!(f, ", cores of their hosts: {cores}")?,
            None => writeln!(f)?,
        }
        match (&self.old, self.documents, self.bytes) {
            (Some(old), Some(documents), bytes) => {
                let bytes = bytes.map(|bytes| format!(", {} MB", bytes / 1_000_000));
                writeln!(
                    f,
                    "alias {}: {old}, {documents} documents{}",
                    self.alias,
                    bytes.unwrap_or_default()
                )?;
            }
            _ => writeln!(f, "alias {}: nothing yet", self.alias)?,
        }
        writeln!(
            f,
            "new index: {}, primary shards: {}, replicas: {}",
            self.new, self.shards, self.replicas
        )?;
        if !self.changes.is_empty() {
            writeln!(f, "settings that change for a time:")?;
        }
        for change in &self.changes {
            writeln!(
                f,
                "  {}: {} is {}, then {}",
                change.place,
                change.setting,
                shown(&change.during),
                shown(&change.after)
            )?;
        }
        for disk in &self.disks {
            let needed = disk.needed_bytes.map(|bytes| bytes / 1_000_000);
            let needed = needed.map(|mb| format!(", the new index takes up to {mb} MB"));
            writeln!(
                f,
                "disk of {}: {} MB free{}",
                disk.node,
                disk.free_bytes / 1_000_000,
                needed.unwrap_or_default()
            )?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        if !self.done.is_empty() {
            let done: Vec<String> = self.done.iter().map(Step::to_string).collect();
            writeln!(f, "a run has begun; the new index is {}", done.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reindex::settings::{RECOVERIES, of_index};

    fn facts(version: &str) -> Facts {
        let settings = json!({"number_of_shards": "5", "number_of_replicas": "2",
            "refresh_interval": "5s", "uuid": "x", "analysis.analyzer.a.type": "custom"});
        let disk = |node: &str| Disk {
            node: node.to_owned(),
            total_bytes: 1_000_000_000,
            free_bytes: 600_000_000,
        };
        Facts {
            source: "db/tracks".to_owned(),
            is_own: false,
            url: "http://es".to_owned(),
            server: Server {
                flavor: "elasticsearch",
                major: 7,
                version: version.to_owned(),
            },
            nodes: 4,
            data_nodes: 3,
            cores: Some(12),
            disks: vec![disk("a"), disk("b"), disk("c")],
            alias: "tracks".to_owned(),
            present: Some(Present {
                index: "tracks-000001".to_owned(),
                settings: of_index(&settings),
                mappings: json!({"properties": {}}),
                documents: 10,
                bytes: Some(300_000_000),
            }),
            new: "tracks-000002".to_owned(),
            index_file: None,
            transient: Flat::new(),
            effective: Flat::from([(RECOVERIES.to_owned(), json!("2"))]),
        }
    }

    #[test]
    fn the_new_index_has_a_shard_for_each_data_node_and_the_rest_of_the_present_one() {
        let plan = decide(&facts("7.17.29"), &ReindexConfig::default());
        assert_eq!((plan.shards, plan.replicas), (3, 2));
        let settings = &plan.begin.settings;
        assert_eq!(settings["index.analysis.analyzer.a.type"], "custom");
        assert!(!settings.contains_key("index.uuid"));
        let text = plan.to_string();
        for part in [
            "index tracks-000002: index.refresh_interval is -1, then 5s",
            "index tracks-000002: index.translog.durability is async, then its default",
            "the cluster (persistent): cluster.routing.allocation.node_concurrent_recoveries is 8, \
             then 2",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(plan.warnings.is_empty(), "{:?}", plan.warnings);
        let own = ReindexConfig {
            shards: Some(7),
            replicas: Some(0),
            ..ReindexConfig::default()
        };
        let plan = decide(&facts("7.17.29"), &own);
        assert_eq!((plan.shards, plan.replicas), (7, 0));
        assert!(plan.begin.raised.is_empty(), "there are no copies to make");
        assert!(!plan.begin.tuned.contains_key(REPLICAS), "it stays so");
    }

    #[test]
    fn nodes_that_share_few_cores_get_fewer_shards() {
        let shards = |cores| {
            let facts = Facts {
                cores,
                ..facts("7.17.29")
            };
            decide(&facts, &ReindexConfig::default()).shards
        };
        assert_eq!([None, Some(6), Some(64)].map(shards), [3; 3]);
        assert_eq!([Some(1), Some(2), Some(4)].map(shards), [1, 1, 2]);
    }

    #[test]
    fn too_little_disk_and_too_many_replicas_are_warned_of() {
        let mut facts = facts("7.17.29");
        facts.disks[1].free_bytes = 540_000_000;
        // 300 MB by two replicas and the merge are 400 MB a node, and 150 MB stay free.
        let plan = decide(&facts, &ReindexConfig::default());
        assert_eq!(plan.disks[1].needed_bytes, Some(400_000_000));
        assert_eq!(plan.warnings.len(), 1, "{:?}", plan.warnings);
        assert!(plan.warnings[0].starts_with("too little disk on b"));
        facts.data_nodes = 2;
        let plan = decide(&facts, &ReindexConfig::default());
        assert!(plan.to_string().contains("2 replicas need 3 nodes"));
    }

    #[test]
    fn settings_are_raised_where_nothing_hides_them() {
        let scope = |facts: &Facts| decide(facts, &ReindexConfig::default()).begin.scope;
        assert_eq!(scope(&facts("7.10.2")), Place::Transient);
        assert_eq!(scope(&facts("8.1.0")), Place::Persistent);
        let mut hidden = facts("8.1.0");
        hidden.transient = Flat::from([(RECOVERIES.to_owned(), json!("2"))]);
        assert_eq!(scope(&hidden), Place::Transient);
    }
}
