//! [`Run`]: one execution of a query, shard by shard.

use crate::aggregate_state::AggregateState;
use crate::computed::Computed;
use crate::evaluate::Evaluator;
use crate::explain::Trace;
use crate::facets::{self, FacetState};
use crate::first::{first_among, first_matches};
use crate::group_columns::add_docs;
use crate::meter::Meter;
use crate::page::Page;
use crate::plan::{Step, StepKind, plan};
use crate::prepared::Prepared;
use crate::shuffle;
use crate::sort::{Sorting, TopHits, best, is_outranked};
use crate::threshold::{self, Early};
use crate::timer::Timer;
use crate::top::Top;
use crate::tree::Node;
use crate::{Answer, Error, Explain, Hit, Options, Order, Path, Result, Shard, Shards};
use quire_index::DocSet;
use quire_model::ordered::Direction;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// If candidates are fewer than one in this number of shards, they are sorted one by one.
const FEW: u64 = 16;

/// Where a shard orders documents at once, this many are ordered: to find out which of them can be
/// among the first hits takes longer.
const ORDERED_MAX: u64 = 4096;

/// What a query needs of the documents of a shard that match.
pub(crate) enum Needed<'p, 'e> {
    /// Only their number.
    Count,
    /// Those that belong on the page.
    Page(&'p mut Page<'e>),
    /// Those that come first in the query's order.
    First,
    /// Those that come first in a random order.
    Shuffled,
    /// Only aggregates.
    Aggregates,
}

/// The plan for one shard, which may have matches.
pub(crate) struct Planned<'q> {
    pub(crate) place: u32,
    pub(crate) shard: &'q dyn Shard,
    /// How many documents the shard has.
    pub(crate) docs: u64,
    pub(crate) step: Step<'q>,
}

/// One execution of a query.
pub(crate) struct Run<'q> {
    pub(crate) prepared: &'q Prepared,
    shards: &'q dyn Shards,
    pub(crate) options: Options<'q>,
    timer: Timer<'q>,
    pub(crate) explain: Option<Box<Explain>>,
    pub(crate) meter: Meter,
    /// Documents that match.
    pub(crate) matched: u64,
    pub(crate) top: TopHits,
    /// There is one shard alone, so hits are not compared with those of others.
    is_alone: bool,
    pub(crate) gathered: Vec<AggregateState>,
    pub(crate) facets: FacetState,
    /// It was stopped, and what was seen until then is wanted.
    pub(crate) is_partial: bool,
}

