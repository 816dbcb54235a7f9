//! [`Seen`]: documents as a query sees them.

use crate::{Result, View};
use quire_collection::{Found, ID};
use quire_model::Document;
use quire_query::{Constant, Prepared};
use std::borrow::Cow;

/// What a query sees of a document beside its own fields: its key and the name of its collection,
/// if the query is about these.
#[derive(Debug)]
pub struct Seen {
    has_key: bool,
    name: Option<Constant>,
}

impl View {
    /// What a query sees of the documents of this view.
    ///
    /// # Errors
    /// As of [`View::query`].
    pub fn seen_by(&self, query: &Prepared) -> Result<Seen> {
        Ok(Seen::new(query, self.name_in(query)?))
    }
}

impl Seen {
    pub(crate) fn new(query: &Prepared, name: Option<Constant>) -> Seen {
        Seen {
            has_key: query.is_about(ID),
            name,
        }
    }

    /// The document as the query sees it.
    ///
    /// # Errors
    /// `TooLarge`, or `Invalid`, if the document would be larger than documents may be.
    pub fn document<'f>(&self, found: &'f Found) -> Result<Cow<'f, Document>> {
        let mut seen = Cow::Borrowed(&found.document);
        if self.has_key {
            seen = Cow::Owned(found.document_with_key()?);
        }
        if let Some(name) = &self.name {
            seen = Cow::Owned(name.added_to(&seen)?);
        }
        Ok(seen)
    }
}
