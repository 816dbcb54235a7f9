//! Listening: how many connections may wait to be accepted.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// Connections that may wait to be accepted; the system may allow fewer (`net.core.somaxconn`). If
/// more come at once, the system drops what they send, and they try again after a second.
const BACKLOG: u32 = 4096;

/// Listens on an address. Called on a runtime of tokio.
///
/// # Errors
/// If the operating system refuses the address.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // The system may still remember connections of a server that has just stopped.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "the bound of the system is read where it keeps it"
)]
mod tests {
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_burst_of_newcomers_waits_for_the_server_and_not_for_the_system() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn");
        let most = most.ok().and_then(|most| most.trim().parse().ok());
        let burst = most.unwrap_or(128).min(800);
        // Nothing is accepted, however long they wait.
        let connected = (0..burst).map(|_| {
            let timeout = Duration::from_secs(5);
            TcpStream::connect_timeout(&address, timeout).unwrap()
        });
        assert_eq!(connected.collect::<Vec<_>>().len(), burst);
    }
}
