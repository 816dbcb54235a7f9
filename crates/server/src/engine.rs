//! The way from an async request to the blocking engine.
//!
//! # Invariants
//! 1. The engine runs on a thread that drives connections only for reads that are expected to be
//!    short: see [`in_place`].
//! 2. Reads, searches and writes each have their own bounded set of threads, so a read never waits
//!    for a write or a search.
//! 3. Searches of one client don't make those of another wait: see [`turns`]. Long searches don't
//!    make those wait that are expected to be short: these have turns of their own.
//! 4. A search has its turn before it reserves memory. So those that wait for their turn hold none.
//! 5. A slot is released when its work ends, not when the caller stops waiting for it. So the
//!    number of threads stays bounded when requests time out.

mod expected;
mod in_place;
mod shape;
mod turns;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::http::StatusCode;
use parking_lot::RwLock;
use quire_model::DOCUMENT_BYTES_MAX;
use quiredb::wide::WideCollection;
use quiredb::{Collection, Database, ErrorKind, FrozenCollection};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use self::expected::Expected;
use self::in_place::InPlace;
pub(crate) use self::shape::Shape;
use self::turns::{Turn, Turns};
use crate::collections::api_settings::{Use, check_use};
use crate::http::failure::{Failure, Outcome};
use crate::ids::document_id;
use crate::limits::{Caller, Searching};
use crate::options::ServerOptions;
use crate::search::execute::{BUCKETS_MAX, SEARCH_BYTES_MAX};
use crate::slow::{Clock, Most, counted};
use crate::tasks::task::Task;

/// A search that takes more CPU, or ends later, is long: others do not wait for it in its line.
const SHORT: Most = Most {
    cpu: Duration::from_millis(10),
    elapsed: Duration::from_millis(250),
};

/// The short searches in a row after which the next one of their shape is expected to be short: at
/// first, and at the most.
const SHORT_NEEDED: u16 = 1;
const SHORT_NEEDED_MAX: u16 = 64;

/// The database that is served, and the bounds on its use. A clone is another handle to the same.
#[derive(Clone)]
pub(crate) struct Engine(Arc<Inner>);

/// A handle that does not keep the database open.
pub(crate) struct WeakEngine(Weak<Inner>);

/// The turn of a search, which counts for its client until this is dropped.
pub(crate) struct SearchTurn {
    _turn: Turn,
    _searching: Searching,
    is_instant: bool,
}

impl SearchTurn {
    /// Whether the search is expected to be over before it has used much memory.
    pub(crate) fn is_instant(&self) -> bool {
        self.is_instant
    }
}

/// The turn of a write.
pub(crate) struct WriteTurn {
    _slot: OwnedSemaphorePermit,
}

struct Inner {
    served: RwLock<Database>,
    reads: Arc<Semaphore>,
    searches: Arc<Turns>,
    /// Of searches that are expected to be short.
    short_searches: Arc<Turns>,
    /// Whether searches are short.
    are_short: Expected,
    writes: Arc<Semaphore>,
    in_place: InPlace,
    request_timeout: Duration,
    /// When it began, by the monotonic clock.
    begun: Duration,
    /// The most buckets of an answer.
    buckets_max: AtomicU64,
    /// Reads, searches and writes for which no thread was free in time.
    rejected: [AtomicU64; 3],
}

impl Engine {
    pub(crate) fn new(database: Database, options: &ServerOptions) -> Engine {
        let searches = searches_within(database.work().limit()).min(options.searches_max);
        Engine(Arc::new(Inner {
            begun: database.env().monotonic(),
            served: RwLock::new(database),
            reads: slots(options.reads_max),
            searches: Turns::new(searches),
            short_searches: Turns::new(searches),
            are_short: Expected::new(SHORT_NEEDED, SHORT_NEEDED_MAX),
            writes: slots(options.writes_max),
            in_place: InPlace::new(),
            request_timeout: options.request_timeout,
            buckets_max: AtomicU64::new(BUCKETS_MAX),
            rejected: Default::default(),
        }))
    }

