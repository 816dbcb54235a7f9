//! [`KnownEnd`]: the least or the greatest value of a field, where it is to be had at once.

use crate::{End, Value};

/// The least or the greatest value of a field that is not null, as far as it is known without
/// looking at the documents one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownEnd {
    /// It would have to be searched for.
    Unknown,
    /// No document has a value.
    NoValue,
    /// This value.
    Value(Value),
}

impl KnownEnd {
    /// The end of the documents of both.
    #[must_use]
    pub fn of_both(self, other: KnownEnd, end: End) -> KnownEnd {
        match (self, other) {
            (KnownEnd::Unknown, _) | (_, KnownEnd::Unknown) => KnownEnd::Unknown,
            (KnownEnd::NoValue, one) | (one, KnownEnd::NoValue) => one,
            (KnownEnd::Value(a), KnownEnd::Value(b)) => KnownEnd::Value(match end {
                End::Smallest if a.term() <= b.term() => a,
                End::Largest if a.term() >= b.term() => a,
                _ => b,
            }),
        }
    }
}
