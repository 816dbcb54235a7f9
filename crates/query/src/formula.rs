//! [`Formula`]: an expression, ready to be computed for many documents.
//!
//! # Invariants
//! 1. Results depend on the numbers alone: how columns and documents store them makes no
//!    difference. So a float that is an integer is one here, as it is as a [`Value`].

use crate::meter::Meter;
use crate::values::{Values, metered_values};
use crate::{Error, Expression, Operator, Path, Result, Value};
use quire_index::Number;
use quire_model::ObjectRef;
use quire_model::ordered::OrderedValue;
use smallvec::SmallVec;

/// Combinations of the numbers of one document.
const COMBINATIONS_MAX: usize = 1 << 12;

/// Floats in this range, the first included, are integers of 64 bits if they have no fraction.
const INTEGERS: std::ops::Range<f64> = -9_223_372_036_854_775_808.0..18_446_744_073_709_551_616.0;

/// An operand, or a result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Operand {
    /// From the least i64 to the greatest u64.
    Int(i128),
    /// Finite.
    Float(f64),
}

/// The numbers of one field in one document, each once.
pub(crate) type Operands = SmallVec<[Operand; 1]>;

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Formula {
    /// The fields, each once.
    pub(crate) paths: Vec<Path>,
    root: Node,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    /// The number of the field at this place.
    Field(usize),
    Number(Operand),
    Operation(Operator, Box<[Node; 2]>),
}

impl Formula {
    pub(crate) fn new(expression: &Expression) -> Formula {
        let mut paths = Vec::new();
        let root = node(expression, &mut paths);
        Formula { paths, root }
    }

    /// The different results for a document, of the numbers that it has at each path.
    ///
    /// # Errors
    /// `Invalid` if there are too many combinations of numbers.
    pub(crate) fn results(&self, numbers: &[Operands]) -> Result<Values> {
        debug_assert_eq!(numbers.len(), self.paths.len(), "each field has a place");
        let combinations = numbers.iter().try_fold(1_usize, |all, of_field| {
            all.checked_mul(of_field.len())
                .filter(|all| *all <= COMBINATIONS_MAX)
        });
        let Some(combinations) = combinations else {
            return Err(Error::Invalid(format!(
                "a document has more than {COMBINATIONS_MAX} combinations of numbers for an \
                 expression"
            )));
        };
        let mut results = Values::new();
        let mut chosen: SmallVec<[Operand; 4]> = SmallVec::new();
        for combination in 0..combinations {
            let mut digits = combination;
            chosen.clear();
            chosen.extend(numbers.iter().filter_map(|of_field| {
                let digit = digits % of_field.len();
                digits /= of_field.len();
                of_field.get(digit).copied()
            }));
            results.extend(self.root.result(&chosen).map(Operand::value));
        }
        results.sort_unstable();
        results.dedup();
        Ok(results)
    }

    /// The different results for a document; `scratch` is a buffer for a term. What its values take
    /// of the memory is added to `taken`.
    ///
    /// # Errors
    /// As of [`results`](Formula::results); `TooLarge` if the values are more than the query may
    /// hold.
    pub(crate) fn of_document(
        &self,
        root: ObjectRef<'_>,
        scratch: &mut Vec<u8>,
        meter: &mut Meter,
        taken: &mut usize,
    ) -> Result<Values> {
        let numbers = self.paths.iter().map(|path| {
            let values = metered_values(path, root, scratch, meter, taken)?;
            let operands = values.iter();
            Ok(operands
                .filter_map(|value| Operand::of(&value.get()))
                .collect())
        });
        self.results(&numbers.collect::<Result<SmallVec<[Operands; 4]>>>()?)
    }
}

fn node(expression: &Expression, paths: &mut Vec<Path>) -> Node {
    match expression {
        Expression::Field(path) => {
            let place = paths.iter().position(|other| other == path);
            Node::Field(place.unwrap_or_else(|| {
                paths.push(path.clone());
                paths.len() - 1
            }))
        }
        // What is no number was refused.
        Expression::Number(value) => {
            Node::Number(Operand::of(&value.get()).unwrap_or(Operand::Int(0)))
        }
        Expression::Operation(operator, both) => {
            let [one, other] = &**both;
            Node::Operation(*operator, Box::new([node(one, paths), node(other, paths)]))
        }
    }
}

impl Node {
    fn result(&self, numbers: &[Operand]) -> Option<Operand> {
        match self {
            Node::Field(place) => numbers.get(*place).copied(),
            Node::Number(number) => Some(*number),
            Node::Operation(operator, both) => {
                let [one, other] = &**both;
                operate(*operator, one.result(numbers)?, other.result(numbers)?)
            }
        }
    }
}

