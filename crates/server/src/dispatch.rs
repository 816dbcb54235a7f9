//! Dispatch: admits a request, finds its route, and turns the outcome into a response.

use std::convert::Infallible;
use std::net::IpAddr;
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
use serde_json::{Value, json};
use tower::{ServiceExt as _, service_fn};

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
use crate::limits::{Caller, Over, Share};
use crate::net::idle::InService;
use crate::net::lingering::Lingering;
use crate::routes::{ROUTES, Route};
use crate::slow::{CpuTime, SlowRequest};
use crate::state::Server;
use crate::tasks::answering::until_sent;
use crate::tasks::registry::Running;
use crate::tasks::task::Scanned;

/// The label of requests that no route serves, in the metrics.
const NO_ROUTE: &str = "none";

/// The pause before the answer to a wrong token.
const WRONG_TOKEN_PAUSE: Duration = Duration::from_millis(500);

/// The status in the logs of a request whose client went away before it was answered. What it
/// wanted may be done all the same.
const CLIENT_GONE: u16 = 499;

/// When a client is to come again for which there was no room.
const RETRY_SECONDS: u64 = 1;

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

/// Routes, and what answers requests that have none.
#[derive(Clone)]
pub(crate) struct Routes(Router);

impl Routes {
    /// All routes.
    pub(crate) fn all(server: Arc<Server>) -> Routes {
        Routes(service(server, Guard::Tokens, ROUTES.iter()))
    }

    /// Metrics and health, which need no token.
    pub(crate) fn of_metrics(server: Arc<Server>) -> Routes {
        let is_monitored = |route: &&Route| MONITORED.contains(&route.endpoint.path);
        let routes = ROUTES.iter().filter(is_monitored);
        Routes(service(server, Guard::Open, routes))
    }

    /// Answers a request.
    pub(crate) async fn answer(self, request: Request) -> Result<Response, Infallible> {
        let answered = self.0.oneshot(without_last_slash(request));
        answered.await.map(without_hints)
    }

    /// As a router.
    pub(crate) fn into_router(self) -> Router {
        Router::new().fallback_service(service_fn(move |request| self.clone().answer(request)))
    }
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
    router
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
        })
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
        Err(over) => {
            audited::limited(audit(server, guard), &parts, None);
            return too_much(&over, &parts, server, is_body_left);
        }
    };
    let admitted = admit(&parts, server, guard);
    let audit = audit(server, guard);
    audited::authentication(audit, &parts, &admitted);
    slow_down(&admitted, &parts, server).await;
    let in_service = parts.extensions.get::<Arc<InService>>();
    if let Ok(grant) = &admitted {
        if let Some(in_service) = in_service {
            in_service.admit();
        }
        if guard == Guard::Tokens
            && let Err(over) = share.admitted(grant)
        {
            audited::limited(audit, &parts, Some(grant));
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
    let running = Arc::new(server.begin_task(&route.endpoint, &parts, &grant));
    let cpu = CpuTime::default();
    running.set_cpu(&cpu);
    let mut noted = Noted {
        server,
        route,
        parts: &parts,
        audit,
        by: Arc::clone(&grant),
        task: Arc::clone(&running),
        begun,
        cpu: cpu.clone(),
        status: None,
    };
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
    let (format, answer) = match checked(server, route, &parts, path, call) {
        Ok(call) => {
            let format = call.format.clone();
            let caller = Caller::new(running.request.client(), Arc::clone(&share));
            let answer = tokio::select! {
                biased;
                answer = caller.of(cpu.of((route.handler)(server, call))) => answer,
                // Work that the handler has begun ends as when its caller goes away.
                () = running.cancelled() => Err(running.failure()),
            };
            (format, answer)
        }
        Err(failure) => (AnswerFormat::default(), Err(failure)),
    };
    if matches!(&answer, Err(failure) if failure.is_forbidden()) {
        audited::refused(audit, &parts, &noted.by);
    }
    let mut response = answer
        .unwrap_or_else(Answer::from)
        .into_response(&format, &server.buffers);
    say_when(&mut response);
    noted.status = Some(response.status());
    drop(noted);
    let response = until_sent(response, running).map(|body| Metered::body(body, share, None));
    match rest.drain().await {
        true => response,
        false => closing(response, &parts),
    }
}

/// The answer to a request whose body is not read.
fn without_body(failure: Failure, parts: &Parts, server: &Server, is_body_left: bool) -> Response {
    let answer = Answer::from(failure);
    let mut response = answer.into_response(&AnswerFormat::default(), &server.buffers);
    say_when(&mut response);
    match is_body_left {
        true => closing(response, parts),
        false => response,
    }
}

/// Tells a client for which there was no room when to come again.
fn say_when(response: &mut Response) {
    if response.status() == StatusCode::TOO_MANY_REQUESTS {
        let seconds = HeaderValue::from(RETRY_SECONDS);
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
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

/// A request that is noted in the logs once it is answered, or is dropped because its client went
/// away.
struct Noted<'a> {
    server: &'a Server,
    route: &'a Route,
    parts: &'a Parts,
    audit: Option<&'a Audit>,
    by: Arc<AuditedGrant>,
    task: Arc<Running>,
    /// When it began, by the monotonic clock.
    begun: Duration,
    cpu: CpuTime,
    /// None as long as there is no answer.
    status: Option<StatusCode>,
}

impl Noted<'_> {
    /// Notes a request that took long until its answer began, or its client went away.
    fn note_if_slow(&self, status: StatusCode) {
        let Some(log) = &self.server.options.slow_log else {
            return;
        };
        let now = self.server.engine.now();
        let took = now.saturating_sub(self.begun);
        if !log.is_slow(took) || self.route.endpoint.waits() {
            return;
        }
        let cpu_micros = self.cpu.spent().as_micros();
        let slow = SlowRequest {
            protocol: "http",
            address: self.task.request.address,
            token: &self.task.request.token,
            request: self.task.description(),
            status: Some(status.as_u16()),
            took_millis: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            cpu_micros: Some(u64::try_from(cpu_micros).unwrap_or(u64::MAX)),
            plan: self.plan(),
        };
        log.note(&slow, now);
    }
}

impl Noted<'_> {
    /// How the request found its documents.
    fn plan(&self) -> Option<Value> {
        if let Some(plan) = self.task.plan() {
            return Some(explain_json(&plan));
        }
        let Scanned { read, matched } = self.task.scanned()?;
        Some(json!({"scan": {"order": "_id", "read": read, "matched": matched}}))
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        // The code of nginx for this; each number from 100 to 999 is a status.
        let gone = StatusCode::from_u16(CLIENT_GONE).unwrap_or_default();
        let status = self.status.unwrap_or(gone);
        self.note_if_slow(status);
        if self.route.endpoint.is_audited(&self.parts.method) {
            audited::admin(self.audit, self.parts, &self.by, status);
        }
    }
}

