//! Filters and orders to text that reads as the same.

use super::parse::RESERVED;
use crate::pattern::Written;
use crate::value::write_string;
use crate::{
    Aggregate, Comparison, Expression, Filter, Function, Grouping, Measure, Operator, Order,
    OrderedAs, Path, Value,
};
use quire_model::ordered::Direction;
use std::fmt::{self, Display, Formatter};
use std::ops::Bound;

/// What escapes the wildcards of LIKE.
const ESCAPE: char = '!';

/// How tightly the parts of a filter hold together; brackets go around weaker ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tightness {
    Or,
    And,
    Not,
    One,
}

/// As the text that [`Filter::parse`] reads.
impl Display for Filter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match peel(self) {
            Filter::All => f.write_str("TRUE"),
            Filter::And(all) => write_joined(all, "TRUE", " AND ", Tightness::Not, f),
            Filter::Or(any) => write_joined(any, "FALSE", " OR ", Tightness::And, f),
            Filter::Not(one) => match peel(one) {
                Filter::Eq(path, value) => write!(f, "{} <> {value}", Name(path)),
                Filter::Exists(path) | Filter::Range(path, Bound::Unbounded, Bound::Unbounded) => {
                    write!(f, "{} IS NULL", Name(path))
                }
                Filter::Cast(cast, path, Bound::Unbounded, Bound::Unbounded) => {
                    write!(f, "{cast}({}) IS NULL", Name(path))
                }
                one @ (Filter::In(..)
                | Filter::Prefix(..)
                | Filter::Like(..)
                | Filter::Cast(..)
                | Filter::Range(..))
                    if !is_comparison(one) =>
                {
                    write_test(one, "NOT ", f)
                }
                one => {
                    f.write_str("NOT ")?;
                    write_inside(one, Tightness::Not, f)
                }
            },
            one => write_test(one, "", f),
        }
    }
}

/// What a filter is but for lists of one around it, which are not written.
fn peel(filter: &Filter) -> &Filter {
    match filter {
        Filter::And(parts) | Filter::Or(parts) => match parts.as_slice() {
            [only] => peel(only),
            _ => filter,
        },
        _ => filter,
    }
}

/// Whether it is a range that is written with a sign, which has no opposite, or as a function.
fn is_comparison(filter: &Filter) -> bool {
    match filter {
        Filter::Range(_, lower, upper) | Filter::Cast(_, _, lower, upper) => {
            !matches!((lower, upper), (Bound::Included(_), Bound::Included(_)))
        }
        _ => false,
    }
}

fn write_test(filter: &Filter, not: &str, f: &mut Formatter<'_>) -> fmt::Result {
    match filter {
        Filter::Eq(path, value) => write!(f, "{} = {value}", Name(path)),
        Filter::In(path, values) => {
            write!(f, "{} {not}IN (", Name(path))?;
            for (index, value) in values.iter().enumerate() {
                write!(f, "{}{value}", if index > 0 { ", " } else { "" })?;
            }
            f.write_str(")")
        }
        Filter::Range(path, lower, upper) => write_range(&Name(path), lower, upper, not, f),
        Filter::Cast(cast, path, lower, upper) => {
            let name = format!("{cast}({})", Name(path));
            write_range(&name, lower, upper, not, f)
        }
        // A pattern may have fewer letters than a prefix.
        Filter::Prefix(path, prefix) => {
            let mut pattern = String::with_capacity(prefix.len() + 1);
            for letter in prefix.chars() {
                if matches!(letter, '%' | '_' | ESCAPE) {
                    pattern.push(ESCAPE);
                }
                pattern.push(letter);
            }
            let is_escaped = pattern.len() > prefix.len();
            pattern.push('%');
            write!(f, "{} {not}LIKE ", Name(path))?;
            write_pattern(&pattern, is_escaped, f)
        }
        Filter::Like(path, pattern) => {
            let case = if pattern.ignores_case() { "I" } else { "" };
            match pattern.written(ESCAPE) {
                Written::Like { text, is_escaped } => {
                    write!(f, "{} {not}{case}LIKE ", Name(path))?;
                    write_pattern(&text, is_escaped, f)
                }
                Written::Regexp(text) => {
                    write!(f, "{} {not}{case}REGEXP ", Name(path))?;
                    write_string(text, f)
                }
                Written::Fuzzy {
                    text,
                    edits,
                    prefix,
                } => {
                    write!(f, "{not}{case}FUZZY({}, ", Name(path))?;
                    write_string(text, f)?;
                    write!(f, ", {edits}, {prefix})")
                }
            }
        }
        Filter::Slice { path, number, max } => {
            write!(f, "{not}SLICE({}, {number}, {max})", Name(path))
        }
        Filter::Exists(path) => write!(f, "{} IS NOT NULL", Name(path)),
        Filter::All | Filter::And(_) | Filter::Or(_) | Filter::Not(_) => filter.fmt(f),
    }
}

