//! A node of OpenSearch, in a process of its own.

use super::Setup;
use crate::Result;
use crate::http::Client;
use crate::server::Server;
use serde_json::Value;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What takes longer to start is taken as hung.
const PATIENCE: Duration = Duration::from_secs(300);

pub(super) struct Node {
    server: Server,
    pub(super) client: Client,
}

impl Node {
    pub(super) fn start(setup: &Setup) -> Result<Node> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/opensearch.sh");
        let mut command = Command::new(script);
        command.arg("run").arg(&setup.opensearch);
        command.arg(setup.engine_dir().join("opensearch"));
        command.arg(port.to_string()).stdout(Stdio::null());
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut server = Server::start(&mut command, address)?;
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            server.check()?;
            let health = Client::connect(address)
                .and_then(|mut client| client.json("GET", "/_cluster/health", b""));
            if health.is_ok_and(|health| health["status"] == "green") {
                let client = Client::connect(address)?;
                return Ok(Node { server, client });
            }
            std::thread::sleep(Duration::from_millis(300));
        }
        Err("OpenSearch does not start".into())
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.server.address
    }

    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        self.server.cpu_seconds()
    }

    /// Creates an index with a mapping.
    pub(super) fn create(&mut self, name: &str, mapping: &str) -> Result<()> {
        self.client
            .json("PUT", &format!("/{name}"), mapping.as_bytes())?;
        Ok(())
    }

    pub(super) fn bulk(&mut self, name: &str, body: &str) -> Result<()> {
        bulk(&mut self.client, name, body)
    }

    pub(super) fn count(&mut self, name: &str) -> Result<u64> {
        let count = self.client.json("GET", &format!("/{name}/_count"), b"")?;
        Ok(count["count"].as_u64().ok_or("no count")?)
    }

    pub(super) fn store_bytes(&mut self, name: &str) -> Result<u64> {
        let stats = self
            .client
            .json("GET", &format!("/{name}/_stats/store"), b"")?;
        let bytes = &stats["_all"]["primaries"]["store"]["size_in_bytes"];
        Ok(bytes.as_u64().ok_or("no size")?)
    }
}

/// Sends a bulk body.
pub(super) fn bulk(client: &mut Client, name: &str, body: &str) -> Result<()> {
    let path = format!("/{name}/_bulk?filter_path=errors");
    let answer: Value = client.json("POST", &path, body.as_bytes())?;
    match answer["errors"].as_bool() {
        Some(false) => Ok(()),
        _ => Err(format!("a bulk request failed: {answer}").into()),
    }
}

/// Settings and a mapping: one shard, strings as keywords, numbers as they are; but `unindexed` is
/// only stored.
pub(super) fn mapping(unindexed: Option<&str>) -> String {
    let unindexed = unindexed.map_or_else(String::new, |name| {
        format!(r#""{name}":{{"type":"keyword","index":false,"doc_values":false}}"#)
    });
    format!(
        r#"{{"settings":{{"number_of_shards":1,"number_of_replicas":0,
        "index.requests.cache.enable":false}},
        "mappings":{{"date_detection":false,"properties":{{{unindexed}}},
        "dynamic_templates":[{{"strings":{{"match_mapping_type":"string",
        "mapping":{{"type":"keyword","ignore_above":256}}}}}}]}}}}"#
    )
}

/// Appends the action that indexes a document, which begins with its `_id`, and the document
/// without that.
pub(super) fn push_index(body: &mut String, document: &str) -> Result<()> {
    let rest = document
        .strip_prefix("{\"_id\":")
        .ok_or("a document without _id")?;
    let end = match rest.strip_prefix('"') {
        Some(text) => text.find('"').map(|end| end + 2),
        None => rest.find(','),
    };
    let (id, rest) = rest.split_at(end.ok_or("an id without an end")?);
    body.push_str("{\"index\":{\"_id\":");
    body.push_str(id);
    body.push_str("}}\n{");
    body.push_str(rest.trim_start_matches(','));
    body.push('\n');
    Ok(())
}
