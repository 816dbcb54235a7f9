//! [`Grouping`]: what GROUP BY asks for.

use crate::{Aggregate, Path, Value};
use quire_model::ordered::Direction;

/// How many fields documents can be grouped by.
pub const GROUP_FIELDS_MAX: usize = 16;

/// Measures of each group of documents that have equal values in some fields.
///
/// A document is in the group of its values. One without a value of a field, or with null alone,
/// has null there; one with several values is in the group of each, and in that of each combination
/// of the values of several fields.
///
/// ```
/// use quire_query::{Aggregate, Grouping, field, find_all};
///
/// let by_mark = Grouping::by(["mark", "year"])
///     .measure("cars", Aggregate::count())
///     .measure("mean", Aggregate::avg("price").among(field("sold").eq(false)))
///     .descending("cars")
///     .limit(10);
/// let query = find_all().aggregate("marks", Aggregate::group(by_mark));
/// # assert!(query.prepare().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Grouping {
    /// The fields, one to [`GROUP_FIELDS_MAX`](crate::GROUP_FIELDS_MAX).
    pub by: Vec<Path>,
    /// What is computed of each group, by name.
    pub measures: Vec<(String, Aggregate)>,
    /// Groups that fail one of these are left out.
    pub having: Vec<Having>,
    /// The first order decides, then the second, …, then the values of the group, ascending.
    pub order: Vec<GroupOrder>,
    /// How many groups are returned at most; all if `None`.
    pub limit: Option<u64>,
}

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

impl Grouping {
    /// Groups by some fields.
    #[must_use]
    pub fn by<P: Into<Path>>(fields: impl IntoIterator<Item = P>) -> Grouping {
        Grouping {
            by: fields.into_iter().map(Into::into).collect(),
            ..Grouping::default()
        }
    }

    /// Adds a measure under a name.
    #[must_use]
    pub fn measure(mut self, name: impl Into<String>, measure: Aggregate) -> Grouping {
        self.measures.push((name.into(), measure));
        self
    }

    /// Keeps groups whose measure compares so with a value.
    #[must_use]
    pub fn having(
        mut self,
        measure: impl Into<String>,
        comparison: Comparison,
        value: impl Into<Value>,
    ) -> Grouping {
        self.having.push(Having {
            measure: measure.into(),
            comparison,
            value: value.into(),
        });
        self
    }

    /// Orders by a measure or a field, the least first.
    #[must_use]
    pub fn ascending(self, name: impl Into<String>) -> Grouping {
        self.ordered(name.into(), Direction::Ascending)
    }

    /// Orders by a measure or a field, the greatest first.
    #[must_use]
    pub fn descending(self, name: impl Into<String>) -> Grouping {
        self.ordered(name.into(), Direction::Descending)
    }

    fn ordered(mut self, name: String, direction: Direction) -> Grouping {
        self.order.push(GroupOrder { name, direction });
        self
    }

    /// Returns at most this many groups.
    #[must_use]
    pub fn limit(mut self, limit: u64) -> Grouping {
        self.limit = Some(limit);
        self
    }
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
