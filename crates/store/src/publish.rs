//! What views may see: the published position, and the machine's summary at it.

use crate::delays::Delays;
use quire_model::Position;
use quire_sync::Mutex;
use quire_sync::atomic::{AtomicU64, Ordering};
use std::collections::VecDeque;
use std::time::Duration;

/// A position and what the machine's state was just after its record.
#[derive(Debug, Clone)]
pub(crate) struct Published<S> {
    pub(crate) position: Position,
    pub(crate) summary: S,
}

/// Moves the published position forward, never back. Reading the position alone takes no lock.
#[derive(Debug)]
pub(crate) struct Publisher<S> {
    position: AtomicU64,
    state: Mutex<State<S>>,
    /// How long writes took from when they were applied until they were visible.
    pub(crate) delays: Delays,
}

#[derive(Debug)]
struct State<S> {
    current: Published<S>,
    /// Writes applied and not yet published, in order, and when they were applied.
    applied: VecDeque<(Published<S>, Option<Duration>)>,
}

impl<S: Clone> Publisher<S> {
    pub(crate) fn new(position: Position, summary: S) -> Publisher<S> {
        Publisher {
            position: AtomicU64::new(position.0),
            state: Mutex::new(State {
                current: Published { position, summary },
                applied: VecDeque::new(),
            }),
            delays: Delays::default(),
        }
    }

    /// What views see now.
    pub(crate) fn current(&self) -> Published<S> {
        self.state.lock().current.clone()
    }

    /// The last position that views see now.
    pub(crate) fn position(&self) -> Position {
        Position(self.position.load(Ordering::Acquire))
    }

    /// Notes that everything up to `position` is applied, as of `now` by the monotonic clock if
    /// that is of interest. Called in order, under the writer's lock.
    pub(crate) fn applied(&self, position: Position, summary: S, now: Option<Duration>) {
        let published = Published { position, summary };
        self.state.lock().applied.push_back((published, now));
    }

    /// Makes whole writes up to `position` visible, `now` by the monotonic clock. Returns whether
    /// anything new is.
    pub(crate) fn publish(&self, position: Position, now: Duration) -> bool {
        let mut state = self.state.lock();
        let mut newest = None;
        while state
            .applied
            .front()
            .is_some_and(|(write, _)| write.position <= position)
            && let Some((write, then)) = state.applied.pop_front()
        {
            if let Some(then) = then {
                self.delays.note(now.saturating_sub(then));
            }
            newest = Some(write);
        }
        let Some(newest) = newest else { return false };
        self.position.store(newest.position.0, Ordering::Release);
        state.current = newest;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_writes_become_visible_in_order_and_never_go_back() {
        let millis = Duration::from_millis;
        let publisher = Publisher::new(Position(3), "three");
        publisher.applied(Position(5), "five", Some(millis(10)));
        publisher.applied(Position(9), "nine", None);
        assert_eq!(publisher.current().position, Position(3));
        assert!(
            !publisher.publish(Position(4), millis(14)),
            "a write's records are seen together"
        );
        assert!(publisher.publish(Position(8), millis(14)));
        assert_eq!(
            (publisher.current().position, publisher.current().summary),
            (Position(5), "five")
        );
        assert!(publisher.publish(Position(9), millis(14)));
        assert!(!publisher.publish(Position(5), millis(14)));
        assert_eq!(publisher.current().summary, "nine");
        assert_eq!(publisher.delays.micros(), 4_000);
        assert_eq!(publisher.delays.counts().iter().sum::<u64>(), 1);
    }
}
