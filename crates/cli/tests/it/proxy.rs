//! A network with faults: a TCP proxy that cuts, stalls, delays, truncates and refuses.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What happens to connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    Fine,
    /// Each part takes that long.
    Slow(Duration),
    /// Each direction of a connection passes that many bytes, then the connection ends.
    Truncates(u64),
    /// Nothing passes, and nothing ends.
    Stalls,
    /// Connections end at once.
    Refuses,
}

/// A proxy of one server.
pub(super) struct Proxy {
    pub(super) port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    target: Mutex<SocketAddr>,
    network: Mutex<Network>,
    /// Grows when all connections are to end.
    cuts: AtomicU64,
    is_over: AtomicBool,
}

impl Proxy {
    /// Serves until it is dropped.
    pub(super) fn start(target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            target: Mutex::new(target),
            network: Mutex::new(Network::Fine),
            cuts: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if serving.is_over.load(Ordering::Relaxed) {
                    return;
                }
                connect(client, &serving);
            }
        });
        Proxy { port, shared }
    }

    /// The server has another address now.
    pub(super) fn retarget(&self, target: SocketAddr) {
        *self.shared.target.lock().unwrap() = target;
    }

    /// What happens from now on, to open connections too.
    pub(super) fn set(&self, network: Network) {
        *self.shared.network.lock().unwrap() = network;
    }

    /// Ends all connections.
    pub(super) fn cut(&self) {
        self.shared.cuts.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.cut();
        // Wakes the listener.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn network(&self) -> Network {
        *self.network.lock().unwrap()
    }
}

fn connect(client: TcpStream, shared: &Arc<Shared>) {
    if shared.network() == Network::Refuses {
        return;
    }
    let target = *shared.target.lock().unwrap();
    let Ok(server) = TcpStream::connect(target) else {
        return;
    };
    let cuts = shared.cuts.load(Ordering::Relaxed);
    for (from, to) in [(&client, &server), (&server, &client)] {
        let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            copy(&from, &to, &shared, cuts);
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
}

/// Copies until one of them ends, or the network has it end.
fn copy(mut from: &TcpStream, mut to: &TcpStream, shared: &Shared, cuts: u64) {
    let mut buffer = [0; 16 << 10];
    let mut passed = 0;
    from.set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    while shared.cuts.load(Ordering::Relaxed) == cuts {
        let network = shared.network();
        match network {
            Network::Fine => {}
            Network::Slow(time) => thread::sleep(time),
            Network::Stalls => {
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            Network::Truncates(bytes) if passed < bytes => {}
            Network::Truncates(_) | Network::Refuses => return,
        }
        let count = match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if is_no_data(&error) => continue,
            Err(_) => return,
        };
        let allowed = match network {
            Network::Truncates(bytes) => count.min((bytes - passed) as usize),
            _ => count,
        };
        if to.write_all(&buffer[..allowed]).is_err() {
            return;
        }
        passed += allowed as u64;
    }
}

fn is_no_data(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// A server that sends back what it gets.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut buffer = [0; 1024];
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    let _ = stream.write_all(&buffer[..count]);
                }
            });
        }
    });
    address
}

#[test]
fn the_proxy_passes_cuts_truncates_and_refuses() {
    let proxy = Proxy::start(echo());
    let connect = || {
        let stream = TcpStream::connect(("127.0.0.1", proxy.port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream
    };
    let mut stream = connect();
    let mut answer = [0; 5];
    stream.write_all(b"hello").unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello");
    proxy.cut();
    assert!(!matches!(stream.read(&mut answer), Ok(1..)));
    proxy.set(Network::Truncates(3));
    let mut stream = connect();
    stream.write_all(b"hello").unwrap();
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    assert!(b"hel".starts_with(&all[..]), "{all:?}");
    proxy.set(Network::Refuses);
    assert!(!matches!(connect().read(&mut answer), Ok(1..)));
    proxy.set(Network::Fine);
    let mut stream = connect();
    stream.write_all(b"again").unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"again");
}
