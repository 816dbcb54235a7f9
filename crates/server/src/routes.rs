//! The table of routes: what is served, what `/openapi.json` says, and what query parameters each
//! route knows are one list.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, RawPathParams, Request};
use axum::http::{Method, Uri};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use futures_util::future::BoxFuture;
use tower::util::MapRequest;

use crate::admin::{cat, cluster};
use crate::documents::{changes, mget, one as documents, update};
use crate::http::answer::{Answer, Look};
use crate::http::body::BodyReader;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::params::Params;
use crate::http::{auth, openapi};
use crate::jobs::{backup, verify};
use crate::state::Server;
use crate::{bulk, collections, follow, search};

type Handler = fn(Call) -> BoxFuture<'static, Outcome<Answer>>;

/// One thing that the server can be asked.
pub(crate) struct Route {
    /// Where GET is served, HEAD is too.
    pub(crate) methods: &'static [Method],
    /// `{collection}`, `{id}` and `{name}` stand for one segment each.
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    /// The query parameters it knows, beside those that all know.
    pub(crate) params: &'static [&'static str],
    handler: Handler,
}

const GET: &[Method] = &[Method::GET];
const POST: &[Method] = &[Method::POST];
const GET_POST: &[Method] = &[Method::GET, Method::POST];
const PUT_POST: &[Method] = &[Method::PUT, Method::POST];

const READ: &[&str] = &[
    "_source",
    "_source_includes",
    "_source_excludes",
    "preference",
    "realtime",
    "refresh",
    "routing",
    "version",
    "version_type",
];
const WRITE: &[&str] = &[
    "if_primary_term",
    "if_seq_no",
    "op_type",
    "pipeline",
    "refresh",
    "require_alias",
    "routing",
    "timeout",
    "wait_for_active_shards",
];
const UPDATE: &[&str] = &[
    "if_primary_term",
    "if_seq_no",
    "refresh",
    "require_alias",
    "retry_on_conflict",
    "routing",
    "timeout",
    "wait_for_active_shards",
];
const DELETE: &[&str] = &[
    "if_primary_term",
    "if_seq_no",
    "refresh",
    "routing",
    "timeout",
    "wait_for_active_shards",
];
const BULK: &[&str] = &[
    "pipeline",
    "refresh",
    "require_alias",
    "routing",
    "timeout",
    "wait_for_active_shards",
];
const MGET: &[&str] = &[
    "_source",
    "_source_includes",
    "_source_excludes",
    "preference",
    "realtime",
    "refresh",
];
const ADMIN: &[&str] = &[
    "cluster_manager_timeout",
    "master_timeout",
    "timeout",
    "wait_for_active_shards",
];
const DROP: &[&str] = &[
    "allow_no_indices",
    "cluster_manager_timeout",
    "expand_wildcards",
    "ignore_unavailable",
    "master_timeout",
    "timeout",
];
const LOOKUP: &[&str] = &[
    "allow_no_indices",
    "cluster_manager_timeout",
    "expand_wildcards",
    "flat_settings",
    "ignore_unavailable",
    "include_defaults",
    "local",
    "master_timeout",
];
const SELECT: &[&str] = &[
    "allow_no_indices",
    "expand_wildcards",
    "force",
    "ignore_unavailable",
    "wait_if_ongoing",
];
const COUNT: &[&str] = &[
    "allow_no_indices",
    "expand_wildcards",
    "ignore_unavailable",
    "preference",
];
const SEARCH: &[&str] = &[
    "_source",
    "_source_excludes",
    "_source_includes",
    "allow_no_indices",
    "allow_partial_search_results",
    "batched_reduce_size",
    "expand_wildcards",
    "from",
    "ignore_unavailable",
    "max_concurrent_shard_requests",
    "preference",
    "request_cache",
    "rest_total_hits_as_int",
    "search_type",
    "size",
    "sort",
    "track_total_hits",
    "typed_keys",
];
const HEALTH: &[&str] = &[
    "allow_no_indices",
    "cluster_manager_timeout",
    "expand_wildcards",
    "ignore_unavailable",
    "level",
    "local",
    "master_timeout",
    "timeout",
    "wait_for_active_shards",
    "wait_for_no_initializing_shards",
    "wait_for_no_relocating_shards",
    "wait_for_status",
];
const MERGE: &[&str] = &[
    "allow_no_indices",
    "expand_wildcards",
    "flush",
    "ignore_unavailable",
    "max_num_segments",
    "only_expunge_deletes",
    "primary_only",
    "wait_for_completion",
];
const CHANGES: &[&str] = &["after", "limit", "partition", "prefix", "wait_ms"];
const BACKUP: &[&str] = &["keep", "rate_bytes"];
const CAT: &[&str] = &[
    "allow_no_indices",
    "bytes",
    "expand_wildcards",
    "format",
    "h",
    "ignore_unavailable",
    "local",
    "v",
];