    /// A handle that does not keep the database open.
    pub(crate) fn downgrade(&self) -> WeakEngine {
        WeakEngine(Arc::downgrade(&self.0))
    }

    /// The database that is served now.
    pub(crate) fn database(&self) -> Database {
        self.0.served.read().clone()
    }

    /// Serves another database from now on; returns the one before.
    pub(crate) fn replace_database(&self, database: Database) -> Database {
        std::mem::replace(&mut *self.0.served.write(), database)
    }

    /// The most buckets of the aggregations of an answer.
    pub(crate) fn buckets_max(&self) -> u64 {
        self.0.buckets_max.load(Ordering::Relaxed)
    }

    /// Sets the most buckets of an answer; none is the default.
    pub(crate) fn set_buckets_max(&self, most: Option<u64>) {
        let most = most.unwrap_or(BUCKETS_MAX);
        self.0.buckets_max.store(most, Ordering::Relaxed);
    }

    /// The monotonic clock of the database's machine.
    pub(crate) fn now(&self) -> Duration {
        self.database().env().monotonic()
    }

    /// How long it has been serving.
    pub(crate) fn uptime(&self) -> Duration {
        self.now().saturating_sub(self.0.begun)
    }

    /// The time of the database's machine, in milliseconds since 1970 UTC.
    pub(crate) fn now_millis(&self) -> i64 {
        self.clock().0 / 1000
    }

    /// The time now: microseconds since 1970 UTC, and by the monotonic clock.
    pub(crate) fn clock(&self) -> (i64, Duration) {
        let database = self.database();
        (database.env().now_micros(), database.env().monotonic())
    }

