//! Requests to a cluster, each sent again while it does not answer.

use super::record::Place;
use super::settings::{Flat, flatten, of_index};
use crate::backoff;
use crate::bulk_sink::Server;
use crate::error::{Error, Result};
use crate::http::{Answer, Body, Http, segment};
use crate::sink::Failure;
use quire_env::Env;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// How often the caller's wish to stop is looked at while waiting.
const TICK: Duration = Duration::from_millis(100);

/// A cluster, as a reindex calls it.
pub(crate) struct Cluster<'a> {
    pub(crate) http: Http,
    pub(crate) env: &'a dyn Env,
    /// Attempts of a request; the last one's failure is an error.
    pub(crate) attempts_max: u32,
    pub(crate) stop: &'a (dyn Fn() -> bool + Sync),
    /// Is given why a request waits.
    pub(crate) waiting: &'a (dyn Fn(&str) + Sync),
}

/// A node that holds data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Disk {
    pub(crate) node: String,
    pub(crate) total_bytes: u64,
    pub(crate) free_bytes: u64,
}

/// How an index is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) data_nodes: u64,
    /// All copies are there that the cluster wants.
    pub(crate) is_green: bool,
    pub(crate) active_primaries: u64,
    pub(crate) active: u64,
    pub(crate) initializing: u64,
    pub(crate) relocating: u64,
}

/// Whether a node, as the cluster describes it, holds data.
fn has_data(node: &Value) -> bool {
    let roles = node["roles"].as_array().into_iter().flatten();
    let mut names = roles.filter_map(Value::as_str);
    names.any(|role| role.starts_with("data"))
}

