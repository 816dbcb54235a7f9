//! [`Case`]: documents and queries.

use crate::Query;
use quire_model::Document;

/// Documents, and queries to execute on them. Each document has a field `_id`, from 0 on, which the
/// queries do not use.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The documents, by docid.
    pub documents: Vec<Document>,
    /// The queries.
    pub queries: Vec<Query>,
}
