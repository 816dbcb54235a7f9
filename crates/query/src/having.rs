//! [`Having`] and [`GroupOrder`]: which groups of documents are wanted, and in which order.

use crate::Value;
use quire_model::ordered::Direction;

/// A condition on a measure of a group. A measure without a value fulfils none.
#[derive(Debug, Clone, PartialEq)]
pub struct Having {
    /// The name of the measure.
    pub measure: String,
    /// How it compares with the value.
    pub comparison: Comparison,
    /// The value.
    pub value: Value,
}

/// How two values compare, in the order of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `>=`
    GreaterOrEqual,
    /// `>`
    Greater,
}

/// What groups are ordered by: groups without a value come last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupOrder {
    /// The name of a measure, or a field that groups are made by.
    pub name: String,
    /// The direction.
    pub direction: Direction,
}

impl Comparison {
    /// Whether a value compares so with another.
    #[must_use]
    pub fn holds(self, value: &Value, other: &Value) -> bool {
        match self {
            Comparison::Less => value < other,
            Comparison::LessOrEqual => value <= other,
            Comparison::Equal => value == other,
            Comparison::NotEqual => value != other,
            Comparison::GreaterOrEqual => value >= other,
            Comparison::Greater => value > other,
        }
    }
}
