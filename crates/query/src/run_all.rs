//! Executing a query on all shards that may have matches, as its count or its aggregates need.
//!
//! Where that is much work, threads share the shards. Each has a state of its own; afterwards the
//! states are joined.
//!
//! # Invariants
//! 1. The answer does not depend on whether shards are shared, nor on who executes which.
//! 2. All states together hold no more memory than a query may. A query that shares its shards has
//!    less room, as a value may be in several states: if that does not do, it executes on one shard
//!    after the other.

use crate::run::{Needed, Planned, Run};
use crate::sort::offer;
use crate::{Error, Options, Result, Workers};

/// What it costs to add a document to one aggregate, or to compare it with the first hits, in
/// nanoseconds, about.
const ADD_NANOS: u64 = 4;

/// What is needed of shards, beside counts and aggregates.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Page {
    /// Nothing.
    None,
    /// The first hits in the query's order.
    First,
}

impl<'q> Run<'q> {
    /// The shards behind those that filled the page.
    pub(crate) fn without_page(&mut self, places: &[u32]) -> Result<()> {
        self.all(places, Page::None)
    }

    /// The first hits in order, which need all that match: for a count or aggregates too, or as the
    /// order is random.
    pub(crate) fn ordered(&mut self, places: &[u32]) -> Result<()> {
        let page = match self.top.is_nothing() {
            true => Page::None,
            false => Page::First,
        };
        self.all(places, page)
    }

    fn all(&mut self, places: &[u32], page: Page) -> Result<()> {
        let mut planned = Vec::with_capacity(places.len());
        for place in places {
            planned.extend(self.plan(*place)?);
        }
        if let Some(workers) = self.options.workers
            && planned.len() > 1
            && workers.are_worth(self.nanos(&planned, page))
            && self.share(&planned, page, workers)?
        {
            return Ok(());
        }
        self.one_by_one(planned.iter(), page)
    }

    fn one_by_one<'p>(
        &mut self,
        planned: impl Iterator<Item = &'p Planned<'q>>,
        page: Page,
    ) -> Result<()>
    where
        'q: 'p,
    {
        let query = &self.prepared.query;
        for planned in planned {
            let mut is_first = page == Page::First;
            if let Some(order) = query.order.first().filter(|_| is_first)
                && self.is_outranked(planned.shard, order)?
            {
                is_first = false;
                if let Some(explain) = &mut self.explain {
                    explain.outranked += 1;
                }
            }
            let needed = match (is_first, query.shuffle, query.is_aggregated()) {
                (true, Some(_), _) => Needed::Shuffled,
                (true, None, _) => Needed::First,
                (false, _, true) => Needed::Aggregates,
                (false, _, false) => Needed::Count,
            };
            let executed = self.execute_on(planned, needed);
            if self.unless_stopped(executed)?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// What executing on all these shards takes, in nanoseconds, about.
    fn nanos(&self, planned: &[Planned<'_>], page: Page) -> u64 {
        let query = &self.prepared.query;
        let parts = query.aggregates.len() + query.facets.len() + usize::from(page == Page::First);
        let of_document = ADD_NANOS * parts as u64;
        let nanos = planned.iter().map(|planned| {
            let of_documents = planned.step.estimate.expected.saturating_mul(of_document);
            planned.step.nanos.saturating_add(of_documents)
        });
        nanos.fold(0, u64::saturating_add)
    }

    /// False if the states together would take more memory than they may: nothing has changed then.
    fn share(&mut self, planned: &[Planned<'q>], page: Page, workers: Workers<'q>) -> Result<bool> {
        let options = Options {
            memory_bytes_max: workers.memory_each(planned.len(), self.meter.left()),
            ..self.options
        };
        let begun: &Run<'q> = self;
        let done = workers.share(planned.len(), &|items| {
            let mut part = begun.part(&options);
            let planned = items.filter_map(|item| planned.get(item));
            part.one_by_one(planned, page).map(|()| part)
        });
        let done: Result<Vec<Run<'q>>> = done.into_iter().collect();
        match done {
            Err(Error::TooLarge { .. }) => Ok(false),
            Err(error) => Err(error),
            Ok(parts) => {
                for part in parts {
                    self.join(part)?;
                }
                Ok(true)
            }
        }
    }

    fn join(&mut self, part: Run<'q>) -> Result<()> {
        self.matched += part.matched;
        self.is_partial |= part.is_partial;
        if let (Some(all), Some(explain)) = (&mut self.explain, part.explain) {
            all.join(&explain);
        }
        for (key, hit) in part.top.into_sorted() {
            offer(&mut self.top, key, hit, &mut self.meter)?;
        }
        for (all, gathered) in self.gathered.iter_mut().zip(part.gathered) {
            all.join(gathered, &mut self.meter)?;
        }
        let plan = &self.prepared.facets;
        self.facets.join(plan, part.facets, &mut self.meter)
    }
}