fn write_pattern(pattern: &str, is_escaped: bool, f: &mut Formatter<'_>) -> fmt::Result {
    write_string(pattern, f)?;
    match is_escaped {
        true => write!(f, " ESCAPE '{ESCAPE}'"),
        false => Ok(()),
    }
}

fn write_range(
    name: &dyn Display,
    lower: &Bound<Value>,
    upper: &Bound<Value>,
    not: &str,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    use Bound::{Excluded, Included, Unbounded};
    match (lower, upper) {
        (Unbounded, Unbounded) => write!(f, "{name} IS NOT NULL"),
        (Included(value), Unbounded) => write!(f, "{name} >= {value}"),
        (Excluded(value), Unbounded) => write!(f, "{name} > {value}"),
        (Unbounded, Included(value)) => write!(f, "{name} <= {value}"),
        (Unbounded, Excluded(value)) => write!(f, "{name} < {value}"),
        (Included(lower), Included(upper)) => {
            write!(f, "{name} {not}BETWEEN {lower} AND {upper}")
        }
        (Included(lower), Excluded(upper)) => {
            write!(f, "RANGE({name}, '>=', {lower}, '<', {upper})")
        }
        (Excluded(lower), Included(upper)) => {
            write!(f, "RANGE({name}, '>', {lower}, '<=', {upper})")
        }
        (Excluded(lower), Excluded(upper)) => {
            write!(f, "RANGE({name}, '>', {lower}, '<', {upper})")
        }
    }
}

fn write_joined(
    filters: &[Filter],
    of_none: &str,
    between: &str,
    tightness: Tightness,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    match filters {
        [] => f.write_str(of_none),
        _ => {
            for (index, filter) in filters.iter().enumerate() {
                f.write_str(if index > 0 { between } else { "" })?;
                write_inside(filter, tightness, f)?;
            }
            Ok(())
        }
    }
}

/// Writes a part, in brackets if it does not hold together as tightly as it must.
fn write_inside(filter: &Filter, tightness: Tightness, f: &mut Formatter<'_>) -> fmt::Result {
    match tightness_of(filter) < tightness {
        true => write!(f, "({filter})"),
        false => filter.fmt(f),
    }
}

fn tightness_of(filter: &Filter) -> Tightness {
    match peel(filter) {
        Filter::And(parts) | Filter::Or(parts) if parts.is_empty() => Tightness::One,
        Filter::Or(_) => Tightness::Or,
        Filter::And(_) => Tightness::And,
        Filter::Not(_) => Tightness::Not,
        _ => Tightness::One,
    }
}

/// As the text that [`Order::parse_list`] reads.
impl Display for Order {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.by {
            OrderedAs::Cast(cast) => write!(f, "{cast}({})", Name(&self.path))?,
            OrderedAs::Value | OrderedAs::NotNull => Name(&self.path).fmt(f)?,
        }
        if self.direction == Direction::Descending {
            f.write_str(" DESC")?;
        }
        match (self.missing_first, &self.by) {
            (true, _) => f.write_str(" NULLS FIRST"),
            (false, OrderedAs::NotNull) => f.write_str(" NULLS LAST"),
            (false, _) => Ok(()),
        }
    }
}