macro_rules! routes {
    ($($methods:expr, $path:literal, $params:expr, $handler:path, $summary:literal;)*) => {
        &[$(Route {
            methods: $methods,
            path: $path,
            summary: $summary,
            params: $params,
            handler: |call| Box::pin($handler(call)),
        }),*]
    };
}

impl Route {
    /// Whether a request of it changes documents or collections: a follower takes none such.
    fn changes_documents(&self, method: &Method) -> bool {
        let is_write = *method != Method::GET && *method != Method::HEAD;
        let what = self.path.strip_prefix("/{collection}").unwrap_or(self.path);
        let writes = ["", "/_settings", "/_doc", "/_create", "/_update", "/_bulk"];
        is_write && writes.contains(&what.trim_end_matches("/{id}"))
    }
}

/// Every route.
pub(crate) static ROUTES: &[Route] = routes! {
    GET, "/", &[], cluster::info, "What is served here";
    GET, "/_cluster/health", HEALTH, cluster::health, "Whether the database serves";
    GET, "/_cluster/health/{collection}", HEALTH, cluster::health, "Whether collections are served";
    GET, "/_cat/indices", CAT, cat::indices, "A table of collections";
    GET, "/_cat/indices/{collection}", CAT, cat::indices, "A table of some collections";
    GET, "/_quire/stats", &[], cluster::stats, "What the database holds and has done";
    GET, "/metrics", &[], cluster::metrics, "Metrics for Prometheus";
    GET, "/_backup", &[], backup::state, "The backup being made, and the one made last";
    POST, "/_backup/{name}", BACKUP, backup::begin, "Begin a backup, below the directory that the server was given";
    GET, "/_verify", &[], verify::state, "How far verifying is, and what the last one found";
    POST, "/_verify", &["rate_bytes"], verify::begin, "Begin to read and check every byte, while all is served";
    POST, "/_follow", &[], follow::follow, "What a follower does not have yet, and what comes";
    POST, "/_follow/copy/{id}", &[], follow::copy, "All files as of now, for a follower to take";
    GET, "/_follow/copy/{id}/{name}", &[], follow::file, "One of these files";
    &[Method::DELETE], "/_follow/copy/{id}", &[], follow::drop_copy, "The follower has them";
    GET, "/openapi.json", &[], openapi::document, "This description";

    &[Method::PUT], "/{collection}", ADMIN, collections::create, "Create a collection";
    GET, "/{collection}", LOOKUP, collections::get, "A collection's settings; HEAD tells whether it exists";
    &[Method::DELETE], "/{collection}", DROP, collections::delete, "Drop a collection and all that is in it";
    &[Method::PUT], "/{collection}/_settings", ADMIN, collections::change_settings, "Change a collection's settings";
    GET, "/{collection}/_changes", CHANGES, changes::changes, "Changes after a cursor, and what comes while the caller waits; lines of JSON";
    GET_POST, "/_refresh", SELECT, collections::refresh, "Nothing to do: what is acknowledged is seen";
    GET_POST, "/{collection}/_refresh", SELECT, collections::refresh, "Nothing to do: what is acknowledged is seen";
    GET_POST, "/_flush", SELECT, collections::flush, "Write memory out to files";
    GET_POST, "/{collection}/_flush", SELECT, collections::flush, "Write memory out to files";
    POST, "/_forcemerge", MERGE, collections::force_merge, "Give back the room of what was overwritten and deleted";
    POST, "/{collection}/_forcemerge", MERGE, collections::force_merge, "Give back the room of what was overwritten and deleted";
    GET_POST, "/_count", COUNT, search::count, "Count documents, all of them or those that match a query";
    GET_POST, "/{collection}/_count", COUNT, search::count, "Count the documents of collections";
    GET_POST, "/_search", SEARCH, search::search, "Find documents, and say something about all that match";
    GET_POST, "/{collection}/_search", SEARCH, search::search, "Find documents of collections";

    POST, "/{collection}/_doc", WRITE, documents::add, "Add a document under a new id";
    GET, "/{collection}/_doc/{id}", READ, documents::get, "A document by id";
    PUT_POST, "/{collection}/_doc/{id}", WRITE, documents::put, "Put a document under an id";
    &[Method::DELETE], "/{collection}/_doc/{id}", DELETE, documents::delete, "Delete a document";
    PUT_POST, "/{collection}/_create/{id}", WRITE, documents::create, "Put a document under an id that has none";
    GET, "/{collection}/_source/{id}", READ, documents::source, "A document alone, as it was written";
    POST, "/{collection}/_update/{id}", UPDATE, update::update, "Change fields of a document";
    PUT_POST, "/_bulk", BULK, bulk::bulk, "Many writes";
    PUT_POST, "/{collection}/_bulk", BULK, bulk::bulk, "Many writes, to this collection where they name none";
    GET_POST, "/_mget", MGET, mget::mget, "Many documents by id";
    GET_POST, "/{collection}/_mget", MGET, mget::mget, "Many documents by id, of this collection where they name none";
};

