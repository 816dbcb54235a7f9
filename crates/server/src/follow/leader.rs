//! The leader's routes.
//!
//! A copy is held for the follower that asked for it under a lease: files that compaction has
//! replaced stay on disk as long. It ends when the follower says so, or when nothing was asked of
//! the copy for a while.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::stream;
use parking_lot::Mutex;
use quiredb::ErrorKind;
use quiredb::operations::{LeaderCopy, LeaderStream, copy_for_follower, serve_follower};
use serde_json::json;

use crate::answer::Answer;
use crate::call::Call;
use crate::failure::{Failure, Outcome};
use crate::state::Server;

/// Copies held at once.
const COPIES_MAX: usize = 8;

/// A copy that nothing is asked of is held for so long.
const LEASE: Duration = Duration::from_secs(120);

/// How often leases are looked through.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// A follower is told how far the leader is at least this often.
const PATIENCE: Duration = Duration::from_millis(200);

/// Pieces of a file that wait for a follower to take them.
const PIECES_AHEAD: usize = 4;

/// The copies that followers are taking.
#[derive(Debug, Default)]
pub(crate) struct LeaderCopies {
    held: Mutex<BTreeMap<String, Held>>,
}

#[derive(Debug)]
struct Held {
    copy: Arc<LeaderCopy>,
    /// When something was asked of it last.
    used: Duration,
}

impl LeaderCopies {
    /// Holds a copy, in place of the one that the same follower had before.
    fn hold(&self, id: String, copy: LeaderCopy, now: Duration) -> Outcome<()> {
        let mut held = self.held.lock();
        if held.len() >= COPIES_MAX && !held.contains_key(&id) {
            return Err(Failure::new(
                StatusCode::TOO_MANY_REQUESTS,
                "rejected_execution_exception",
                format!("{COPIES_MAX} followers are taking copies; try again when one has ended"),
            ));
        }
        let copy = Arc::new(copy);
        held.insert(id, Held { copy, used: now });
        Ok(())
    }

    fn get(&self, id: &str, now: Duration) -> Outcome<Arc<LeaderCopy>> {
        let mut held = self.held.lock();
        let found = held.get_mut(id).ok_or_else(|| {
            let reason = format!("no copy [{id}] is held: ask for another");
            Failure::new(
                StatusCode::NOT_FOUND,
                "resource_not_found_exception",
                reason,
            )
        })?;
        found.used = now;
        Ok(Arc::clone(&found.copy))
    }

    /// Lets go of those that nothing was asked of for too long; false if there is none left.
    fn expire(&self, now: Duration) -> bool {
        let mut held = self.held.lock();
        held.retain(|_, held| {
            // Whoever takes a file of it has it too.
            Arc::strong_count(&held.copy) > 1 || now.saturating_sub(held.used) < LEASE
        });
        !held.is_empty()
    }

    /// Lets go of all.
    pub(crate) fn clear(&self) {
        self.held.lock().clear();
    }
}

/// `POST /_follow`
pub(crate) async fn follow(call: Call) -> Outcome<Answer> {
    let server = Arc::clone(&call.server);
    let hello = call.take_body().await?;
    let begun = server
        .read(move |server| serve_follower(&server.database(), &hello.bytes))
        .await?;
    let stream = begun.map_err(|error| Failure::engine(&error, None))?;
    let pieces = stream::unfold(Some((server, stream)), |state| async move {
        let (server, stream) = state?;
        if server.is_stopping() {
            return None;
        }
        match next(stream).await {
            Ok((stream, Some(bytes))) => Some((Ok(Bytes::from(bytes)), Some((server, stream)))),
            Ok((_, None)) => None,
            Err(error) => Some((Err(error), None)),
        }
    });
    Ok(Answer::frames(Box::pin(pieces)))
}

/// Makes the next messages, on a thread that may block: it mostly waits, so it takes no turn of
/// those who read.
async fn next(mut stream: LeaderStream) -> io::Result<(LeaderStream, Option<Vec<u8>>)> {
    let made = tokio::task::spawn_blocking(move || {
        let bytes = stream.next(PATIENCE);
        (stream, bytes)
    });
    let (stream, bytes) = made.await.map_err(io::Error::other)?;
    let bytes = bytes.inspect_err(|error| {
        if error.kind() != ErrorKind::Closed {
            tracing::error!(%error, "a follower could not be served");
        }
    });
    Ok((stream, bytes.map_err(io::Error::other)?))
}

/// `POST /_follow/copy/{id}`: the id is the follower's own
pub(crate) async fn copy(call: Call) -> Outcome<Answer> {
    let (server, id) = (Arc::clone(&call.server), call.id());
    let taken = server.read(move |server| {
        let copy = copy_for_follower(&server.database());
        let copy = copy.map_err(|error| Failure::engine(&error, None))?;
        let plan = copy.plan();
        server.copies.hold(id, copy, server.now())?;
        Ok(Answer::text("text/plain; charset=utf-8", plan))
    });
    let answer = taken.await??;
    let server = Arc::downgrade(&server);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let Some(server) = server.upgrade() else {
                break;
            };
            if !server.copies.expire(server.now()) {
                break;
            }
        }
    });
    Ok(answer)
}

/// `GET /_follow/copy/{id}/{name}`
pub(crate) async fn file(call: Call) -> Outcome<Answer> {
    let copy = call.server.copies.get(&call.id(), call.server.now())?;
    let name = call.place("name").unwrap_or_default();
    let index: usize = name
        .parse()
        .map_err(|_| Failure::illegal_argument(format!("[{name}] is no number of a file")))?;
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
                tracing::error!(%error, "a follower could not be given a file");
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
pub(crate) async fn drop_copy(call: Call) -> Outcome<Answer> {
    call.server.copies.held.lock().remove(&call.id());
    Ok(Answer::ok(&json!({"acknowledged": true})))
}

impl Server {
    fn now(&self) -> Duration {
        self.database().env().monotonic()
    }
}
