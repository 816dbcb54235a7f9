//! Client: requests of a command to a server of Quire.

use crate::Context;
use crate::commands::serve::read_token;
use crate::error::{Error, Result};
use crate::http::{self, Answer};
use crate::progress::Progress;
use serde_json::Value;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

/// The time between two requests for the progress of a task.
const POLL: Duration = Duration::from_millis(200);

/// A server of Quire.
pub(crate) struct Client {
    address: SocketAddr,
    token: Option<String>,
}

impl Client {
    /// The server at `HOST:PORT`, and the file with the token that it needs.
    ///
    /// # Errors
    /// If there is no such host, or no token in the file.
    pub(crate) fn new(server: &str, token_file: Option<&Path>) -> Result<Client> {
        Ok(Client {
            address: resolve(server.trim_end_matches('/'))?,
            token: token_file.map(read_token).transpose()?,
        })
    }

    /// Shows the progress of the task at `path` until it has ended. Returns its result.
    ///
    /// # Errors
    /// As for [`request`](Client::request).
    pub(crate) fn wait(&self, context: &Context, path: &str) -> Result<Value> {
        let progress = Progress::bytes(None);
        loop {
            let state = self.request("GET", path);
            let state = state.inspect_err(|_| progress.finish())?;
            let Some(running) = state.get("running").filter(|running| !running.is_null()) else {
                progress.finish();
                return Ok(state["last"].clone());
            };
            progress.total(running["total_bytes"].as_u64().unwrap_or(0));
            progress.at(running["done_bytes"].as_u64().unwrap_or(0), String::new);
            context.env.sleep(POLL);
        }
    }

    /// Sends a request. Returns the JSON of the answer.
    ///
    /// # Errors
    /// If there is no answer, or its status is an error.
    pub(crate) fn request(&self, method: &str, path: &str) -> Result<Value> {
        let token = self.token.as_deref();
        let Answer { status, body } = http::request(self.address, method, path, "", token)
            .map_err(|error| {
                Error::Failed(format!("no answer from http://{}: {error}", self.address))
            })?;
        let json: Value = serde_json::from_str(&body).unwrap_or_default();
        if (200..300).contains(&status) {
            return Ok(json);
        }
        let reason = json["error"]["reason"].as_str().unwrap_or(body.trim());
        Err(Error::Failed(format!(
            "http://{} refuses with status {status}: {reason}",
            self.address
        )))
    }
}

fn resolve(server: &str) -> Result<SocketAddr> {
    let found = server.to_socket_addrs().map(|mut found| found.next());
    match found {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err(Error::Failed(format!("{server} has no address"))),
        Err(error) => Err(Error::Usage(format!(
            "`http://{server}` is no server: {error}; give http://HOST:PORT"
        ))),
    }
}
