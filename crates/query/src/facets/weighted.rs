//! [`WeightedMean`]: the mean of numbers, each with a weight.

use crate::number_sum::NumberSum;
use quire_model::ordered::OrderedValue;

/// Sums that do not depend on the order of the numbers: each product is rounded, and each sum once.
#[derive(Debug, Default)]
pub(crate) struct WeightedMean {
    products: NumberSum,
    weights: NumberSum,
}

impl WeightedMean {
    pub(crate) fn add(&mut self, number: f64, weight: f64) {
        if number.is_finite() && weight.is_finite() {
            self.products.add(&OrderedValue::Float(number * weight), 1);
            self.weights.add(&OrderedValue::Float(weight), 1);
        }
    }

    pub(crate) fn join(&mut self, other: &WeightedMean) {
        self.products.join(&other.products);
        self.weights.join(&other.weights);
    }

    /// The mean; none of no numbers, or of weights whose sum is 0.
    pub(crate) fn finish(&self) -> Option<f64> {
        let mean = self.products.to_f64() / self.weights.to_f64();
        mean.is_finite().then_some(mean)
    }
}
