//! Answering a query from shards: which shards, one by one or merged.
//!
//! A [`Run`] plans the query for each shard by the shard's statistics, executes it once for
//! everything that the query needs, and adds the result to what the shards before gave. It skips
//! shards that statistics rule out. An ordered query executes on the shards with the best values
//! first, so that the others can be skipped.

use crate::meter::Meter;
use crate::prepared::Prepared;
use crate::run::Run;
use crate::shards::candidates;
use crate::timer::Timer;
use crate::tree::Node;
use crate::{Answer, Error, Found, Hit, Leaf, Options, Result, Shard, Shards, UnknownFields};
use std::ops::ControlFlow;

impl Prepared {
    /// Answers the query from shards. Hits without another order come in the order of the shards.
    ///
    /// # Errors
    /// `UnknownField` by option; `Unsupported` if a shard can't filter or sort by a field;
    /// `TooLarge` if the answer would take more memory than it may; `Shard` if one can't be read.
    pub fn answer(&self, shards: &[&dyn Shard], options: &Options<'_>) -> Result<Answer> {
        self.answer_from(&shards, options)
    }

    /// As [`answer`](Prepared::answer), from shards of which more is known.
    ///
    /// # Errors
    /// As [`answer`](Prepared::answer); but shards that are skipped can't fail.
    pub fn answer_from(&self, shards: &dyn Shards, options: &Options<'_>) -> Result<Answer> {
        let mut hits = Vec::new();
        let mut meter = Meter::new(options.memory_bytes_max);
        let mut full = Ok(());
        let mut answer = self.for_each_from(shards, options, &mut |hit| {
            full = meter.take(size_of::<Hit>(), "returning all hits at once");
            hits.push(hit);
            match full {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        full?;
        answer.hits = hits;
        Ok(answer)
    }

    /// The answer of a query that counts by one predicate and needs nothing else, if each shard
    /// [counts](Shard::count) at once: there is nothing to plan.
    ///
    /// # Errors
    /// As [`answer`](Prepared::answer).
    pub fn counted_at_once(
        &self,
        shards: &[&dyn Shard],
        options: &Options<'_>,
    ) -> Result<Option<Answer>> {
        let Some(leaf) = self.only_counted(options) else {
            return Ok(None);
        };
        let mut all = 0;
        for shard in shards {
            options.check_stop()?;
            match shard.count(&[leaf])? {
                Some(count) => all += count,
                None => return Ok(None),
            }
        }
        Ok(Some(answer_of_count(all)))
    }

    /// Passes each hit to a function, in order, until it breaks; the answer has all but the hits.
    /// Counts and aggregates are complete even then. No memory is allocated for a hit, and without
    /// an order no hit is kept.
    ///
    /// # Errors
    /// As [`answer`](Prepared::answer).
    pub fn for_each(
        &self,
        shards: &[&dyn Shard],
        options: &Options<'_>,
        each: &mut dyn FnMut(Hit) -> ControlFlow<()>,
    ) -> Result<Answer> {
        self.for_each_from(&shards, options, each)
    }

    /// As [`for_each`](Prepared::for_each), from shards of which more is known.
    ///
    /// # Errors
    /// As [`answer`](Prepared::answer); but shards that are skipped can't fail.
    pub fn for_each_from(
        &self,
        shards: &dyn Shards,
        options: &Options<'_>,
        each: &mut dyn FnMut(Hit) -> ControlFlow<()>,
    ) -> Result<Answer> {
        if options.unknown_fields == UnknownFields::Refuse {
            self.refuse_unknown(shards)?;
        }
        let (mut passed, mut is_done) = (0, false);
        let executed = self.execute_once(shards, options, &mut |hit| {
            passed += 1;
            let flow = each(hit);
            is_done = flow.is_break();
            flow
        });
        if !matches!(executed, Err(Error::TooLarge { .. })) || !self.has_slices() {
            return executed;
        }
        // The hits that were passed come first again.
        let mut left_out = passed;
        let mut answer = self
            .without_slices()
            .execute_once(shards, options, &mut |hit| {
                if is_done {
                    return ControlFlow::Break(());
                }
                if left_out > 0 {
                    left_out -= 1;
                    return ControlFlow::Continue(());
                }
                each(hit)
            })?;
        self.add_slices(&mut answer, options, &mut |pass, options| {
            pass.execute_once(shards, options, &mut |_| ControlFlow::Break(()))
        })?;
        Ok(answer)
    }

    /// Executes on the shards that may have matches, or on all of them merged.
    fn execute_once(
        &self,
        shards: &dyn Shards,
        options: &Options<'_>,
        each: &mut dyn FnMut(Hit) -> ControlFlow<()>,
    ) -> Result<Answer> {
        if self.pass_top_of_all(shards, options, each)? {
            return Ok(Answer::default());
        }
        let timer = Timer(options.clock);
        let start = timer.now();
        let places = candidates(&self.root, shards)?;
        let count = places
            .as_ref()
            .map_or(shards.count().into(), |places| places.len() as u64);
        let mut choosing = timer.since(start);
        let mut answer = None;
        if count >= MANY && !self.needs_documents() {
            answer = shards.with_merged(self, &mut |merged| {
                choosing = timer.since(start);
                let shard: &dyn Shard = merged.shard();
                let mut each = |hit: Hit| each(merged.hit(hit.doc));
                let mut answer = self.execute(&&[shard][..], None, options, &mut each)?;
                answer.each_faceted_hit(&mut |hit| *hit = merged.hit(hit.doc));
                Ok(answer)
            })?;
        }
        let is_merged = answer.is_some();
        let mut answer = match answer {
            Some(answer) => answer,
            None => self.execute(shards, places.as_deref(), options, each)?,
        };
        if let Some(explain) = &mut answer.explain {
            explain.is_merged = is_merged;
            explain.shards = shards.count().into();
            if explain.is_merged && explain.pruned > 0 {
                explain.pruned = explain.shards;
            }
            explain.planning += choosing;
        }
        Ok(answer)
    }

    /// Executes on the shards at `places`, or on all.
    fn execute(
        &self,
        shards: &dyn Shards,
        places: Option<&[u32]>,
        options: &Options<'_>,
        each: &mut dyn FnMut(Hit) -> ControlFlow<()>,
    ) -> Result<Answer> {
        if let Some(leaf) = self.only_counted(options) {
            return count_leaf(leaf, shards, places, options);
        }
        let only = match places {
            Some([place]) => Some(*place),
            None if shards.count() == 1 => Some(0),
            _ => None,
        };
        if let Some(place) = only
            && self.pass_top(shards, place, options, each)?
        {
            return Ok(Answer::default());
        }
        let places: Vec<_> = match places {
            Some(places) => places.to_vec(),
            None => (0..shards.count()).collect(),
        };
        assert!(
            places.last().is_none_or(|last| *last < shards.count()),
            "a place is below the number of shards"
        );
        let mut run = Run::new(self, shards, options);
        if let Some(explain) = &mut run.explain {
            explain.pruned = u64::from(shards.count()).saturating_sub(places.len() as u64);
            for shard in each_shard(shards) {
                explain.documents += shard.doc_count()?;
            }
        }
        match (self.query.shuffle, self.query.order.is_empty()) {
            (Some(_), _) => run.in_random_order(&places, each)?,
            (None, true) => run.in_place(&places, each)?,
            (None, false) => run.in_order(places, each)?,
        }
        Ok(run.finish())
    }

    /// The only predicate of a query that counts the documents which fulfil it, and nothing else:
    /// there is nothing to plan.
    fn only_counted(&self, options: &Options<'_>) -> Option<&Leaf> {
        let query = &self.query;
        let is_counted = query.count && query.limit == Some(0) && !query.is_aggregated();
        match &self.root {
            Node::Leaf(leaf)
                if is_counted
                    && options.clock.is_none()
                    && options.access.is_none()
                    && !options.partial =>
            {
                Some(leaf)
            }
            _ => None,
        }
    }

    /// Whether it needs the first hits in one order, at least one, and nothing else, and its
    /// execution is not watched. A query that needs none does not look at what it is about.
    fn is_plain_page(&self, options: &Options<'_>) -> bool {
        let query = &self.query;
        let is_page_alone = !query.count && !query.is_aggregated() && query.shuffle.is_none();
        let is_plain = options.clock.is_none() && options.access.is_none() && !options.partial;
        is_page_alone && is_plain && query.order.len() == 1 && self.hits_max() > 0
    }

    /// Passes the first hits on, if the query needs nothing else and the shards have a quick way to
    /// them; else false.
    fn pass_top_of_all(
        &self,
        shards: &dyn Shards,
        options: &Options<'_>,
        each: &mut dyn FnMut(Hit) -> ControlFlow<()>,
    ) -> Result<bool> {
        let ([order], true) = (&*self.query.order, self.is_plain_page(options)) else {
            return Ok(false);
        };
        let (Some(leaves), true) = (self.root.leaves(), order.is_by_all_terms()) else {
            return Ok(false);
        };
        options.check_stop()?;
        let mut skip = self.query.skip;
        shards.top(&leaves, order, self.hits_max(), &mut |hit| match skip {
            0 => each(hit),
            _ => {
                skip -= 1;
                ControlFlow::Continue(())
            }
        })
    }

    /// Passes the first hits of the only shard on, if the query needs nothing else and the shard
    /// has a quick way to them; else false.
    fn pass_top(
        &self,
        shards: &dyn Shards,
        place: u32,
        options: &Options<'_>,
        each: &mut dyn FnMut(Hit) -> ControlFlow<()>,
    ) -> Result<bool> {
        let query = &self.query;
        let ([order], Some(leaves), Some(shard)) =
            (&*query.order, self.root.leaves(), shards.shard(place))
        else {
            return Ok(false);
        };
        if !self.is_plain_page(options) || !order.is_by_terms_in(shard)? {
            return Ok(false);
        }
        options.check_stop()?;
        let Some(docs) = shard.top(&leaves, order, self.hits_max())? else {
            return Ok(false);
        };
        let skip = usize::try_from(query.skip).unwrap_or(usize::MAX);
        for doc in docs.into_iter().skip(skip) {
            if each(Hit { shard: place, doc }).is_break() {
                break;
            }
        }
        Ok(true)
    }

    fn refuse_unknown(&self, shards: &dyn Shards) -> Result<()> {
        let mut paths = Vec::new();
        self.each_path(&mut |path| paths.push(path));
        'paths: for path in paths {
            for shard in each_shard(shards) {
                if shard.field(path)?.is_some() {
                    continue 'paths;
                }
            }
            let path = path.to_string();
            return Err(Error::UnknownField { path });
        }
        Ok(())
    }
}

/// How many documents of the shards at `places`, or of all, fulfil one predicate.
fn count_leaf(
    leaf: &Leaf,
    shards: &dyn Shards,
    places: Option<&[u32]>,
    options: &Options<'_>,
) -> Result<Answer> {
    let mut all = 0;
    let mut add = |place| {
        options.check_stop()?;
        if let Some(shard) = shards.shard(place) {
            all += match shard.count(&[leaf])? {
                Some(count) => count,
                None => shard.matches(leaf, Found::default())?.len(),
            };
        }
        Ok(())
    };
    match places {
        Some(places) => places.iter().copied().try_for_each(&mut add)?,
        None => (0..shards.count()).try_for_each(&mut add)?,
    }
    Ok(answer_of_count(all))
}

fn answer_of_count(all: u64) -> Answer {
    Answer {
        count: Some(all),
        ..Answer::default()
    }
}

fn each_shard(shards: &dyn Shards) -> impl Iterator<Item = &dyn Shard> {
    (0..shards.count()).filter_map(|place| shards.shard(place))
}

/// From this number of shards on, the query executes on all of them as one, if they can be merged.
/// Fewer are fast one by one.
const MANY: u64 = 8;
