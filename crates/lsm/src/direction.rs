//! Which way a cursor goes, and where it begins.

/// Where a cursor begins; that says which way it goes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Start<'a> {
    /// Forwards from the first entry at or after a key.
    From(&'a [u8]),
    /// Backwards from the last entry before a key.
    Before(&'a [u8]),
    /// Backwards from the last entry.
    Last,
}

/// Which way a cursor goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forwards,
    Backwards,
}

impl Start<'_> {
    /// Forwards from the first entry.
    pub(crate) const FIRST: Start<'static> = Start::From(&[]);

    /// Which way it leads.
    pub(crate) fn direction(self) -> Direction {
        match self {
            Start::From(_) => Direction::Forwards,
            Start::Before(_) | Start::Last => Direction::Backwards,
        }
    }
}

impl Direction {
    /// The whole of a sequence, this way.
    pub(crate) fn start(self) -> Start<'static> {
        match self {
            Direction::Forwards => Start::FIRST,
            Direction::Backwards => Start::Last,
        }
    }

    /// Of the first eight bytes of keys, numbers that never descend this way.
    #[inline]
    pub(crate) fn on_the_way(self, word: u64) -> u64 {
        match self {
            Direction::Forwards => word,
            Direction::Backwards => !word,
        }
    }
}