impl<'q> Run<'q> {
    pub(crate) fn new(
        prepared: &'q Prepared,
        shards: &'q dyn Shards,
        options: &Options<'q>,
    ) -> Run<'q> {
        Run {
            prepared,
            shards,
            options: *options,
            timer: Timer(options.clock),
            explain: options.clock.map(|_| {
                Box::new(Explain {
                    shards: shards.count().into(),
                    filter: Trace::new(&prepared.root),
                    ..Explain::default()
                })
            }),
            meter: Meter::new(options.memory_bytes_max),
            matched: 0,
            top: Top::new(prepared.hits_max()),
            is_alone: false,
            gathered: prepared.gather(),
            facets: prepared.facet_state(),
            is_partial: false,
        }
    }

    /// One that executes on some of the shards, to be joined.
    pub(crate) fn part(&self, options: &Options<'q>) -> Run<'q> {
        Run::new(self.prepared, self.shards, options)
    }

    /// Hits in the order of shards and docids.
    pub(crate) fn in_place(
        &mut self,
        places: &[u32],
        each: &mut dyn FnMut(Hit) -> ControlFlow<()>,
    ) -> Result<()> {
        let query = &self.prepared.query;
        let mut page = Page {
            skip: query.skip,
            left: query.limit.unwrap_or(u64::MAX),
            each,
        };
        for (at, &place) in places.iter().enumerate() {
            if page.left == 0 {
                return match self.is_page_alone() {
                    true => Ok(()),
                    false => self.without_page(places.get(at..).unwrap_or_default()),
                };
            }
            let Some(planned) = self.plan(place)? else {
                continue;
            };
            let is_skipped = planned.step.estimate.at_most <= page.skip;
            let is_counted = is_skipped && !query.is_aggregated();
            let needed = match is_counted {
                true => Needed::Count,
                false => Needed::Page(&mut page),
            };
            let executed = self.execute_on(&planned, needed);
            let Some(matched) = self.unless_stopped(executed)? else {
                break;
            };
            if is_counted {
                page.skip = page.skip.saturating_sub(matched);
            }
        }
        Ok(())
    }

    /// Hits in the query's order.
    pub(crate) fn in_order(
        &mut self,
        places: Vec<u32>,
        each: &mut dyn FnMut(Hit) -> ControlFlow<()>,
    ) -> Result<()> {
        let query = &self.prepared.query;
        let Some(first) = query.order.first() else {
            return Ok(());
        };
        let waiting = match self.top.is_nothing() || places.len() < 2 {
            true => places,
            false => self.best_first(places, first)?,
        };
        self.is_alone = waiting.len() == 1;
        match self.is_page_alone() {
            true => self.page_of(&waiting, first)?,
            false => self.ordered(&waiting)?,
        }
        self.show_top(each);
        Ok(())
    }

    /// Hits in a random order.
    pub(crate) fn in_random_order(
        &mut self,
        places: &[u32],
        each: &mut dyn FnMut(Hit) -> ControlFlow<()>,
    ) -> Result<()> {
        self.ordered(places)?;
        self.show_top(each);
        Ok(())
    }

    /// Passes the first hits that were found on, without those that are skipped.
    fn show_top(&mut self, each: &mut dyn FnMut(Hit) -> ControlFlow<()>) {
        let top = std::mem::replace(&mut self.top, Top::new(0));
        let skip = usize::try_from(self.prepared.query.skip).unwrap_or(usize::MAX);
        for (_, hit) in top.into_sorted().into_iter().skip(skip) {
            if each(hit).is_break() {
                break;
            }
        }
    }

    /// The first hits, and nothing else: shards whose hits would come after them are skipped.
    fn page_of(&mut self, waiting: &[u32], first: &Order) -> Result<()> {
        for (executed, place) in waiting.iter().enumerate() {
            let Some(shard) = self.shards.shard(*place) else {
                continue;
            };
            if self.is_outranked(shard, first)? {
                if !first.is_by_terms() {
                    continue;
                }
                // So are all behind it, which have no better values: they need no plan.
                if let Some(explain) = &mut self.explain {
                    explain.outranked += (waiting.len() - executed) as u64;
                }
                break;
            }
            let mut planned = None;
            let mut is_early = !self.is_alone;
            if is_early && shard.orders_at_once(first) {
                let Some(plan) = self.plan(*place)? else {
                    continue;
                };
                is_early = plan.step.estimate.expected > ORDERED_MAX;
                planned = Some(plan);
            }
            let mut early = Early::All;
            if is_early {
                early = threshold::early(shard, first, &self.top)?;
                if matches!(&early, Early::Docs(docs) if docs.is_empty()) {
                    continue;
                }
            }
            if planned.is_none() {
                planned = self.plan(*place)?;
            }
            let Some(planned) = planned else {
                continue;
            };
            let executed = match early {
                Early::Docs(early) => self.execute_on_early(&planned, early).map(|()| 0),
                Early::All => self.execute_on(&planned, Needed::First),
            };
            if self.unless_stopped(executed)?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Whether all hits of a shard would come after the first ones.
    pub(crate) fn is_outranked(&self, shard: &dyn Shard, first: &Order) -> Result<bool> {
        Ok(self.top.is_nothing()
            || self.top.worst().is_some()
                && (first.is_by_terms() || first.is_by_terms_in(shard)?)
                && is_outranked(best(shard, first)?.as_deref(), first.direction, &self.top))
    }

    /// Places of shards, ordered by the shard's best value, the best first.
    fn best_first(&self, places: Vec<u32>, order: &Order) -> Result<Vec<u32>> {
        if places.len() as u64 * FEW >= self.shards.count().into()
            && let Some(best_first) = self.shards.best_first(order)?
        {
            let best_first = best_first.iter().copied();
            return Ok(match places.len() == best_first.len() {
                true => best_first.collect(),
                false => {
                    let is_candidate = |place: &u32| places.binary_search(place).is_ok();
                    best_first.filter(is_candidate).collect()
                }
            });
        }
        let mut waiting = Vec::with_capacity(places.len());
        for place in places {
            if let Some(shard) = self.shards.shard(place) {
                waiting.push((best(shard, order)?, place));
            }
        }
        waiting.sort_by(|(one, _), (other, _)| compare_best(one, other, order.direction));
        Ok(waiting.into_iter().map(|(_, place)| place).collect())
    }

    /// The plan for a shard; none if nothing in it can match.
    pub(crate) fn plan(&mut self, place: u32) -> Result<Option<Planned<'q>>> {
        let Some(shard) = self.shards.shard(place) else {
            return Ok(None);
        };
        let start = self.timer.now();
        let docs = shard.doc_count()?;
        let trace = self.explain.as_mut().map(|explain| &mut explain.filter);
        let step = plan(&self.prepared.root, 0, shard, docs, trace)?;
        let is_pruned = matches!(step.kind, StepKind::None);
        if let Some(explain) = &mut self.explain {
            explain.pruned += u64::from(is_pruned);
            explain.planning += self.timer.since(start);
        }
        Ok((!is_pruned).then_some(Planned {
            place,
            shard,
            docs,
            step,
        }))
    }

    /// What executing gave; `None` if it was stopped, and what was seen until then is wanted.
    pub(crate) fn unless_stopped(&mut self, executed: Result<u64>) -> Result<Option<u64>> {
        match executed {
            Err(Error::Stopped) if self.options.partial => {
                self.is_partial = true;
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    fn evaluator<'s>(&self, shard: &'s dyn Shard, docs: u64) -> Result<Evaluator<'s, 'q>> {
        self.options.check_stop()?;
        Ok(Evaluator {
            shard,
            docs,
            timer: self.timer,
            options: self.options,
        })
    }

    fn sorting(&self, is_alone: bool) -> Sorting<'q> {
        Sorting {
            orders: &self.prepared.query.order,
            hits_max: self.prepared.hits_max(),
            is_alone,
        }
    }

    /// Executes the plan on a shard, and returns how many documents match.
    pub(crate) fn execute_on(
        &mut self,
        planned: &Planned<'_>,
        needed: Needed<'_, '_>,
    ) -> Result<u64> {
        let Planned {
            place,
            shard,
            docs,
            ref step,
        } = *planned;
        let timer = self.timer;
        let evaluator = self.evaluator(shard, docs)?;
        let start = timer.now();
        if let Needed::Count = needed {
            let trace = self.explain.as_mut().map(|explain| &mut explain.filter);
            let count = evaluator.count(step, trace)?;
            self.matched += count;
            if let Some(explain) = &mut self.explain {
                explain.filtering += timer.since(start);
            }
            return Ok(count);
        }
        let set = self.matches(&evaluator, step, &needed)?;
        let filtered = timer.now();
        self.matched += set.len();
        match needed {
            Needed::Page(page) => page.show(place, &set),
            Needed::First if set.is_empty() => {}
            Needed::First => {
                let sorting = self.sorting(self.is_alone);
                let first = match sorting.orders.first().filter(|_| !self.is_page_alone()) {
                    Some(order) => first_among(&evaluator, order, sorting.hits_max, &set)?,
                    None => None,
                };
                let sorted = first.as_ref().unwrap_or(&set);
                sorting.shard(shard, place, sorted, &mut self.top, &mut self.meter)?;
            }
            Needed::Shuffled => {
                let seed = self.prepared.query.shuffle.unwrap_or_default();
                let (options, top) = (&self.options, &mut self.top);
                shuffle::offer_all(seed, place, &set, options, top, &mut self.meter)?;
            }
            Needed::Count | Needed::Aggregates => {}
        }
        let sorted = timer.now();
        self.aggregate(&evaluator, &set)?;
        self.facet(&evaluator, place, &set)?;
        if let Some(explain) = &mut self.explain {
            explain.filtering += filtered.saturating_sub(start);
            explain.ordering += sorted.saturating_sub(filtered);
            explain.aggregating += timer.since(sorted);
        }
        Ok(set.len())
    }

    /// Executes the plan on the documents of a shard that can still be among the first: those of
    /// `early`.
    fn execute_on_early(&mut self, planned: &Planned<'_>, mut early: DocSet) -> Result<()> {
        let Planned {
            place,
            shard,
            docs,
            ref step,
        } = *planned;
        let timer = self.timer;
        let evaluator = self.evaluator(shard, docs)?;
        let start = timer.now();
        let tested = early.len();
        let trace = self.explain.as_mut().map(|explain| &mut explain.filter);
        evaluator.retain(step, &mut early, trace)?;
        let filtered = timer.now();
        let sorting = self.sorting(false);
        if !early.is_empty() {
            sorting.shard(shard, place, &early, &mut self.top, &mut self.meter)?;
        }
        if let Some(explain) = &mut self.explain {
            explain.first += tested;
            explain.filtering += filtered.saturating_sub(start);
            explain.ordering += timer.since(filtered);
        }
        Ok(())
    }

    /// The documents that match, or only those that come first, if the query needs no others.
    fn matches(
        &mut self,
        evaluator: &Evaluator<'_, '_>,
        step: &Step<'_>,
        needed: &Needed<'_, '_>,
    ) -> Result<DocSet> {
        let (query, hits_max) = (&self.prepared.query, self.prepared.hits_max());
        let is_first_alone = matches!(needed, Needed::First) && self.is_page_alone();
        let mut trace = self.explain.as_mut().map(|explain| &mut explain.filter);
        if let Some(order) = query.order.first().filter(|_| is_first_alone) {
            let trace = trace.as_deref_mut();
            let first = first_matches(evaluator, step, order, hits_max, trace)?;
            if let Some((set, tested)) = first {
                if let Some(explain) = &mut self.explain {
                    explain.first += tested;
                }
                return Ok(set);
            }
        }
        evaluator.matches(step, trace)
    }

    /// Whether the query needs only its page, and no count or aggregate of all that match.
    fn is_page_alone(&self) -> bool {
        !self.prepared.query.count && !self.prepared.query.is_aggregated()
    }

    fn aggregate(&mut self, evaluator: &Evaluator<'_, '_>, set: &DocSet) -> Result<()> {
        let aggregates = self.prepared.query.aggregates.iter();
        let wanted = aggregates
            .zip(&self.prepared.among)
            .zip(&self.prepared.formulas)
            .zip(&self.prepared.groups);
        for (((((_, aggregate), among), formula), groups), gathered) in
            wanted.zip(&mut self.gathered)
        {
            let mut set = Cow::Borrowed(set);
            if let Some(node) = among {
                let step = plan(node, 0, evaluator.shard, evaluator.docs, None)?;
                evaluator.retain(&step, set.to_mut(), None)?;
            }
            let gathered = match (gathered, groups) {
                (AggregateState::Measure(gathered), _) => gathered,
                (AggregateState::Groups(groups), Some(part)) => {
                    add_docs(groups, part, evaluator, &set, &mut self.meter)?;
                    continue;
                }
                (AggregateState::Groups(_), None) => continue,
            };
            if let Some(formula) = formula {
                let paths: Vec<&Path> = formula.paths.iter().collect();
                for segment in evaluator.shard.segments(&paths, &set)? {
                    self.options.check_stop()?;
                    let docs = segment.docs.as_ref().unwrap_or(&set);
                    let mut computed = Computed::new(formula, segment.columns.into_iter());
                    let meter = &mut self.meter;
                    computed.each(docs, &mut |results| gathered.add_document(&results, meter))?;
                }
                continue;
            }
            let Some(path) = aggregate.what.path() else {
                gathered.add_documents(set.len());
                continue;
            };
            for segment in evaluator.shard.segments(&[path], &set)? {
                self.options.check_stop()?;
                let docs = segment.docs.as_ref().unwrap_or(&set);
                for column in segment.columns.iter().flatten() {
                    gathered.add_column(column.as_ref(), docs, &mut self.meter)?;
                }
            }
        }
        Ok(())
    }

    /// Adds a shard's documents to the facets.
    fn facet(&mut self, evaluator: &Evaluator<'_, '_>, place: u32, set: &DocSet) -> Result<()> {
        let plan = &self.prepared.facets;
        if plan.roots.is_empty() {
            return Ok(());
        }
        let mut filters = Vec::with_capacity(plan.filters.len());
        for node in &plan.filters {
            let step = plan_of(node, evaluator)?;
            let mut matching = set.clone();
            evaluator.retain(&step, &mut matching, None)?;
            filters.push(matching);
        }
        let paths: Vec<&Path> = plan.fields.iter().collect();
        for segment in evaluator.shard.segments(&paths, set)? {
            self.options.check_stop()?;
            let segment = facets::Segment {
                columns: segment.columns,
                docs: segment.docs.as_ref().unwrap_or(set),
                filters: &filters,
                hit: &|doc| Some(Hit { shard: place, doc }),
            };
            self.facets.add(plan, segment, &mut self.meter)?;
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Answer {
        Answer {
            explain: self.explain,
            is_partial: self.is_partial,
            ..self
                .prepared
                .concluded(self.matched, self.gathered, self.facets)
        }
    }
}

fn plan_of<'n>(node: &'n Node, evaluator: &Evaluator<'_, '_>) -> Result<Step<'n>> {
    plan(node, 0, evaluator.shard, evaluator.docs, None)
}

/// Puts shards with better values first, those without any last.
fn compare_best(
    one: &Option<Cow<'_, [u8]>>,
    other: &Option<Cow<'_, [u8]>>,
    direction: Direction,
) -> Ordering {
    match (one, other, direction) {
        (Some(one), Some(other), Direction::Ascending) => one.cmp(other),
        (Some(one), Some(other), Direction::Descending) => other.cmp(one),
        (one, other, _) => other.is_some().cmp(&one.is_some()),
    }
}
