//! [`AggregateState`]: the state of one aggregate of a query.

use crate::Result;
use crate::aggregate::Gathered;
use crate::aggregated::Aggregated;
use crate::groups::Groups;
use crate::meter::Meter;

/// The state of an aggregate: of one measure, or of measures of groups.
#[derive(Debug)]
pub(crate) enum AggregateState {
    Measure(Gathered),
    Groups(Box<Groups>),
}

impl AggregateState {
    /// Adds the state of other documents, of the same aggregate.
    pub(crate) fn join(&mut self, other: AggregateState, meter: &mut Meter) -> Result<()> {
        match (self, other) {
            (AggregateState::Measure(all), AggregateState::Measure(one)) => all.join(one, meter),
            (AggregateState::Groups(all), AggregateState::Groups(one)) => all.join(*one, meter),
            (state, other) => unreachable!("{other:?} is no state of {state:?}'s aggregate"),
        }
    }

    /// The result.
    pub(crate) fn finish(self) -> Aggregated {
        match self {
            AggregateState::Measure(gathered) => gathered.finish(),
            AggregateState::Groups(groups) => groups.finish(),
        }
    }
}