/// What the request's client takes is counted from now on.
fn share(server: &Server, parts: &Parts) -> Result<Share, Over> {
    server.limits.begin(address(parts))
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
        Guard::Tokens => {
            let admitted = auth::admit(parts, &server.access);
            let name = admitted.as_ref().ok().map(|grant| grant.name.as_str());
            let guesses = &server.access.guesses;
            if auth::has_token(&parts.headers) && guesses.are_too_many(address(parts), name) {
                // Whether it is right is not told.
                return Err(Failure::too_many_requests(
                    "this address sent too many wrong tokens: send it again later",
                ));
            }
            admitted
        }
        Guard::Open => Ok(Arc::new(Grant::reader())),
    }
}

/// The address of a request's client; none if the server is called in process.
fn address(parts: &Parts) -> Option<IpAddr> {
    let peer = parts.extensions.get::<Peer>();
    Some(peer?.address?.ip())
}

/// Where it is noted who was admitted: nobody is on a port that is open.
fn audit(server: &Server, guard: Guard) -> Option<&Audit> {
    let audit = server.options.audit.as_ref();
    audit.filter(|_| guard == Guard::Tokens)
}

/// Waits before the answer to a wrong token, so that tokens can't be tried fast.
async fn slow_down(admitted: &Outcome<Arc<Grant>>, parts: &Parts, server: &Server) {
    let is_refused = matches!(admitted, Err(failure) if failure.status == StatusCode::UNAUTHORIZED);
    if is_refused && auth::has_token(&parts.headers) {
        tracing::warn!(
            path = parts.uri.path(),
            "a request with a wrong token is refused"
        );
        let _guess = server.access.guesses.begin(address(parts));
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
        Err(over) => {
            audited::limited(audit(&server, guard), &parts, None);
            return too_much(&over, &parts, &server, !body.is_end_stream());
        }
    };
    let admitted = admit(&parts, &server, guard);
    audited::authentication(audit(&server, guard), &parts, &admitted);
    slow_down(&admitted, &parts, &server).await;
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
