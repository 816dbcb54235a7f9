//! What a search keeps between requests: points in time and scrolls, each with a lease.
//!
//! # Invariants
//! 1. There are at most [`CONTEXTS_MAX`] at once: each keeps files of the database from being
//!    freed.
//! 2. One whose lease is over is dropped without a request: a task waits for that moment.

use parking_lot::Mutex;
use quiredb::View;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

use super::scroll::Scroll;
use crate::http::failure::{Failure, Outcome};
use axum::http::StatusCode;

/// Points in time and scrolls that are open at once.
pub(crate) const CONTEXTS_MAX: usize = 100;

/// What is kept under an id.
#[derive(Clone)]
pub(crate) enum Context {
    /// A view of each collection.
    Point(Arc<Vec<View>>),
    /// A search that is answered page by page. Its pages are made in turn.
    /// Also the views that it searches.
    Scroll(Arc<Mutex<Scroll>>, Arc<Vec<View>>),
}

struct Leased {
    context: Context,
    begun: Instant,
    /// The time that it is kept after it was used.
    lease: Duration,
    ends: Instant,
}

/// An open context, as it is listed.
pub(crate) struct Listed {
    pub(crate) id: String,
    pub(crate) age: Duration,
    pub(crate) lease: Duration,
}

/// The open contexts of a server.
#[derive(Clone, Default)]
pub(crate) struct Contexts(Arc<Mutex<BTreeMap<String, Leased>>>);

impl Contexts {
    /// Keeps a context.
    ///
    /// # Errors
    /// 429 if there are too many.
    pub(crate) fn open(&self, id: &str, context: Context, lease: Duration) -> Outcome<()> {
        {
            let mut all = self.0.lock();
            drop_ended(&mut all);
            if all.len() >= CONTEXTS_MAX {
                return Err(Failure::new(
                    StatusCode::TOO_MANY_REQUESTS,
                    "rejected_execution_exception",
                    format!(
                        "there are {CONTEXTS_MAX} open scrolls and points in time already: delete \
                         some, or wait until their [keep_alive] is over"
                    ),
                ));
            }
            let begun = Instant::now();
            let leased = Leased {
                context,
                begun,
                lease,
                ends: begun + lease,
            };
            all.insert(id.to_owned(), leased);
        }
        self.drop_after(lease);
        Ok(())
    }

    /// An open context; its lease begins anew if one is given, and never becomes shorter.
    ///
    /// # Errors
    /// 404 if there is none of this id.
    pub(crate) fn get(&self, id: &str, lease: Option<Duration>) -> Outcome<Context> {
        let found = {
            let mut all = self.0.lock();
            drop_ended(&mut all);
            all.get_mut(id).map(|leased| {
                if let Some(lease) = lease {
                    leased.lease = leased.lease.max(lease);
                    leased.ends = Instant::now() + leased.lease;
                }
                (leased.context.clone(), leased.lease)
            })
        };
        let (context, kept) = found.ok_or_else(|| missing(id))?;
        if lease.is_some() {
            self.drop_after(kept);
        }
        Ok(context)
    }

    /// Those of one kind that are open.
    pub(crate) fn list(&self, is_kind: fn(&Context) -> bool) -> Vec<Listed> {
        let mut all = self.0.lock();
        drop_ended(&mut all);
        let open = all.iter().filter(|(_, leased)| is_kind(&leased.context));
        let listed = open.map(|(id, leased)| Listed {
            id: id.clone(),
            age: leased.begun.elapsed(),
            lease: leased.lease,
        });
        listed.collect()
    }

    /// The scrolls and the points in time that are open and see a collection.
    pub(crate) fn open_of(&self, collection: &str) -> (u64, u64) {
        let mut all = self.0.lock();
        drop_ended(&mut all);
        let (mut scrolls, mut points) = (0, 0);
        for leased in all.values() {
            let (count, views) = match &leased.context {
                Context::Point(views) => (&mut points, views),
                Context::Scroll(_, views) => (&mut scrolls, views),
            };
            if views
                .iter()
                .any(|view| view.collection_name() == collection)
            {
                *count += 1;
            }
        }
        (scrolls, points)
    }

    /// Drops a context; whether there was one of this kind.
    pub(crate) fn close(&self, id: &str, is_kind: fn(&Context) -> bool) -> bool {
        let mut all = self.0.lock();
        drop_ended(&mut all);
        let is_there = all.get(id).is_some_and(|leased| is_kind(&leased.context));
        is_there && all.remove(id).is_some()
    }

    /// Drops all of one kind; their ids.
    pub(crate) fn close_all(&self, is_kind: fn(&Context) -> bool) -> Vec<String> {
        let mut all = self.0.lock();
        drop_ended(&mut all);
        let (mut kept, mut closed) = (BTreeMap::new(), Vec::new());
        for (id, leased) in std::mem::take(&mut *all) {
            match is_kind(&leased.context) {
                true => closed.push(id),
                false => drop(kept.insert(id, leased)),
            }
        }
        *all = kept;
        closed
    }

    /// Drops what has ended, once this time is over.
    fn drop_after(&self, lease: Duration) {
        let all = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            tokio::time::sleep(lease + Duration::from_millis(1)).await;
            if let Some(all) = all.upgrade() {
                drop_ended(&mut all.lock());
            }
        });
    }
}

impl Context {
    pub(crate) fn is_point(&self) -> bool {
        matches!(self, Context::Point(_))
    }

    pub(crate) fn is_scroll(&self) -> bool {
        matches!(self, Context::Scroll(..))
    }
}

fn drop_ended(all: &mut BTreeMap<String, Leased>) {
    let now = Instant::now();
    all.retain(|_, leased| leased.ends > now);
}

/// There is no context of this id.
pub(crate) fn missing(id: &str) -> Failure {
    Failure::new(
        StatusCode::NOT_FOUND,
        "search_context_missing_exception",
        format!("No search context found for id [{id}]: it was deleted, or its time is over"),
    )
}
