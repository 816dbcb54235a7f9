//! [`Scan`]: answering a query from documents, one after another, without any index.
//!
//! A scan gathers what shards give ([`Prepared::answer`]), so the answer is the same. It keeps no
//! document: the page of an ordered query is a list of docids, by which the caller reads the
//! documents again.

use crate::aggregate_state::AggregateState;
use crate::explain::{How, Trace};
use crate::facets::{Documents, FacetState};
use crate::formula::Formula;
use crate::groups::Groups;
use crate::meter::Meter;
use crate::prepared::{GroupsPart, Prepared};
use crate::shuffle;
use crate::sort::{SortKey, TopHits, offer, push_value};
use crate::timer::Timer;
use crate::top::Top;
use crate::values::{Values, has_value, metered_values};
use crate::{Access, Answer, Error, Explain, Hit, Options, Path, Result, UnknownFields};
use quire_model::{Document, ObjectRef};
use std::collections::BTreeSet;
use std::time::Duration;

/// One execution of a query on documents: see [`Prepared::scan`].
#[derive(Debug)]
pub struct Scan<'q> {
    prepared: &'q Prepared,
    timer: Timer<'q>,
    start: Duration,
    meter: Meter,
    seen: u64,
    matched: u64,
    /// Hits that are still skipped, and still needed, of a query without an order.
    skip: u64,
    left: u64,
    top: TopHits,
    gathered: Vec<AggregateState>,
    facets: FacetState,
    /// Those that are not in the facets yet.
    documents: Documents,
    /// Fields that must be there and that no document had so far.
    missing: Vec<&'q Path>,
    scratch: Vec<u8>,
}

impl Prepared {
    /// Begins a scan. The caller then passes each document to [`Scan::see`] once.
    ///
    /// ```
    /// use quire_model::Document;
    /// use quire_query::{Hit, Options, field, find};
    ///
    /// let dear = find(field("price").gte(10)).order_by(field("price").descending());
    /// let dear = dear.with_count().prepare()?;
    /// let mut scan = dear.scan(&Options::default());
    /// let cars = [r#"{"price":12}"#, r#"{"price":7}"#, r#"{"price":30}"#];
    /// for (doc, json) in (0..).zip(cars) {
    ///     scan.see(Hit { shard: 0, doc }, &Document::from_json(json.as_bytes())?)?;
    /// }
    /// let answer = scan.finish()?;
    /// assert_eq!(answer.count, Some(2));
    /// assert_eq!(answer.hits, [Hit { shard: 0, doc: 2 }, Hit { shard: 0, doc: 0 }]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn scan<'q>(&'q self, options: &Options<'q>) -> Scan<'q> {
        let query = &self.query;
        let (skip, left, first) = match query.is_ordered() {
            true => (0, 0, self.hits_max()),
            false => (query.skip, query.limit.unwrap_or(u64::MAX), 0),
        };
        let mut missing = BTreeSet::new();
        if options.unknown_fields == UnknownFields::Refuse {
            self.each_path(&mut |path| {
                missing.insert(path);
            });
        }
        let timer = Timer(options.clock);
        Scan {
            prepared: self,
            timer,
            start: timer.now(),
            meter: Meter::new(options.memory_bytes_max),
            seen: 0,
            matched: 0,
            skip,
            left,
            top: Top::new(first),
            gathered: self.gather(),
            facets: self.facet_state(),
            documents: Documents::default(),
            missing: missing.into_iter().collect(),
            scratch: Vec::new(),
        }
    }
}

impl Prepared {
    /// Whether the query has hits, and no order: they come in the order of the documents.
    #[must_use]
    pub fn is_paged_in_place(&self) -> bool {
        !self.query.is_ordered() && self.query.limit != Some(0)
    }
}

