//! [`Access`]: the ways in which a predicate can be executed.

use std::fmt;

/// How a predicate is executed on a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// The documents of each value that fulfils it are looked up.
    Postings,
    /// The values of documents are read from a column.
    Column,
    /// The documents that the other predicates left are read.
    Documents,
    /// Every document is read, one after the other, for the whole query.
    Scan,
}

/// A way to execute a predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessCost {
    /// The way.
    pub access: Access,
    /// About how long it takes, in nanoseconds; 0 if that is not known.
    pub nanos: u64,
}

impl Access {
    /// All of them.
    pub(crate) const ALL: [Access; 4] = [
        Access::Postings,
        Access::Column,
        Access::Documents,
        Access::Scan,
    ];

    /// The way to go: the cheapest, or the one that is forced if it can be gone.
    pub(crate) fn choose(costs: &[AccessCost], forced: Option<Access>) -> AccessCost {
        let is_forced = |cost: &&AccessCost| Some(cost.access) == forced;
        let cheapest = || costs.iter().min_by_key(|cost| cost.nanos);
        let chosen = costs.iter().find(is_forced).or_else(cheapest);
        chosen.copied().unwrap_or(AccessCost {
            access: Access::Postings,
            nanos: 0,
        })
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Postings => "search postings",
            Access::Column => "column scan",
            Access::Documents => "document reads",
            Access::Scan => "document scan",
        })
    }
}
