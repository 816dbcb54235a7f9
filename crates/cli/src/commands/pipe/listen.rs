//! The address where a run serves its metrics (`/metrics`) and its health (`/health`).

use super::lanes::Lanes;
use crate::error::{Error, Result};
use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";

/// Connections at once, and how long one may last.
const CONNECTIONS_MAX: usize = 32;
const CONNECTION_MAX: Duration = Duration::from_secs(30);

/// The pause after the system could not accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves on an address, by a thread of its own until the process ends. Returns the address, with
/// the port that was chosen if it had 0.
///
/// # Errors
/// If it can't be listened on.
pub(super) fn listen(address: &str, lanes: Arc<Lanes>) -> Result<SocketAddr> {
    let failed = |error| Error::Failed(format!("cannot listen on {address}: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let listener = runtime
        .block_on(TcpListener::bind(address))
        .map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let health = Arc::clone(&lanes);
    let router = Router::new()
        .route("/metrics", get(async move || metrics(&lanes)))
        .route("/health", get(async move || self::health(&health)));
    thread::Builder::new()
        .name("metrics".to_owned())
        .spawn(move || runtime.block_on(accept(&listener, &router)))
        .map_err(failed)?;
    Ok(bound)
}

fn metrics(lanes: &Lanes) -> impl IntoResponse + use<> {
    ([(CONTENT_TYPE, TEXT)], lanes.metrics())
}

fn health(lanes: &Lanes) -> impl IntoResponse + use<> {
    let (is_well, answer) = lanes.health();
    let status = match is_well {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, [(CONTENT_TYPE, JSON)], format!("{answer}\n"))
}

async fn accept(listener: &TcpListener, router: &Router) {
    let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&free).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let builder = Builder::new(TokioExecutor::new()).http1_only();
            let served = builder.serve_connection(TokioIo::new(stream), service);
            // A client that went away, or stayed for too long, is none of the pipe's business.
            let _ = timeout(CONNECTION_MAX, served).await;
            drop(place);
        });
    }
}