    /// Runs a read on a thread that may block.
    ///
    /// # Errors
    /// 429 if no thread was free within the request timeout, 503 if the read took longer than it.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Engine) -> T + Send + 'static,
    ) -> Outcome<T> {
        let slot = self.slot(&self.0.reads, "read").await?;
        self.run_in(slot, "read", None, work).await
    }

    /// As [`Engine::read`], of a read that takes about as long as others of its shape: where they
    /// are short, on the present thread.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn read_shaped<T: Send + 'static>(
        &self,
        shape: Shape,
        work: impl FnOnce(&Engine) -> T + Send + 'static,
    ) -> Outcome<T> {
        let slot = self.slot(&self.0.reads, "read").await?;
        let Some(_place) = self.0.in_place.begin(shape) else {
            return self.run_in(slot, "read", Some(shape), work).await;
        };
        self.run_here("read", shape, work)
    }

    /// Waits until a search of the present request may run. What the search needs beside a thread
    /// is reserved afterwards.
    ///
    /// # Errors
    /// 429 if its client is over its limit of searches, or no thread was free within the request
    /// timeout.
    pub(crate) async fn search_turn(&self) -> Outcome<SearchTurn> {
        self.turn_of(&self.0.searches, None).await
    }

    /// As [`Engine::search_turn`], of a search that takes about as long as others of its shape.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn shaped_turn(&self, shape: Option<Shape>) -> Outcome<SearchTurn> {
        let (are_short, turns) = (&self.0.are_short, &self.0.short_searches);
        let Some(shape) = shape else {
            return self.search_turn().await;
        };
        if are_short.is_first(shape) {
            return self.turn_of(turns, Some(shape)).await;
        }
        if are_short.of(shape) {
            let turn = self.turn_of(turns, Some(shape)).await?;
            // Others of its shape may have been long meanwhile.
            if are_short.of(shape) {
                return Ok(turn);
            }
        }
        self.search_turn().await
    }

    async fn turn_of(&self, turns: &Arc<Turns>, shape: Option<Shape>) -> Outcome<SearchTurn> {
        let caller = Caller::of_request();
        let searching = caller.begin_search();
        let searching = searching.map_err(|over| Failure::too_many_requests(over.to_string()))?;
        let timeout = self.0.request_timeout;
        let turn = tokio::time::timeout(timeout, turns.take(caller.client));
        match turn.await {
            Ok(Some(turn)) => Ok(SearchTurn {
                _turn: turn,
                _searching: searching,
                is_instant: shape.is_some_and(|shape| self.0.in_place.expects_short(shape)),
            }),
            _ => Err(self.no_slot("search")),
        }
    }

    /// Runs a search, whose turn it is, on a thread that may block. Searches have threads of their
    /// own because they take much longer than reads. The function passed to `work` is true once the
    /// caller no longer waits; the search should stop then.
    ///
    /// # Errors
    /// 503 if it took longer than the request timeout.
    pub(crate) async fn search_in<T: Send + 'static>(
        &self,
        turn: SearchTurn,
        work: impl FnOnce(&Engine, &(dyn Fn() -> bool + Sync)) -> T + Send + 'static,
    ) -> Outcome<T> {
        self.search_elsewhere(turn, None, work).await
    }

    async fn search_elsewhere<T: Send + 'static>(
        &self,
        turn: SearchTurn,
        shape: Option<Shape>,
        work: impl FnOnce(&Engine, &(dyn Fn() -> bool + Sync)) -> T + Send + 'static,
    ) -> Outcome<T> {
        let caller = Arc::new(());
        let waits = Arc::downgrade(&caller);
        let work = move |engine: &Engine| work(engine, &|| waits.strong_count() == 0);
        let done = self.run_in(turn, "search", shape, work).await;
        drop(caller);
        done
    }

    /// As [`Engine::search_in`], of a search that takes about as long as others of its shape: where
    /// they are short, on the present thread. There it is not seen that the caller no longer waits:
    /// it stops when `task` is cancelled, or after the request timeout. One without a shape runs on
    /// another thread.
    ///
    /// # Errors
    /// As there, and if `task` was cancelled.
    pub(crate) async fn search_shaped<T: Send + 'static>(
        &self,
        turn: SearchTurn,
        shape: Option<Shape>,
        task: &Task,
        work: impl FnOnce(&Engine, &(dyn Fn() -> bool + Sync)) -> T + Send + 'static,
    ) -> Outcome<T> {
        let place = shape.and_then(|shape| Some((shape, self.0.in_place.begin(shape)?)));
        let Some((shape, _place)) = place else {
            return self.search_elsewhere(turn, shape, work).await;
        };
        let (begun, timeout) = (Instant::now(), self.0.request_timeout);
        let is_late = || begun.elapsed() > timeout;
        let done = self.run_here("search", shape, |engine| {
            work(engine, &|| task.is_cancelled() || is_late())
        });
        task.check()?;
        match is_late() {
            true => Err(timed_out("search", timeout)),
            false => done,
        }
    }

    /// Runs a search that needs a thread alone.
    ///
    /// # Errors
    /// As [`Engine::search_turn`] and [`Engine::search_in`].
    pub(crate) async fn search<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Engine, &(dyn Fn() -> bool + Sync)) -> T + Send + 'static,
    ) -> Outcome<T> {
        let turn = self.search_turn().await?;
        self.search_in(turn, work).await
    }

    /// Runs a write on a thread that may block. The write is done even if the caller stops waiting.
    ///
    /// # Errors
    /// As [`Engine::read`].
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Engine) -> T + Send + 'static,
    ) -> Outcome<T> {
        let turn = self.write_turn().await?;
        self.write_in(turn, work).await
    }

    /// Waits until a write of the present request may run.
    ///
    /// # Errors
    /// 429 if no thread was free within the request timeout.
    pub(crate) async fn write_turn(&self) -> Outcome<WriteTurn> {
        let slot = self.slot(&self.0.writes, "write").await?;
        Ok(WriteTurn { _slot: slot })
    }

    /// Runs a write, whose turn it is, as [`Engine::write`] does.
    ///
    /// # Errors
    /// 503 if it took longer than the request timeout.
    pub(crate) async fn write_in<T: Send + 'static>(
        &self,
        turn: WriteTurn,
        work: impl FnOnce(&Engine) -> T + Send + 'static,
    ) -> Outcome<T> {
        self.run_in(turn, "write", None, work).await
    }

    fn rejections(&self, what: &str) -> Option<&AtomicU64> {
        let at = match what {
            "read" | "get" => 0,
            "search" => 1,
            "write" => 2,
            _ => return None,
        };
        self.0.rejected.get(at)
    }

    /// How many of a kind (`get`, `search`, `write`) were refused because no thread was free in
    /// time.
    pub(crate) fn rejected(&self, kind: &str) -> u64 {
        let count = self.rejections(kind);
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Waits for a thread.
    async fn slot(
        &self,
        slots: &Arc<Semaphore>,
        what: &'static str,
    ) -> Outcome<OwnedSemaphorePermit> {
        let timeout = self.0.request_timeout;
        match tokio::time::timeout(timeout, Arc::clone(slots).acquire_owned()).await {
            Ok(Ok(slot)) => Ok(slot),
            _ => Err(self.no_slot(what)),
        }
    }

    /// Counts and tells that no thread was free in time.
    fn no_slot(&self, what: &str) -> Failure {
        if let Some(count) = self.rejections(what) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        no_slot(what, self.0.request_timeout)
    }

    /// Runs `work` on a thread that may block; `slot` is held until it ends. How long it takes is
    /// noted for its shape.
    async fn run_in<T: Send + 'static>(
        &self,
        slot: impl Send + 'static,
        what: &'static str,
        shape: Option<Shape>,
        work: impl FnOnce(&Engine) -> T + Send + 'static,
    ) -> Outcome<T> {
        let timeout = self.0.request_timeout;
        let work = self.noted(Clock::Thread, shape, move |engine| {
            // Released when the work ends, also if the caller no longer waits for it.
            let _slot = slot;
            work(engine)
        });
        let task = tokio::task::spawn_blocking(work);
        match tokio::time::timeout(timeout, task).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => {
                tracing::error!(%error, "a {what} panicked");
                Err(panicked())
            }
            Err(_) => Err(timed_out(what, timeout)),
        }
    }

    /// Runs `work` on the present thread.
    fn run_here<T>(&self, what: &str, shape: Shape, work: impl FnOnce(&Engine) -> T) -> Outcome<T> {
        // As on another thread: a panic ends this request alone. Locks are not poisoned.
        let work = self.noted(self.0.in_place.clock(), Some(shape), work);
        catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
            tracing::error!("a {what} panicked");
            panicked()
        })
    }

    /// `work`, which counts for the present request. How long it takes is noted for its shape.
    fn noted<T, W: FnOnce(&Engine) -> T>(
        &self,
        clock: Clock,
        shape: Option<Shape>,
        work: W,
    ) -> impl FnOnce() -> T + use<T, W> {
        let engine = self.clone();
        let work = counted(clock, move || (work(&engine), engine));
        move || {
            let ((done, engine), took) = work();
            if let Some(shape) = shape {
                engine.0.in_place.note(shape, took);
                if let Some(is_short) = took.is_within(SHORT) {
                    engine.0.are_short.note(shape, is_short);
                }
            }
            done
        }
    }

    /// The existing collection that a document is read from: of this name, or the only one of this
    /// alias, whose filter is for searches alone.
    ///
    /// # Errors
    /// 404 if there is none of this name; 400 for an alias of several collections; what
    /// [`check_use`](Engine::check_use) refuses.
    pub(crate) fn collection(&self, name: &str) -> Outcome<Collection> {
        let collection = self.only_collection(name)?;
        self.check_use(collection.name(), Use::Read)?;
        Ok(collection)
    }

    /// The existing collection that is changed as a whole: of this name, or the only one of this
    /// alias.
    ///
    /// # Errors
    /// As of [`collection`](Engine::collection).
    pub(crate) fn collection_to_change(&self, name: &str) -> Outcome<Collection> {
        let collection = self.only_collection(name)?;
        self.check_use(collection.name(), Use::Change)?;
        Ok(collection)
    }

    /// The collection of this name, or the only one of this alias.
    fn only_collection(&self, name: &str) -> Outcome<Collection> {
        match self.database().alias(name) {
            Some(alias) => self.collection_named(alias.only(name).map_err(of_alias)?),
            None => self.collection_named(name),
        }
    }

    /// Refuses what the state of a collection, or one of its blocks, does not allow now. What was
    /// begun before the state changed is still done.
    ///
    /// # Errors
    /// 400 if it is closed and documents are meant, 403 or 429 for a block.
    pub(crate) fn check_use(&self, name: &str, what: Use) -> Outcome<()> {
        match self.database().api_settings().get(name) {
            Some(settings) => check_use(name, settings, what),
            None => Ok(()),
        }
    }

    /// The existing collection that is written to: of this name, or that of this alias.
    ///
    /// # Errors
    /// 404 if there is none of this name; 400 for an alias without a collection for writes; what
    /// [`check_use`](Engine::check_use) refuses.
    pub(crate) fn collection_for_writes(&self, name: &str) -> Outcome<Collection> {
        let collection = match self.database().alias(name) {
            Some(alias) => self.collection_named(alias.write_target(name).map_err(of_alias)?)?,
            None => self.collection_named(name)?,
        };
        self.check_use(collection.name(), Use::Write)?;
        Ok(collection)
    }

    /// The collection of this name, which is no alias, whether or not it is closed or blocked.
    ///
    /// # Errors
    /// 404 if there is none.
    pub(crate) fn collection_named(&self, name: &str) -> Outcome<Collection> {
        let opened = self.database().collection_named(name);
        opened.map_err(|error| not_opened(&error, name))
    }

    /// The names of all collections, wide and frozen ones too.
    pub(crate) fn collections(&self) -> Vec<String> {
        let database = self.database();
        let frozen = database.frozen_collections();
        let frozen = frozen.iter().map(|one| one.name().to_owned()).collect();
        [database.collections(), database.wide_collections(), frozen].concat()
    }

    /// The frozen collection of this name.
    pub(crate) fn frozen(&self, name: &str) -> Option<FrozenCollection> {
        self.database().frozen_collection(name)
    }

    /// As [`collection`](Engine::collection), of what may be a wide collection; none if it is no
    /// wide one.
    ///
    /// # Errors
    /// As there, of a wide one.
    pub(crate) fn wide(&self, name: &str) -> Outcome<Option<WideCollection>> {
        self.wide_for(name, Use::Read)
    }

    /// Whether this is the name of a wide collection, or an alias of one alone. Opens nothing.
    pub(crate) fn is_wide(&self, name: &str) -> bool {
        self.database().is_wide(name)
    }

    /// As [`wide`](Engine::wide), of what is used in this way.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn wide_for(&self, name: &str, what: Use) -> Outcome<Option<WideCollection>> {
        match self.database().alias(name) {
            // One of several is refused as a plain one.
            Some(alias) => match alias.only(name) {
                Ok(only) => self.wide_named(only, what),
                Err(_) => Ok(None),
            },
            None => self.wide_named(name, what),
        }
    }

    /// As [`collection_for_writes`](Engine::collection_for_writes), of what may be a wide
    /// collection; none if it is no wide one.
    ///
    /// # Errors
    /// As there, of a wide one.
    pub(crate) fn wide_for_writes(&self, name: &str) -> Outcome<Option<WideCollection>> {
        match self.database().alias(name) {
            Some(alias) => match alias.write_target(name) {
                Ok(target) => self.wide_named(target, Use::Write),
                Err(_) => Ok(None),
            },
            None => self.wide_named(name, Use::Write),
        }
    }

    /// The wide collection of this name, which is no alias.
    fn wide_named(&self, name: &str, what: Use) -> Outcome<Option<WideCollection>> {
        if !self.database().is_wide(name) {
            return Ok(None);
        }
        self.check_use(name, what)?;
        self.wide_collection(name).map(Some)
    }

    /// The wide collection of this name, which is no alias.
    ///
    /// # Errors
    /// 404 if there is no collection of this name; 400 if it is a plain one.
    pub(crate) fn wide_collection(&self, name: &str) -> Outcome<WideCollection> {
        let opened = self.database().wide_collection(name);
        opened.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Failure::index_not_found(name),
            _ => Failure::engine(&error, Some(name)),
        })
    }

    /// The wide collections that a name stands for, alone or among others.
    pub(crate) fn wide_names(&self, name: &str) -> Vec<String> {
        let database = self.database();
        let mut names: Vec<String> = match database.alias(name) {
            Some(alias) => alias.0.into_keys().collect(),
            None => vec![name.to_owned()],
        };
        names.retain(|name| database.is_wide(name));
        names
    }

    /// A new document id.
    pub(crate) fn new_id(&self) -> String {
        document_id(&**self.database().env())
    }
}

