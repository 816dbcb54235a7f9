//! [`Groups`]: the state of a GROUP BY, from columns of shards and from documents alike.
//!
//! # Invariants
//! 1. The state does not depend on the order of the documents, nor on how they are split into
//!    shards.
//! 2. A group has a state of each measure, even where a measure's filter leaves no document.

use crate::aggregate::Gathered;
use crate::meter::{ENTRY_BYTES, Meter};
use crate::slice::Slice;
use crate::{Aggregated, Comparison, Group, Grouping, Path, Result, Value};
use quire_index::term;
use quire_model::ordered::{Direction, OrderedValue};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::collections::HashMap;

/// The terms of a group's values, one after the other: in the order of groups.
pub(crate) type GroupKey = SmallVec<[u8; 32]>;

const GROUPING: &str = "grouping";

/// See the module.
#[derive(Debug)]
pub(crate) struct Groups {
    pub(crate) plan: GroupPlan,
    numbers: HashMap<GroupKey, u32>,
    /// By the number of the group, then by measure.
    states: Vec<Gathered>,
    /// The groups that are made; there are no others.
    slice: Slice,
}

/// A [`Grouping`] whose names were found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupPlan {
    pub(crate) by: Vec<Path>,
    pub(crate) measures: Vec<(String, crate::Measure)>,
    having: Vec<(usize, Comparison, Value)>,
    order: Vec<(Place, Direction)>,
    limit: Option<u64>,
}

/// What groups are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Field(usize),
    Measure(usize),
}

impl GroupPlan {
    /// # Errors
    /// The name that is none of a measure or of a field of the grouping.
    pub(crate) fn new(grouping: &Grouping) -> std::result::Result<GroupPlan, String> {
        let measure = |name: &str| {
            grouping
                .measures
                .iter()
                .position(|(other, _)| other == name)
        };
        let field = |name: &str| grouping.by.iter().position(|path| path.as_str() == name);
        let having = grouping.having.iter().map(|having| {
            let place = measure(&having.measure).ok_or_else(|| having.measure.clone())?;
            Ok((place, having.comparison, having.value.clone()))
        });
        let order = grouping.order.iter().map(|order| {
            let place = measure(&order.name).map(Place::Measure);
            let place = place.or_else(|| field(&order.name).map(Place::Field));
            Ok((place.ok_or_else(|| order.name.clone())?, order.direction))
        });
        let measures = grouping.measures.iter();
        Ok(GroupPlan {
            by: grouping.by.clone(),
            measures: measures
                .map(|(name, measure)| (name.clone(), measure.what.clone()))
                .collect(),
            having: having.collect::<std::result::Result<_, String>>()?,
            order: order.collect::<std::result::Result<_, String>>()?,
            limit: grouping.limit,
        })
    }

    /// Puts groups in order, and keeps those that are wanted.
    pub(crate) fn keep_first(&self, groups: &mut Vec<Group>) {
        groups.sort_by(|one, other| compare(&self.order, one, other));
        if let Some(limit) = self.limit {
            groups.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        }
    }
}

impl Groups {
    pub(crate) fn new(plan: GroupPlan, slice: Slice) -> Groups {
        Groups {
            plan,
            numbers: HashMap::new(),
            states: Vec::new(),
            slice,
        }
    }

    /// The number of the group with these values; none if it is of another slice.
    pub(crate) fn number_of(&mut self, key: &GroupKey, meter: &mut Meter) -> Result<Option<u32>> {
        if let Some(number) = self.numbers.get(key) {
            return Ok(Some(*number));
        }
        if !self.slice.contains(key) {
            return Ok(None);
        }
        let measures = &self.plan.measures;
        let bytes = ENTRY_BYTES + key.len() + measures.len() * size_of::<Gathered>();
        meter.take(bytes, GROUPING)?;
        let number = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        assert!(
            number < u32::MAX - 1,
            "the memory of a query bounds its groups"
        );
        self.numbers.insert(key.clone(), number);
        let states = measures.iter().map(|(_, measure)| Gathered::new(measure));
        self.states.extend(states);
        Ok(Some(number))
    }

    /// The state of a measure of a group.
    pub(crate) fn state(&mut self, group: u32, measure: usize) -> Option<&mut Gathered> {
        let place = group as usize * self.plan.measures.len() + measure;
        self.states.get_mut(place)
    }

