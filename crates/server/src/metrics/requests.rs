//! What is counted of HTTP requests.
//!
//! The number of series is bounded: a route is the pattern that matched, a method one of a few, a
//! status one that the server sends.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use parking_lot::Mutex;

use super::exposition::{Exposition, Histogram, counter, histogram};

/// Upper bounds of the latency buckets, in seconds.
const BUCKETS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0,
];

/// What is counted of HTTP requests.
#[derive(Debug, Default)]
pub(crate) struct RequestMetrics {
    bulk_items: AtomicU64,
    bulk_items_failed: AtomicU64,
    routes: Mutex<BTreeMap<&'static str, RouteMetrics>>,
}

#[derive(Debug, Default)]
struct RouteMetrics {
    /// By method and status.
    requests: BTreeMap<(&'static str, u16), u64>,
    /// The number of requests by bucket: at most its bound, and above the bound before it.
    buckets: [u64; BUCKETS.len()],
    requests_all: u64,
    seconds_all: f64,
}

impl RequestMetrics {
    /// Counts the items of a bulk request; `failed` of `done` failed.
    pub(crate) fn bulk_items(&self, done: u64, failed: u64) {
        debug_assert!(failed <= done, "an item that failed is done");
        self.bulk_items.fetch_add(done, Ordering::Relaxed);
        self.bulk_items_failed.fetch_add(failed, Ordering::Relaxed);
    }

    /// Counts a request that was answered.
    pub(crate) fn answered(
        &self,
        route: &'static str,
        method: &Method,
        status: StatusCode,
        took: Duration,
    ) {
        let seconds = took.as_secs_f64();
        let mut routes = self.routes.lock();
        let route = routes.entry(route).or_default();
        *route
            .requests
            .entry((known_method(method), status.as_u16()))
            .or_default() += 1;
        if let Some(bucket) = BUCKETS.iter().position(|bound| seconds <= *bound) {
            route.buckets[bucket] += 1;
        }
        route.requests_all += 1;
        route.seconds_all += seconds;
    }

    /// Requests that were refused because there was too much to do.
    pub(crate) fn rejected(&self) -> u64 {
        let busy = StatusCode::TOO_MANY_REQUESTS.as_u16();
        let routes = self.routes.lock();
        let counts = routes.values().flat_map(|route| &route.requests);
        let rejected = counts.filter(|((_, status), _)| *status == busy);
        rejected.map(|(_, count)| count).sum()
    }

    /// Appends the counts of bulk items as metrics.
    pub(crate) fn render_bulk(&self, text: &mut Exposition) {
        let items = counter(
            "quire_bulk_items_total",
            "Items of bulk requests done or failed",
        );
        text.one(items, self.bulk_items.load(Ordering::Relaxed));
        let failed = counter(
            "quire_bulk_items_failed_total",
            "Items of bulk requests that failed",
        );
        text.one(failed, self.bulk_items_failed.load(Ordering::Relaxed));
    }

    /// Appends the counts by route as metrics.
    pub(crate) fn render_routes(&self, text: &mut Exposition) {
        let routes = self.routes.lock();
        let requests = counter("quire_http_requests_total", "Requests answered");
        text.head(requests);
        for (route, metrics) in routes.iter() {
            for ((method, status), count) in &metrics.requests {
                let labels = [
                    ("route", *route),
                    ("method", *method),
                    ("status", &status.to_string()),
                ];
                text.sample(requests.name, &labels, count);
            }
        }
        let seconds = histogram(
            "quire_http_request_seconds",
            "Time from the head of a request to that of its answer",
        );
        text.head(seconds);
        for (route, metrics) in routes.iter() {
            let histogram = Histogram {
                bounds: &BUCKETS,
                counts: &metrics.buckets,
                all: metrics.requests_all,
                seconds: metrics.seconds_all,
            };
            text.histogram(seconds.name, &[("route", route)], &histogram);
        }
    }
}

/// The label of a method. A client can send any method, so those not known share one label.
fn known_method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::PUT => "PUT",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_route_method_and_status() {
        let metrics = RequestMetrics::default();
        let answered = |method, status, millis| {
            metrics.answered(
                "/{collection}",
                &method,
                status,
                Duration::from_millis(millis),
            );
        };
        answered(Method::GET, StatusCode::OK, 2);
        answered(Method::GET, StatusCode::OK, 100_000);
        answered(
            Method::from_bytes(b"BREW").unwrap(),
            StatusCode::METHOD_NOT_ALLOWED,
            0,
        );
        let mut text = Exposition::default();
        metrics.render_routes(&mut text);
        let text = text.text();
        for line in [
            r#"quire_http_requests_total{route="/{collection}",method="GET",status="200"} 2"#,
            r#"quire_http_requests_total{route="/{collection}",method="other",status="405"} 1"#,
            r#"quire_http_request_seconds_bucket{route="/{collection}",le="0.001"} 1"#,
            r#"quire_http_request_seconds_bucket{route="/{collection}",le="0.0025"} 2"#,
            r#"quire_http_request_seconds_bucket{route="/{collection}",le="60"} 2"#,
            r#"quire_http_request_seconds_bucket{route="/{collection}",le="+Inf"} 3"#,
            r#"quire_http_request_seconds_sum{route="/{collection}"} 100.002"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
