//! A cluster that a reindex can be made in: indexes with settings and documents by external
//! version, aliases, settings of the cluster. It counts the requests that change it.

use crate::wire::{listen, request};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard};

type Flat = BTreeMap<String, Value>;

/// Version and document by key; a deletion keeps its version.
type Documents = BTreeMap<String, (u64, Option<Value>)>;

#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    pub(crate) settings: Flat,
    pub(crate) documents: Documents,
    /// How often its primary shard began.
    pub(crate) term: u64,
}

impl Index {
    pub(crate) fn documents(&self) -> BTreeMap<String, Value> {
        let there = self.documents.iter();
        there
            .filter_map(|(key, (_, document))| Some((key.clone(), document.clone()?)))
            .collect()
    }
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) version: &'static str,
    pub(crate) transient: Flat,
    pub(crate) persistent: Flat,
    pub(crate) indexes: BTreeMap<String, Index>,
    pub(crate) aliases: BTreeMap<String, BTreeMap<String, Value>>,
    /// Requests that changed settings, indexes or aliases.
    pub(crate) changes: usize,
    /// A node dies after that number of bulks: the index loses what it has.
    pub(crate) dies_after_bulks: Option<usize>,
    /// The request that makes that change comes late: it is made before the next one.
    pub(crate) late_change: Option<usize>,
    pub(crate) late: Option<(String, String, Vec<u8>)>,
    /// What it has was synced when its node dies.
    pub(crate) is_synced: bool,
    /// Aliases stay as they are, whatever is requested.
    pub(crate) keeps_aliases: bool,
    /// So often the health of an index is that its copies are not there yet.
    pub(crate) copies_are_late: usize,
    /// A merge loses this document.
    pub(crate) merge_loses: Option<String>,
}

