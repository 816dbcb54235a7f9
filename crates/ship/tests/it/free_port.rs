//! Ports of servers that tests start.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// Systems take the ports of connections from above these.
const FIRST: u32 = 10_000;
const COUNT: u32 = 20_000;

static TRIED: AtomicU32 = AtomicU32::new(0);

/// A port that nothing listens on. The system gives it to no connection, so it is free again when
/// its server was killed.
pub(crate) fn free_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let ports = (0..COUNT).map(|_| {
        // Tests of several processes begin at different ports.
        let turn = TRIED.fetch_add(1, Ordering::Relaxed);
        let turn = turn.wrapping_add(std::process::id().wrapping_mul(101));
        (FIRST + turn % COUNT) as u16
    });
    let mut free = ports.filter(is_free);
    free.next().unwrap()
}
