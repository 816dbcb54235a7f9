//! Client: requests of a command to a server of Quire.

use crate::Context;
use crate::commands::serve::read_token;
use crate::error::{Error, Result};
use crate::http::{self, Answer};
use crate::progress::Progress;
use quire_server::{ClientTlsFiles, Remote, RemoteError};
use serde_json::Value;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::time::Duration;

/// The time between two requests for the progress of a task.
const POLL: Duration = Duration::from_millis(200);

/// How a server is called: its token, and the files of TLS.
#[derive(Debug, clap::Args)]
pub(crate) struct ServerAccess {
    /// A file with the token of the server
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tls: TlsArguments,
}

/// The files of TLS with which a server is called.
#[derive(Debug, clap::Args)]
pub(crate) struct TlsArguments {
    /// For a server with https: the certificates of those who sign its certificate (PEM)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// For a server that wants one: the client's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// The private key of the client's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
}

/// A server of Quire.
pub(crate) struct Client {
    server: Remote,
}

/// Whether it is the URL of a server, and not the path of a directory.
pub(crate) fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

impl TlsArguments {
    /// The files that are given.
    pub(crate) fn files(&self) -> ClientTlsFiles {
        ClientTlsFiles {
            ca: self.ca.clone(),
            certificate: self.client_cert.clone(),
            key: self.client_key.clone(),
        }
    }
}

impl ServerAccess {
    /// Whether nothing is given: a directory needs none of it.
    pub(crate) fn is_empty(&self) -> bool {
        self.token_file.is_none() && self.tls.files() == ClientTlsFiles::default()
    }

    /// The token, if a file with one is given.
    ///
    /// # Errors
    /// If it can't be read.
    pub(crate) fn token(&self) -> Result<Option<String>> {
        self.token_file.as_deref().map(read_token).transpose()
    }

    /// The server at a URL, which may be away.
    ///
    /// # Errors
    /// If there is no token in its file, or the files for TLS can't be used.
    pub(crate) fn remote(&self, context: &Context, url: &str) -> Result<Remote> {
        let url = url.trim_end_matches('/');
        let remote = Remote::new(&context.env, url, self.token()?, &self.tls.files());
        remote.map_err(unreachable)
    }

    /// The server at a URL.
    ///
    /// # Errors
    /// If there is no such host, no token in its file, or the files for TLS can't be used.
    pub(crate) fn client(&self, context: &Context, url: &str) -> Result<Client> {
        let url = url.trim_end_matches('/');
        let server = self.remote(context, url)?;
        let address = url.split_once("://").map_or(url, |(_, address)| address);
        resolve(url, address)?;
        Ok(Client { server })
    }
}

/// The error of a server that can't be called as the command line says.
pub(crate) fn unreachable(error: RemoteError) -> Error {
    match error {
        RemoteError::File(error) => Error::Failed(error.to_string()),
        RemoteError::NoAuthority(_) => Error::Usage(format!("{error}: --ca FILE")),
        error => Error::Usage(error.to_string()),
    }
}

impl Client {
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
        self.send(method, path, "")
    }

    /// Sends a request with a body of JSON. Returns the JSON of the answer.
    ///
    /// # Errors
    /// As for [`request`](Client::request).
    pub(crate) fn send(&self, method: &str, path: &str, json: &str) -> Result<Value> {
        let Answer { status, body } =
            http::request(&self.server, method, path, json).map_err(|error| {
                Error::Failed(format!("no answer from {}: {error}", self.server.url()))
            })?;
        let json: Value = serde_json::from_str(&body).unwrap_or_default();
        if (200..300).contains(&status) {
            return Ok(json);
        }
        let reason = json["error"]["reason"].as_str().unwrap_or(body.trim());
        Err(Error::Failed(format!(
            "{} refuses with status {status}: {reason}",
            self.server.url()
        )))
    }
}

fn resolve(url: &str, address: &str) -> Result<()> {
    let found = address.to_socket_addrs().map(|mut found| found.next());
    match found {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(Error::Failed(format!("{address} has no address"))),
        Err(error) => Err(Error::Usage(format!(
            "`{url}` is no server: {error}; give http://HOST:PORT"
        ))),
    }
}
