//! A bad connection to a server: it cuts answers and flips bits in them, until it is told to stop.

use crate::kill::mixed;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(super) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    target: SocketAddr,
    seed: u64,
    honest: AtomicBool,
    spoilt: AtomicU64,
}

impl Proxy {
    pub(super) fn start(target: SocketAddr, seed: u64) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            target,
            seed,
            honest: AtomicBool::new(false),
            spoilt: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&shared);
        // It ends with the tests.
        std::thread::spawn(move || {
            for (n, client) in listener.incoming().enumerate() {
                let (client, shared) = (client.unwrap(), Arc::clone(&accepting));
                // A broken connection is the purpose here.
                std::thread::spawn(move || drop(shared.carry(client, n as u64)));
            }
        });
        Proxy { address, shared }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From the next connection on, answers are not changed.
    pub(super) fn be_honest(&self) {
        self.shared.honest.store(true, Ordering::Relaxed);
    }

    /// The number of answers that were cut or had a bit flipped.
    pub(super) fn spoilt(&self) -> u64 {
        self.shared.spoilt.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn carry(&self, mut client: TcpStream, n: u64) -> std::io::Result<()> {
        let mut server = TcpStream::connect(self.target)?;
        let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
        std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        let random = mixed(self.seed.wrapping_add(n));
        // The head is not changed: a wrong status is tested elsewhere.
        let at = 300 + random % (40 << (random % 11));
        let mut carried = 0;
        let mut buffer = vec![0; 16 << 10];
        loop {
            let bytes = server.read(&mut buffer)?;
            let piece = &mut buffer[..bytes];
            if !self.honest.load(Ordering::Relaxed)
                && (carried..carried + bytes as u64).contains(&at)
            {
                self.spoilt.fetch_add(1, Ordering::Relaxed);
                let place = (at - carried) as usize;
                if random & (1 << 40) == 0 {
                    client.write_all(&piece[..place])?;
                    break;
                }
                piece[place] ^= 1 << (random >> 32 & 7);
            }
            if bytes == 0 {
                break;
            }
            client.write_all(piece)?;
            carried += bytes as u64;
        }
        client.shutdown(Shutdown::Both)?;
        server.shutdown(Shutdown::Both)
    }
}
