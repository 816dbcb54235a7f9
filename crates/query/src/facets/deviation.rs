//! [`Deviations`]: the median of how far numbers are from their median.

use crate::Result;
use crate::meter::Meter;
use crate::percentile::between;

const PURPOSE: &str = "finding the median of deviations";

/// The numbers, all of them: the answer is exact, and the memory of a query bounds them.
#[derive(Debug, Default)]
pub(crate) struct Deviations(Vec<f64>);

impl Deviations {
    pub(crate) fn add(&mut self, number: f64, meter: &mut Meter) -> Result<()> {
        self.0.push(number);
        meter.take(size_of::<f64>(), PURPOSE)
    }

    pub(crate) fn join(&mut self, other: Deviations, meter: &mut Meter) -> Result<()> {
        meter.take(other.0.len() * size_of::<f64>(), PURPOSE)?;
        self.0.extend(other.0);
        Ok(())
    }

    /// The median of the deviations; none of no numbers.
    pub(crate) fn finish(mut self) -> Option<f64> {
        self.0.sort_unstable_by(f64::total_cmp);
        let median = between(&self.0, 50.0)?;
        self.0
            .iter_mut()
            .for_each(|number| *number = (*number - median).abs());
        self.0.sort_unstable_by(f64::total_cmp);
        between(&self.0, 50.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_median_of_the_distances_from_the_median() {
        for (numbers, expected) in [
            (&[][..], None),
            (&[7.0], Some(0.0)),
            (&[300.0, 100.0, 200.0], Some(100.0)),
            // The median is 4.5; the distances are 3.5, 2.5, 2.5 and 95.5.
            (&[1.0, 2.0, 100.0, 7.0], Some(3.0)),
        ] {
            let mut all = Deviations::default();
            for number in numbers {
                all.add(*number, &mut Meter::new(100)).unwrap();
            }
            assert_eq!(all.finish(), expected, "{numbers:?}");
        }
    }
}
