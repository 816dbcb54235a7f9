//! What a search keeps between requests: points in time and scrolls, each with a lease.
//!
//! # Invariants
//! 1. There are at most [`CONTEXTS_MAX`] at once: each keeps files of the database from being freed.
//! 2. One whose lease is over is dropped without a request: a task waits for that moment.

use parking_lot::Mutex;
use quiredb::View;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

use super::filter::unsupported;
use super::scroll::Scroll;
use crate::http::failure::{Failure, Outcome};
use axum::http::StatusCode;

/// Points in time and scrolls that are open at once.
pub(crate) const CONTEXTS_MAX: usize = 100;

/// The longest lease, as in OpenSearch.
const LEASE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// What is kept under an id.
#[derive(Clone)]
pub(crate) enum Context {
    /// A view of each collection.
    Point(Arc<Vec<View>>),
    /// A search that is answered page by page. Its pages are made in turn.
    Scroll(Arc<Mutex<Scroll>>),
}

struct Leased {
    context: Context,
    ends: Instant,
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
            let ends = Instant::now() + lease;
            all.insert(id.to_owned(), Leased { context, ends });
        }
        self.drop_after(lease);
        Ok(())
    }

    /// An open context; its lease begins anew if one is given.
    ///
    /// # Errors
    /// 404 if there is none of this id.
    pub(crate) fn get(&self, id: &str, lease: Option<Duration>) -> Outcome<Context> {
        let found = {
            let mut all = self.0.lock();
            drop_ended(&mut all);
            all.get_mut(id).map(|leased| {
                let now = Instant::now();
                let ends = lease.map_or(leased.ends, |lease| now + lease);
                leased.ends = leased.ends.max(ends);
                leased.context.clone()
            })
        };
        if let (Some(_), Some(lease)) = (&found, lease) {
            self.drop_after(lease);
        }
        found.ok_or_else(|| missing(id))
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
        matches!(self, Context::Scroll(_))
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

/// A lease: a whole number and a unit, such as `5m`.
pub(crate) fn lease(text: &str) -> Outcome<Duration> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default();
    let millis = match unit {
        "d" => 86_400_000,
        "h" => 3_600_000,
        "m" => 60_000,
        "s" => 1000,
        "ms" => 1,
        _ => 0,
    };
    let lease = digits
        .parse::<u64>()
        .ok()
        .and_then(|count| count.checked_mul(millis));
    match lease.map(Duration::from_millis) {
        Some(lease) if !lease.is_zero() && lease <= LEASE_MAX => Ok(lease),
        _ => Err(unsupported(format!(
            "[{text}] must be a time from 1ms to 24h, such as [5m]"
        ))),
    }
}