impl WeakEngine {
    /// The engine, unless the server is gone.
    pub(crate) fn upgrade(&self) -> Option<Engine> {
        self.0.upgrade().map(Engine)
    }
}

/// The failure of a request whose collection can't be opened.
pub(crate) fn not_opened(error: &quiredb::Error, name: &str) -> Failure {
    use quiredb::Error;
    match error.kind() {
        _ if matches!(error, Error::IsWide { .. } | Error::IsFrozen { .. }) => {
            Failure::engine(error, Some(name))
        }
        ErrorKind::NotFound | ErrorKind::Invalid => Failure::index_not_found(name),
        _ => Failure::engine(error, Some(name)),
    }
}

/// Whether something is not done since the collection is wide.
pub(crate) fn is_wide(error: &quiredb::Error) -> bool {
    matches!(error, quiredb::Error::IsWide { .. })
}

/// The failure of a request that names an alias where it can't.
fn of_alias(error: quiredb::Error) -> Failure {
    Failure::illegal_argument(error.to_string())
}

/// The number of searches that there is memory for while one document of the largest size is read.
fn searches_within(work_bytes: u64) -> usize {
    let bytes = work_bytes.saturating_sub(2 * DOCUMENT_BYTES_MAX as u64);
    usize::try_from(bytes / SEARCH_BYTES_MAX as u64).map_or(usize::MAX, |searches| searches.max(1))
}

