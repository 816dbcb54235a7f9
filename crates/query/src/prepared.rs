//! [`Prepared`]: a query that was checked. It can be executed any number of times, on any number
//! of shards.

use crate::aggregate::Gathered;
use crate::aggregate_state::AggregateState;
use crate::facets::{FacetPlan, FacetState, Faceted};
use crate::formula::Formula;
use crate::groups::{GroupPlan, Groups};
use crate::slice::Slice;
use crate::tree::{Node, TreeBuilder};
use crate::{
    Aggregate, Answer, Error, Filter, GROUP_FIELDS_MAX, Grouping, Leaf, Measure, Path, Query,
    Result, Test,
};
use quire_model::Document;
use std::ops::{Deref, DerefMut};

/// How many orders a query may have.
const ORDERS_MAX: usize = 16;

/// How many aggregates a query may have.
const AGGREGATES_MAX: usize = 256;

/// How many measures a group may have.
const GROUP_MEASURES_MAX: usize = 256;

/// Of a list some values stand for all; of a range its begin, and both ends of the field.
const LIST_LOOKUPS_MAX: u64 = 8;
const RANGE_LOOKUPS: u64 = 3;

/// A query that was checked, its filters simplified: see [`Query::prepare`]. It is one pointer, as
/// it is moved from where it is made to where it is executed.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared(Box<Checked>);

/// What a [`Prepared`] query is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// Without its filters.
    pub(crate) query: Query,
    pub(crate) root: Node,
    /// The filter of each aggregate, if it has one.
    pub(crate) among: Vec<Option<Node>>,
    /// The formula of each aggregate, if it has one.
    pub(crate) formulas: Vec<Option<Formula>>,
    /// The groups of each aggregate, if it makes groups.
    pub(crate) groups: Vec<Option<GroupsPart>>,
    pub(crate) facets: FacetPlan,
    /// The values and groups that its aggregates are about.
    pub(crate) slice: Slice,
}

/// The groups of an aggregate.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupsPart {
    pub(crate) plan: GroupPlan,
    /// The filter of each measure, if it has one.
    pub(crate) among: Vec<Option<Node>>,
    /// The formula of each measure, if it has one.
    pub(crate) formulas: Vec<Option<Formula>>,
}

/// What a query needs a field for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Leaves about it.
    Filter,
    /// Its [`Column`](crate::Column), to sort by or to aggregate.
    Column,
}

impl Query {
    /// Checks the query and makes it ready to be executed any number of times.
    ///
    /// # Errors
    /// `Invalid` if it makes no sense, or is larger than a query may be.
    pub fn prepare(mut self) -> Result<Prepared> {
        if self.order.len() > ORDERS_MAX {
            let what = format!("a query has more than {ORDERS_MAX} orders");
            return Err(Error::Invalid(what));
        }
        if self.shuffle.is_some() && !self.order.is_empty() {
            let what = "a random order has no order of fields beside it".to_owned();
            return Err(Error::Invalid(what));
        }
        if self.aggregates.len() > AGGREGATES_MAX {
            let what = format!("a query has more than {AGGREGATES_MAX} aggregates");
            return Err(Error::Invalid(what));
        }
        self.order.iter().try_for_each(|order| order.path.check())?;
        let fields = self.fields.iter().flatten();
        fields.into_iter().try_for_each(|path| path.check())?;
        let mut builder = TreeBuilder::default();
        let filter = std::mem::replace(&mut self.filter, Filter::All);
        let root = builder.add(filter)?;
        let mut among = Vec::with_capacity(self.aggregates.len());
        let mut groups = Vec::with_capacity(self.aggregates.len());
        let mut formulas = Vec::with_capacity(self.aggregates.len());
        for (_, Aggregate { what, filter }) in &mut self.aggregates {
            formulas.push(formula(what)?);
            if let Measure::Histogram { interval, .. } = what
                && !(interval.is_finite() && *interval > 0.0)
            {
                let what = format!("the interval of a histogram is {interval}, not above 0");
                return Err(Error::Invalid(what));
            }
            let filter = filter.take();
            among.push(filter.map(|filter| builder.add(filter)).transpose()?);
            groups.push(match what {
                Measure::Group(grouping) => Some(prepare_groups(grouping, &mut builder)?),
                _ => None,
            });
        }
        assert!(
            among.len() == self.aggregates.len(),
            "each aggregate may have a filter"
        );
        let facets = FacetPlan::new(&self.facets, &mut builder)?;
        Ok(Prepared(Box::new(Checked {
            query: self,
            root,
            among,
            formulas,
            groups,
            facets,
            slice: Slice::ALL,
        })))
    }
}

impl Deref for Prepared {
    type Target = Checked;

    #[inline]
    fn deref(&self) -> &Checked {
        &self.0
    }
}

impl DerefMut for Prepared {
    fn deref_mut(&mut self) -> &mut Checked {
        &mut self.0
    }
}

