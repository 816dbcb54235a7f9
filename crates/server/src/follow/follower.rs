//! The follower: a thread that copies and follows, beside a server that serves what there is.

use std::fmt::Display;
use std::future::Future;
use std::io::Read;
use std::net::Shutdown;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use parking_lot::Mutex;
use quiredb::operations::{Applied, FollowerDir, Frame, IncomingCopy, Replica};
use quiredb::{Database, DatabaseOptions, Env, Error, ErrorKind, Result};
use serde_json::Value;
use tokio::sync::oneshot;

use super::client::{self, Response};
use super::state::{Doing, Following};
use crate::options::ServerOptions;
use crate::serve::{Listeners, serve_with};
use crate::state::{Server, letter};

/// Files of a copy that are taken at once.
const FILES_AT_ONCE: usize = 4;

/// The leader says something several times a second: after so long without a word it is gone.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The pause before it is tried again, from the first failure on.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Messages that have come and wait to be applied.
const FRAMES_AHEAD: usize = 2;

/// The longest answer that is read whole: what there is to copy.
const PLAN_BYTES_MAX: u64 = 256 << 20;

/// Readers of a copy that was replaced have so long to end.
const GRACE: Duration = Duration::from_secs(10);

/// How a follower is run.
#[derive(Clone)]
pub struct FollowOptions {
    /// The leader, as `http://HOST:PORT`.
    pub leader: String,
    /// What the leader asks of its callers, if it does.
    pub token: Option<String>,
    /// The follower's directory; made if it is absent or empty.
    pub dir: PathBuf,
    /// How its databases are opened.
    pub database: DatabaseOptions,
}

/// Never shows the token.
impl std::fmt::Debug for FollowOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FollowOptions")
            .field("leader", &self.leader)
            .field("token", &self.token.as_ref().map(|_| "(hidden)"))
            .field("dir", &self.dir)
            .field("database", &self.database)
            .finish()
    }
}

/// A follower of a leader, to be served with [`serve_follower`].
pub struct Follower {
    env: Arc<dyn Env>,
    /// `HOST:PORT`.
    address: String,
    token: Option<String>,
    /// Tells its copies from those of other followers, for as long as it runs.
    id: String,
    options: DatabaseOptions,
    dir: FollowerDir,
    replica: Option<Replica>,
    state: Arc<Following>,
    /// Who serves what is copied, once there is something.
    server: Option<Arc<Server>>,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower")
            .field("state", &self.state)
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

impl Follower {
    /// Opens the follower's directory, and the copy in it if there is one.
    ///
    /// # Errors
    /// `Invalid` if the leader's address is none, or the directory holds something else; `Locked`
    /// if another process has it; `Corrupt`, `Full` or `Io`.
    pub fn open(env: Arc<dyn Env>, options: FollowOptions) -> Result<Follower> {
        let address = options
            .leader
            .strip_prefix("http://")
            .map(|rest| rest.trim_end_matches('/'));
        let address = address.filter(|address| address.contains(':') && !address.contains('/'));
        let Some(address) = address else {
            return Err(Error::Invalid(format!(
                "`{}` is no leader: give http://HOST:PORT",
                options.leader
            )));
        };
        let dir = FollowerDir::open(Arc::clone(&env), &options.dir)?;
        let mut id = [0; 16];
        env.random(&mut id);
        let mut follower = Follower {
            env,
            id: id.map(letter).iter().collect(),
            address: address.to_owned(),
            token: options.token,
            options: DatabaseOptions {
                create_if_missing: false,
                retention: false,
                ..options.database
            },
            state: Arc::new(Following::new(format!("http://{address}"))),
            dir,
            replica: None,
            server: None,
        };
        if let Some(path) = follower.dir.current() {
            follower.replica = Some(Replica::new(follower.open_database(path)?));
        }
        Ok(follower)
    }

    fn open_database(&self, path: PathBuf) -> Result<Database> {
        Database::builder(path)
            .env(Arc::clone(&self.env))
            .options(self.options.clone())
            .open()
    }

