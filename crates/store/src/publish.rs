//! What views may see: the published position, and the machine's summary at it.

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use quire_model::Position;
use std::collections::VecDeque;
use std::sync::Arc;

/// A position and what the machine's state was just after its record.
#[derive(Debug)]
pub(crate) struct Published<S> {
    pub(crate) position: Position,
    pub(crate) summary: S,
}

/// Moves the published position forward, never back. Reading it takes no lock.
#[derive(Debug)]
pub(crate) struct Publisher<S> {
    current: ArcSwap<Published<S>>,
    /// Writes applied and not yet published, in order.
    applied: Mutex<VecDeque<Published<S>>>,
}

impl<S: Clone> Publisher<S> {
    pub(crate) fn new(position: Position, summary: S) -> Publisher<S> {
        Publisher {
            current: ArcSwap::from_pointee(Published { position, summary }),
            applied: Mutex::new(VecDeque::new()),
        }
    }

    /// What views see now.
    pub(crate) fn current(&self) -> Arc<Published<S>> {
        self.current.load_full()
    }

    /// The last position that views see now.
    pub(crate) fn position(&self) -> Position {
        self.current.load().position
    }

    /// Notes that everything up to `position` is applied. Called in order, under the writer's lock.
    pub(crate) fn applied(&self, position: Position, summary: S) {
        self.applied
            .lock()
            .push_back(Published { position, summary });
    }

    /// Makes whole writes up to `position` visible. Returns whether anything new is.
    pub(crate) fn publish(&self, position: Position) -> bool {
        let mut applied = self.applied.lock();
        let mut newest = None;
        while applied
            .front()
            .is_some_and(|write| write.position <= position)
        {
            newest = applied.pop_front();
        }
        let Some(newest) = newest else { return false };
        self.current.store(Arc::new(newest));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_writes_become_visible_in_order_and_never_go_back() {
        let publisher = Publisher::new(Position(3), "three");
        publisher.applied(Position(5), "five");
        publisher.applied(Position(9), "nine");
        assert_eq!(publisher.current().position, Position(3));
        assert!(
            !publisher.publish(Position(4)),
            "a write's records are seen together"
        );
        assert!(publisher.publish(Position(8)));
        assert_eq!(
            (publisher.current().position, publisher.current().summary),
            (Position(5), "five")
        );
        assert!(publisher.publish(Position(9)));
        assert!(!publisher.publish(Position(5)));
        assert_eq!(publisher.current().summary, "nine");
    }
}