/// The formula of a measure, if it has an expression. Checks its field or expression and percent.
fn formula(what: &Measure) -> Result<Option<Formula>> {
    what.path().map_or(Ok(()), Path::check)?;
    match what {
        Measure::Of(_, expression) => {
            expression.check()?;
            Ok(Some(Formula::new(expression)))
        }
        Measure::Percentile { percent, .. } if !(0.0..=100.0).contains(percent) => {
            let what = format!("a percentile is {percent}, not from 0 to 100");
            Err(Error::Invalid(what))
        }
        _ => Ok(None),
    }
}

fn prepare_groups(grouping: &mut Grouping, builder: &mut TreeBuilder) -> Result<GroupsPart> {
    let refused = |what: String| Err(Error::Invalid(what));
    if !(1..=GROUP_FIELDS_MAX).contains(&grouping.by.len()) {
        let count = grouping.by.len();
        return refused(format!(
            "groups by {count} fields, not 1 to {GROUP_FIELDS_MAX}"
        ));
    }
    if grouping.measures.len() > GROUP_MEASURES_MAX {
        return refused(format!(
            "a group has more than {GROUP_MEASURES_MAX} measures"
        ));
    }
    grouping.by.iter().try_for_each(Path::check)?;
    let plan = GroupPlan::new(grouping).map_err(|name| {
        let what = format!("{name:?} is neither a measure of the groups nor a field of theirs");
        Error::Invalid(what)
    })?;
    let mut among = Vec::with_capacity(grouping.measures.len());
    let mut formulas = Vec::with_capacity(grouping.measures.len());
    for (name, Aggregate { what, filter }) in &mut grouping.measures {
        formulas.push(formula(what)?);
        if matches!(
            what,
            Measure::Terms { .. } | Measure::Histogram { .. } | Measure::Group(_)
        ) {
            return refused(format!("{name:?} is not one value of a group"));
        }
        let filter = filter.take();
        among.push(filter.map(|filter| builder.add(filter)).transpose()?);
    }
    Ok(GroupsPart {
        plan,
        among,
        formulas,
    })
}

impl Prepared {
    /// Whether a document matches the filter.
    #[must_use]
    pub fn accepts(&self, document: &Document) -> bool {
        self.root.accepts(document.root(), &mut Vec::new())
    }

    /// Whether the filter, an order or an aggregate is about the field.
    #[must_use]
    pub fn is_about(&self, path: &str) -> bool {
        let mut is_about = false;
        self.each_path(&mut |other| is_about |= other.as_str() == path);
        is_about
    }

    /// Whether it only counts all documents, or needs nothing of them.
    #[must_use]
    pub fn is_count_of_all(&self) -> bool {
        self.root == Node::All && self.query.limit == Some(0) && !self.query.is_aggregated()
    }

    /// The answer of a query that [only counts](Self::is_count_of_all), where there are `count`
    /// documents.
    #[must_use]
    pub fn counted(&self, count: u64) -> Answer {
        self.concluded(count, Vec::new(), self.facet_state())
    }

    /// How many hits are needed, including those that are skipped.
    pub(crate) fn hits_max(&self) -> u64 {
        match self.query.limit {
            Some(0) => 0,
            Some(limit) => self.query.skip.saturating_add(limit),
            None => u64::MAX,
        }
    }

    /// The number of hits that are all that it needs, whichever they are; `None` if it has an
    /// order, a count or an aggregate.
    #[must_use]
    pub fn first_hits(&self) -> Option<u64> {
        let query = &self.query;
        let is_page = !query.is_ordered() && !query.count && !query.is_aggregated();
        is_page.then(|| self.hits_max())
    }

    /// How many values its filter looks up to be planned, about. Predicates that `is_known` knows
    /// are not looked up.
    pub fn lookups(&self, mut is_known: impl FnMut(&Leaf) -> bool) -> u64 {
        let mut lookups = 0;
        self.root.each_leaf(&mut |leaf| {
            lookups += match &leaf.test {
                _ if is_known(leaf) => 0,
                Test::Eq(_) | Test::Exists => 1,
                Test::In(values) => (values.len() as u64).min(LIST_LOOKUPS_MAX),
                Test::Range(_) => RANGE_LOOKUPS,
            }
        });
        lookups
    }

    /// The initial state of each aggregate.
    pub(crate) fn gather(&self) -> Vec<AggregateState> {
        let aggregates = self.query.aggregates.iter().zip(&self.groups);
        let state =
            |((_, aggregate), groups): (&(String, Aggregate), &Option<GroupsPart>)| match groups {
                Some(groups) => {
                    let groups = Groups::new(groups.plan.clone(), self.slice);
                    AggregateState::Groups(Box::new(groups))
                }
                None => AggregateState::Measure(Gathered::of_slice(&aggregate.what, self.slice)),
            };
        aggregates.map(state).collect()
    }

    /// Keeps some of the aggregates, by their places and measures.
    pub(crate) fn keep_aggregates(&mut self, keep: impl Fn(usize, &Measure) -> bool) {
        let aggregates = self.query.aggregates.iter().enumerate();
        let kept: Vec<bool> = aggregates
            .map(|(at, (_, one))| keep(at, &one.what))
            .collect();
        fn retain<T>(all: &mut Vec<T>, kept: &[bool]) {
            let mut kept = kept.iter();
            all.retain(|_| kept.next().is_some_and(|kept| *kept));
        }
        retain(&mut self.query.aggregates, &kept);
        retain(&mut self.among, &kept);
        retain(&mut self.formulas, &kept);
        retain(&mut self.groups, &kept);
    }