    /// Copies and follows until it is told to stop, or can't go on.
    fn run(&mut self, mut ready: impl FnMut(&mut Follower)) -> Result<()> {
        let mut pause = PAUSE_FIRST;
        if self.replica.is_some() {
            ready(self);
        }
        while !self.state.is_stopping() {
            let before = self.state.progress();
            let done = match self.replica.is_some() {
                true => self.follow(),
                false => self.copy().map(|()| ready(self)),
            };
            match done {
                Ok(()) => pause = PAUSE_FIRST,
                Err(_) if self.state.is_stopping() => break,
                Err(error) if is_passing(&error) => {
                    if self.state.progress() > before {
                        pause = PAUSE_FIRST;
                    }
                    let text = error.to_string();
                    if self.state.failed(&text) {
                        tracing::warn!("{text}; trying again");
                    }
                    self.env.sleep(pause);
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Follows until the connection ends or the leader no longer has what comes next; then it
    /// starts over.
    fn follow(&mut self) -> Result<()> {
        let Some(replica) = &mut self.replica else {
            return Ok(());
        };
        let hello = replica.hello()?;
        let answer = call(
            &self.address,
            self.token.as_deref(),
            "POST",
            "/_follow",
            &hello,
        )?;
        self.state.connects.fetch_add(1, Ordering::Relaxed);
        let (state, env) = (&self.state, &self.env);
        let socket = answer
            .socket()
            .map_err(|error| unreachable(&self.address, &error))?;
        let ended = std::thread::scope(|threads| {
            let (sender, receiver) = sync_channel(FRAMES_AHEAD);
            threads.spawn(move || {
                let mut answer = answer;
                loop {
                    let frame = Frame::read(&mut answer).transpose();
                    let is_last = !matches!(frame, Some(Ok(_)));
                    if frame.is_none_or(|frame| sender.send(frame).is_err()) || is_last {
                        break;
                    }
                }
            });
            let ended = loop {
                let Ok(frame) = receiver.recv() else {
                    break Err(Error::Leader(format!(
                        "{} ended the connection",
                        state.leader
                    )));
                };
                match frame.and_then(|frame| replica.apply(frame)) {
                    Ok(Applied::StartOver(why)) => break Ok(why),
                    Ok(Applied::Records(records, delay)) => {
                        state.delays.note(delay);
                        state.records.fetch_add(records, Ordering::Relaxed);
                    }
                    Ok(Applied::Other) => {}
                    Err(error) => break Err(error),
                }
                state.does(Doing::Following);
                state.lags(replica.lag(), env.monotonic());
                if state.is_stopping() {
                    break Err(Error::Closed);
                }
            };
            // The other thread may be reading.
            let _ = socket.shutdown(Shutdown::Both);
            drop(receiver);
            ended
        });
        replica.disconnected();
        let why = ended?;
        tracing::warn!(
            "starting over from a new copy of {}: {why}",
            self.state.leader
        );
        self.state.starts_over(&why);
        self.copy()
    }

    /// Takes a copy of the leader, and serves it in place of the one before.
    fn copy(&mut self) -> Result<()> {
        self.state.does(Doing::Copying);
        let (address, token) = (self.address.clone(), self.token.clone());
        let ask = |method: &str, path: &str| call(&address, token.as_deref(), method, path, b"");
        let path = format!("/_follow/copy/{}", self.id);
        let plan = ask("POST", &path)?.text(PLAN_BYTES_MAX);
        let plan = plan.map_err(|error| unreachable(&address, &error))?;
        let copy = self.dir.begin_copy(plan.as_bytes())?;
        let missing = copy.missing()?;
        let (files, bytes) = copy.size();
        tracing::info!(files, bytes, missing = missing.len(), "copying the leader");
        receive_all(&copy, &missing, &self.state, &|index| {
            ask("GET", &format!("{path}/{index}"))
        })?;
        // If it does not hear it, it lets go of the files some time later.
        let _ = ask("DELETE", &path);
        let database = self
            .dir
            .finish_copy(&copy)
            .and_then(|path| self.open_database(path))?;
        self.replica = Some(Replica::new(database.clone()));
        self.state.copies.fetch_add(1, Ordering::Relaxed);
        if let Some(server) = &self.server {
            let before = server.serve_instead(database);
            self.retire(before)?;
        }
        self.dir.remove_older()
    }

    /// Closes a copy that is no longer served, once its readers have ended.
    fn retire(&self, before: Database) -> Result<()> {
        let end = self.env.monotonic().saturating_add(GRACE);
        while !before.is_unshared() && self.env.monotonic() < end {
            self.env.sleep(Duration::from_millis(5));
        }
        before.close()
    }
}

/// Takes the files that are missing, some at once.
fn receive_all(
    copy: &IncomingCopy,
    missing: &[usize],
    state: &Following,
    ask: &(dyn Fn(usize) -> Result<Response> + Sync),
) -> Result<()> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let stop = || state.is_stopping() || failed.lock().is_some();
    let progress = |bytes| {
        state.copied_bytes.fetch_add(bytes, Ordering::Relaxed);
        match stop() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let take_files = || {
        while !stop() {
            let Some(index) = missing.get(next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            let receive = || {
                let mut source: Box<dyn Read> = Box::new(ask(*index)?);
                copy.receive(*index, &mut source, &progress)
            };
            if let Err(error) = receive() {
                failed.lock().get_or_insert(error);
            }
        }
    };
    std::thread::scope(|threads| {
        for _ in 0..FILES_AT_ONCE.min(missing.len()) {
            threads.spawn(take_files);
        }
    });
    match failed.into_inner() {
        Some(error) => Err(error),
        None if state.is_stopping() => Err(Error::Closed),
        None => Ok(()),
    }
}

/// Asks the leader.
fn call(
    address: &str,
    token: Option<&str>,
    method: &str,
    path: &str,
    body: &[u8],
) -> Result<Response> {
    let response = client::request(address, method, path, body, token, TIMEOUT)
        .map_err(|error| unreachable(address, &error))?;
    let status = response.status;
    if (200..300).contains(&status) {
        return Ok(response);
    }
    let body = response.text(1 << 20).unwrap_or_default();
    let json: Value = serde_json::from_str(&body).unwrap_or_default();
    let reason = json["error"]["reason"].as_str().or(json["error"].as_str());
    let reason = reason.unwrap_or(body.trim());
    let what = format!("http://{address} refuses with status {status}: {reason}");
    Err(match status {
        // It will be no other answer the next time.
        400..=403 | 405 => Error::Invalid(what),
        _ => Error::Leader(what),
    })
}

fn unreachable(address: &str, error: &dyn Display) -> Error {
    Error::Leader(format!("no answer from http://{address}: {error}"))
}

/// Whether it is worth trying again.
fn is_passing(error: &Error) -> bool {
    matches!(error, Error::Leader(_)) || error.kind() == ErrorKind::Full
}

/// Serves a follower: copies the leader first if there is no copy yet, and serves then, while it
/// follows. Writes are refused. Else as [`serve`](crate::serve()). The database that was served is
/// closed when it returns.
///
/// # Errors
/// `Diverged` if it is no copy of its leader: nothing is changed; `Invalid` if the leader refuses;
/// `ReadOnly`, `Corrupt` or `Io` if the machine fails; those of [`serve`](crate::serve()).
pub async fn serve_follower(
    mut follower: Follower,
    listeners: impl Into<Listeners>,
    options: ServerOptions,
    shutdown: impl Future<Output = ()>,
) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let state = Arc::clone(&follower.state);
    let (begin, begun) = oneshot::channel::<Arc<Server>>();
    let (end, ended) = oneshot::channel::<()>();
    let server_options = options.clone();
    let following = tokio::task::spawn_blocking(move || {
        let _says_when_it_ends = end;
        let mut begin = Some(begin);
        let result = follower.run(|follower| {
            if let Some((replica, begin)) = follower.replica.as_ref().zip(begin.take()) {
                let (database, following) = (replica.database().clone(), &follower.state);
                let following = Some(Arc::clone(following));
                let server = Arc::new(Server::new(database, server_options.clone(), following));
                follower.server = Some(Arc::clone(&server));
                // Whoever does not wait for it any more has stopped.
                let _ = begin.send(server);
            }
        });
        (result, follower.replica.take())
    });
    let mut shutdown = std::pin::pin!(shutdown);
    let server = tokio::select! {
        () = &mut shutdown => None,
        // It ends too when there will be none.
        server = begun => server.ok(),
    };
    let served = match server {
        Some(server) => {
            let over = async {
                tokio::select! {
                    () = &mut shutdown => {}
                    _ = ended => {}
                }
                state.stopping.store(true, Ordering::Release);
            };
            serve_with(server, listeners.into(), options, over).await
        }
        None => Ok(()),
    };
    state.stopping.store(true, Ordering::Release);
    let (result, replica) = following.await?;
    let close = move || replica.map_or(Ok(()), |replica| replica.database().close());
    let closed = tokio::task::spawn_blocking(close).await?;
    result.and(closed)?;
    Ok(served?)
}
