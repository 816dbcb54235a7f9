//! Holds on the log of a machine that does not keep it: a flush drops no record that a follower, or
//! one that takes a copy, still needs.

use quire_model::Position;
use quire_sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The holds on the log of one store.
#[derive(Debug, Default)]
pub(crate) struct LogHolds {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// By number: what each has seen already.
    seen: BTreeMap<u64, Position>,
}

/// While this is held, the record at a position and those after it stay in the log.
#[derive(Debug)]
pub struct LogHold {
    holds: Arc<LogHolds>,
    number: u64,
}

impl LogHolds {
    pub(crate) fn hold(self: &Arc<Self>, seen: Position) -> LogHold {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.seen.insert(number, seen);
        LogHold {
            holds: Arc::clone(self),
            number,
        }
    }

    /// The first record that a hold needs, which is the last that its holder has seen: by it the
    /// holder is known. None if there is no hold.
    pub(crate) fn first_needed(&self) -> Option<Position> {
        let state = self.state.lock();
        state.seen.values().min().copied()
    }
}

impl LogHold {
    /// The records before `seen` are not needed any more.
    pub fn advance(&self, seen: Position) {
        let mut state = self.holds.state.lock();
        if let Some(held) = state.seen.get_mut(&self.number) {
            *held = seen.max(*held);
        }
    }
}

impl Drop for LogHold {
    fn drop(&mut self) {
        self.holds.state.lock().seen.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_hold_counts_until_it_advances_or_is_dropped() {
        let holds = Arc::new(LogHolds::default());
        assert_eq!(holds.first_needed(), None);
        let (old, new) = (holds.hold(Position(4)), holds.hold(Position(9)));
        assert_eq!(holds.first_needed(), Some(Position(4)));
        old.advance(Position(20));
        old.advance(Position(6));
        assert_eq!(holds.first_needed(), Some(Position(9)));
        drop(new);
        assert_eq!(holds.first_needed(), Some(Position(20)));
        drop(old);
        assert_eq!(holds.first_needed(), None);
    }
}
