//! [`AggregateState`]: the state of one aggregate of a query.

use crate::aggregate::Gathered;
use crate::aggregated::Aggregated;
use crate::groups::Groups;

/// The state of an aggregate: of one measure, or of measures of groups.
#[derive(Debug)]
pub(crate) enum AggregateState {
    Measure(Gathered),
    Groups(Box<Groups>),
}

impl AggregateState {
    /// The result.
    pub(crate) fn finish(self) -> Aggregated {
        match self {
            AggregateState::Measure(gathered) => gathered.finish(),
            AggregateState::Groups(groups) => groups.finish(),
        }
    }
}