impl Scan<'_> {
    /// Takes a document in. True if it is a hit on the page of a query without an order, whose hits
    /// come in the order of these calls.
    ///
    /// # Errors
    /// `TooLarge` if the query would hold more memory than it may.
    pub fn see(&mut self, hit: Hit, document: &Document) -> Result<bool> {
        let root = document.root();
        self.seen += 1;
        self.missing.retain(|path| !has_value(path, root));
        if !self.prepared.root.accepts(root, &mut self.scratch) {
            return Ok(false);
        }
        self.matched += 1;
        self.aggregate(root)?;
        self.facet(hit, root)?;
        if !self.top.is_nothing() {
            let key = self.sort_key(hit, root);
            offer(&mut self.top, key, hit, &mut self.meter)?;
        }
        let is_hit = self.skip == 0 && self.left > 0;
        self.left -= u64::from(is_hit);
        self.skip = self.skip.saturating_sub(1);
        Ok(is_hit)
    }

    /// Whether the answer is complete: no further document would change it.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let is_counted = self.prepared.query.count || self.prepared.query.is_aggregated();
        self.left == 0 && self.top.is_nothing() && !is_counted && self.missing.is_empty()
    }

    /// Adds what another scan of the same query saw: of other documents, and not of a query
    /// [paged in place](Prepared::is_paged_in_place), whose hits depend on what came before.
    ///
    /// # Errors
    /// `TooLarge` if the query would hold more memory than it may.
    pub fn join(&mut self, mut other: Scan<'_>) -> Result<()> {
        let plan = &self.prepared.facets;
        other
            .documents
            .flush(plan, &mut other.facets, &mut other.meter)?;
        self.seen += other.seen;
        self.matched += other.matched;
        self.missing.retain(|path| other.missing.contains(path));
        for (key, hit) in other.top.into_sorted() {
            offer(&mut self.top, key, hit, &mut self.meter)?;
        }
        for (all, gathered) in self.gathered.iter_mut().zip(other.gathered) {
            all.join(gathered, &mut self.meter)?;
        }
        self.facets.join(plan, other.facets, &mut self.meter)
    }

    /// The answer. It has the hits of an ordered query; [`see`](Scan::see) has returned true for
    /// those of a query without an order.
    ///
    /// # Errors
    /// `UnknownField` by option: no document had a field of the query.
    pub fn finish(mut self) -> Result<Answer> {
        if let Some(path) = self.missing.first() {
            let path = path.to_string();
            return Err(Error::UnknownField { path });
        }
        let plan = &self.prepared.facets;
        self.documents
            .flush(plan, &mut self.facets, &mut self.meter)?;
        let query = &self.prepared.query;
        let skip = usize::try_from(query.skip).unwrap_or(usize::MAX);
        let first = self.top.into_sorted().into_iter();
        let time = self.timer.since(self.start);
        let explain = self.timer.0.map(|_| {
            let mut filter = Trace {
                what: "every document read".into(),
                at_most: self.seen,
                accesses: [(Access::Scan, 1)].into(),
                ..Trace::default()
            };
            filter.done(How::Tested, self.matched, time);
            Box::new(Explain {
                shards: 1,
                documents: self.seen,
                filtering: time,
                filter,
                ..Explain::default()
            })
        });
        Ok(Answer {
            hits: first.skip(skip).map(|(_, hit)| hit).collect(),
            explain,
            ..self
                .prepared
                .concluded(self.matched, self.gathered, self.facets)
        })
    }

    fn aggregate(&mut self, root: ObjectRef<'_>) -> Result<()> {
        let aggregates = self.prepared.query.aggregates.iter();
        let wanted = aggregates
            .zip(&self.prepared.among)
            .zip(&self.prepared.formulas)
            .zip(&self.prepared.groups);
        for (((((_, aggregate), among), formula), groups), state) in wanted.zip(&mut self.gathered)
        {
            let is_among = among
                .as_ref()
                .is_none_or(|node| node.accepts(root, &mut self.scratch));
            match state {
                _ if !is_among => {}
                AggregateState::Measure(gathered) => {
                    let path = aggregate.what.path();
                    let (mut taken, meter) = (0, &mut self.meter);
                    let document = (root, &mut self.scratch);
                    let values = measured_values(formula, path, document, meter, &mut taken)?;
                    gathered.add_documents(1);
                    gathered.add_document(&values, meter)?;
                    meter.give(taken);
                }
                AggregateState::Groups(state) => {
                    if let Some(part) = groups {
                        let scratch = &mut self.scratch;
                        add_to_groups(state, part, root, scratch, &mut self.meter)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn facet(&mut self, hit: Hit, root: ObjectRef<'_>) -> Result<()> {
        let plan = &self.prepared.facets;
        if plan.roots.is_empty() {
            return Ok(());
        }
        let (state, scratch) = (&mut self.facets, &mut self.scratch);
        self.documents
            .see(plan, state, (hit, root), scratch, &mut self.meter)
    }

    fn sort_key(&mut self, hit: Hit, root: ObjectRef<'_>) -> SortKey {
        if let Some(seed) = self.prepared.query.shuffle {
            return shuffle::key(seed, hit);
        }
        let mut key = SortKey::new();
        for order in &self.prepared.query.order {
            let value = order.value_in(root, &mut self.scratch);
            push_value(&mut key, value.as_ref(), order);
        }
        key
    }
}

/// Adds a document to groups.
fn add_to_groups(
    groups: &mut Groups,
    part: &GroupsPart,
    root: ObjectRef<'_>,
    scratch: &mut Vec<u8>,
    meter: &mut Meter,
) -> Result<()> {
    let mut taken = 0;
    let by = groups.plan.by.iter();
    let by = by.map(|path| metered_values(path, root, scratch, meter, &mut taken));
    let by = by.collect::<Result<Vec<_>>>()?;
    let mut measured = Vec::with_capacity(groups.plan.measures.len());
    let measures = groups.plan.measures.iter();
    for (((_, measure), node), formula) in measures.zip(&part.among).zip(&part.formulas) {
        let counts = node.as_ref().is_none_or(|node| node.accepts(root, scratch));
        let document = (root, &mut *scratch);
        let values =
            counts.then(|| measured_values(formula, measure.path(), document, meter, &mut taken));
        measured.push(values.transpose()?);
    }
    groups.add_document(&by, &measured, meter)?;
    meter.give(taken);
    Ok(())
}

/// What a document counts with in a measure; nothing where it counts itself. What it takes of the
/// memory is added to `taken`.
fn measured_values(
    formula: &Option<Formula>,
    path: Option<&Path>,
    (root, scratch): (ObjectRef<'_>, &mut Vec<u8>),
    meter: &mut Meter,
    taken: &mut usize,
) -> Result<Values> {
    match (formula, path) {
        (Some(formula), _) => formula.of_document(root, scratch, meter, taken),
        (_, Some(path)) => metered_values(path, root, scratch, meter, taken),
        (_, None) => Ok(Values::new()),
    }
}
