//! A server beside the benchmark, in a process of its own.

use crate::Result;
use crate::measure::cpu_seconds_of;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// A server, stopped when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts a server that is told its address.
    pub(crate) fn start(command: &mut Command, address: SocketAddr) -> Result<Server> {
        let started = command.spawn();
        let child =
            started.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        Ok(Server { child, address })
    }

    /// Starts `quire serve` or `quire follow` on a free port, and waits until it says in the field
    /// `port` where that is.
    pub(crate) fn start_quire(command: &mut Command, port: &str) -> Result<Server> {
        command
            .args(["--listen", "127.0.0.1:0", "--json", "--quiet"])
            .stdout(Stdio::piped());
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Server::start(command, unknown)?;
        let mut line = String::new();
        if let Some(stdout) = server.child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let told: Value = serde_json::from_str(&line)?;
        let address = told[port].as_str().ok_or("the server does not start")?;
        server.address = address.trim_start_matches("http://").parse()?;
        Ok(server)
    }

    /// Fails if it has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("the server ended: {status}").into()),
        }
    }

    /// Stops it as an operator would.
    pub(crate) fn stop(mut self) -> Result<()> {
        let pid = self.child.id().to_string();
        Command::new("kill").arg(pid).status()?;
        match self.child.wait()?.success() {
            true => Ok(()),
            false => Err("the server did not end well".into()),
        }
    }

    /// CPU seconds that it has taken so far.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds_of(&self.child.id().to_string())
    }
}