/// All routes, for any service or test that calls them in process.
pub(crate) fn router(server: Arc<Server>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        let methods = MethodFilter::try_from(route.methods[0].clone());
        let filter = route
            .methods
            .iter()
            .skip(1)
            .fold(methods, |filter, method| {
                Ok(filter?.or(MethodFilter::try_from(method.clone())?))
            });
        // All methods of the table are ones that a filter has.
        let Ok(filter) = filter else { continue };
        router = router.route(route.path, served(Arc::clone(&server), route, filter));
    }
    let wrong_method = Arc::clone(&server);
    let unknown = Arc::clone(&server);
    let router = router
        .method_not_allowed_fallback(move |route: Option<MatchedPath>, request: Request| {
            refuse(Arc::clone(&wrong_method), request, move |method, uri| {
                let route = route.as_ref().map_or("", MatchedPath::as_str);
                if route.starts_with("/{collection}") && uri.path().starts_with("/_") {
                    return Failure::no_handler(method, uri.path());
                }
                Failure::method_not_allowed(method, uri.path(), &allowed(route))
            })
        })
        .fallback(move |request: Request| {
            refuse(Arc::clone(&unknown), request, |method, uri| {
                Failure::no_handler(method, uri.path())
            })
        });
    Router::new().fallback_service(MapRequest::new(router, without_last_slash))
}

fn served(server: Arc<Server>, route: &'static Route, filter: MethodFilter) -> MethodRouter {
    let handler = move |places: Result<RawPathParams, RawPathParamsRejection>, request: Request| {
        let server = Arc::clone(&server);
        async move {
            let begun = server.database().env().monotonic();
            let method = request.method().clone();
            let answer = answer(&server, route, places, request).await;
            let took = server.database().env().monotonic().saturating_sub(begun);
            server
                .metrics
                .answered(route.path, &method, answer.status(), took);
            answer
        }
    };
    on(filter, handler)
}

/// Answers a request of `route`.
async fn answer(
    server: &Arc<Server>,
    route: &Route,
    places: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let admitted = auth::admit(&parts, server.options.token.as_deref());
    let body = admitted.and_then(|()| BodyReader::new(&parts.headers, body, &server.options));
    let (body, rest) = match body {
        Ok(both) => both,
        Err(failure) => {
            return Answer::from(failure).into_response(&Look::default(), &server.buffers);
        }
    };
    let call = move || {
        let places = places
            .map_err(|_| Failure::illegal_argument("the path is not percent-encoded UTF-8"))?;
        let places = places
            .iter()
            .map(|(place, text)| (place.to_owned(), text.to_owned()));
        let places: Vec<(String, String)> = places.collect();
        if route.changes_documents(&parts.method) {
            server.check_writable()?;
        }
        if places.iter().any(is_api) {
            return Err(Failure::no_handler(&parts.method, parts.uri.path()));
        }
        let params = Params::parse(&parts.uri, route.params)?;
        let look = Look::of(&params)?;
        let server = Arc::clone(server);
        Ok(Call {
            server,
            places,
            params,
            body,
            look,
        })
    };
    let (look, answer) = match call() {
        Ok(call) => (call.look.clone(), (route.handler)(call).await),
        Err(failure) => (Look::default(), Err(failure)),
    };
    let response = answer
        .unwrap_or_else(Answer::from)
        .into_response(&look, &server.buffers);
    // A client that is still sending when its connection closes sees an error of its socket, not
    // the answer.
    rest.drain().await;
    response
}

/// Names of collections never start so: it is an API of OpenSearch that is not served here.
fn is_api((place, text): &(String, String)) -> bool {
    place == "collection" && text.starts_with('_') && text != "_all"
}

/// Answers a request that no route serves, once its caller may know that.
async fn refuse(
    server: Arc<Server>,
    request: Request,
    failure: impl FnOnce(&Method, &Uri) -> Failure,
) -> Response {
    let (parts, _) = request.into_parts();
    let failure = match auth::admit(&parts, server.options.token.as_deref()) {
        Ok(()) => failure(&parts.method, &parts.uri),
        Err(failure) => failure,
    };
    server.metrics.answered(
        "none",
        &parts.method,
        failure.status,
        std::time::Duration::ZERO,
    );
    Answer::from(failure).into_response(&Look::default(), &server.buffers)
}

/// The methods that `path` is served with.
fn allowed(path: &str) -> Vec<Method> {
    ROUTES
        .iter()
        .filter(|route| route.path == path)
        .flat_map(|route| route.methods)
        .cloned()
        .collect()
}

/// Some clients end paths with a slash, which OpenSearch does not mind.
fn without_last_slash(mut request: Request) -> Request {
    let uri = request.uri();
    let path = uri.path().trim_end_matches('/');
    if path.len() == uri.path().len() || path.is_empty() {
        return request;
    }
    let mut parts = uri.clone().into_parts();
    let short = match uri.query() {
        Some(query) => format!("{path}?{query}").parse(),
        None => path.parse(),
    };
    if let Ok(short) = short {
        parts.path_and_query = Some(short);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}
