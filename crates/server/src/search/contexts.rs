//! What a search keeps between requests: points in time and scrolls, each with a lease.
//!
//! # Invariants
//! 1. There are at most [`CONTEXTS_MAX`] at once: each keeps files of the database from being
//!    freed.
//! 2. One whose lease is over is dropped without a request: a task waits for that moment.
//! 3. A client never keeps others from opening one: of the client that has the most, the one that
//!    was not used for longest gives its place to a client that has fewer.
//! 4. While requests wait for memory, none that is not used keeps more of it than its next page
//!    needs.
//! 5. None keeps writes waiting for long for the memory that its views hold.

use parking_lot::Mutex;
use quiredb::View;
use quiredb::query::Filter;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;

use super::scroll::Scroll;
use crate::held_memtables::holds_memtables;
use crate::http::buffers::Keeper;
use crate::http::failure::{Failure, Outcome};
use crate::limits::Client;
use axum::http::StatusCode;

/// Points in time and scrolls that are open at once.
pub(crate) const CONTEXTS_MAX: usize = 100;

/// One that was not used for so long gives its place to another one of its client, if all places
/// are taken.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// One that was not used for so long gives memory back that others wait for.
pub(crate) const UNUSED_AFTER: Duration = Duration::from_millis(500);

/// What is kept under an id.
#[derive(Clone)]
pub(crate) enum Context {
    /// A view of each collection, and what every document that is searched matches.
    Point(Arc<Vec<View>>, Filter),
    /// A search that is answered page by page. Its pages are made in turn.
    /// Also the views that it searches.
    Scroll(Arc<Mutex<Scroll>>, Arc<Vec<View>>),
}

struct Leased {
    context: Context,
    /// Who opened it.
    opener: Client,
    begun: Instant,
    /// When it was used last.
    used: Instant,
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

/// The open contexts of a server. A clone is another handle to the same.
#[derive(Clone, Default)]
pub(crate) struct Contexts(Arc<Open>);

#[derive(Default)]
struct Open(Mutex<BTreeMap<String, Leased>>);

impl Contexts {
    /// Keeps a context for the client that opens it.
    ///
    /// # Errors
    /// 429 if there are too many, and no other client has more.
    pub(crate) fn open(
        &self,
        id: &str,
        context: Context,
        lease: Duration,
        opener: Client,
    ) -> Outcome<()> {
        {
            let mut all = self.0.0.lock();
            drop_ended(&mut all);
            if all.len() >= CONTEXTS_MAX
                && let Some(id) = replaced(&all, &opener)
            {
                all.remove(&id);
            }
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
                opener,
                begun,
                used: begun,
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
            let mut all = self.0.0.lock();
            drop_ended(&mut all);
            all.get_mut(id).map(|leased| {
                leased.used = Instant::now();
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
        let mut all = self.0.0.lock();
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
        let mut all = self.0.0.lock();
        drop_ended(&mut all);
        let (mut scrolls, mut points) = (0, 0);
        for leased in all.values() {
            let count = match &leased.context {
                Context::Point(..) => &mut points,
                Context::Scroll(..) => &mut scrolls,
            };
            let mut views = leased.context.views().iter();
            if views.any(|view| view.collection_name() == collection) {
                *count += 1;
            }
        }
        (scrolls, points)
    }

    /// Drops a context; whether there was one of this kind.
    pub(crate) fn close(&self, id: &str, is_kind: fn(&Context) -> bool) -> bool {
        let mut all = self.0.0.lock();
        drop_ended(&mut all);
        let is_there = all.get(id).is_some_and(|leased| is_kind(&leased.context));
        is_there && all.remove(id).is_some()
    }

    /// Drops all of one kind, or those that one client opened; their ids.
    pub(crate) fn close_all(
        &self,
        is_kind: fn(&Context) -> bool,
        of: Option<&Client>,
    ) -> Vec<String> {
        let mut all = self.0.0.lock();
        drop_ended(&mut all);
        let (mut kept, mut closed) = (BTreeMap::new(), Vec::new());
        for (id, leased) in std::mem::take(&mut *all) {
            let is_meant = of.is_none_or(|client| leased.opener == *client);
            match is_meant && is_kind(&leased.context) {
                true => closed.push(id),
                false => drop(kept.insert(id, leased)),
            }
        }
        *all = kept;
        closed
    }

    /// Drops the oldest one that was not used for this time and whose views hold memtables that
    /// were flushed; its id.
    pub(crate) fn close_holder(&self, unused: Duration) -> Option<String> {
        let mut all = self.0.0.lock();
        drop_ended(&mut all);
        let holders = all.iter().filter(|(_, leased)| {
            leased.used.elapsed() >= unused && holds_memtables(leased.context.views())
        });
        let (id, _) = holders.min_by_key(|(_, leased)| leased.begun)?;
        let id = id.clone();
        all.remove(&id);
        Some(id)
    }

    /// What is told when requests wait for memory.
    pub(crate) fn keeper(&self) -> Weak<dyn Keeper> {
        let open: Arc<dyn Keeper> = Arc::<Open>::clone(&self.0);
        Arc::downgrade(&open)
    }

    /// Drops what has ended, once this time is over.
    fn drop_after(&self, lease: Duration) {
        let all = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            tokio::time::sleep(lease + Duration::from_millis(1)).await;
            if let Some(all) = all.upgrade() {
                drop_ended(&mut all.0.lock());
            }
        });
    }
}

impl Keeper for Open {
    fn give_back(&self) {
        self.0.lock().retain(|_, leased| match &leased.context {
            Context::Scroll(scroll, _) if leased.used.elapsed() >= UNUSED_AFTER => {
                // One of which a page is made is used.
                let scroll = scroll.try_lock();
                scroll.is_none_or(|mut scroll| scroll.give_back())
            }
            _ => true,
        });
    }
}

impl Context {
    fn views(&self) -> &[View] {
        match self {
            Context::Point(views, _) | Context::Scroll(_, views) => views,
        }
    }