fn slots(count: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)))
}

fn no_slot(what: &str, timeout: Duration) -> Failure {
    let reason = format!(
        "too many {what}s at once: no thread was free within {timeout:?}; nothing was done, \
         send it again later"
    );
    Failure::new(
        StatusCode::TOO_MANY_REQUESTS,
        "rejected_execution_exception",
        reason,
    )
}

fn panicked() -> Failure {
    Failure::internal("this request met a bug of the server; the server's log has the details")
}

pub(crate) fn timed_out(what: &str, timeout: Duration) -> Failure {
    let more = if what == "write" {
        "; what was sent may still be applied"
    } else {
        ""
    };
    let reason = format!("the {what} took longer than {timeout:?}{more}");
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, "timeout_exception", reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Client;
    use crate::slow::Took;

    /// Has reads of a shape be expected to be short.
    fn expect_short(engine: &Engine, shape: Shape) {
        let shortest = Took {
            elapsed: Duration::ZERO,
            cpu: None,
        };
        for _ in 0..1000 {
            engine.0.in_place.note(shape, shortest);
            engine.0.are_short.note(shape, true);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_short_read_runs_in_place_and_others_go_on_if_it_waits_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open(dir.path().join("db")).unwrap();
        let engine = Engine::new(database, &ServerOptions::default());
        let shape = Shape::of("get", "things");
        // On one of the two threads: this function itself has a third one.
        let connection = async move {
            let here = std::thread::current().id();
            let thread = |_: &Engine| std::thread::current().id();
            assert_ne!(engine.read_shaped(shape, thread).await.unwrap(), here);
            expect_short(&engine, shape);
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let greeting = tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                tokio::io::AsyncWriteExt::write_all(&mut stream, b"hello").await
            });
            tokio::task::yield_now().await;
            let here = std::thread::current().id();
            let waits = move |engine: &Engine| {
                // The other thread is left to drive connections.
                assert!(engine.0.in_place.begin(shape).is_none());
                let mut client = std::net::TcpStream::connect(address).unwrap();
                let mut text = String::new();
                std::io::Read::read_to_string(&mut client, &mut text).unwrap();
                (std::thread::current().id(), text)
            };
            let waited = engine.read_shaped(shape, waits).await.unwrap();
            assert_eq!(waited, (here, "hello".to_owned()));
            greeting.await.unwrap().unwrap();
            // A panic ends its request alone.
            expect_short(&engine, shape);
            let failed: Outcome<()> = engine.read_shaped(shape, |_| panic!("a bug")).await;
            assert_eq!(
                failed.unwrap_err().status,
                StatusCode::INTERNAL_SERVER_ERROR
            );
            assert!(engine.0.in_place.begin(shape).is_some());
        };
        tokio::spawn(connection).await.unwrap();
    }

    #[tokio::test]
    async fn the_only_thread_of_connections_does_no_read() {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open(dir.path().join("db")).unwrap();
        let engine = Engine::new(database, &ServerOptions::default());
        let shape = Shape::of("get", "things");
        expect_short(&engine, shape);
        assert!(engine.0.in_place.begin(shape).is_none());
    }

    #[tokio::test]
    async fn a_search_ends_when_its_caller_goes_away() {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open(dir.path().join("db")).unwrap();
        let options = ServerOptions {
            searches_max: 1,
            ..ServerOptions::default()
        };
        let engine = Engine::new(database, &options);
        let endless = engine.search(|_, stop| {
            while !stop() {
                std::thread::yield_now();
            }
        });
        let gone = tokio::time::timeout(Duration::from_millis(20), endless).await;
        assert!(gone.is_err());
        // The only thread for searches is free again.
        engine.search(|_, _| ()).await.unwrap();
    }

    #[tokio::test]
    async fn long_searches_of_one_client_do_not_make_those_of_another_wait() {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open(dir.path().join("db")).unwrap();
        let engine = Engine::new(database, &ServerOptions::default());
        let greedy = Caller::unlimited(Client::of("greedy", None));
        let modest = Caller::unlimited(Client::of("modest", None));
        let endless = || {
            let work = |_: &Engine, stop: &(dyn Fn() -> bool + Sync)| {
                while !stop() {
                    std::thread::yield_now();
                }
            };
            let mut endless = Box::pin(greedy.clone().of(engine.search(work)));
            assert!(futures_util::FutureExt::now_or_never(endless.as_mut()).is_none());
            endless
        };
        // Two have all threads, and the others are before the next one in the line.
        let _running: Vec<_> = (0..10).map(|_| endless()).collect();
        // Short ones of the same client do not wait for them.
        let shape = Shape::of("count", "things");
        expect_short(&engine, shape);
        greedy.of(engine.shaped_turn(Some(shape))).await.unwrap();
        for _ in 0..3 {
            modest.clone().of(engine.search(|_, _| ())).await.unwrap();
        }
    }
}
