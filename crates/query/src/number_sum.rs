//! [`NumberSum`]: an exact sum of numbers, small as long as they are integers.

use crate::exact_sum::ExactSum;
use quire_model::ordered::OrderedValue;

/// A sum of numbers that does not depend on their order. Integers are added up as one of 128 bits;
/// floats, and what does not fit, as an [`ExactSum`].
#[derive(Debug, Clone, Default)]
pub(crate) struct NumberSum {
    integers: i128,
    others: Option<Box<ExactSum>>,
}

impl NumberSum {
    /// Adds a number `times` times; false if the value is not a finite number.
    pub(crate) fn add(&mut self, value: &OrderedValue<'_>, times: u64) -> bool {
        let integer = match *value {
            OrderedValue::Int(value) => Some(i128::from(value)),
            OrderedValue::UInt(value) => Some(i128::from(value)),
            _ => None,
        };
        let sum = integer
            .and_then(|integer| integer.checked_mul(i128::from(times)))
            .and_then(|product| self.integers.checked_add(product));
        match sum {
            Some(sum) => {
                self.integers = sum;
                true
            }
            None => self.others.get_or_insert_default().add(value, times),
        }
    }

    /// Adds an integer.
    pub(crate) fn add_integer(&mut self, value: i128) {
        match self.integers.checked_add(value) {
            Some(sum) => self.integers = sum,
            None => self.others.get_or_insert_default().add_integer(value),
        }
    }

    /// Adds floats, at most some thousands, and returns how many of them are finite: the others are
    /// left out.
    pub(crate) fn add_floats(&mut self, values: &[f64]) -> u64 {
        self.others.get_or_insert_default().add_floats(values)
    }

    /// Adds another sum.
    pub(crate) fn join(&mut self, other: &NumberSum) {
        self.add_integer(other.integers);
        if let Some(others) = &other.others {
            self.others.get_or_insert_default().join(others);
        }
    }

    /// The sum, rounded once.
    pub(crate) fn to_f64(&self) -> f64 {
        match &self.others {
            // A conversion rounds to the nearest, as the other sum does.
            None => self.integers as f64,
            Some(_) => self.exact().to_f64(),
        }
    }

    /// The float nearest to the sum divided by `count`; none of no numbers.
    pub(crate) fn mean(&self, count: u64) -> Option<f64> {
        self.exact().mean(count)
    }

    fn exact(&self) -> ExactSum {
        let mut all = self.others.as_deref().cloned().unwrap_or_default();
        all.add_integer(self.integers);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number() -> impl Strategy<Value = OrderedValue<'static>> {
        prop_oneof![
            any::<i64>().prop_map(OrderedValue::Int),
            any::<u64>().prop_map(OrderedValue::UInt),
            (-1000_i64..1000).prop_map(OrderedValue::Int),
            any::<f64>().prop_map(OrderedValue::Float),
            (-1e3..1e3).prop_map(OrderedValue::Float),
        ]
    }

    proptest! {
        #[test]
        fn it_is_the_sum_that_an_exact_sum_gives(
            numbers in proptest::collection::vec((number(), any::<u64>()), 0..40),
            apart in 0_usize..40,
        ) {
            let (mut sum, mut exact) = (NumberSum::default(), ExactSum::default());
            let mut other = NumberSum::default();
            for (at, (number, times)) in numbers.iter().enumerate() {
                let part = if at < apart { &mut sum } else { &mut other };
                prop_assert_eq!(part.add(number, *times), exact.add(number, *times));
            }
            sum.join(&other);
            prop_assert_eq!(sum.to_f64().to_bits(), exact.to_f64().to_bits());
            let count = numbers.len() as u64;
            prop_assert_eq!(sum.mean(count), exact.mean(count));
        }
    }
}
