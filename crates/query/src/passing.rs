//! [`Passing`]: which values of a column pass a test. Each value is tested once.

use crate::tested::Tested;
use crate::{Column, Options, Result, ordinals_between};
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};

/// In their order, this many values are tested in the time that one takes by itself: it is looked
/// up in the dictionary, and remembered.
const IN_ORDER: u64 = 4;

/// The most values that are tested in their order. Their bits take 1 MiB.
const IN_ORDER_MAX: u64 = 1 << 23;

/// Values whose tests are remembered, of those that are tested by themselves.
const MET_MAX: usize = 1 << 16;

/// Values that are tested before a look at whether the query is to stop: some words of bits.
const TESTED_AT_ONCE: u64 = 4096;
const _: () = assert!(TESTED_AT_ONCE.is_multiple_of(64));

/// See the module.
pub(crate) enum Passing {
    /// A bit for each of these ordinals; no other passes.
    InOrder {
        ordinals: Range<u64>,
        bits: Vec<u64>,
    },
    /// Those that some documents have.
    Met(HashMap<u64, bool>),
}

impl Passing {
    /// Of a column that is read for this number of documents. If they may have most of the values
    /// that can pass, these are tested at once, in their order.
    pub(crate) fn new(
        tested: &Tested,
        column: &dyn Column,
        docs: u64,
        options: &Options<'_>,
    ) -> Result<Passing> {
        // Numbers are no places in a dictionary: most may be the values of no document.
        if column.numbers().is_none() {
            let (bounds, end) = (tested.base.test.bounds(), column.ordinal_end());
            let within = ordinals_between(bounds, end, |term| column.ordinal_of(term))?;
            let ordinals = within.start..within.end.min(end);
            let values = ordinals.end.saturating_sub(ordinals.start);
            if values <= docs.saturating_mul(IN_ORDER).min(IN_ORDER_MAX) {
                return Passing::in_order(tested, column, ordinals, options);
            }
        }
        Ok(Passing::Met(HashMap::new()))
    }

    fn in_order(
        tested: &Tested,
        column: &dyn Column,
        ordinals: Range<u64>,
        options: &Options<'_>,
    ) -> Result<Passing> {
        let mut bits = Vec::new();
        let mut some = Vec::new();
        for start in ordinals.clone().step_by(TESTED_AT_ONCE as usize) {
            options.check_stop()?;
            some.clear();
            some.extend(start..ordinals.end.min(start + TESTED_AT_ONCE));
            let (mut word, mut seen) = (0, 0);
            column.each_term(&some, &mut |term| {
                word |= u64::from(tested.accepts_term(term)) << (seen % 64);
                seen += 1;
                if seen % 64 == 0 {
                    bits.push(std::mem::take(&mut word));
                }
                ControlFlow::Continue(())
            })?;
            assert!(
                seen == some.len(),
                "a column shows the term of each ordinal"
            );
            if seen % 64 > 0 {
                bits.push(word);
            }
        }
        Ok(Passing::InOrder { ordinals, bits })
    }

    /// Whether no value passes, as far as that is known.
    pub(crate) fn is_none(&self) -> bool {
        match self {
            Passing::InOrder { bits, .. } => bits.iter().all(|word| *word == 0),
            Passing::Met(_) => false,
        }
    }

    /// Makes known which of these ordinals pass.
    pub(crate) fn meet(
        &mut self,
        tested: &Tested,
        column: &dyn Column,
        ordinals: &[u64],
    ) -> Result<()> {
        let Passing::Met(met) = self else {
            return Ok(());
        };
        if met.len() > MET_MAX {
            met.clear();
        }
        let is_new = |ordinal: &u64| !met.contains_key(ordinal);
        let mut new: Vec<u64> = ordinals.iter().copied().filter(is_new).collect();
        new.sort_unstable();
        new.dedup();
        let mut left = new.iter();
        column.each_term(&new, &mut |term| {
            met.extend(
                left.next()
                    .map(|ordinal| (*ordinal, tested.accepts_term(term))),
            );
            ControlFlow::Continue(())
        })
    }

    /// Whether the value of this ordinal, which is known, passes.
    pub(crate) fn has(&self, ordinal: u64) -> bool {
        match self {
            Passing::InOrder { ordinals, bits } => {
                let place = ordinal.checked_sub(ordinals.start);
                let place = place.and_then(|place| usize::try_from(place).ok());
                let word = place.and_then(|place| Some((bits.get(place / 64)?, place % 64)));
                word.is_some_and(|(word, bit)| word >> bit & 1 == 1)
            }
            Passing::Met(met) => {
                debug_assert!(met.contains_key(&ordinal), "an ordinal has been met");
                met.get(&ordinal) == Some(&true)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelColumn;
    use crate::{Pattern, Value};
    use proptest::prelude::*;

    proptest! {
        /// In both forms, for patterns with and without a beginning.
        #[test]
        fn a_value_passes_as_the_test_says(
            texts in prop::collection::vec("[ab]{0,4}|[0-9]", 0..300),
            pattern in "[ab*?]{0,4}",
        ) {
            let values = texts.iter().map(|text| match text.parse::<i64>() {
                Ok(number) => Value::from(number),
                Err(_) => Value::from(text.as_str()),
            });
            let column = ModelColumn::new(values.map(|value| smallvec::smallvec![value]).collect());
            let pattern = Pattern::wildcard(&pattern).unwrap();
            let tested = Tested::of_pattern("a".into(), pattern).unwrap();
            let options = Options::default();
            let all: Vec<u64> = (0..column.ordinal_end()).collect();
            for docs in [0, u64::MAX] {
                let mut passing = Passing::new(&tested, &column, docs, &options).unwrap();
                let is_in_order = matches!(passing, Passing::InOrder { .. });
                prop_assert!(is_in_order || docs == 0);
                passing.meet(&tested, &column, &all).unwrap();
                for ordinal in &all {
                    let mut term = Vec::new();
                    column.term(*ordinal, &mut term).unwrap();
                    prop_assert_eq!(passing.has(*ordinal), tested.accepts_term(&term));
                }
            }
        }
    }
}