impl Cluster<'_> {
    /// Waits; ends early to stop.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub(crate) fn wait(&self, time: Duration) -> Result<()> {
        let end = self.env.monotonic() + time;
        loop {
            if (self.stop)() {
                return Err(Error::Stopped);
            }
            let left = end.saturating_sub(self.env.monotonic());
            if left.is_zero() {
                return Ok(());
            }
            self.env.sleep(left.min(TICK));
        }
    }

    /// What answers there.
    ///
    /// # Errors
    /// If it is no server of these.
    pub(crate) fn server(&self) -> Result<Server> {
        self.until_answer("GET /", || Server::of(&self.http))
    }

    /// Sends a request until it is answered otherwise than by "not now".
    ///
    /// # Errors
    /// After the last attempt.
    pub(crate) fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer> {
        let text = body.map(Value::to_string).unwrap_or_default();
        let body = match text.as_str() {
            "" => Body::Empty,
            text => Body::Json(text.as_bytes()),
        };
        self.until_answer(&format!("{method} {path}"), || {
            let answer = self.http.call(method, path, body)?;
            match answer.status {
                408 | 429 | 500.. => Err(Failure::Busy(answer.excerpt())),
                _ => Ok(answer),
            }
        })
    }

    fn until_answer<T>(
        &self,
        what: &str,
        mut call: impl FnMut() -> Result<T, Failure>,
    ) -> Result<T> {
        let mut failed = 0;
        loop {
            if (self.stop)() {
                return Err(Error::Stopped);
            }
            match call() {
                Ok(answer) => return Ok(answer),
                Err(Failure::Busy(why) | Failure::NoAnswer(why))
                    if failed + 1 < self.attempts_max =>
                {
                    failed += 1;
                    (self.waiting)(&format!("{what}: {why}"));
                    let mut random = [0; 2];
                    self.env.random(&mut random);
                    self.wait(backoff::wait(failed, u16::from_le_bytes(random)))?;
                }
                Err(failure) => {
                    return Err(self.failed(&format!("{what}: {}", failure.reason())));
                }
            }
        }
    }

    fn failed(&self, what: &str) -> Error {
        Error::Cluster {
            url: self.http.url().to_owned(),
            reason: what.to_owned(),
        }
    }

    /// Sends a request once. Any status is an answer.
    ///
    /// # Errors
    /// If there is no answer.
    pub(crate) fn once(&self, method: &str, path: &str) -> Result<Answer, Failure> {
        self.http.call(method, path, Body::Empty)
    }

    /// The JSON answer of a request that must succeed.
    ///
    /// # Errors
    /// If it is refused.
    pub(crate) fn done(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let answer = self.call(method, path, body)?;
        match answer.status {
            200 | 201 => Ok(answer.json()),
            _ => Err(self.failed(&format!("{method} {path}: {}", answer.excerpt()))),
        }
    }

    /// The JSON answer; none for 404.
    ///
    /// # Errors
    /// If it is refused otherwise.
    pub(crate) fn get(&self, path: &str) -> Result<Option<Value>> {
        let answer = self.call("GET", path, None)?;
        match answer.status {
            404 => Ok(None),
            200 => Ok(Some(answer.json())),
            _ => Err(self.failed(&format!("GET {path}: {}", answer.excerpt()))),
        }
    }

    /// The indexes behind an alias, each with the alias's properties there.
    ///
    /// # Errors
    /// If it is refused.
    pub(crate) fn alias(&self, alias: &str) -> Result<BTreeMap<String, Value>> {
        let found = self.get(&format!("/_alias/{}", segment(alias)))?;
        let indexes = found.as_ref().and_then(Value::as_object);
        let of_one = |(index, value): (&String, &Value)| {
            let properties = value["aliases"][alias].clone();
            properties.is_object().then(|| (index.clone(), properties))
        };
        Ok(indexes.into_iter().flatten().filter_map(of_one).collect())
    }

    /// Whether there is an index (or an alias) of this name.
    ///
    /// # Errors
    /// If it is refused.
    pub(crate) fn exists(&self, index: &str) -> Result<bool> {
        let path = format!("/{}", segment(index));
        let answer = self.call("HEAD", &path, None)?;
        match answer.status {
            200 => Ok(true),
            404 => Ok(false),
            _ => Err(self.failed(&format!("HEAD {path}: {}", answer.excerpt()))),
        }
    }

    /// The settings that were given at a place; none if there is no such index.
    ///
    /// # Errors
    /// If it is refused.
    pub(crate) fn settings(&self, place: &Place) -> Result<Option<Flat>> {
        let scope = match place {
            Place::Index(index) => {
                let found = self.get(&format!("/{}", segment(index)))?;
                return Ok(found.map(|found| of_index(&found[index]["settings"])));
            }
            Place::Transient => "transient",
            Place::Persistent => "persistent",
        };
        let all = self.done("GET", "/_cluster/settings", None)?;
        Ok(Some(flatten(&all[scope])))
    }

    /// What holds for the cluster, defaults too where the server shows them.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn effective_settings(&self) -> Result<Flat> {
        let path = "/_cluster/settings?include_defaults=true";
        let all = match self.call("GET", path, None)? {
            answer if answer.status == 200 => answer.json(),
            _ => self.done("GET", "/_cluster/settings", None)?,
        };
        let mut effective = flatten(&all["defaults"]);
        effective.extend(flatten(&all["persistent"]));
        effective.extend(flatten(&all["transient"]));
        Ok(effective)
    }

    /// Sets settings; null is the default.
    ///
    /// # Errors
    /// If it is refused.
    pub(crate) fn put_settings(&self, place: &Place, settings: &Flat) -> Result<()> {
        let (path, body) = match place {
            Place::Index(index) => (format!("/{}/_settings", segment(index)), json!(settings)),
            Place::Transient => (
                "/_cluster/settings".to_owned(),
                json!({ "transient": settings }),
            ),
            Place::Persistent => (
                "/_cluster/settings".to_owned(),
                json!({ "persistent": settings }),
            ),
        };
        self.done("PUT", &path, Some(&body)).map(drop)
    }

    /// How often each primary shard of an index began; null where that is not known.
    ///
    /// # Errors
    /// If it is refused.
    pub(crate) fn primary_terms(&self, server: &Server, index: &str) -> Result<Value> {
        if server.flavor == "quire" {
            return Ok(Value::Null);
        }
        let state = self.done(
            "GET",
            &format!("/_cluster/state/metadata/{}", segment(index)),
            None,
        )?;
        Ok(state["metadata"]["indices"][index]["primary_terms"].clone())
    }

    /// The cores of the nodes that hold data: those of a host count once, however many nodes it
    /// has. None if a node does not tell its own.
    ///
    /// # Errors
    /// If it is refused.
    pub(crate) fn cores(&self) -> Result<Option<u64>> {
        let answer = self.done("GET", "/_nodes/os", None)?;
        let nodes = answer["nodes"].as_object().into_iter().flatten();
        let mut of_hosts: BTreeMap<&str, u64> = BTreeMap::new();
        for (id, node) in nodes.filter(|(_, node)| has_data(node)) {
            let Some(cores) = node["os"]["available_processors"].as_u64() else {
                return Ok(None);
            };
            let host = node["host"].as_str().unwrap_or(id);
            let of_host = of_hosts.entry(host).or_default();
            *of_host = cores.max(*of_host);
        }
        Ok(Some(of_hosts.into_values().sum()))
    }

    /// The nodes that hold data, by name.
    ///
    /// # Errors
    /// If it is refused.
    pub(crate) fn disks(&self) -> Result<Vec<Disk>> {
        let stats = self.done("GET", "/_nodes/stats/fs", None)?;
        let nodes = stats["nodes"].as_object().into_iter().flatten();
        let nodes = nodes.filter(|(_, node)| has_data(node));
        let disks = nodes.map(|(id, node)| {
            let total = &node["fs"]["total"];
            Disk {
                node: node["name"].as_str().unwrap_or(id).to_owned(),
                total_bytes: total["total_in_bytes"].as_u64().unwrap_or(0),
                free_bytes: total["available_in_bytes"].as_u64().unwrap_or(0),
            }
        });
        let mut disks: Vec<Disk> = disks.collect();
        disks.sort_by(|one, other| one.node.cmp(&other.node));
        Ok(disks)
    }

    /// The health of an index, or of the whole cluster.
    ///
    /// # Errors
    /// If it is refused.
    pub(crate) fn health(&self, index: Option<&str>) -> Result<Health> {
        let below = index.map(|index| format!("/{}", segment(index)));
        let path = format!("/_cluster/health{}", below.unwrap_or_default());
        let health = self.done("GET", &path, None)?;
        let count = |name: &str| health[name].as_u64().unwrap_or(0);
        Ok(Health {
            data_nodes: count("number_of_data_nodes"),
            is_green: health["status"] == "green",
            active_primaries: count("active_primary_shards"),
            active: count("active_shards"),
            initializing: count("initializing_shards"),
            relocating: count("relocating_shards"),
        })
    }

    /// Documents of an index that a search sees.
    ///
    /// # Errors
    /// If it is refused.
    pub(crate) fn count(&self, index: &str) -> Result<u64> {
        let answer = self.done("GET", &format!("/{}/_count", segment(index)), None)?;
        Ok(answer["count"].as_u64().unwrap_or(0))
    }

    /// Makes an index's documents visible.
    ///
    /// # Errors
    /// If it is refused.
    pub(crate) fn refresh(&self, index: &str) -> Result<()> {
        let path = format!("/{}/_refresh", segment(index));
        self.done("POST", &path, None).map(drop)
    }
}
