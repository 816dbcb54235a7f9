//! [`Expression`]: arithmetic with the numbers of a document's fields.

use crate::{Error, Path, Result, Value};

/// How many operations an expression may have.
pub(crate) const OPERATIONS_MAX: usize = 64;

/// Arithmetic with the numbers of a document's fields.
///
/// [`Aggregate::parse`](crate::Aggregate::parse) reads it from text.
///
/// A document has a result for each combination of the numbers that it has at the fields; none if
/// one of the fields has no number there. Integers are exact up to 64 bits; what is larger, or no
/// integer, is a float. What has no finite result, as a division by zero, has none.
///
/// ```
/// use quire_query::{Aggregate, Expression, Function, find_all};
///
/// let revenue = Expression::field("price") * Expression::field("quantity");
/// let query = find_all().aggregate("revenue", Aggregate::of(Function::Sum, revenue));
/// assert_eq!(query.aggregates[0].1, Aggregate::parse("sum(price * quantity)")?);
/// # Ok::<(), quire_query::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// The numbers of a field.
    Field(Path),
    /// A number.
    Number(Value),
    /// An operation on two results.
    Operation(Operator, Box<[Expression; 2]>),
}

/// An operation on two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// The sum.
    Add,
    /// The first less the second.
    Subtract,
    /// The product.
    Multiply,
    /// The first divided by the second: an integer where that is exact, else a float.
    Divide,
}

/// What an aggregate computes of the results of an [`Expression`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The sum, exact but for one rounding at the end.
    Sum,
    /// The mean.
    Avg,
}

impl Expression {
    /// The numbers of a field.
    pub fn field(path: impl Into<Path>) -> Expression {
        Expression::Field(path.into())
    }

    /// A number.
    pub fn number(value: impl Into<Value>) -> Expression {
        Expression::Number(value.into())
    }

    /// Shows each field; one may come several times.
    pub fn each_path<'a>(&'a self, visit: &mut dyn FnMut(&'a Path)) {
        match self {
            Expression::Field(path) => visit(path),
            Expression::Number(_) => {}
            Expression::Operation(_, both) => {
                both.iter().for_each(|one| one.each_path(visit));
            }
        }
    }

    /// # Errors
    /// `Invalid` if it makes no sense, or is larger than an expression may be.
    pub(crate) fn check(&self) -> Result<()> {
        let refused = |what: String| Err(Error::Invalid(what));
        let mut operations = 0;
        self.count_operations(&mut operations);
        if operations > OPERATIONS_MAX {
            return refused(format!(
                "an expression has more than {OPERATIONS_MAX} operations"
            ));
        }
        let (mut checked, mut has_field) = (Ok(()), false);
        self.each_path(&mut |path| {
            has_field = true;
            if checked.is_ok() {
                checked = path.check();
            }
        });
        checked?;
        match has_field {
            true => self.check_numbers(),
            false => refused("an expression has no field".into()),
        }
    }

    /// Counts operations, up to one more than there may be.
    fn count_operations(&self, operations: &mut usize) {
        if let Expression::Operation(_, both) = self
            && *operations <= OPERATIONS_MAX
        {
            *operations += 1;
            both.iter().for_each(|one| one.count_operations(operations));
        }
    }

    fn check_numbers(&self) -> Result<()> {
        match self {
            Expression::Number(value) if !value.as_f64().is_some_and(f64::is_finite) => {
                let what = format!("an expression has {value}, which is no number");
                Err(Error::Invalid(what))
            }
            Expression::Operation(_, both) => both.iter().try_for_each(Expression::check_numbers),
            _ => Ok(()),
        }
    }
}

fn operation(operator: Operator, one: Expression, other: Expression) -> Expression {
    Expression::Operation(operator, Box::new([one, other]))
}

impl std::ops::Add for Expression {
    type Output = Expression;

    fn add(self, other: Expression) -> Expression {
        operation(Operator::Add, self, other)
    }
}

impl std::ops::Sub for Expression {
    type Output = Expression;

    fn sub(self, other: Expression) -> Expression {
        operation(Operator::Subtract, self, other)
    }
}

impl std::ops::Mul for Expression {
    type Output = Expression;

    fn mul(self, other: Expression) -> Expression {
        operation(Operator::Multiply, self, other)
    }
}

impl std::ops::Div for Expression {
    type Output = Expression;

    fn div(self, other: Expression) -> Expression {
        operation(Operator::Divide, self, other)
    }
}
