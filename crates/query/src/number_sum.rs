//! [`NumberSum`]: an exact sum of numbers, small as long as they are integers.

use crate::exact_sum::ExactSum;
use quire_model::ordered::OrderedValue;

const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

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

    /// The sum, rounded once.
    pub(crate) fn to_f64(&self) -> f64 {
        match &self.others {
            // A conversion rounds to the nearest, as the other sum does.
            None => self.integers as f64,
            Some(others) => {
                let mut all = ExactSum::clone(others);
                let sign = if self.integers < 0 { -1.0 } else { 1.0 };
                let magnitude = self.integers.unsigned_abs();
                all.add(&OrderedValue::Float(sign), magnitude as u64);
                let above = OrderedValue::Float(sign * TWO_TO_64);
                all.add(&above, (magnitude >> 64) as u64);
                all.to_f64()
            }
        }
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
        ) {
            let (mut sum, mut exact) = (NumberSum::default(), ExactSum::default());
            for (number, times) in &numbers {
                prop_assert_eq!(sum.add(number, *times), exact.add(number, *times));
            }
            prop_assert_eq!(sum.to_f64().to_bits(), exact.to_f64().to_bits());
        }
    }
}
