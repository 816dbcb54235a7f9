//! What a caller can see of a route.

use axum::http::Method;

use crate::access::grant::{Grant, Refused};
use crate::access::role::Action;

/// What the caller of a route must be allowed to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing more than a token. Ids of scrolls and points in time are random: one who has such an
    /// id was given it by one who may read.
    Any,
    /// Nothing more than a token for requests of that token; what is of others needs this, with all
    /// collections: the handler checks each.
    Own(Action),
    /// This, with the collections that the path names.
    Named(Action),
    /// This, with the collections that the body names: the handler checks each.
    Items(Action),
    /// This, with all collections.
    Whole(Action),
}

impl Needs {
    /// Whether it is about something other than documents.
    fn is_admin(self) -> bool {
        let (Needs::Own(action)
        | Needs::Named(action)
        | Needs::Items(action)
        | Needs::Whole(action)) = self
        else {
            return false;
        };
        matches!(action, Action::Manage | Action::Follow | Action::Tokens)
    }

    /// Checks what can be checked before the body is read. `named` is what the path names.
    pub(crate) fn check(self, grant: &Grant, named: Option<&str>) -> Result<(), Refused> {
        match self {
            Needs::Any | Needs::Own(_) => Ok(()),
            Needs::Named(action) => grant.check(action, named.unwrap_or_default()),
            Needs::Items(action) => grant.check_role(action),
            Needs::Whole(action) => grant.check_all(action),
        }
    }
}

/// What a caller can see of a route.
pub(crate) struct Endpoint {
    pub(crate) needs: Needs,
    /// Where GET is served, HEAD is too.
    pub(crate) methods: &'static [Method],
    /// `{collection}`, `{id}` and `{name}` stand for one segment each.
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    /// The query parameters that it knows, beside those that all know.
    pub(crate) params: &'static [&'static str],
}

impl Endpoint {
    /// Whether a request of it changes something other than documents: then it is in the audit log.
    /// A GET does so where a POST does the same.
    pub(crate) fn is_audited(&self, method: &Method) -> bool {
        let is_look = matches!(*method, Method::GET | Method::HEAD);
        let is_change = !is_look || self.methods.contains(&Method::POST);
        self.needs.is_admin() && is_change
    }

    /// Whether its requests take long because they wait for changes: that is not slow.
    pub(crate) fn waits(&self) -> bool {
        self.path.ends_with("/_changes") || self.path.starts_with("/_follow")
    }

    /// Whether a request of it changes documents or collections. A follower refuses such requests.
    pub(crate) fn changes_documents(&self, method: &Method) -> bool {
        let is_write = *method != Method::GET && *method != Method::HEAD;
        let what = self.path.strip_prefix("/{collection}").unwrap_or(self.path);
        let writes = [
            "",
            "/_settings",
            "/_block",
            "/_close",
            "/_open",
            "/_rollover",
            "/_clone",
            "/_shrink",
            "/_split",
            "/_partitions",
            "/_mapping",
            "/_mappings",
            "/_component_template",
            "/_index_template",
            "/_template",
            "/_alias",
            "/_aliases",
            "/_doc",
            "/_create",
            "/_update",
            "/_bulk",
            "/_cell",
            "/_schema",
            "/_tier",
            "/_delete_by_query",
            "/_quire/write",
            "/_update_by_query",
            "/_reindex",
        ];
        let ends = ["/{column}", "/{id}", "/{name}"];
        let what = ends
            .iter()
            .fold(what, |what, end| what.trim_end_matches(end));
        is_write && writes.contains(&what)
    }
}
