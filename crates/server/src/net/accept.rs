//! Accepting connections. An error of one connection does not stop the port.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use super::idle::IdleConnections;
use crate::limits::{Connected, Limits};

/// The pause after the system could not accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The time that a connection has to end that gives its file descriptor to a newcomer.
const DESCRIPTOR_PAUSE: Duration = Duration::from_millis(5);

/// The next connection. Errors are logged, and accepting is tried again. A connection whose address
/// has too many is closed. If no file descriptor is free, a connection of `idle` is closed for the
/// newcomer.
pub(crate) async fn accept(
    listener: &TcpListener,
    limits: &Arc<Limits>,
    idle: &IdleConnections,
) -> (TcpStream, Connected) {
    let mut is_known = false;
    loop {
        match listener.accept().await {
            Ok((stream, address)) => match limits.connect(Some(address.ip())) {
                Ok(connected) => return (stream, connected),
                Err(over) => tracing::debug!(%address, %over, "a connection is refused"),
            },
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) if is_of_descriptors(&error) => {
                if !std::mem::replace(&mut is_known, true) {
                    tracing::warn!(%error, "connections are closed for newcomers");
                }
                let pause = match idle.evict_oldest(None) {
                    true => DESCRIPTOR_PAUSE,
                    false => ACCEPT_PAUSE,
                };
                tokio::time::sleep(pause).await;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}

/// The process, or the system, has no file descriptor left.
fn is_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let of = [Errno::MFILE, Errno::NFILE];
    of.iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
