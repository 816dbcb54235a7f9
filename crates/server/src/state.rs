//! What all requests share: the database, the bounds, and the way from an async request to a
//! blocking engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use parking_lot::RwLock;
use quiredb::{Collection, CollectionSettings, Database, ErrorKind};
use tokio::sync::Semaphore;

use crate::follow::{Following, LeaderCopies};
use crate::http::buffers::Buffers;
use crate::http::failure::{Failure, Outcome};
use crate::jobs::backup::Backups;
use crate::jobs::verify::Verifications;
use crate::memcached::Counters;
use crate::metrics::requests::Metrics;
use crate::options::ServerOptions;

/// What all requests share.
pub(crate) struct Server {
    served: RwLock<Database>,
    /// What is known of the leader, if this is a follower: then nothing is written but what comes
    /// from there.
    pub(crate) following: Option<Arc<Following>>,
    /// What followers copy of this one.
    pub(crate) copies: Arc<LeaderCopies>,
    /// Set when it stops: answers without end end then.
    pub(crate) stopping: AtomicBool,
    pub(crate) options: ServerOptions,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) buffers: Buffers,
    pub(crate) backups: Arc<Backups>,
    pub(crate) verifications: Arc<Verifications>,
    pub(crate) memcached: Arc<Counters>,
    /// When it began, by the clock that never jumps.
    pub(crate) begun: Duration,
    reads: Arc<Semaphore>,
    searches: Arc<Semaphore>,
    writes: Arc<Semaphore>,
}

impl Server {
    pub(crate) fn new(
        database: Database,
        options: ServerOptions,
        following: Option<Arc<Following>>,
    ) -> Server {
        Server {
            metrics: Arc::default(),
            backups: Arc::default(),
            verifications: Arc::default(),
            memcached: Arc::default(),
            begun: database.env().monotonic(),
            buffers: Buffers::new(options.buffer_bytes_max),
            reads: slots(options.reads_max),
            searches: slots(options.searches_max),
            writes: slots(options.writes_max),
            served: RwLock::new(database),
            following,
            copies: Arc::default(),
            stopping: AtomicBool::new(false),
            options,
        }
    }

    /// The database that is served now.
    pub(crate) fn database(&self) -> Database {
        self.served.read().clone()
    }

    /// Whether it is stopping: what waits is to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Serves another database from now on; returns the one before.
    pub(crate) fn serve_instead(&self, database: Database) -> Database {
        std::mem::replace(&mut *self.served.write(), database)
    }

    /// Refuses what would make a follower differ from its leader.
    pub(crate) fn check_writable(&self) -> Outcome<()> {
        match &self.following {
            None => Ok(()),
            Some(following) => Err(Failure::new(
                StatusCode::FORBIDDEN,
                "cluster_block_exception",
                following.refusal(),
            )),
        }
    }

    /// Runs a read on a thread that may block. Reads have threads of their own, so none waits for a
    /// write.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Server) -> T + Send + 'static,
    ) -> Outcome<T> {
        self.run(&self.reads, "read", work).await
    }

    /// Runs a search on a thread that may block: apart from reads, which are over in no time. It is
    /// told whether somebody still waits for it.
    pub(crate) async fn search<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Server, &(dyn Fn() -> bool + Sync)) -> T + Send + 'static,
    ) -> Outcome<T> {
        let waiting = Arc::new(());
        let waited_for = Arc::downgrade(&waiting);
        let work = move |server: &Server| work(server, &|| waited_for.strong_count() == 0);
        let done = self.run(&self.searches, "search", work).await;
        drop(waiting);
        done
    }

    /// Runs a write on a thread that may block. If the request goes away meanwhile, the write is
    /// still done.
    pub(crate) async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Server) -> T + Send + 'static,
    ) -> Outcome<T> {
        self.run(&self.writes, "write", work).await
    }

    async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        slots: &Arc<Semaphore>,
        what: &'static str,
        work: impl FnOnce(&Server) -> T + Send + 'static,
    ) -> Outcome<T> {
        let timeout = self.options.request_timeout;
        let slot = tokio::time::timeout(timeout, Arc::clone(slots).acquire_owned()).await;
        let Ok(Ok(slot)) = slot else {
            let reason = format!(
                "too many {what}s at once: waited {timeout:?} for a turn; nothing was done"
            );
            return Err(Failure::new(
                StatusCode::TOO_MANY_REQUESTS,
                "rejected_execution_exception",
                reason,
            ));
        };
        let server = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || {
            // Given back when the work ends, also if nobody waits for it any more.
            let _slot = slot;
            work(&server)
        });
        match tokio::time::timeout(timeout, task).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => {
                tracing::error!(%error, "a {what} panicked");
                Err(Failure::internal(
                    "this request met a bug of the server; its log says more",
                ))
            }
            Err(_) => Err(timed_out(what, timeout)),
        }
    }

    /// An existing collection.
    pub(crate) fn collection(&self, name: &str) -> Outcome<Collection> {
        self.database()
            .collection(name)
            .map_err(|error| match error.kind() {
                ErrorKind::NotFound | ErrorKind::Invalid => Failure::index_not_found(name),
                _ => Failure::engine(&error, Some(name)),
            })
    }

    /// A collection to write to, made with default settings if there is none.
    pub(crate) fn collection_or_create(&self, name: &str) -> Outcome<Collection> {
        let made = self
            .database()
            .collection_or_create(name, CollectionSettings::default);
        made.map_err(|error| match error.kind() {
            ErrorKind::Invalid => invalid_name(&error, name),
            _ => Failure::engine(&error, Some(name)),
        })
    }

    /// A new id: 20 characters that need no escape in a URL.
    pub(crate) fn new_id(&self) -> String {
        let mut bytes = [0; 20];
        self.database().env().random(&mut bytes);
        bytes.map(letter).iter().collect()
    }
}

/// A name that no collection can have.
pub(crate) fn invalid_name(error: &quiredb::Error, name: &str) -> Failure {
    let reason = format!("Invalid index name [{name}], {error}");
    Failure::new(
        StatusCode::BAD_REQUEST,
        "invalid_index_name_exception",
        reason,
    )
    .with("index", name)
}

fn timed_out(what: &str, timeout: Duration) -> Failure {
    let more = if what == "write" {
        "; what was sent may still be applied"
    } else {
        ""
    };
    let reason = format!("the {what} took longer than {timeout:?}{more}");
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, "timeout_exception", reason)
}

/// One of the 64 letters that need no escape in a URL.
pub(crate) fn letter(byte: u8) -> char {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    LETTERS
        .get(usize::from(byte % 64))
        .copied()
        .map_or('A', char::from)
}

fn slots(count: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)))
}
