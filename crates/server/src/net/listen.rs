//! Listening: how many connections may wait to be accepted, and what the system may keep unsent.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// Connections that may wait to be accepted; the system may allow fewer (`net.core.somaxconn`). If
/// more come at once, the system drops what they send, and they try again after a second.
const BACKLOG: u32 = 4096;

/// Bytes of answers that the system takes for a connection beyond those on their way. Without a
/// bound it takes megabytes for a client that reads none, and the server spends its time on them.
const UNSENT_MAX: u32 = 128 * 1024;

/// Listens on an address. Called on a runtime of tokio. What is accepted has the options of the
/// socket that listens.
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
    let unsent_max = socket2::SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT_MAX);
    if let Err(error) = unsent_max {
        tracing::warn!(%error, "the system does not bound what is unsent to clients");
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "the bound of the system is read where it keeps it"
)]
mod tests {
    use std::io::ErrorKind;
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn little_is_taken_for_a_client_that_reads_nothing() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let (mut taken, piece) = (0, vec![0; 64 * 1024]);
        loop {
            stream.writable().await.unwrap();
            match stream.try_write(&piece) {
                Ok(bytes) => taken += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        // What the client's system takes, and what is unsent.
        assert!(taken < 1024 * 1024, "{taken}");
    }

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
