//! The leader's routes.
//!
//! A copy is held under a lease for the follower that requested it. While it is held, files that
//! compaction has replaced stay on disk. The lease ends when the follower releases the copy, or
//! when it has requested nothing of the copy for a while. The records that come after the copy are
//! kept for as long again: the follower takes them next.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::stream;
use parking_lot::Mutex;
use quiredb::ErrorKind;
use quiredb::operations::{LeaderCopy, LeaderStream, LogHold, copy_for_follower, serve_follower};
use serde_json::json;

use crate::access::caller::Access;
use crate::engine::{Engine, WeakEngine};
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::net::stop::StopFlag;

/// Copies held at once.
const COPIES_MAX: usize = 8;

/// A copy is released when the follower has requested nothing of it for this long.
const LEASE: Duration = Duration::from_secs(120);

/// How often leases are checked.
const LEASE_CHECK_EVERY: Duration = Duration::from_secs(10);

/// The leader sends its position at least this often.
const HEARTBEAT: Duration = Duration::from_millis(200);

/// Pieces of a file that are read ahead of the follower.
const PIECES_AHEAD: usize = 4;

/// What the leader's routes use of the server.
pub(crate) struct LeaderState {
    pub(crate) engine: Engine,
    pub(crate) copies: Arc<LeaderCopies>,
    /// A follower whose token is revoked is cut off.
    pub(crate) access: Arc<Access>,
    pub(crate) stopping: StopFlag,
}

/// The copies that followers are taking.
#[derive(Debug, Default)]
pub(crate) struct LeaderCopies {
    leases: Mutex<BTreeMap<String, Lease>>,
    /// What keeps the records after copies that were released, and when that was.
    following: Mutex<Vec<(Duration, Vec<LogHold>)>>,
}

#[derive(Debug)]
struct Lease {
    copy: Arc<LeaderCopy>,
    log_holds: Vec<LogHold>,
    /// When the follower last requested something of it.
    used: Duration,
}

impl LeaderCopies {
    /// Holds a copy, in place of the one that the same follower had before.
    ///
    /// # Errors
    /// 429 if [`COPIES_MAX`] followers hold copies.
    fn hold(&self, id: String, mut copy: LeaderCopy, now: Duration) -> Outcome<()> {
        let mut leases = self.leases.lock();
        if leases.len() >= COPIES_MAX && !leases.contains_key(&id) {
            return Err(Failure::new(
                StatusCode::TOO_MANY_REQUESTS,
                "rejected_execution_exception",
                format!("{COPIES_MAX} followers are taking copies; try again when one has ended"),
            ));
        }
        let log_holds = copy.take_log_holds();
        let lease = Lease {
            copy: Arc::new(copy),
            log_holds,
            used: now,
        };
        leases.insert(id, lease);
        assert!(
            leases.len() <= COPIES_MAX,
            "the number of leases is bounded"
        );
        Ok(())
    }

    fn get(&self, id: &str, now: Duration) -> Outcome<Arc<LeaderCopy>> {
        let mut leases = self.leases.lock();
        let lease = leases.get_mut(id).ok_or_else(|| {
            let reason =
                format!("no copy [{id}] is held: its lease has ended; request another copy");
            Failure::new(
                StatusCode::NOT_FOUND,
                "resource_not_found_exception",
                reason,
            )
        })?;
        lease.used = now;
        Ok(Arc::clone(&lease.copy))
    }

    /// Releases what is held for followers that have not come for too long; false if nothing is
    /// left.
    fn expire(&self, now: Duration) -> bool {
        let mut leases = self.leases.lock();
        leases.retain(|_, lease| {
            // A file that is being sent holds the copy too.
            Arc::strong_count(&lease.copy) > 1 || now.saturating_sub(lease.used) < LEASE
        });
        let mut following = self.following.lock();
        following.retain(|(released, _)| now.saturating_sub(*released) < LEASE);
        !leases.is_empty() || !following.is_empty()
    }

    fn release(&self, id: &str, now: Duration) {
        if let Some(lease) = self.leases.lock().remove(id) {
            self.following.lock().push((now, lease.log_holds));
        }
    }

    /// Releases all copies.
    pub(crate) fn clear(&self) {
        self.leases.lock().clear();
        self.following.lock().clear();
    }
}

