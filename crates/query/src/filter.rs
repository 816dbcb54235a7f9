//! [`Filter`]: which documents match, and [`field`], which makes filters.

use crate::{Cast, Order, OrderedAs, Path, Pattern, Value};
use quire_model::ordered::Direction;
use std::ops::{Bound, Not, RangeBounds};

/// Which documents match a query.
///
/// A predicate on a field holds if it holds for any value that the document has at the path. `Not`
/// is the complement: a document without the field matches `not price = 1`. A range never matches a
/// value of another type than its bounds'.
///
/// [`field`] makes filters.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// Every document.
    All,
    /// A value that equals this one. Null is a value too, that of a field which is present and
    /// null.
    Eq(Path, Value),
    /// A value that equals one of these.
    In(Path, Vec<Value>),
    /// One value between both bounds, which are of one type.
    Range(Path, Bound<Value>, Bound<Value>),
    /// A string with this prefix.
    Prefix(Path, String),
    /// A string that a pattern matches as a whole.
    Like(Path, Pattern),
    /// A value that lies between both bounds once all are cast.
    Cast(Cast, Path, Bound<Value>, Bound<Value>),
    /// A value whose hash belongs to one of `max` slices, the one of this number from 0 on. Each
    /// value belongs to one slice, and slices are about equally large.
    Slice {
        /// The field.
        path: Path,
        /// The slice.
        number: u32,
        /// How many slices there are.
        max: u32,
    },
    /// A value that is not null.
    Exists(Path),
    /// All of them; every document if there are none.
    And(Vec<Filter>),
    /// Any of them; no document if there are none.
    Or(Vec<Filter>),
    /// The documents that do not match.
    Not(Box<Filter>),
}

impl Filter {
    /// Calls `visit` with the field of each predicate. Recursion is as deep as the filter.
    pub fn each_path_mut(&mut self, visit: &mut dyn FnMut(&mut Path)) {
        match self {
            Filter::All => {}
            Filter::And(filters) | Filter::Or(filters) => {
                filters.iter_mut().for_each(|one| one.each_path_mut(visit));
            }
            Filter::Not(one) => one.each_path_mut(visit),
            Filter::Eq(path, _)
            | Filter::In(path, _)
            | Filter::Range(path, ..)
            | Filter::Prefix(path, _)
            | Filter::Like(path, _)
            | Filter::Cast(_, path, ..)
            | Filter::Slice { path, .. }
            | Filter::Exists(path) => visit(path),
        }
    }

    /// Both this and the other.
    #[must_use]
    pub fn and(self, other: Filter) -> Filter {
        match (self, other) {
            (Filter::And(mut all), Filter::And(more)) => {
                all.extend(more);
                Filter::And(all)
            }
            (Filter::And(mut all), one) => {
                all.push(one);
                Filter::And(all)
            }
            (one, other) => Filter::And(vec![one, other]),
        }
    }

    /// This or the other, or both.
    #[must_use]
    pub fn or(self, other: Filter) -> Filter {
        match (self, other) {
            (Filter::Or(mut any), Filter::Or(more)) => {
                any.extend(more);
                Filter::Or(any)
            }
            (Filter::Or(mut any), one) => {
                any.push(one);
                Filter::Or(any)
            }
            (one, other) => Filter::Or(vec![one, other]),
        }
    }

    /// No document.
    #[must_use]
    pub fn none() -> Filter {
        Filter::Or(Vec::new())
    }
}

impl Not for Filter {
    type Output = Filter;

    fn not(self) -> Filter {
        Filter::Not(Box::new(self))
    }
}

/// A field, to make filters and orders of.
#[must_use]
pub fn field(path: &str) -> Field {
    Field(Path::new(path))
}

/// A field, to make filters and orders of: see [`field`].
#[derive(Debug, Clone)]
pub struct Field(Path);

impl Field {
    /// The element at `position`, from 0, of the array in it, which only filters can choose.
    #[must_use]
    pub fn element(self, position: usize) -> Field {
        Field(self.0.element(position))
    }

    /// The field of this name, of the object in it.
    #[must_use]
    pub fn field(self, name: &str) -> Field {
        Field(self.0.field(name))
    }

    /// It has this value.
    pub fn eq(self, value: impl Into<Value>) -> Filter {
        Filter::Eq(self.0, value.into())
    }

    /// It does not have this value; true also for a document without the field.
    pub fn ne(self, value: impl Into<Value>) -> Filter {
        !self.eq(value)
    }

    /// It has one of these values.
    pub fn is_in<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Filter {
        Filter::In(self.0, values.into_iter().map(Into::into).collect())
    }

    /// It has a greater value.
    pub fn gt(self, value: impl Into<Value>) -> Filter {
        Filter::Range(self.0, Bound::Excluded(value.into()), Bound::Unbounded)
    }

    /// It has this value or a greater one.
    pub fn gte(self, value: impl Into<Value>) -> Filter {
        Filter::Range(self.0, Bound::Included(value.into()), Bound::Unbounded)
    }

    /// It has a lesser value.
    pub fn lt(self, value: impl Into<Value>) -> Filter {
        Filter::Range(self.0, Bound::Unbounded, Bound::Excluded(value.into()))
    }

    /// It has this value or a lesser one.
    pub fn lte(self, value: impl Into<Value>) -> Filter {
        Filter::Range(self.0, Bound::Unbounded, Bound::Included(value.into()))
    }

    /// It has a value from the first to the second, both included.
    pub fn between(self, from: impl Into<Value>, to: impl Into<Value>) -> Filter {
        let bounds = (from.into(), to.into());
        Filter::Range(self.0, Bound::Included(bounds.0), Bound::Included(bounds.1))
    }

    /// It has a value in a range of Rust, such as `10..20`.
    pub fn within<V: Into<Value> + Clone>(self, range: impl RangeBounds<V>) -> Filter {
        let own = |bound: Bound<&V>| bound.map(|value| value.clone().into());
        Filter::Range(self.0, own(range.start_bound()), own(range.end_bound()))
    }

    /// It has a string with this prefix.
    pub fn starts_with(self, prefix: impl Into<String>) -> Filter {
        Filter::Prefix(self.0, prefix.into())
    }

    /// It has a string that a pattern matches as a whole.
    pub fn is_like(self, pattern: Pattern) -> Filter {
        Filter::Like(self.0, pattern)
    }

    /// It has a number in a range of Rust, such as `10..20`, or a string that holds one.
    pub fn number_within<V: Into<Value> + Clone>(self, range: impl RangeBounds<V>) -> Filter {
        match self.within(range) {
            Filter::Range(path, lower, upper) => Filter::Cast(Cast::Number, path, lower, upper),
            other => other,
        }
    }

    /// It has a value in one of `max` slices: see [`Filter::Slice`].
    pub fn in_slice(self, number: u32, max: u32) -> Filter {
        let path = self.0;
        Filter::Slice { path, number, max }
    }

    /// It has a value that is not null.
    pub fn exists(self) -> Filter {
        Filter::Exists(self.0)
    }

    /// Smallest first.
    pub fn ascending(self) -> Order {
        self.ordered(Direction::Ascending)
    }

    /// Largest first.
    pub fn descending(self) -> Order {
        self.ordered(Direction::Descending)
    }

    fn ordered(self, direction: Direction) -> Order {
        Order {
            path: self.0,
            direction,
            by: OrderedAs::Value,
            missing_first: false,
            missing: None,
        }
    }
}