fn operate(operator: Operator, one: Operand, other: Operand) -> Option<Operand> {
    if let (Operand::Int(one), Operand::Int(other)) = (one, other) {
        let exact = match operator {
            Operator::Add => one.checked_add(other),
            Operator::Subtract => one.checked_sub(other),
            Operator::Multiply => one.checked_mul(other),
            Operator::Divide if other == 0 => return None,
            Operator::Divide => (one % other == 0).then(|| one / other),
        };
        let in_range = i128::from(i64::MIN)..=i128::from(u64::MAX);
        if let Some(exact) = exact.filter(|exact| in_range.contains(exact)) {
            return Some(Operand::Int(exact));
        }
    }
    let (one, other) = (one.as_f64(), other.as_f64());
    Operand::of_float(match operator {
        Operator::Add => one + other,
        Operator::Subtract => one - other,
        Operator::Multiply => one * other,
        Operator::Divide => one / other,
    })
}

impl Operand {
    /// A value, if it is a finite number.
    pub(crate) fn of(value: &OrderedValue<'_>) -> Option<Operand> {
        match *value {
            OrderedValue::Int(value) => Some(Operand::Int(value.into())),
            OrderedValue::UInt(value) => Some(Operand::Int(value.into())),
            OrderedValue::Float(value) => Operand::of_float(value),
            _ => None,
        }
    }

    /// What an ordinal stands for, if it is a finite number.
    pub(crate) fn of_number(number: Number) -> Option<Operand> {
        match number {
            Number::Int(value) => Some(Operand::Int(value.into())),
            Number::Float(value) => Operand::of_float(value),
        }
    }

    fn of_float(value: f64) -> Option<Operand> {
        match value.fract() == 0.0 && INTEGERS.contains(&value) {
            true => Some(Operand::Int(value as i128)),
            false => value.is_finite().then_some(Operand::Float(value)),
        }
    }

    fn as_f64(self) -> f64 {
        match self {
            Operand::Int(value) => value as f64,
            Operand::Float(value) => value,
        }
    }

    fn value(self) -> Value {
        match self {
            Operand::Int(value) => match (i64::try_from(value), u64::try_from(value)) {
                (Ok(value), _) => Value::from(value),
                (_, Ok(value)) => Value::from(value),
                _ => Value::from(value as f64),
            },
            Operand::Float(value) => Value::from(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quire_model::Document;

    fn results(text: &str, json: &str) -> Vec<String> {
        let Ok(crate::Aggregate {
            what: crate::Measure::Of(_, expression),
            ..
        }) = crate::Aggregate::parse(&format!("sum({text})"))
        else {
            panic!("{text}");
        };
        assert!(expression.check().is_ok(), "{text}");
        let document = Document::from_json(json.as_bytes()).unwrap();
        let results = Formula::new(&expression).of_document(
            document.root(),
            &mut Vec::new(),
            &mut Meter::new(usize::MAX),
            &mut 0,
        );
        results.unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn integers_are_exact_and_everything_else_is_the_nearest_float() {
        let json =
            r#"{"a":7,"b":2,"big":9007199254740993,"most":18446744073709551615,"f":0.5,"n":null}"#;
        for (text, expected) in [
            ("a + b * 3", "13"),
            ("(a + b) * 3", "27"),
            ("a - b - 1", "4"),
            ("a / b", "3.5"),
            ("a / b / f", "7"),
            ("big * 1", "9007199254740993"),
            ("big - a + f", "9007199254740986"),
            ("most + 0", "18446744073709551615"),
            ("most + 1", "1.8446744073709552e19"),
            ("0 - most", "-1.8446744073709552e19"),
            ("most * most", "3.402823669209385e38"),
            ("a * -2", "-14"),
            ("a * 1.5", "10.5"),
        ] {
            assert_eq!(results(text, json), [expected], "{text}");
        }
        for nothing in ["a / (b - 2)", "a + n", "a + missing", "1e308 * a * a"] {
            assert!(results(nothing, json).is_empty(), "{nothing}");
        }
    }

    #[test]
    fn each_combination_of_numbers_has_a_result_and_equal_ones_are_one() {
        let json = r#"{"a":[1,2,2.0,"x",null],"b":[3,6]}"#;
        assert_eq!(results("a * b", json), ["3", "6", "12"]);
        assert_eq!(results("a * a", json), ["1", "4"]);
        let many: Vec<String> = (0..65).map(|n| n.to_string()).collect();
        let json = format!(r#"{{"a":[{0}],"b":[{0}]}}"#, many.join(","));
        let document = Document::from_json(json.as_bytes()).unwrap();
        let product = Expression::field("a") * Expression::field("b");
        let refused = Formula::new(&product).of_document(
            document.root(),
            &mut Vec::new(),
            &mut Meter::new(usize::MAX),
            &mut 0,
        );
        assert!(matches!(refused, Err(Error::Invalid(_))));
    }
}
