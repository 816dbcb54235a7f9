//! [`ApproximateDistinct`]: about how many different values there are, in bounded memory.
//!
//! # Invariants
//! 1. The count does not depend on the order of the values, nor on how often each comes.
//!
//! Source: Flajolet, Fusy, Gandouet, Meunier 2007, "HyperLogLog: the analysis of a near-optimal
//! cardinality estimation algorithm".

use crate::Result;
use crate::meter::{ENTRY_BYTES, Meter};
use hyperloglockless::HyperLogLog;
use std::collections::BTreeSet;

/// Values up to this number are counted exactly.
const EXACT_MAX: usize = 256;

/// 2^14 registers: a standard error of 0.8 %.
const PRECISION: u8 = 14;

/// Bytes of the registers.
const SKETCH_BYTES: usize = 1 << PRECISION;

const COUNTING: &str = "counting about how many different values there are";

/// See the module.
#[derive(Debug)]
pub(crate) enum ApproximateDistinct {
    /// The terms, while they are few.
    Few(BTreeSet<Box<[u8]>>),
    Many(Box<HyperLogLog>),
}

impl Default for ApproximateDistinct {
    fn default() -> ApproximateDistinct {
        ApproximateDistinct::Few(BTreeSet::new())
    }
}

impl ApproximateDistinct {
    /// Adds a value by its term.
    pub(crate) fn add(&mut self, term: &[u8], meter: &mut Meter) -> Result<()> {
        match self {
            ApproximateDistinct::Many(sketch) => sketch.insert(term),
            ApproximateDistinct::Few(terms) if terms.contains(term) => {}
            ApproximateDistinct::Few(terms) if terms.len() < EXACT_MAX => {
                meter.take(ENTRY_BYTES + term.len(), COUNTING)?;
                terms.insert(term.into());
            }
            ApproximateDistinct::Few(_) => {
                self.become_sketch(meter)?;
                return self.add(term, meter);
            }
        }
        Ok(())
    }

    /// Adds the values that another one counted.
    pub(crate) fn join(&mut self, other: ApproximateDistinct, meter: &mut Meter) -> Result<()> {
        match other {
            ApproximateDistinct::Few(terms) => {
                terms.iter().try_for_each(|term| self.add(term, meter))
            }
            ApproximateDistinct::Many(sketch) => {
                if let ApproximateDistinct::Few(_) = self {
                    self.become_sketch(meter)?;
                }
                if let ApproximateDistinct::Many(all) = self {
                    let joined = all.union(&sketch);
                    debug_assert!(joined.is_ok(), "all sketches have one precision");
                }
                Ok(())
            }
        }
    }

    /// Few values become a sketch of them.
    fn become_sketch(&mut self, meter: &mut Meter) -> Result<()> {
        if let ApproximateDistinct::Few(terms) = self {
            meter.take(SKETCH_BYTES, COUNTING)?;
            meter.give(terms.iter().map(|term| ENTRY_BYTES + term.len()).sum());
            let mut sketch = Box::new(HyperLogLog::seeded(PRECISION, 0));
            terms.iter().for_each(|term| sketch.insert(&**term));
            *self = ApproximateDistinct::Many(sketch);
        }
        Ok(())
    }

    /// About how many different values were added.
    pub(crate) fn count(&self) -> u64 {
        match self {
            ApproximateDistinct::Few(terms) => terms.len() as u64,
            ApproximateDistinct::Many(sketch) => sketch.count() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_exact_and_many_within_a_few_percent() {
        for count in [0_u64, 1, 255, 256, 257, 1_000, 30_000, 300_000] {
            let (mut some, mut meter) = (ApproximateDistinct::default(), Meter::new(1 << 20));
            for value in (0..count).chain(0..count / 2) {
                some.add(&value.wrapping_mul(0x9e37_79b9).to_be_bytes(), &mut meter)
                    .unwrap();
            }
            let error = some.count().abs_diff(count) as f64 / count.max(1) as f64;
            let allowed = if count <= 256 { 0.0 } else { 0.03 };
            assert!(error <= allowed, "{} of {count}", some.count());
        }
    }

    #[test]
    fn memory_past_the_limit_is_an_error() {
        let (mut some, mut meter) = (ApproximateDistinct::default(), Meter::new(1 << 10));
        let added = (0..1_000_u32).try_for_each(|n| some.add(&n.to_be_bytes(), &mut meter));
        assert!(added.is_err());
    }
}