/// `POST /_follow`
pub(crate) async fn follow(call: Call<LeaderState>) -> Outcome<Answer> {
    let (engine, stopping) = (call.state.engine.clone(), call.state.stopping.clone());
    let (access, grant) = (
        Arc::clone(&call.state.access),
        Arc::clone(call.grant.grant()),
    );
    // A message is made several times a second, so this is noticed soon.
    let is_over = move || stopping.is_set() || access.renewed(&grant).is_none();
    let hello = call.take_body().await?;
    let begun = engine
        .read(move |engine| serve_follower(&engine.database(), &hello.bytes))
        .await?;
    let stream = begun.map_err(|error| Failure::engine(&error, None))?;
    let pieces = stream::unfold(Some((is_over, stream)), |state| async move {
        let (is_over, stream) = state?;
        if is_over() {
            return None;
        }
        match next(stream).await {
            Ok((stream, Some(bytes))) => Some((Ok(Bytes::from(bytes)), Some((is_over, stream)))),
            Ok((_, None)) => None,
            Err(error) => Some((Err(error), None)),
        }
    });
    Ok(Answer::frames(Box::pin(pieces)))
}

/// Makes the next messages, on a thread that may block. It takes no slot of the engine's reads,
/// because it mostly waits.
async fn next(mut stream: LeaderStream) -> io::Result<(LeaderStream, Option<Vec<u8>>)> {
    let made = tokio::task::spawn_blocking(move || {
        let bytes = stream.next(HEARTBEAT);
        (stream, bytes)
    });
    let (stream, bytes) = made.await.map_err(io::Error::other)?;
    let bytes = bytes.inspect_err(|error| {
        if error.kind() != ErrorKind::Closed {
            tracing::error!(%error, "cannot send records to a follower");
        }
    });
    Ok((stream, bytes.map_err(io::Error::other)?))
}

/// `POST /_follow/copy/{id}`: the follower chooses the id.
pub(crate) async fn copy(call: Call<LeaderState>) -> Outcome<Answer> {
    let id = call.id();
    let LeaderState { engine, copies, .. } = call.state;
    let holder = Arc::clone(&copies);
    let taken = engine.read(move |engine| {
        let copy = copy_for_follower(&engine.database());
        let copy = copy.map_err(|error| Failure::engine(&error, None))?;
        let plan = copy.plan();
        holder.hold(id, copy, engine.now())?;
        Ok(Answer::text("text/plain; charset=utf-8", plan))
    });
    let answer = taken.await??;
    tokio::spawn(expire_leases(engine.downgrade(), Arc::downgrade(&copies)));
    Ok(answer)
}

/// Releases copies whose lease has ended, until none is left or the server is gone.
async fn expire_leases(engine: WeakEngine, copies: Weak<LeaderCopies>) {
    loop {
        tokio::time::sleep(LEASE_CHECK_EVERY).await;
        let (Some(engine), Some(copies)) = (engine.upgrade(), copies.upgrade()) else {
            break;
        };
        if !copies.expire(engine.now()) {
            break;
        }
    }
}

/// `GET /_follow/copy/{id}/{name}`
pub(crate) async fn file(call: Call<LeaderState>) -> Outcome<Answer> {
    let LeaderState { engine, copies, .. } = &call.state;
    let copy = copies.get(&call.id(), engine.now())?;
    let name = call.path_param("name").unwrap_or_default();
    let index: usize = name
        .parse()
        .map_err(|_| Failure::illegal_argument(format!("[{name}] is not the number of a file")))?;
    let (sender, mut receiver) = tokio::sync::mpsc::channel(PIECES_AHEAD);
    tokio::task::spawn_blocking(move || {
        let mut send = |piece| match sender.blocking_send(Ok(Bytes::from(piece))) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        let sent = copy.send(index, &mut send);
        let error = match sent {
            Ok(true) => return,
            Ok(false) => io::Error::other("the copy has no such file"),
            Err(error) => {
                tracing::error!(%error, "cannot send a file to a follower");
                io::Error::other(error)
            }
        };
        // Too late for a status: the connection is cut.
        let _ = sender.blocking_send(Err(error));
    });
    let pieces = stream::poll_fn(move |cx| receiver.poll_recv(cx));
    Ok(Answer::frames(Box::pin(pieces)))
}

/// `DELETE /_follow/copy/{id}`
pub(crate) async fn drop_copy(call: Call<LeaderState>) -> Outcome<Answer> {
    let now = call.state.engine.now();
    call.state.copies.release(&call.id(), now);
    Ok(Answer::ok(&json!({"acknowledged": true})))
}
