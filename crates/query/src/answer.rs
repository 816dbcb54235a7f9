//! [`Answer`]: the result of a query.

use crate::aggregated::Aggregated;
use crate::facets::Faceted;
use crate::{Explain, Hit};

/// The result of a query.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// The page of hits; empty if they were passed to a function instead.
    pub hits: Vec<Hit>,
    /// How many match, if the query counts.
    pub count: Option<u64>,
    /// The results of the aggregates, in the query's order.
    pub aggregates: Vec<(String, Aggregated)>,
    /// What the facets say, in the query's order.
    pub facets: Vec<(String, Faceted)>,
    /// The query was stopped, and this is the answer of what was seen until then.
    pub is_partial: bool,
    /// How the answer was found, if [`Options::clock`](crate::Options::clock) is set.
    pub explain: Option<Box<Explain>>,
}

impl Answer {
    /// Calls `visit` with each hit of the facets.
    pub fn each_faceted_hit(&mut self, visit: &mut dyn FnMut(&mut Hit)) {
        for (_, faceted) in &mut self.facets {
            faceted.each_hit_mut(visit);
        }
    }
}
