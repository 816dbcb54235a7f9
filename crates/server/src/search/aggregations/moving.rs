//! `moving_fn`: a function of the numbers of the buckets around each bucket.
//!
//! OpenSearch runs a script here. The functions that it has for them are known by their calls, such
//! as `MovingFunctions.max(values)`; every other script is refused.

use std::ops::Range;

/// A function of numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum MovingFunction {
    Max,
    Min,
    Sum,
    Mean,
    /// The weight of the n-th number is n.
    LinearMean,
    /// The part of the next number in the mean.
    ExponentialMean(f64),
}

/// A function, and the buckets that it is of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Moving {
    pub(super) function: MovingFunction,
    /// How many buckets before each one.
    pub(super) window: usize,
    /// How much later the window ends.
    pub(super) shift: i64,
}

impl MovingFunction {
    /// The function of a script.
    pub(super) fn of_script(script: &str) -> Option<MovingFunction> {
        let call: String = script
            .chars()
            .filter(|char| !char.is_whitespace())
            .collect();
        let call = call.strip_prefix("return").unwrap_or(&call);
        let call = call.strip_suffix(';').unwrap_or(call);
        let call = call.strip_prefix("MovingFunctions.")?.strip_suffix(')')?;
        let (name, arguments) = call.split_once('(')?;
        let arguments: Vec<&str> = arguments.split(',').collect();
        match (name, arguments.as_slice()) {
            ("max", ["values"]) => Some(MovingFunction::Max),
            ("min", ["values"]) => Some(MovingFunction::Min),
            ("sum", ["values"]) => Some(MovingFunction::Sum),
            ("unweightedAvg", ["values"]) => Some(MovingFunction::Mean),
            ("linearWeightedAvg", ["values"]) => Some(MovingFunction::LinearMean),
            ("ewma", ["values", alpha]) => {
                let alpha: f64 = alpha.parse().ok()?;
                let is_part = (0.0..=1.0).contains(&alpha);
                is_part.then_some(MovingFunction::ExponentialMean(alpha))
            }
            _ => None,
        }
    }

    /// What it is of some numbers; none of none, except a sum.
    fn of(self, numbers: &[f64]) -> Option<f64> {
        let sum = || numbers.iter().sum::<f64>();
        let is_any = !numbers.is_empty();
        match self {
            MovingFunction::Max => numbers.iter().copied().max_by(f64::total_cmp),
            MovingFunction::Min => numbers.iter().copied().min_by(f64::total_cmp),
            MovingFunction::Sum => Some(sum()),
            MovingFunction::Mean => is_any.then(|| sum() / numbers.len() as f64),
            MovingFunction::LinearMean => {
                let weighted = (1..).zip(numbers);
                let weighted: f64 = weighted.map(|(weight, one)| f64::from(weight) * one).sum();
                let weights = numbers.len() * (numbers.len() + 1) / 2;
                is_any.then(|| weighted / weights as f64)
            }
            MovingFunction::ExponentialMean(alpha) => {
                let mut numbers = numbers.iter().copied();
                let first = numbers.next()?;
                Some(numbers.fold(first, |mean, one| alpha * one + (1.0 - alpha) * mean))
            }
        }
    }
}

impl Moving {
    /// What it is at each of the buckets with these numbers. One without a number has none.
    pub(super) fn of(self, numbers: &[Option<f64>]) -> Vec<Option<f64>> {
        let there: Vec<f64> = numbers.iter().flatten().copied().collect();
        let mut place = 0;
        let of_bucket = numbers.iter().map(|number| {
            number.as_ref()?;
            let window = self.window_before(place, there.len());
            place += 1;
            self.function.of(there.get(window).unwrap_or_default())
        });
        of_bucket.collect()
    }

    fn window_before(self, place: usize, count: usize) -> Range<usize> {
        let end = i64::try_from(place)
            .unwrap_or(i64::MAX)
            .saturating_add(self.shift);
        let end = usize::try_from(end.max(0)).unwrap_or(usize::MAX);
        end.saturating_sub(self.window).min(count)..end.min(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(script: &str, window: usize, shift: i64) -> Vec<Option<f64>> {
        let function = MovingFunction::of_script(script).unwrap();
        let moving = Moving {
            function,
            window,
            shift,
        };
        moving.of(&[Some(4.0), Some(2.0), None, Some(6.0), Some(1.0)])
    }

    #[test]
    fn each_function_is_of_the_buckets_before() {
        let some = |numbers: [f64; 3]| {
            let [second, fourth, fifth] = numbers.map(Some);
            vec![None, second, None, fourth, fifth]
        };
        assert_eq!(
            moved("MovingFunctions.max(values)", 2, 0),
            some([4.0, 4.0, 6.0])
        );
        assert_eq!(
            moved("return MovingFunctions.min( values );", 2, 0),
            some([4.0, 2.0, 2.0])
        );
        assert_eq!(
            moved("MovingFunctions.unweightedAvg(values)", 2, 0),
            some([4.0, 3.0, 4.0])
        );
        assert_eq!(
            moved("MovingFunctions.linearWeightedAvg(values)", 2, 0),
            some([4.0, 8.0 / 3.0, 14.0 / 3.0])
        );
        assert_eq!(
            moved("MovingFunctions.ewma(values, 0.5)", 2, 0),
            some([4.0, 3.0, 4.0])
        );
        let sums = moved("MovingFunctions.sum(values)", 2, 1);
        assert_eq!(sums, [Some(4.0), Some(6.0), None, Some(8.0), Some(7.0)]);
        for other in [
            "values[0]",
            "MovingFunctions.max(values) + 1",
            "MovingFunctions.f(values)",
        ] {
            assert_eq!(MovingFunction::of_script(other), None);
        }
    }
}