    /// Adds a document: for each field the values that it has there, and for each measure those
    /// that it counts with, none if it does not count.
    pub(crate) fn add_document(
        &mut self,
        by: &[impl AsRef<[Value]>],
        measured: &[Option<impl AsRef<[Value]>>],
        meter: &mut Meter,
    ) -> Result<()> {
        let mut keys = vec![GroupKey::new()];
        for values in by {
            let mut longer = Vec::new();
            let values = values.as_ref().iter();
            let mut terms: SmallVec<[&[u8]; 4]> = values.map(Value::term).collect();
            terms.retain(|term| *term != term::NULL);
            if terms.is_empty() {
                terms.push(term::NULL);
            }
            for key in &keys {
                meter.take(terms.len() * size_of::<GroupKey>(), GROUPING)?;
                longer.extend(terms.iter().map(|term| {
                    let mut key = key.clone();
                    key.extend_from_slice(term);
                    key
                }));
            }
            keys = longer;
        }
        for key in &keys {
            let Some(group) = self.number_of(key, meter)? else {
                continue;
            };
            for (measure, values) in measured.iter().enumerate() {
                let state = self.state(group, measure);
                let (Some(values), Some(state)) = (values, state) else {
                    continue;
                };
                state.add_documents(1);
                state.add_document(values.as_ref(), meter)?;
            }
        }
        Ok(())
    }

    /// Adds the groups of other documents.
    pub(crate) fn join(&mut self, other: Groups, meter: &mut Meter) -> Result<()> {
        let measures = other.plan.measures.len();
        let mut states = other.states.into_iter();
        let mut numbered: Vec<_> = other.numbers.into_iter().collect();
        numbered.sort_unstable_by_key(|(_, number)| *number);
        for (key, _) in numbered {
            let group = self.number_of(&key, meter)?;
            assert!(group.is_some(), "groups that are joined are of one slice");
            for (measure, state) in states.by_ref().take(measures).enumerate() {
                if let Some(all) = group.and_then(|group| self.state(group, measure)) {
                    all.join(state, meter)?;
                }
            }
        }
        Ok(())
    }

    /// The groups that are wanted, in order, and how many there are with those past the limit.
    pub(crate) fn finish(self) -> Aggregated {
        let (plan, count) = (&self.plan, self.plan.measures.len());
        let mut states = self.states.into_iter();
        let mut numbered: Vec<_> = self.numbers.into_iter().collect();
        numbered.sort_unstable_by_key(|(_, number)| *number);
        let mut groups: Vec<Group> = Vec::with_capacity(numbered.len());
        for (key, _) in numbered {
            let measures = states.by_ref().take(count).map(Gathered::finish).collect();
            let group = Group {
                values: values_of(&key),
                measures,
            };
            if plan.having.iter().all(|having| fulfils(&group, having)) {
                groups.push(group);
            }
        }
        let all = groups.len() as u64;
        plan.keep_first(&mut groups);
        let names = plan.measures.iter().map(|(name, _)| name.clone());
        Aggregated::Groups {
            by: plan.by.clone(),
            names: names.collect(),
            groups,
            all,
        }
    }
}

/// The values of a group, from its key.
fn values_of(mut key: &[u8]) -> Vec<Value> {
    let mut values = Vec::new();
    while let Ok((value, rest)) = OrderedValue::decode(key, Direction::Ascending) {
        values.push(Value::from(value));
        key = rest;
    }
    assert!(key.is_empty(), "the key of a group is terms");
    values
}

/// What a measure says, as a value; none if it has none.
fn value_of(measured: &Aggregated) -> Option<Value> {
    match measured {
        Aggregated::Count(count) => Some(Value::from(*count)),
        Aggregated::Value(value) => value.clone(),
        Aggregated::Number(number) => number.map(Value::from),
        Aggregated::Terms { .. } | Aggregated::Histogram(_) | Aggregated::Groups { .. } => None,
    }
}

fn fulfils(group: &Group, (measure, comparison, value): &(usize, Comparison, Value)) -> bool {
    let measured = group.measures.get(*measure).and_then(value_of);
    measured.is_some_and(|measured| comparison.holds(&measured, value))
}

fn compare(order: &[(Place, Direction)], one: &Group, other: &Group) -> Ordering {
    for (place, direction) in order {
        let value = |group: &Group| match place {
            Place::Field(field) => group.values.get(*field).cloned(),
            Place::Measure(measure) => group.measures.get(*measure).and_then(value_of),
        };
        let (one, other) = (value(one), value(other));
        let ordering = match (&one, &other, direction) {
            (Some(one), Some(other), Direction::Ascending) => one.cmp(other),
            (Some(one), Some(other), Direction::Descending) => other.cmp(one),
            _ => other.is_some().cmp(&one.is_some()),
        };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    one.values.cmp(&other.values)
}
