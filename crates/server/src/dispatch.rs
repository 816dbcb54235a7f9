//! Dispatch: admits a request, finds its route, and turns the outcome into a response.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, Uri, Version, header};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use http_body::Body as _;
use tower::util::{MapRequest, MapResponse};

use crate::access::grant::Grant;
use crate::access::named::check_aliases;
use crate::audit::{Audit, AuditedGrant, Peer};
use crate::command::explain_json;
use crate::http::answer::{Answer, AnswerFormat};
use crate::http::audited;
use crate::http::auth;
use crate::http::body::BodyReader;
use crate::http::call::Call;
use crate::http::endpoint::Needs;
use crate::http::failure::{Failure, Outcome};
use crate::http::framing;
use crate::http::metered::Metered;
use crate::http::params::Params;
use crate::http::product;
use crate::limits::{Over, Share};
use crate::net::idle::InService;
use crate::net::lingering::Lingering;
use crate::routes::{ROUTES, Route};
use crate::slow::{CpuTime, SlowRequest};
use crate::state::Server;
use crate::tasks::answering::until_sent;
use crate::tasks::task::Task;

/// The label of requests that no route serves, in the metrics.
const NO_ROUTE: &str = "none";

/// The pause before the answer to a wrong token.
const WRONG_TOKEN_PAUSE: Duration = Duration::from_millis(500);

/// The routes of the port of metrics.
const MONITORED: [&str; 2] = ["/metrics", "/_cluster/health"];

/// Who may call a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guard {
    /// Callers with a token, where the server has tokens.
    Tokens,
    /// Everybody who can connect, to read.
    Open,
}

/// All routes as one service.
pub(crate) fn router(server: Arc<Server>) -> Router {
    service(server, Guard::Tokens, ROUTES.iter())
}

/// Metrics and health as a service that needs no token.
pub(crate) fn metrics_router(server: Arc<Server>) -> Router {
    let is_monitored = |route: &&Route| MONITORED.contains(&route.endpoint.path);
    service(server, Guard::Open, ROUTES.iter().filter(is_monitored))
}

fn service(
    server: Arc<Server>,
    guard: Guard,
    routes: impl Iterator<Item = &'static Route>,
) -> Router {
    let mut router = Router::new();
    for route in routes {
        let filter = method_filter(route.endpoint.methods);
        assert!(
            filter.is_some(),
            "each route has a method, and axum knows it"
        );
        if let Some(filter) = filter {
            let method_router = served(Arc::clone(&server), guard, route, filter);
            router = router.route(route.endpoint.path, method_router);
        }
    }
    let wrong_method = Arc::clone(&server);
    let unknown = Arc::clone(&server);
    let router = router
        .method_not_allowed_fallback(move |route: Option<MatchedPath>, request: Request| {
            refuse(
                Arc::clone(&wrong_method),
                guard,
                request,
                move |method, uri| {
                    let route = route.as_ref().map_or("", MatchedPath::as_str);
                    if route.starts_with("/{collection}") && uri.path().starts_with("/_") {
                        return Failure::no_handler(method, uri.path());
                    }
                    Failure::method_not_allowed(method, uri.path(), &allowed(route))
                },
            )
        })
        .fallback(move |request: Request| {
            refuse(Arc::clone(&unknown), guard, request, |method, uri| {
                Failure::no_handler(method, uri.path())
            })
        });
    let router = MapRequest::new(router, without_last_slash);
    Router::new().fallback_service(MapResponse::new(router, without_hints))
}

fn method_filter(methods: &[Method]) -> Option<MethodFilter> {
    let mut filters = methods
        .iter()
        .map(|method| MethodFilter::try_from(method.clone()).ok());
    let first = filters.next()??;
    filters.try_fold(first, |all, filter| Some(all.or(filter?)))
}

fn served(
    server: Arc<Server>,
    guard: Guard,
    route: &'static Route,
    filter: MethodFilter,
) -> MethodRouter {
    let handler = move |path: Result<RawPathParams, RawPathParamsRejection>, request: Request| {
        let server = Arc::clone(&server);
        async move {
            let begun = server.engine.now();
            let method = request.method().clone();
            let accepted = product::accepted(request.headers());
            let mut response = answer(&server, guard, route, path, request).await;
            product::sign(server.options.compat, &mut response, accepted);
            let took = server.engine.now().saturating_sub(begun);
            server
                .requests
                .answered(route.endpoint.path, &method, response.status(), took);
            response
        }
    };
    on(filter, handler)
}

