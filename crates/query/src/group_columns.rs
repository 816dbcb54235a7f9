//! Adding a shard's documents to [`Groups`], by its columns.
//!
//! A combination of ordinals is a group of the shard. Its number among all groups is looked up
//! once, by its values; after that the combination is enough.

use crate::batches::Batches;
use crate::computed::Computed;
use crate::evaluate::Evaluator;
use crate::groups::{GroupKey, Groups};
use crate::meter::Meter;
use crate::plan::plan;
use crate::prepared::GroupsPart;
use crate::terms::Terms;
use crate::{Column, Ordinals, Path, Result};
use quire_index::{DocSet, term};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::ops::Range;

/// Combinations up to this number have a place each in an array.
const ARRAY_CODES_MAX: u64 = 1 << 18;

/// Pairs of a document and a group that are measured at once.
const PAIRS_MAX: usize = 1 << 16;

/// No group yet.
const NONE: u32 = u32::MAX;

/// A group of another slice.
const OTHER: u32 = NONE - 1;

/// Adds documents of a shard, segment by segment.
pub(crate) fn add_docs(
    groups: &mut Groups,
    part: &GroupsPart,
    evaluator: &Evaluator<'_, '_>,
    docs: &DocSet,
    meter: &mut Meter,
) -> Result<()> {
    let mut filtered = Vec::with_capacity(part.among.len());
    for node in &part.among {
        let mut only = None;
        if let Some(node) = node {
            let step = plan(node, 0, evaluator.shard, evaluator.docs, None)?;
            let mut set = docs.clone();
            evaluator.retain(&step, &mut set, None)?;
            only = Some(set);
        }
        filtered.push(only);
    }
    let (by, measures) = (groups.plan.by.clone(), groups.plan.measures.clone());
    let mut paths: Vec<&Path> = by.iter().collect();
    for ((_, measure), formula) in measures.iter().zip(&part.formulas) {
        match formula {
            Some(formula) => paths.extend(&formula.paths),
            None => paths.extend(measure.path()),
        }
    }
    for segment in evaluator.shard.segments(&paths, docs)? {
        let docs = segment.docs.as_ref().unwrap_or(docs);
        let mut columns = segment.columns.into_iter();
        let fields = columns.by_ref().take(by.len()).map(Field::new);
        let mut fields = fields.collect::<Result<Vec<_>>>()?;
        let measured = measures.iter().zip(&filtered).zip(&part.formulas);
        let mut measured: Vec<_> = measured
            .map(|(((_, measure), only), formula)| Measured {
                what: match (formula, measure.path()) {
                    (Some(formula), _) => {
                        let columns = columns.by_ref().take(formula.paths.len());
                        What::Results(Computed::new(formula, columns))
                    }
                    (None, Some(_)) => What::Values(columns.next().flatten().map(Terms::new)),
                    (None, None) => What::Documents,
                },
                only: only.as_ref(),
            })
            .collect();
        add_segment(groups, &mut fields, &mut measured, docs, meter)?;
    }
    Ok(())
}