    /// The answer without its hits.
    pub(crate) fn concluded(
        &self,
        matched: u64,
        gathered: Vec<AggregateState>,
        facets: FacetState,
    ) -> Answer {
        let aggregates = self.query.aggregates.len();
        assert!(gathered.len() == aggregates, "each aggregate has a state");
        let names = self.query.aggregates.iter().map(|(name, _)| name.clone());
        Answer {
            count: self.query.count.then_some(matched),
            aggregates: names
                .zip(gathered.into_iter().map(AggregateState::finish))
                .collect(),
            facets: self.faceted(facets),
            ..Answer::default()
        }
    }

    /// The initial state of the facets.
    pub(crate) fn facet_state(&self) -> FacetState {
        FacetState::new(&self.facets)
    }

    fn faceted(&self, state: FacetState) -> Vec<(String, Faceted)> {
        let names = self.query.facets.iter().map(|(name, _)| name.clone());
        names.zip(state.finish(&self.facets)).collect()
    }

    /// Which fields of a hit are given; all if `None`.
    #[must_use]
    pub fn fields(&self) -> Option<&[Path]> {
        self.query.fields.as_deref()
    }

    /// As [`Query::is_ordered`].
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        self.query.is_ordered()
    }

    /// The filters of it all.
    fn nodes(&self) -> impl Iterator<Item = &Node> {
        let of_groups = self.groups.iter().flatten();
        let among = of_groups.flat_map(|groups| &groups.among);
        let among = among.chain(&self.among).flatten();
        among.chain([&self.root]).chain(&self.facets.filters)
    }

    /// Whether documents are read to tell which match.
    pub(crate) fn needs_documents(&self) -> bool {
        self.nodes().any(Node::needs_documents)
    }

    /// Every field that it depends on, and what for; one may come several times.
    pub fn each_use<'a>(&'a self, visit: &mut dyn FnMut(&'a Path, Use)) {
        let of_groups = self.groups.iter().flatten();
        for node in self.nodes() {
            node.each_leaf(&mut |leaf| visit(&leaf.path, Use::Filter));
        }
        let orders = self.query.order.iter().map(|order| &order.path);
        for path in orders.chain(&self.facets.fields) {
            visit(path, Use::Column);
        }
        for (_, aggregate) in &self.query.aggregates {
            aggregate
                .what
                .each_path(&mut |path| visit(path, Use::Column));
        }
        for GroupsPart { plan, .. } in of_groups {
            plan.by.iter().for_each(|path| visit(path, Use::Column));
            for (_, measure) in &plan.measures {
                measure.each_path(&mut |path| visit(path, Use::Column));
            }
        }
    }

    /// Every field that it depends on.
    pub(crate) fn each_path<'a>(&'a self, visit: &mut dyn FnMut(&'a Path)) {
        self.each_use(&mut |path, _| visit(path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Comparison, DEPTH_MAX, IN_VALUES_MAX, field, find};

    fn grouped(grouping: Grouping) -> Query {
        find(Filter::All).aggregate("x", Aggregate::group(grouping))
    }

    #[test]
    fn a_query_that_makes_no_sense_is_an_error() {
        let refused = [
            find(field("a").eq(f64::NAN)),
            find(field("a").is_in([1.0, f64::NAN])),
            find(field("a").between(1, "z")),
            find(field("").exists()),
            find(field("a..b").eq(1)),
            find(field(&"a".repeat(2000)).eq(1)),
            find(Filter::All).order_by(field("a.").ascending()),
            find(Filter::All).select(["."]),
            find(Filter::All).aggregate("x", Aggregate::histogram("a", 0.0)),
            find(Filter::All).aggregate("x", Aggregate::percentile("a", 100.1)),
            find(Filter::All).aggregate("x", Aggregate::percentile("a", f64::NAN)),
            grouped(Grouping::by(Vec::<Path>::new())),
            grouped(Grouping::by(["a"; GROUP_FIELDS_MAX + 1])),
            grouped(Grouping::by(["a.."])),
            grouped(Grouping::by(["a"]).measure("t", Aggregate::terms("b", 3))),
            grouped(Grouping::by(["a"]).measure("g", Aggregate::group(Grouping::by(["b"])))),
            grouped(Grouping::by(["a"]).descending("b")),
            grouped(Grouping::by(["a"]).having("b", Comparison::Less, 1)),
            find(Filter::All).aggregate("x", Aggregate::count().among(field("b").gt(f64::NAN))),
            find((0..=DEPTH_MAX).fold(Filter::All, |filter, _| !(!filter))),
            find(field("a").is_in(0..=IN_VALUES_MAX as i64)),
        ];
        for query in refused {
            assert!(query.clone().prepare().is_err(), "{query:?}");
        }
        let most = field("a").is_in(0..IN_VALUES_MAX as i64);
        assert!(find(most).prepare().is_ok());
    }
}