/// Answers a request of `route`.
async fn answer(
    server: &Server,
    guard: Guard,
    route: &Route,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Response {
    let begun = server.engine.now();
    let (parts, body) = request.into_parts();
    let is_body_left = !body.is_end_stream() || framing::check(&parts.headers).is_err();
    let mut share = match share(server, &parts) {
        Ok(share) => share,
        Err(over) => return too_much(&over, &parts, server, is_body_left),
    };
    let admitted = admit(&parts, server, guard);
    let audit = audit(server, guard);
    audited::authentication(audit, &parts, &admitted);
    slow_down(&admitted, &parts).await;
    let in_service = parts.extensions.get::<Arc<InService>>();
    if let Ok(grant) = &admitted {
        if let Some(in_service) = in_service {
            in_service.admit();
        }
        if guard == Guard::Tokens
            && let Err(over) = share.admitted(grant)
        {
            return too_much(&over, &parts, server, is_body_left);
        }
    }
    let share = Arc::new(share);
    let body = Metered::body(body, Arc::clone(&share), in_service.cloned());
    let body = admitted.and_then(|grant| {
        let body = BodyReader::new(&parts.headers, body, &server.options)?;
        Ok((grant, body))
    });
    let (grant, (body, rest)) = match body {
        Ok(both) => both,
        Err(failure) => return without_body(failure, &parts, server, is_body_left),
    };
    let grant = Arc::new(AuditedGrant::http(grant, audit, &parts));
    let by = Arc::clone(&grant);
    let running = Arc::new(server.begin_task(&route.endpoint, &parts, &grant));
    let call = Call {
        state: (),
        grant,
        path_params: Vec::new(),
        params: Params::default(),
        body,
        format: AnswerFormat::default(),
        buffers: server.buffers.clone(),
        body_timeout: server.options.request_timeout,
        running: Arc::clone(&running),
    };
    let cpu = CpuTime::default();
    running.set_cpu(&cpu);
    let (format, answer) = match checked(server, route, &parts, path, call) {
        Ok(call) => {
            let format = call.format.clone();
            let answer = tokio::select! {
                biased;
                answer = cpu.of((route.handler)(server, call)) => answer,
                // Work that the handler has begun ends as when its caller goes away.
                () = running.cancelled() => Err(Task::failure()),
            };
            (format, answer)
        }
        Err(failure) => (AnswerFormat::default(), Err(failure)),
    };
    if matches!(&answer, Err(failure) if failure.is_forbidden()) {
        audited::refused(audit, &parts, &by);
    }
    let response = answer
        .unwrap_or_else(Answer::from)
        .into_response(&format, &server.buffers);
    note_if_slow(server, route, &running, (begun, cpu), response.status());
    let response = until_sent(response, running).map(|body| Metered::body(body, share, None));
    if route.endpoint.is_audited(&parts.method) {
        audited::admin(audit, &parts, &by, response.status());
    }
    match rest.drain().await {
        true => response,
        false => closing(response, &parts),
    }
}

/// The answer to a request whose body is not read.
fn without_body(failure: Failure, parts: &Parts, server: &Server, is_body_left: bool) -> Response {
    let answer = Answer::from(failure);
    let response = answer.into_response(&AnswerFormat::default(), &server.buffers);
    match is_body_left {
        true => closing(response, parts),
        false => response,
    }
}

/// A call with its parameters, once its caller may make it.
fn checked(
    server: &Server,
    route: &Route,
    parts: &Parts,
    path: Result<RawPathParams, RawPathParamsRejection>,
    call: Call<()>,
) -> Outcome<Call<()>> {
    product::check(server.options.compat, &parts.headers)?;
    let path_params = path_params(path)?;
    let is_api = path_params.iter().any(is_api);
    if !is_api {
        let named = path_params.iter().find(|(name, _)| name == "collection");
        let named = named.map(|(_, text)| text.as_str());
        let needs = route.endpoint.needs;
        let allowed = match (needs.check(&call.grant, named), needs) {
            (Ok(()), Needs::Named(action)) => {
                let named = named.unwrap_or_default();
                check_aliases(&call.grant, action, &server.engine, named)
            }
            (allowed, _) => allowed,
        };
        allowed.map_err(Failure::forbidden)?;
    }
    if route.endpoint.changes_documents(&parts.method) {
        server.check_writable()?;
    }
    if is_api {
        return Err(Failure::no_handler(&parts.method, parts.uri.path()));
    }
    let params = Params::parse(&parts.uri, route.endpoint.params)?;
    Ok(Call {
        path_params,
        format: AnswerFormat::of(&params)?,
        params,
        ..call
    })
}

/// Notes a request that took long until its answer began.
fn note_if_slow(
    server: &Server,
    route: &Route,
    task: &Task,
    (begun, cpu): (Duration, CpuTime),
    status: StatusCode,
) {
    let Some(log) = &server.options.slow_log else {
        return;
    };
    let now = server.engine.now();
    let took = now.saturating_sub(begun);
    if !log.is_slow(took) || route.endpoint.waits() {
        return;
    }
    let slow = SlowRequest {
        protocol: "http",
        address: task.request.address,
        token: &task.request.token,
        request: task.description(),
        status: Some(status.as_u16()),
        took_millis: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        cpu_micros: Some(u64::try_from(cpu.spent().as_micros()).unwrap_or(u64::MAX)),
        plan: task.plan().map(explain_json),
    };
    log.note(&slow, now);
}

/// What the request's client takes is counted from now on.
fn share(server: &Server, parts: &Parts) -> Result<Share, Over> {
    let peer = parts.extensions.get::<Peer>();
    let address = peer.and_then(|peer| peer.address);
    server.limits.begin(address.map(|address| address.ip()))
}

/// The answer to a client over a limit: when it is to come again.
fn too_much(over: &Over, parts: &Parts, server: &Server, is_body_left: bool) -> Response {
    let answer = Answer::from(Failure::too_many_requests(over.to_string()));
    let mut response = answer.into_response(&AnswerFormat::default(), &server.buffers);
    let seconds = over.wait.as_secs() + 1;
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    match is_body_left {
        true => closing(response, parts),
        false => response,
    }
}

/// Decides whether a request may be answered.
fn admit(parts: &Parts, server: &Server, guard: Guard) -> Outcome<Arc<Grant>> {
    framing::check(&parts.headers)?;
    match guard {
        Guard::Tokens => auth::admit(parts, &server.access),
        Guard::Open => Ok(Arc::new(Grant::reader())),
    }
}

/// Where it is noted who was admitted: nobody is on a port that is open.
fn audit(server: &Server, guard: Guard) -> Option<&Audit> {
    let audit = server.options.audit.as_ref();
    audit.filter(|_| guard == Guard::Tokens)
}

/// Waits before the answer to a wrong token, so that tokens can't be tried fast.
async fn slow_down(admitted: &Outcome<Arc<Grant>>, parts: &Parts) {
    let is_refused = matches!(admitted, Err(failure) if failure.status == StatusCode::UNAUTHORIZED);
    if is_refused && auth::has_token(&parts.headers) {
        tracing::warn!(
            path = parts.uri.path(),
            "a request with a wrong token is refused"
        );
        tokio::time::sleep(WRONG_TOKEN_PAUSE).await;
    }
}

/// The response to a request whose body was not read to its end: nothing can follow it on the
/// connection.
fn closing(mut response: Response, parts: &Parts) -> Response {
    if parts.version < Version::HTTP_2 {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
        if let Some(lingering) = parts.extensions.get::<Lingering>() {
            lingering.set();
        }
    }
    response
}

fn path_params(
    path: Result<RawPathParams, RawPathParamsRejection>,
) -> Outcome<Vec<(String, String)>> {
    let path =
        path.map_err(|_| Failure::illegal_argument("the path is not percent-encoded UTF-8"))?;
    let params = path
        .iter()
        .map(|(name, text)| (name.to_owned(), text.to_owned()));
    Ok(params.collect())
}

/// Whether a path parameter is no collection but an API of OpenSearch that is not served here:
/// names of collections never start with `_`.
fn is_api((name, text): &(String, String)) -> bool {
    name == "collection" && text.starts_with('_') && text != "_all"
}

/// Answers a request that no route serves. A caller that is not admitted learns only that.
async fn refuse(
    server: Arc<Server>,
    guard: Guard,
    request: Request,
    failure: impl FnOnce(&Method, &Uri) -> Failure,
) -> Response {
    let (parts, body) = request.into_parts();
    let _share = match share(&server, &parts) {
        Ok(share) => share,
        Err(over) => return too_much(&over, &parts, &server, !body.is_end_stream()),
    };
    let admitted = admit(&parts, &server, guard);
    audited::authentication(audit(&server, guard), &parts, &admitted);
    slow_down(&admitted, &parts).await;
    let failure = match admitted {
        Ok(_) => failure(&parts.method, &parts.uri),
        Err(failure) => failure,
    };
    server
        .requests
        .answered(NO_ROUTE, &parts.method, failure.status, Duration::ZERO);
    let answer = Answer::from(failure);
    let mut response = answer.into_response(&AnswerFormat::default(), &server.buffers);
    let accepted = product::accepted(&parts.headers);
    product::sign(server.options.compat, &mut response, accepted);
    match body.is_end_stream() && framing::check(&parts.headers).is_ok() {
        true => response,
        false => closing(response, &parts),
    }
}

/// The methods that `path` is served with.
fn allowed(path: &str) -> Vec<Method> {
    ROUTES
        .iter()
        .map(|route| &route.endpoint)
        .filter(|endpoint| endpoint.path == path)
        .flat_map(|endpoint| endpoint.methods)
        .cloned()
        .collect()
}

/// A caller that is not admitted does not learn which methods a path has.
fn without_hints(mut response: Response) -> Response {
    if response.status() == StatusCode::UNAUTHORIZED {
        response.headers_mut().remove(header::ALLOW);
    }
    response
}

/// Some clients end paths with a slash, and OpenSearch accepts that.
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

#[cfg(test)]
mod tests;