    pub(crate) fn is_point(&self) -> bool {
        matches!(self, Context::Point(..))
    }

    pub(crate) fn is_scroll(&self) -> bool {
        matches!(self, Context::Scroll(..))
    }
}

fn drop_ended(all: &mut BTreeMap<String, Leased>) {
    let now = Instant::now();
    all.retain(|_, leased| leased.ends > now);
}

/// Which context gives its place to a new one of `opener`, if any. All places are taken.
fn replaced(all: &BTreeMap<String, Leased>, opener: &Client) -> Option<String> {
    let mut counts = BTreeMap::<&Client, usize>::new();
    for leased in all.values() {
        *counts.entry(&leased.opener).or_default() += 1;
    }
    let own = counts.get(opener).copied().unwrap_or_default();
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    // After it, the other client still has as many as this one.
    let loser = match most {
        Some((client, count)) if count > own + 1 => client,
        _ => opener,
    };
    let of_loser = all.iter().filter(|(_, leased)| leased.opener == *loser);
    let (id, leased) = of_loser.min_by_key(|(_, leased)| leased.used)?;
    let may_go = loser != opener || leased.used.elapsed() >= FORGOTTEN_AFTER;
    may_go.then(|| id.clone())
}

/// There is no context of this id.
pub(crate) fn missing(id: &str) -> Failure {
    Failure::new(
        StatusCode::NOT_FOUND,
        "search_context_missing_exception",
        format!(
            "No search context found for id [{id}]: it was deleted, its time is over, or writes \
             needed the memory that it held"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(3600);

    fn token(name: &str) -> Client {
        Client::of(name, None)
    }

    fn open(contexts: &Contexts, id: &str, opener: &str) -> bool {
        let point = Context::Point(Arc::new(Vec::new()), Filter::All);
        contexts.open(id, point, LEASE, token(opener)).is_ok()
    }

    fn ids_of(contexts: &Contexts, opener: &str) -> Vec<String> {
        let all = contexts.0.0.lock();
        let own = all
            .iter()
            .filter(|(_, leased)| leased.opener == token(opener));
        own.map(|(id, _)| id.clone()).collect()
    }

    /// From now on it was not used for this long.
    fn rest(contexts: &Contexts, id: &str, time: Duration) {
        let mut all = contexts.0.0.lock();
        all.get_mut(id).unwrap().used -= time;
    }

    #[tokio::test]
    async fn a_client_with_the_most_gives_its_oldest_places_to_others_until_shares_are_equal() {
        let contexts = Contexts::default();
        for number in 0..CONTEXTS_MAX {
            assert!(open(&contexts, &format!("greedy-{number:03}"), "greedy"));
        }
        rest(&contexts, "greedy-000", Duration::from_secs(2));
        rest(&contexts, "greedy-001", Duration::from_secs(1));
        assert!(!open(&contexts, "one-more", "greedy"));
        // The first one is used, so the second one is the oldest.
        assert!(contexts.get("greedy-000", None).is_ok());
        assert!(open(&contexts, "modest-0", "modest"));
        assert_eq!(ids_of(&contexts, "modest"), ["modest-0"]);
        assert!(contexts.get("greedy-000", None).is_ok());
        assert!(contexts.get("greedy-001", None).is_err());
        let opened = (1..CONTEXTS_MAX).filter(|n| open(&contexts, &format!("m-{n}"), "modest"));
        assert_eq!(opened.count(), CONTEXTS_MAX / 2 - 1);
        assert_eq!(ids_of(&contexts, "greedy").len(), CONTEXTS_MAX / 2);
    }

    #[tokio::test]
    async fn what_a_client_has_forgotten_gives_its_place_to_its_next_ones() {
        let contexts = Contexts::default();
        for number in 0..CONTEXTS_MAX {
            assert!(open(&contexts, &format!("{number:03}"), "a"));
        }
        assert!(!open(&contexts, "new", "a"));
        rest(&contexts, "001", FORGOTTEN_AFTER);
        assert!(open(&contexts, "new", "a"));
        assert!(contexts.get("000", None).is_ok() && contexts.get("001", None).is_err());
        assert_eq!(ids_of(&contexts, "a").len(), CONTEXTS_MAX);
    }

    #[tokio::test]
    async fn a_client_closes_all_of_its_own() {
        let contexts = Contexts::default();
        assert!(open(&contexts, "1", "a") && open(&contexts, "2", "b"));
        let closed = contexts.close_all(Context::is_point, Some(&token("a")));
        assert_eq!(closed, ["1"]);
        assert_eq!(contexts.close_all(Context::is_scroll, None).len(), 0);
        assert_eq!(contexts.close_all(Context::is_point, None), ["2"]);
    }
}
