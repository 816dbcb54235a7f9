//! [`Case`]: documents and queries.

use crate::Query;
use quire_model::Document;

/// Documents, and queries to ask of them. Each document has a field `_id`, from 0 on, which the
/// queries do not know.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The documents, by docid.
    pub documents: Vec<Document>,
    /// The queries.
    pub queries: Vec<Query>,
}
