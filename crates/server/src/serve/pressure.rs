//! Memory pressure: what the process has resident beyond what is counted.
//!
//! The allocator keeps freed memory for a moment, and in parts that are too small for the next
//! request. If so much is resident that the bound is near, the cache gives back as much, and heavy
//! requests wait for each other.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::Engine;
use crate::http::buffers::Buffers;
use crate::net::connections::Connections;

/// What may be resident beside the memory of the database, and for each connection.
const BESIDE_BYTES: u64 = 64 << 20;
const CONNECTION_BYTES: u64 = 16 << 10;

/// So far below the bound it is near.
const NEAR_BYTES: u64 = 8 << 20;

/// How often it is looked at: a request that reads from memory takes longer to fill much of it.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Looks at what is resident.
pub(super) struct Pressure {
    engine: Engine,
    buffers: Buffers,
    /// Of each port.
    connections: [Arc<Connections>; 2],
    is_high: bool,
}

impl Pressure {
    pub(super) fn new(
        engine: Engine,
        buffers: Buffers,
        connections: [Arc<Connections>; 2],
    ) -> Pressure {
        Pressure {
            engine,
            buffers,
            connections,
            is_high: false,
        }
    }

    /// Looks until it is dropped.
    pub(super) async fn watch(mut self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            // None: this system does not say.
            if let Some(bytes) = self.engine.database().env().anonymous_bytes() {
                self.look(bytes);
            }
        }
    }

    /// Bytes that may be resident, but for pages of files.
    fn bound(&self) -> u64 {
        let connections: u64 = self.connections.iter().map(|port| port.open()).sum();
        let memory_bytes = self.engine.database().memory_bytes();
        memory_bytes + BESIDE_BYTES + CONNECTION_BYTES * connections
    }

    /// `bytes` are resident, but for pages of files.
    fn look(&mut self, bytes: u64) {
        let excess = bytes.saturating_sub(self.bound() - NEAR_BYTES);
        let was_high = std::mem::replace(&mut self.is_high, excess > 0);
        self.buffers.set_pressed(self.is_high);
        if self.is_high {
            self.engine.database().give_memory_back(excess);
        }
        if self.is_high && !was_high {
            tracing::warn!(
                anonymous_bytes = bytes,
                "more memory is resident than is counted: caches give some back, and heavy \
                 requests wait for each other"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;
    use quiredb::{CollectionSettings, Database, Document, Key, SimEnv};

    use crate::options::ServerOptions;

    const HEAVY_BYTES: usize = 4 << 20;

    #[tokio::test]
    async fn under_pressure_the_cache_shrinks_and_heavy_requests_are_one_at_a_time() {
        let database = Database::builder("db").env(SimEnv::new(1));
        let database = database.memory(32 << 20).open().unwrap();
        let collection = database
            .create_collection("c", CollectionSettings::default())
            .unwrap();
        let text = "x".repeat(10_000);
        for n in 0..500 {
            let document = Document::from_json(format!("{{\"{n}\":\"{text}\"}}").as_bytes());
            let mut batch = collection.batch();
            batch.put_at(&Key::from(n), &document.unwrap());
            assert!(batch.write().iter().all(Result::is_ok));
        }
        collection.flush().unwrap();
        for n in 0..500 {
            assert!(collection.get(&Key::from(n)).unwrap().is_some());
        }
        let options = ServerOptions::default();
        let engine = Engine::new(database.clone(), &options);
        let buffers = Buffers::new(database.work(), database.memtables());
        let ports: [Arc<Connections>; 2] = Default::default();
        let mut pressure = Pressure::new(engine, buffers.clone(), ports.clone());
        let hold = |bytes| buffers.hold(bytes, Duration::from_millis(20));
        let bound = pressure.bound();
        assert_eq!(bound, 96 << 20);

        pressure.look(bound - NEAR_BYTES);
        let first = hold(HEAVY_BYTES).await.unwrap();
        drop(hold(HEAVY_BYTES).await.unwrap());

        let before = database.stats().unwrap().cache_bytes;
        pressure.look(bound);
        let after = database.stats().unwrap().cache_bytes;
        assert!(before > after, "{before} {after}");
        let refused = hold(HEAVY_BYTES).await.unwrap_err();
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
        drop(hold(1_000).await.unwrap());
        drop(first);
        drop(hold(HEAVY_BYTES).await.unwrap());

        // Connections have memory of their own.
        let _open: Vec<_> = (0..1024).map(|_| ports[0].begin()).collect();
        pressure.look(bound);
        let _first = hold(HEAVY_BYTES).await.unwrap();
        drop(hold(HEAVY_BYTES).await.unwrap());
    }
}
