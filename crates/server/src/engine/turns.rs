//! Whose search runs next.
//!
//! # Invariants
//! 1. A client runs at most as many searches at once as there are slots, and all clients together
//!    twice as many: the second half is for clients that run none. So the searches of one client,
//!    however long they take, never make the first one of another wait.
//! 2. Of those that wait, a client that runs the fewest is next, and of these the one that has
//!    waited for longest. The searches of one client begin in their order.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::limits::Client;

/// The turns of searches.
pub(super) struct Turns {
    slots: usize,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    /// How many searches of each client run; none of the others.
    running: HashMap<Client, usize>,
    /// In the order in which they came.
    waiting: VecDeque<(Client, oneshot::Sender<Turn>)>,
}

/// The turn of a search, until this is dropped.
pub(super) struct Turn {
    turns: Arc<Turns>,
    client: Client,
}

impl Turns {
    pub(super) fn new(slots: usize) -> Arc<Turns> {
        Arc::new(Turns {
            slots,
            line: Mutex::default(),
        })
    }

    /// Waits until a search of this client may run. None never, but while the server ends.
    pub(super) async fn take(self: &Arc<Self>, client: Client) -> Option<Turn> {
        let (sender, turn) = oneshot::channel();
        self.line.lock().waiting.push_back((client, sender));
        self.give();
        turn.await.ok()
    }

    /// Gives turns to those that wait, as long as there are some.
    fn give(self: &Arc<Self>) {
        loop {
            let (turn, sender) = {
                let line = &mut *self.line.lock();
                line.waiting.retain(|(_, sender)| !sender.is_closed());
                let clients = line.waiting.iter().map(|(client, _)| client);
                let next = next(clients, &line.running, self.slots);
                let Some((client, sender)) = next.and_then(|at| line.waiting.remove(at)) else {
                    return;
                };
                *line.running.entry(client.clone()).or_default() += 1;
                let turns = Arc::clone(self);
                (Turn { turns, client }, sender)
            };
            // A turn that is not taken is dropped, and given to another one.
            let _ = sender.send(turn);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        {
            let running = &mut self.turns.line.lock().running;
            if let Some(count) = running.get_mut(&self.client) {
                *count -= 1;
                if *count == 0 {
                    running.remove(&self.client);
                }
            }
        }
        self.turns.give();
    }
}

/// Which of those that wait is next, if one may run now.
fn next<'c>(
    waiting: impl Iterator<Item = &'c Client>,
    running: &HashMap<Client, usize>,
    slots: usize,
) -> Option<usize> {
    let count = |client| running.get(client).copied().unwrap_or_default();
    let counts = waiting.enumerate().map(|(at, client)| (count(client), at));
    let (count, at) = counts.min()?;
    let all: usize = running.values().sum();
    let may_run = all < slots || count == 0 && all < slots.saturating_mul(2);
    may_run.then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str) -> Client {
        Client::of(name, None)
    }

    #[test]
    fn the_next_is_of_a_client_that_runs_the_fewest() {
        // Who waits, who runs how many, and which of those that wait is next.
        type Case = (
            &'static [&'static str],
            &'static [(&'static str, usize)],
            Option<usize>,
        );
        let cases: [Case; 9] = [
            (&[], &[], None),
            (&["a", "b"], &[], Some(0)),
            (&["a", "b"], &[("a", 1)], Some(1)),
            (&["a", "a"], &[("a", 1)], Some(0)),
            (&["a", "a"], &[("a", 2)], None),
            (&["a", "a", "b", "c"], &[("a", 2)], Some(2)),
            (&["a", "b", "c"], &[("a", 2), ("b", 1)], Some(2)),
            (&["a", "b", "c"], &[("a", 1), ("b", 1)], Some(2)),
            (&["d"], &[("a", 2), ("b", 1), ("c", 1)], None),
        ];
        for (waiting, running, expected) in cases {
            let waiting: Vec<Client> = waiting.iter().map(|name| client(name)).collect();
            let counts = running.iter().map(|(name, count)| (client(name), *count));
            let counts: HashMap<Client, usize> = counts.collect();
            let found = next(waiting.iter(), &counts, 2);
            assert_eq!(found, expected, "{waiting:?} {running:?}");
        }
    }

    #[tokio::test]
    async fn a_turn_that_nobody_waits_for_any_more_is_given_to_the_next() {
        let turns = Turns::new(1);
        let first = turns.take(client("a")).await.unwrap();
        let mut gone = Box::pin(turns.take(client("a")));
        assert!(futures_util::FutureExt::now_or_never(gone.as_mut()).is_none());
        let mut next = Box::pin(turns.take(client("a")));
        assert!(futures_util::FutureExt::now_or_never(next.as_mut()).is_none());
        drop(gone);
        drop(first);
        let turn = next.await.unwrap();
        let other = turns.take(client("b")).await.unwrap();
        drop((turn, other));
        assert!(turns.line.lock().running.is_empty());
    }
}
