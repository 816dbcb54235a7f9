//! What a caller can see of a route.

use axum::http::Method;

/// What a caller can see of a route.
pub(crate) struct Endpoint {
    /// Where GET is served, HEAD is too.
    pub(crate) methods: &'static [Method],
    /// `{collection}`, `{id}` and `{name}` stand for one segment each.
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    /// The query parameters that it knows, beside those that all know.
    pub(crate) params: &'static [&'static str],
}

impl Endpoint {
    /// Whether a request of it changes documents or collections. A follower refuses such requests.
    pub(crate) fn changes_documents(&self, method: &Method) -> bool {
        let is_write = *method != Method::GET && *method != Method::HEAD;
        let what = self.path.strip_prefix("/{collection}").unwrap_or(self.path);
        let writes = [
            "",
            "/_settings",
            "/_doc",
            "/_create",
            "/_update",
            "/_bulk",
            "/_delete_by_query",
        ];
        is_write && writes.contains(&what.trim_end_matches("/{id}"))
    }
}
