//! Aggregates with more values or groups than the memory of a query holds: gathered in passes.
//!
//! Each pass executes the query for one slice of the values, by their hash, so it holds a part of
//! the state. Together the passes see every value once. Nothing is written to a disk: what a query
//! saves in memory it pays in time.

use crate::aggregate::keep_first_terms;
use crate::facets::FacetPlan;
use crate::meter::Meter;
use crate::prepared::Prepared;
use crate::slice::Slice;
use crate::{Aggregated, Answer, Error, Group, Measure, Options, Query, Result, Value, find_all};

/// Slices at first, and how many times as many are tried if one of them does not fit.
const MORE_SLICES: u32 = 8;

/// Most slices.
const SLICES_MAX: u32 = 512;

/// Executes a query that has no hits.
pub(crate) type Execute<'e> = &'e mut dyn FnMut(&Prepared, &Options<'_>) -> Result<Answer>;

impl Prepared {
    /// Whether it has aggregates that can be gathered in passes.
    pub(crate) fn has_slices(&self) -> bool {
        let mut aggregates = self.query.aggregates.iter();
        self.slice == Slice::ALL && aggregates.any(|(_, one)| is_sliced(&one.what))
    }

    /// It without the aggregates that can be gathered in passes.
    pub(crate) fn without_slices(&self) -> Prepared {
        let mut others = self.clone();
        others.keep_aggregates(|_, what| !is_sliced(what));
        others
    }

    /// Gathers what [`without_slices`](Self::without_slices) leaves out, and adds it to the answer
    /// of the rest.
    ///
    /// # Errors
    /// `TooLarge` if a slice does not fit however many there are, or if the result does not.
    pub(crate) fn add_slices(
        &self,
        answer: &mut Answer,
        options: &Options<'_>,
        execute: Execute<'_>,
    ) -> Result<()> {
        let mut held = Meter::new(options.memory_bytes_max);
        for (place, (name, aggregate)) in self.query.aggregates.iter().enumerate() {
            if is_sliced(&aggregate.what) {
                let gathered = self.in_passes(place, answer, &mut held, options, execute);
                let gathered = gathered.map_err(|error| match error {
                    // A pass may hold what the others have left.
                    Error::TooLarge { what, .. } => Error::TooLarge {
                        what,
                        bytes_max: options.memory_bytes_max,
                    },
                    other => other,
                })?;
                answer.aggregates.insert(place, (name.clone(), gathered));
            }
        }
        assert!(
            answer.aggregates.len() == self.query.aggregates.len(),
            "each aggregate has a result"
        );
        Ok(())
    }

    fn in_passes(
        &self,
        place: usize,
        answer: &mut Answer,
        held: &mut Meter,
        options: &Options<'_>,
        execute: Execute<'_>,
    ) -> Result<Aggregated> {
        let mut of = MORE_SLICES;
        loop {
            match self.slices(place, of, answer, held, options, execute)? {
                Some(whole) => return Ok(whole),
                None => of *= MORE_SLICES,
            }
        }
    }

    /// One pass for each slice; none if one does not fit, and smaller ones may.
    fn slices(
        &self,
        place: usize,
        of: u32,
        answer: &mut Answer,
        held: &mut Meter,
        options: &Options<'_>,
        execute: Execute<'_>,
    ) -> Result<Option<Aggregated>> {
        let (mut whole, mut bytes) = (None, 0);
        for number in 0..of {
            let options = Options {
                memory_bytes_max: held.left(),
                ..*options
            };
            let mut part = match execute(&self.pass(place, Slice { number, of }), &options) {
                Err(Error::TooLarge { .. }) if of < SLICES_MAX => {
                    held.give(bytes);
                    return Ok(None);
                }
                part => part?,
            };
            if let (Some(all), Some(explain)) = (&mut answer.explain, part.explain) {
                all.passes += 1;
                all.aggregating += explain.planning + explain.filtering + explain.aggregating;
            }
            let Some((_, gathered)) = part.aggregates.pop() else {
                unreachable!("a pass has one aggregate");
            };
            let gathered = match whole.take() {
                None => gathered,
                Some(all) => self.joined(place, all, gathered),
            };
            held.give(bytes);
            bytes = bytes_of(&gathered);
            held.take(bytes, "returning all groups at once")?;
            whole = Some(gathered);
            if part.is_partial {
                answer.is_partial = true;
                break;
            }
        }
        Ok(whole)
    }

    /// The query of one aggregate, for the values of one slice.
    fn pass(&self, place: usize, slice: Slice) -> Prepared {
        let mut pass = self.clone();
        pass.keep_aggregates(|at, _| at == place);
        pass.query = Query {
            aggregates: std::mem::take(&mut pass.query.aggregates),
            limit: Some(0),
            ..find_all()
        };
        pass.facets = FacetPlan::default();
        pass.slice = slice;
        pass
    }

    /// The results of two slices, as of both together.
    fn joined(&self, place: usize, all: Aggregated, part: Aggregated) -> Aggregated {
        match (all, part) {
            (Aggregated::Count(all), Aggregated::Count(count)) => Aggregated::Count(all + count),
            (
                Aggregated::Terms { mut terms, others },
                Aggregated::Terms {
                    terms: more,
                    others: of_more,
                },
            ) => {
                terms.extend(more);
                let aggregate = self.query.aggregates.get(place);
                let limit = match aggregate.map(|(_, aggregate)| &aggregate.what) {
                    Some(Measure::Terms { limit, .. }) => *limit,
                    _ => u64::MAX,
                };
                let left_out = keep_first_terms(&mut terms, limit);
                Aggregated::Terms {
                    terms,
                    others: others + of_more + left_out,
                }
            }
            (
                Aggregated::Groups {
                    by,
                    names,
                    mut groups,
                    all,
                },
                Aggregated::Groups {
                    groups: more,
                    all: of_more,
                    ..
                },
            ) => {
                groups.extend(more);
                if let Some(Some(part)) = self.groups.get(place) {
                    part.plan.keep_first(&mut groups);
                }
                Aggregated::Groups {
                    by,
                    names,
                    groups,
                    all: all + of_more,
                }
            }
            (all, part) => unreachable!("{part:?} is no slice of what {all:?} is"),
        }
    }
}

/// Whether a measure has a state for each value or group, and is whole by slices of these.
fn is_sliced(what: &Measure) -> bool {
    match what {
        Measure::Distinct(_) | Measure::Terms { .. } | Measure::Group(_) => true,
        Measure::Count
        | Measure::Min(_)
        | Measure::Max(_)
        | Measure::Sum(_)
        | Measure::Avg(_)
        | Measure::ApproximateDistinct(_)
        | Measure::Percentile { .. }
        | Measure::Histogram { .. }
        | Measure::Of(..) => false,
    }
}

/// What a result takes in memory, about.
fn bytes_of(result: &Aggregated) -> usize {
    let of_result = size_of::<Aggregated>();
    let of_value = |value: &Value| size_of::<Value>() + value.term().len();
    of_result
        + match result {
            Aggregated::Count(_) | Aggregated::Value(_) | Aggregated::Number(_) => 0,
            Aggregated::Terms { terms, .. } => {
                let terms = terms.iter();
                terms
                    .map(|(value, _)| of_value(value) + size_of::<u64>())
                    .sum()
            }
            Aggregated::Histogram(intervals) => size_of_val(intervals.as_slice()),
            Aggregated::Groups { groups, .. } => {
                let of_group = |group: &Group| {
                    let values = group.values.iter().map(of_value).sum::<usize>();
                    let measures = group.measures.iter().map(bytes_of).sum::<usize>();
                    size_of::<Group>() + values + measures
                };
                groups.iter().map(of_group).sum()
            }
        }
}