/// As the text that [`Aggregate::parse`] reads.
impl Display for Aggregate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.what {
            Measure::Count => f.write_str("COUNT()"),
            Measure::Min(path) => write!(f, "MIN({})", Name(path)),
            Measure::Max(path) => write!(f, "MAX({})", Name(path)),
            Measure::Sum(path) => write!(f, "SUM({})", Name(path)),
            Measure::Avg(path) => write!(f, "AVG({})", Name(path)),
            Measure::Distinct(path) => write!(f, "DISTINCT({})", Name(path)),
            Measure::ApproximateDistinct(path) => write!(f, "APPROX_DISTINCT({})", Name(path)),
            Measure::Percentile { path, percent } => {
                write!(f, "PERCENTILE({}, {percent:?})", Name(path))
            }
            Measure::Terms { path, limit } => write!(f, "TERMS({}, {limit})", Name(path)),
            Measure::Histogram { path, interval } => {
                write!(f, "HISTOGRAM({}, {interval:?})", Name(path))
            }
            Measure::Of(function, expression) => write!(f, "{function}({expression})"),
            Measure::Group(grouping) => write!(f, "GROUP({grouping})"),
        }?;
        match &self.filter {
            Some(filter) => write!(f, " WHERE {filter}"),
            None => Ok(()),
        }
    }
}

impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Function::Min => "MIN",
            Function::Max => "MAX",
            Function::Sum => "SUM",
            Function::Avg => "AVG",
        })
    }
}

/// As the text between the brackets of an aggregate.
impl Display for Expression {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (operator, both) = match self {
            Expression::Field(path) => return Name(path).fmt(f),
            Expression::Number(value) => return value.fmt(f),
            Expression::Operation(operator, both) => (operator, both),
        };
        let [one, other] = &**both;
        write_operand(one, *operator, false, f)?;
        f.write_str(match operator {
            Operator::Add => " + ",
            Operator::Subtract => " - ",
            Operator::Multiply => " * ",
            Operator::Divide => " / ",
        })?;
        write_operand(other, *operator, true, f)
    }
}

/// Writes an operand, in brackets if it would be read as part of another operation.
fn write_operand(
    operand: &Expression,
    of: Operator,
    is_second: bool,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    let is_product = |operator| matches!(operator, Operator::Multiply | Operator::Divide);
    let is_looser = match operand {
        Expression::Operation(inner, _) => {
            is_second && is_product(of) == is_product(*inner)
                || is_product(of) && !is_product(*inner)
        }
        _ => false,
    };
    match is_looser {
        true => write!(f, "({operand})"),
        false => operand.fmt(f),
    }
}

/// As the text between the brackets of GROUP.
impl Display for Grouping {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, path) in self.by.iter().enumerate() {
            write!(f, "{}{}", if index > 0 { ", " } else { "" }, Name(path))?;
        }
        for (index, (name, measure)) in self.measures.iter().enumerate() {
            write!(f, "{} {measure}", if index > 0 { "," } else { ":" })?;
            if *name != measure.to_string() {
                write!(f, " AS {}", Quoted(name))?;
            }
        }
        for (index, having) in self.having.iter().enumerate() {
            let (measure, value) = (Quoted(&having.measure), &having.value);
            let word = if index > 0 { "AND" } else { "HAVING" };
            write!(f, " {word} {measure} {} {value}", having.comparison)?;
        }
        for (index, order) in self.order.iter().enumerate() {
            write!(
                f,
                "{}{}",
                if index > 0 { ", " } else { " ORDER BY " },
                Quoted(&order.name)
            )?;
            if order.direction == Direction::Descending {
                f.write_str(" DESC")?;
            }
        }
        match self.limit {
            Some(limit) => write!(f, " LIMIT {limit}"),
            None => Ok(()),
        }
    }
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Equal => "=",
            Comparison::NotEqual => "<>",
            Comparison::GreaterOrEqual => ">=",
            Comparison::Greater => ">",
        })
    }
}

/// A name of one word, in quotes: it need not be a path.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.replace('"', "\"\""))
    }
}

/// A path, its names in quotes where they are no plain words.
struct Name<'a>(&'a Path);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut after = 0;
        for (index, name) in self.0.as_str().split('.').enumerate() {
            f.write_str(if index > 0 { "." } else { "" })?;
            after += usize::from(index > 0) + name.len();
            let mut letters = name.chars();
            let is_plain = letters
                .next()
                .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
                && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
                && !RESERVED.contains(&name.to_ascii_uppercase().as_str());
            match is_plain {
                true => f.write_str(name)?,
                false => write!(f, "\"{}\"", name.replace('"', "\"\""))?,
            }
            let elements = self.0.elements().iter();
            for element in elements.filter(|element| element.after == after) {
                write!(f, "[{}]", element.position)?;
            }
        }
        Ok(())
    }
}