#[derive(Debug)]
pub(crate) struct FakeCluster {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

impl FakeCluster {
    /// Serves until the test ends.
    pub(crate) fn start(version: &'static str) -> FakeCluster {
        let state = Arc::new(Mutex::new(State {
            version,
            ..State::default()
        }));
        let shared = Arc::clone(&state);
        let url = listen(move |stream| serve(stream, &shared));
        FakeCluster { url, state }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some((method, path, body)) = request(&mut reader) {
        let Some((status, answer)) = state.lock().unwrap().take(&method, &path, &body) else {
            return;
        };
        let answer = match method.as_str() {
            "HEAD" => String::new(),
            _ => answer.to_string(),
        };
        let length = answer.len();
        let text = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{answer}");
        if stream.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

/// Sets settings; null removes one.
fn set(flat: &mut Flat, settings: &Value) {
    for (name, value) in settings.as_object().into_iter().flatten() {
        match value {
            Value::Null => drop(flat.remove(name)),
            value => drop(flat.insert(name.clone(), value.clone())),
        }
    }
}

/// Whether a request changes no settings, indexes or aliases.
fn is_looking(method: &str, path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    let last = path.rsplit('/').next().unwrap_or_default();
    matches!(method, "GET" | "HEAD") || ["_bulk", "_mget", "_refresh", "_flush"].contains(&last)
}

/// An answer of the right kind of server to a request that it does not know fails the test.
impl State {
    /// None for a request that comes late; its client sees the connection end.
    fn take(&mut self, method: &str, path: &str, body: &[u8]) -> Option<(u16, Value)> {
        let before = self.changes;
        if !is_looking(method, path) && self.late_change == Some(before) {
            self.late_change = None;
            self.changes += 1;
            self.late = Some((method.to_owned(), path.to_owned(), body.to_vec()));
            return None;
        }
        if !is_looking(method, path) {
            self.make_late_change();
        }
        Some(self.answer(method, path, body))
    }

    /// Makes the change of the request that comes late, if one is on its way.
    pub(crate) fn make_late_change(&mut self) {
        if let Some((method, path, body)) = self.late.take() {
            self.answer(&method, &path, &body);
        }
    }

    fn answer(&mut self, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
        let path = path.split('?').next().unwrap_or_default();
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let json: Value = serde_json::from_slice(body).unwrap_or_default();
        let is_looking = matches!(method, "GET" | "HEAD")
            || matches!(
                parts.last(),
                Some(&"_bulk" | &"_mget" | &"_refresh" | &"_flush")
            );
        if !is_looking {
            self.changes += 1;
        }
        match (method, parts.as_slice()) {
            ("GET", [""]) => {
                let version = json!({"number": self.version});
                (200, json!({ "version": version }))
            }
            ("GET", ["_cluster", "settings"]) => (
                200,
                json!({"transient": self.transient, "persistent": self.persistent}),
            ),
            ("PUT", ["_cluster", "settings"]) => {
                set(&mut self.transient, &json["transient"]);
                set(&mut self.persistent, &json["persistent"]);
                (200, json!({}))
            }
            ("GET", ["_cluster", "health"]) => (
                200,
                json!({"number_of_nodes": 3,
                "number_of_data_nodes": 3}),
            ),
            ("GET", ["_cluster", "health", index]) => self.health(index),
            ("GET", ["_cluster", "state", "metadata", index]) => {
                let terms = json!({"0": self.indexes[*index].term});
                let index = json!({*index: {"primary_terms": terms}});
                (200, json!({"metadata": {"indices": index}}))
            }
            ("GET", ["_nodes", "stats", "fs"]) => {
                let fs = json!({"total": {"total_in_bytes": 1_000_000_000_u64,
                    "available_in_bytes": 900_000_000_u64}});
                (
                    200,
                    json!({"nodes": {"x": {"name": "a", "roles": ["data"], "fs": fs}}}),
                )
            }
            ("GET", ["_nodes", "os"]) => {
                let node = json!({"host": "x", "roles": ["data"],
                    "os": {"available_processors": 12}});
                (200, json!({"nodes": {"x": node}}))
            }
            ("GET", ["_alias", alias]) => self.alias(alias),
            ("POST", ["_aliases"]) => self.change_aliases(&json),
            (_, [name]) => self.index(method, name, &json),
            (_, [name, rest]) => self.below(method, name, rest, body, &json),
            _ => panic!("{method} {path}"),
        }
    }

    fn health(&mut self, index: &str) -> (u16, Value) {
        let settings = &self.indexes[index].settings;
        let number = |name: &str| -> u64 {
            let value = &settings[name];
            value.as_str().unwrap().parse().unwrap()
        };
        let shards = number("index.number_of_shards");
        let copies = match settings.get("index.auto_expand_replicas") {
            Some(expand) if expand != "false" => 2,
            _ => number("index.number_of_replicas").min(2),
        };
        let (status, copies) = match self.copies_are_late {
            0 => ("green", copies),
            _ => ("yellow", 0),
        };
        self.copies_are_late = self.copies_are_late.saturating_sub(1);
        (
            200,
            json!({"status": status, "number_of_data_nodes": 3, "active_primary_shards": shards,
            "active_shards": shards * (1 + copies), "initializing_shards": 0,
            "relocating_shards": 0}),
        )
    }

    fn alias(&self, alias: &str) -> (u16, Value) {
        let Some(behind) = self.aliases.get(alias).filter(|behind| !behind.is_empty()) else {
            return (404, json!({"error": "missing"}));
        };
        let of_one = |(index, properties): (&String, &Value)| {
            (index.clone(), json!({"aliases": {alias: properties}}))
        };
        (200, Value::Object(behind.iter().map(of_one).collect()))
    }

    fn change_aliases(&mut self, json: &Value) -> (u16, Value) {
        if self.keeps_aliases {
            return (200, json!({}));
        }
        for action in json["actions"].as_array().unwrap() {
            let (what, change) = action.as_object().unwrap().iter().next().unwrap();
            let (index, alias) = (&change["index"], &change["alias"]);
            let (index, alias) = (index.as_str().unwrap(), alias.as_str().unwrap());
            assert!(self.indexes.contains_key(index));
            let behind = self.aliases.entry(alias.to_owned()).or_default();
            match what.as_str() {
                "remove" => drop(behind.remove(index).unwrap()),
                _ => {
                    let mut properties: Map<_, _> = change.as_object().unwrap().clone();
                    properties.retain(|name, _| name != "index" && name != "alias");
                    behind.insert(index.to_owned(), Value::Object(properties));
                }
            }
        }
        (200, json!({}))
    }

    fn index(&mut self, method: &str, name: &str, json: &Value) -> (u16, Value) {
        let is_alias = self
            .aliases
            .get(name)
            .is_some_and(|behind| !behind.is_empty());
        match (method, self.indexes.get(name)) {
            ("HEAD", Some(_)) => (200, json!({})),
            ("HEAD", None) if is_alias => (200, json!({})),
            ("GET", Some(index)) => {
                let mut settings = index.settings.clone();
                settings.insert("index.uuid".to_owned(), json!(name));
                (200, json!({name: {"settings": settings, "mappings": {}}}))
            }
            ("PUT", Some(_)) => (400, json!({"error": "resource_already_exists_exception"})),
            ("PUT", None) => {
                let mut index = Index {
                    term: 1,
                    ..Index::default()
                };
                set(&mut index.settings, &json["settings"]);
                self.indexes.insert(name.to_owned(), index);
                (200, json!({}))
            }
            ("DELETE", Some(_)) => {
                self.indexes.remove(name);
                for behind in self.aliases.values_mut() {
                    behind.remove(name);
                }
                (200, json!({}))
            }
            _ => (404, json!({"error": "index_not_found_exception"})),
        }
    }

    fn below(
        &mut self,
        method: &str,
        name: &str,
        rest: &str,
        body: &[u8],
        json: &Value,
    ) -> (u16, Value) {
        let behind = self
            .aliases
            .get(name)
            .and_then(|behind| behind.keys().next());
        let name = behind.cloned().unwrap_or_else(|| name.to_owned());
        let Some(index) = self.indexes.get_mut(&name) else {
            return (404, json!({"error": "index_not_found_exception"}));
        };
        match (method, rest) {
            ("PUT", "_settings") => set(&mut index.settings, json),
            ("POST", "_bulk") => {
                let answer = apply(index, body);
                if let Some(left) = &mut self.dies_after_bulks {
                    *left = left.saturating_sub(1);
                    if *left == 0 {
                        self.dies_after_bulks = None;
                        if !self.is_synced {
                            index.documents.clear();
                        }
                        index.term += 1;
                    }
                }
                return (200, answer);
            }
            ("POST", "_forcemerge") => {
                if let Some(key) = &self.merge_loses {
                    index.documents.remove(key);
                }
            }
            ("GET", "_count") => return (200, json!({"count": index.documents().len()})),
            ("GET", "_mapping") => return (200, json!({name: {"mappings": {}}})),
            ("POST", "_mget") => {
                let docs = json["docs"].as_array().unwrap().iter().map(|wanted| {
                    let found = index.documents.get(wanted["_id"].as_str().unwrap());
                    match found {
                        Some((version, Some(document))) => {
                            json!({"found": true, "_version": version, "_source": document})
                        }
                        _ => json!({"found": false}),
                    }
                });
                return (200, json!({"docs": docs.collect::<Vec<_>>()}));
            }
            ("GET", "_stats") | ("POST", "_refresh" | "_flush") => {}
            _ => panic!("{method} {rest}"),
        }
        (200, json!({}))
    }
}

fn apply(index: &mut Index, body: &[u8]) -> Value {
    let mut lines = body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let mut items = Vec::new();
    while let Some(line) = lines.next() {
        let action: Value = serde_json::from_slice(line).unwrap();
        let (op, meta) = action.as_object().unwrap().iter().next().unwrap();
        let document = (op == "index").then(|| serde_json::from_slice(lines.next().unwrap()));
        let document: Option<Value> = document.map(Result::unwrap);
        let (key, version) = (
            meta["_id"].as_str().unwrap(),
            meta["version"].as_u64().unwrap(),
        );
        let has = index.documents.get(key);
        let status = match has.is_some_and(|(has, _)| *has >= version) {
            true => 409,
            false => {
                index.documents.insert(key.to_owned(), (version, document));
                200
            }
        };
        let error = json!({"type": "version_conflict"});
        items.push(match status {
            409 => json!({op: {"status": status, "error": error}}),
            _ => json!({op: {"status": status}}),
        });
    }
    json!({ "items": items })
}
