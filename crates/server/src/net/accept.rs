//! Accepting connections. An error of one connection does not stop the port.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use crate::limits::{Connected, Limits};

/// The pause after the system could not accept, for example because no file descriptor was free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The next connection. Errors are logged, and accepting is tried again. A connection whose address
/// has too many is closed.
pub(crate) async fn accept(listener: &TcpListener, limits: &Arc<Limits>) -> (TcpStream, Connected) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => match limits.connect(Some(address.ip())) {
                Ok(connected) => return (stream, connected),
                Err(over) => tracing::debug!(%address, %over, "a connection is refused"),
            },
            Err(error) if is_of_one_connection(&error) => {}
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