fn add_segment(
    groups: &mut Groups,
    fields: &mut [Field<'_>],
    measured: &mut [Measured<'_>],
    docs: &DocSet,
    meter: &mut Meter,
) -> Result<()> {
    let mut numbers = Numbers::new(fields);
    let (mut pairs, mut ordinals) = (Vec::new(), Ordinals::default());
    let mut batches = Batches::new(docs);
    while let Some(batch) = batches.next_batch() {
        for field in fields.iter_mut() {
            field.read(batch)?;
        }
        let mut measure = |pairs: &mut Vec<_>, groups: &mut Groups, meter: &mut Meter| {
            for (at, measured) in measured.iter_mut().enumerate() {
                measured.add(at, batch, pairs, &mut ordinals, groups, meter)?;
            }
            pairs.clear();
            Ok(())
        };
        for place in 0..batch.len() {
            each_code(fields, place, &mut |code| {
                if let Some(group) = numbers.number(code, fields, groups, meter)? {
                    pairs.push((place, group));
                }
                match pairs.len() >= PAIRS_MAX {
                    true => measure(&mut pairs, groups, meter),
                    false => Ok(()),
                }
            })?;
        }
        measure(&mut pairs, groups, meter)?;
    }
    Ok(())
}

/// A combination of ordinals, one for each field; [`Field::none`] for one that has no value.
type Code = SmallVec<[u64; 4]>;

/// A field that is grouped by.
struct Field<'c> {
    column: Option<Box<dyn Column + 'c>>,
    /// The ordinals that stand for null.
    nulls: Range<u64>,
    /// Of the batch. A document without a value has none.
    ordinals: Ordinals,
    starts: Vec<u32>,
}

impl<'c> Field<'c> {
    fn new(column: Option<Box<dyn Column + 'c>>) -> Result<Field<'c>> {
        let nulls = match &column {
            None => 0..0,
            Some(column) => {
                let above: Vec<u8> = term::NULL.iter().map(|byte| byte + 1).collect();
                column.ordinal_of(term::NULL)?..column.ordinal_of(&above)?
            }
        };
        Ok(Field {
            column,
            nulls,
            ordinals: Ordinals::default(),
            starts: Vec::new(),
        })
    }

    /// Stands for no value: more than any ordinal.
    fn none(&self) -> u64 {
        self.column
            .as_ref()
            .map_or(0, |column| column.ordinal_end())
    }

    fn read(&mut self, batch: &[u32]) -> Result<()> {
        match &self.column {
            Some(column) => column.ordinals(batch, &mut self.ordinals)?,
            None => {
                self.ordinals.clear();
                batch.iter().for_each(|_| self.ordinals.end_document());
            }
        }
        self.starts.clear();
        self.starts.push(0);
        self.starts.extend_from_slice(&self.ordinals.ends);
        Ok(())
    }

    fn of(&self, place: usize) -> &[u64] {
        let end = self.starts.get(place + 1).copied().unwrap_or_default() as usize;
        let start = self.starts.get(place).copied().unwrap_or_default() as usize;
        let all = self.ordinals.ordinals.get(start..end).unwrap_or_default();
        // Null is the least of all values.
        match all.split_first() {
            Some((first, others)) if self.nulls.contains(first) => others,
            _ => all,
        }
    }
}

/// Shows each combination of the ordinals that a document has.
fn each_code(
    fields: &[Field<'_>],
    place: usize,
    see: &mut dyn FnMut(&Code) -> Result<()>,
) -> Result<()> {
    // The place of each field's ordinal among the document's, counted up like digits.
    let mut digits: SmallVec<[usize; 4]> = SmallVec::from_elem(0, fields.len());
    let mut code = Code::new();
    loop {
        code.clear();
        code.extend(fields.iter().zip(&digits).map(|(field, digit)| {
            let ordinal = field.of(place).get(*digit);
            ordinal.copied().unwrap_or_else(|| field.none())
        }));
        see(&code)?;
        let mut is_done = true;
        for (digit, field) in digits.iter_mut().zip(fields).rev() {
            *digit += 1;
            if *digit < field.of(place).len() {
                is_done = false;
                break;
            }
            *digit = 0;
        }
        if is_done {
            return Ok(());
        }
    }
}

/// The numbers of groups by combinations of ordinals.
struct Numbers {
    /// By the combination as one number; empty if there are too many.
    array: Vec<u32>,
    map: HashMap<Code, u32>,
    last: Option<(Code, u32)>,
}

impl Numbers {
    fn new(fields: &[Field<'_>]) -> Numbers {
        let codes = fields.iter().try_fold(1_u64, |codes, field| {
            codes.checked_mul(field.none().saturating_add(1))
        });
        let codes = codes.filter(|codes| *codes <= ARRAY_CODES_MAX);
        Numbers {
            array: vec![NONE; codes.unwrap_or(0) as usize],
            map: HashMap::new(),
            last: None,
        }
    }

    /// The number of a combination's group; none if the group is of another slice.
    fn number(
        &mut self,
        code: &Code,
        fields: &[Field<'_>],
        groups: &mut Groups,
        meter: &mut Meter,
    ) -> Result<Option<u32>> {
        if self.array.is_empty() {
            if let Some((last, number)) = &self.last
                && last == code
            {
                return Ok(Some(*number));
            }
            if let Some(number) = self.map.get(code) {
                self.last = Some((code.clone(), *number));
                return Ok(Some(*number));
            }
            // Combinations of other slices take no memory.
            let number = groups.number_of(&key_of(code, fields)?, meter)?;
            if let Some(number) = number {
                meter.take(2 * size_of::<(Code, u32)>(), "grouping")?;
                self.map.insert(code.clone(), number);
            }
            return Ok(number);
        }
        let digits = fields.iter().zip(code);
        let place = digits.fold(0, |place, (field, ordinal)| {
            place * (field.none() + 1) + ordinal
        });
        let Some(number) = self.array.get_mut(place as usize) else {
            return groups.number_of(&key_of(code, fields)?, meter);
        };
        if *number == NONE {
            *number = groups
                .number_of(&key_of(code, fields)?, meter)?
                .unwrap_or(OTHER);
        }
        Ok((*number != OTHER).then_some(*number))
    }
}

/// The values of a combination.
fn key_of(code: &Code, fields: &[Field<'_>]) -> Result<GroupKey> {
    let (mut key, mut scratch) = (GroupKey::new(), Vec::new());
    for (field, ordinal) in fields.iter().zip(code) {
        match &field.column {
            Some(column) if *ordinal != field.none() => {
                scratch.clear();
                column.term(*ordinal, &mut scratch)?;
                key.extend_from_slice(&scratch);
            }
            _ => key.extend_from_slice(term::NULL),
        }
    }
    Ok(key)
}

/// What a measure counts with.
enum What<'c> {
    Documents,
    /// The values of a column; none if no document here has any.
    Values(Option<Terms<'c>>),
    /// The results of an expression.
    Results(Computed<'c>),
}

/// A measure of groups.
struct Measured<'c> {
    what: What<'c>,
    /// The documents that count; all if `None`.
    only: Option<&'c DocSet>,
}

impl Measured<'_> {
    /// Adds a batch: `pairs` are places of documents in it, and groups.
    fn add(
        &mut self,
        measure: usize,
        batch: &[u32],
        pairs: &[(usize, u32)],
        ordinals: &mut Ordinals,
        groups: &mut Groups,
        meter: &mut Meter,
    ) -> Result<()> {
        let only = self.only;
        let counts = |place: usize| {
            let doc = batch.get(place).copied();
            only.is_none_or(|only| doc.is_some_and(|doc| only.contains(doc)))
        };
        let counted = pairs.iter().filter(|(place, _)| counts(*place));
        match &mut self.what {
            What::Documents => {
                for (_, group) in counted {
                    if let Some(state) = groups.state(*group, measure) {
                        state.add_documents(1);
                    }
                }
            }
            What::Values(None) => {}
            What::Values(Some(values)) => {
                values.column().ordinals(batch, ordinals)?;
                for (place, group) in counted {
                    for ordinal in ordinals.of(*place) {
                        if let Some(state) = groups.state(*group, measure) {
                            state.add(values.term(*ordinal)?, 1, meter)?;
                        }
                    }
                }
            }
            What::Results(computed) => {
                computed.read(batch)?;
                for (place, group) in counted {
                    if let Some(state) = groups.state(*group, measure) {
                        state.add_document(&computed.results(*place)?, meter)?;
                    }
                }
            }
        }
        Ok(())
    }
}
